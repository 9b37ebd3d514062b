//! The errors of the queue's operations. They know nothing of HTTP; `http::problem` maps each to its response.

use crate::{MAX_HEADERS, MAX_HEADERS_BYTES, MAX_ONCE_SECRET, MaskError};

/// The reason why an operation was refused or failed.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// The topic does not exist.
    #[error("there is no such topic")]
    TopicNotFound,
    /// The message does not exist: it was never published, or it was acknowledged or deleted.
    #[error("there is no such message; acknowledged messages are gone")]
    MessageNotFound,
    /// The token does not hold the message's lease, or no longer does.
    #[error("the lease token does not hold the message's lease: it is stale, expired or forged")]
    LeaseLost,
    /// The message is leased, so only its holder may change it.
    #[error("the message is leased; it belongs to its holder until the lease ends")]
    MessageLeased,
    /// The message is dead, and the request does not apply to dead messages.
    #[error("the message is dead; it has no due time until it is redriven")]
    MessageDead,
    /// The message is not dead.
    #[error("the message is not dead")]
    MessageNotDead,
    /// The message was acknowledged, and is retained for reading only.
    #[error("the message is acknowledged and cannot be changed")]
    MessageAcked,
    /// Another live message has the key.
    #[error("another message in the topic has this key")]
    DuplicateKey,
    /// The idempotency key was used with a different request.
    #[error("the idempotency key was used with a different message")]
    IdempotencyKeyReused,
    /// The message that has the key is in another group, and a group never changes.
    #[error(
        "the message that has this key is in another group, and a message's group does not change"
    )]
    GroupChanged,
    /// The topic holds `max_messages` messages.
    #[error("the topic is full: it holds max_messages messages")]
    TopicFull,
    /// The topic is pushed, and neither the topic nor the message has a URL.
    #[error("the topic is pushed and has no url, so the message needs its own in `callback`")]
    CallbackUrlMissing,
    /// The topic is not pushed, and the message names a callback.
    #[error("the topic is not pushed, so a callback is not allowed")]
    TopicNotPushed,
    /// The topic is pushed, so only dueq consumes it.
    #[error("the topic is pushed: dueq sends its messages itself, so they cannot be leased")]
    TopicIsPushed,
    /// dueq sets the header of this field itself on every call.
    #[error("is set by dueq itself on every call")]
    HeaderReserved(String),
    /// The field is `***`, which stands for a stored value, but no value is stored.
    #[error("*** stands for a stored value, and none is stored")]
    NothingMasked(String),
    /// The stored secret of this field belongs to another origin or API key, or to a topic that is no longer pushed.
    #[error("the stored value belongs to another origin or API key: send the value itself")]
    SecretRequired(String),
    /// The headers of this field are too large once `***` is replaced by the stored values.
    #[error(
        "are larger than {MAX_HEADERS_BYTES} bytes together with the values that *** stands for"
    )]
    HeadersTooLarge(String),
    /// The field has too many secret headers, counted together with the names that stay secret from before.
    #[error(
        "are too many, together with those that stay secret: {MAX_HEADERS} are allowed, and {MAX_ONCE_SECRET} ever"
    )]
    TooManySecretHeaders(String),
    /// The topic cannot have this setting: its name, and why.
    #[error("{1}")]
    BadSetting(&'static str, &'static str),
    /// Answers about the topic cannot wait for replicas: there are none.
    #[error("Redis has no replica that dueq knows of, so nothing can be replicated")]
    DurabilityUnavailable,
    /// The error of one message of a batch; its index counts from 0.
    #[error("{1}")]
    OfMessage(usize, Box<Error>),
    /// The API key may not do this; the text says which key, and what it lacks.
    #[error("{0}")]
    NotAllowed(String),
    /// The schedule does not exist.
    #[error("there is no such schedule")]
    ScheduleNotFound,
    /// No instance knows the host, and it is not paused.
    #[error("no calls to this host are known, and it is not paused")]
    CallbackHostNotFound,
    /// As many hosts are paused as may be.
    #[error("{0} hosts are paused, and no more may be")]
    TooManyPausedHosts(usize),
    /// As many groups of a partition have settings of their own as may.
    #[error("{0} groups have settings of their own, and no more may")]
    TooManyGroups(usize),
    /// The topic cannot get more partitions: so many names are in use.
    #[error(
        "the topic cannot get more partitions while names are in use: {0} keys, idempotency keys and groups"
    )]
    NamesInUse(i64),
    /// The topic still holds messages.
    #[error("the topic holds messages; ?force=true deletes them too")]
    TopicNotEmpty,
    /// The topic's configuration does not have the revision that the request expects.
    #[error("the topic's configuration has a different revision, or the topic does not exist")]
    RevisionMismatch,
    /// The payload is larger than the topic's limit, bytes.
    #[error("the payload is larger than {0} bytes, the topic's limit")]
    PayloadTooLarge(i64),
    /// All topic numbers are used up.
    #[error("no more topics can be created in this Redis")]
    TopicsExhausted,
    /// The API key may make no more topics than this.
    #[error(
        "the API key has made as many topics as it may, {0}: delete some, or raise topics= in its line"
    )]
    TooManyTopics(i64),
    /// An instance of an older dueq runs, which this names, and it could not read what the request would store.
    #[error(
        "an older instance of dueq runs that could not read this: {0}; upgrade it first, or wait a minute if it has died"
    )]
    UpgradePending(String),
    /// Redis did not accept the request: it had no effect and will have none.
    #[error("Redis is not available; nothing happened")]
    RedisUnavailable,
    /// The request may have been carried out; its answer was lost.
    #[error(
        "Redis or its replicas did not answer in time; the request may or may not have been carried out"
    )]
    OutcomeUnknown,
    /// A defect: a reply or a stored value cannot be read. Logged where it is detected.
    #[error("an internal error")]
    Internal,
}

impl Error {
    /// The error to report after a part of the request took effect: it must not say that nothing happened.
    pub fn after_change(self) -> Self {
        match self {
            Self::RedisUnavailable => Self::OutcomeUnknown,
            error => error,
        }
    }

    /// The same, if anything was `changed`.
    pub fn after(self, changed: bool) -> Self {
        if changed { self.after_change() } else { self }
    }

    /// The error for stored values that the headers in `field` cannot keep.
    pub fn of_unkept(unkept: MaskError, field: &str) -> Self {
        match unkept {
            MaskError::Nothing(name) => Self::NothingMasked(format!("{field}.{name}")),
            MaskError::Elsewhere(name) => Self::SecretRequired(format!("{field}.{name}")),
            MaskError::TooLarge => Self::HeadersTooLarge(field.to_owned()),
        }
    }
}
