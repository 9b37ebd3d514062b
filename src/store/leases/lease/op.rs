//! lease, as lanes send it: many requests for one partition in one call.

use super::{FOREVER, LeaseOutcome};
use crate::{
    batch::{Answers, GROUP_MESSAGES, Op},
    grants::{Damaged, Granted, Grants, LeaseOptions},
    message::decode,
    partition::Partition,
    registry::{Registry, Topic},
    reply::{CallError, Fields, Packed, Reply, bytes},
    scripts::{self, Script},
};
use deadpool_redis::redis::Cmd;
use dueq_model::{Epoch, LeaseClaims, MessageId, Millis};
use std::sync::{Weak, atomic::Ordering};

/// Below this, the max_bytes of a lease makes the script look at every size; above, the bound of a reply is smaller anyway.
const SIZED_BELOW: u64 = 256 * 1024;

/// The latest due time in a score, ms.
const MAX_DUE: Millis = 1 << 53;

/// A request for messages.
pub struct Lease {
    pub options: LeaseOptions,
    /// The consumer has messages for it from an earlier call.
    pub begun: bool,
    /// The consumer will sleep for them.
    pub waits: bool,
    /// Wake-ups of the partition that had come before it.
    pub wakes: u64,
    /// Where grants go back to whose consumer is gone.
    pub registry: Weak<Registry>,
}

impl Op for Lease {
    type Output = LeaseOutcome;

    fn script() -> &'static Script {
        &scripts::LEASE
    }

    /// A lease of several messages of a group has a call of its own, so that no other consumer gets one of them.
    fn messages(&self) -> usize {
        if self.options.several { GROUP_MESSAGES } else { 1 }
    }

    /// A batch consumer asks for many more than it mostly gets, and must not keep others out of its call for that. Where
    /// it gets them all, those who came after it are better left for the next call.
    fn share(&self, partition: &Partition) -> usize {
        let plenty = partition.plenty.load(Ordering::Relaxed);
        if plenty { (self.options.max_messages as usize).min(GROUP_MESSAGES) } else { 1 }
    }

    fn write(group: &[Self], partition: &Partition, epoch: Epoch, command: &mut Cmd) {
        let topic = &partition.topic;
        // All but those of the idempotency keys, which a lease never needs, and of groups where there are none.
        let keys = &partition.keys.all()[..if topic.settings.grouped { 21 } else { 15 }];
        command.arg(keys.len()).arg(keys);
        let waits = group.iter().any(|lease| lease.waits);
        let sized = is_sized(group);
        command.arg(&topic.version_tag).arg(epoch.to_string());
        let push = topic.settings.push.is_some();
        let several = group.iter().any(|lease| lease.options.several);
        let sizes = if several && !sized { 2 } else { u8::from(sized) };
        command.arg(u8::from(waits) + 2 * u8::from(push)).arg(sizes);
        // Of several partitions it is counted before.
        let most = topic.max_leased().filter(|_| !topic.is_split());
        command.arg(most.map(|most| most.to_string()).unwrap_or_default());
        let shortest = group.iter().map(|lease| topic.lease_ms(&lease.options)).min();
        let shortest = shortest.filter(|ms| *ms < topic.settings.lease_ms);
        command.arg(shortest.map(|ms| ms.to_string()).unwrap_or_default());
        if sized {
            for Lease { options, begun, .. } in group {
                command.arg(options.max_messages).arg(topic.lease_ms(options));
                command.arg(options.max_bytes).arg(u8::from(*begun));
            }
        } else {
            let lease_ms = |lease: &Self| topic.lease_ms(&lease.options);
            for leases in group.chunk_by(|a, b| lease_ms(a) == lease_ms(b)) {
                let messages: u64 = leases.iter().map(|lease| lease.options.max_messages).sum();
                command.arg(messages).arg(lease_ms(&leases[0]));
            }
        }
    }

    /// Who gets nothing has nothing that could be lost.
    fn tells(outcome: &LeaseOutcome) -> bool {
        !outcome.grants.messages().is_empty()
    }

    fn read(group: &[Self], reply: &mut Reply<'_>) -> Answers<LeaseOutcome> {
        let (partition, topic) = (reply.partition, reply.topic());
        let (now, up, next_at) = (reply.now()?, reply.int()?, reply.instant()?);
        let more = reply.int()? == 1;
        let lease_expired = reply.int()? as u64;
        topic.counters.lease_expired.inc_by(lease_expired);
        partition.saw_deaths(reply.int()?, now);
        let expired = reply.int()? as u64;
        topic.counters.expired.inc_by(expired);
        let mut found = Found::read(now, up, reply)?;
        // Without counts what was found belongs to the requests in order, each as much as it asked for.
        let sized = is_sized(group) && !found.counts.is_empty();
        let mut left = found.bodies.len();
        let mut answers = Vec::with_capacity(group.len());
        let (mut first_end, mut plenty, mut granted, mut last_due) = (None, true, 0, 0);
        for Lease { options, registry, .. } in group {
            let lease_ends = up.saturating_add(topic.lease_ms(options));
            let count = match sized {
                // The script counts up to the request that got the last one.
                true if found.counts.is_empty() => 0,
                true => found.counts.int()? as usize,
                false => left.min(options.max_messages as usize),
            };
            left -= count.min(left);
            plenty &= more || (count as u64 == options.max_messages && count > 0);
            let mut messages = Vec::with_capacity(count.min(found.bodies.len()));
            let mut damaged = Vec::new();
            for _ in 0..count {
                match found.next(partition, lease_ends)? {
                    Some(Ok(message)) => messages.push(message),
                    Some(Err(lease)) => damaged.push(lease),
                    None => {}
                }
            }
            if !messages.is_empty() {
                first_end = first_end.into_iter().chain([lease_ends]).min();
            }
            granted += messages.len() as u64;
            last_due = messages.last().map_or(last_due, |message: &Granted| message.due_at);
            let origin = (!messages.is_empty()).then(|| (registry.clone(), topic.clone()));
            let grants = Grants { messages, origin };
            let cleared = expired > 0;
            answers.push(Ok(LeaseOutcome {
                grants,
                next_at,
                more,
                failed: None,
                cleared,
                damaged,
            }));
        }
        partition.plenty.store(plenty, Ordering::Relaxed);
        if topic.is_split() {
            let wakes = group.iter().map(|lease| lease.wakes).min().unwrap_or_default();
            // If a consumer got less than it wanted, nothing is left but what falls due later.
            let head = if plenty { last_due } else { next_at.unwrap_or(FOREVER) };
            // What is there now must be so by this instance's clock too, which is some ms behind.
            let there = head <= now;
            let head = if there { head.min(reply.backend.clock.now()) } else { head };
            partition.learn(wakes, head);
        }
        partition.sweep_by(now, first_end);
        reply.backend.shared.metrics.observe_lateness(&found.lateness);
        topic.counters.observe_lateness(&found.lateness);
        topic.counters.granted.inc_by(granted);
        partition.happened(granted > 0 || lease_expired > 0);
        partition.were_late(&found.lateness);
        Ok(answers)
    }
}

fn is_sized(group: &[Lease]) -> bool {
    group.iter().any(|lease| lease.options.max_bytes < SIZED_BELOW)
}

/// The messages of a reply.
struct Found {
    now: Millis,
    /// `now`, rounded up to the ms.
    up: Millis,
    /// Counted grants that a message of the topic has.
    max_attempts: i64,
    epoch: Epoch,
    /// Member and due time of each.
    places: Packed,
    bodies: Fields,
    /// Not all of them are plain: there are `facts`.
    special: bool,
    /// Attempt, counted grants left and priority of each.
    facts: Packed,
    /// Key and group of each; empty where none has one.
    names: Fields,
    /// How many are whose; may be empty.
    counts: Fields,
    /// How late (ms) those are that were never granted before.
    lateness: Vec<Millis>,
}

impl Found {
    fn read(now: Millis, up: Millis, reply: &mut Reply<'_>) -> Result<Self, CallError> {
        let max_attempts = reply.int()?;
        let epoch = Epoch::parse(&reply.text()?).unwrap_or_default();
        let (places, bodies) = (reply.packed()?, reply.fields()?);
        let (mut facts, mut names, mut counts) = (Packed::none(), Fields::none(), Fields::none());
        if !reply.is_empty() {
            (facts, names, counts) = (reply.packed()?, reply.fields()?, reply.fields()?);
        }
        Ok(Self {
            now,
            up,
            max_attempts,
            epoch,
            places,
            bodies,
            special: !facts.is_empty(),
            facts,
            names,
            counts,
            lateness: Vec::new(),
        })
    }

    /// The next message, or the lease of one whose body is damaged. `None` for a place without a body, which `dueq audit`
    /// finds.
    fn next(
        &mut self,
        partition: &Partition,
        lease_ends: Millis,
    ) -> Result<Option<Result<Granted, Damaged>>, CallError> {
        let member = self.places.member()?;
        // A damaged score, which is no instant, must not keep the other messages.
        let due_at = self.places.int().unwrap_or_default().clamp(0, MAX_DUE);
        let (attempt, attempts_left, priority) = match self.special {
            true => (self.facts.int()?, self.facts.int()?, self.facts.int()?),
            false => (1, self.max_attempts.saturating_sub(1).max(0), 0),
        };
        let (mut key, group) = match self.names.is_empty() {
            true => (String::new(), String::new()),
            false => (self.names.text()?, self.names.text()?),
        };
        if attempt == 1 {
            self.lateness.push(self.now.saturating_sub(due_at));
        }
        let id = MessageId::from_member(&member, partition.route);
        let (attempt, last) = (attempt as u32, attempts_left == 0);
        let claims = LeaseClaims { attempt, epoch: self.epoch, granted_at: self.up, last };
        let Ok(body) = bytes(self.bodies.value()?) else { return Ok(None) };
        let Ok(body) = decode(body, &id, &partition.topic) else {
            return Ok(Some(Err((id, claims))));
        };
        let mut frees_key = false;
        if partition.topic.settings.push.is_some() && !key.is_empty() {
            frees_key = key.remove(0) == 'g';
        }
        Ok(Some(Ok(Granted {
            id,
            due_at,
            claims,
            attempts_left,
            payload_bytes: body.content.payload().len() as u64,
            body,
            priority: priority as u8,
            frees_key,
            key: (!key.is_empty()).then_some(key),
            group: (!group.is_empty()).then_some(group),
            lease_expires_at: lease_ends,
        })))
    }
}

impl Topic {
    /// How long a lease lasts that is asked for so, ms.
    pub(super) fn lease_ms(&self, options: &LeaseOptions) -> Millis {
        options.lease_ms.map_or(self.settings.lease_ms, |lease_ms| lease_ms as Millis)
    }
}
