//! I2 and I15 of what messages say: what is granted or lies in Redis was published, once, by a
//! request that may have run, and is what was in force then.

use std::collections::HashMap;

use super::found::Found;
use super::life::Life;
use super::run::{AT_THE_END, Look, Run, member};
use crate::proof::history::{Ms, OnDuplicate, Outcome, What};

/// What of a message's contents an op tells.
enum Source {
    /// It may have put them there.
    May,
    /// It did something else with them.
    Not,
}

pub(super) fn check(run: &Run, found: &mut Found) {
    // payload → ids and members that were seen with it
    let mut owners: HashMap<&str, Vec<String>> = HashMap::new();
    let mut own = |payload, member: String| {
        let owners: &mut Vec<String> = owners.entry(payload).or_default();
        if !owners.contains(&member) {
            owners.push(member);
        }
    };
    for (at, life) in run.lives.iter().enumerate() {
        for held in &life.held {
            let payload = held.grant.payload.as_str();
            let look = Look { sent: held.at.0, answered: held.at.1 };
            seen(run, found, at, payload, look);
            own(payload, member(life.id));
        }
    }
    for (member, payload) in &run.audit.bodies {
        own(payload, member.clone());
        match run.by_member.get(member) {
            Some(at) => seen(run, found, *at, payload, AT_THE_END),
            None => unclaimed(run, found, member, payload),
        }
    }
    for (payload, members) in owners.iter().filter(|(_, members)| members.len() > 1) {
        let allowed = run.sources.get(payload).map_or(0, |sources| makers(run, sources));
        if members.len() > allowed.max(1) {
            let what = format!("I15 never sent again: {payload} became {members:?}");
            found.say(run.by_member.get(&members[0]).copied(), what);
        }
    }
}

/// How many messages these publishes may have made: one, unless something was forgotten, or they
/// lie so far apart that an idempotency key has ended between them.
fn makers(run: &Run, sources: &[usize]) -> usize {
    let may = |at: &&usize| run.ops[**at].bare().may_have_run();
    let made: Vec<&usize> = sources.iter().filter(may).collect();
    let (first, last) = (made.first(), made.last());
    let (Some(first), Some(last)) = (first, last) else { return 0 };
    let forgotten = made.iter().any(|at| run.forgotten(**at) != Ms::MAX);
    if forgotten || super::idempotency::apart(run, **first, **last) { made.len() } else { 1 }
}

/// A client saw this message with this payload.
fn seen(run: &Run, found: &mut Found, at: usize, payload: &str, look: Look) {
    let life = &run.lives[at];
    let sources: &[usize] = run.sources.get(payload).map_or(&[], Vec::as_slice);
    let mut reasons = Vec::new();
    for &source in sources {
        match told(run, life, source) {
            Source::May => match stale(run, life, source, look) {
                None => return,
                Some(why) => reasons.push(why),
            },
            Source::Not => reasons.push(explain(run, life, source, payload)),
        }
    }
    match reasons.pop() {
        None => found
            .say(Some(at), format!("I2 no invention: nobody published {payload} ({})", life.id)),
        Some(why) => found.say(Some(at), why),
    }
}

/// A message that no answer names: its publish was of unknown outcome.
fn unclaimed(run: &Run, found: &mut Found, member: &str, payload: &str) {
    let sources: &[usize] = run.sources.get(payload).map_or(&[], Vec::as_slice);
    let nobody = Life::of(member);
    let unknown = |at: &&usize| {
        run.publish(**at).is_some_and(|publish| publish.outcome == Outcome::Unknown)
            || matches!(run.ops[**at].what, What::Update { outcome: Outcome::Unknown, .. })
    };
    if sources.iter().any(|at| unknown(&at)) {
        return;
    }
    match sources.last() {
        None => found.say(None, format!("I2 no invention: nobody published {payload} ({member})")),
        // A change of a message whose publish has no answer.
        Some(at) => found.say(None, explain(run, &nobody, *at, payload)),
    }
}

fn told(run: &Run, life: &Life, source: usize) -> Source {
    let op = &run.ops[source];
    let may = match &op.what {
        What::Update { id, outcome, .. } => id == life.id && outcome.may_have_run(),
        What::Publish(publish) => match &publish.outcome {
            Outcome::Ok(published) if published.id == life.id => {
                !published.duplicate
                    || publish.on_duplicate == OnDuplicate::Replace
                    || publish.idempotency_key.is_some()
            }
            Outcome::Unknown => {
                let replaces = publish.on_duplicate == OnDuplicate::Replace
                    && life.key.is_none_or(|key| publish.key.as_deref() == Some(key.name));
                life.births.is_empty() || replaces
            }
            _ => false,
        },
        _ => false,
    };
    if may { Source::May } else { Source::Not }
}

/// Why this source cannot be what was seen then: it came later, or was superseded before.
fn stale(run: &Run, life: &Life, source: usize, look: Look) -> Option<String> {
    let (sent, until) = run.effect(source);
    if sent > look.answered {
        return Some(format!("I2 no invention: {} has what was only sent at {sent}", life.id));
    }
    let replaced = life.claims.iter().filter(|at| {
        run.publish(**at).is_some_and(|publish| {
            publish.on_duplicate == OnDuplicate::Replace && publish.idempotency_key.is_none()
        })
    });
    let updated = life
        .updates
        .iter()
        .filter(|at| matches!(&run.ops[**at].what, What::Update { payload: Some(_), .. }));
    let newer = replaced.chain(updated).find(|at| {
        let op = &run.ops[**at];
        op.sent > until && op.answered <= look.sent && run.in_force(**at, look)
    })?;
    let at = run.ops[*newer].answered;
    Some(format!("I2 no invention: {} has a payload that was replaced by {at}", life.id))
}

/// What is wrong with a message that has what this op said.
fn explain(run: &Run, life: &Life, source: usize, payload: &str) -> String {
    let (op, id) = (&run.ops[source], life.id);
    match (op.bare(), &op.what) {
        (Outcome::Refused(_, code), _) => {
            format!("I2 no invention: {payload} was refused ({code})")
        }
        (Outcome::Never, _) => {
            format!("I15 never ran: {payload} is there after redis_unavailable")
        }
        (_, What::Publish(publish)) => match &publish.outcome {
            Outcome::Ok(published) if published.duplicate => format!(
                "I2 no invention: {payload} is in {id}; it was answered with {} as a duplicate",
                published.id
            ),
            Outcome::Ok(published) => {
                let swapped = life
                    .births
                    .iter()
                    .any(|at| run.publish(*at).is_some_and(|publish| publish.payload != payload));
                let name = if swapped { "I15 own outcome" } else { "I2 no invention" };
                format!("{name}: {payload} of {} is in {id} too", published.id)
            }
            _ => format!("I2 no invention: {payload} is in {id}, which another publish made"),
        },
        _ => format!("I2 no invention: {payload} was meant for another message than {id}"),
    }
}
