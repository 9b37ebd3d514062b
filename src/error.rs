//! Why an operation of the queue was not done. Knows nothing of HTTP: `http::problem` says how each looks there.

use crate::model::{MAX_HEADERS, MAX_HEADERS_BYTES, MAX_ONCE_SECRET, Unkept};

/// An operation's refusal or failure.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// There is no such topic.
    #[error("there is no such topic")]
    TopicNotFound,
    /// There is no such message: never published, acknowledged, or deleted.
    #[error("there is no such message; acknowledged messages are gone")]
    MessageNotFound,
    /// The token does not hold the message's lease (any more).
    #[error("the lease token does not hold the message's lease: it is stale, expired or forged")]
    LeaseLost,
    /// The message is leased, and so belongs to its holder for now.
    #[error("the message is leased; it belongs to its holder until the lease ends")]
    MessageLeased,
    /// The message is dead, and what was asked for makes no sense for a dead one.
    #[error("the message is dead; it has no due time until it is redriven")]
    MessageDead,
    /// The message is not dead.
    #[error("the message is not dead")]
    MessageNotDead,
    /// The message was acknowledged, and is only kept to be looked at.
    #[error("the message is acknowledged and cannot be changed")]
    MessageAcked,
    /// Another live message has the key.
    #[error("another message in the topic has this key")]
    DuplicateKey,
    /// The idempotency key came with another request before.
    #[error("the idempotency key was used with a different message")]
    IdempotencyKeyReused,
    /// The topic holds as many messages as it may.
    #[error("the topic is full: it holds max_messages messages")]
    TopicFull,
    /// The topic is pushed, and neither it nor the message says where to.
    #[error("the topic is pushed and has no url, so the message needs its own in `callback`")]
    CallbackUrlMissing,
    /// The topic is not pushed, and the message names a callback.
    #[error("the topic is not pushed, so a callback is not allowed")]
    TopicNotPushed,
    /// The topic is pushed: dueq consumes it itself.
    #[error("the topic is pushed: dueq sends its messages itself, so they cannot be leased")]
    TopicIsPushed,
    /// Under this name dueq sets a header itself on what it calls.
    #[error("is set by dueq itself on every call")]
    HeaderReserved(String),
    /// `***` stands for a value that is stored, and under this field nothing is.
    #[error("*** stands for a stored value, and none is stored")]
    NothingMasked(String),
    /// The secret of this field belongs to another origin, or to a topic that is pushed no more.
    #[error("the stored value belongs to another origin: send the value itself")]
    SecretRequired(String),
    /// With the values that `***` stands for these headers are larger than headers may be.
    #[error(
        "are larger than {MAX_HEADERS_BYTES} bytes together with the values that *** stands for"
    )]
    HeadersTooLarge(String),
    /// With those that were secrets before these are more secret headers than there may be.
    #[error(
        "are too many, together with those that stay secret: {MAX_HEADERS} are allowed, and {MAX_ONCE_SECRET} ever"
    )]
    TooManySecretHeaders(String),
    /// What is wrong with this message of a batch, counted from 0.
    #[error("{1}")]
    OfMessage(usize, Box<Error>),
    /// There is no such schedule.
    #[error("there is no such schedule")]
    ScheduleNotFound,
    /// There are messages in the topic.
    #[error("the topic holds messages; ?force=true deletes them too")]
    TopicNotEmpty,
    /// The topic's configuration has another revision than the request wants.
    #[error("the topic's configuration has a different revision, or the topic does not exist")]
    RevisionMismatch,
    /// The payload is larger than the topic takes, bytes.
    #[error("the payload is larger than {0} bytes, the topic's limit")]
    PayloadTooLarge(i64),
    /// All topic numbers are used up.
    #[error("no more topics can be created in this Redis")]
    TopicsExhausted,
    /// Redis did not take the request: nothing happened and nothing will.
    #[error("Redis is not available; nothing happened")]
    RedisUnavailable,
    /// The request may have been carried out; its answer was lost.
    #[error("the answer from Redis was lost; the request may or may not have been carried out")]
    OutcomeUnknown,
    /// A defect: a reply or a stored value that cannot be read. Logged where it was seen.
    #[error("an internal error")]
    Internal,
}

impl Error {
    /// What went wrong after a part of the request was done: nobody may be told that nothing happened.
    pub fn after_change(self) -> Self {
        match self {
            Self::RedisUnavailable => Self::OutcomeUnknown,
            error => error,
        }
    }

    /// Why the headers in the field `place` cannot be kept.
    pub fn of_unkept(unkept: Unkept, place: &str) -> Self {
        match unkept {
            Unkept::Nothing(name) => Self::NothingMasked(format!("{place}.{name}")),
            Unkept::Elsewhere(name) => Self::SecretRequired(format!("{place}.{name}")),
            Unkept::TooLarge => Self::HeadersTooLarge(place.to_owned()),
        }
    }
}
