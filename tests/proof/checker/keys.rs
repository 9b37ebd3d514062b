//! I10: at most one live message holds a key, a publish that finds it names that one, and what has
//! ended holds it no more.

use std::collections::HashMap;

use super::clock::SLACK;
use super::found::Found;
use super::life::{Life, NEVER};
use super::run::{Look, Run};
use super::windows::Windows;
use crate::proof::history::{Ms, Nacked, OnDuplicate, Outcome, What};

#[derive(Default)]
struct Key {
    /// Messages that were published with it.
    lives: Vec<usize>,
    /// When publishes of unknown outcome may have made messages that hold it.
    unseen: Vec<(Ms, Ms)>,
    /// Publishes that were answered: refused, or with a message that was there.
    met: Vec<usize>,
}

pub(super) fn check(run: &Run, found: &mut Found) {
    let mut keys: HashMap<&str, Key> = HashMap::new();
    for (at, life) in run.lives.iter().enumerate() {
        if let Some(key) = life.key {
            keys.entry(key.name).or_default().lives.push(at);
        }
    }
    for (at, op) in run.ops.iter().enumerate() {
        let Some(publish) = run.publish(at) else { continue };
        let Some(key) = publish.key.as_deref() else { continue };
        match &publish.outcome {
            Outcome::Unknown => keys.entry(key).or_default().unseen.push((op.sent, NEVER)),
            Outcome::Ok(published) if published.duplicate => {
                keys.entry(key).or_default().met.push(at);
            }
            Outcome::Refused(..) => keys.entry(key).or_default().met.push(at),
            _ => {}
        }
    }
    let mut names: Vec<&&str> = keys.keys().collect();
    names.sort_unstable();
    for name in names {
        let key = &keys[*name];
        one_at_a_time(run, name, key, found);
        names_it(run, name, key, found);
    }
}

/// Of no two messages is it certain that they held the key at the same time.
fn one_at_a_time(run: &Run, name: &str, key: &Key, found: &mut Found) {
    let span =
        |at: &usize| holds_surely(run, &run.lives[*at]).map(|(from, until)| (from, until, *at));
    let mut spans: Vec<(Ms, Ms, usize)> = key.lives.iter().filter_map(span).collect();
    spans.sort_unstable();
    redriven(run, name, key, &spans, found);
    let mut last: Option<(Ms, usize)> = None;
    for (from, until, at) in spans {
        if let Some((end, other)) = last.filter(|(end, _)| from < *end) {
            let ids = (run.lives[other].id, run.lives[at].id);
            let what = format!("{name} is held by {} until {end}, by {} from {from}", ids.0, ids.1);
            found.say(Some(other), format!("I10 keys: {what}"));
        }
        if last.is_none_or(|(end, _)| until > end) {
            last = Some((until, at));
        }
    }
}

/// No dead message comes back while another holds its key.
fn redriven(run: &Run, name: &str, key: &Key, spans: &[(Ms, Ms, usize)], found: &mut Found) {
    let held = Windows::new(spans.iter().map(|(from, until, _)| (*from, *until)).collect());
    for &at in &key.lives {
        let life = &run.lives[at];
        if life.key.is_some_and(|key| key.until_granted.0) {
            continue; // its grant freed it for good
        }
        let ok = life.redrives.iter().filter(|one| run.ops[**one].bare().is_ok());
        for op in ok.map(|one| &run.ops[*one]) {
            if held.latest_end(op.sent).is_some_and(|end| end > op.answered) {
                let what = format!("{} came back at {}, {name} was held", life.id, op.answered);
                found.say(Some(at), format!("I10 keys: {what}"));
            }
        }
    }
}

/// From when until when this message holds its key for certain.
fn holds_surely(run: &Run, life: &Life) -> Option<(Ms, Ms)> {
    let birth = life.birth.filter(|birth| birth.certain < NEVER && birth.forgotten == Ms::MAX)?;
    let (until_granted, _) = life.key?.until_granted;
    let from = birth.certain;
    let mut until = life.may_end.min(life.may_be_buried);
    let shorten = |until: &mut Ms, at: Option<Ms>| *until = (*until).min(at.unwrap_or(NEVER));
    shorten(&mut until, run.purges.first_from(birth.sent));
    shorten(&mut until, run.lost.first_from(birth.sent));
    if until_granted {
        shorten(&mut until, run.returned.first_from(birth.sent));
    }
    let last = life.held.iter().find(|held| held.grant.attempts_left == 0 || until_granted);
    shorten(&mut until, last.map(|held| held.at.0));
    if birth.expires < NEVER {
        // Kept simple: a clock that was set may end it sooner.
        let expires = if run.clock.stepped() { from } else { birth.expires };
        until = until.min(expires);
    }
    if run.rules.expires || run.rules.drops_oldest {
        return None;
    }
    // That it was granted later shows that it lived until then, unless it was dead in between.
    let redriven = life.may_be_redriven(run, birth.sent, NEVER);
    let seen = life.held.last().map(|held| held.at.0);
    if let Some(seen) = seen.filter(|_| !until_granted && !redriven) {
        until = until.max(seen);
    }
    (until > from).then_some((from, until))
}

/// From when until when this message may hold its key.
fn may_hold(run: &Run, life: &Life) -> (Ms, Ms) {
    let from = life.birth.map_or(Ms::MIN / 2, |birth| birth.sent);
    let Some(key) = life.key else { return (from, NEVER) };
    let redriven = !life.redrives.is_empty() || !run.redrives.is_empty();
    let firm = |at: &&usize| run.forgotten(**at) == Ms::MAX;
    let ended = |at: &usize| run.ops[*at].answered;
    // What was acked or deleted holds no key any more; what is dead may come back.
    let end = life.ends.iter().filter(firm).map(ended).min().unwrap_or(NEVER);
    let granted = life.held.first().filter(|held| key.until_granted.1 && held.forgotten == Ms::MAX);
    let granted = granted.map_or(NEVER, |held| held.at.1);
    let died = life.held.iter().filter_map(|held| died(run, held)).min();
    let died = died.filter(|_| !redriven).unwrap_or(NEVER);
    (from, end.min(granted).min(died))
}

/// When this grant's end made the message dead, for certain.
fn died(run: &Run, held: &super::held::Held) -> Option<Ms> {
    let buried = held.enders.iter().filter(|at| {
        let dead = matches!(&run.ops[**at].what,
            What::Nack { outcome: Outcome::Ok(Nacked { state, .. }), .. } if state == "dead");
        dead && run.forgotten(**at) == Ms::MAX
    });
    let buried = buried.map(|at| run.ops[*at].answered).min();
    let last = held.grant.attempts_left == 0 && !held.released.1 && held.forgotten == Ms::MAX;
    // On this machine's clock: the lease lasts as long there, unless a step ends it sooner.
    let over = held.at.1 + (held.end_possible - held.grant.granted_at) + SLACK;
    let stepped = run.clock.set_back(held.at.0, over);
    buried.or((last && !stepped).then_some(over))
}

/// A publish that met the key met a message that may hold it.
fn names_it(run: &Run, name: &str, key: &Key, found: &mut Found) {
    let mut spans: Vec<(Ms, Ms)> =
        key.lives.iter().map(|at| may_hold(run, &run.lives[*at])).collect();
    spans.extend(&key.unseen);
    let held = Windows::new(spans);
    for &at in &key.met {
        let (op, Some(publish)) = (&run.ops[at], run.publish(at)) else { continue };
        if publish.idempotency_key.is_some() {
            continue; // it may have answered for that
        }
        let look = Look::from(op);
        match &publish.outcome {
            Outcome::Ok(published) => {
                let life = run.by_id.get(published.id.as_str()).copied();
                let Some(other) = life.map(|at| &run.lives[at]) else { continue };
                let what = match other.key {
                    _ if other.births.is_empty() => continue,
                    Some(key) if key.name == name => {
                        let (from, until) = may_hold(run, other);
                        let never = until < look.sent || from > look.answered;
                        never.then(|| {
                            format!("{name} was answered with {}, which has ended", other.id)
                        })
                    }
                    _ => Some(format!("{name} was answered with {}, of another key", other.id)),
                };
                if let Some(what) = what {
                    found.say(life, format!("I10 keys: {what}"));
                }
            }
            Outcome::Refused(_, code)
                if (code == "duplicate_key" || code == "message_leased")
                    && !held.touch(look.sent, look.answered) =>
            {
                let verb =
                    if publish.on_duplicate == OnDuplicate::Reject { "reject" } else { "replace" };
                let what =
                    format!("{name} ({verb}) refused with {code} at {}, nobody holds it", op.sent);
                found.say(key.lives.last().copied(), format!("I10 keys: {what}"));
            }
            _ => {}
        }
    }
}
