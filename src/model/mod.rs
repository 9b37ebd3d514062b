//! The words of the domain. What comes from outside is parsed here once, at the edge, so that whatever carries one of
//! these types is valid and nothing further in has to check again.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod addresses;
mod auth;
mod backoff;
mod body;
mod call_url;
mod completion;
mod cron;
pub mod error;
mod event;
mod group;
mod id;
mod instant;
mod masking;
mod origin;
mod proxy;
mod push;
mod query;
mod reason;
mod schedule;
mod secret;
mod settings;
mod signature;
mod sqs;
mod token;
mod topic;
mod trace_context;
mod waiting;
mod zones;

pub use addresses::{AddressGuard, RefusedAddress, network};
pub use auth::{Auth, AuthKind};
pub use backoff::Backoff;
pub use body::{Body, BodyChange, BrokenBody, Content, OCTETS};
pub use call_url::*;
pub use completion::{COMPLETES_HEADER, Completion, Ends, MAX_RESULT_BYTES};
pub use cron::{Cron, InvalidCron};
pub use event::{
    CallReport, Event, EventKind, MAX_EVENTS, last_error, last_status, result_line, stored_result,
};
pub use group::{GroupLimits, GroupSettings, MAX_GROUP_WEIGHT, MAX_OWN_GROUPS, micros_between};
pub use id::{
    InvalidMessageId, MEMBER_BYTES, Member, MessageId, PartitionNumber, Route, TopicNumber,
};
pub use instant::{Instant, InvalidInstant, LAST, Millis, format_instant, parse_instant};
pub use masking::{
    CREDENTIALS, MASK, MAX_HEADERS, MAX_HEADERS_BYTES, MaskError, OnceSecret, SecretHeaders,
    is_credential, masked, names_header, unmasked,
};
pub use origin::{Origin, Own};
pub use proxy::{InvalidNoProxy, InvalidProxy, NoProxy, Proxy};
pub use push::*;
pub use query::{MessageQuery, Subject};
pub use reason::reason_of;
pub use schedule::*;
pub use secret::Secret;
pub use settings::*;
pub use signature::{
    PublicKey, SIGNATURE, SignedParts, SigningKey, TOPIC_SIGNATURE, derived, is_shared,
    signing_keys,
};
pub use sqs::*;
pub use token::{Epoch, LeaseClaims, TOKEN_MAX_CHARS, TokenKey};
pub use topic::{InvalidTopicName, TopicName, TopicPattern};
pub use trace_context::TraceContext;
pub use waiting::{CallPlace, WaitingFor, last_failure, put_off};
pub use zones::{InvalidTimezone, MAX_TIMEZONE_CHARS, Zones};

/// Members of a stored object that this version does not know. A later one wrote them, and every change of the
/// object writes them back.
pub type Unknown = std::collections::BTreeMap<String, serde_json::Value>;

/// Whether a value is the default of its type, which is not written.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The state of a message. `delayed`: not due yet. `ready`: due, waiting for a consumer. `leased`: held by a consumer
/// until its lease ends. `blocked`: behind earlier messages of its group. `dead`: its attempts are used up. `acked`:
/// acknowledged, and kept as long as the topic retains
/// it. `expired`: its time to live was over, and it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Not due yet.
    Delayed,
    /// Due, waiting for a consumer.
    Ready,
    /// Waiting for earlier messages of its group.
    Blocked,
    /// Held by a consumer until its lease ends.
    Leased,
    /// Its attempts are used up; it stays until it is redriven or deleted, or retention removes it.
    Dead,
    /// Acknowledged, and kept for as long as the topic retains such messages.
    Acked,
    /// Its time to live was over; it is gone.
    Expired,
    /// It was acknowledged, deleted, purged or expired, and nothing of it is left.
    Gone,
}

impl State {
    /// All of them by the words that scripts and cursors use.
    const WORDS: [(&str, Self); 8] = [
        ("delayed", Self::Delayed),
        ("ready", Self::Ready),
        ("blocked", Self::Blocked),
        ("leased", Self::Leased),
        ("dead", Self::Dead),
        ("acked", Self::Acked),
        ("expired", Self::Expired),
        ("gone", Self::Gone),
    ];

    /// The word that scripts and cursors use for a state.
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize].0
    }

    /// The state that scripts use a word for.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(known, _)| *known == word).map(|(_, state)| *state)
    }
}
