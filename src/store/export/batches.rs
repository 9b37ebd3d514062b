//! Messages and idempotency keys on their way into Redis: some to a call, and some calls at once.

use super::{
    ExportError, line::IdempotencyKey, load::Loaded, load::find, message::Message, message::id_of,
};
use crate::{
    Store,
    backend::ENDS_VERSION,
    batch::Command,
    partition::{Partition, PartitionName},
    reply::Reply,
    scripts,
};
use bytes::Bytes;
use dueq_model::{Member, Millis, TopicName};
use futures_util::future::try_join_all;
use std::{collections::BTreeMap, sync::Arc};
use tokio::task::JoinSet;

/// Messages of a call at most, and about how many bytes.
const MESSAGES: usize = 64;
const BYTES: usize = 128 * 1024;
/// Calls under way at once.
const CALLS: usize = 8;
/// Idempotency keys that are stored at once.
const KEYS: usize = 128;

/// A message to store.
struct Loading {
    member: Member,
    body: Bytes,
    message: Box<Message>,
}

/// All that waits to be stored.
pub(super) struct Batches {
    store: Store,
    /// The messages of the next call, of this partition.
    partition: Option<PartitionName>,
    messages: Vec<Loading>,
    bytes: usize,
    calls: JoinSet<Result<(u64, u64, u64), ExportError>>,
    /// When each idempotency key ends, and its entry.
    keys: Vec<(Partition, Bytes, Millis, Vec<u8>)>,
    partitions: BTreeMap<PartitionName, Partition>,
    /// What came of the messages so far.
    pub loaded: Loaded,
}

impl Batches {
    pub(super) fn new(store: Store) -> Self {
        let (partition, messages, bytes, calls) = (None, Vec::new(), 0, JoinSet::new());
        let (keys, partitions, loaded) = (Vec::new(), BTreeMap::new(), Loaded::default());
        Self { store, partition, messages, bytes, calls, keys, partitions, loaded }
    }

    /// Adds a message of the topic, whose partition is mostly that of the message before.
    pub(super) async fn add_message(
        &mut self,
        topic: &TopicName,
        message: Box<Message>,
    ) -> Result<(), ExportError> {
        let (id, route) = message.id().map_err(ExportError::other)?;
        let partition = PartitionName { topic: topic.clone(), number: route.partition };
        let (member, body) = (id.member(), message.body().map_err(ExportError::other)?);
        let bytes = body.len() + message.events.len();
        let is_full = self.messages.len() == MESSAGES || self.bytes + bytes > BYTES;
        // A call that has a message twice would store both.
        let is_again = self.messages.iter().any(|other| other.member == member);
        if is_full || is_again || self.partition.as_ref() != Some(&partition) {
            self.send().await?;
            self.partition = Some(partition);
        }
        self.bytes += bytes;
        self.messages.push(Loading { member, body, message });
        Ok(())
    }

    /// Adds an idempotency key.
    pub(super) async fn add_key(
        &mut self,
        topic: &TopicName,
        key: &IdempotencyKey,
    ) -> Result<(), ExportError> {
        let (id, route) = id_of(&key.id).map_err(ExportError::other)?;
        let name = PartitionName { topic: topic.clone(), number: route.partition };
        let partition = match self.partitions.get(&name) {
            Some(partition) => partition.clone(),
            None => {
                let found = find(&self.store, topic).await?;
                let found = found.and_then(|topic| topic.partition(name.number));
                let gone = || ExportError::Other(format!("the topic {topic} is gone"));
                let partition = found.ok_or_else(gone)?;
                self.partitions.insert(name, partition.clone());
                partition
            }
        };
        let mut entry = format!("{},{},", key.until_ms, key.answer).into_bytes();
        entry.extend_from_slice(&id.member());
        let bytes = key.key.bytes().unwrap_or_default().into();
        self.keys.push((partition, bytes, key.until_ms, entry));
        if self.keys.len() == KEYS { self.store_keys().await } else { Ok(()) }
    }

    /// Stores all that waits.
    pub(super) async fn flush(&mut self) -> Result<(), ExportError> {
        self.send().await?;
        self.wait_for(0).await?;
        self.store_keys().await
    }

    /// Begins a call with the messages that wait.
    async fn send(&mut self) -> Result<(), ExportError> {
        let messages = Arc::new(std::mem::take(&mut self.messages));
        self.bytes = 0;
        if let (Some(partition), false) = (self.partition.take(), messages.is_empty()) {
            self.wait_for(CALLS - 1).await?;
            self.calls.spawn(load(self.store.clone(), partition, messages));
        }
        Ok(())
    }

    /// Waits until no more calls are under way than so many.
    async fn wait_for(&mut self, most: usize) -> Result<(), ExportError> {
        while self.calls.len() > most
            && let Some(done) = self.calls.join_next().await
        {
            let (sent, stored, taken) = done.map_err(ExportError::other)??;
            self.loaded.stored += stored;
            self.loaded.taken += taken;
            self.loaded.present += sent - stored;
        }
        Ok(())
    }

    /// Each has two entries. They are made in this order, and an entry that is there stays, so that both agree.
    async fn store_keys(&mut self) -> Result<(), ExportError> {
        let (mut ends, mut answers) = (Vec::new(), Vec::new());
        for (partition, key, until, answer) in std::mem::take(&mut self.keys) {
            let keys = &partition.keys;
            let end = Command::new("ZADD").arg((&keys.idem_due, "NX", until, &key[..]));
            ends.push(self.store.lanes.command(end));
            answers.push(Command::new("HSETNX").arg((&keys.idem, &key[..], answer)));
        }
        try_join_all(ends).await?;
        try_join_all(answers.into_iter().map(|answer| self.store.lanes.command(answer))).await?;
        Ok(())
    }
}

/// Stores messages of a partition. Returns how many were sent, how many were stored and how many gave up their key.
async fn load(
    store: Store,
    name: PartitionName,
    messages: Arc<Vec<Loading>>,
) -> Result<(u64, u64, u64), ExportError> {
    if messages.iter().any(|it| it.message.ends().any()) {
        store.adopt_version(ENDS_VERSION).await?;
    }
    let request = |partition: &Partition| {
        let mut load = Command::on(&scripts::LOAD_MESSAGES, partition);
        for Loading { member, body, message } in &*messages {
            let instant = |at: Option<Millis>| at.map(|at| at.to_string()).unwrap_or_default();
            let Message { at_ms, expires_ms, first_due_ms, untold_ms, .. } = &**message;
            load = load.arg((&member[..], message.place(), at_ms, &body[..]));
            load = load.arg((message.extra(), &message.events, instant(*expires_ms)));
            load = load.arg((instant(*first_due_ms), instant(*untold_ms)));
        }
        load.read(partition, |reply: &mut Reply<'_>| {
            Ok((reply.int()?.unsigned_abs(), reply.int()?.unsigned_abs()))
        })
    };
    let (_, (stored, taken)) = store.on(&name, request).await?;
    Ok((messages.len() as u64, stored, taken))
}
