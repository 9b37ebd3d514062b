//! What a run counted, for the tables.

use std::collections::{HashMap, HashSet};

use super::clock::SLACK;
use super::found::Found;
use super::life::{NEVER, use_of};
use super::run::{AT_THE_END, Run, member};
use super::{due, ends, fencing};
use crate::proof::history::{Fault, FaultKind, Outcome, What};
use crate::proof::stage::Tally;

pub(super) fn count(run: &Run) -> Tally {
    let mut tally = Tally { duplicated: doubled(run), ..Tally::default() };
    for life in &run.lives {
        let grants = life.held.len() as u64;
        tally.published += u64::from(!life.births.is_empty());
        tally.granted += u64::from(grants > 0);
        tally.grants += grants;
        tally.lost += u64::from(!life.births.is_empty() && missing(run, life));
        for &one in &life.uses {
            let stale = stale(run, life, one);
            tally.stale_tried += u64::from(stale);
            tally.stale_accepted += u64::from(stale && run.ops[one].bare().is_ok());
        }
    }
    let mut found = Found::default();
    due::check(run, &mut found);
    tally.early = found.count("I3 never early");
    let unknown = |op: &&crate::proof::history::Op| op.bare() == Outcome::Unknown;
    tally.unknown = run.ops.iter().filter(unknown).count() as u64;
    let kinds = |is: fn(&FaultKind) -> bool| {
        run.history.faults.iter().filter(|Fault { kind, .. }| is(kind)).count() as u64
    };
    tally.instance_kills = kinds(|kind| matches!(kind, FaultKind::InstanceKilled(_)));
    tally.redis_kills = kinds(|kind| matches!(kind, FaultKind::RedisKilled));
    tally.power_losses = kinds(|kind| matches!(kind, FaultKind::PowerLost(_)));
    tally
}

/// Neither there at the end nor ended by anybody, though a loss may excuse it.
fn missing(run: &Run, life: &super::life::Life) -> bool {
    if ends::lost(run, life) {
        return true;
    }
    let forgotten = life.birth.is_some_and(|birth| birth.forgotten < AT_THE_END.answered);
    // Clients purge what is dead, and only that.
    let last = life.held.iter().any(|held| held.grant.attempts_left == 0);
    let dead = last || life.may_be_buried < NEVER;
    let expires = run.rules.expires || life.birth.is_some_and(|birth| birth.expires < NEVER);
    let ended = life.may_end < NEVER || expires || dead;
    forgotten && run.lies_there(life.id).is_none() && !ended
}

/// Messages stored twice, and those granted again after an ack that was answered ok.
fn doubled(run: &Run) -> u64 {
    let mut owners: HashMap<&str, HashSet<String>> = HashMap::new();
    for life in &run.lives {
        for held in &life.held {
            owners.entry(&held.grant.payload).or_default().insert(member(life.id));
        }
    }
    for (member, payload) in &run.audit.bodies {
        owners.entry(payload).or_default().insert(member.clone());
    }
    let twice: usize = owners.values().map(|members| members.len() - 1).sum();
    let again = run.lives.iter().filter(|life| fencing::again(run, life)).count();
    (twice + again) as u64
}

/// Was this request sent with a token that was over for certain?
fn stale(run: &Run, life: &super::life::Life, one: usize) -> bool {
    let op = &run.ops[one];
    let token = use_of(op).map_or("", |(_, token)| token);
    let Some(at) = life.grant_of(token) else { return true };
    let held = &life.held[at];
    let ended =
        held.enders.iter().any(|other| *other != one && run.ops[*other].answered <= op.sent);
    let acked = life.ends.iter().any(|other| *other != one && run.ops[*other].answered <= op.sent);
    let over = run.clock.lowest(op.sent, op.answered) >= held.end_possible + SLACK;
    let next = life.held.get(at + 1).is_some_and(|next| next.at.1 < op.sent);
    let repeats = run.rules.keeps_acked && matches!(op.what, What::Ack { .. });
    (ended || acked || over || next) && !repeats
}
