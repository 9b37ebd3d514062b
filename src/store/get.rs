//! get: a message as it stands. Also how everything reads a stored message that shows one.

use super::{
    Store,
    batch::{CallContext, SingleOp},
    extra::Extra,
    registry::Topic,
    reply::{CallError, Fields, malformed, required_word},
    scripts::{self, Script},
    types::{MessageRef, MessageSnapshot},
};
use crate::{
    error::Error,
    model::{Body, Event, EventKind, MAX_EVENTS, Member, MessageId, Millis, State},
};
use bytes::Bytes;
use deadpool_redis::redis::{Cmd, Value};
use std::sync::Arc;

pub(crate) struct Get(pub MessageRef);
pub(crate) struct Exists(pub MessageId);

impl Store {
    /// A message as it stands, and its topic.
    ///
    /// Errors: `MessageNotFound`, `TopicNotFound` for a key, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn get(&self, message: &MessageRef) -> Result<(Arc<Topic>, MessageSnapshot), Error> {
        let (topic, found) = self.on_ref(message, || Get(message.clone())).await?;
        Ok((topic, found.ok_or(Error::MessageNotFound)?))
    }

    /// Is there such a message?
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub(super) async fn exists(&self, id: MessageId) -> Result<bool, Error> {
        match self.on_message(id, || Exists(id)).await {
            Ok((_, found)) => Ok(found),
            Err(Error::MessageNotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl MessageRef {
    /// Writes member and key, one of them empty.
    pub(super) fn write(&self, command: &mut Cmd) {
        match self {
            Self::Id(id) => command.arg(&id.member()[..]).arg(""),
            Self::Key(_, key) => command.arg("").arg(key),
        };
    }
}

impl SingleOp for Get {
    type Output = Option<MessageSnapshot>;

    fn script() -> &'static Script {
        &scripts::GET
    }

    fn write(&self, topic: &Topic, command: &mut Cmd) {
        topic.keys.write_all(command);
        command.arg(&topic.word);
        self.0.write(command);
    }

    fn read(
        &self,
        topic: &Arc<Topic>,
        context: &mut CallContext<'_>,
        reply: Value,
    ) -> Result<Self::Output, CallError> {
        if !matches!(reply, Value::Array(_)) {
            return if required_word(&reply)? == "NONE" {
                Ok(None)
            } else {
                Err(malformed(&reply))
            };
        }
        let mut fields = Fields::of(reply)?;
        context.read_now(&mut fields)?;
        read_snapshot(topic, &mut fields.fields()?, None).map(Some)
    }
}

impl SingleOp for Exists {
    type Output = bool;

    fn script() -> &'static Script {
        &scripts::EXISTS
    }

    fn write(&self, topic: &Topic, command: &mut Cmd) {
        command.arg(2).arg(&topic.keys.messages).arg(&topic.keys.meta);
        command.arg(&topic.word).arg(&self.0.member()[..]);
    }

    fn read(
        &self,
        _: &Arc<Topic>,
        _: &mut CallContext<'_>,
        reply: Value,
    ) -> Result<bool, CallError> {
        if let Value::Int(found) = reply { Ok(found == 1) } else { Err(malformed(&reply)) }
    }
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

/// Reads a stored body, and marks what its topic took for a secret since it was stored; a broken one is logged with its id.
pub(crate) fn decode(stored: Bytes, id: &MessageId, topic: &Topic) -> Result<Body, CallError> {
    let mut body = Body::decode(stored).map_err(|error| {
        tracing::error!(%id, %error, "a stored message cannot be read");
        CallError::Internal
    })?;
    body.recall(id.published(), &topic.settings.once_secret);
    Ok(body)
}
