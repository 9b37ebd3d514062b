//! Reads the record of a run alongside what lies in Redis at its end, and names every promise of
//! `guarantees.md` that does not hold of them.
//!
//! It knows nothing of how dueq works, only what answers say. Where an answer is lost it takes the
//! reading that is kindest to the server, so that whatever it names is a defect.
//!
//! An op ran between `sent` and `answered`, or, of unknown outcome, at some time after `sent`, or
//! not at all. So something is certain only where the answer to one was there before another was
//! sent, or where an instant of Redis's says so. After a power loss that may forget, what was
//! answered shortly before is of unknown outcome too, for anyone who looks after the loss.

mod attempts;
mod birth;
mod clock;
mod contract;
mod deaf;
mod due;
mod ends;
mod extends;
mod faults;
mod fencing;
mod found;
mod groups;
mod held;
mod holders;
mod idempotency;
mod keys;
mod life;
mod liveness;
mod losses;
mod order;
mod payloads;
mod rates;
mod rules;
mod run;
mod story;
mod tally;
mod tests;
mod totals;
mod turns;
mod windows;

use std::fmt;

use super::audit::Audit;
use super::history::History;
use super::stage::Tally;
use found::Found;
use run::Run;

pub use liveness::{Lateness, late, liveness, overdue};

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    /// Its name: `I1` … `I19`, or `never 500` and `the contract` for what holds of every answer.
    pub invariant: String,
    /// What is wrong.
    pub what: String,
    /// The message's own history, in order; empty where the violation concerns no single message.
    pub life: Vec<String>,
}

impl Violation {
    /// A broken promise, by the name of an invariant (`I12`, or `I12 liveness`) or other words.
    pub fn of(invariant: &str, what: impl fmt::Display) -> Violation {
        let number = invariant.split(' ').next().filter(|word| word.starts_with('I'));
        let (what, invariant) = (format!("{invariant}: {what}"), number.unwrap_or(invariant));
        Violation { invariant: invariant.to_owned(), what, life: Vec::new() }
    }
}

impl From<String> for Violation {
    /// From `I9 conservation: what is wrong`.
    fn from(text: String) -> Violation {
        let invariant = match text.split_once(' ') {
            Some((name, _)) if name.starts_with('I') => name.to_owned(),
            _ => text.split(':').next().unwrap_or_default().to_owned(),
        };
        Violation { invariant, what: text, life: Vec::new() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        self.life.iter().try_for_each(|line| write!(f, "\n    {line}"))
    }
}

/// Everything that is wrong with one topic's run; empty when all promises held. Of how soon things
/// happened it says only who was not told at all: the rest is for [`liveness`] and [`overdue`].
pub fn violations(history: &History, audit: &Audit) -> Vec<Violation> {
    let run = Run::read(history, audit);
    let mut found = Found::default();
    let checks = [
        contract::check,
        payloads::check,
        ends::check,
        due::check,
        holders::check,
        fencing::check,
        extends::check,
        attempts::check,
        keys::check,
        idempotency::check,
        losses::check,
        order::check,
        groups::check,
        rates::check,
        turns::check,
        totals::check,
        deaf::check,
    ];
    checks.iter().for_each(|check| check(&run, &mut found));
    found.told(&run)
}

/// What the run counted.
pub fn tally(history: &History, audit: &Audit) -> Tally {
    tally::count(&Run::read(history, audit))
}

/// I16 alone, where exactly one client leased and nothing was granted twice; nothing elsewhere.
pub fn order(history: &History) -> Vec<Violation> {
    let audit = Audit::default();
    let run = Run::read(history, &audit);
    let mut found = Found::default();
    order::check(&run, &mut found);
    found.told(&run)
}

/// In how many waits of a fair topic's groups I19 was put to the test.
pub fn turns(history: &History, audit: &Audit) -> usize {
    turns::compared(&Run::read(history, audit))
}

/// Lost wake-ups alone.
pub fn deaf(history: &History) -> Vec<Violation> {
    let audit = Audit::default();
    let run = Run::read(history, &audit);
    let mut found = Found::default();
    deaf::check(&run, &mut found);
    found.told(&run)
}
