//! What a topic holds: count_topic in numbers, forecast_topic by when messages fall due, list_messages one by one, a
//! bounded number a call.

use crate::{
    error::Error,
    model::{Event, MessageId, Millis, State, TopicName, last_error},
    store::{
        Store,
        batch::{Command, Request},
        extra::Extra,
        message::decode,
        partition::Partition,
        registry::Topic,
        reply::{CallError, Reply},
        scripts,
        types::{ListCursor, MessagePage, MessageSnapshot, json_bytes},
    },
};
use bytes::Bytes;
use std::sync::Arc;

/// Looks at a topic of which time brings more than one look carries out, at most.
const MAX_LOOKS: usize = 128;
/// Buckets of one call.
const CALL_BUCKETS: u64 = 128;
/// Messages of one call.
const CALL_MESSAGES: u64 = 256;
/// Bytes of bodies in one call.
const CALL_BYTES: usize = 256 * 1024;

/// Names of a topic's totals, in the order of the contract.
pub const TOTALS: [&str; 14] = [
    "published",
    "granted",
    "acked",
    "nacked",
    "released",
    "lease_expired",
    "dead",
    "expired",
    "deleted",
    "purged",
    "redriven",
    "replaced",
    "returned",
    "deleted_leased",
];

/// One consistent look at a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicSnapshot {
    /// No grants.
    pub paused: bool,
    /// Not due yet.
    pub delayed: i64,
    /// Due, or their lease has ended.
    pub ready: i64,
    /// Held by consumers.
    pub leased: i64,
    /// Dead.
    pub dead: i64,
    /// Kept after their ack.
    pub acked: i64,
    /// How long the oldest ready message has been due, ms.
    pub oldest_ready_age_ms: Option<Millis>,
    /// When the next delayed message falls due.
    pub next_due_at: Option<Millis>,
    /// As many as `TOTALS` has names.
    pub totals: [i64; TOTALS.len()],
    /// Time has brought more than was carried out.
    pub(crate) more: bool,
}

impl Store {
    /// The topic of this name, and what it holds.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn topic(&self, name: &TopicName) -> Result<(Arc<Topic>, TopicSnapshot), Error> {
        let mut looks = 0;
        loop {
            let (partition, snapshot) = self.on(name, count).await?;
            looks += 1;
            if !snapshot.more || looks == MAX_LOOKS {
                partition.sweep_by(self.now(), snapshot.more.then(|| self.now()));
                return Ok((partition.topic, snapshot));
            }
        }
    }

    /// How many messages fall due in each of the coming `buckets` of `bucket_ms`; and where the first begins.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn forecast_topic(
        &self,
        name: &TopicName,
        bucket_ms: Millis,
        buckets: u64,
    ) -> Result<(Millis, Vec<i64>), Error> {
        let mut counts = Vec::new();
        let mut from = None;
        loop {
            let done = counts.len() as u64;
            let begin = from.map(|from: Millis| (from + bucket_ms * done as Millis).to_string());
            let begin = begin.unwrap_or_default();
            let forecast = |partition: &Partition| {
                let forecast = Command::on(&scripts::FORECAST_TOPIC, partition);
                let buckets = CALL_BUCKETS.min(buckets - done);
                forecast.arg((&begin, bucket_ms, buckets)).read(partition, read_forecast)
            };
            let (_, (begun, some)) = self.on(name, forecast).await?;
            let from = *from.get_or_insert(begun);
            counts.extend(some);
            if counts.len() as u64 >= buckets {
                return Ok((from, counts));
            }
        }
    }

    /// A page of the messages of one state, at most `limit`, with or without bodies. It ends before `most_bytes` of bodies and
    /// errors, but never without a message where there is one.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn list_messages(
        &self,
        name: &TopicName,
        state: State,
        after: Option<&ListCursor>,
        limit: u64,
        bodies: bool,
        most_bytes: usize,
    ) -> Result<(Arc<Topic>, MessagePage), Error> {
        // What time has brought is carried out before the first page, so that it stands where it belongs.
        if after.is_none() {
            for _ in 0..MAX_LOOKS {
                let swept = self.sweep(name).await?.ok_or(Error::TopicNotFound)?;
                if !swept.more {
                    break;
                }
            }
        }
        let mut last = after.cloned();
        let (mut items, mut bytes) = (Vec::new(), 0);
        loop {
            let list = ListSome {
                state,
                limit: CALL_MESSAGES.min(limit - items.len() as u64),
                after: last.clone(),
                body_bytes: bodies.then(|| CALL_BYTES.min(most_bytes - bytes)),
            };
            let (Partition { topic, .. }, some) = self.on(name, |it| list.request(it)).await?;
            let (mut more, before) = (some.more, items.len());
            for Listed { message, cursor, bytes: size } in some.items {
                if !items.is_empty() && bytes + size > most_bytes {
                    more = true;
                    break;
                }
                bytes += size;
                items.push(message);
                last = Some(cursor);
            }
            let full = items.len() as u64 >= limit || bytes >= most_bytes;
            if !more || full || items.len() == before {
                let next = last.filter(|_| more && !items.is_empty());
                return Ok((topic, MessagePage { items, next }));
            }
        }
    }
}

/// Some messages of one state.
pub(crate) struct ListSome {
    pub state: State,
    pub limit: u64,
    pub after: Option<ListCursor>,
    /// Bytes of bodies, about; `None` without bodies.
    pub body_bytes: Option<usize>,
}

impl ListSome {
    fn request(&self, partition: &Partition) -> Request<ListedSome> {
        let list = Command::on(&scripts::LIST_MESSAGES, partition);
        let list = list.arg((state_word(self.state), self.limit));
        let list = match &self.after {
            Some(ListCursor { part, score, member }) => list.arg((part, score, &member[..])),
            None => list.arg(("", "", "")),
        };
        let list = list.arg(self.body_bytes.unwrap_or(0));
        let (state, bodies) = (self.state, self.body_bytes.is_some());
        list.read(partition, move |reply| read_listed(reply, state, bodies))
    }
}

/// What one call listed.
pub(crate) struct ListedSome {
    pub items: Vec<Listed>,
    pub more: bool,
}

/// A message of a list, where it stands, and the bytes of its body and its error.
pub(crate) struct Listed {
    pub message: MessageSnapshot,
    pub cursor: ListCursor,
    pub bytes: usize,
}

pub(in crate::store) fn count(partition: &Partition) -> Request<TopicSnapshot> {
    Command::on(&scripts::COUNT_TOPIC, partition).arg(&TOTALS).read(partition, read_totals)
}

pub(in crate::store) fn read_totals(reply: &mut Reply<'_>) -> Result<TopicSnapshot, CallError> {
    let now = reply.now()?;
    let (more, paused) = (reply.int()? == 1, reply.int()? == 1);
    let (delayed, ready, leased) = (reply.int()?, reply.int()?, reply.int()?);
    let (dead, acked) = (reply.int()?, reply.int()?);
    let (oldest, next) = (reply.int()?, reply.int()?);
    let mut totals = [0; TOTALS.len()];
    for total in &mut totals {
        *total = reply.int()?;
    }
    Ok(TopicSnapshot {
        paused,
        delayed,
        ready,
        leased,
        dead,
        acked,
        oldest_ready_age_ms: (oldest > 0).then(|| now.saturating_sub(oldest).max(0)),
        next_due_at: (next > 0).then_some(next),
        totals,
        more,
    })
}

/// Where the first bucket begins, and the counts.
pub(in crate::store) fn read_forecast(
    reply: &mut Reply<'_>,
) -> Result<(Millis, Vec<i64>), CallError> {
    let from = reply.int()?;
    let mut counts = Vec::with_capacity(reply.len());
    while !reply.is_empty() {
        counts.push(reply.int()?);
    }
    Ok((from, counts))
}

/// `with_bodies`: they were asked for.
pub(in crate::store) fn read_listed(
    reply: &mut Reply<'_>,
    state: State,
    with_bodies: bool,
) -> Result<ListedSome, CallError> {
    reply.now()?;
    let more = reply.int()? == 1;
    let topic_max = reply.int()?;
    let (mut places, mut extras) = (reply.fields()?, reply.fields()?);
    let (mut bodies, mut events, topic_ttl) = (reply.fields()?, reply.fields()?, reply.int()?);
    let mut items = Vec::with_capacity(extras.len());
    while !places.is_empty() {
        let (part, score) = (places.int()? as u8, places.int()?);
        let member = places.member()?;
        let id = MessageId::from_member(&member, reply.partition.route);
        let extra = Extra::parse(&extras.text()?);
        // There are none at all where no message of the topic has any.
        let written = if events.is_empty() { Bytes::new() } else { events.bytes()? };
        // One message with damaged events must not hide the others.
        let last_error = last_error(&Event::read_all(&String::from_utf8_lossy(&written)));
        let mut bytes = last_error.as_deref().map_or(0, json_bytes);
        let body = match with_bodies {
            false => None,
            true => {
                let stored = bodies.bytes()?;
                bytes += stored.len();
                // A place without a body is `dueq audit`'s to find; it is no message.
                match decode(stored, &id, reply.topic()) {
                    Ok(body) => Some(body),
                    Err(_) => continue,
                }
            }
        };
        let at = instant_of(state, part, score);
        let held = i64::from(matches!(state, State::Leased | State::Acked));
        let max = extra.max_attempts.map_or(topic_max, i64::from);
        let waits = matches!(state, State::Delayed | State::Ready);
        // Of a message that was granted before it is not known here when it first fell due.
        let ttl = extra.ttl_ms.or((topic_ttl > 0).then_some(topic_ttl));
        let expires_at =
            ttl.filter(|_| waits && extra.attempts == 0).map(|ttl| at.saturating_add(ttl));
        let message = MessageSnapshot {
            id,
            state,
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
            last_error,
            written: String::new(),
            events: Vec::new(),
        };
        items.push(Listed { message, cursor: ListCursor { part, score, member }, bytes });
    }
    Ok(ListedSome { items, more })
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
