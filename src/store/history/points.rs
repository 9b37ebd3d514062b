//! The points of a topic's history, read and put together from its partitions.

use super::{Lateness, SLACK_MS, STEP_MS, note};
use crate::{
    Store,
    batch::{Command, Request},
    partition::Partition,
    reply::{CallError, Reply, word},
    scripts,
};
use dueq_model::{Millis, TopicName, error::Error};
use std::{collections::BTreeMap, sync::atomic::Ordering};

/// How many totals a point has.
const TOTALS: usize = 6;

/// What happened in a topic in one step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryPoint {
    /// When the step begins, ms.
    pub at: Millis,
    /// What was added to the totals: published, granted, acked, nacked, dead, lease_expired.
    pub added: [i64; TOTALS],
    /// How long the oldest ready message had been due at its end, ms.
    pub oldest_ready_age_ms: Option<Millis>,
    pub(super) lateness: Lateness,
}

impl HistoryPoint {
    /// How late messages were first granted, ms: of half of them and of 99 % at most so late, and the longest.
    pub fn lateness(&self) -> Option<(Millis, Millis, Millis)> {
        Some((self.lateness.quantile(0.5)?, self.lateness.quantile(0.99)?, self.lateness.most()?))
    }

    fn add(&mut self, other: Self) {
        self.added.iter_mut().zip(other.added).for_each(|(sum, more)| *sum += more);
        self.oldest_ready_age_ms = self.oldest_ready_age_ms.max(other.oldest_ready_age_ms);
        self.lateness.merge(&other.lateness);
    }

    /// The step's number and the point; `None` where a hand in Redis has written something else.
    fn parse(text: &str) -> Option<(i64, Self)> {
        let mut parts = text.splitn(9, ',');
        let mut number = || parts.next()?.parse::<i64>().ok().filter(|number| *number >= 0);
        let step = number()?;
        let mut point = Self::default();
        for added in &mut point.added {
            *added = number()?;
        }
        let age = parts.next()?;
        point.oldest_ready_age_ms = if age.is_empty() { None } else { Some(age.parse().ok()?) };
        point.lateness = Lateness::parse(parts.next()?)?;
        Some((step, point))
    }
}

/// The history of one partition.
pub(crate) struct PartitionHistory {
    now: Millis,
    /// When the oldest ready message fell due, ms.
    oldest: Option<Millis>,
    /// What nobody has noted yet.
    added: [i64; TOTALS],
    noted: BTreeMap<i64, HistoryPoint>,
}

impl PartitionHistory {
    /// The step that is not over.
    fn newest(&self, step_ms: Millis) -> i64 {
        // Or what a clock has noted that was set back since.
        let now = (self.now - SLACK_MS).div_euclid(step_ms);
        now.max(self.noted.keys().next_back().copied().unwrap_or(0).min(now + 1))
    }

    /// The points of these steps, the last of them the newest.
    fn points(
        mut self,
        steps: std::ops::RangeInclusive<i64>,
        step_ms: Millis,
    ) -> impl Iterator<Item = HistoryPoint> {
        let (last, now) = (*steps.end(), self.now);
        let mut newest = self.noted.split_off(&(last + 1)).into_values().fold(
            HistoryPoint { added: self.added, ..HistoryPoint::default() },
            |mut sum, later| {
                sum.add(later);
                sum
            },
        );
        newest.add(self.noted.remove(&last).unwrap_or_default());
        // Nothing has happened since the last point: what is ready has been so ever since it fell due.
        let since = self.noted.keys().next_back().copied().unwrap_or(i64::MIN);
        let age_at = move |end: Millis| {
            let age = self.oldest.map(|oldest| end.min(now) - oldest);
            age.filter(|age| *age >= 0)
        };
        newest.oldest_ready_age_ms = age_at(now);
        let before = self.noted.range(..*steps.start()).next_back();
        let mut known = before.map(|(step, point)| (*step, point.oldest_ready_age_ms));
        let (mut noted, mut newest) = (self.noted, Some(newest));
        steps.map(move |step| {
            let mut point = match noted.remove(&step) {
                _ if step == last => newest.take().unwrap_or_default(),
                Some(point) => {
                    known = Some((step, point.oldest_ready_age_ms));
                    point
                }
                None => {
                    let age = match known {
                        _ if step > since => age_at((step + 1) * step_ms),
                        // Nothing happened in between, so it is still the same message.
                        Some((at, age)) => age.map(|age| age + (step - at) * step_ms),
                        None => None,
                    };
                    HistoryPoint { oldest_ready_age_ms: age, ..HistoryPoint::default() }
                }
            };
            point.at = step * step_ms;
            point
        })
    }
}

impl Store {
    /// The newest `points` steps of `step_ms` (10,000 or 60,000) of a topic, the oldest first. The last one is not over. All
    /// that happened in the topic so far, and is not older, is in them.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn history(
        &self,
        name: &TopicName,
        step_ms: Millis,
        points: usize,
    ) -> Result<Vec<HistoryPoint>, Error> {
        // One more than is shown: it says what the first ones go on from.
        let parts = self.on_each(name, |it| read(it, step_ms, points + 1)).await?;
        for (partition, part) in &parts {
            self.note_what_is_left(partition, part);
        }
        let newest = parts.iter().map(|(_, part)| part.newest(step_ms)).max().unwrap_or_default();
        let steps = newest - points as i64 + 1..=newest;
        let mut sums = vec![HistoryPoint::default(); points];
        for (_, part) in parts {
            for (sum, point) in sums.iter_mut().zip(part.points(steps.clone(), step_ms)) {
                sum.at = point.at;
                sum.add(point);
            }
        }
        Ok(sums)
    }

    /// What nobody has noted may be from an instance that died. So that it does not move on with the newest point, it is
    /// noted where it was first read. That is also how a topic that is looked at has points of 10 s while many are active.
    fn note_what_is_left(&self, partition: &Partition, part: &PartitionHistory) {
        let noted_at = &partition.activity.noted_at;
        if part.added == [0; TOTALS] || part.now - noted_at.load(Ordering::Relaxed) < STEP_MS {
            return;
        }
        noted_at.store(part.now, Ordering::Relaxed);
        let (lanes, at) = (self.lanes.clone(), part.now - SLACK_MS);
        let note = note(partition, Some(at), &Lateness::default());
        tokio::spawn(async move {
            if let Err(error) = lanes.submit(note).await {
                tracing::debug!(?error, "a topic's history was not noted yet");
            }
        });
    }
}

fn read(partition: &Partition, step_ms: Millis, points: usize) -> Request<PartitionHistory> {
    let read = Command::on_all_with_rare(&scripts::READ_HISTORY, partition);
    read.arg((step_ms, points)).read(partition, read_points)
}

pub(crate) fn read_points(reply: &mut Reply<'_>) -> Result<PartitionHistory, CallError> {
    let (now, oldest) = (reply.now()?, reply.instant()?);
    let mut added = [0; TOTALS];
    for added in &mut added {
        *added = reply.int()?;
    }
    let mut list = reply.fields()?;
    let mut noted: BTreeMap<i64, HistoryPoint> = BTreeMap::new();
    while !list.is_empty() {
        let text = list.value()?;
        if let Some((step, point)) = word(&text).and_then(HistoryPoint::parse) {
            noted.entry(step).or_default().add(point);
        }
    }
    Ok(PartitionHistory { now, oldest, added, noted })
}
