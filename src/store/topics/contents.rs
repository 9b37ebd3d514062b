//! What a topic holds: count_topic in numbers, forecast_topic by when messages fall due.

use crate::{
    Store,
    batch::{Command, Request},
    partition::{Partition, PartitionName},
    registry::Topic,
    reply::{CallError, Reply},
    scripts,
};
use dueq_model::{Millis, State, TopicName, error::Error};
use std::sync::Arc;

/// Looks at a topic of which time brings more than one look carries out, at most.
pub(super) const MAX_LOOKS: usize = 128;
/// Buckets of one call.
const CALL_BUCKETS: u64 = 128;

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
    /// Waiting for others of their group.
    pub blocked: i64,
    /// How long the oldest ready message has been due, ms.
    pub oldest_ready_age_ms: Option<Millis>,
    /// When the next delayed message falls due.
    pub next_due_at: Option<Millis>,
    /// As many as `TOTALS` has names.
    pub totals: [i64; TOTALS.len()],
    /// Time has brought more than was carried out.
    pub more: bool,
}

impl TopicSnapshot {
    /// Messages in this state.
    pub fn count(&self, state: State) -> i64 {
        match state {
            State::Delayed => self.delayed,
            State::Ready => self.ready,
            State::Blocked => self.blocked,
            State::Leased => self.leased,
            State::Dead => self.dead,
            State::Acked => self.acked,
            State::Expired | State::Gone => 0,
        }
    }

    /// Both together, of different partitions of a topic.
    pub(crate) fn plus(mut self, other: Self) -> Self {
        self.paused &= other.paused;
        self.delayed += other.delayed;
        self.ready += other.ready;
        self.leased += other.leased;
        self.dead += other.dead;
        self.acked += other.acked;
        self.blocked += other.blocked;
        self.oldest_ready_age_ms = self.oldest_ready_age_ms.max(other.oldest_ready_age_ms);
        self.next_due_at = self.next_due_at.into_iter().chain(other.next_due_at).min();
        for (total, more) in self.totals.iter_mut().zip(other.totals) {
            *total += more;
        }
        self.more |= other.more;
        self
    }
}

impl Store {
    /// The topic of this name, and what it holds.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn topic(&self, name: &TopicName) -> Result<(Arc<Topic>, TopicSnapshot), Error> {
        let mut looks = 0;
        loop {
            let parts = self.on_each(name, count).await?;
            looks += 1;
            if looks == MAX_LOOKS || parts.iter().all(|(_, part)| !part.more) {
                for (partition, part) in &parts {
                    partition.sweep_by(self.now(), part.more.then(|| self.now()));
                }
                let topic = parts.first().map(|(partition, _)| partition.topic.clone());
                let sum = parts.into_iter().map(|(_, part)| part).reduce(TopicSnapshot::plus);
                return topic.zip(sum).ok_or(Error::Internal);
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
        let topic = self.registry.find(name).await?.ok_or(Error::TopicNotFound)?;
        if topic.is_split() {
            // The first call for a partition does this otherwise.
            self.sweep_all(name).await?;
        }
        let (mut from, mut sums) = (None, vec![0; buckets as usize]);
        let (mut topic, mut done) = (topic, 0);
        while done < topic.partitions.len() {
            for partition in topic.all().skip(done) {
                let name = partition.name();
                let counts = self.forecast(&name, bucket_ms, buckets, &mut from).await?;
                sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            }
            done = topic.partitions.len();
            // It may have got more partitions meanwhile.
            topic = self.registry.find(name).await?.unwrap_or(topic);
        }
        Ok((from.unwrap_or_default(), sums))
    }

    /// The same for a partition. `from`: where the first bucket begins, as the first call says.
    async fn forecast(
        &self,
        name: &PartitionName,
        bucket_ms: Millis,
        buckets: u64,
        from: &mut Option<Millis>,
    ) -> Result<Vec<i64>, Error> {
        let mut counts = Vec::new();
        while (counts.len() as u64) < buckets {
            let done = counts.len() as u64;
            let begin = from.map(|from| (from + bucket_ms * done as Millis).to_string());
            let begin = begin.unwrap_or_default();
            let forecast = |partition: &Partition| {
                let forecast = Command::on(&scripts::FORECAST_TOPIC, partition);
                let buckets = CALL_BUCKETS.min(buckets - done);
                forecast.arg((&begin, bucket_ms, buckets)).read(partition, read_forecast)
            };
            let (_, (begun, some)) = self.on(name, forecast).await?;
            from.get_or_insert(begun);
            counts.extend(some);
        }
        Ok(counts)
    }
}

pub(crate) fn count(partition: &Partition) -> Request<TopicSnapshot> {
    Command::on(&scripts::COUNT_TOPIC, partition).arg(&TOTALS).read(partition, read_totals)
}

pub(crate) fn read_totals(reply: &mut Reply<'_>) -> Result<TopicSnapshot, CallError> {
    let now = reply.now()?;
    let (more, paused) = (reply.int()? == 1, reply.int()? == 1);
    let (delayed, ready, leased) = (reply.int()?, reply.int()?, reply.int()?);
    let (dead, acked, blocked) = (reply.int()?, reply.int()?, reply.int()?);
    let (oldest, next) = (reply.int()?, reply.int()?);
    let mut totals = [0; TOTALS.len()];
    for total in &mut totals {
        *total = reply.int()?;
    }
    reply.partition.saw_totals(&totals);
    Ok(TopicSnapshot {
        paused,
        delayed,
        ready,
        leased,
        dead,
        acked,
        blocked,
        oldest_ready_age_ms: (oldest > 0).then(|| now.saturating_sub(oldest).max(0)),
        next_due_at: (next > 0).then_some(next),
        totals,
        more,
    })
}

/// Where the first bucket begins, and the counts.
pub(crate) fn read_forecast(reply: &mut Reply<'_>) -> Result<(Millis, Vec<i64>), CallError> {
    let from = reply.int()?;
    let mut counts = Vec::with_capacity(reply.len());
    while !reply.is_empty() {
        counts.push(reply.int()?);
    }
    Ok((from, counts))
}
