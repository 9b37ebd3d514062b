//! lease, from one partition of a topic after another. One that is the only one is always asked. Of several, each is asked only if
//! it may have something: as long as no wake-up has come, what the last call found holds (`Outlook`). The one with the oldest
//! message that is known comes first; where nothing is known of many, all of them are looked at first, at once.
//! Before a consumer gets the answer that there is nothing, the marks of the others are read from Redis: a mark of less than was
//! left there says that something has come, of which the wake-up may still be under way.

use super::{FOREVER, LeaseMode, LeaseOutcome, Outcomes, PAUSED};
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
    pin::pin,
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
    /// As [`Store::lease`], in a topic whose limits allow all that is asked for.
    pub(super) async fn lease_from_all(
        &self,
        mut topic: Arc<Topic>,
        wants: &[LeaseOptions],
        mode: LeaseMode,
    ) -> Result<Outcomes, Error> {
        let mut outcomes: Vec<_> = wants.iter().map(|_| LeaseOutcome::default()).collect();
        let mut left = wants.to_vec();
        let waits = matches!(mode, LeaseMode::Waiting);
        let deadline = Instant::now() + self.lanes.timeout;
        let until = if let LeaseMode::Now(until) = mode { until } else { deadline };
        let has_some = |it: &LeaseOutcome| !it.grants.messages().is_empty();
        // A partition whose server is away does not hold up the others.
        let (mut asked, mut failed) = self.survey(&topic, wants, until).await;
        self.skip_uncounted(&topic, &mut asked, &mut failed);
        let (mut silent, mut again) = (asked.clone(), None::<Partition>);
        let (mut verified, mut insists, mut unsure, mut more) = (false, false, false, false);
        loop {
            let is_met = |at: usize| match mode {
                LeaseMode::Waiting => has_some(&outcomes[at]),
                LeaseMode::Now(_) => left[at].max_messages == 0 || left[at].max_bytes == 0,
            };
            let unmet: Vec<_> = (0..wants.len()).filter(|at| !is_met(*at)).collect();
            if unmet.is_empty() {
                break;
            }
            let begun = !waits && outcomes.iter().any(has_some);
            // Who has something does not wait for a server that may be away.
            let next = again.take().or_else(|| self.oldest(&topic, &asked));
            let next = next.filter(|it| !begun || !it.outlook().failed);
            let Some(mut partition) = next else {
                let slow = |it: Partition| {
                    silent.contains(&it.route.partition) && !self.lanes.is_away(&topic, it.slot)
                };
                if waits || begun || !topic.is_split() {
                    break;
                }
                if !insists && topic.all().any(slow) {
                    // The others have nothing, so there is time for those that are slow.
                    insists = true;
                    asked.retain(|number| !silent.remove(number));
                    failed = None;
                } else if failed.is_some() || verified || !self.has_news_split(&topic).await? {
                    break;
                } else {
                    verified = true;
                }
                continue;
            };
            asked.insert(partition.route.partition);
            let some: Vec<_> = unmet.iter().map(|at| (left[*at], begun)).collect();
            let patience = match insists {
                true => deadline.saturating_duration_since(Instant::now()),
                false => self.patience(&partition),
            };
            let of = partition.clone();
            let answers = {
                // In one place: each move of it would have room of its own.
                let mut answers = pin!(self.ask(&mut partition, &some, waits));
                match topic.is_split() {
                    true => self.answer_within(&of, patience, answers.as_mut()).await,
                    false => Some(answers.as_mut().await),
                }
            };
            // What may have been granted there counts where only so many may be leased: others may not be asked for as much.
            let counted = topic.is_split() && topic.max_leased().is_some();
            unsure = counted && answers.is_none();
            let answers = match answers.unwrap_or(Err(Error::RedisUnavailable)) {
                Ok(Some(answers)) => answers,
                Ok(None) => break,
                Err(error) => vec![Err(error)],
            };
            for (at, answer) in unmet.iter().zip(answers) {
                match answer {
                    Ok(got) => {
                        let messages = got.grants.messages();
                        let bytes = messages.iter().map(|message| message.payload_bytes).sum();
                        let (left, count) = (&mut left[*at], messages.len() as u64);
                        left.max_messages = left.max_messages.saturating_sub(count);
                        left.max_bytes = left.max_bytes.saturating_sub(bytes);
                        more |= got.more;
                        // A call is bounded, so a request may take several. One that has nothing yet was crowded out by those
                        // before it in the same call; one that has something, and got no more, leaves the rest to others.
                        let late = (count == 0 || got.cleared) && Instant::now() >= until;
                        let is_done = waits || !got.more || late || begun && count == 0;
                        if !is_done {
                            again = Some(partition.clone());
                        }
                        outcomes[*at].grants.append(got.grants);
                        outcomes[*at].next_at = got.next_at;
                    }
                    Err(error @ (Error::RedisUnavailable | Error::OutcomeUnknown)) => {
                        silent.insert(partition.route.partition);
                        partition.put_off();
                        unsure |= counted && error == Error::OutcomeUnknown;
                        failed = Some(error);
                    }
                    // What one partition refuses, all do.
                    Err(error) => return Err(error),
                }
            }
            if unsure {
                failed = Some(Error::OutcomeUnknown);
                break;
            }
            if again.is_some() {
                continue;
            }
            if !topic.is_split() {
                break;
            }
            match self.registry.find(&topic.name).await {
                Ok(Some(same)) if !topic.counts_again(&same) => {
                    // One that was created again has not been asked.
                    if same.number != topic.number {
                        (asked, verified) = (Asked::new(), false);
                    }
                    topic = same;
                }
                _ => break,
            }
            // What is left there does not fit.
            let left_there = |it: Partition| (1..=self.now_at(&it)).contains(&it.outlook().head());
            let rest = topic.partition(partition.route.partition).is_some_and(left_there);
            // No consumer gets an empty answer before all partitions were asked, however long that takes.
            let some = !waits && outcomes.iter().any(has_some);
            if some && (rest || Instant::now() >= until) {
                break;
            }
        }
        if topic.is_split() {
            // By the clock of the first partition's server, which the caller sleeps by.
            let first = self.now_at(&Partition::first(topic.clone()));
            let heads = topic.all().map(|it| (it.outlook().head(), first - self.now_at(&it)));
            let heads = heads.filter(|(head, _)| *head < FOREVER);
            let next = heads.map(|(head, ahead)| head.saturating_add(ahead).max(1)).min();
            outcomes.iter_mut().for_each(|outcome| outcome.next_at = next);
        }
        let none_answered = silent.len() >= topic.partitions.len();
        let outcome = |mut outcome: LeaseOutcome| {
            outcome.more = more;
            match failed.clone() {
                Some(error) if unsure && !waits => outcome.failed = Some(error),
                Some(_) if has_some(&outcome) => {}
                Some(error) if waits || none_answered => return Err(error),
                // It may have something, which cannot be known.
                failed => outcome.failed = failed,
            }
            Ok(outcome)
        };
        Ok(outcomes.into_iter().map(outcome).collect())
    }

    /// Where only so many may be leased, a partition whose server is away is not asked: what it may have granted takes the
    /// others' places.
    fn skip_uncounted(&self, topic: &Arc<Topic>, asked: &mut Asked, failed: &mut Option<Error>) {
        let away = |it: &Partition| self.lanes.is_away(topic, it.slot);
        let counted = topic.is_split() && topic.max_leased().is_some();
        let skipped = topic.all().filter(|it| counted && away(it));
        for partition in skipped {
            asked.insert(partition.route.partition);
            *failed = Some(Error::RedisUnavailable);
        }
    }

    /// Looks at the partitions of which nothing is known, all at once, if they are many. Requests that come meanwhile wait for
    /// that: when a topic under load is read for the first time, all of its consumers come at once.
    async fn survey(&self, topic: &Arc<Topic>, wants: &[LeaseOptions], until: Instant) -> Surveyed {
        let is_unknown = |it: &PartitionState| it.outlook().head() == 0;
        let are_few = || topic.partitions.iter().filter(|it| is_unknown(it)).count() <= FEW;
        let Some(options) = wants.iter().find(|want| topic.refuses(want).is_none()) else {
            return Surveyed::default();
        };
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
            let look =
                self.answer_within(partition, patience, self.look(partition, *options)).await;
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
        self.ask(&mut partition.clone(), &[(nothing, false)], true).await.map(|_| ())
    }

    /// How long a partition's server has to answer, so that one that is away does not hold up the others. What it grants
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
        if !topic.is_split() {
            return asked.is_empty().then(|| Partition::first(topic.clone()));
        }
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
