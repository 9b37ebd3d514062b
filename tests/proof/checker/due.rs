//! I3: no grant before the due time in force, on Redis's clock; and the due times themselves are
//! Redis's, as every instant is.

use super::clock::SLACK;
use super::found::Found;
use super::life::{Life, use_of};
use super::run::Run;
use crate::proof::history::{Back, Ms, Nacked, OnDuplicate, Op, Outcome, Publish, Seen, What};

/// What an instant may be off by from what this machine's clock says.
const DRIFT: Ms = 3 * SLACK;

/// Something that says when the message falls due.
struct Due {
    at: usize,
    due: Ms,
    /// It is before all grants, or before those of a later attempt.
    before_attempt: Option<i64>,
}

pub(super) fn check(run: &Run, found: &mut Found) {
    for (at, life) in run.lives.iter().enumerate() {
        let dues = dues(run, life);
        let movers = movers(run, life);
        for (held, index) in life.held.iter().zip(0..) {
            if held.grant.granted_at < held.grant.due_at && !stepped(run, life, index) {
                let (due, granted) = (held.grant.due_at, held.grant.granted_at);
                let what = format!("{} due {due}, granted {granted}", life.id);
                found.say(Some(at), format!("I3 never early: {what}"));
                continue;
            }
            let early = dues.iter().find(|due| binds(run, life, due, index, &movers));
            if let Some(due) = early {
                let (due, granted) = (due.due, held.grant.granted_at);
                let what = format!("{} due {due}, granted {granted}", life.id);
                found.say(Some(at), format!("I3 never early: {what}"));
            }
        }
        unknown_birth(run, life, at, &movers, found);
        outlived(run, life, at, found);
    }
    for op in run.ops {
        instants(run, op, found);
    }
}

/// Was Redis's clock set back between the publish and this grant?
fn stepped(run: &Run, life: &Life, index: usize) -> bool {
    let born = life.birth.map_or(Ms::MIN / 4, |birth| birth.sent);
    run.clock.set_back(born, life.held[index].at.1)
}

/// Does the rate of its group say when a message may go?
fn is_paced(run: &Run, publish: &Publish) -> bool {
    publish.group.as_ref().is_some_and(|group| run.group_rules(group).rate_per_s.is_some())
}

fn dues(run: &Run, life: &Life) -> Vec<Due> {
    let mut dues = Vec::new();
    for &at in life.births.iter().chain(&life.claims) {
        let Some(publish) = run.publish(at) else { continue };
        let Some(published) = publish.outcome.ok() else { continue };
        // At a group's rate, the answer has a plan: it is sooner where those before leave without a grant.
        let due = match is_paced(run, publish) {
            true => {
                run.clock.lowest(run.ops[at].sent, run.ops[at].answered) - DRIFT + publish.delay
            }
            false => published.due_at,
        };
        if !published.duplicate {
            dues.push(Due { at, due, before_attempt: Some(0) });
        } else if publish.on_duplicate == OnDuplicate::Replace && publish.idempotency_key.is_none()
        {
            dues.push(Due { at, due, before_attempt: None });
        }
    }
    for &at in &life.uses {
        let op = &run.ops[at];
        let What::Nack { token, outcome: Outcome::Ok(Nacked { due_at: Some(due), .. }), .. } =
            &op.what
        else {
            continue;
        };
        let attempt = life.grant_of(token).map(|held| life.held[held].grant.attempt);
        dues.push(Due { at, due: *due, before_attempt: attempt });
    }
    for &at in &life.looks {
        let seen = seen_by(&run.ops[at]);
        if let Some(Seen { due_at: Some(due), state, .. }) = seen
            && (state == "delayed" || state == "ready")
        {
            dues.push(Due { at, due: *due, before_attempt: None });
        }
    }
    dues
}

/// What an op that asks about a message was told.
pub(super) fn seen_by(op: &Op) -> Option<&Seen> {
    match &op.what {
        What::Update { outcome, .. }
        | What::Redrive { outcome, .. }
        | What::Get { outcome, .. } => outcome.ok(),
        _ => None,
    }
}

/// Something that may have set another due time.
struct Mover {
    at: usize,
    sent: Ms,
    until: Ms,
    /// The earliest that it may have set.
    due: Ms,
}

fn movers(run: &Run, life: &Life) -> Vec<Mover> {
    let claims = life.claims.iter().filter_map(|at| {
        let publish = run.publish(*at)?;
        let published = publish.outcome.ok()?;
        let replaces = publish.on_duplicate == OnDuplicate::Replace;
        replaces.then_some((*at, publish.delay, published.due_at))
    });
    let updates = life.updates.iter().filter_map(|at| match &run.ops[*at].what {
        What::Update { delay: Some(delay), .. } => Some((*at, *delay, Ms::MAX)),
        _ => None,
    });
    let mover = |(at, delay, due): (usize, Ms, Ms)| {
        let (sent, until) = run.effect(at);
        let due = due.min(run.clock.lowest(sent, until) + delay);
        Mover { at, sent, until, due }
    };
    claims.chain(updates).map(mover).collect()
}

/// The earliest due time in force, of a grant at `until`, if this op set or saw it as `due` and
/// others may have moved it since.
fn in_force(run: &Run, life: &Life, movers: &[Mover], at: usize, due: Ms, until: Ms) -> Ms {
    let sent = run.ops[at].sent;
    if life.may_be_replaced_unseen(run, sent, until) {
        return Ms::MIN;
    }
    let between = movers.iter().filter(|m| m.at != at && m.sent <= until && m.until >= sent);
    between.fold(due, |due, mover| due.min(mover.due))
}

/// Does this due time bind this grant, which came before it?
fn binds(run: &Run, life: &Life, due: &Due, index: usize, movers: &[Mover]) -> bool {
    let held = &life.held[index];
    if held.grant.granted_at >= due.due {
        return false;
    }
    let op = &run.ops[due.at];
    // A grant meanwhile was held against it; what came back from that has another due time.
    let since = index.checked_sub(1).map(|before| life.held[before].at.1);
    if due.before_attempt.is_none() && since.is_some_and(|granted| granted >= op.sent) {
        return false;
    }
    let before = op.answered <= held.at.0
        // Attempts start over where a loss took some: then a later nack says nothing of them.
        || due
            .before_attempt
            .is_some_and(|attempt| held.grant.attempt > attempt && op.sent <= held.at.1);
    let look = super::run::Look { sent: held.at.0, answered: held.at.1 };
    before
        && run.in_force(due.at, look)
        && held.grant.granted_at < in_force(run, life, movers, due.at, due.due, held.at.1)
        && !run.clock.set_back(op.sent, held.at.1)
}

/// The answer to its publish was lost: it ran after it was sent.
fn unknown_birth(run: &Run, life: &Life, at: usize, movers: &[Mover], found: &mut Found) {
    let Some(birth) = life.birth.filter(|_| life.births.is_empty()) else { return };
    for held in &life.held {
        let early = held.grant.granted_at < birth.due && !run.clock.set_back(birth.sent, held.at.1);
        let moved = movers.iter().any(|mover| mover.sent <= held.at.1)
            || life.may_be_replaced_unseen(run, birth.sent, held.at.1);
        if early && !moved {
            let (due, granted) = (birth.due, held.grant.granted_at);
            let what = format!("{} due {due} at the earliest, granted {granted}", life.id);
            found.say(Some(at), format!("I3 never early: {what}"));
        }
    }
}

/// No grant of a message that has outlived its time to live.
fn outlived(run: &Run, life: &Life, at: usize, found: &mut Found) {
    let Some(birth) = life.birth.filter(|_| life.births.len() == 1) else { return };
    // At a group's rate, it begins when the message may go.
    let publish = life.births.first().and_then(|at| run.publish(*at));
    let ttl = publish.filter(|publish| !is_paced(run, publish)).and_then(|publish| publish.ttl);
    let Some(ttl) = ttl else { return };
    // A grant at the last moment shows this instant, rounded up.
    let expires = birth.due + ttl;
    for held in life.held.iter().filter(|held| held.grant.granted_at > expires) {
        let restarted = !movers(run, life).is_empty()
            || life.may_be_redriven(run, birth.sent, held.at.1)
            || life.may_be_replaced_unseen(run, birth.sent, held.at.1);
        if !restarted {
            let granted = held.grant.granted_at;
            let what =
                format!("{} granted {granted}, its time to live was over at {expires}", life.id);
            found.say(Some(at), format!("the contract: {what}"));
        }
    }
}

/// Every instant of an answer is Redis's, of a moment between its request and its answer.
fn instants(run: &Run, op: &Op, found: &mut Found) {
    let (sent, answered) = (op.sent, op.answered);
    let earliest = run.clock.lowest(sent, answered) - DRIFT;
    let latest = run.clock.highest(sent, answered) + DRIFT;
    let mut within = |what: &str, id: &str, instant: Ms, after: Ms| {
        if instant < earliest + after || instant > latest + after {
            let (from, until) = (earliest + after, latest + after);
            let what =
                format!("{id} {what} {instant}, by Redis's clock it is within {from}…{until}");
            found.say(run.by_id.get(id).copied(), format!("I3 never early: {what}"));
        }
    };
    match &op.what {
        What::Publish(publish) => {
            let replaces =
                publish.on_duplicate == OnDuplicate::Replace && publish.idempotency_key.is_none();
            if let Some(published) = publish.outcome.ok()
                && (!published.duplicate || replaces)
                && !is_paced(run, publish)
            {
                within("due", &published.id, published.due_at, publish.delay);
            }
        }
        What::Lease { outcome: Outcome::Ok(grants), .. } => {
            grants.iter().for_each(|g| within("granted", &g.id, g.granted_at, 0));
        }
        What::Nack { back, delay, outcome: Outcome::Ok(nacked), .. } => {
            let id = use_of(op).map_or("", |(id, _)| id);
            match (nacked.due_at, delay, back) {
                (Some(due), Some(delay), Back::Failed | Back::Released)
                    if nacked.state != "expired" =>
                {
                    within("due after a nack", id, due, *delay);
                }
                (Some(due), None, Back::Released) if nacked.state != "expired" => {
                    within("due after a release", id, due, 0);
                }
                (Some(due), None, Back::Failed) if due < earliest => within("due", id, due, 0),
                _ => {}
            }
        }
        What::Update {
            id,
            delay: Some(delay),
            outcome: Outcome::Ok(Seen { due_at: Some(due), .. }),
            ..
        } => {
            within("due after an update", id, *due, *delay);
        }
        What::Redrive { id, outcome: Outcome::Ok(Seen { due_at: Some(due), .. }) }
            if run.rules.groups.rate_per_s.is_none() =>
        {
            within("due after a redrive", id, *due, 0);
        }
        _ => {}
    }
}
