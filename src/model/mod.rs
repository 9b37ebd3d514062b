//! The words of the domain. What comes from outside is parsed here once, at the edge, so that whatever carries one of
//! these types is valid and nothing further in has to check again.

mod body;
mod id;
mod instant;
mod settings;
mod token;
mod topic;

pub use body::{Body, BrokenBody, Content};
pub use id::{InvalidMessageId, MEMBER_BYTES, Member, MessageId, Partition, Route, TopicNumber};
pub use instant::{InvalidInstant, Millis, format_instant, parse_instant};
pub use settings::{
    Backoff, DEFAULT_LEASE_MS, DEFAULT_MAX_ATTEMPTS, DEFAULT_MAX_BYTES, LEASE_CAP_MS,
    MAX_ATTEMPTS_LIMIT, MAX_DELAY_MS, MAX_MAX_BYTES, MAX_MESSAGES_LIMIT, MAX_PAYLOAD_BYTES,
    MAX_WAIT_MS, MIN_LEASE_MS, TopicSettings,
};
pub use token::{Seal, TOKEN_MAX_CHARS, TokenKey};
pub use topic::{InvalidTopicName, TopicName};

/// Where a message stands in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Not due yet.
    Delayed,
    /// Due, waiting for a consumer.
    Ready,
    /// Held by a consumer until its lease ends.
    Leased,
    /// Its attempts are used up; it stays until somebody looks at it.
    Dead,
}

impl State {
    /// The word that scripts use for a state.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "delayed" => Some(Self::Delayed),
            "ready" => Some(Self::Ready),
            "leased" => Some(Self::Leased),
            "dead" => Some(Self::Dead),
            _ => None,
        }
    }
}
