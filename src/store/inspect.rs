//! get, delete, exists, update, redrive_message: what is done with one message.

use super::{
    alone::{Alone, word_of},
    call::Context,
    extra::Extra,
    lease::decode,
    registry::Topic,
    reply::{CallError, Fields, malformed},
    scripts::{self, Script},
    types::{MessageSnapshot, MessageUpdate, Which},
};
use crate::{
    error::Error,
    model::{Event, EventKind, MAX_EVENTS, Member, MessageId, Millis, State},
};
use bytes::Bytes;
use deadpool_redis::redis::{Cmd, Value};
use std::sync::Arc;

pub(crate) struct Get(pub Which);
pub(crate) struct Exists(pub MessageId);
pub(crate) struct RedriveMessage(pub MessageId);

pub(crate) struct Delete {
    pub which: Which,
    pub force: bool,
}

pub(crate) struct Update {
    pub which: Which,
    pub update: MessageUpdate,
    /// The new body, encoded, and what was written of the message's events when it was made.
    pub body: Option<(String, Bytes)>,
}

/// What an update came to.
pub(crate) enum Updated {
    Done(Box<MessageSnapshot>),
    Refused(Error),
    /// The message was changed since it was read.
    Changed,
}

/// The message as scripts take it: member, key.
fn write_which(which: &Which, command: &mut Cmd) {
    match which {
        Which::Id(id) => command.arg(&id.member()[..]).arg(""),
        Which::Key(_, key) => command.arg("").arg(key),
    };
}

/// Reads what the scripts' `snapshot` wrote. `body` is the message's where that left it out.
pub(super) fn read_snapshot(
    topic: &Topic,
    fields: &mut Fields,
    body: Option<&Bytes>,
) -> Result<MessageSnapshot, CallError> {
    let member: Member = fields.bytes()?[..].try_into().map_err(|_| CallError::Internal)?;
    let id = MessageId::from_member(&member, topic.route);
    let state = State::from_word(&fields.text()?).ok_or(CallError::Internal)?;
    let (at, attempts, attempts_left) = (fields.int()?, fields.int()?, fields.int()?);
    let extra = Extra::parse(&fields.text()?);
    let expires_at = Some(fields.int()?).filter(|at| *at > 0);
    let (written, stored) = (fields.text()?, fields.bytes()?);
    let body = decode(body.cloned().unwrap_or(stored), &id, topic)?;
    let events = all_events(topic, &id, state, at, attempts, Event::read_all(&written));
    Ok(MessageSnapshot {
        id,
        state,
        at,
        attempts,
        attempts_left,
        priority: extra.priority,
        key: extra.key,
        ttl_ms: extra.ttl_ms,
        expires_at,
        max_attempts: extra.max_attempts,
        backoff: extra.backoff,
        body: Some(body),
        written,
        events,
    })
}

/// What was written, and what can be told without: its publish, and the first grant while that lasts.
fn all_events(
    topic: &Topic,
    id: &MessageId,
    state: State,
    at: Millis,
    attempts: i64,
    written: Vec<Event>,
) -> Vec<Event> {
    let event = |at, kind, attempt, estimated| Event {
        at,
        kind,
        attempt,
        reason: None,
        call: None,
        estimated,
    };
    let mut events = vec![event(id.published(), EventKind::Published, None, false)];
    events.extend(written);
    let told = |event: &Event| event.attempt.is_some_and(|n| i64::from(n) == attempts);
    if state == State::Leased && !events.iter().any(told) {
        let granted = at.saturating_sub(topic.settings.lease_ms).max(id.published());
        events.push(event(granted, EventKind::Granted, Some(attempts as u32), true));
    }
    let surplus = events.len().saturating_sub(MAX_EVENTS);
    events.split_off(surplus)
}

impl Alone for Get {
    type Answer = Option<MessageSnapshot>;

    fn script() -> &'static Script {
        &scripts::GET
    }

    fn write(&self, topic: &Topic, command: &mut Cmd) {
        topic.keys.write_all(command);
        command.arg(&topic.word);
        write_which(&self.0, command);
    }

    fn read(
        &self,
        topic: &Arc<Topic>,
        context: &mut Context<'_>,
        reply: Value,
    ) -> Result<Self::Answer, CallError> {
        if !matches!(reply, Value::Array(_)) {
            return if word_of(&reply)? == "NONE" { Ok(None) } else { Err(malformed(&reply)) };
        }
        let mut fields = Fields::of(reply)?;
        context.read_now(&mut fields)?;
        read_snapshot(topic, &mut fields.fields()?, None).map(Some)
    }
}

impl Alone for Delete {
    type Answer = Result<(), Error>;

    fn script() -> &'static Script {
        &scripts::DELETE
    }

    fn write(&self, topic: &Topic, command: &mut Cmd) {
        topic.keys.write_all(command);
        command.arg(&topic.word);
        write_which(&self.which, command);
        command.arg(u8::from(self.force));
    }

    fn read(
        &self,
        topic: &Arc<Topic>,
        _: &mut Context<'_>,
        reply: Value,
    ) -> Result<Self::Answer, CallError> {
        match word_of(&reply)? {
            "OK" => {
                topic.counters.deleted.inc();
                Ok(Ok(()))
            }
            "LEASED" => Ok(Err(Error::MessageLeased)),
            "NONE" => Ok(Err(Error::MessageNotFound)),
            _ => Err(malformed(&reply)),
        }
    }
}

impl Alone for Exists {
    type Answer = bool;

    fn script() -> &'static Script {
        &scripts::EXISTS
    }

    fn write(&self, topic: &Topic, command: &mut Cmd) {
        command.arg(2).arg(&topic.keys.messages).arg(&topic.keys.meta);
        command.arg(&topic.word).arg(&self.0.member()[..]);
    }

    fn read(&self, _: &Arc<Topic>, _: &mut Context<'_>, reply: Value) -> Result<bool, CallError> {
        if let Value::Int(found) = reply { Ok(found == 1) } else { Err(malformed(&reply)) }
    }
}

/// A setting of an update: as it is, the topic's, or its own.
fn setting<T: ToString>(value: &Option<Option<T>>) -> String {
    match value {
        None => "-".to_owned(),
        Some(None) => String::new(),
        Some(Some(value)) => value.to_string(),
    }
}

impl Alone for Update {
    type Answer = Updated;

    fn script() -> &'static Script {
        &scripts::UPDATE
    }

    fn write(&self, topic: &Topic, command: &mut Cmd) {
        topic.keys.write_all(command);
        command.arg(&topic.word);
        write_which(&self.which, command);
        let MessageUpdate { due, priority, ttl_ms, max_attempts, backoff, .. } = &self.update;
        command.arg(due.map(|due| due.to_script()).unwrap_or_default());
        command.arg(priority.map(|priority| priority.to_string()).unwrap_or_default());
        command.arg(setting(ttl_ms)).arg(setting(max_attempts));
        let backoff = backoff.as_ref().map(|own| own.as_ref().map(|policy| policy.to_script()));
        command.arg(setting(&backoff));
        match &self.body {
            Some((events, body)) => command.arg(&body[..]).arg(events),
            None => command.arg("").arg(""),
        };
    }

    fn read(
        &self,
        topic: &Arc<Topic>,
        context: &mut Context<'_>,
        reply: Value,
    ) -> Result<Updated, CallError> {
        if !matches!(reply, Value::Array(_)) {
            return Ok(match word_of(&reply)? {
                "NONE" => Updated::Refused(Error::MessageNotFound),
                "LEASED" => Updated::Refused(Error::MessageLeased),
                "DEAD" => Updated::Refused(Error::MessageDead),
                "ACKED" => Updated::Refused(Error::MessageAcked),
                "CHANGED" => Updated::Changed,
                _ => return Err(malformed(&reply)),
            });
        }
        let body = self.body.as_ref().map(|(_, body)| body);
        let (snapshot, mut rest, now) = read_changed(topic, context, reply, body)?;
        topic.saw_deaths(rest.int()?, now);
        Ok(Updated::Done(Box::new(snapshot)))
    }
}

/// A changed message: now, wake, snapshot. Also returns what comes after, and now.
fn read_changed(
    topic: &Arc<Topic>,
    context: &mut Context<'_>,
    reply: Value,
    body: Option<&Bytes>,
) -> Result<(MessageSnapshot, Fields, Millis), CallError> {
    let mut fields = Fields::of(reply)?;
    let now = context.read_wake(topic, &mut fields)?;
    let snapshot = read_snapshot(topic, &mut fields.fields()?, body)?;
    topic.sweep_by(now, snapshot.expires_at);
    Ok((snapshot, fields, now))
}

impl Alone for RedriveMessage {
    type Answer = Result<MessageSnapshot, Error>;

    fn script() -> &'static Script {
        &scripts::REDRIVE_MESSAGE
    }

    fn write(&self, topic: &Topic, command: &mut Cmd) {
        topic.keys.write_all(command);
        command.arg(&topic.word).arg(&self.0.member()[..]);
    }

    fn read(
        &self,
        topic: &Arc<Topic>,
        context: &mut Context<'_>,
        reply: Value,
    ) -> Result<Self::Answer, CallError> {
        if !matches!(reply, Value::Array(_)) {
            return match word_of(&reply)? {
                "NONE" => Ok(Err(Error::MessageNotFound)),
                "NOT_DEAD" => Ok(Err(Error::MessageNotDead)),
                "DUPLICATE" => Ok(Err(Error::DuplicateKey)),
                _ => Err(malformed(&reply)),
            };
        }
        topic.counters.redriven.inc();
        read_changed(topic, context, reply, None).map(|(snapshot, ..)| Ok(snapshot))
    }
}
