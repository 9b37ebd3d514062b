//! lease: grants messages, for one consumer or for all who wait for a topic.

mod limits;
mod op;
mod split;

pub use op::Lease;
pub(super) use split::Survey;

use super::{
    Store,
    batch::{Command, Request},
    grants::{Damaged, Grants, LeaseOptions},
    partition::Partition,
    registry::Topic,
    reply::{CallError, Fields, int, word},
};
use deadpool_redis::redis::Value;
use dueq_model::{Millis, TopicName, error::Error};
use std::{sync::Arc, time::Instant};

/// What `lease.lua` writes when consumers sleep for whatever comes.
const FOREVER: Millis = 1 << 53;
/// The same where the topic is paused.
const PAUSED: Millis = -1;

/// What a lease got.
#[derive(Default)]
pub struct LeaseOutcome {
    /// The messages, none where nothing was ready.
    pub grants: Grants,
    /// When something next happens in the topic by itself; only told to a caller who waits.
    pub next_at: Option<Millis>,
    /// Less was granted than asked for only because the call reached its bounds: ask again at once.
    pub more: bool,
    /// Not all partitions answered, so there may be more.
    pub failed: Option<Error>,
    /// The call removed what had expired, which may go on for long.
    cleared: bool,
    /// Leases of messages whose bodies are damaged, which nobody gets.
    damaged: Vec<Damaged>,
}

impl Store {
    /// Grants what is ready, as much as asked for. With `waits`, publishers will wake this instance when there is
    /// something new before `next_at`. A topic that does not exist has nothing. What takes many calls, since much has
    /// expired, ends at `until` with what there is by then.
    ///
    /// Errors: `TopicIsPushed`, and where dueq itself asks `TopicNotPushed`; `RedisUnavailable`; `OutcomeUnknown` when
    /// messages may have been granted, which come back after their lease.
    pub async fn lease(
        &self,
        name: &TopicName,
        options: LeaseOptions,
        waits: bool,
        until: Instant,
    ) -> Result<LeaseOutcome, Error> {
        let mut retry = self.stale_retry();
        while retry.next().await {
            let Some(topic) = self.registry.find(name).await? else { break };
            let outcome = match topic.counts_first() {
                // Boxed, since every long poll would have room for them as long as it waits: 16 KB.
                true => Box::pin(self.lease_limited(topic.clone(), options, waits, until)).await?,
                false if topic.is_split() => {
                    Box::pin(self.lease_split(topic.clone(), options, until)).await?
                }
                false => {
                    let first = Partition::first(topic.clone());
                    self.lease_from(first, options, false, waits, until).await?
                }
            };
            if !outcome.grants.messages().is_empty() || !self.is_other(&topic).await? {
                return Ok(outcome);
            }
            // It was made anew meanwhile, has got more partitions, or another limit.
        }
        Ok(LeaseOutcome::default())
    }

    /// Has the topic another number of partitions by now, or what is leased to be counted again?
    async fn is_other(&self, topic: &Topic) -> Result<bool, Error> {
        let other =
            |it: &Topic| it.partitions.len() != topic.partitions.len() || topic.counts_again(it);
        Ok(self.registry.find(&topic.name).await?.is_some_and(|it| other(&it)))
    }

    /// The same from one partition. `begun`: the consumer has messages from another.
    pub(super) async fn lease_from(
        &self,
        partition: Partition,
        options: LeaseOptions,
        begun_elsewhere: bool,
        waits: bool,
        until: Instant,
    ) -> Result<LeaseOutcome, Error> {
        let mut outcome = LeaseOutcome::default();
        let mut left = options;
        let mut retry = self.stale_retry();
        let mut partition = partition;
        loop {
            let topic = &partition.topic;
            // What was granted before a refusal or a failure is the consumer's all the same.
            let begun = begun_elsewhere || !outcome.grants.messages().is_empty();
            if let Some(refusal) = topic.refuses(&options) {
                if begun {
                    return Ok(outcome);
                }
                self.confirm(topic, refusal).await?;
                match self.again(&partition).await? {
                    Some(again) => partition = again,
                    None => return Ok(outcome),
                }
                continue;
            }
            let registry = Arc::downgrade(&self.registry);
            let wakes = partition.wakes();
            // What several partitions have is remembered, so each is asked as if the consumer slept.
            let waits = waits || topic.is_split();
            let lease = Lease { options: left, begun, waits, wakes, registry };
            let got = match self.lanes.submit(Request::new(&partition, lease, Instant::now())).await
            {
                Ok(got) => got,
                Err(CallError::Stale) if retry.next().await => {
                    self.registry.refresh(&partition).await?;
                    match self.again(&partition).await? {
                        Some(it) if !partition.topic.counts_again(&it.topic) => partition = it,
                        _ => return Ok(outcome),
                    }
                    continue;
                }
                Err(_) if begun => return Ok(outcome),
                Err(error) => return Err(error.into()),
            };
            let got = self.without_damaged(got).await;
            let messages = got.grants.messages().len() as u64;
            let bytes: u64 = got.grants.messages().iter().map(|m| m.payload_bytes).sum();
            outcome.grants.append(got.grants);
            outcome.next_at = got.next_at;
            left.max_messages -= messages;
            left.max_bytes = left.max_bytes.saturating_sub(bytes);
            outcome.more = got.more && left.max_messages > 0;
            // A call is bounded, so a request may take several. One that has nothing yet was crowded out by those before
            // it in the same call; one that has something, and got no more, leaves the rest to others.
            let met = left.max_messages == 0 || left.max_bytes == 0;
            let late = (messages == 0 || got.cleared) && Instant::now() >= until;
            if !got.more || met || (begun && messages == 0) || late {
                return Ok(outcome);
            }
        }
    }

    /// Buries what is damaged; there may be more behind it.
    async fn without_damaged(&self, mut outcome: LeaseOutcome) -> LeaseOutcome {
        let damaged = std::mem::take(&mut outcome.damaged);
        outcome.more |= !damaged.is_empty();
        self.bury(damaged).await;
        outcome
    }

    /// The same partition as it is known now, if it is there still.
    async fn again(&self, partition: &Partition) -> Result<Option<Partition>, CallError> {
        let topic = self.registry.find(&partition.topic.name).await?;
        Ok(topic.and_then(|topic| topic.partition(partition.route.partition)))
    }

    /// Asks for consumers who wait, oldest first: one outcome for each of `all`. Each gets what one call grants.
    ///
    /// Errors: as for [`Store::lease`]; what some were granted is delivered even where others' answers were lost.
    pub async fn lease_waiting(
        &self,
        name: &TopicName,
        all: &[LeaseOptions],
    ) -> Result<Vec<Result<LeaseOutcome, Error>>, Error> {
        match self.registry.find(name).await? {
            Some(topic) => {
                let mut outcomes = match topic.counts_first() {
                    true => self.lease_waiting_limited(topic.clone(), all).await?,
                    false if topic.is_split() => self.lease_waiting_split(&topic, all).await?,
                    false => self.lease_waiting_from(Partition::first(topic.clone()), all).await?,
                };
                if self.is_other(&topic).await? {
                    // It was made anew meanwhile, has got more partitions, or another limit: ask once more.
                    outcomes.iter_mut().flatten().for_each(|outcome| outcome.more = true);
                }
                Ok(outcomes)
            }
            None => Ok(all.iter().map(|_| Ok(LeaseOutcome::default())).collect()),
        }
    }

    /// The same from one partition.
    pub(super) async fn lease_waiting_from(
        &self,
        partition: Partition,
        all: &[LeaseOptions],
    ) -> Result<Vec<Result<LeaseOutcome, Error>>, Error> {
        let mut retry = self.stale_retry();
        let mut partition = partition;
        while retry.next().await {
            let topic = &partition.topic;
            let wakes = partition.wakes();
            let lease = |options: &LeaseOptions| {
                let (options, registry) = (*options, Arc::downgrade(&self.registry));
                (partition.clone(), Lease { options, begun: false, waits: true, wakes, registry })
            };
            // The topic may have become pushed, or no longer be so, while they waited: then there is nothing for them.
            let fits = |options: &&LeaseOptions| topic.refuses(options).is_none();
            let fitting = all.iter().filter(fits).map(lease);
            let answers = self.lanes.submit_many(fitting).await;
            if answers.iter().any(|answer| matches!(answer, Err(CallError::Stale))) {
                self.registry.refresh(&partition).await?;
                match self.again(&partition).await? {
                    Some(it) if !partition.topic.counts_again(&it.topic) => partition = it,
                    _ => return Ok(all.iter().map(|_| Ok(LeaseOutcome::default())).collect()),
                }
                continue;
            }
            let mut answers = answers.into_iter();
            let mut outcomes = Vec::with_capacity(all.len());
            for options in all {
                outcomes.push(match answers.next().filter(|_| fits(&options)) {
                    Some(Ok(outcome)) => Ok(self.without_damaged(outcome).await),
                    Some(Err(error)) => Err(error.into()),
                    None => Ok(LeaseOutcome::default()),
                });
            }
            return Ok(outcomes);
        }
        // It changes all the time.
        Err(CallError::Stale.into())
    }

    /// Did something happen in the topic that consumers who sleep until `next` should have been woken for?
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn has_news(&self, name: &TopicName, next: Option<Millis>) -> Result<bool, Error> {
        let Some(topic) = self.registry.find(name).await? else { return Ok(false) };
        if topic.is_split() {
            return self.has_news_split(&topic).await;
        }
        let mark = self.mark(&Partition::first(topic)).await?;
        Ok(mark < next.unwrap_or(Millis::MAX).min(FOREVER))
    }
}

impl Store {
    /// Until when consumers sleep, as the partition has it, or `PAUSED`; 0 if another topic, or another configuration, is in
    /// force there: it may have other partitions.
    pub(super) async fn mark(&self, partition: &Partition) -> Result<Millis, CallError> {
        let mark = Command::new("HMGET").arg((&partition.keys.meta, "topic", "sleep"));
        let mut found = Fields::of(self.lanes.command(mark).await?)?;
        let (owner, mark) = (found.value()?, found.value()?);
        match mark {
            _ if word(&owner) != Some(&partition.topic.version_tag) => Ok(0),
            // The topic came into being after they were asked for.
            Value::Nil => Ok(0),
            mark => int(mark),
        }
    }
}
