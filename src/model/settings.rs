//! A topic's settings and the limits of the contract, each number in one place.

use super::error::Error;
use super::{
    Backoff, Completion, Millis, OnceSecret, Push, SqsQueue, TopicName, Unknown, is_default,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// How long a lease lasts by default, ms.
pub const DEFAULT_LEASE_MS: u64 = 30_000;
/// The shortest lease, ms.
pub const MIN_LEASE_MS: u64 = 1_000;
/// The longest lease, and the cap of all its extensions counted from the grant: 12 h in ms.
pub const LEASE_CAP_MS: u64 = 43_200_000;
/// The longest delay: ten years of 365 days in ms.
pub const MAX_DELAY_MS: u64 = 315_360_000_000;
/// The longest wait of a long poll, ms.
pub const MAX_WAIT_MS: u64 = 60_000;
/// Counted grants before a message is dead, by default.
pub const DEFAULT_MAX_ATTEMPTS: u64 = 10;
/// The most counted grants that a message can ask for.
pub const MAX_ATTEMPTS_LIMIT: u64 = 1_000;
/// Messages in one lease request or batch, at most.
pub const MAX_MESSAGES_LIMIT: u64 = 1_000;
/// Payload bytes of one lease request by default.
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
/// Messages that one request redrives by default.
pub const DEFAULT_REDRIVE: u64 = 10_000;
/// Messages that one request redrives, at most.
pub const MAX_REDRIVE: u64 = 1_000_000;
/// Buckets of one forecast, at most.
pub const MAX_BUCKETS: u64 = 1_000;
/// Items on a page by default.
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

/// In what order messages of a group are granted. `strict`: in the order of publishing, `group_concurrency` at a time. `fair`:
/// by priority and due time, without waiting for each other; groups take turns, so that none waits for another's backlog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GroupOrder {
    /// One after another.
    #[default]
    Strict,
    /// Groups take turns.
    Fair,
}

/// Declares the stored struct of a noun that users configure, from its table: what they can set, with its default. The
/// stored fields that nobody can set come first.
macro_rules! stored {
    (
        $(#[$about:meta])*
        struct $Noun:ident { $($(#[$note:meta])* $kept:ident: $Kept:ty = $start:expr,)* }
        $(
            $(#[doc = $doc:expr])*
            $(#[serde($($how:tt)*)])?
            $name:ident: $Type:ty = $default:expr;
            $(#[$put_note:meta])*
            put $Put:ty $(, $reserved:ident)?;
        )*
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $Noun {
            $($(#[doc = $doc])* $(#[serde($($how)*)])? pub $name: $Type,)*
            $($(#[$note])* pub $kept: $Kept,)*
            /// Members that a later version has written.
            #[serde(flatten)]
            pub unknown: Unknown,
        }

        impl Default for $Noun {
            fn default() -> Self {
                Self { $($name: $default,)* $($kept: $start,)* unknown: Unknown::new() }
            }
        }
    };
}

pub(super) use stored;

/// How long acknowledged and dead messages are kept: see [`topic_settings`](crate::topic_settings).
#[macro_export]
macro_rules! retention_settings {
    ($make:ident $($with:tt)*) => { $make! { $($with)*
        /// How long acknowledged messages are kept, ms; 0: not at all.
        acked_ms: Millis = 0;
            /// How long acknowledged messages are kept, ms; 0: not at all. Default: 0.
            put DelayMs;
        /// How many acknowledged messages are kept.
        acked_max: i64 = 100_000;
            /// How many acknowledged messages are kept. Default: 100000.
            put Bounded<0, MAX_TOPIC_MESSAGES>;
        /// How long dead messages are kept, ms.
        dead_ms: Millis = 1_209_600_000;
            /// How long dead messages are kept, ms. Default: 1209600000.
            put DelayMs;
        /// How many dead messages are kept.
        dead_max: i64 = 100_000;
            /// How many dead messages are kept. Default: 100000.
            put Bounded<0, MAX_TOPIC_MESSAGES>;
    } };
}

retention_settings! { stored
    /// How long acknowledged and dead messages are kept.
    #[derive(Eq)]
    struct Retention {}
}

/// The settings of a topic, each declared once. The stored struct is made of this table, and in `dueq_http` what requests
/// say, how that changes what is stored, what answers show, and what OpenAPI says of all that.
///
/// A setting is two statements. The first is what is stored and shown: its description, its type and its default. The second
/// is what requests say: the description, the type with its range, and `reserved` if the topic `_callbacks` does not take it.
#[macro_export]
macro_rules! topic_settings {
    ($make:ident $($with:tt)*) => { $make! { $($with)*
        /// How long a lease lasts, ms.
        lease_ms: Millis = DEFAULT_LEASE_MS as Millis;
            /// How long a lease lasts unless the consumer sets it, ms. Default: 30000.
            put LeaseMs, reserved;
        /// Attempts before a message is dead.
        max_attempts: i64 = DEFAULT_MAX_ATTEMPTS as i64;
            /// Attempts before a message is dead. Default: 10.
            put MaxAttempts;
        /// How long a failed message waits before its next attempt.
        backoff: Backoff = Backoff::default();
            /// How long a failed message waits before its next attempt.
            put BackoffRequest;
        /// Time to live, counted from when a message first fell due, ms. Absent: none.
        ttl_ms: Option<Millis> = None;
            /// Time to live, counted from when a message first fell due, ms. Default: none.
            put DurationMs, reserved;
        /// The largest payload accepted, bytes.
        max_payload_bytes: i64 = DEFAULT_PAYLOAD_BYTES as i64;
            /// The largest payload accepted, bytes. Default: 262144.
            put Bounded<1, MAX_PAYLOAD_BYTES>;
        /// Into how many partitions the topic is split.
        #[serde(skip_serializing_if = "is_one")]
        partitions: i64 = 1;
            /// Into how many partitions the topic is split: 1, 2, 4 … 256. It can grow while no names are in use (409
            /// `names_in_use`), but never shrink; absent, it stays. Order holds within a partition; `key`, or else `idempotency_key`, chooses it. Default: 1.
            put Bounded<1, { MAX_PARTITIONS as u64 }>;
        /// Bound on delayed, ready and leased messages together. Absent: none.
        max_messages: Option<i64> = None;
            /// Bound on delayed, ready and leased messages together. Default: none.
            put Bounded<1, MAX_TOPIC_MESSAGES>;
        /// What to do at that bound.
        on_full: OnFull = OnFull::Reject;
            /// What to do at that bound. Default: `reject`.
            put OnFull;
        /// How many messages may be leased at once. Absent: any number.
        #[serde(skip_serializing_if = "is_default")]
        max_leased: Option<i64> = None;
            /// How many messages may be leased at once, by all consumers together. Leases from before there was a limit do not
            /// count. Not in a pushed topic, which has `push.max_in_flight`. Default: unlimited.
            put Bounded<1, MAX_LEASED_LIMIT>, reserved;
        /// Messages granted per second, at most. Absent: any number.
        #[serde(skip_serializing_if = "is_default")]
        rate_per_s: Option<f64> = None;
            /// Messages granted per second, to all consumers together. Not in a pushed topic, which has `push.rate_per_s`.
            /// Default: unlimited.
            put Decimal<1, 10_000_000>, reserved;
        /// How long an idempotency key is remembered, ms.
        idempotency_window_ms: Millis = 600_000;
            /// How long an idempotency key is remembered, ms. Default: 600000.
            put Bounded<0, MAX_IDEMPOTENCY_WINDOW_MS>;
        /// How long acknowledged and dead messages are kept.
        retention: Retention = Retention::default();
            /// How long acknowledged and dead messages are kept.
            put RetentionRequest;
        /// When an answer about the topic is given.
        #[serde(skip_serializing_if = "is_default")]
        durability: Durability = Durability::Memory;
            /// When an answer about the topic is given. Default: `memory`.
            put Durability;
        /// How dueq sends the messages itself. Absent: consumers lease them.
        #[serde(skip_serializing_if = "is_default")]
        push: Option<Push> = None;
            /// dueq sends the topic's messages itself. Default: consumers lease them.
            put PushRequest;
        /// The topic to which messages that die here are also published. Absent: none.
        #[serde(skip_serializing_if = "is_default")]
        dead_topic: Option<TopicName> = None;
            /// Another topic, to which messages that die here are also published. Default: none.
            #[example = "orders-dead"]
            put TopicName;
        /// What that topic gets.
        #[serde(skip_serializing_if = "is_default")]
        dead_form: DeadForm = DeadForm::Letter;
            /// What that topic gets. Default: `letter`.
            put DeadForm;
        /// Where the acks of messages are published that do not say so themselves.
        #[serde(skip_serializing_if = "is_default")]
        on_done: Option<Completion> = None;
            /// Where to publish what came of a message, if the message does not say so: applies to messages that are published from
            /// then on. Default: nowhere.
            put CompletionRequest;
        /// The same of deaths.
        #[serde(skip_serializing_if = "is_default")]
        on_dead: Option<Completion> = None;
            /// Where to publish that a message died, if the message does not say so: applies to messages that are published from
            /// then on. Default: nowhere.
            put CompletionRequest;
        /// In what order messages of a group are granted.
        #[serde(skip_serializing_if = "is_default")]
        group_order: GroupOrder = GroupOrder::Strict;
            /// In what order messages of a group are granted. Default: `strict`, in `_callbacks` `fair`.
            put GroupOrder;
        /// How many messages of a group may be leased at a time. Absent: any number.
        #[serde(skip_serializing_if = "is_default")]
        group_concurrency: Option<i64> = None;
            /// How many messages of a group may be leased at a time. Default: 1, or any number if `group_order` is `fair`.
            put Bounded<1, MAX_GROUP_CONCURRENCY>;
        /// How many messages of a group may be granted per second. Absent: any number.
        #[serde(skip_serializing_if = "is_default")]
        group_rate_per_s: Option<f64> = None;
            /// How many messages of a group may be granted per second, retries aside: 0.01 to 100000. Default: any number.
            put Decimal<1, 10_000_000>;
        /// How many of them may be granted at once.
        #[serde(skip_serializing_if = "is_one")]
        group_burst: i64 = 1;
            /// How many of them may be granted at once. Default: 1. Only has an effect together with `group_rate_per_s`.
            put Bounded<1, MAX_GROUP_CONCURRENCY>;
    } };
}

topic_settings! { stored
    /// What a topic does with its messages where they do not say so themselves. The registry keeps it as JSON, only what
    /// differs from the default.
    struct TopicSettings {
        /// What clients of SQS have set, if one has.
        #[serde(skip_serializing_if = "is_default")]
        sqs: Option<SqsQueue> = None,
        /// A message with a group was published, so that a dueq that knows of no groups leaves the topic alone.
        #[serde(skip_serializing_if = "is_default")]
        grouped: bool = false,
        /// The order of groups in `_callbacks` was chosen, or came with the topic; it was strict before that was noted.
        #[serde(skip_serializing_if = "is_default")]
        ordered: bool = false,
        /// A group had settings of its own, so that limits may hold where the topic has none.
        #[serde(skip_serializing_if = "is_default")]
        own_groups: bool = false,
        /// It is about to be deleted, or to get more partitions: nothing is published until that is done or given up.
        #[serde(skip_serializing_if = "is_default")]
        closing: bool = false,
        /// It once was about to, which may have come as far as the first partition: that is asked before any other.
        #[serde(skip_serializing_if = "is_default")]
        was_closing: bool = false,
        /// Nothing is granted. A topic of one partition keeps this there.
        #[serde(skip_serializing_if = "is_default")]
        paused: bool = false,
        /// The dump that is being loaded into it, which keeps it paused: see `store/export/load.rs`.
        #[serde(skip_serializing_if = "is_default")]
        loading: Option<String> = None,
        /// The topic's revision, where `closing` or `paused` were written since.
        #[serde(skip_serializing_if = "is_default")]
        revision: Option<i64> = None,
        /// Headers that were secrets by a push that is another by now, in lower case. Only the topic's end takes one away.
        #[serde(skip_serializing_if = "is_default")]
        once_secret: BTreeMap<String, OnceSecret> = BTreeMap::new(),
    }
}

fn is_one(number: &i64) -> bool {
    *number == 1
}

impl TopicSettings {
    /// The defaults of a topic of this name. dueq's own topic of callbacks keeps what was delivered for an
    /// hour, so that it can be asked for, and its groups take turns.
    pub fn default_of(name: &TopicName) -> Self {
        if !name.is_callbacks() {
            return Self::default();
        }
        let retention =
            Retention { acked_ms: 3_600_000, acked_max: 10_000, ..Retention::default() };
        let (push, group_order) = (Some(Push::of_callbacks()), GroupOrder::Fair);
        Self { retention, push, group_order, ordered: true, ..Self::default() }
    }

    /// The same as an older dueq has it, which knows of no turns: so is a topic without a configuration.
    pub fn older_default_of(name: &TopicName) -> Self {
        Self { group_order: GroupOrder::Strict, ordered: false, ..Self::default_of(name) }
    }

    /// These settings, which take the place of those `before`, with what those remember: a paused topic stays so, and a
    /// header that was a secret until now stays one of messages that are there. What a later version has written stays too:
    /// nobody here can tell a setting from a note that the data depend on. `None`: there are too many secrets.
    pub fn remembering(mut self, before: Option<&Self>, now: Millis) -> Option<Self> {
        self.revision = None;
        let Some(before) = before else { return Some(self) };
        self.paused = before.paused;
        self.grouped |= before.grouped;
        self.ordered |= before.ordered;
        self.own_groups |= before.own_groups;
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
    /// Do groups take turns?
    pub fn is_fair(&self) -> bool {
        self.group_order == GroupOrder::Fair
    }

    /// How many messages of a group may be leased at a time. `None`: any number.
    pub fn leased_per_group(&self) -> Option<i64> {
        self.group_concurrency.or((!self.is_fair()).then_some(1))
    }

    /// May some group have only so many messages leased at a time, as far as is known?
    pub fn limits_groups(&self) -> bool {
        self.grouped && (self.leased_per_group().is_some() || self.own_groups)
    }

    /// Do blocked messages of a group wait for its rate, too, before their TTL begins?
    pub fn has_group_turns(&self) -> bool {
        self.group_rate_per_s.is_some() && !self.is_fair()
    }

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
            Some(push) if push.batch.is_some() && push.url.is_none() => {
                refuse("push.batch", "needs push.url")
            }
            _ => Ok(()),
        }
    }
}
