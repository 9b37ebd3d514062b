//! I12: with nobody in the way, a message is granted soon after it fell due to a client who waits
//! for it, and a long poll is answered soon after its wait is over. How soon depends on the machine,
//! so anyone who calls says what is too late.

use super::faults::Faults;
use super::windows::Windows;
use super::{Violation, clock::Clock};
use crate::proof::history::{History, Ms, Op, Outcome, What};

/// How late messages were granted to a client who was waiting when they fell due.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lateness {
    /// Of a hundred, ninety-nine were not later than this (ms).
    pub p99: Ms,
    pub max: Ms,
    /// How many were looked at.
    pub count: usize,
}

/// How late grants were, where a long poll with an unfilled want was waiting as the message fell due,
/// the topic was not paused, and nothing was out of order.
pub fn late(history: &History) -> Lateness {
    let mut all: Vec<Ms> = latenesses(history).into_iter().map(|(late, _)| late).collect();
    all.sort_unstable();
    let at = |share: usize| all.get((all.len() * share).div_ceil(100).saturating_sub(1)).copied();
    Lateness { p99: at(99).unwrap_or(0), max: all.last().copied().unwrap_or(0), count: all.len() }
}

/// I12 with these limits (ms) of lateness: of ninety-nine in a hundred, and of all.
pub fn liveness(history: &History, p99: Ms, max: Ms) -> Vec<Violation> {
    let late = late(history);
    let mut found = Vec::new();
    if late.p99 > p99 {
        let what = format!("p99 {} ms of {} grants, {p99} is the limit", late.p99, late.count);
        found.push(Violation::from(format!("I12 liveness: {what}")));
    }
    if late.max > max {
        let over = latenesses(history).into_iter().filter(|(late, _)| *late > max);
        found.extend(over.take(20).map(|(late, what)| {
            Violation::from(format!("I12 liveness: {what}, {late} ms late, {max} is the limit"))
        }));
    }
    found
}

/// I12 of long polls: each is answered this long (ms) after its wait at the latest.
pub fn overdue(history: &History, limit: Ms) -> Vec<Violation> {
    let late =
        |op: &&Op| matches!(op.what, What::Lease { .. }) && op.was_answered() && op.took() > limit;
    let say = |op: &Op| {
        let what =
            format!("a lease sent at {} was answered {} ms after its wait", op.sent, op.took());
        Violation::from(format!("I12 liveness: {what}, {limit} is the limit"))
    };
    history.ops.iter().filter(late).map(say).collect()
}

/// Lateness of each grant that counts, and what it was.
fn latenesses(history: &History) -> Vec<(Ms, String)> {
    let faults = Faults::new(&history.faults, &history.ops);
    let clock = Clock::new(&history.faults);
    let paused = paused(&history.ops);
    let waiting = Windows::new(history.ops.iter().filter_map(waited).collect());
    let mut all = Vec::new();
    for op in &history.ops {
        let What::Lease { outcome: Outcome::Ok(grants), .. } = &op.what else { continue };
        for grant in grants {
            let (due, at) = (grant.due_at, grant.granted_at);
            let excused = clock.stepped()
                || due > at
                || faults.disturbed.touch(due, at)
                || paused.touch(due, at);
            // A client waited from before it fell due: until this grant, or for as long as that.
            let waited = waiting.latest_end(due - 1).map_or(Ms::MIN, |end| end.min(at));
            if !excused && waited >= due {
                let what =
                    format!("{} due {due}, granted {at} as attempt {}", grant.id, grant.attempt);
                all.push((waited - due, what));
            }
        }
    }
    all
}

/// From when until when this long poll waited for its first message, at least.
pub(super) fn waited(op: &Op) -> Option<(Ms, Ms)> {
    match &op.what {
        What::Lease { wait, outcome: Outcome::Ok(grants), .. } if *wait > 0 => {
            let granted = grants.iter().map(|grant| grant.granted_at).min();
            let until = granted.unwrap_or(op.answered - 1).min(op.sent + wait);
            // It has to arrive first.
            Some((op.sent + ARRIVAL, until)).filter(|(from, until)| from < until)
        }
        _ => None,
    }
}

/// How long (ms) a request may be on its way before it waits.
const ARRIVAL: Ms = 20;

/// When the topic may have been paused, or some of its groups.
pub(super) fn paused(ops: &[Op]) -> Windows {
    let pauses = ops.iter().filter(|op| matches!(op.what, What::Pause { paused: true, .. }));
    let resumes: Vec<&Op> = ops
        .iter()
        .filter(|op| matches!(op.what, What::Pause { paused: false, outcome: Outcome::Ok(()), .. }))
        .collect();
    let of = |op: &Op| if let What::Pause { group, .. } = &op.what { group.clone() } else { None };
    let span = |op: &Op| {
        let later = resumes.iter().filter(|resume| resume.answered >= op.sent);
        let its = later.filter(|resume| of(resume) == of(op));
        (op.sent, its.map(|resume| resume.answered).min().unwrap_or(Ms::MAX))
    };
    Windows::new(pauses.map(span).collect())
}
