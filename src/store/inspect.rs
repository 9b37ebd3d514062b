//! get, delete, exists, count_topic: scripts that serve one request a call, since nobody calls them in a hurry.

use super::{
    backend::Backend,
    call::{Context, Ticket, Verb},
    lease::decode,
    registry::Topic,
    reply::{CallError, Fields, int, malformed, word},
    scripts::{self, Script},
};
use crate::{
    error::Error,
    model::{Body, MessageId, Millis, State},
};
use deadpool_redis::redis::{Cmd, Value};
use std::sync::Arc;

/// A message as it stands.
#[derive(Clone, Debug)]
pub struct MessageSnapshot {
    /// Where it is in its life.
    pub state: State,
    /// Due time, end of the lease, or time of death, by `state`.
    pub at: Millis,
    /// Grants so far.
    pub attempts: i64,
    /// Counted grants that are left.
    pub attempts_left: i64,
    /// 0…255.
    pub priority: u8,
    /// Content and headers.
    pub body: Body,
}

pub(crate) struct Get(pub MessageId);
pub(crate) struct Delete(pub MessageId);
pub(crate) struct Exists(pub MessageId);
pub(crate) struct CountTopic;

/// Names of a topic's totals, in the order of the contract; those of later features stay 0.
pub const TOTALS: [&str; 14] = [
    "published",
    "granted",
    "acked",
    "nacked",
    "released",
    "lease_expired",
    "dead",
    "expired",
    "deleted",
    "purged",
    "redriven",
    "replaced",
    "returned",
    "deleted_leased",
];

/// One consistent look at a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicSnapshot {
    /// Not due yet.
    pub delayed: i64,
    /// Due, or their lease is over.
    pub ready: i64,
    /// Held by consumers.
    pub leased: i64,
    /// Dead.
    pub dead: i64,
    /// How long the oldest ready message has been due, ms.
    pub oldest_ready_age_ms: Option<Millis>,
    /// When the next delayed message falls due.
    pub next_due_at: Option<Millis>,
    /// As many as `TOTALS` has names.
    pub totals: [i64; TOTALS.len()],
}

/// The nine keys in the order that get, delete and lease share.
fn write_all_keys(topic: &Topic, command: &mut Cmd) {
    let keys = &topic.keys;
    command.arg(9).arg(&keys.unack).arg(&keys.last).arg(&keys.delayed).arg(&keys.messages);
    command
        .arg(&keys.meta)
        .arg(&keys.extra)
        .arg(&keys.delayed_prio)
        .arg(&keys.ready)
        .arg(&keys.dead);
}

fn word_of(reply: &Value) -> Result<&str, CallError> {
    match word(reply) {
        Some("STALE") => Err(CallError::Stale),
        Some(word) => Ok(word),
        None => Err(malformed(reply)),
    }
}

impl Verb for Get {
    type Answer = Option<MessageSnapshot>;

    fn script() -> &'static Script {
        &scripts::GET
    }

    fn write(group: &[Ticket<Self>], topic: &Topic, _: &Context<'_>, command: &mut Cmd) {
        write_all_keys(topic, command);
        command.arg(topic.route.topic.0);
        for ticket in group {
            command.arg(&ticket.verb.0.member()[..]);
        }
    }

    fn read(
        group: &[Ticket<Self>],
        _: &Arc<Topic>,
        context: &mut Context<'_>,
        reply: Value,
    ) -> Result<Vec<Result<Self::Answer, CallError>>, CallError> {
        if word(&reply) == Some("NONE") {
            return Ok(vec![Ok(None)]);
        }
        let mut fields = Fields::of(reply)?;
        context.backend.clock.observe(fields.int()?);
        let state = State::from_word(&fields.text()?).ok_or(CallError::Internal)?;
        let (at, attempts, attempts_left) = (fields.int()?, fields.int()?, fields.int()?);
        let priority = fields.int()? as u8;
        let body = decode(fields.bytes()?, &group[0].verb.0)?;
        Ok(vec![Ok(Some(MessageSnapshot { state, at, attempts, attempts_left, priority, body }))])
    }

    fn canned(self, _: &Arc<Topic>, _: &Backend) -> Self::Answer {
        None
    }
}

impl Verb for Delete {
    type Answer = Result<(), Error>;

    fn script() -> &'static Script {
        &scripts::DELETE
    }

    fn write(group: &[Ticket<Self>], topic: &Topic, _: &Context<'_>, command: &mut Cmd) {
        write_all_keys(topic, command);
        command.arg(topic.route.topic.0);
        for ticket in group {
            command.arg(&ticket.verb.0.member()[..]);
        }
    }

    fn read(
        _: &[Ticket<Self>],
        _: &Arc<Topic>,
        _: &mut Context<'_>,
        reply: Value,
    ) -> Result<Vec<Result<Self::Answer, CallError>>, CallError> {
        Ok(vec![Ok(match word_of(&reply)? {
            "OK" => Ok(()),
            "LEASED" => Err(Error::MessageLeased),
            "NONE" => Err(Error::MessageNotFound),
            _ => return Err(malformed(&reply)),
        })])
    }

    fn canned(self, _: &Arc<Topic>, _: &Backend) -> Self::Answer {
        Ok(())
    }
}

impl Verb for Exists {
    type Answer = bool;

    fn script() -> &'static Script {
        &scripts::EXISTS
    }

    fn write(group: &[Ticket<Self>], topic: &Topic, _: &Context<'_>, command: &mut Cmd) {
        command.arg(2).arg(&topic.keys.messages).arg(&topic.keys.meta).arg(topic.route.topic.0);
        for ticket in group {
            command.arg(&ticket.verb.0.member()[..]);
        }
    }

    fn read(
        _: &[Ticket<Self>],
        _: &Arc<Topic>,
        _: &mut Context<'_>,
        reply: Value,
    ) -> Result<Vec<Result<bool, CallError>>, CallError> {
        if let Value::Int(found) = reply {
            return Ok(vec![Ok(found == 1)]);
        }
        word_of(&reply)?;
        Err(malformed(&reply))
    }

    fn canned(self, _: &Arc<Topic>, _: &Backend) -> bool {
        false
    }
}

impl Verb for CountTopic {
    type Answer = TopicSnapshot;

    fn script() -> &'static Script {
        &scripts::COUNT_TOPIC
    }

    fn write(_: &[Ticket<Self>], topic: &Topic, _: &Context<'_>, command: &mut Cmd) {
        let keys = &topic.keys;
        command.arg(7).arg(&keys.unack).arg(&keys.last).arg(&keys.delayed).arg(&keys.meta);
        command.arg(&keys.delayed_prio).arg(&keys.ready).arg(&keys.dead);
        command.arg(topic.route.topic.0).arg(&TOTALS[..]);
    }

    fn read(
        _: &[Ticket<Self>],
        _: &Arc<Topic>,
        context: &mut Context<'_>,
        reply: Value,
    ) -> Result<Vec<Result<TopicSnapshot, CallError>>, CallError> {
        let mut fields = Fields::of(reply)?;
        let now = fields.int()?;
        context.backend.clock.observe(now);
        let (delayed, ready) = (fields.int()?, fields.int()?);
        let (leased, dead) = (fields.int()?, fields.int()?);
        let (oldest, next) = (fields.int()?, fields.int()?);
        let mut totals = [0; TOTALS.len()];
        for total in &mut totals {
            *total = int(fields.value()?)?;
        }
        Ok(vec![Ok(TopicSnapshot {
            delayed,
            ready,
            leased,
            dead,
            oldest_ready_age_ms: (oldest > 0).then(|| (now - oldest).max(0)),
            next_due_at: (next > 0).then_some(next),
            totals,
        })])
    }

    fn canned(self, _: &Arc<Topic>, _: &Backend) -> TopicSnapshot {
        let totals = [0; TOTALS.len()];
        TopicSnapshot {
            delayed: 0,
            ready: 0,
            leased: 0,
            dead: 0,
            oldest_ready_age_ms: None,
            next_due_at: None,
            totals,
        }
    }
}
