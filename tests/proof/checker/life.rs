//! All that the record says of one message, and what follows from it about when it was there, held
//! or gone.

use std::collections::HashMap;

use super::held::{Held, extended};
use super::run::{Look, Run};
use crate::proof::history::{Back, Grant, Ms, Nacked, OnDuplicate, Op, Outcome, Partitions, What};

/// Never, of an instant that only has to be earlier than another.
pub(super) const NEVER: Ms = Ms::MAX / 2;

/// What is known of a message's publish.
#[derive(Clone, Copy)]
pub(super) struct Birth {
    pub sent: Ms,
    /// From when on it is there for certain, and from when on not any more.
    pub certain: Ms,
    pub forgotten: Ms,
    /// It falls due then at the earliest (Redis's clock).
    pub due: Ms,
    /// The least and the most attempts that its budget may have.
    pub budget: (i64, i64),
    /// When it may expire at the earliest (Redis's clock).
    pub expires: Ms,
}

/// A message's key, and whether its first grant frees it: it may, it does for certain. The two
/// differ where a publish that replaced it said otherwise.
#[derive(Clone, Copy)]
pub(super) struct Key<'a> {
    pub name: &'a str,
    pub until_granted: (bool, bool),
}

#[derive(Default)]
pub(super) struct Life<'a> {
    pub id: &'a str,
    /// Places in the record: publishes that made it, and that were answered with it as a duplicate.
    pub births: Vec<usize>,
    pub claims: Vec<usize>,
    pub uses: Vec<usize>,
    pub deletes: Vec<usize>,
    /// Updates and redrives that may have run.
    pub updates: Vec<usize>,
    pub redrives: Vec<usize>,
    /// Requests that say how it stands.
    pub looks: Vec<usize>,
    /// In the order in which they were given out.
    pub held: Vec<Held<'a>>,
    tokens: HashMap<&'a str, usize>,
    pub birth: Option<Birth>,
    /// The key that it was published with.
    pub key: Option<Key<'a>>,
    /// When the first ack or delete was sent that may have ended it.
    pub may_end: Ms,
    /// Places of the acks, deletes and nacks that ended it for certain, ordered by answer.
    pub ends: Vec<usize>,
    /// A nack, or a publish that replaced it and lets it fail less often, may have made it dead: the earliest that was sent.
    pub may_be_buried: Ms,
}

impl<'a> Life<'a> {
    pub fn of(id: &'a str) -> Life<'a> {
        Life { id, may_end: NEVER, may_be_buried: NEVER, ..Life::default() }
    }

    /// Adds a grant.
    pub fn hold(&mut self, grant: &'a Grant, lease: Look, at: (Ms, Ms), forgotten: Ms) {
        self.held.push(Held {
            grant,
            lease,
            at,
            forgotten,
            end: grant.deadline,
            firm_end: (grant.deadline, NEVER),
            end_possible: grant.deadline,
            extends: Vec::new(),
            enders: Vec::new(),
            may_end: NEVER,
            released: (false, false),
        });
    }

    /// While the clock is set nobody knows the instant of a grant: then the attempt tells which of two
    /// came first.
    fn untangle(&mut self) {
        let wide = |held: &Held| held.at.1 - held.at.0 > 1;
        for _ in 0..self.held.len() {
            let tangled = self.held.windows(2).position(|pair| {
                (wide(&pair[0]) || wide(&pair[1]))
                    && pair[1].at.0 <= pair[0].at.1
                    && pair[0].grant.attempt > pair[1].grant.attempt
            });
            match tangled {
                Some(first) => self.held.swap(first, first + 1),
                None => return,
            }
        }
    }

    /// Draws the conclusions, once all is there.
    pub fn complete(&mut self, run: &Run<'a>) {
        self.held.sort_by_key(|held| (held.at.0, held.grant.attempt));
        self.untangle();
        let tokens = self.held.iter().enumerate();
        self.tokens = tokens.map(|(at, held)| (held.grant.token.as_str(), at)).collect();
        for at in self.uses.clone() {
            self.take_use(run, at);
        }
        for &at in &self.deletes {
            let op = &run.ops[at];
            if op.bare().may_have_run() {
                self.may_end = self.may_end.min(op.sent);
            }
            if op.bare().is_ok() {
                self.ends.push(at);
            }
        }
        self.ends.sort_by_key(|at| run.ops[*at].answered);
        for &at in self.births.iter().chain(&self.claims) {
            let (op, Some(publish)) = (&run.ops[at], run.publish(at)) else { continue };
            let replaces = publish.on_duplicate == OnDuplicate::Replace;
            let granted = self.held.first().is_some_and(|held| held.at.0 < op.answered);
            // It may have failed more often than it may from now on.
            if replaces && granted && publish.max_attempts.is_some() {
                self.may_be_buried = self.may_be_buried.min(op.sent);
            }
        }
        self.born(run);
    }

    fn take_use(&mut self, run: &Run, at: usize) {
        let op = &run.ops[at];
        let bare = op.bare();
        if !bare.may_have_run() {
            return;
        }
        let token = use_of(op).map_or("", |(_, token)| token);
        let held = self.tokens.get(token).map(|held| &mut self.held[*held]);
        match &op.what {
            What::Ack { .. } => {
                self.may_end = self.may_end.min(op.sent);
                if bare.is_ok() {
                    self.ends.push(at);
                }
            }
            What::Nack { back, outcome, .. } => {
                if *back == Back::Dead {
                    self.may_be_buried = self.may_be_buried.min(op.sent);
                }
                match outcome {
                    Outcome::Ok(Nacked { state, .. }) if state == "expired" => {
                        self.may_end = self.may_end.min(op.sent);
                        self.ends.push(at);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        let Some(held) = held else { return };
        match &op.what {
            What::Extend { outcome, .. } => {
                held.extends.push(at);
                held.end_possible = held.end_possible.max(extended(run, at));
                if let Outcome::Ok(deadline) = outcome {
                    held.end = held.end.max(*deadline);
                    let forgotten = run.forgotten(at);
                    if forgotten == Ms::MAX {
                        held.firm_end.0 = held.firm_end.0.max(*deadline);
                    } else {
                        held.firm_end.1 = held.firm_end.1.min(forgotten);
                    }
                }
            }
            _ => {
                held.may_end = held.may_end.min(op.sent);
                if bare.is_ok() {
                    held.enders.push(at);
                }
                if let What::Nack { back: Back::Released, .. } = op.what {
                    held.released = (held.released.0 || bare.is_ok(), true);
                }
            }
        }
    }

    /// The grant that gave out this token.
    pub fn grant_of(&self, token: &str) -> Option<usize> {
        self.tokens.get(token).copied()
    }

    /// From when on it is there for certain until something ends it, and from when on that may be
    /// forgotten.
    pub fn there_from(&self, run: &Run) -> (Ms, Ms) {
        let birth = self.birth.map_or((NEVER, Ms::MAX), |birth| (birth.certain, birth.forgotten));
        let seen = self.held.first().map_or(NEVER, |held| held.lease.answered);
        if seen >= birth.0 {
            return birth;
        }
        let sent = self.birth.map_or(seen, |birth| birth.sent);
        (seen, run.faults.forgotten(sent, seen, Partitions::of(self.id)))
    }

    /// May something have ended it, whenever that was, and be it by what time brought?
    pub fn may_have_ended(&self, run: &Run) -> bool {
        let rules = run.rules;
        let born = self.birth.map_or(0, |birth| birth.sent);
        self.may_end < NEVER
            || rules.expires
            || rules.drops_oldest
            || rules.drops_dead
            || self.birth.is_none_or(|birth| birth.expires < NEVER)
            || run.purges.touch(born, NEVER)
    }

    /// May it be gone for anyone who looks then?
    pub fn may_be_gone(&self, run: &Run, look: Look) -> bool {
        let (from, forgotten) = self.there_from(run);
        if look.sent < from || look.answered >= forgotten || self.may_end <= look.answered {
            return true;
        }
        let born = self.birth.map_or(from, |birth| birth.sent);
        let rules = run.rules;
        let expired = self.birth.is_none_or(|birth| {
            birth.expires < NEVER && run.clock.highest(birth.sent, look.answered) >= birth.expires
        });
        rules.expires
            || rules.drops_oldest
            || (rules.drops_dead && self.may_be_dead(run, look))
            || expired
            || run.purges.touch(born, look.answered)
    }

    /// May anything but this op have ended it by then?
    pub fn may_have_ended_by(&self, run: &Run, but: usize, answered: Ms) -> bool {
        let ends = |at: &&usize| {
            let op = &run.ops[**at];
            let ack = matches!(op.what, What::Ack { .. } | What::Delete { .. });
            **at != but && ack && op.sent <= answered && op.bare().may_have_run()
        };
        self.may_end <= answered && self.uses.iter().chain(&self.deletes).any(|at| ends(&at))
    }

    /// Was it ended for certain before this was sent? By what.
    pub fn ended_before(&self, run: &Run, look: Look) -> Option<usize> {
        let ends = self.ends.iter().take_while(|at| run.ops[**at].answered <= look.sent);
        ends.copied().find(|at| run.in_force(*at, look))
    }

    /// May it be dead for anyone who looks then?
    pub fn may_be_dead(&self, run: &Run, look: Look) -> bool {
        let born = self.birth.map_or(Ms::MIN, |birth| birth.sent);
        self.may_be_buried <= look.answered
            || self.held.iter().any(|h| h.grant.attempts_left == 0 && h.at.0 <= look.answered)
            || run.lost.touch(born, look.answered)
    }

    /// May it have been redriven between these instants?
    pub fn may_be_redriven(&self, run: &Run, from: Ms, until: Ms) -> bool {
        let redriven = |at: &usize| {
            let (sent, end) = run.effect(*at);
            sent <= until && end >= from
        };
        self.redrives.iter().any(redriven) || run.redrives.touch(from, until)
    }

    /// May a publish of unknown outcome have replaced it between these instants?
    pub fn may_be_replaced_unseen(&self, run: &Run, from: Ms, until: Ms) -> bool {
        let unseen = self.key.and_then(|key| run.unseen_replaces.get(key.name));
        unseen.is_some_and(|windows| windows.touch(from, until))
    }

    /// The last grant that was given out before this was sent. In the same millisecond it may have
    /// been after.
    pub fn last_before(&self, sent: Ms) -> Option<usize> {
        let mut at = self.held.partition_point(|held| held.at.0 < sent);
        while at > 0 && self.held[at - 1].at.1 >= sent {
            at -= 1;
        }
        at.checked_sub(1)
    }
}

/// The id and the token of an ack, nack or extend.
pub(super) fn use_of(op: &Op) -> Option<(&str, &str)> {
    match &op.what {
        What::Ack { id, token, .. }
        | What::Nack { id, token, .. }
        | What::Extend { id, token, .. } => Some((id, token)),
        _ => None,
    }
}
