//! What a publish names a message by: its key, and the idempotency key of the request.

use bytes::Bytes;
use dueq_model::{MAX_DELAY_MS, Millis, TopicSettings, is_default};
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
    /// It is debounced: due no later than this long after its first publish, ms. A leased message that has not given up its
    /// key is no obstacle. Schedules have none.
    #[serde(skip)]
    pub max_wait_ms: Option<Millis>,
}

impl MessageKey {
    /// Each publish moves the message and replaces its content, until it is granted.
    pub fn debounced(name: String, max_wait_ms: Option<Millis>) -> Self {
        let (on_duplicate, until) = (OnDuplicate::Replace, KeyUntil::Granted);
        let max_wait_ms = max_wait_ms.or(Some(MAX_DELAY_MS as Millis));
        Self { name, on_duplicate, until, max_wait_ms }
    }
}

/// What makes a publish safe to repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idempotency {
    /// A user's is 1…255 characters of UTF-8; others begin with a byte that no UTF-8 has: [`Self::OF_DUEQ`] and its like.
    pub key: Bytes,
    /// Hash of all else that the request says: with another one the key is refused.
    pub fingerprint: u64,
    /// How long it answers, ms; `None`: as long as the topic says.
    pub window_ms: Option<Millis>,
}

impl Idempotency {
    /// The first byte of those that dueq itself publishes.
    pub const OF_DUEQ: u8 = 0xff;
    const ONCE: u8 = 0xfe;
    const THROTTLE: u8 = 0xfd;

    /// For a message that dueq itself publishes because of `occasion`, whatever the message says.
    pub fn of_dueq(occasion: &str, window_ms: Millis) -> Self {
        Self::of_kind(Self::OF_DUEQ, occasion, window_ms)
    }

    /// The first publish answers for this long, whatever the others say.
    pub fn once(key: &str, for_ms: Millis) -> Self {
        Self::of_kind(Self::ONCE, key, for_ms)
    }

    /// At most one message for each interval: what comes within one is a single message, due at its end.
    pub fn throttle(key: &str, every_ms: Millis) -> Self {
        Self::of_kind(Self::THROTTLE, key, every_ms)
    }

    fn of_kind(kind: u8, name: &str, window_ms: Millis) -> Self {
        let key = [&[kind], name.as_bytes()].concat().into();
        Self { key, fingerprint: 0, window_ms: Some(window_ms) }
    }

    /// Whether what comes within the window is stored.
    pub fn is_throttle(&self) -> bool {
        self.key.first() == Some(&Self::THROTTLE)
    }

    /// Whether a publish named a policy for duplicates.
    pub(crate) fn is_policy(&self) -> bool {
        matches!(self.key.first(), Some(&Self::ONCE | &Self::THROTTLE))
    }

    /// The first byte, unless it is a user's idempotency key; and the name.
    pub(crate) fn parts(&self) -> (&[u8], &str) {
        let kind = self.key.first().is_some_and(|first| *first >= Self::THROTTLE);
        let (kind, name) = self.key.split_at(kind.into());
        (kind, str::from_utf8(name).unwrap_or_default())
    }

    /// How long it answers in a topic of these settings, ms.
    pub fn window_in(&self, settings: &TopicSettings) -> Millis {
        self.window_ms.unwrap_or(settings.idempotency_window_ms)
    }
}
