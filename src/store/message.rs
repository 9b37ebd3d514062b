//! One message, looked at. Also how everything reads a stored message that shows one.

use super::{
    Store,
    batch::Command,
    callback_names::shown,
    extra::Extra,
    partition::Partition,
    registry::Topic,
    reply::{CallError, Fields, Reply},
    scripts,
    types::{MessageRef, MessageSnapshot},
    waiting::{GroupWaits, TopicWaits, Waits},
};
use bytes::Bytes;
use dueq_model::{
    Body, Event, EventKind, MAX_EVENTS, MessageId, Millis, State, error::Error, last_error,
    last_status, stored_result,
};
use serde_json::value::RawValue;
use std::sync::Arc;

impl Store {
    /// A message and its topic.
    ///
    /// Errors: `MessageNotFound`, `TopicNotFound` for a key, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn get(&self, message: &MessageRef) -> Result<(Arc<Topic>, MessageSnapshot), Error> {
        let get = |partition: &Partition| {
            let get = Command::on(&scripts::GET, partition).arg(message.arguments()).arg(0);
            get.read(partition, read_found)
        };
        let (Partition { topic, .. }, found) = self.on(message, get).await?;
        let mut found = found.ok_or(Error::MessageNotFound)?;
        self.explain(&topic, [&mut found]).await?;
        Ok((topic, found))
    }

    /// Has this message been acknowledged, or is it dead or gone?
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn has_ended(&self, id: MessageId) -> Result<bool, Error> {
        let get = |partition: &Partition| {
            let get = Command::on(&scripts::GET, partition).arg(&id.member()[..]).arg(("", 1));
            get.read(partition, |reply| {
                if reply.word() == Some("NONE") {
                    return Ok(true);
                }
                reply.now()?;
                let state = State::from_word(&reply.text()?).ok_or(CallError::Internal)?;
                Ok(matches!(state, State::Dead | State::Acked))
            })
        };
        match self.on(&MessageRef::Id(id), get).await {
            Ok((_, ended)) => Ok(ended),
            Err(Error::MessageNotFound) => Ok(true),
            Err(error) => Err(error),
        }
    }
}

impl MessageRef {
    /// Member and key, one of them empty.
    pub(super) fn arguments(&self) -> (Vec<u8>, &str) {
        match self {
            Self::Id(id) => (id.member().to_vec(), ""),
            Self::Key(_, key) => (Vec::new(), key),
        }
    }
}

pub(super) fn read_found(reply: &mut Reply<'_>) -> Result<Option<MessageSnapshot>, CallError> {
    if reply.word() == Some("NONE") {
        return Ok(None);
    }
    reply.now()?;
    read_snapshot(reply.partition, &mut reply.fields()?, None).map(Some)
}

/// A changed message: now, wake, snapshot. Also returns now.
pub(super) fn read_changed(
    reply: &mut Reply<'_>,
    body: Option<&Bytes>,
) -> Result<(MessageSnapshot, Millis), CallError> {
    let now = reply.now_and_wake()?;
    let snapshot = read_snapshot(reply.partition, &mut reply.fields()?, body)?;
    reply.partition.sweep_by(now, snapshot.expires_at);
    Ok((snapshot, now))
}

/// Reads what the scripts' `snapshot` wrote. `body` is the message's where that left it out.
pub(super) fn read_snapshot(
    partition: &Partition,
    fields: &mut Fields,
    body: Option<&Bytes>,
) -> Result<MessageSnapshot, CallError> {
    let id = MessageId::from_member(&fields.member()?, partition.route);
    let topic = &partition.topic;
    let state = State::from_word(&fields.text()?).ok_or(CallError::Internal)?;
    let (at, attempts, attempts_left) = (fields.int()?, fields.int()?, fields.int()?);
    let extra = shown(&topic.name, Extra::parse(&fields.text()?));
    // Of a leased message it is when it may have been granted.
    let over = fields.instant()?;
    let begun = extra.options.ttl_ms.is_some() || has_ttl(topic, state);
    let expires_at = over.filter(|_| state != State::Leased && begun);
    let (written, stored) = (fields.text()?, fields.bytes()?);
    let body = decode_or_empty(body.cloned().unwrap_or(stored), &id, topic);
    let (last_error, events) = (last_error(&written), Event::read_all(&written));
    let granted = over.filter(|_| state == State::Leased);
    let events = all_events(&id, granted, attempts, events);
    let waits = match state {
        State::Leased => Some(Waits::of_leased(at)),
        _ if fields.is_empty() => None,
        _ => {
            let all = TopicWaits::read(&mut fields.fields()?)?;
            let own = GroupWaits::read(&mut fields.fields()?, partition)?;
            Some(Waits::new(topic, at, &written, all, own, Some(&body)))
        }
    };
    let result = stored_result(&written).and_then(|it| RawValue::from_string(it.to_owned()).ok());
    Ok(MessageSnapshot {
        id,
        result,
        state,
        at: waits.as_ref().map_or(at, |waits| waits.due),
        attempts,
        attempts_left,
        options: extra.options,
        key: extra.key,
        expires_at,
        body: Some(body),
        url: None,
        last_status: last_status(&written),
        last_error,
        written,
        events,
        waits: waits.map(Box::new),
        waiting_for: None,
    })
}

/// Has the topic's TTL of a message in this state begun? Where groups have a rate, it begins when the message could go.
fn has_ttl(topic: &Topic, state: State) -> bool {
    state != State::Blocked || !topic.settings.has_group_turns()
}

/// The written events, and those that are known without: its publish, and the first grant while that lasts.
fn all_events(
    id: &MessageId,
    granted: Option<Millis>,
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
    let is_grant = |event: &Event| event.attempt.is_some_and(|n| i64::from(n) == attempts);
    if let Some(granted) = granted
        && !events.iter().any(is_grant)
    {
        events.push(event(granted, EventKind::Granted, Some(attempts as u32), true));
    }
    let surplus = events.len().saturating_sub(MAX_EVENTS);
    events.split_off(surplus)
}

/// Reads a stored body, and marks what its topic took for a secret since it was stored; a broken one is logged with its id.
pub fn decode(stored: Bytes, id: &MessageId, topic: &Topic) -> Result<Body, CallError> {
    let mut body = Body::decode(stored).map_err(|error| {
        tracing::error!(%id, %error, "a stored message cannot be read");
        CallError::Internal
    })?;
    body.recall(id.published(), &topic.settings.once_secret);
    Ok(body)
}

/// The same for reading a message, which exists even if its body is broken.
pub(super) fn decode_or_empty(stored: Bytes, id: &MessageId, topic: &Topic) -> Body {
    decode(stored.clone(), id, topic).unwrap_or_else(|_| Body::damaged(stored))
}
