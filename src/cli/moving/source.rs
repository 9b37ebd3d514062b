//! Reads what a dump holds out of Redis, by pages that are one instant each, so that the queue goes on meanwhile.
//!
//! The walk is one through the bodies: a message has one from its publish to its end, wherever else it goes. So each message
//! that is there all the time is met, in one state, though not all of them at one instant.

use super::{
    line::{Content, IdempotencyKey, Schedule, Topic as TopicLine},
    message::{Message, Stored},
};
use bytes::Bytes;
use dueq_model::{Member, MessageId, TopicName, TopicPattern, error::Error};
use dueq_store::{
    Partition, PartitionName, Store, TOTALS, Topic,
    batch::Command,
    registry::parse_entry,
    reply::{CallError, Fields, Reply, int, word},
    scripts,
};
use serde_json::value::RawValue;
use std::{collections::HashSet, fmt::Display, io, sync::Arc};

/// Messages of a page at most, and about how many bytes. Redis reads all bodies of a page in one call.
const MAX_COUNT: usize = 64;
const PAGE_BYTES: u64 = 64 * 1024;
/// Keys of a page, about.
const KEYS: usize = 256;
/// Names of one look at the registry.
const NAMES: usize = 1_000;

/// Why nothing more is read or written.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// What Redis or the store says.
    #[error(transparent)]
    Store(#[from] Error),
    /// A file, or standard input or output.
    #[error("{0}: {1}")]
    File(String, io::Error),
    /// A line of the dump is not as it should be.
    #[error("line {0}: {1}")]
    Line(u64, String),
    /// Anything else that is to be told.
    #[error("{0}")]
    Other(String),
}

impl Failure {
    /// Anything else, in the words of its error.
    pub fn other(error: impl Display) -> Self {
        Self::Other(error.to_string())
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        Self::Store(error.into())
    }
}

/// Is the topic of this name to be dumped? All are where there are no patterns.
pub fn takes(patterns: &[TopicPattern], name: &str) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| pattern.has(name))
}

/// All topics, by name.
pub async fn topic_names(store: &Store) -> Result<Vec<TopicName>, Failure> {
    let mut names: Vec<TopicName> = Vec::new();
    loop {
        let after = names.last().map(|name| name.as_str().to_owned());
        let more = store.topic_names("", after.as_deref(), NAMES).await?;
        if more.is_empty() {
            return Ok(names);
        }
        names.extend(more);
    }
}

/// A topic as the registry has it, and its line.
pub async fn topic(store: &Store, name: &TopicName) -> Result<(Arc<Topic>, TopicLine), Failure> {
    let gone = || Failure::Other(format!("the topic {name} was deleted meanwhile: dump again"));
    let get = Command::new("HGET").arg((&store.lanes.shared.keys.registry, name.as_str()));
    let entry = store.lanes.command(get).await?;
    let entry = word(&entry).ok_or_else(gone)?;
    let (number, ..) = parse_entry(entry).ok_or(CallError::Internal)?;
    let settings = entry.splitn(3, ' ').nth(2).map(|json| RawValue::from_string(json.to_owned()));
    let settings = settings.transpose().map_err(|_| CallError::Internal)?;
    let topic = store.registry.look_up(name).await?.ok_or_else(gone)?;
    let paused = match topic.is_split() {
        true => topic.settings.paused,
        false => is_paused(store, &Partition::first(topic.clone())).await?,
    };
    Ok((topic, TopicLine { name: name.to_string(), number, paused, settings }))
}

/// Whether nothing is granted in a topic's only partition.
pub async fn is_paused(store: &Store, only: &Partition) -> Result<bool, Failure> {
    let rules = Command::new("HGET").arg((&only.keys.meta, "rules"));
    let rules = store.lanes.command(rules).await?;
    Ok(word(&rules).is_some_and(|rules| rules.starts_with('1')))
}

/// All totals of a topic: they change with almost all that happens there.
pub async fn totals(store: &Store, topic: &Arc<Topic>) -> Result<Vec<Option<String>>, Failure> {
    let mut totals = Vec::new();
    for partition in topic.all() {
        let read = Command::new("HMGET").arg(&partition.keys.meta).arg(&TOTALS);
        for total in Fields::of(store.lanes.command(read).await?)?.words() {
            totals.push(total?);
        }
    }
    Ok(totals)
}

/// How many messages a topic keeps.
pub async fn count(store: &Store, topic: &Arc<Topic>) -> Result<u64, Failure> {
    let mut count = 0;
    for partition in topic.all() {
        let length = Command::new("HLEN").arg(&partition.keys.messages);
        count += int(store.lanes.command(length).await?)?.unsigned_abs();
    }
    Ok(count)
}

/// Reads all messages of a partition once; `None` for one that is damaged.
///
/// Errors: those of `each`, and that the topic is another one by now.
pub async fn messages(
    store: &Store,
    partition: &Partition,
    mut each: impl FnMut(Option<Message>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (name, number) = (partition.name(), partition.topic.number);
    let mut seen: HashSet<Member> = HashSet::new();
    let first = Step {
        cursor: "0".to_owned(),
        named: Vec::new(),
        after: String::new(),
        count: 1,
        seen: (0, 0),
    };
    let read = |step: Step| tokio::spawn(read_page(store.clone(), name.clone(), step));
    let mut reading = read(first);
    loop {
        let lost = |error| Failure::Other(format!("a page was lost: {error}"));
        let (partition, page) = reading.await.map_err(lost)??;
        if partition.topic.number != number {
            let gone = format!("the topic {} was made anew meanwhile: dump again", name.topic);
            return Err(Failure::Other(gone));
        }
        let next = page.next.map(&read);
        for stored in &page.found {
            // A walk through a hash may come by twice.
            let member = stored.member[..].try_into();
            if member.map_or(true, |member| seen.insert(member)) {
                each(Message::of(stored, &partition, page.now))?;
            }
        }
        match next {
            Some(next) => reading = next,
            None => return Ok(()),
        }
    }
}

/// What a call is to read.
#[derive(Clone)]
struct Step {
    /// Where the walk is; empty where messages are named.
    cursor: String,
    /// Messages that the page before had no room for.
    named: Vec<Bytes>,
    /// Where the walk goes on after those.
    after: String,
    /// About so many messages.
    count: usize,
    /// Messages before this page, and their bytes.
    seen: (u64, u64),
}

/// What a call read, and what the next one is to read.
struct Page {
    now: i64,
    found: Vec<Stored>,
    next: Option<Step>,
}

async fn read_page(
    store: Store,
    name: PartitionName,
    step: Step,
) -> Result<(Partition, Page), Error> {
    let request = |partition: &Partition| {
        let read = Command::on(&scripts::DUMP_MESSAGES, partition);
        let mut read = read.arg((&step.cursor, step.count));
        for member in &step.named {
            read = read.arg(&member[..]);
        }
        let step = step.clone();
        read.read(partition, move |reply| page_of(reply, step))
    };
    store.on(&name, request).await
}

fn page_of(reply: &mut Reply<'_>, step: Step) -> Result<Page, CallError> {
    let (cursor, now, bytes) = (reply.text()?, reply.int()?, reply.int()?);
    let (mut left, mut fields) = (reply.fields()?, reply.fields()?);
    let mut named = Vec::with_capacity(left.len());
    while !left.is_empty() {
        named.push(left.bytes()?);
    }
    let mut found = Vec::with_capacity(fields.len() / 9);
    while !fields.is_empty() {
        found.push(stored(&mut fields)?);
    }
    // Bodies may be large: a few at first, more when they turn out small. What counts is the mean of all, since a page of
    // small ones says nothing of the next.
    let seen = (step.seen.0 + found.len() as u64, step.seen.1 + bytes.unsigned_abs());
    let fit = (PAGE_BYTES * seen.0.max(1) / seen.1.max(1)) as usize;
    let count = fit.min(step.count * 2).clamp(1, MAX_COUNT);
    let after = if step.named.is_empty() { cursor } else { step.after };
    let next = match (named.is_empty(), &*after) {
        (true, "0") => None,
        (true, _) => Some(Step { cursor: after, named, after: String::new(), count, seen }),
        (false, _) => Some(Step { cursor: String::new(), named, after, count, seen }),
    };
    Ok(Page { now, found, next })
}

fn stored(fields: &mut Fields) -> Result<Stored, CallError> {
    let optional = |value: Bytes| std::str::from_utf8(&value).ok().and_then(|at| at.parse().ok());
    Ok(Stored {
        member: fields.bytes()?,
        body: fields.bytes()?,
        set: fields.int()?,
        score: fields.int()?,
        extra: fields.bytes()?,
        events: fields.bytes()?,
        expires: optional(fields.bytes()?),
        first_due: optional(fields.bytes()?),
        untold: optional(fields.bytes()?),
    })
}

/// Reads the idempotency keys of a partition that still answer.
pub async fn idempotency_keys(
    store: &Store,
    partition: &Partition,
    mut each: impl FnMut(IdempotencyKey) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (mut cursor, mut seen) = (Some("0".to_owned()), HashSet::new());
    while let Some(from) = cursor {
        let scan = Command::new("HSCAN").arg((&partition.keys.idem, from, "COUNT", KEYS));
        let mut fields = Fields::of(store.lanes.command(scan).await?)?;
        cursor = fields.cursor()?;
        let mut pairs = fields.fields()?;
        while !pairs.is_empty() {
            let (key, value) = (pairs.bytes()?, pairs.bytes()?);
            if let Some(line) = idempotency_key(partition, &key, &value)
                && seen.insert(key)
            {
                each(line)?;
            }
        }
    }
    Ok(())
}

/// The line of `until,fingerprint,state,due,member`; `None` where it is damaged.
fn idempotency_key(partition: &Partition, key: &[u8], value: &[u8]) -> Option<IdempotencyKey> {
    let mut parts = value.splitn(5, |byte| *byte == b',');
    let mut text = || std::str::from_utf8(parts.next()?).ok();
    let (until, answer) = (text()?, [text()?, text()?, text()?].join(","));
    let member = parts.next()?.try_into().ok()?;
    let line = IdempotencyKey {
        topic: partition.topic.name.to_string(),
        key: Content::of(key),
        until_ms: until.parse().ok()?,
        answer,
        id: MessageId::from_member(&member, partition.route).to_string(),
    };
    line.check().is_ok().then_some(line)
}

/// Reads all schedules whose topic is taken.
pub async fn schedules(store: &Store, patterns: &[TopicPattern]) -> Result<Vec<Schedule>, Failure> {
    let keys = &store.lanes.shared.keys;
    let (mut all, mut from) = (Vec::new(), 0);
    loop {
        let range = Command::new("ZRANGE").arg((&keys.schedules_index, from, from + 63));
        let names = Fields::of(store.lanes.command(range).await?)?.words();
        let names: Vec<String> = names.into_iter().flatten().flatten().collect();
        if names.is_empty() {
            return Ok(all);
        }
        from += names.len();
        for name in names {
            let entry = Command::new("HGET").arg((&keys.schedules, &name));
            let state = Command::new("HGET").arg((&keys.schedule_states, &name));
            let entry = store.lanes.command(entry).await?;
            let state = store.lanes.command(state).await?;
            // One that was deleted meanwhile has neither.
            let (Some(entry), Some(state)) = (word(&entry), word(&state)) else { continue };
            let read = schedule(&name, entry, state);
            let bad = || format!("the schedule {name} cannot be read: delete or put it anew");
            let (topic, line) = read.ok_or_else(|| Failure::Other(bad()))?;
            if takes(patterns, &topic) {
                all.push(line);
            }
        }
    }
}

/// The topic of a schedule, and its line.
fn schedule(name: &str, entry: &str, state: &str) -> Option<(String, Schedule)> {
    #[derive(serde::Deserialize)]
    struct Definition {
        topic: String,
    }
    let Definition { topic } = serde_json::from_str(entry).ok()?;
    let mut words = state.splitn(7, ' ').skip(1);
    let mut number = || words.next()?.parse().ok();
    let (paused, next_ms, claimed_ms, last_ms) = (number()? == 1, number()?, number()?, number()?);
    let line = Schedule {
        name: name.to_owned(),
        definition: RawValue::from_string(entry.to_owned()).ok()?,
        paused,
        next_ms,
        claimed_ms,
        last_ms,
        last_id: words.next()?.to_owned(),
        last_error: words.next().unwrap_or_default().to_owned(),
    };
    Some((topic, line))
}
