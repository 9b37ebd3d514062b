//! lease: grants messages, for one consumer or for all who wait for a topic. Every lease goes the same way: as far as the topic's
//! limits allow ([`limits`]), from one partition after another ([`walk`]), by requests that share calls ([`op`]).

mod limits;
mod op;
mod walk;

pub use op::Lease;
pub(crate) use walk::Survey;

use crate::{
    Store,
    batch::Command,
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

/// For whom a lease asks.
#[derive(Clone, Copy, Debug)]
pub enum LeaseMode {
    /// For a consumer that has just come: it gets as much as there is. What takes many calls, since much has expired, ends at this
    /// instant with what there is by then.
    Now(Instant),
    /// For consumers that wait, oldest first: each gets what one call grants. Publishers wake this instance when there is something
    /// before `next_at`.
    Waiting,
}

/// What a lease got.
#[derive(Default)]
pub struct LeaseOutcome {
    /// The messages, none where nothing was ready.
    pub grants: Grants,
    /// When something next happens in the topic by itself; only for consumers that wait.
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

/// What each of several consumers got.
pub(crate) type Outcomes = Vec<Result<LeaseOutcome, Error>>;

/// Nothing for so many.
pub(crate) fn none(many: usize) -> Outcomes {
    (0..many).map(|_| Ok(LeaseOutcome::default())).collect()
}

impl Store {
    /// Grants what is ready, as much as these consumers ask for: one outcome for each. A topic that does not exist has nothing.
    ///
    /// Errors: `TopicIsPushed`, and where dueq itself asks `TopicNotPushed`, only of one that has just come; `RedisUnavailable`;
    /// `OutcomeUnknown` when messages may have been granted, which come back after their lease.
    pub async fn lease(
        &self,
        name: &TopicName,
        wants: &[LeaseOptions],
        mode: LeaseMode,
    ) -> Result<Vec<Result<LeaseOutcome, Error>>, Error> {
        let mut retry = self.stale_retry();
        while retry.next().await {
            let Some(topic) = self.registry.find(name).await? else { break };
            if let LeaseMode::Now(_) = mode
                && let Some(refusal) = wants.iter().find_map(|want| topic.refuses(want))
            {
                self.confirm(&topic, refusal).await?;
                continue;
            }
            // Boxed, since every long poll would have room for them as long as it waits.
            let mut outcomes = match topic.counts_first() {
                true => Box::pin(self.lease_limited(topic.clone(), wants, mode)).await?,
                false => Box::pin(self.lease_from_all(topic.clone(), wants, mode)).await?,
            };
            let has_some = |it: &LeaseOutcome| !it.grants.messages().is_empty();
            let now = matches!(mode, LeaseMode::Now(_));
            if (now && outcomes.iter().flatten().any(has_some)) || !self.is_other(&topic).await? {
                return Ok(outcomes);
            }
            // It was created again meanwhile, has got more partitions, or another limit: ask once more.
            if !now {
                outcomes.iter_mut().flatten().for_each(|outcome| outcome.more = true);
                return Ok(outcomes);
            }
        }
        Ok(none(wants.len()))
    }

    /// Has the topic another number of partitions by now, other consumers, or what is leased to be counted again?
    async fn is_other(&self, topic: &Topic) -> Result<bool, Error> {
        let other = |it: &Topic| {
            it.partitions.len() != topic.partitions.len()
                || it.settings.push.is_some() != topic.settings.push.is_some()
                || topic.counts_again(it)
        };
        Ok(self.registry.find(&topic.name).await?.is_some_and(|it| other(&it)))
    }

    /// Asks a partition for these wants, each with whether its consumer has messages from before. Those that are not for the
    /// topic, which may have become pushed, get nothing. Returns `None` where there is no such partition any more, or what is
    /// leased has to be counted again.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    async fn ask(
        &self,
        partition: &mut Partition,
        wants: &[(LeaseOptions, bool)],
        waits: bool,
    ) -> Result<Option<Outcomes>, Error> {
        let mut retry = self.stale_retry();
        while retry.next().await {
            let topic = &partition.topic;
            let (registry, wakes) = (Arc::downgrade(&self.registry), partition.wakes());
            // What several partitions have is remembered, so each is asked as if the consumer slept.
            let waits = waits || topic.is_split();
            let fits = |(options, _): &&(LeaseOptions, bool)| topic.refuses(options).is_none();
            let lease = |&(options, begun): &(LeaseOptions, bool)| {
                let registry = registry.clone();
                (partition.clone(), Lease { options, begun, waits, wakes, registry })
            };
            let answers = self.lanes.submit_many(wants.iter().filter(fits).map(lease)).await;
            if answers.iter().any(|answer| matches!(answer, Err(CallError::Stale))) {
                self.registry.refresh(partition).await?;
                let topic = self.registry.find(&partition.topic.name).await?;
                match topic.and_then(|topic| topic.partition(partition.route.partition)) {
                    Some(it) if !partition.topic.counts_again(&it.topic) => *partition = it,
                    _ => return Ok(None),
                }
                continue;
            }
            let mut answers = answers.into_iter();
            let mut outcomes = Vec::with_capacity(wants.len());
            for want in wants {
                outcomes.push(match answers.next().filter(|_| fits(&want)) {
                    Some(Ok(outcome)) => Ok(self.without_damaged(outcome).await),
                    Some(Err(error)) => Err(error.into()),
                    None => Ok(LeaseOutcome::default()),
                });
            }
            return Ok(Some(outcomes));
        }
        // It changes all the time.
        Err(CallError::Stale.into())
    }

    /// Buries what is damaged; there may be more behind it.
    async fn without_damaged(&self, mut outcome: LeaseOutcome) -> LeaseOutcome {
        let damaged = std::mem::take(&mut outcome.damaged);
        outcome.more |= !damaged.is_empty();
        self.bury(damaged).await;
        outcome
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

    /// Until when consumers sleep, as the partition has it, or `PAUSED`; 0 if another topic, or another configuration, is in
    /// force there: it may have other partitions.
    pub(crate) async fn mark(&self, partition: &Partition) -> Result<Millis, CallError> {
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
