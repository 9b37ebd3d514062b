//! A topic's settings and the limits of the contract, each number in one place.

use super::error::Error;
use super::{Backoff, Millis, OnceSecret, Push, SqsQueue, TopicName, Unknown};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// How long a lease lasts unless told otherwise, ms.
pub const DEFAULT_LEASE_MS: u64 = 30_000;
/// The shortest lease, ms.
pub const MIN_LEASE_MS: u64 = 1_000;
/// The longest lease, and the cap of all its extensions counted from the grant: 12 h in ms.
pub const LEASE_CAP_MS: u64 = 43_200_000;
/// The longest delay: ten years of 365 days in ms.
pub const MAX_DELAY_MS: u64 = 315_360_000_000;
/// The longest wait of a long poll, ms.
pub const MAX_WAIT_MS: u64 = 60_000;
/// Counted grants before a message is dead, unless told otherwise.
pub const DEFAULT_MAX_ATTEMPTS: u64 = 10;
/// The most counted grants that a message can ask for.
pub const MAX_ATTEMPTS_LIMIT: u64 = 1_000;
/// Messages in one lease request or batch, at most.
pub const MAX_MESSAGES_LIMIT: u64 = 1_000;
/// Payload bytes of one lease request unless told otherwise.
pub const DEFAULT_MAX_BYTES: u64 = 4_194_304;
/// Payload bytes of one lease request, at most.
pub const MAX_MAX_BYTES: u64 = 16_777_216;
/// Bytes of one payload, at most, unless the topic says otherwise.
pub const DEFAULT_PAYLOAD_BYTES: u64 = 262_144;
/// Bytes of one payload, at most, whatever the topic says.
pub const MAX_PAYLOAD_BYTES: u64 = 1_048_576;
/// Topics in one lease request, at most.
pub const MAX_TOPICS_LIMIT: usize = 32;
/// Characters of a message's key or of an idempotency key, at most.
pub const MAX_KEY_CHARS: usize = 255;
/// Messages of one group that may be leased at a time, at most; also how many its rate may let go at once.
pub const MAX_GROUP_CONCURRENCY: u64 = 1_000;
/// Characters of the reason of a nack, at most.
pub const MAX_REASON_CHARS: usize = 1_024;
/// Delays in a backoff schedule, at most.
pub const MAX_SCHEDULE: usize = 100;
/// Partitions of a topic, at most: a power of two.
pub const MAX_PARTITIONS: i64 = 256;
/// Messages that a bound must leave for each of several partitions, at least.
pub const MIN_PARTITION_MESSAGES: i64 = 16;
/// The longest window in which an idempotency key answers: a week in ms.
pub const MAX_IDEMPOTENCY_WINDOW_MS: u64 = 604_800_000;
/// The largest bound on a topic's messages, or on its dead ones.
pub const MAX_TOPIC_MESSAGES: u64 = 1_000_000_000;
/// The largest bound on the messages of a topic that are leased at once.
pub const MAX_LEASED_LIMIT: u64 = 1_000_000;
/// Messages that one request redrives unless told otherwise.
pub const DEFAULT_REDRIVE: u64 = 10_000;
/// Messages that one request redrives, at most.
pub const MAX_REDRIVE: u64 = 1_000_000;
/// Buckets of one forecast, at most.
pub const MAX_BUCKETS: u64 = 1_000;
/// Items on a page unless told otherwise.
pub const DEFAULT_PAGE: u64 = 100;
/// Items on a page, at most.
pub const MAX_PAGE: u64 = 1_000;

/// Names of headers that a topic ever takes for secrets, at most.
pub const MAX_ONCE_SECRET: usize = 64;
/// What is published within so long, ms, after a header is a secret no more still counts as published before: clocks of
/// instances differ a little.
const CLOCKS_DIFFER_MS: Millis = 1_000;

/// What a publish does if the topic holds `max_messages` messages. `reject`: refuses (429 `topic_full`). `drop_oldest`:
/// removes the message that is due earliest and not leased.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFull {
    /// It is refused.
    #[default]
    Reject,
    /// The earliest due message that is not leased makes room for it.
    DropOldest,
}

/// When an answer about the topic is given. `memory`: once Redis's primary has done what it tells of. `replicated`: once
/// as many of its replicas have it as `--replicas` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Once the primary has it.
    #[default]
    Memory,
    /// Once enough replicas have it.
    Replicated,
}

impl Durability {
    /// Is it the default?
    pub fn is_memory(&self) -> bool {
        *self == Self::Memory
    }
}

/// What a topic's `dead_topic` gets of a message that dies. `letter`: a message that tells of it, and it stays dead here.
/// `raw`: the message itself, with its payload, headers, priority and group, and it is dead here only until then.
/// What came from another topic in either form stays where it dies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeadForm {
    /// A message that tells of it.
    #[default]
    Letter,
    /// The message itself.
    Raw,
}

impl DeadForm {
    /// Is it the default?
    pub fn is_letter(&self) -> bool {
        *self == Self::Letter
    }
}

/// How long acknowledged and dead messages are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Retention {
    /// How long acknowledged messages are kept, ms; 0: not at all.
    pub acked_ms: Millis,
    /// How many acknowledged messages are kept.
    pub acked_max: i64,
    /// How long dead messages are kept, ms.
    pub dead_ms: Millis,
    /// How many dead messages are kept.
    pub dead_max: i64,
    /// What a later version says of it.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            acked_ms: 0,
            acked_max: 100_000,
            dead_ms: 1_209_600_000,
            dead_max: 100_000,
            unknown: Unknown::new(),
        }
    }
}

/// What a topic does with its messages where they do not say so themselves. The registry keeps it as JSON, only what
/// differs from the default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TopicSettings {
    /// How long a lease lasts, ms.
    pub lease_ms: Millis,
    /// Attempts before a message is dead.
    pub max_attempts: i64,
    /// How long a failed message waits before its next attempt.
    pub backoff: Backoff,
    /// How long after it first fell due a message can be granted, ms; `None`: for ever.
    pub ttl_ms: Option<Millis>,
    /// The largest payload accepted, bytes.
    pub max_payload_bytes: i64,
    /// Partitions: 1, 2, 4 … 256. Never fewer than before.
    #[serde(skip_serializing_if = "is_one")]
    pub partitions: i64,
    /// How many messages it holds at most, delayed, ready and leased together; `None`: any number.
    pub max_messages: Option<i64>,
    /// What to do at that bound.
    pub on_full: OnFull,
    /// How many of its messages are leased at once, at most; `None`: any number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_leased: Option<i64>,
    /// How many messages it grants a second, at most; `None`: any number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<f64>,
    /// How long an idempotency key is remembered, ms.
    pub idempotency_window_ms: Millis,
    /// How long acknowledged and dead messages are kept.
    pub retention: Retention,
    /// When answers are given.
    #[serde(skip_serializing_if = "Durability::is_memory")]
    pub durability: Durability,
    /// How dueq sends its messages itself; `None`: consumers lease them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub push: Option<Push>,
    /// Where what dies here is published too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_topic: Option<TopicName>,
    /// What is published there.
    #[serde(skip_serializing_if = "DeadForm::is_letter")]
    pub dead_form: DeadForm,
    /// What clients of SQS have set, if one has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sqs: Option<SqsQueue>,
    /// How many messages of a group may be leased at a time.
    #[serde(skip_serializing_if = "is_one")]
    pub group_concurrency: i64,
    /// How many messages of a group may fall due a second; `None`: any number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_rate_per_s: Option<f64>,
    /// How many of them may fall due at once.
    #[serde(skip_serializing_if = "is_one")]
    pub group_burst: i64,
    /// A message with a group was published, so that a dueq that knows of no groups leaves the topic alone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub grouped: bool,
    /// Somebody is about to delete it, or to give it more partitions: nothing is published until that is done or given up.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub closing: bool,
    /// Somebody once was about to, and may have come as far as the first partition: it is asked before any other.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub was_closing: bool,
    /// Nothing is granted. A topic of one partition keeps this there.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// The dump that is being loaded into it, which keeps it paused: see `cli/moving/load.rs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loading: Option<String>,
    /// The topic's revision, where `closing` or `paused` were written since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// Headers that were secrets by a push that is another by now, in lower case. Only the topic's end takes one away.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub once_secret: BTreeMap<String, OnceSecret>,
    /// What a later version says of it.
    #[serde(flatten)]
    pub unknown: Unknown,
}

fn is_one(number: &i64) -> bool {
    *number == 1
}

impl Default for TopicSettings {
    fn default() -> Self {
        Self {
            lease_ms: DEFAULT_LEASE_MS as Millis,
            max_attempts: DEFAULT_MAX_ATTEMPTS as i64,
            backoff: Backoff::default(),
            ttl_ms: None,
            max_payload_bytes: DEFAULT_PAYLOAD_BYTES as i64,
            partitions: 1,
            max_messages: None,
            on_full: OnFull::Reject,
            max_leased: None,
            rate_per_s: None,
            idempotency_window_ms: 600_000,
            retention: Retention::default(),
            durability: Durability::Memory,
            push: None,
            dead_topic: None,
            dead_form: DeadForm::Letter,
            sqs: None,
            group_concurrency: 1,
            group_rate_per_s: None,
            group_burst: 1,
            grouped: false,
            closing: false,
            was_closing: false,
            paused: false,
            loading: None,
            revision: None,
            once_secret: BTreeMap::new(),
            unknown: Unknown::new(),
        }
    }
}

impl TopicSettings {
    /// What a topic of this name does unless told otherwise. dueq's own topic of callbacks keeps what was delivered for an
    /// hour, so that it can be asked for.
    pub fn default_of(name: &TopicName) -> Self {
        if !name.is_callbacks() {
            return Self::default();
        }
        let retention =
            Retention { acked_ms: 3_600_000, acked_max: 10_000, ..Retention::default() };
        Self { retention, push: Some(Push::of_callbacks()), ..Self::default() }
    }

    /// These settings, which take the place of those `before`, with what those remember: a paused topic stays so, and a
    /// header that was a secret until now stays one of messages that are there. What a later version has written stays too:
    /// nobody here can tell a setting from a note that the data depend on. `None`: there are too many secrets.
    pub fn remembering(mut self, before: Option<&Self>, now: Millis) -> Option<Self> {
        self.revision = None;
        let Some(before) = before else { return Some(self) };
        self.paused = before.paused;
        self.grouped |= before.grouped;
        if self.sqs.is_none() {
            self.sqs.clone_from(&before.sqs);
        }
        self.was_closing = before.was_closing || before.closing;
        self.loading.clone_from(&before.loading);
        self.once_secret.clone_from(&before.once_secret);
        self.unknown.clone_from(&before.unknown);
        self.retention.unknown.clone_from(&before.retention.unknown);
        if let (Some(push), Some(was)) = (&mut self.push, &before.push) {
            push.unknown.clone_from(&was.unknown);
        }
        if let Some(was) = &before.push {
            let origin = was.origin();
            let same = self.push.as_ref().filter(|push| push.origin() == origin);
            let gone = |name: &String| !same.is_some_and(|push| push.is_secret(name));
            let until = now.saturating_add(CLOCKS_DIFFER_MS);
            for name in was.secret_names().filter(gone) {
                let new = OnceSecret { origin: origin.clone(), until };
                let once = self.once_secret.entry(name).or_insert_with(|| new);
                once.until = until;
                once.origin.take_if(|known| Some(&*known) != origin.as_ref());
            }
        }
        let (known, names) = (before.secret_names(), self.secret_names());
        (names.len() <= MAX_ONCE_SECRET || names.is_subset(&known)).then_some(self)
    }

    /// Headers that are secrets, or once were.
    fn secret_names(&self) -> BTreeSet<String> {
        let now = self.push.iter().flat_map(Push::secret_names);
        self.once_secret.keys().cloned().chain(now).collect()
    }
}

impl TopicSettings {
    /// May a topic that has settings `stored`, if any, have these?
    ///
    /// Errors: `BadSetting`.
    pub fn check(&self, stored: Option<&Self>) -> Result<(), Error> {
        self.check_partitions(stored)?;
        self.check_limits()
    }

    /// Errors: `BadSetting` if a topic that has settings `stored`, if any, cannot have as many partitions.
    fn check_partitions(&self, stored: Option<&Self>) -> Result<(), Error> {
        if stored.is_some_and(|stored| stored.partitions > self.partitions) {
            return Err(Error::BadSetting("partitions", "cannot become fewer"));
        }
        let least = MIN_PARTITION_MESSAGES * self.partitions;
        if self.partitions > 1 && self.max_messages.is_some_and(|most| most < least) {
            let reason = "must be at least 16 times the number of partitions";
            return Err(Error::BadSetting("max_messages", reason));
        }
        Ok(())
    }

    /// Errors: `BadSetting` for a limit of consumers in a topic whose messages dueq sends itself.
    fn check_limits(&self) -> Result<(), Error> {
        let refuse = |field, why| Err(Error::BadSetting(field, why));
        match &self.push {
            Some(_) if self.max_leased.is_some() => {
                refuse("max_leased", "is for consumers; a pushed topic has push.max_in_flight")
            }
            Some(_) if self.rate_per_s.is_some() => {
                refuse("rate_per_s", "is for consumers; a pushed topic has push.rate_per_s")
            }
            _ => Ok(()),
        }
    }
}
