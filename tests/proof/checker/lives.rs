//! What must hold of one message's life, from its publish to its last ack.

use super::Run;
use crate::audit::member_of;
use crate::history::{Grant, Ms, Nacked, Outcome, Published};

/// What an answer without an instant tells of Redis's clock may be off by this much.
const SLACK: Ms = 20;

/// A request that concerns one lease.
pub(super) struct Try<'a, T> {
    pub sent: Ms,
    pub answered: Ms,
    pub token: &'a str,
    pub outcome: &'a Outcome<T>,
}

/// All that the record says of one message.
#[derive(Default)]
pub(super) struct Life<'a> {
    pub published: Option<&'a Published>,
    /// By attempt.
    pub grants: Vec<&'a Grant>,
    pub acks: Vec<Try<'a, ()>>,
    pub nacks: Vec<Try<'a, Nacked>>,
    pub extends: Vec<Try<'a, Ms>>,
}

/// What an ack, a nack and an extend have in common.
struct Use<'a> {
    verb: &'static str,
    sent: Ms,
    answered: Ms,
    token: &'a str,
    outcome: Outcome<()>,
}

impl<'a> Life<'a> {
    /// How many grants nobody saw: an attempt between, or before, those that somebody did.
    pub fn gaps(&self) -> i64 {
        let last = self.grants.last().map_or(0, |grant| grant.attempt);
        (last - self.grants.len() as i64).max(0)
    }

    fn grant_of(&self, token: &str) -> Option<&'a Grant> {
        self.grants.iter().find(|grant| grant.token == token).copied()
    }

    /// The latest deadline that an answer promised the holder of this grant.
    fn last_deadline(&self, grant: &Grant) -> Ms {
        let extended = self.extends.iter().filter(|extend| extend.token == grant.token);
        let extended = extended.filter_map(|extend| extend.outcome.ok().copied());
        extended.fold(grant.deadline, Ms::max)
    }

    fn uses(&self) -> Vec<Use<'a>> {
        fn of<'a, T: Clone>(verb: &'static str, tries: &[Try<'a, T>]) -> Vec<Use<'a>> {
            let of_one = |t: &Try<'a, T>| Use {
                verb,
                sent: t.sent,
                answered: t.answered,
                token: t.token,
                outcome: t.outcome.clone().map(|_| ()),
            };
            tries.iter().map(of_one).collect()
        }
        let mut uses = of("ack", &self.acks);
        uses.extend(of("nack", &self.nacks));
        uses.extend(of("extend", &self.extends));
        uses
    }
}

impl Run<'_> {
    /// I1: what was published is there, or was acked by a token that a grant gave out.
    pub(super) fn no_loss(&mut self, id: &str, life: &Life) {
        let known = life.published.is_some() || !life.grants.is_empty();
        let there = self.audit.places.contains_key(&member_of(id));
        let acked = life.acks.iter().any(|ack| ack.outcome.ok().is_some());
        if known && !there && !life.acks.iter().any(|ack| ack.outcome.may_have_run()) {
            let tries: Vec<_> = life.acks.iter().map(|ack| ack.outcome).collect();
            self.say("I1 no loss", format!("{id} is gone without an ack; acks tried: {tries:?}"));
        }
        if there && acked {
            self.say("I1 no loss", format!("{id} was acked and is still there"));
        }
        for ack in life.acks.iter().filter(|ack| ack.outcome.ok().is_some()) {
            if !life.grants.iter().any(|grant| grant.token == ack.token) {
                self.say("I1 no loss", format!("{id} was acked by a token that no grant gave out"));
            }
        }
    }

    /// I3: no grant before the due time in force.
    pub(super) fn never_early(&mut self, id: &str, life: &Life) {
        for grant in &life.grants {
            let due = match life.published {
                Some(published) => published.due_at,
                // Its answer was lost: it ran after it was sent.
                None => self
                    .publishes
                    .get(grant.payload.as_str())
                    .map_or(0, |publish| publish.sent + publish.delay),
            };
            let due = due.max(grant.due_at);
            if grant.granted_at < due {
                self.say("I3 never early", format!("{id} due {due}: {grant:?}"));
            }
        }
        for nack in &life.nacks {
            let (Some(Nacked { state, due_at, attempt }), Some(before)) =
                (nack.outcome.ok(), life.grant_of(nack.token))
            else {
                continue;
            };
            for next in life.grants.iter().filter(|next| next.attempt > before.attempt) {
                if state == "dead" {
                    self.say("I7 attempts", format!("{id} was dead after {attempt}: {next:?}"));
                } else if due_at.is_some_and(|due| next.granted_at < due) {
                    self.say("I3 never early", format!("{id} nacked until {due_at:?}: {next:?}"));
                }
            }
        }
    }

    /// I4: the next grant comes at or after the end of the one before.
    pub(super) fn one_holder(&mut self, id: &str, life: &Life) {
        for pair in life.grants.windows(2) {
            let (before, next) = (pair[0], pair[1]);
            let end = life.last_deadline(before);
            let nacked = life.nacks.iter().any(|nack| {
                nack.token == before.token
                    && match nack.outcome {
                        Outcome::Ok(_) => true, // its due time was looked at already (I3)
                        Outcome::Unknown => nack.sent <= next.granted_at,
                        _ => false,
                    }
            });
            if next.granted_at < end && !nacked {
                let next = (next.attempt, next.granted_at);
                self.say("I4 one holder", format!("{id} held until {end}, granted {next:?}"));
            }
        }
    }

    /// I5: an attempt is granted once and later than the one before it; a token works while its
    /// lease lasts, and only then; an ack is the end.
    pub(super) fn fencing(&mut self, id: &str, life: &Life) {
        for pair in life.grants.windows(2) {
            let (before, next) = (pair[0], pair[1]);
            if before.attempt == next.attempt || before.token == next.token {
                self.say(
                    "I5 fencing",
                    format!("{id}: one attempt granted twice: {before:?} {next:?}"),
                );
            } else if before.granted_at > next.granted_at {
                self.say("I5 fencing", format!("{id}: attempts not in order: {before:?} {next:?}"));
            }
        }
        let uses = life.uses();
        for one in &uses {
            let Some(grant) = life.grant_of(one.token) else { continue };
            match &one.outcome {
                Outcome::Ok(()) => self.used_in_time(id, life, grant, one, &uses),
                Outcome::Refused(_, code) => {
                    self.refused_rightly(id, life, grant, one, &uses, code)
                }
                Outcome::Never | Outcome::Unknown => {}
            }
        }
        for extend in &life.extends {
            if let (Some(deadline), Some(grant)) =
                (extend.outcome.ok(), life.grant_of(extend.token))
                && *deadline < grant.deadline
            {
                self.say(
                    "I6 extend",
                    format!("{id}: extended to {deadline}, shorter than {grant:?}"),
                );
            }
        }
    }

    /// An ack, nack or extend was answered ok: the lease was held then.
    fn used_in_time(&mut self, id: &str, life: &Life, grant: &Grant, one: &Use, uses: &[Use]) {
        let verb = one.verb;
        let extended_unseen = life
            .extends
            .iter()
            .any(|extend| extend.token == grant.token && *extend.outcome == Outcome::Unknown);
        let end = life.last_deadline(grant);
        if one.sent >= end + SLACK && !extended_unseen {
            self.say("I5 fencing", format!("{id}: {verb} ok at {}, lease over at {end}", one.sent));
        }
        for other in
            uses.iter().filter(|other| other.verb != "extend" && !std::ptr::eq(*other, one))
        {
            let ended = other.token == one.token || other.verb == "ack";
            if ended && other.outcome.ok().is_some() && one.sent >= other.answered {
                self.say("I5 fencing", format!("{id}: {verb} ok after {} ok", other.verb));
            }
        }
        if verb == "ack" {
            let oks = life.acks.iter().filter(|ack| ack.outcome.ok().is_some()).count();
            if oks > 1 {
                self.say("I5 fencing", format!("{id}: {oks} acks ok"));
            }
            for next in life.grants.iter().filter(|next| next.attempt > grant.attempt) {
                self.say("I5 fencing", format!("{id}: granted after an ack: {next:?}"));
            }
        }
    }

    /// An ack, nack or extend was refused: the lease was over, or something else had ended it.
    fn refused_rightly(
        &mut self,
        id: &str,
        life: &Life,
        grant: &Grant,
        one: &Use,
        uses: &[Use],
        code: &str,
    ) {
        let verb = one.verb;
        let others = || uses.iter().filter(|other| !std::ptr::eq(*other, one));
        let acked = others().any(|other| other.verb == "ack" && other.outcome.may_have_run());
        let ended = others().any(|other| {
            other.verb != "extend" && other.token == one.token && other.outcome.may_have_run()
        });
        let end = life.last_deadline(grant);
        match code {
            "lease_lost" if one.answered + SLACK < end && !ended && !acked => {
                let at = one.answered;
                self.say(
                    "I5 fencing",
                    format!("{id}: {verb} of the holder refused at {at}, held until {end}"),
                );
            }
            "message_not_found" if !acked => {
                self.say("I1 no loss", format!("{id}: {verb} found no message, nobody acked it"));
            }
            "lease_lost" | "message_not_found" => {}
            _ => self.say("the contract", format!("{id}: {verb} was refused with {code}")),
        }
    }
}
