//! Reads the record of a run beside what lies in Redis at its end, and names every promise of
//! `guarantees.md` that does not hold of them: I1–I5, I15, and with the audit I8 and I9.
//!
//! It knows nothing of how dueq works, only what answers say. Where an answer is lost it takes the
//! reading that is kindest to the server, so that whatever it names is a defect.

mod lives;
mod tests;

use std::collections::{BTreeMap, HashMap};

use crate::audit::{Audit, member_of};
use crate::history::Ms;
use crate::history::{Op, Outcome, Published, What};
use lives::{Life, Try};

/// One publish, found by its payload.
struct Publish<'a> {
    sent: Ms,
    delay: Ms,
    outcome: &'a Outcome<Published>,
}

struct Run<'a> {
    lives: BTreeMap<&'a str, Life<'a>>,
    publishes: HashMap<&'a str, Publish<'a>>,
    /// How many grants nobody may have seen: see [`may_have_lost_a_grant`].
    lost_grants: i64,
    audit: &'a Audit,
    found: Vec<String>,
}

/// Everything that is wrong with one topic's run; empty when all promises held.
pub fn violations(ops: &[Op], audit: &Audit) -> Vec<String> {
    let mut run = Run::read(ops, audit);
    run.no_server_error(ops);
    run.no_invention();
    let lives = std::mem::take(&mut run.lives);
    let mut gaps = 0;
    for (id, life) in &lives {
        run.no_loss(id, life);
        run.never_early(id, life);
        run.one_holder(id, life);
        run.fencing(id, life);
        gaps += life.gaps();
    }
    if gaps > run.lost_grants {
        let lost = run.lost_grants;
        run.say("I5 fencing", format!("{gaps} attempts are missing, {lost} answers may hold them"));
    }
    run.totals(&lives, ops);
    run.found.extend(audit.violations());
    run.found
}

/// A lease of unknown outcome may have been granted what it asked for. So may a long poll during a
/// fault: the instance asks for it again and again, and answers when one reply comes through.
fn may_have_lost_a_grant(op: &Op, faults: &[&Op]) -> bool {
    match op.what {
        What::Lease { outcome: Outcome::Unknown, .. } => true,
        What::Lease { outcome: Outcome::Ok(_), wait, .. } if wait > 0 => {
            faults.iter().any(|fault| fault.sent <= op.answered && op.sent <= fault.answered)
        }
        _ => false,
    }
}

impl<'a> Run<'a> {
    fn read(ops: &'a [Op], audit: &'a Audit) -> Run<'a> {
        let mut run = Run {
            lives: BTreeMap::new(),
            publishes: HashMap::new(),
            lost_grants: 0,
            audit,
            found: Vec::new(),
        };
        for Op { sent, answered, what, .. } in ops {
            let (sent, answered) = (*sent, *answered);
            match what {
                What::Publish { payload, delay, outcome } => {
                    run.publishes.insert(payload, Publish { sent, delay: *delay, outcome });
                    if let Outcome::Ok(published) = outcome {
                        run.life(&published.id).published = Some(published);
                    }
                }
                What::Lease { outcome: Outcome::Ok(grants), .. } => {
                    grants.iter().for_each(|grant| run.life(&grant.id).grants.push(grant));
                }
                What::Lease { .. } => {}
                What::Ack { id, token, outcome } => {
                    run.life(id).acks.push(Try { sent, answered, token, outcome });
                }
                What::Nack { id, token, outcome } => {
                    run.life(id).nacks.push(Try { sent, answered, token, outcome });
                }
                What::Extend { id, token, outcome } => {
                    run.life(id).extends.push(Try { sent, answered, token, outcome });
                }
            }
        }
        let faults: Vec<&Op> = ops.iter().filter(|op| !op.was_answered()).collect();
        for op in ops.iter().filter(|op| may_have_lost_a_grant(op, &faults)) {
            if let What::Lease { max_messages, .. } = &op.what {
                run.lost_grants += *max_messages as i64;
            }
        }
        run.lost_grants += audit.total("returned");
        for life in run.lives.values_mut() {
            life.grants.sort_by_key(|grant| (grant.attempt, grant.granted_at));
        }
        run
    }

    fn life(&mut self, id: &'a str) -> &mut Life<'a> {
        self.lives.entry(id).or_default()
    }

    fn say(&mut self, invariant: &str, what: String) {
        self.found.push(format!("{invariant}: {what}"));
    }

    fn no_server_error(&mut self, ops: &[Op]) {
        for op in ops {
            let bad = match &op.what {
                What::Publish { outcome: Outcome::Refused(status, code), .. }
                | What::Lease { outcome: Outcome::Refused(status, code), .. }
                | What::Ack { outcome: Outcome::Refused(status, code), .. }
                | What::Nack { outcome: Outcome::Refused(status, code), .. }
                | What::Extend { outcome: Outcome::Refused(status, code), .. } => {
                    (*status >= 500).then(|| format!("{status} {code}"))
                }
                _ => None,
            };
            if let Some(bad) = bad {
                self.say("never 500", format!("{bad} for {:?}", op.what));
            }
        }
    }

    /// I2 and I15: what is granted or lies in Redis was published, once, by a publish that may have
    /// run, and reads as it was written.
    fn no_invention(&mut self) {
        let mut seen: BTreeMap<String, String> = BTreeMap::new(); // member → payload
        let mut found = Vec::new();
        for (id, life) in &self.lives {
            for grant in &life.grants {
                let before = seen.insert(member_of(id), grant.payload.clone());
                if before.is_some_and(|payload| payload != grant.payload) {
                    found.push(format!("I2 no invention: {id} changed its payload"));
                }
            }
        }
        for (member, payload) in &self.audit.bodies {
            let before = seen.insert(member.clone(), payload.clone());
            if before.is_some_and(|before| before != *payload) {
                found.push(format!("I2 no invention: {member} lies there with another payload"));
            }
        }
        let mut owners: HashMap<&str, Vec<&str>> = HashMap::new();
        for (member, payload) in &seen {
            owners.entry(payload).or_default().push(member);
            match self.publishes.get(payload.as_str()).map(|publish| publish.outcome) {
                None => {
                    found.push(format!("I2 no invention: nobody published {payload} ({member})"))
                }
                Some(Outcome::Refused(_, code)) => {
                    found.push(format!("I2 no invention: {payload} was refused ({code})"));
                }
                Some(Outcome::Never) => {
                    found
                        .push(format!("I15 never ran: {payload} is there after redis_unavailable"));
                }
                Some(Outcome::Ok(published)) if member_of(&published.id) != *member => {
                    let id = &published.id;
                    found.push(format!("I2 no invention: {payload} of {id} is in {member} too"));
                }
                Some(_) => {}
            }
        }
        for (payload, members) in owners.iter().filter(|(_, members)| members.len() > 1) {
            found.push(format!("I15 never sent again: {payload} became {members:?}"));
        }
        self.found.append(&mut found);
    }

    /// I9 beside the record: a total counts each request that was answered ok once, and of the
    /// others only what may have run.
    fn totals(&mut self, lives: &BTreeMap<&str, Life>, ops: &[Op]) {
        let mut bounds =
            BTreeMap::from([("published", (0, 0)), ("acked", (0, 0)), ("nacked", (0, 0))]);
        let mut count = |name, ok: bool, may_have_run: bool| {
            let (least, most) = bounds.entry(name).or_default();
            *least += i64::from(ok);
            *most += i64::from(may_have_run);
        };
        for op in ops {
            match &op.what {
                What::Publish { outcome: o, .. } => {
                    count("published", o.ok().is_some(), o.may_have_run())
                }
                What::Ack { outcome: o, .. } => count("acked", o.ok().is_some(), o.may_have_run()),
                What::Nack { outcome: o, .. } => {
                    count("nacked", o.ok().is_some(), o.may_have_run())
                }
                What::Lease { .. } | What::Extend { .. } => {}
            }
        }
        let granted = lives.values().map(|life| life.grants.len() as i64).sum::<i64>();
        bounds.insert("granted", (granted, granted + self.lost_grants));
        for (name, (least, most)) in bounds {
            let total = self.audit.total(name);
            if !(least..=most).contains(&total) {
                self.say(
                    "I9 conservation",
                    format!("{name} is {total}, the record says {least}…{most}"),
                );
            }
        }
    }
}
