//! What a publish names a message by: its key, and the idempotency key of the request.

use bytes::Bytes;
use dueq_model::{Millis, TopicSettings, is_default};
use serde::{Deserialize, Serialize};

/// What a publish does if a live message has its key. `return`: answers with that message and `duplicate` true.
/// `reject`: refuses (409 `duplicate_key`). `replace`: gives the delayed or ready message the new content, options and
/// due time; it keeps its id. A leased message is not replaced (409 `message_leased`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnDuplicate {
    /// Answer with the message that has the key.
    #[default]
    Return,
    /// Refuse the publish.
    Reject,
    /// The message that has it gets the new content, options and due time.
    Replace,
}

/// How long a message holds its key. `done`: until it is acked, dead, expired, deleted or purged. `granted`: until it
/// is first leased, so that a publish that arrives while its handler runs is not lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyUntil {
    /// Until it is acked, dead, expired, deleted or purged.
    #[default]
    Done,
    /// Until it is first leased.
    Granted,
}

impl KeyUntil {
    /// As `extra` says it.
    pub fn letter(self) -> &'static str {
        match self {
            Self::Done => "d",
            Self::Granted => "g",
        }
    }
}

/// A message's own name in its topic. It is serialized as part of a schedule's definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageKey {
    /// 1…255 characters.
    #[serde(rename = "key")]
    pub name: String,
    /// What happens where it is taken.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_duplicate: OnDuplicate,
    /// How long it is held.
    #[serde(rename = "key_until", default, skip_serializing_if = "is_default")]
    pub until: KeyUntil,
}

/// What makes a publish safe to repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idempotency {
    /// A user's is 1…255 characters of UTF-8; dueq's own begin with the byte 0xFF, which no user's can.
    pub key: Bytes,
    /// Hash of all else that the request says: with another one the key is refused.
    pub fingerprint: u64,
    /// How long it answers, ms; `None`: as long as the topic says.
    pub window_ms: Option<Millis>,
}

impl Idempotency {
    /// For a message that dueq itself publishes because of `occasion`, whatever the message says.
    pub fn of_dueq(occasion: &str, window_ms: Millis) -> Self {
        let key = [&[0xff], occasion.as_bytes()].concat().into();
        Self { key, fingerprint: 0, window_ms: Some(window_ms) }
    }

    /// How long it answers in a topic of these settings, ms.
    pub fn window_in(&self, settings: &TopicSettings) -> Millis {
        self.window_ms.unwrap_or(settings.idempotency_window_ms)
    }
}
