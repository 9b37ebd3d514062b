//! lease: grants for a group of wants, and what becomes of a grant whose consumer is gone.

use super::{
    call::{Context, GROUP_MESSAGES, Single, Ticket, Verb},
    grants::{Granted, Grants, Home},
    job::Job,
    lanes::Lanes,
    registry::Topic,
    reply::{CallError, Fields, bytes},
    scripts::{self, Script},
    submit::Grouped,
};
use crate::{
    model::{Body, Epoch, Member, MessageId, Millis, Seal},
    seeded,
};
use bytes::Bytes;
use deadpool_redis::redis::{Cmd, Value, cmd};
use std::sync::{Arc, Weak, atomic::Ordering};
use tokio::sync::oneshot;

/// Below this, a want's max_bytes makes the script look at every size; above, the bound of a reply is smaller anyway.
const SIZED_BELOW: u64 = 256 * 1024;

/// What a consumer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// Messages, at most.
    pub max_messages: u64,
    /// Payload bytes, at most, but never less than one message.
    pub max_bytes: u64,
    /// How long the holder has, ms; `None`: as long as the topic says.
    pub lease_ms: Option<u64>,
    /// dueq itself asks, to send the messages of a pushed topic.
    pub push: bool,
}

/// A want, and whether the consumer has messages for it from an earlier call, or will sleep for them.
pub(crate) struct Lease {
    pub want: Want,
    pub begun: bool,
    pub waits: bool,
    pub home: Home,
}

/// What one want got.
pub(crate) struct Leased {
    pub grants: Grants,
    /// When something next happens in the partition by itself; `None`: nothing will, or the want was met.
    pub next_at: Option<Millis>,
    /// The call reached its bounds: ask again at once.
    pub more: bool,
    /// It removed what had expired, which may go on for long.
    pub cleared: bool,
}

impl Lease {
    /// Messages that it is granted, about. A batch consumer wants many more than it mostly gets, and must not keep others
    /// out of its call for that; where it gets them all, those who came after it are better left for the next call.
    pub fn expects(&self, topic: &Topic) -> usize {
        let plenty = topic.plenty.load(Ordering::Relaxed);
        if plenty { (self.want.max_messages as usize).min(GROUP_MESSAGES) } else { 1 }
    }
}

impl Grouped for Lease {
    fn job(ticket: Ticket<Self>) -> Job {
        Job::Lease(ticket)
    }
}

impl Verb for Lease {
    type Answer = Leased;

    fn script() -> &'static Script {
        &scripts::LEASE
    }

    fn write(group: &[Ticket<Self>], topic: &Topic, context: &Context<'_>, command: &mut Cmd) {
        // All but those of the idempotency keys, which a lease never needs.
        let keys = &topic.keys.all()[..15];
        command.arg(keys.len());
        for key in keys {
            command.arg(*key);
        }
        let waits = group.iter().any(|ticket| ticket.verb.waits);
        let sized = group.iter().any(|ticket| ticket.verb.want.max_bytes < SIZED_BELOW);
        command.arg(&topic.word).arg(context.epoch.to_string());
        let push = topic.settings.push.is_some();
        command.arg(u8::from(waits) + 2 * u8::from(push)).arg(u8::from(sized));
        if sized {
            for Lease { want, begun, .. } in group.iter().map(|ticket| &ticket.verb) {
                command.arg(want.max_messages).arg(topic.lease_ms(want));
                command.arg(want.max_bytes).arg(u8::from(*begun));
            }
        } else {
            let lease_ms = |ticket: &Ticket<Self>| topic.lease_ms(&ticket.verb.want);
            for wants in group.chunk_by(|a, b| lease_ms(a) == lease_ms(b)) {
                let messages: u64 = wants.iter().map(|ticket| ticket.verb.want.max_messages).sum();
                command.arg(messages).arg(lease_ms(&wants[0]));
            }
        }
    }

    fn read(
        group: &[Ticket<Self>],
        topic: &Arc<Topic>,
        context: &mut Context<'_>,
        reply: Value,
    ) -> Result<Vec<Result<Leased, CallError>>, CallError> {
        let mut fields = Fields::of(reply)?;
        let (now, up) = (context.read_now(&mut fields)?, fields.int()?);
        let next_at = Some(fields.int()?).filter(|next| *next > 0);
        let more = fields.int()? == 1;
        topic.counters.lease_expired.inc_by(fields.int()? as u64);
        topic.saw_deaths(fields.int()?, now);
        let expired = fields.int()? as u64;
        topic.counters.expired.inc_by(expired);
        let max_attempts = fields.int()?;
        let epoch = Epoch::parse(&fields.text()?).unwrap_or_default();
        let (mut found, mut bodies) = (fields.fields()?, fields.fields()?);
        let mut rest = || if fields.is_empty() { Ok(Fields::none()) } else { fields.fields() };
        let (mut facts, mut counts) = (rest()?, rest()?);
        // Without counts what was found belongs to the wants in order, each as much as it asked for.
        let sized = group.iter().any(|ticket| ticket.verb.want.max_bytes < SIZED_BELOW);
        let mut left = found.len() / 2;
        let special = !facts.is_empty();
        let mut late = Vec::new();
        let mut answers = Vec::with_capacity(group.len());
        let mut first_end = None;
        let mut plenty = true;
        for ticket in group {
            let lease_ends = up.saturating_add(topic.lease_ms(&ticket.verb.want));
            let count = if sized && !counts.is_empty() {
                counts.int()? as usize
            } else {
                left.min(ticket.verb.want.max_messages as usize)
            };
            left -= count.min(left);
            plenty &= more || count as u64 == ticket.verb.want.max_messages;
            let mut messages = Vec::with_capacity(count.min(found.len()));
            for _ in 0..count {
                let member: Member =
                    found.bytes()?[..].try_into().map_err(|_| CallError::Internal)?;
                let due_at = found.int()?;
                let (attempt, attempts_left, priority, key) = if special {
                    (facts.int()?, facts.int()?, facts.int()?, facts.text()?)
                } else {
                    (1, max_attempts.saturating_sub(1).max(0), 0, String::new())
                };
                if attempt == 1 {
                    late.push(now.saturating_sub(due_at));
                }
                let id = MessageId::from_member(&member, topic.route);
                let seal = Seal {
                    attempt: attempt as u32,
                    epoch,
                    granted_at: up,
                    last: attempts_left == 0,
                };
                // A place without a body: `dueq audit` finds it; here it is left out.
                let Ok(body) = bytes(bodies.value()?).and_then(|b| decode(b, &id, topic)) else {
                    continue;
                };
                messages.push(Granted {
                    id,
                    due_at,
                    seal,
                    attempts_left,
                    payload_bytes: body.content.payload().len() as u64,
                    body,
                    priority: priority as u8,
                    key: (!key.is_empty()).then_some(key),
                    lease_expires_at: lease_ends,
                });
            }
            if !messages.is_empty() {
                first_end = first_end.into_iter().chain([lease_ends]).min();
            }
            if seeded::bug("pop before record") {
                record_late(&messages, &ticket.verb.home.lanes, topic);
            }
            let home = (!messages.is_empty()).then(|| (ticket.verb.home.clone(), topic.clone()));
            answers.push(Ok(Leased {
                grants: Grants { messages, home },
                next_at,
                more,
                cleared: expired > 0,
            }));
        }
        topic.plenty.store(plenty, Ordering::Relaxed);
        topic.sweep_by(now, first_end);
        context.backend.metrics.observe_lateness(&late);
        let granted: i64 =
            answers.iter().flatten().map(|a: &Leased| a.grants.messages.len() as i64).sum();
        topic.counters.granted.inc_by(granted as u64);
        Ok(answers)
    }
}

/// A seeded bug: what the script took is noted as leased by a command of its own.
fn record_late(messages: &[Granted], lanes: &Weak<Lanes>, topic: &Topic) {
    let (Some(lanes), Some(first)) = (lanes.upgrade(), messages.first()) else { return };
    let mut add = cmd("EVAL");
    add.arg(
        "local number = redis.call('HGET', KEYS[2], ARGV[1]) % 2048
        for i = 2, #ARGV, 2 do redis.call('ZADD', KEYS[1], ARGV[i] * 2048 + number, ARGV[i + 1]) end",
    );
    add.arg(2).arg(&topic.keys.unack).arg(&topic.keys.meta);
    add.arg(format!("epoch:{}", first.seal.epoch));
    for message in messages {
        add.arg(message.lease_expires_at).arg(&message.id.member()[..]);
    }
    let (answer, answered) = oneshot::channel();
    lanes.inbox.put(Single { command: add, answer }.job());
    tokio::spawn(answered);
}

impl Topic {
    /// How long a lease lasts that is wanted so, ms.
    fn lease_ms(&self, want: &Want) -> Millis {
        want.lease_ms.map_or(self.settings.lease_ms, |lease_ms| lease_ms as Millis)
    }
}

/// Reads a stored body, and marks what its topic took for a secret since it was stored; a broken one is logged with its id.
pub(crate) fn decode(stored: Bytes, id: &MessageId, topic: &Topic) -> Result<Body, CallError> {
    let mut body = Body::decode(stored).map_err(|error| {
        tracing::error!(%id, %error, "a stored message cannot be read");
        CallError::Internal
    })?;
    body.recall(id.published(), &topic.settings.once_secret);
    Ok(body)
}
