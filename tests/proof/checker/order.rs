//! I16: messages that one client publishes one after another through one instance into one partition, at the same
//! priority and due time, are granted in that order, where one consumer leases.

use std::collections::HashMap;

use super::found::Found;
use super::run::Run;
use crate::harness::partition_of;
use crate::proof::history::{Ms, Outcome, What};

/// Client, instance, partition, priority, due time.
type Line = (u64, usize, u8, u8, Ms);

pub(super) fn check(run: &Run, found: &mut Found) {
    let Some(grants) = one_consumer(run) else { return };
    // id → (place among the grants, due time in force)
    let places: HashMap<&str, usize> =
        grants.iter().enumerate().map(|(place, id)| (*id, place)).collect();
    let mut lines: HashMap<Line, Vec<usize>> = HashMap::new();
    for at in 0..run.ops.len() {
        // One of a group waits for those before it (I17).
        let Some(publish) = run.publish(at).filter(|publish| publish.group.is_none()) else {
            continue;
        };
        let Some(published) = publish.outcome.ok().filter(|published| !published.duplicate) else {
            continue;
        };
        let Some(life) = run.by_id.get(published.id.as_str()).map(|life| &run.lives[*life]) else {
            continue;
        };
        // One that was changed, or granted with another due time, has left the line.
        let changed = !life.updates.is_empty()
            || !life.claims.is_empty()
            || life.held.first().is_none_or(|held| held.grant.due_at != published.due_at);
        if !changed && places.contains_key(published.id.as_str()) {
            let op = &run.ops[at];
            let at_home = partition_of(&published.id);
            let line = (op.client, op.instance, at_home, publish.priority, published.due_at);
            lines.entry(line).or_default().push(at);
        }
    }
    for line in lines.values_mut() {
        line.sort_by_key(|at| run.ops[*at].sent);
        // The one that was granted last among those that were answered before.
        let (mut before, mut answered): (Option<(usize, &str)>, usize) = (None, 0);
        for at in line.iter() {
            let (op, id) = (&run.ops[*at], id_of(run, *at));
            while let Some(&other) = line.get(answered).filter(|o| run.ops[**o].answered <= op.sent)
            {
                let place = places[id_of(run, other)];
                if before.is_none_or(|(latest, _)| place > latest) {
                    before = Some((place, id_of(run, other)));
                }
                answered += 1;
            }
            if let Some((place, other)) = before.filter(|(place, _)| *place > places[id]) {
                let _ = place;
                let what =
                    format!("{id} was granted before {other}, which was published before it");
                found.say(run.by_id.get(id).copied(), format!("I16 order: {what}"));
            }
        }
    }
}

fn id_of<'a>(run: &Run<'a>, at: usize) -> &'a str {
    let published = run.publish(at).and_then(|publish| publish.outcome.ok());
    published.map_or("", |published| published.id.as_str())
}

/// The ids in the order in which they were granted, where exactly one client leased, one lease after
/// another, none without an answer, and nothing was granted twice.
fn one_consumer<'a>(run: &Run<'a>) -> Option<Vec<&'a str>> {
    if !run.lost.is_empty() || !run.faults.losses.is_empty() || run.clock.stepped() {
        return None;
    }
    let lease = |op: &&crate::proof::history::Op| matches!(op.what, What::Lease { .. });
    let mut leases: Vec<_> = run.ops.iter().filter(lease).collect();
    leases.sort_by_key(|op| op.sent);
    let client = leases.first()?.client;
    let apart = leases.windows(2).all(|pair| pair[0].answered <= pair[1].sent + 1);
    if !apart || leases.iter().any(|op| op.client != client) {
        return None;
    }
    let mut ids = Vec::new();
    for op in leases {
        if let What::Lease { outcome: Outcome::Ok(grants), .. } = &op.what {
            for grant in grants {
                if grant.attempt > 1 {
                    return None;
                }
                ids.push(grant.id.as_str());
            }
        }
    }
    Some(ids)
}
