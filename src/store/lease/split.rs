//! lease, in a topic of several partitions. Each partition is asked only if it may have something: as long as no wake-up
//! has come, what the last call found holds (`Outlook`). The one with the oldest message that is known comes first; where
//! nothing is known of many, all of them are looked at first, at once.
//! Before a consumer is told that there is nothing, the marks of the others are read from Redis: a mark of less than was
//! left there says that something has come, of which the wake-up may still be under way.

use super::{FOREVER, LeaseOutcome, PAUSED};
use crate::{
    Store,
    grants::LeaseOptions,
    partition::{Partition, PartitionState},
    registry::Topic,
};
use dueq_model::{Millis, PartitionNumber, error::Error};
use futures_util::future::{join_all, try_join_all};
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::time::{timeout, timeout_at};

/// So many partitions of which nothing is known are asked one after the other.
const FEW: usize = 3;
/// How long a server that was away may take to answer.
const DOWN_TIMEOUT: Duration = Duration::from_millis(50);

/// Partitions that were asked already.
type Asked = BTreeSet<PartitionNumber>;

/// The looks at partitions of which nothing is known, of one topic: one after another, since what one finds is what the
/// next would ask.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// How many there were.
    count: AtomicU64,
    last: tokio::sync::Mutex<Surveyed>,
}

/// Partitions that need not be asked any more, since they did not answer in time, and why.
type Surveyed = (Asked, Option<Error>);

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
        let (mut asked, mut failed) = self.survey(&topic, options, until).await;
        self.skip_uncounted(&topic, &mut asked, &mut failed);
        let (mut verified, mut silent) = (false, asked.clone());
        let deadline = Instant::now() + self.lanes.timeout;
        let mut insists = false;
        loop {
            let begun = !outcome.grants.messages().is_empty();
            let next = self.oldest(&topic, &asked);
            // Who has something does not wait for a server that may be away.
            let next = next.filter(|it| !begun || !it.outlook().failed);
            let Some(partition) = next else {
                let slow = |it: Partition| {
                    silent.contains(&it.route.partition) && !self.lanes.is_away(&topic, it.slot)
                };
                if !begun && !insists && topic.all().any(slow) {
                    // The others have nothing, so there is time for those that are slow.
                    insists = true;
                    asked.retain(|number| !silent.remove(number));
                    failed = None;
                    continue;
                }
                match failed {
                    Some(error) if !begun && silent.len() == topic.partitions.len() => {
                        return Err(error);
                    }
                    // It may have something, which cannot be known.
                    Some(error) if !begun => {
                        outcome.failed = Some(error);
                        return Ok(outcome);
                    }
                    _ if begun || verified || !self.has_news_split(&topic).await? => {
                        return Ok(outcome);
                    }
                    _ => verified = true,
                }
                continue;
            };
            asked.insert(partition.route.partition);
            let left_for_it = deadline.saturating_duration_since(Instant::now());
            let patience = if insists { left_for_it } else { self.patience(&partition) };
            let lease = self.lease_from(partition.clone(), left, begun, true, until);
            let answer = self.answer_within(&partition, patience, lease).await;
            // What may have been granted there counts where only so many may be leased: others may not be asked for as much.
            let unsure = matches!(answer, None | Some(Err(Error::OutcomeUnknown)));
            if unsure && topic.max_leased().is_some() {
                partition.put_off();
                outcome.failed = Some(Error::OutcomeUnknown);
                return Ok(outcome);
            }
            let got = match answer.unwrap_or(Err(Error::RedisUnavailable)) {
                Ok(got) => got,
                Err(error @ (Error::RedisUnavailable | Error::OutcomeUnknown)) => {
                    silent.insert(partition.route.partition);
                    partition.put_off();
                    if begun && Instant::now() >= until {
                        return Ok(outcome);
                    }
                    failed = Some(error);
                    continue;
                }
                // What one partition refuses, all do.
                Err(error) => return Err(error),
            };
            let messages = got.grants.messages();
            left.max_messages = left.max_messages.saturating_sub(messages.len() as u64);
            let bytes = messages.iter().map(|message| message.payload_bytes).sum();
            left.max_bytes = left.max_bytes.saturating_sub(bytes);
            outcome.grants.append(got.grants);
            if left.max_messages == 0 || left.max_bytes == 0 {
                return Ok(outcome);
            }
            match self.registry.find(&topic.name).await {
                Ok(Some(same)) if topic.counts_again(&same) => return Ok(outcome),
                Ok(Some(same)) if same.is_split() => {
                    // One that was made anew has not been asked.
                    if same.number != topic.number {
                        (asked, verified) = (Asked::new(), false);
                    }
                    topic = same;
                }
                Ok(Some(same)) if outcome.grants.messages().is_empty() => {
                    let first = Partition::first(same);
                    return self.lease_from(first, left, false, true, until).await;
                }
                _ => return Ok(outcome),
            }
            let some = !outcome.grants.messages().is_empty();
            // What is left there does not fit.
            let left_there = |it: Partition| (1..=self.now_at(&it)).contains(&it.outlook().head());
            let rest = topic.partition(partition.route.partition).is_some_and(left_there);
            // Nobody is told that there is nothing before all were asked, however long that takes.
            if some && (rest || Instant::now() >= until) {
                return Ok(outcome);
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
        let until = Instant::now() + self.lanes.timeout;
        let (mut asked, mut failed) = self.survey(&topic, all[0], until).await;
        self.skip_uncounted(&topic, &mut asked, &mut failed);
        let mut more = false;
        loop {
            let unmet = |outcome: &LeaseOutcome| outcome.grants.messages().is_empty();
            let left: Vec<_> = (0..all.len()).filter(|at| unmet(&outcomes[*at])).collect();
            if left.is_empty() {
                break;
            }
            let Some(partition) = self.oldest(&topic, &asked) else { break };
            asked.insert(partition.route.partition);
            let options: Vec<_> = left.iter().map(|at| all[*at]).collect();
            let patience = self.patience(&partition);
            let answers = self.lease_waiting_from(partition.clone(), &options);
            let answers = self.answer_within(&partition, patience, answers).await;
            let limited = topic.max_leased().is_some();
            let mut unsure = answers.is_none() && limited;
            let answers = answers.unwrap_or(Err(Error::RedisUnavailable));
            for (at, answer) in left.iter().zip(answers.unwrap_or_else(|e| vec![Err(e)])) {
                match answer {
                    Ok(got) => {
                        more |= got.more;
                        outcomes[*at] = got;
                    }
                    // A partition whose server is away keeps nobody from the others.
                    Err(error) => {
                        partition.put_off();
                        unsure |= limited && error == Error::OutcomeUnknown;
                        failed = Some(error);
                    }
                }
            }
            // As above.
            if unsure {
                failed = Some(Error::OutcomeUnknown);
                break;
            }
            match self.registry.find(&topic.name).await {
                Ok(Some(same)) if same.is_split() && !topic.counts_again(&same) => topic = same,
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

    /// Where only so many may be leased, a partition whose server is away is not asked: what it may have granted takes the
    /// others' places.
    fn skip_uncounted(&self, topic: &Arc<Topic>, asked: &mut Asked, failed: &mut Option<Error>) {
        let away = |it: &Partition| self.lanes.is_away(topic, it.slot);
        let skipped = topic.all().filter(|it| topic.max_leased().is_some() && away(it));
        for partition in skipped {
            asked.insert(partition.route.partition);
            *failed = Some(Error::RedisUnavailable);
        }
    }

    /// Looks at the partitions of which nothing is known, all at once, if they are many. Whoever comes meanwhile waits for
    /// that: when a topic is met anew under load, all of its consumers come at once.
    async fn survey(&self, topic: &Arc<Topic>, options: LeaseOptions, until: Instant) -> Surveyed {
        let is_unknown = |it: &PartitionState| it.outlook().head() == 0;
        let are_few = || topic.partitions.iter().filter(|it| is_unknown(it)).count() <= FEW;
        if are_few() {
            return Surveyed::default();
        }
        let Survey { count, last } = &topic.survey;
        let before = count.load(Ordering::Relaxed);
        let mut last = timeout_at(until.into(), last.lock()).await.ok();
        if let Some(last) = &last
            && count.load(Ordering::Relaxed) != before
        {
            return (**last).clone();
        }
        if are_few() {
            return Surveyed::default();
        }
        let unknown: Vec<_> = topic.all().filter(|it| is_unknown(it)).collect();
        let looks = join_all(unknown.iter().map(async |partition| {
            let patience = until.saturating_duration_since(Instant::now());
            let patience = patience.min(self.patience(partition));
            let look = self.answer_within(partition, patience, self.look(partition, options)).await;
            (partition.route.partition, look.unwrap_or(Err(Error::RedisUnavailable)))
        }));
        let (mut silent, mut failed) = (Asked::new(), None);
        for (number, outcome) in looks.await {
            if let Err(error @ (Error::RedisUnavailable | Error::OutcomeUnknown)) = outcome {
                silent.insert(number);
                failed = Some(error);
            }
        }
        if let Some(last) = &mut last {
            **last = (silent.clone(), failed.clone());
            count.fetch_add(1, Ordering::Relaxed);
        }
        (silent, failed)
    }

    /// Finds out when a partition has something: never, where consumers who sleep left a mark of that; otherwise a lease of
    /// nothing says so.
    async fn look(&self, partition: &Partition, options: LeaseOptions) -> Result<(), Error> {
        let wakes = partition.wakes();
        if matches!(self.mark(partition).await?, PAUSED | FOREVER) {
            partition.learn(wakes, FOREVER);
            return Ok(());
        }
        let nothing = LeaseOptions { max_messages: 0, ..options };
        self.lease_from(partition.clone(), nothing, false, true, Instant::now()).await.map(|_| ())
    }

    /// How long a partition's server has to answer, so that one that is away keeps nobody from the others. What it grants
    /// later goes back.
    pub(super) fn patience(&self, partition: &Partition) -> Duration {
        match self.lanes.cluster() {
            None => self.lanes.timeout,
            Some(_) if self.lanes.is_away(&partition.topic, partition.slot) => DOWN_TIMEOUT,
            Some(_) => self.lanes.timeout / 3,
        }
    }

    /// The answer of a partition's server, if it comes before that is away.
    pub(super) async fn answer_within<T>(
        &self,
        partition: &Partition,
        patience: Duration,
        answer: impl Future<Output = T>,
    ) -> Option<T> {
        let answer = self
            .lanes
            .answer_unless_away(partition, Instant::now(), true, async { Ok(answer.await) });
        timeout(patience, answer).await.ok()?.ok()
    }

    /// The partition, not asked yet, with the oldest message that is known, if any may have one; those whose server is away
    /// come last.
    fn oldest(&self, topic: &Arc<Topic>, asked: &Asked) -> Option<Partition> {
        // By the clock of its server.
        let one = self.lanes.cluster().is_none().then(|| self.now());
        let age = |it: &PartitionState| it.outlook().age(one.unwrap_or_else(|| self.now_at(it)));
        let not_asked = |it: &&PartitionState| !asked.contains(&it.route.partition);
        let ages = topic.partitions.iter().filter(not_asked).map(|it| (age(it), it));
        let there = ages.filter(|(age, _)| *age >= 0);
        let (_, oldest) =
            there.max_by_key(|(age, it)| (!self.lanes.is_away(topic, it.slot), *age))?;
        topic.partition(oldest.route.partition)
    }

    /// The time at a partition's server.
    pub(crate) fn now_at(&self, partition: &PartitionState) -> Millis {
        self.lanes.at_slot(partition.slot, |node| node.backend.clock.now())
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
            let news = (0..known.head()).contains(&self.mark(&partition).await?);
            if news {
                partition.wake();
            }
            Ok::<_, Error>(news)
        }));
        Ok(news.await?.contains(&true))
    }
}
