//! list_messages: the messages of one state, one by one, a bounded number a call. The partitions of a topic each list their
//! own in order; a page merges them.

use super::contents::MAX_LOOKS;
use crate::{
    error::Error,
    model::{Event, MessageId, Millis, State, TopicName, last_error},
    store::{
        Store,
        batch::{Command, Request},
        extra::Extra,
        message::decode,
        partition::{Partition, PartitionName},
        registry::Topic,
        reply::{CallError, Reply},
        scripts,
        types::{ListCursor, MessagePage, MessageSnapshot, json_bytes},
    },
};
use bytes::Bytes;
use futures_util::future::try_join_all;
use std::{collections::VecDeque, sync::Arc};

/// Messages of one call.
const CALL_MESSAGES: u64 = 256;
/// Bytes of bodies in one call.
const CALL_BYTES: usize = 256 * 1024;

/// What a partition contributes to a page.
struct Source {
    name: PartitionName,
    /// What was read and not yet shown.
    listed: VecDeque<Listed>,
    /// Where the next call goes on.
    after: Option<ListCursor>,
    /// There is more than was read.
    more: bool,
    /// The last call gave nothing that can be shown.
    stuck: bool,
}

impl Source {
    fn is_dry(&self) -> bool {
        self.listed.is_empty() && self.more && !self.stuck
    }

    fn take(&mut self, some: ListedSome) {
        self.more = some.more;
        self.stuck = some.items.is_empty();
        self.after = some.items.last().map(|item| item.cursor.clone()).or(self.after.take());
        self.listed.extend(some.items);
    }
}

impl Store {
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
        for _ in 0..if after.is_none() { MAX_LOOKS } else { 0 } {
            let swept = self.sweep_all(name).await?;
            if swept.is_empty() {
                return Err(Error::TopicNotFound);
            }
            if swept.iter().all(|(_, swept)| !swept.more) {
                break;
            }
        }
        let topic = self.registry.find(name).await?.ok_or(Error::TopicNotFound)?;
        let source = |partition: Partition| Source {
            name: partition.name(),
            listed: VecDeque::new(),
            after: after.cloned(),
            more: true,
            stuck: false,
        };
        let mut sources: Vec<_> = topic.all().map(source).collect();
        let (mut items, mut bytes, mut last) = (Vec::new(), 0, None);
        while (items.len() as u64) < limit && bytes < most_bytes {
            let dry: Vec<_> = sources.iter_mut().filter(|source| source.is_dry()).collect();
            let share = |n: usize| n.div_ceil(dry.len().max(1));
            let limit = CALL_MESSAGES.min(share((limit - items.len() as u64) as usize) as u64);
            let body_bytes = bodies.then(|| share(CALL_BYTES.min(most_bytes - bytes)));
            try_join_all(dry.into_iter().map(async |source| {
                let list = ListSome { state, limit, after: source.after.clone(), body_bytes };
                let (_, some) = self.on(&source.name, |it| list.request(it)).await?;
                source.take(some);
                Ok::<_, Error>(())
            }))
            .await?;
            let place =
                |source: &&mut Source| source.listed.front().map(|item| item.cursor.place());
            let first =
                sources.iter_mut().filter(|source| !source.listed.is_empty()).min_by_key(place);
            let Some(first) = first else { break };
            let fits = |item: &Listed| items.is_empty() || bytes + item.bytes <= most_bytes;
            if !first.listed.front().is_some_and(fits) {
                break;
            }
            if let Some(Listed { message, cursor, bytes: size }) = first.listed.pop_front() {
                bytes += size;
                items.push(message);
                last = Some(cursor);
            }
        }
        let more = sources.iter().any(|source| source.more || !source.listed.is_empty());
        Ok((topic, MessagePage { items, next: last.filter(|_| more) }))
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
        let waits = matches!(state, State::Delayed | State::Ready | State::Blocked);
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
            group: extra.group,
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
        State::Blocked => "blocked",
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
