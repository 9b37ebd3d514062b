//! What is known of a message's publish, where its answer was lost too.

use super::life::{Birth, Key, Life, NEVER};
use super::run::Run;
use crate::proof::history::{Ms, OnDuplicate, Outcome, Publish};

/// The most attempts that a message can have.
const MOST_ATTEMPTS: i64 = 1000;

impl<'a> Life<'a> {
    /// Finds the publishes that may have made it, and concludes from them what holds of it.
    pub(super) fn born(&mut self, run: &Run<'a>) {
        let from = self.makers(run);
        let certain = !self.births.is_empty();
        let mut birth: Option<Birth> = None;
        for &at in &from {
            let (op, Some(publish)) = (&run.ops[at], run.publish(at)) else { continue };
            let one = born_by(run, at, publish);
            birth = Some(match birth {
                None => one,
                Some(other) => Birth {
                    sent: other.sent.min(one.sent),
                    certain: other.certain.min(one.certain),
                    forgotten: other.forgotten.min(one.forgotten),
                    due: other.due.min(one.due),
                    budget: join(other.budget, one.budget),
                    expires: other.expires.min(one.expires),
                },
            });
            if let Some(key) = &publish.key {
                let until_granted = (publish.key_until_granted, publish.key_until_granted);
                self.key = Some(Key { name: key, until_granted });
            }
            if certain && op.bare().is_ok() {
                break;
            }
        }
        if let Some(birth) = &mut birth {
            self.changed(run, birth);
        }
        self.birth = birth;
    }

    /// Where its publish stands in the record; where no answer names it, those that may be it.
    fn makers(&self, run: &Run<'a>) -> Vec<usize> {
        if !self.births.is_empty() {
            return self.births.clone();
        }
        let unknown = |at: &usize| run.publish(*at).is_some_and(|p| p.outcome == Outcome::Unknown);
        let first = self.held.first().map(|held| held.grant.payload.as_str());
        let lying = run
            .lies_there(self.id)
            .and_then(|_| run.audit.bodies.get(&super::run::member(self.id)).map(String::as_str));
        let answered = self.claims.iter().filter_map(|at| run.publish(*at));
        // A repetition says what the first said.
        let repeated = answered.filter(|p| p.idempotency_key.is_some()).map(|p| p.payload.as_str());
        let mut from = Vec::new();
        for payload in repeated.chain(first).chain(lying) {
            let sources = run.sources.get(payload).into_iter().flatten();
            from.extend(sources.copied().filter(unknown));
        }
        from.sort_unstable();
        from.dedup();
        // What it says may be what replaced it, or what it was changed to: then nothing is known.
        let plain =
            |at: &usize| run.publish(*at).is_some_and(|p| p.on_duplicate != OnDuplicate::Replace);
        if from.iter().all(plain) && self.updates.is_empty() { from } else { Vec::new() }
    }

    /// What may have replaced or changed it since.
    fn changed(&mut self, run: &Run<'a>, birth: &mut Birth) {
        let ttl = |publish: &Publish| publish.ttl;
        let mut ttls: Vec<Ms> =
            self.births.iter().filter_map(|at| run.publish(*at)).filter_map(ttl).collect();
        let mut restarts: Vec<Ms> = Vec::new();
        for &at in &self.claims {
            let Some(publish) = run.publish(at) else { continue };
            if publish.on_duplicate == OnDuplicate::Replace {
                birth.budget = join(birth.budget, born_by(run, at, publish).budget);
                ttls.extend(publish.ttl);
                if let Some(key) = &mut self.key {
                    key.until_granted.0 |= publish.key_until_granted;
                    key.until_granted.1 &= publish.key_until_granted;
                }
                restarts
                    .push(run.clock.lowest(run.ops[at].sent, run.ops[at].answered) + publish.delay);
            }
        }
        if self.may_be_replaced_unseen(run, birth.sent, NEVER) {
            // It may say anything by now.
            if let Some(key) = &mut self.key {
                key.until_granted = (true, false);
            }
            birth.budget = (1, MOST_ATTEMPTS);
            birth.expires = Ms::MIN;
        }
        for &at in self.updates.iter().chain(&self.redrives) {
            restarts.push(run.clock.lowest(run.ops[at].sent, run.ops[at].answered));
        }
        if let (Some(ttl), Some(restart)) = (ttls.iter().min(), restarts.iter().min()) {
            birth.expires = birth.expires.min(restart + ttl);
        }
    }
}

/// What follows from one publish that made, or may have made, a message.
fn born_by(run: &Run, at: usize, publish: &Publish) -> Birth {
    let op = &run.ops[at];
    let due = match &publish.outcome {
        Outcome::Ok(published) if !published.duplicate => published.due_at,
        _ => run.clock.lowest(op.sent, op.answered) + publish.delay,
    };
    let budget = publish.max_attempts.map_or(run.history.max_attempts, i64::from);
    Birth {
        sent: op.sent,
        certain: if publish.outcome.is_ok() { op.answered } else { NEVER },
        forgotten: run.forgotten(at),
        due,
        budget: (budget, budget),
        expires: publish.ttl.map_or(NEVER, |ttl| due + ttl),
    }
}

fn join(a: (i64, i64), b: (i64, i64)) -> (i64, i64) {
    (a.0.min(b.0), a.1.max(b.1))
}
