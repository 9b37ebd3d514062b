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
        // A partition whose server is away keeps nobody from the others.
        let (mut asked, mut verified, mut failed) = (Asked::new(), false, None);
        loop {
            let begun = !outcome.grants.messages().is_empty();
            let next = self.oldest(&topic, &asked);
            // Who has something does not wait for a server that may be away.
            let next = next.filter(|it| !begun || !it.outlook().failed);
            let Some(partition) = next else {
                match failed {
                    // They may have something, which cannot be known. Who waits is served by the others meanwhile.
                    Some(Error::RedisUnavailable) if !begun && self.lanes.serve_others() => {
                        outcome.unasked = true;
                        return Ok(outcome);
                    }
                    Some(error) if !begun => return Err(error),
                    _ if begun || verified || !self.has_news_split(&topic).await? => {
                        return Ok(outcome);
                    }
                    _ => verified = true,
                }
                continue;
            };
            asked.insert(partition.route.partition);
            let got = match self.lease_from(partition.clone(), left, begun, true, until).await {
                Ok(got) => got,
                Err(error) => {
                    partition.put_off();
                    if Instant::now() >= until {
                        return if begun { Ok(outcome) } else { Err(error) };
                    }
                    failed = Some(error);
                    continue;
                }
            };
            let messages = got.grants.messages();
            left.max_messages = left.max_messages.saturating_sub(messages.len() as u64);
            let bytes = messages.iter().map(|message| message.payload_bytes).sum();
            left.max_bytes = left.max_bytes.saturating_sub(bytes);
            outcome.grants.append(got.grants);
            let met = left.max_messages == 0 || left.max_bytes == 0;
            // Nobody is told that there is nothing before all were asked, however long that takes.
            let begun = !outcome.grants.messages().is_empty();
            if met || begun && Instant::now() >= until {
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
        let mut outcomes: Vec<_> = all.iter().map(|_| LeaseOutcome::default()).collect();
        if all.iter().all(|options| topic.refuses(options).is_some()) {
            return Ok(outcomes.into_iter().map(Ok).collect());
        }
        let (mut asked, mut more, mut failed) = (Asked::new(), false, None);
        loop {
            let unmet = |outcome: &LeaseOutcome| outcome.grants.messages().is_empty();
            let left: Vec<_> = (0..all.len()).filter(|at| unmet(&outcomes[*at])).collect();
            if left.is_empty() {
                break;
            }
            let Some(partition) = self.oldest(&topic, &asked) else { break };
            asked.insert(partition.route.partition);
            let options: Vec<_> = left.iter().map(|at| all[*at]).collect();
            let answers = match self.lease_waiting_from(partition.clone(), &options).await {
                Ok(answers) => answers,
                Err(error) => vec![Err(error)],
            };
            for (at, answer) in left.iter().zip(answers) {
                match answer {
                    Ok(got) => {
                        more |= got.more;
                        outcomes[*at] = got;
                    }
                    // A partition whose server is away keeps nobody from the others.
                    Err(error) => {
                        partition.put_off();
                        failed = Some(error);
                    }
                }
            }
            match self.registry.find(&topic.name).await {
                Ok(Some(same)) if same.is_split() => topic = same,
                _ => break,
            }
        }
        // By the clock of the first partition's server, which the caller sleeps by.
        let first = self.now_at(&Partition::first(topic.clone()));
        let heads = topic.all().map(|it| (it.outlook().head(), first - self.now_at(&it)));
        let heads = heads.filter(|(head, _)| *head < FOREVER);
        let next = heads.map(|(head, ahead)| head.saturating_add(ahead).max(1)).min();
        let outcome = |mut outcome: LeaseOutcome| match failed.clone() {
            Some(error) if outcome.grants.messages().is_empty() => Err(error),
            _ => {
                (outcome.next_at, outcome.more) = (next, more);
                Ok(outcome)
            }
        };
        Ok(outcomes.into_iter().map(outcome).collect())
    }

    /// The partition, not asked yet, with the oldest message that is known, if any may have one.
    fn oldest(&self, topic: &Arc<Topic>, asked: &Asked) -> Option<Partition> {
        // By the clock of its server.
        let age = |it: &Partition| it.outlook().age(self.now_at(it));
        let not_asked = |it: &Partition| !asked.contains(&it.route.partition);
        let ages = topic.all().filter(not_asked).map(|it| (age(&it), it));
        ages.filter(|(age, _)| *age >= 0).max_by_key(|(age, _)| *age).map(|(_, it)| it)
    }

    /// The time at a partition's server.
    fn now_at(&self, partition: &Partition) -> Millis {
        self.lanes.at_slot(partition.slot, |backend| backend.clock.now())
    }

    /// Did something happen in a partition that consumers who sleep should have been woken for? It is asked next, then.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub(super) async fn has_news_split(&self, topic: &Arc<Topic>) -> Result<bool, Error> {
        let news = try_join_all(topic.all().map(async |partition| {
            let known = partition.outlook();
            if known.head() <= self.now_at(&partition) {
                return Ok(true);
            }
            let news = self.mark(&partition).await? < known.head();
            if news {
                partition.wake();
            }
            Ok::<_, Error>(news)
        }));
        Ok(news.await?.contains(&true))
    }
}
