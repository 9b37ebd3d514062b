//! I12, no lost wake-ups: who waits is granted what was published, however dead or cut off the one is that published it.
//!
//! A message that is ready, that nothing has taken away and that nobody is granted, while a client waits from before until
//! long after: then nobody told the one who waits. A fault is no excuse for what was published after it; a machine that answers
//! nobody in time is.

use super::found::Found;
use super::life::Life;
use super::liveness::{paused, waited};
use super::run::Run;
use super::windows::Windows;
use crate::proof::history::{FaultKind, Ms, Op, Outcome, What};

/// The promise is 1 s; as much again for a machine that is busy with other things.
const DEAF: Ms = 2_000;

pub(super) fn check(run: &Run, found: &mut Found) {
    if run.clock.stepped() {
        return;
    }
    let awake = |op: &&Op| {
        !run.history.faults.iter().any(|fault| {
            let asleep = fault.kind == FaultKind::InstancePaused(op.instance);
            asleep && fault.from <= op.answered && fault.until >= op.sent
        })
    };
    let waiting = run.ops.iter().filter(awake).filter_map(waited);
    let (waiting, paused) = (Windows::new(waiting.collect()), paused(run.ops));
    let unseen = run.ops.iter().filter(|op| op.bare() == Outcome::Unknown);
    let unseen = unseen.filter_map(|op| Some(run.faults.lost_grants(op)?.0));
    let unseen = Windows::new(unseen.collect());
    for (at, life) in run.lives.iter().enumerate() {
        let Some((sent, ready, taken)) = there(run, life) else { continue };
        let until = ready + DEAF;
        let excused = taken <= until
            || paused.touch(sent, until)
            || run.faults.during(sent, until)
            || run.faults.held_up.touch(sent, until)
            || unseen.touch(sent, until);
        if !excused && waiting.latest_end(ready).is_some_and(|end| end >= until) {
            let what =
                format!("{} was ready from {ready} on, and whoever waited was not told", life.id);
            found.say(Some(at), format!("I12 liveness: {what}"));
        }
    }
}

/// When a message was published, from when on it was ready, as its publisher knew, and until when nothing had taken it.
fn there(run: &Run, life: &Life) -> Option<(Ms, Ms, Ms)> {
    let rules = run.rules;
    if rules.expires || rules.drops_oldest {
        return None;
    }
    let [birth] = life.births[..] else { return None };
    let op = &run.ops[birth];
    let What::Publish(publish) = &op.what else { return None };
    // One of a group waits for those before it.
    if publish.group.as_ref().is_some_and(|group| !run.group_rules(group).is_free()) {
        return None;
    }
    let ready = op.answered.max(publish.outcome.ok()?.due_at);
    let changes = life.claims.iter().chain(&life.updates).map(|at| run.effect(*at).0);
    let granted = life.held.first().map(|held| held.at.0);
    let expires = life.birth.map(|birth| birth.expires.min(birth.forgotten));
    let purged = run.purges.first_from(op.sent);
    let replaced = life.may_be_replaced_unseen(run, op.sent, Ms::MAX / 4).then_some(op.sent);
    let taken = changes.chain(granted).chain(expires).chain(purged).chain(replaced);
    Some((op.sent, ready, taken.fold(life.may_end, Ms::min)))
}
