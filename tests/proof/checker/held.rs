//! One grant of a message: when it was, until when it lasts, and what ended it.

use super::run::{Look, Run};
use crate::proof::history::{Grant, Ms, Outcome, What};

/// One grant of a message, and what became of it.
pub(super) struct Held<'a> {
    pub grant: &'a Grant,
    /// The lease that it was given to.
    pub lease: Look,
    /// When it was, on this machine's clock: at the earliest, at the latest.
    pub at: (Ms, Ms),
    /// From when on it may be forgotten.
    pub forgotten: Ms,
    /// The latest deadline that an answer promised its holder.
    pub end: Ms,
    /// The same without what may be forgotten, and from when on.
    pub firm_end: (Ms, Ms),
    /// The latest that it may have, with the extensions that nobody knows of.
    pub end_possible: Ms,
    /// Places of the extensions by its token that may have run.
    pub extends: Vec<usize>,
    /// Places of the acks and nacks by its token that were answered ok.
    pub enders: Vec<usize>,
    /// When the first ack or nack was sent that may have ended it.
    pub may_end: Ms,
    /// A release of it was answered ok; or may have run.
    pub released: (bool, bool),
}

impl Held<'_> {
    /// The latest deadline that it may have had when this op ran, by anything else.
    pub fn end_before(&self, run: &Run, at: usize) -> Ms {
        let op = &run.ops[at];
        let earlier = |other: &&usize| **other != at && run.ops[**other].sent <= op.answered;
        let others = self.extends.iter().filter(earlier).map(|other| extended(run, *other));
        others.fold(self.grant.deadline, Ms::max)
    }

    /// The deadline that its holder was promised, as far as it is not forgotten then.
    pub fn end_for(&self, look: Look) -> Ms {
        if look.answered >= self.firm_end.1 { self.firm_end.0 } else { self.end }
    }
}

/// The latest deadline that this extension may have given.
pub(super) fn extended(run: &Run, at: usize) -> Ms {
    match &run.ops[at].what {
        What::Extend { outcome: Outcome::Ok(deadline), .. } => *deadline,
        What::Extend { lease_ms, .. } => {
            let (from, until) = run.effect(at);
            run.clock.highest(from, until) + lease_ms
        }
        _ => Ms::MIN,
    }
}
