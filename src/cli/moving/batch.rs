//! Messages on their way into Redis: some to a call, and some calls at once.

use super::{
    line::IdempotencyKey,
    message::Message,
    place::{Target, find, partition_of},
    source::Failure,
};
use bytes::Bytes;
use dueq_model::{Member, MessageId, Route, TopicName};
use dueq_store::{Partition, PartitionName, Store, batch::Command, reply::Reply, scripts};
use futures_util::future::try_join_all;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};
use tokio::task::JoinSet;

/// Messages of a call at most, and about how many bytes.
const MESSAGES: usize = 64;
const BYTES: usize = 128 * 1024;
/// Calls under way at once.
const CALLS: usize = 8;
/// Idempotency keys that are stored at once.
const KEYS: usize = 128;

/// A message to store, taken apart.
struct Loaded {
    member: Member,
    body: Bytes,
    message: Box<Message>,
}

/// What waits to be stored.
pub struct Batches {
    store: Store,
    partition: Option<PartitionName>,
    messages: Vec<Loaded>,
    bytes: usize,
    calls: JoinSet<Result<(u64, u64, u64), Failure>>,
    keys: Vec<(PartitionName, Vec<u8>, i64, Vec<u8>)>,
    numbers: HashMap<TopicName, Route>,
    /// Messages that were stored.
    pub stored: u64,
    /// Messages that were there before.
    pub present: u64,
    /// Messages that gave up their key to another.
    pub taken: u64,
}

impl Batches {
    /// Nothing waits yet.
    pub fn new(store: Store) -> Self {
        let (messages, calls, keys) = (Vec::new(), JoinSet::new(), Vec::new());
        let (numbers, partition) = (HashMap::new(), None);
        let (bytes, stored, present, taken) = (0, 0, 0, 0);
        Self { store, partition, messages, bytes, calls, keys, numbers, stored, present, taken }
    }

    /// Adds a message, whose partition is mostly that of the message before.
    pub async fn add_message(
        &mut self,
        target: &Target,
        message: Box<Message>,
    ) -> Result<(), Failure> {
        let wrong = |reason: &str| Failure::Other(format!("message {}: {reason}", message.id));
        let (id, route) = message.id().map_err(wrong)?;
        let partition = partition_of(target, route);
        let body = message.body().map_err(wrong)?;
        let loaded = Loaded { member: id.member(), body, message };
        let bytes = loaded.body.len() + loaded.message.events.len();
        let is_full = self.messages.len() == MESSAGES || self.bytes + bytes > BYTES;
        // A call that has a message twice would store both.
        let is_again = self.messages.iter().any(|other| other.member == loaded.member);
        if is_full || is_again || self.partition.as_ref() != Some(&partition) {
            self.send().await?;
            self.partition = Some(partition);
        }
        self.bytes += bytes;
        self.messages.push(loaded);
        Ok(())
    }

    /// Adds an idempotency key.
    pub async fn add_key(&mut self, target: &Target, key: &IdempotencyKey) -> Result<(), Failure> {
        let wrong = || Failure::Other(format!("an idempotency key of {} is wrong", key.id));
        let id = MessageId::parse(&key.id).map_err(|_| wrong())?;
        let route = id.route().ok_or_else(wrong)?;
        let bytes = key.key.bytes().ok_or_else(wrong)?;
        let mut answer = format!("{},{},", key.until_ms, key.answer).into_bytes();
        answer.extend_from_slice(&id.member());
        self.keys.push((partition_of(target, route), bytes, key.until_ms, answer));
        if self.keys.len() == KEYS { self.store_keys().await } else { Ok(()) }
    }

    /// The id that a message of the dump has here: only the topic's number is another.
    pub async fn id_here(
        &mut self,
        target: &Target,
        message: &Message,
    ) -> Result<MessageId, Failure> {
        let wrong = |reason: &str| Failure::Other(format!("message {}: {reason}", message.id));
        let (id, route) = message.id().map_err(wrong)?;
        let first = match self.numbers.get(&target.name) {
            Some(route) => *route,
            None => {
                let topic = find(&self.store, &target.name).await?;
                let topic = topic.ok_or_else(|| wrong("its topic is gone"))?;
                let route = Partition::first(topic).route;
                self.numbers.insert(target.name.clone(), route);
                route
            }
        };
        Ok(MessageId::from_member(&id.member(), Route { topic: first.topic, ..route }))
    }

    /// Stores all that waits.
    pub async fn flush(&mut self) -> Result<(), Failure> {
        self.send().await?;
        self.wait_for(0).await?;
        self.store_keys().await
    }

    /// Begins a call with the messages that wait.
    async fn send(&mut self) -> Result<(), Failure> {
        let messages = Arc::new(std::mem::take(&mut self.messages));
        self.bytes = 0;
        let (Some(partition), false) = (self.partition.take(), messages.is_empty()) else {
            return Ok(());
        };
        self.wait_for(CALLS - 1).await?;
        self.calls.spawn(load(self.store.clone(), partition, messages));
        Ok(())
    }

    /// Waits until no more calls are under way than so many.
    async fn wait_for(&mut self, most: usize) -> Result<(), Failure> {
        while self.calls.len() > most {
            let Some(done) = self.calls.join_next().await else { break };
            let lost = |error| Failure::Other(format!("a call was lost: {error}"));
            let (sent, stored, taken) = done.map_err(lost)??;
            (self.stored, self.taken) = (self.stored + stored, self.taken + taken);
            self.present += sent - stored;
        }
        Ok(())
    }

    /// Each has two entries. They are made in this order, and an entry that is there stays, so that both agree.
    async fn store_keys(&mut self) -> Result<(), Failure> {
        let mut partitions: BTreeMap<PartitionName, Partition> = BTreeMap::new();
        let (mut ends, mut answers) = (Vec::new(), Vec::new());
        for (name, key, until, answer) in std::mem::take(&mut self.keys) {
            if !partitions.contains_key(&name) {
                let topic = find(&self.store, &name.topic).await?;
                let partition = topic.and_then(|topic| topic.partition(name.number));
                let gone = || Failure::Other(format!("the topic {} is gone", name.topic));
                partitions.insert(name.clone(), partition.ok_or_else(gone)?);
            }
            let keys = &partitions[&name].keys;
            let end = Command::new("ZADD").arg((&keys.idem_due, "NX", until, &key));
            ends.push(self.store.lanes.command(end));
            answers.push(Command::new("HSETNX").arg((&keys.idem, key, answer)));
        }
        try_join_all(ends).await?;
        try_join_all(answers.into_iter().map(|answer| self.store.lanes.command(answer))).await?;
        Ok(())
    }
}

/// Stores messages of a partition; returns how many were sent, how many were stored and how many gave up their key.
async fn load(
    store: Store,
    name: PartitionName,
    messages: Arc<Vec<Loaded>>,
) -> Result<(u64, u64, u64), Failure> {
    let request = |partition: &Partition| {
        let mut load = Command::on(&scripts::LOAD_MESSAGES, partition);
        for Loaded { member, body, message } in &*messages {
            let instant = |at: Option<i64>| at.map(|at| at.to_string()).unwrap_or_default();
            let Message { at_ms, expires_ms, first_due_ms, untold_ms, events, .. } = &**message;
            load = load.arg((&member[..], message.place(), at_ms, &body[..], message.extra()));
            load = load.arg((events, instant(*expires_ms), instant(*first_due_ms)));
            load = load.arg(instant(*untold_ms));
        }
        load.read(partition, |reply: &mut Reply<'_>| {
            Ok((reply.int()?.unsigned_abs(), reply.int()?.unsigned_abs()))
        })
    };
    let (_, (stored, taken)) = store.on(&name, request).await?;
    Ok((messages.len() as u64, stored, taken))
}
