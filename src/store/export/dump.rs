//! Writes a dump, by pages that are one instant each, so that the queue goes on meanwhile.
//!
//! The walk is one through the bodies: a message has one from its publish to its end, in whichever set it is. So each message
//! that is there all the time is met, in one state, though not all of them at one instant.

use super::{
    ExportError,
    line::{End, FORMAT, Group, Header, IdempotencyKey, Line, Schedule, Topic as TopicLine},
    message::{Message, Stored},
};
use crate::{
    SCHEMA_VERSION, Store, TOTALS,
    batch::Command,
    partition::{Partition, PartitionName},
    random_bytes,
    registry::{Topic, parse_entry},
    reply::{CallError, Fields, Reply, int, word},
    scripts,
};
use bytes::Bytes;
use dueq_model::{GroupSettings, Member, TopicName, TopicPattern, error::Error, format_instant};
use ring::digest::{Context, SHA256};
use serde_json::value::RawValue;
use std::{
    collections::HashSet,
    io::{self, BufWriter, Write},
    sync::Arc,
};

/// Messages of a page at most, and about how many bytes. Redis reads all bodies of a page in one call.
const MAX_COUNT: usize = 64;
const PAGE_BYTES: u64 = 64 * 1024;
/// Keys of a page, about.
const KEYS: usize = 256;
/// Names, and schedules, of one look.
const NAMES: usize = 1_000;
/// Bytes of schedules in a call, about.
const SCHEDULE_BYTES: usize = 512 * 1024;

/// Writes the topics that the patterns name (all without a pattern), their schedules and messages. `from`: where they are from,
/// for the first line. `progress` gets the messages that are read, and how many there are, about.
///
/// Errors: a pattern names no topic, or a dump is being loaded into a topic; those of `to` and of Redis.
pub async fn dump<W: Write>(
    store: &Store,
    patterns: &[TopicPattern],
    from: String,
    to: W,
    mut progress: impl FnMut(u64, u64),
) -> Result<(W, End), ExportError> {
    let takes = |name: &str| patterns.is_empty() || patterns.iter().any(|it| it.has(name));
    let names = topic_names(store).await?;
    let is_unused = |it: &&TopicPattern| !names.iter().any(|name| it.has(name.as_str()));
    if let Some(unused) = patterns.iter().find(is_unused) {
        return Err(ExportError::Other(format!("there is no topic {unused}")));
    }
    let to = BufWriter::with_capacity(1 << 20, to);
    let mut out = Lines { to, digest: Context::new(&SHA256), end: End::default() };
    let instances = Command::new("GET").arg(&store.lanes.shared.keys.instances);
    out.write(&Line::Dump(Header {
        format: FORMAT,
        schema: SCHEMA_VERSION,
        dueq: env!("CARGO_PKG_VERSION").to_owned(),
        id: hex::encode(&random_bytes()[..8]),
        at: format_instant(store.now()),
        from,
        instances: int(store.lanes.command(instances).await?)?,
    }))?;
    let (mut topics, mut total) = (Vec::new(), 0);
    for name in names.iter().filter(|name| takes(name.as_str())) {
        let (topic, line) = topic(store, name).await?;
        out.write(&Line::Topic(line))?;
        let (totals, count) = totals(store, &topic).await?;
        topics.push((totals, topic));
        total += count;
    }
    for partition in topics.iter().flat_map(|(_, topic)| topic.all()) {
        let topic = &partition.topic.name;
        for (group, settings) in store.own_groups(&partition).await?.into_values() {
            let GroupSettings { paused, limits } = settings;
            out.write(&Line::Group(Group { topic: topic.to_string(), group, paused, limits }))?;
        }
    }
    if takes(TopicName::callbacks().as_str()) {
        for host in store.read_paused_hosts().await?.keys() {
            out.write(&Line::PausedHost(host.clone()))?;
        }
    }
    schedules(store, |topic, schedule| match takes(topic) {
        true => out.write(&Line::Schedule(schedule)),
        false => Ok(()),
    })
    .await?;
    for partition in topics.iter().flat_map(|(_, topic)| topic.all()) {
        let write = |message: Option<Message>| {
            match message {
                Some(message) => out.write(&Line::Message(Box::new(message)))?,
                None => out.end.damaged += 1,
            }
            progress(out.end.messages + out.end.damaged, total);
            Ok(())
        };
        messages(store, &partition, write).await?;
        idempotency_keys(store, &partition, |key| out.write(&Line::IdempotencyKey(key))).await?;
    }
    for (before, topic) in &topics {
        if *before != totals(store, topic).await?.0 {
            out.end.changed.push(topic.name.to_string());
        }
    }
    out.finish()
}

/// Where lines go. They are counted and hashed on the way.
struct Lines<W: Write> {
    to: BufWriter<W>,
    digest: Context,
    end: End,
}

impl<W: Write> Lines<W> {
    fn write(&mut self, line: &Line) -> Result<(), ExportError> {
        match line {
            Line::Dump(_) | Line::End(_) => {}
            Line::Topic(_) => self.end.topics += 1,
            Line::Group(_) => self.end.groups += 1,
            Line::PausedHost(_) => self.end.paused_hosts += 1,
            Line::Schedule(_) => self.end.schedules += 1,
            Line::Message(_) => self.end.messages += 1,
            Line::IdempotencyKey(_) => self.end.idempotency_keys += 1,
        }
        let mut text = serde_json::to_vec(line).map_err(ExportError::other)?;
        text.push(b'\n');
        self.digest.update(&text);
        self.to.write_all(&text).map_err(cannot_write)
    }

    /// Writes the last line.
    fn finish(mut self) -> Result<(W, End), ExportError> {
        self.end.sha256 = hex::encode(self.digest.clone().finish().as_ref());
        let end = self.end.clone();
        self.write(&Line::End(end.clone()))?;
        let to = self.to.into_inner().map_err(|error| cannot_write(error.into_error()))?;
        Ok((to, end))
    }
}

fn cannot_write(error: io::Error) -> ExportError {
    ExportError::File("cannot write the dump".to_owned(), error)
}

/// All topics, by name.
pub(super) async fn topic_names(store: &Store) -> Result<Vec<TopicName>, ExportError> {
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
async fn topic(store: &Store, name: &TopicName) -> Result<(Arc<Topic>, TopicLine), ExportError> {
    let gone = || ExportError::Other(format!("the topic {name} was deleted meanwhile: dump again"));
    let get = Command::new("HGET").arg((&store.lanes.shared.keys.registry, name.as_str()));
    let entry = store.lanes.command(get).await?;
    let entry = word(&entry).ok_or_else(gone)?;
    let (number, ..) = parse_entry(entry).ok_or(CallError::Internal)?;
    let settings = entry.splitn(3, ' ').nth(2).map(|json| RawValue::from_string(json.to_owned()));
    let settings = settings.transpose().map_err(|_| CallError::Internal)?;
    let topic = store.registry.look_up(name).await?.ok_or_else(gone)?;
    if topic.settings.loading.is_some() {
        let loading = format!("a dump is being loaded into the topic {name}: finish that first");
        return Err(ExportError::Other(loading));
    }
    let paused = match topic.is_split() {
        true => topic.settings.paused,
        false => {
            let meta = Partition::first(topic.clone()).keys.meta.clone();
            let rules = store.lanes.command(Command::new("HGET").arg((meta, "rules"))).await?;
            word(&rules).is_some_and(|rules| rules.starts_with('1'))
        }
    };
    Ok((topic, TopicLine { name: name.to_string(), number, paused, settings }))
}

/// All totals of a topic, which change with almost all that happens there; and how many messages it keeps.
async fn totals(
    store: &Store,
    topic: &Arc<Topic>,
) -> Result<(Vec<Option<String>>, u64), ExportError> {
    let (mut totals, mut count) = (Vec::new(), 0);
    for partition in topic.all() {
        let read = Command::new("HMGET").arg(&partition.keys.meta).arg(&TOTALS);
        for total in Fields::of(store.lanes.command(read).await?)?.words() {
            totals.push(total?);
        }
        let length = Command::new("HLEN").arg(&partition.keys.messages);
        count += int(store.lanes.command(length).await?)?.unsigned_abs();
    }
    Ok((totals, count))
}

/// Reads all messages of a partition once; `None` for one that is damaged.
///
/// Errors: those of `each`, and that the topic was deleted and created again.
pub(super) async fn messages(
    store: &Store,
    partition: &Partition,
    mut each: impl FnMut(Option<Message>) -> Result<(), ExportError>,
) -> Result<(), ExportError> {
    let (name, number) = (partition.name(), partition.topic.number);
    let mut seen: HashSet<Member> = HashSet::new();
    let read = |step: Step| tokio::spawn(read_page(store.clone(), name.clone(), step));
    let first = Step { cursor: "0".to_owned(), count: 1, ..Step::default() };
    let mut reading = Some(read(first));
    while let Some(page) = reading {
        let (partition, page) = page.await.map_err(ExportError::other)??;
        if partition.topic.number != number {
            let gone = format!("the topic {} was created again meanwhile: dump again", name.topic);
            return Err(ExportError::Other(gone));
        }
        reading = page.next.map(&read);
        for stored in &page.found {
            // A walk through a hash may come by twice.
            let member = stored.member[..].try_into();
            if member.map_or(true, |member| seen.insert(member)) {
                each(Message::of(stored, &partition, page.now))?;
            }
        }
    }
    Ok(())
}

/// What a call is to read.
#[derive(Clone, Default)]
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
        let read = read.arg((&step.cursor, step.count));
        let read = step.named.iter().fold(read, |read, member| read.arg(&member[..]));
        let step = step.clone();
        read.read(partition, move |reply| page_of(reply, step))
    };
    store.on(&name, request).await
}

fn page_of(reply: &mut Reply<'_>, step: Step) -> Result<Page, CallError> {
    let (cursor, now, bytes) = (reply.text()?, reply.int()?, reply.int()?);
    let (mut left, mut fields) = (reply.fields()?, reply.fields()?);
    let (mut named, mut found) = (Vec::new(), Vec::new());
    while !left.is_empty() {
        named.push(left.bytes()?);
    }
    while !fields.is_empty() {
        found.push(Stored::read(&mut fields)?);
    }
    // Bodies may be large: a few at first, more when they turn out small. The mean of all counts, since a page of small ones
    // says nothing of the next.
    let seen = (step.seen.0 + found.len() as u64, step.seen.1 + bytes.unsigned_abs());
    let fit = (PAGE_BYTES * seen.0.max(1) / seen.1.max(1)) as usize;
    let count = fit.min(step.count * 2).clamp(1, MAX_COUNT);
    let after = if step.named.is_empty() { cursor } else { step.after };
    let next = match named.is_empty() {
        true if after == "0" => None,
        true => Some(Step { cursor: after, named, after: String::new(), count, seen }),
        false => Some(Step { cursor: String::new(), named, after, count, seen }),
    };
    Ok(Page { now, found, next })
}

/// Reads the idempotency keys of a partition that still answer.
async fn idempotency_keys(
    store: &Store,
    partition: &Partition,
    mut each: impl FnMut(IdempotencyKey) -> Result<(), ExportError>,
) -> Result<(), ExportError> {
    let (mut cursor, mut seen) = (Some("0".to_owned()), HashSet::new());
    while let Some(from) = cursor {
        let scan = Command::new("HSCAN").arg((&partition.keys.idem, from, "COUNT", KEYS));
        let mut fields = Fields::of(store.lanes.command(scan).await?)?;
        cursor = fields.cursor()?;
        let mut pairs = fields.fields()?;
        while !pairs.is_empty() {
            let (key, entry) = (pairs.bytes()?, pairs.bytes()?);
            let line = IdempotencyKey::of(&partition.topic.name, partition.route, &key, &entry);
            if let Some(line) = line.filter(|_| seen.insert(key)) {
                each(line)?;
            }
        }
    }
    Ok(())
}

/// Reads all schedules, each with its topic.
async fn schedules(
    store: &Store,
    mut each: impl FnMut(&str, Schedule) -> Result<(), ExportError>,
) -> Result<(), ExportError> {
    let keys = &store.lanes.shared.keys;
    let keys = [&*keys.schedules, &keys.schedule_states, &keys.schedules_index];
    let mut from = "-".to_owned();
    loop {
        let list = Command::eval(&scripts::LIST_SCHEDULES, &keys);
        let list = list.arg((&from, NAMES, SCHEDULE_BYTES));
        let mut fields = Fields::of(store.lanes.command(list).await?)?;
        let (_now, more) = (fields.int()?, fields.int()? == 1);
        while !fields.is_empty() {
            let (name, state) = (fields.text()?, fields.text()?);
            let (definition, _missed) = (fields.text()?, fields.bytes()?);
            from = format!("({name}");
            let bad = || format!("the schedule {name} cannot be read: delete it or put it again");
            let schedule = Schedule::of(&name, &state, definition);
            let (topic, schedule) = schedule.ok_or_else(|| ExportError::Other(bad()))?;
            each(&topic, schedule)?;
        }
        if !more {
            return Ok(());
        }
    }
}
