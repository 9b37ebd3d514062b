//! list_messages: a page of a state, a bounded number of messages a call.

use super::{
    alone::Alone,
    call::Context,
    extra::Extra,
    lease::decode,
    registry::Topic,
    reply::{CallError, Fields},
    scripts::{self, Script},
    types::{ListCursor, MessageSnapshot},
};
use crate::model::{Member, MessageId, Millis, State};
use deadpool_redis::redis::{Cmd, Value};
use std::sync::Arc;

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

impl Alone for ListSome {
    type Answer = ListedSome;
    const BEHIND: bool = true;

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
        context: &mut Context<'_>,
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
