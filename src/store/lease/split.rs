//! lease, in a topic of several partitions. Each partition is asked only if it may have something: as long as no wake-up
//! has come, what the last call found holds (`Outlook`). The one with the oldest message that is known comes first.
//! Before a consumer is told that there is nothing, the marks of the others are read from Redis: a mark of less than was
//! left there says that something has come, of which the wake-up may still be under way.

use super::{FOREVER, LeaseOutcome};
use crate::{
    error::Error,
    model::{Millis, PartitionNumber},
    store::{Store, grants::LeaseOptions, partition::Partition, registry::Topic},
};
use futures_util::future::try_join_all;
use std::{collections::BTreeSet, sync::Arc, time::Instant};

/// Partitions that were asked already.
type Asked = BTreeSet<PartitionNumber>;

impl Store {
    /// As [`Store::lease`].
    pub(super) async fn lease_split(
        &self,
        topic: Arc<Topic>,
        options: LeaseOptions,
        until: Instant,
    ) -> Result<LeaseOutcome, Error> {
        let (mut topic, mut outcome, mut left) = (topic, LeaseOutcome::default(), options);
        let (mut asked, mut verified) = (Asked::new(), false);
        loop {
            let begun = !outcome.grants.messages().is_empty();
            let Some(partition) = oldest(&topic, &asked, self.now()) else {
                if begun || verified || !self.has_news_split(&topic).await? {
                    return Ok(outcome);
                }
                verified = true;
                continue;
            };
            asked.insert(partition.route.partition);
            let got = match self.lease_from(partition, left, begun, true, until).await {
                Ok(got) => got,
                Err(_) if begun => return Ok(outcome),
                Err(error) => return Err(error),
            };
            let messages = got.grants.messages();
            left.max_messages = left.max_messages.saturating_sub(messages.len() as u64);
            let bytes = messages.iter().map(|message| message.payload_bytes).sum();
            left.max_bytes = left.max_bytes.saturating_sub(bytes);
            outcome.grants.append(got.grants);
            if left.max_messages == 0 || left.max_bytes == 0 || Instant::now() >= until {
                return Ok(outcome);
            }
            match self.registry.find(&topic.name).await {
                Ok(Some(same)) if same.is_split() => topic = same,
                _ => return Ok(outcome),
            }
        }
    }

    /// As [`Store::lease_waiting`].
    pub(super) async fn lease_waiting_split(
        &self,
        topic: &Arc<Topic>,
        all: &[LeaseOptions],
    ) -> Result<Vec<Result<LeaseOutcome, Error>>, Error> {
        let mut topic = topic.clone();
        let mut outcomes: Vec<_> = all.iter().map(|_| Ok(LeaseOutcome::default())).collect();
        if all.iter().all(|options| topic.refuses(options).is_some()) {
            return Ok(outcomes);
        }
        let (mut asked, mut more) = (Asked::new(), false);
        loop {
            let unmet = |outcome: &Result<LeaseOutcome, Error>| {
                outcome.as_ref().is_ok_and(|outcome| outcome.grants.messages().is_empty())
            };
            let left: Vec<_> = (0..all.len()).filter(|at| unmet(&outcomes[*at])).collect();
            if left.is_empty() {
                break;
            }
            let Some(partition) = oldest(&topic, &asked, self.now()) else { break };
            asked.insert(partition.route.partition);
            let options: Vec<_> = left.iter().map(|at| all[*at]).collect();
            match self.lease_waiting_from(partition, &options).await {
                Ok(answers) => {
                    for (at, answer) in left.iter().zip(answers) {
                        more |= answer.as_ref().is_ok_and(|got| got.more);
                        outcomes[*at] = answer;
                    }
                }
                Err(error) if left.len() == all.len() => return Err(error),
                Err(error) => left.iter().for_each(|at| outcomes[*at] = Err(error.clone())),
            }
            match self.registry.find(&topic.name).await {
                Ok(Some(same)) if same.is_split() => topic = same,
                _ => break,
            }
        }
        let next = topic.all().map(|it| it.outlook().head).min().filter(|head| *head < FOREVER);
        for outcome in outcomes.iter_mut().flatten() {
            (outcome.next_at, outcome.more) = (next, more);
        }
        Ok(outcomes)
    }

    /// Did something happen in a partition that consumers who sleep should have been woken for? It is asked next, then.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub(super) async fn has_news_split(&self, topic: &Arc<Topic>) -> Result<bool, Error> {
        let now = self.now();
        let news = try_join_all(topic.all().map(async |partition| {
            let known = partition.outlook();
            if known.head <= now {
                return Ok(true);
            }
            let news = self.mark(&partition).await? < known.head;
            if news {
                partition.wake();
            }
            Ok::<_, Error>(news)
        }));
        Ok(news.await?.contains(&true))
    }
}

/// The partition, not asked yet, with the oldest message that is known, if any may have one.
fn oldest(topic: &Arc<Topic>, asked: &Asked, now: Millis) -> Option<Partition> {
    let head = |partition: &Partition| partition.outlook().head;
    let may = |it: &Partition| head(it) <= now && !asked.contains(&it.route.partition);
    topic.all().filter(may).min_by_key(head)
}
