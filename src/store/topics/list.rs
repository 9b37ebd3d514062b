//! list_messages: the messages of one state, one by one, a bounded number a call. The partitions of a topic each list their
//! own in order; a page merges them.

use super::contents::MAX_LOOKS;
use crate::{
    Store,
    batch::{Command, Request},
    callback_names::shown,
    extra::Extra,
    message::decode_or_empty,
    partition::{Partition, PartitionName},
    registry::Topic,
    reply::{CallError, Fields, Reply},
    scripts,
    turns::Round,
    types::{ListCursor, MessagePage, MessageSnapshot, json_bytes},
    waiting::{GroupWaits, TopicWaits, Waits},
};
use bytes::Bytes;
use dueq_model::{
    MessageId, MessageQuery, Millis, State, Subject, TopicName, error::Error, last_error,
    last_status,
};
use futures_util::future::try_join_all;
use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

/// Messages of one call.
const CALL_MESSAGES: u64 = 256;
/// The same of a search, which calls again and again: what others ask of Redis meanwhile waits for one of them. Fewer cost more
/// round trips: of a million messages 16 a call take half as long again as 64, and leave others half of the delay.
const SEARCH_MESSAGES: u64 = 16;
/// Bytes of bodies in one call.
const CALL_BYTES: usize = 256 * 1024;
/// What one request searches: messages, bytes of bodies and errors, and for how long.
pub(super) const MAX_SCANNED: u64 = 10_000;
const MAX_READ: usize = 16 * 1024 * 1024;
/// What is left of 250 ms is for the call under way and for the answer.
const MAX_SEARCH: Duration = Duration::from_millis(200);

/// What a request has searched so far, whatever the number of lists.
pub(super) struct Search {
    begun: Instant,
    /// Messages.
    pub scanned: u64,
    /// Bytes of bodies and errors.
    read: usize,
}

impl Search {
    pub fn new() -> Self {
        Self { begun: Instant::now(), scanned: 0, read: 0 }
    }

    /// Has it looked at as much as one request may?
    pub fn is_over(&self) -> bool {
        self.scanned >= MAX_SCANNED || self.read >= MAX_READ || self.begun.elapsed() >= MAX_SEARCH
    }
}

/// A sorted set in which the messages of a state are.
#[derive(Clone, Copy)]
struct Set {
    /// As scripts call it.
    name: &'static str,
    /// Which of its messages are meant.
    which: &'static str,
    /// Its place in the order of the list: those of one part are merged.
    part: u8,
}

/// The sets of a state. In a fair topic, what waits in groups is delayed or ready.
fn sets(state: State, is_fair: bool) -> &'static [Set] {
    const fn set(name: &'static str, which: &'static str, part: u8) -> Set {
        Set { name, which, part }
    }
    match state {
        State::Delayed if is_fair => {
            &const {
                [
                    set("delayed", "later", 0),
                    set("delayed_prio", "later", 0),
                    set("blocked", "later", 0),
                ]
            }
        }
        State::Ready if is_fair => {
            &const { [set("ready", "all", 0), set("delayed", "due", 1), set("blocked", "due", 1)] }
        }
        State::Blocked if is_fair => &[],
        State::Delayed => &const { [set("delayed", "later", 0), set("delayed_prio", "later", 0)] },
        State::Ready => &const { [set("ready", "all", 0), set("delayed", "due", 1)] },
        State::Leased => &const { [set("unack", "held", 0), set("last", "held", 0)] },
        State::Blocked => &const { [set("blocked", "all", 0)] },
        State::Dead => &const { [set("dead", "all", 0)] },
        _ => &const { [set("acked", "all", 0)] },
    }
}

/// What a set of a partition contributes to a page.
struct Source {
    name: PartitionName,
    set: Set,
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
    /// A page of the messages of one state. It ends before `most_bytes` of bodies and errors, but never without a message where
    /// there is one. A search also ends when it has looked at so many messages or bytes, or for so long, as one request may.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn list_messages(
        &self,
        name: &TopicName,
        listing: Listing<'_>,
    ) -> Result<(Arc<Topic>, MessagePage), Error> {
        let (mut search, mut items) = (Search::new(), Vec::new());
        // Only a body says where a call goes.
        let topic = self.registry.find(name).await?;
        let urls = topic.is_some_and(|topic| topic.settings.push.is_some());
        let listing = Listing { urls, ..listing };
        let (topic, next) =
            self.search(name, listing, &mut search, |found| items.push(found)).await?;
        self.explain(&topic, &mut items).await?;
        Ok((topic, MessagePage { items, next, scanned: search.scanned }))
    }

    /// The same, one message after another, as a part of a search. Returns where the next page goes on, if there is more.
    pub(super) async fn search(
        &self,
        name: &TopicName,
        listing: Listing<'_>,
        search: &mut Search,
        mut found: impl FnMut(MessageSnapshot),
    ) -> Result<(Arc<Topic>, Option<ListCursor>), Error> {
        let Listing { state, after, limit, bodies, urls, most_bytes, query, round } = listing;
        // Messages that have fallen due or expired are moved before the first page, so that each is listed in its state.
        for _ in 0..if after.is_none() { MAX_LOOKS } else { 0 } {
            let turn = round.turn().await;
            let swept = self.sweep_all(name).await?;
            drop(turn);
            if swept.is_empty() {
                return Err(Error::TopicNotFound);
            }
            let all = swept.iter().all(|(_, swept)| !swept.more);
            if all || (query.is_some() && search.is_over()) {
                break;
            }
        }
        let topic = self.registry.find(name).await?.ok_or(Error::TopicNotFound)?;
        let source = |partition: Partition, set: &Set| Source {
            name: partition.name(),
            set: *set,
            listed: VecDeque::new(),
            after: after.filter(|after| after.part == set.part).cloned(),
            more: after.is_none_or(|after| after.part <= set.part),
            stuck: false,
        };
        let sets = sets(state, topic.settings.is_fair());
        let sources = topic.all().flat_map(|it| sets.iter().map(move |set| (it.clone(), set)));
        let mut sources: Vec<_> = sources.map(|(it, set)| source(it, set)).collect();
        let (mut count, mut bytes, mut last) = (0, 0, None);
        let payloads = bodies || query.is_some_and(MessageQuery::needs_body);
        let reads_bodies = payloads || urls || query.is_some_and(MessageQuery::needs_url);
        while count < limit && bytes < most_bytes {
            let dry: Vec<_> = sources.iter_mut().filter(|source| source.is_dry()).collect();
            // However slow Redis is, each page gets on, and nothing is read in vain.
            let is_over = search.scanned >= MAX_SCANNED || !dry.is_empty() && search.is_over();
            if query.is_some() && last.is_some() && is_over {
                break;
            }
            let share = |n: usize| n.div_ceil(dry.len().max(1));
            let left = MAX_SCANNED.saturating_sub(search.scanned).max(1);
            let (most, wanted) = match query {
                Some(_) => (SEARCH_MESSAGES, left),
                None => (CALL_MESSAGES, limit - count),
            };
            let limit = most.min(share(wanted as usize) as u64);
            let body_bytes = reads_bodies.then(|| share(CALL_BYTES.min(most_bytes - bytes)));
            let turn = round.turn().await;
            try_join_all(dry.into_iter().map(async |source| {
                let after = source.after.clone();
                let list = ListSome { state, limit, after, newest: None, body_bytes, payloads };
                source.take(self.list_set(&source.name, source.set, list).await?);
                Ok::<_, Error>(())
            }))
            .await?;
            drop(turn);
            let place =
                |source: &&mut Source| source.listed.front().map(|item| item.cursor.place());
            let first =
                sources.iter_mut().filter(|source| !source.listed.is_empty()).min_by_key(place);
            let Some(first) = first else { break };
            let matches = |item: &Listed| query.is_none_or(|query| item.matches(query, &topic));
            let Some(front) = first.listed.front() else { break };
            let is_found = matches(front);
            if is_found && count > 0 && bytes + front.bytes > most_bytes {
                break;
            }
            if let Some(Listed { mut message, cursor, bytes: size }) = first.listed.pop_front() {
                (search.scanned, search.read) = (search.scanned + 1, search.read + size);
                last = Some(cursor);
                if is_found {
                    message.body = message.body.filter(|_| bodies);
                    (count, bytes) = (count + 1, bytes + size);
                    found(message);
                }
            }
        }
        let more = sources.iter().any(|source| source.more || !source.listed.is_empty());
        Ok((topic, last.filter(|_| more)))
    }

    /// Some dead messages of a partition.
    pub(super) async fn list_dead(
        &self,
        name: &PartitionName,
        list: ListSome,
    ) -> Result<ListedSome, Error> {
        self.list_set(name, sets(State::Dead, false)[0], list).await
    }

    async fn list_set(
        &self,
        name: &PartitionName,
        set: Set,
        list: ListSome,
    ) -> Result<ListedSome, Error> {
        Ok(self.on(name, |it| list.request(it, set)).await?.1)
    }
}

/// What is asked of a list.
#[derive(Clone, Copy)]
pub struct Listing<'a> {
    /// The state of its messages.
    pub state: State,
    /// Where the page before ended.
    pub after: Option<&'a ListCursor>,
    /// Messages on the page, at most.
    pub limit: u64,
    /// With bodies.
    pub bodies: bool,
    /// It has to be known where their calls go.
    pub urls: bool,
    /// Bytes of bodies and errors on the page.
    pub most_bytes: usize,
    /// Only those that it matches.
    pub query: Option<&'a MessageQuery>,
    /// The request that lists them.
    pub round: &'a Round,
}

impl Listed {
    fn matches(&self, query: &MessageQuery, topic: &Topic) -> bool {
        let message = &self.message;
        let body = message.body.as_ref();
        let subject = Subject {
            id: message.id,
            status: message.last_status,
            url: message.url.as_ref(),
            error: message.last_error.as_deref(),
            key: message.key.as_deref(),
            group: message.options.group.as_deref(),
            attempts: message.attempts,
            priority: message.options.priority,
            at: message.at,
            published: message.id.published(),
            body,
        };
        let push = topic.settings.push.as_ref();
        query.matches(subject, |name| body.is_some_and(|body| body.masks(name, push)))
    }
}

/// Some messages of one state.
pub struct ListSome {
    pub state: State,
    pub limit: u64,
    pub after: Option<ListCursor>,
    /// Without `after`: no more than so many, those at the end.
    pub newest: Option<u64>,
    /// Bytes of bodies, about; `None` without bodies.
    pub body_bytes: Option<usize>,
    /// With bodies, those are whole.
    pub payloads: bool,
}

impl ListSome {
    fn request(&self, partition: &Partition, set: Set) -> Request<ListedSome> {
        let list = Command::on(&scripts::LIST_MESSAGES, partition);
        let list = list.arg((set.name, set.which, self.limit));
        let list = match &self.after {
            Some(ListCursor { score, member, .. }) => list.arg((score, &member[..])),
            None => list.arg(("", self.newest.map(|n| n.to_string()).unwrap_or_default())),
        };
        let list = list.arg((self.body_bytes.unwrap_or(0), i64::from(!self.payloads)));
        let (state, bodies) = (self.state, self.body_bytes.is_some());
        list.read(partition, move |reply| read_listed(reply, state, set.part, bodies))
    }
}

/// What one call listed.
pub struct ListedSome {
    pub items: Vec<Listed>,
    pub more: bool,
}

/// A message of a list, its position, and the bytes of its body and its error.
pub struct Listed {
    pub message: MessageSnapshot,
    pub cursor: ListCursor,
    pub bytes: usize,
}

/// `with_bodies`: they were asked for.
pub(crate) fn read_listed(
    reply: &mut Reply<'_>,
    state: State,
    part: u8,
    with_bodies: bool,
) -> Result<ListedSome, CallError> {
    reply.now()?;
    let more = reply.int()? == 1;
    let topic_max = reply.int()?;
    let (mut places, mut extras) = (reply.fields()?, reply.fields()?);
    let (mut bodies, mut events, topic_ttl) = (reply.fields()?, reply.fields()?, reply.int()?);
    let (mut all, mut own) = (None, Fields::none());
    if !reply.is_empty() {
        (all, own) = (Some(TopicWaits::read(&mut reply.fields()?)?), reply.fields()?);
    }
    let mut items = Vec::with_capacity(extras.len());
    while !places.is_empty() {
        let score = places.int()?;
        let member = places.member()?;
        let id = MessageId::from_member(&member, reply.partition.route);
        let extra = shown(&reply.topic().name, Extra::parse(&extras.text()?));
        // There are none at all where no message of the topic has any.
        let written = if events.is_empty() { Bytes::new() } else { events.bytes()? };
        // One message with damaged events must not hide the others.
        let written = String::from_utf8_lossy(&written);
        let last_error = last_error(&written);
        let last_status = last_status(&written);
        let own = GroupWaits::read(&mut own, reply.partition)?;
        let mut bytes = last_error.as_deref().map_or(0, json_bytes);
        let body = match with_bodies {
            false => None,
            true => {
                let stored = bodies.bytes()?;
                bytes += stored.len();
                // A place without a body is `dueq audit`'s to find; it is no message.
                if stored.is_empty() {
                    continue;
                }
                Some(decode_or_empty(stored, &id, reply.topic()))
            }
        };
        let at = instant_of(state, part, score);
        let reasons = match all {
            Some(all) => Some(Waits::new(reply.topic(), at, &written, all, own, body.as_ref())),
            None if state == State::Leased => Some(Waits::of_leased(at)),
            None => None,
        };
        let url = body.as_ref().and_then(|body| reply.topic().call_url(body)).cloned();
        let at = reasons.as_ref().map_or(at, |known| known.due);
        let held = i64::from(matches!(state, State::Leased | State::Acked));
        let max = extra.options.max_attempts.map_or(topic_max, i64::from);
        let waits = matches!(state, State::Delayed | State::Ready | State::Blocked);
        // Of a message that was granted before it is not known here when it first fell due, nor of one that waited for a rate.
        let rated = extra.options.group.is_some() && reply.topic().settings.has_group_turns();
        let ttl = extra.options.ttl_ms.or((topic_ttl > 0).then_some(topic_ttl));
        let expires_at = ttl
            .filter(|_| waits && extra.attempts == 0 && (state == State::Delayed || !rated))
            .map(|ttl| at.saturating_add(ttl));
        let message = MessageSnapshot {
            id,
            state,
            at,
            attempts: extra.attempts.saturating_add(held),
            attempts_left: max.saturating_sub(extra.counted).saturating_sub(held).max(0),
            options: extra.options,
            key: extra.key,
            expires_at,
            body,
            url,
            last_status,
            last_error,
            result: None,
            written: String::new(),
            events: Vec::new(),
            waits: reasons.map(Box::new),
            waiting_for: None,
        };
        items.push(Listed { message, cursor: ListCursor { part, score, member }, bytes });
    }
    Ok(ListedSome { items, more })
}

/// The instant in a score: see the keys in `migrations-lua/README.md`.
fn instant_of(state: State, part: u8, score: i64) -> Millis {
    match (state, part) {
        (State::Ready, 0) => score % (1 << 45),
        (State::Leased | State::Acked, _) => score >> 11,
        _ => score,
    }
}
