//! What goes into the store's methods and comes out of them, apart from the scripts behind.

pub use super::names::*;
use super::waiting::Waits;
use deadpool_redis::redis::Cmd;
pub use dueq_model::is_default;
use dueq_model::{
    Backoff, Body, BodyChange, CallReport, CallUrl, Ends, Event, MessageId, Millis, State,
    TopicName, WaitingFor,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// When a message falls due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// This long after Redis takes it, ms.
    After(Millis),
    /// At this instant, or at once if it has passed.
    At(Millis),
}

impl Due {
    /// The due time when Redis's clock says `now`, and `up` rounded up: no delay is shorter than asked for.
    pub fn from(self, now: Millis, up: Millis) -> Millis {
        match self {
            Self::After(0) => now,
            Self::After(delay) => up.saturating_add(delay),
            Self::At(instant) => instant.max(now),
        }
    }

    /// As scripts read it: a delay, or `@` before an instant.
    pub fn to_script(self) -> String {
        match self {
            Self::After(delay) => delay.to_string(),
            Self::At(instant) => format!("@{instant}"),
        }
    }
}

/// What a message says for itself; what it leaves open is its topic's. All but its keys is serialized as part of a schedule's
/// definition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MessageOptions {
    /// 0…255.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: u8,
    /// Its own limit of counted grants.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u16>,
    /// How long after it first fell due it can be granted, ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<Millis>,
    /// How long it waits after a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    /// Its group, 1…255 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Which of its ends are published, as its body and its topic say.
    #[serde(skip)]
    pub ends: Ends,
    /// Its own name in its topic.
    #[serde(skip)]
    pub key: Option<MessageKey>,
    /// What makes its publish safe to repeat.
    #[serde(skip)]
    pub idempotency: Option<Idempotency>,
}

impl MessageOptions {
    /// Whether the message has no options besides its due time.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// Whether its publish may change a message that is there.
    pub fn may_replace(&self) -> bool {
        self.key.as_ref().is_some_and(|key| key.on_duplicate == OnDuplicate::Replace)
            || self.idempotency.as_ref().is_some_and(Idempotency::is_throttle)
    }
}

/// A message to publish.
#[derive(Clone, Debug)]
pub struct NewMessage {
    /// Content and headers.
    pub body: Body,
    /// When it falls due.
    pub due: Due,
    /// What it says for itself.
    pub options: MessageOptions,
}

/// What to do where there is no topic of the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfAbsent<'a> {
    /// The first message makes it, for this key if it is given.
    Create(Option<&'a Maker>),
    /// `TopicNotFound`.
    Refuse,
}

/// An API key that makes topics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Maker {
    /// Its name.
    pub key: String,
    /// How many topics it may have made.
    pub topics: i64,
}

impl Maker {
    /// As scripts read it.
    pub fn to_script(this: Option<&Self>) -> (&str, String) {
        this.map_or(("", String::new()), |it| (&it.key, it.topics.to_string()))
    }
}

/// A message that Redis has stored, or that answers for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// Its id.
    pub id: MessageId,
    /// delayed, ready or blocked; where an existing message answers, any but expired.
    pub state: State,
    /// When it falls due; `None` while leased. Of a repeated idempotency key as at first.
    pub due_at: Option<Millis>,
    /// An existing message answers.
    pub duplicate: bool,
    /// That message was replaced.
    pub replaced: bool,
}

/// Which message is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageRef {
    /// The one with this id.
    Id(MessageId),
    /// The live one that has this key in this topic.
    Key(TopicName, String),
}

/// What may be changed of a message. `None` leaves a thing as it is.
#[derive(Clone, Debug, Default)]
pub struct MessageUpdate {
    /// New due time.
    pub due: Option<Due>,
    /// New priority.
    pub priority: Option<u8>,
    /// New parts of its body.
    pub body: BodyChange,
    /// New TTL; `Some(None)`: the topic's.
    pub ttl_ms: Option<Option<Millis>>,
    /// New limit of counted grants; `Some(None)`: the topic's.
    pub max_attempts: Option<Option<u16>>,
    /// New backoff; `Some(None)`: the topic's.
    pub backoff: Option<Option<Backoff>>,
    /// The API key that changes it, by its name: a callback of another body or for another place is signed as this key's.
    /// Empty for one without a name.
    pub by: String,
}

/// A message.
#[derive(Clone, Debug)]
pub struct MessageSnapshot {
    /// Its id.
    pub id: MessageId,
    /// Its state.
    pub state: State,
    /// Due time, end of the lease, time of death or of the ack, by `state`.
    pub at: Millis,
    /// Grants so far.
    pub attempts: i64,
    /// Counted grants that are left.
    pub attempts_left: i64,
    /// What it says for itself; its keys apart.
    pub options: MessageOptions,
    /// Its key, if it was published with one (whether or not it still holds it).
    pub key: Option<String>,
    /// When its own TTL or its topic's is over; `None` without one, and while that is not known.
    pub expires_at: Option<Millis>,
    /// Content and headers; `None` in lists without payloads.
    pub body: Option<Body>,
    /// Where its call goes; only in lists.
    pub url: Option<CallUrl>,
    /// The status that its last call was answered with.
    pub last_status: Option<u16>,
    /// Why it failed last, as `model::last_error` finds it.
    pub last_error: Option<String>,
    /// The result that its ack gave, JSON.
    pub result: Option<Box<RawValue>>,
    /// The stored text of its events: it differs after every change of the message. Empty in lists.
    pub written: String,
    /// What happened to it, oldest first, `published` included; empty in lists.
    pub events: Vec<Event>,
    /// What its partition knows of why it waits; `None` once the reason is known, and for one that has ended.
    pub(crate) waits: Option<Box<Waits>>,
    /// Why it is not being worked on; `None` for one that has ended.
    pub waiting_for: Option<WaitingFor>,
}

/// What a consumer says as it gives a lease back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NackRequest {
    /// When it is due again, ms from now; `None`: its backoff policy's, or at once when released.
    pub delay_ms: Option<Millis>,
    /// Why.
    pub reason: Option<String>,
    /// Whether it failed.
    pub kind: NackKind,
    /// `delay_ms` is the receiver's wish: at most ten times the longest delay of the backoff policy.
    pub wished: bool,
    /// The call that failed; then there is no reason.
    pub call: Option<Call>,
}

/// A call that dueq made for a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// When it began.
    pub started_at: Millis,
    /// How it ended.
    pub report: CallReport,
}

impl Call {
    /// Writes when a call began and its report, as the events keep it; two empty arguments for none.
    pub fn write(call: Option<&Self>, command: &mut Cmd) {
        match call {
            // A report always serializes.
            Some(Self { started_at, report }) => {
                command.arg(*started_at).arg(serde_json::to_string(report).unwrap_or_default())
            }
            None => command.arg("").arg(""),
        };
    }

    /// Bytes that it is in Redis, about.
    pub fn bytes(&self) -> usize {
        let CallReport { error, answer, headers, .. } = &self.report;
        let headers = headers.iter().map(|(name, value)| name.len() + 4 + json_bytes(value));
        let noted = |text: &Option<String>| text.as_deref().map_or(0, json_bytes);
        100 + noted(error) + noted(answer) + headers.sum::<usize>()
    }
}

/// Bytes of this text in JSON, which makes six of a control character.
pub fn json_bytes(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        0..0x20 => 6,
        b'"' | b'\\' => 2,
        _ => 1,
    };
    2 + text.bytes().map(escaped).sum::<usize>()
}

/// How a lease is given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NackKind {
    /// The attempt failed.
    #[default]
    Failed,
    /// The message is dead at once.
    Dead,
    /// Nothing was tried: the attempt does not count.
    Released,
}

/// A message after its nack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nacked {
    /// delayed, ready, dead or expired.
    pub state: State,
    /// When it is due; `None` when dead or expired.
    pub due_at: Option<Millis>,
    /// Number of the attempt that ended.
    pub attempt: u32,
}

/// A lease after its extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extended {
    /// Time left, ms.
    pub lease_ms: Millis,
    /// When it ends.
    pub lease_expires_at: Millis,
}

/// Messages of a list: where a page ended, and the next begins. Opaque outside, checked when it comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListCursor {
    /// Which of the state's sorted sets it is in (ready messages are in two).
    pub part: u8,
    /// Score of the last item.
    pub score: i64,
    /// The last item.
    pub member: dueq_model::Member,
}

impl ListCursor {
    /// The order of a list.
    pub fn place(&self) -> (u8, i64, dueq_model::Member) {
        (self.part, self.score, self.member)
    }
}

/// A page of messages of one state.
#[derive(Clone, Debug)]
pub struct MessagePage {
    /// The messages.
    pub items: Vec<MessageSnapshot>,
    /// Where the next page begins; `None` on the last.
    pub next: Option<ListCursor>,
    /// Messages that were looked at.
    pub scanned: u64,
}
