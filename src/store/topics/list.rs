//! list_messages: a page of the messages of one state, a bounded number a call.

use super::MAX_LOOKS;
use crate::{
    error::Error,
    model::{Member, MessageId, Millis, State, TopicName},
    store::{
        Store,
        batch::{CallContext, Phase, SingleOp},
        extra::Extra,
        get::decode,
        registry::Topic,
        reply::{CallError, Fields},
        scripts::{self, Script},
        types::{ListCursor, MessagePage, MessageSnapshot},
    },
};
use deadpool_redis::redis::{Cmd, Value};
use std::sync::Arc;

/// Messages of one call.
const CALL_MESSAGES: u64 = 256;
/// Bytes of bodies in one call.
const CALL_BYTES: usize = 256 * 1024;

impl Store {
    /// A page of the messages of one state, at most `limit`; with payloads it ends before so many bytes of them, but never
    /// without a message where there is one.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn list_messages(
        &self,
        name: &TopicName,
        state: State,
        after: Option<&ListCursor>,
        limit: u64,
        payload_bytes: Option<usize>,
    ) -> Result<(Arc<Topic>, MessagePage), Error> {
        // What time has brought is carried out before the first page, so that it stands where it belongs.
        if after.is_none() {
            for _ in 0..MAX_LOOKS {
                let swept = self.sweep_topic(name).await?.ok_or(Error::TopicNotFound)?;
                if !swept.more {
                    break;
                }
            }
        }
        let mut last = after.cloned();
        let most_bytes = payload_bytes.unwrap_or(usize::MAX);
        let (mut items, mut bytes) = (Vec::new(), 0);
        loop {
            let list = || ListSome {
                state,
                limit: CALL_MESSAGES.min(limit - items.len() as u64),
                after: last.clone(),
                body_bytes: payload_bytes.map(|most| CALL_BYTES.min(most - bytes)),
            };
            let (topic, some) = self.on_topic(name, list).await?;
            let (mut more, before) = (some.more, items.len());
            for Listed { message, cursor, bytes: size } in some.items {
                if !items.is_empty() && bytes + size > most_bytes {
                    more = true;
                    break;
                }
                bytes += size;
                items.push(message);
                last = Some(cursor);
            }
            let full = items.len() as u64 >= limit || bytes >= most_bytes;
            if !more || full || items.len() == before {
                let next = last.filter(|_| more && !items.is_empty());
                return Ok((topic, MessagePage { items, next }));
            }
        }
    }
}

/// Some messages of one state.
pub(crate) struct ListSome {
    pub state: State,
    pub limit: u64,
    pub after: Option<ListCursor>,
    /// Bytes of bodies, about; `None` without bodies.
    pub body_bytes: Option<usize>,
}

/// What one call listed.
pub(crate) struct ListedSome {
    pub items: Vec<Listed>,
    pub more: bool,
}

/// A message of a list, where it stands, and how large its body is.
pub(crate) struct Listed {
    pub message: MessageSnapshot,
    pub cursor: ListCursor,
    pub bytes: usize,
}

impl SingleOp for ListSome {
    type Output = ListedSome;
    const PHASE: Phase = Phase::Scan;

    fn script() -> &'static Script {
        &scripts::LIST_MESSAGES
    }

    fn write(&self, topic: &Topic, command: &mut Cmd) {
        topic.keys.write_all(command);
        command.arg(&topic.word).arg(state_word(self.state)).arg(self.limit);
        match &self.after {
            Some(after) => command.arg(after.part).arg(after.score).arg(&after.member[..]),
            None => command.arg("").arg("").arg(""),
        };
        command.arg(self.body_bytes.unwrap_or(0));
    }

    fn read(
        &self,
        topic: &Arc<Topic>,
        context: &mut CallContext<'_>,
        reply: Value,
    ) -> Result<ListedSome, CallError> {
        let mut fields = Fields::of(reply)?;
        context.read_now(&mut fields)?;
        let more = fields.int()? == 1;
        let topic_max = fields.int()?;
        let (mut places, mut extras) = (fields.fields()?, fields.fields()?);
        let (mut bodies, topic_ttl) = (fields.fields()?, fields.int()?);
        let mut items = Vec::with_capacity(extras.len());
        while !places.is_empty() {
            let (part, score) = (places.int()? as u8, places.int()?);
            let member: Member = places.bytes()?[..].try_into().map_err(|_| CallError::Internal)?;
            let id = MessageId::from_member(&member, topic.route);
            let extra = Extra::parse(&extras.text()?);
            let mut bytes = 0;
            let body = match self.body_bytes {
                None => None,
                Some(_) => {
                    let stored = bodies.bytes()?;
                    bytes = stored.len();
                    // A place without a body is `dueq audit`'s to find; it is no message.
                    match decode(stored, &id, topic) {
                        Ok(body) => Some(body),
                        Err(_) => continue,
                    }
                }
            };
            let at = instant_of(self.state, part, score);
            let held = i64::from(matches!(self.state, State::Leased | State::Acked));
            let max = extra.max_attempts.map_or(topic_max, i64::from);
            let waits = matches!(self.state, State::Delayed | State::Ready);
            // Of a message that was granted before it is not known here when it first fell due.
            let ttl = extra.ttl_ms.or((topic_ttl > 0).then_some(topic_ttl));
            let expires_at =
                ttl.filter(|_| waits && extra.attempts == 0).map(|ttl| at.saturating_add(ttl));
            let message = MessageSnapshot {
                id,
                state: self.state,
                at,
                attempts: extra.attempts.saturating_add(held),
                attempts_left: max.saturating_sub(extra.counted).saturating_sub(held).max(0),
                priority: extra.priority,
                key: extra.key,
                ttl_ms: extra.ttl_ms,
                expires_at,
                max_attempts: extra.max_attempts,
                backoff: extra.backoff,
                body,
                written: String::new(),
                events: Vec::new(),
            };
            items.push(Listed { message, cursor: ListCursor { part, score, member }, bytes });
        }
        Ok(ListedSome { items, more })
    }
}

fn state_word(state: State) -> &'static str {
    match state {
        State::Delayed => "delayed",
        State::Ready => "ready",
        State::Leased => "leased",
        State::Dead => "dead",
        State::Acked | State::Expired => "acked",
    }
}

/// The instant in a score: see the keys in `migrations-lua/README.md`.
fn instant_of(state: State, part: u8, score: i64) -> Millis {
    match (state, part) {
        (State::Ready, 0) => score % (1 << 45),
        (State::Leased | State::Acked, _) => score >> 11,
        _ => score,
    }
}
