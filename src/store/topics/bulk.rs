//! purge_topic and redrive_topic: they work through the messages of a topic, a bounded number a call.

use super::list::{Listing, Search};
use crate::{
    Store,
    batch::Command,
    change::Change,
    partition::Partition,
    registry::Topic,
    reply::{CallError, Reply},
    scripts,
};
use dueq_model::{Millis, State, TopicName, error::Error};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// A request that works through many messages ends after this long, and says what remains.
const MAX_OPERATION_TIME: Duration = Duration::from_secs(20);
/// Messages of one call.
const PURGED_MESSAGES: u64 = 128;
const REDRIVEN_MESSAGES: u64 = 64;
/// Ready messages of groups that one request purges, and how many of them at a time.
const MAX_HEADS: u64 = 100_000;
const PURGED_TOGETHER: usize = 1024;
/// Dead messages of all partitions that are looked at together.
const MAX_LISTED: u64 = 256;

/// The result of a purge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purged {
    /// Messages removed.
    pub purged: i64,
    /// Messages left in the named states.
    pub remaining: i64,
    /// It took too long: some of those that were there at its beginning are left.
    pub cut_short: bool,
}

/// What a redrive of a topic did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redriven {
    /// Messages redriven.
    pub redriven: i64,
    /// Dead messages left.
    pub remaining: i64,
}

impl Store {
    /// Removes the messages of these states (delayed with blocked, ready, dead, blocked, leased). Those that come meanwhile may
    /// stay.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn purge_topic(&self, name: &TopicName, states: &[State]) -> Result<Purged, Error> {
        let started = Instant::now();
        let named = [State::Delayed, State::Ready, State::Dead, State::Blocked, State::Leased]
            .map(|s| states.contains(&s));
        let [delayed, ready, _, blocked, _] = named;
        if ready && !delayed && !blocked {
            let topic = self.registry.look_up(name).await?.ok_or(Error::TopicNotFound)?;
            if topic.settings.grouped {
                return self.purge_heads(name, states, started).await;
            }
        }
        let purge = |partition: &Partition| {
            let purge = Command::on(&scripts::PURGE_TOPIC, partition);
            purge.arg(PURGED_MESSAGES).arg(&named).read(partition, read_purged)
        };
        let mut sum = Purged { purged: 0, remaining: 0, cut_short: false };
        let mut left: Vec<_> = self.change_each(name, purge).await?;
        // For each how many were purged, and how many there were: whoever publishes faster than this purges does not hold
        // it up for ever.
        let most: Vec<_> = left.iter().map(|(_, some)| some.purged + some.remaining).collect();
        let mut done: Vec<_> = left.iter().map(|(_, some)| some.purged).collect();
        for (at, (partition, some)) in left.iter_mut().enumerate() {
            loop {
                if some.remaining == 0 || some.purged == 0 || done[at] >= most[at] {
                    break;
                }
                if started.elapsed() > MAX_OPERATION_TIME {
                    sum.cut_short = true;
                    break;
                }
                let more = self.on(&partition.name(), purge).await;
                *some = more.map_err(Error::after_change)?.1;
                done[at] += some.purged;
            }
            sum.purged += done[at];
            sum.remaining += some.remaining;
        }
        Ok(sum)
    }

    /// The same of ready messages in a topic with groups: with each of them the next of its group gets ready, which is not to
    /// go as well. So they are named before the first goes.
    async fn purge_heads(
        &self,
        name: &TopicName,
        states: &[State],
        started: Instant,
    ) -> Result<Purged, Error> {
        let (state, mut ids) = (State::Ready, Vec::new());
        let (limit, most_bytes) = (MAX_HEADS, usize::MAX);
        let all = Listing { state, after: None, limit, bodies: false, most_bytes, query: None };
        self.search(name, all, &mut Search::new(), |ready| ids.push(ready.id)).await?;
        let mut sum = Purged { purged: 0, remaining: 0, cut_short: false };
        let known = |sum: &Purged, error: Error| match sum.purged {
            0 => error,
            _ => error.after_change(),
        };
        let mut left = ids.len();
        for some in ids.chunks(PURGED_TOGETHER) {
            sum.cut_short = started.elapsed() > MAX_OPERATION_TIME;
            if sum.cut_short {
                break;
            }
            let purged = self.change_selected(Change::Purge, &[state], some, 0).await;
            sum.purged += purged.map_err(|error| known(&sum, error))?;
            left -= some.len();
        }
        if left > 0 || ids.len() as u64 == MAX_HEADS {
            let topic = self.topic(name).await.map_err(|error| known(&sum, error))?.1;
            sum.remaining = topic.ready;
        }
        let rest: Vec<_> = states.iter().copied().filter(|it| *it != state).collect();
        if !rest.is_empty() {
            let rest = Box::pin(self.purge_topic(name, &rest)).await;
            let rest = rest.map_err(|error| known(&sum, error))?;
            sum.purged += rest.purged;
            sum.remaining += rest.remaining;
            sum.cut_short |= rest.cut_short;
        }
        Ok(sum)
    }

    /// Makes dead messages live again, longest dead first, at most `most` and as many as the topic has room for; at once or spread
    /// over `spread_ms`.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn redrive_topic(
        &self,
        name: &TopicName,
        most: u64,
        spread_ms: Millis,
    ) -> Result<Redriven, Error> {
        let topic = self.registry.find(name).await?.ok_or(Error::TopicNotFound)?;
        if topic.is_split() {
            return self.redrive_split(&topic, most, spread_ms).await;
        }
        let started = Instant::now();
        let (mut redriven, mut skip) = (0, 0);
        let (mut base, mut of) = (None, None);
        loop {
            let known = |number: Option<i64>| number.map(|n| n.to_string()).unwrap_or_default();
            let redrive = |partition: &Partition| {
                let redrive = Command::on(&scripts::REDRIVE_TOPIC, partition);
                let redrive = redrive.arg((REDRIVEN_MESSAGES, skip, known(base), redriven));
                redrive.arg((known(of), spread_ms, most)).read(partition, read_redriven)
            };
            let some = match self.on(name, redrive).await {
                Ok((partition, some)) if partition.topic.is_split() => {
                    // It has got more partitions meanwhile.
                    redriven += some.redriven;
                    let left = most.saturating_sub(redriven as u64);
                    let rest = self.redrive_split(&partition.topic, left, spread_ms).await;
                    let rest = rest.map_err(Error::after_change)?;
                    return Ok(Redriven { redriven: redriven + rest.redriven, ..rest });
                }
                Ok((_, some)) => some,
                Err(error) if redriven == 0 => return Err(error),
                Err(error) => return Err(error.after_change()),
            };
            redriven += some.redriven;
            skip += some.skipped;
            base.get_or_insert(some.base);
            of.get_or_insert(some.of);
            let over = some.redriven + some.skipped == 0 || redriven >= some.of;
            if over || some.left <= skip || started.elapsed() > MAX_OPERATION_TIME {
                return Ok(Redriven { redriven, remaining: some.left });
            }
        }
    }
}

impl Store {
    /// The same in a topic of several partitions. A list of all says which are dead longest; each partition then redrives as
    /// many of its own as were among them.
    async fn redrive_split(
        &self,
        topic: &Arc<Topic>,
        most: u64,
        spread_ms: Millis,
    ) -> Result<Redriven, Error> {
        let (name, started) = (&topic.name, Instant::now());
        let redrive = |partition: &Partition, (limit, skip, base, index, of): Share| {
            let redrive = Command::on(&scripts::REDRIVE_TOPIC, partition);
            let redrive = redrive.arg((limit, skip, base, index));
            redrive.arg((of, spread_ms, most)).read(partition, read_redriven)
        };
        let none = (0, 0, String::new(), 0, String::new());
        let first = self.on_each(name, |it| redrive(it, none.clone())).await?;
        let base = first.first().map_or(0, |(_, some)| some.base);
        let of = first.iter().map(|(_, some)| some.of).sum::<i64>().min(most as i64);
        let mut lefts: Vec<_> = first.iter().map(|(_, some)| some.left).collect();
        // It may have been made anew since, with fewer partitions.
        lefts.resize(topic.partitions.len().max(lefts.len()), 0);
        let mut skips = vec![0; lefts.len()];
        let (mut redriven, mut after) = (0, None);
        while redriven < of && started.elapsed() <= MAX_OPERATION_TIME {
            let limit = (MAX_LISTED).min((of - redriven) as u64);
            let listing = Listing {
                state: State::Dead,
                after: after.as_ref(),
                limit,
                bodies: false,
                most_bytes: usize::MAX,
                query: None,
            };
            let (_, page) = match self.list_messages(name, listing).await {
                Err(error) if redriven > 0 => return Err(error.after_change()),
                page => page?,
            };
            let mut wanted = vec![0_i64; lefts.len()];
            for message in &page.items {
                let at = Partition::holding(topic, message.id).route.partition.0;
                if let Some(wanted) = wanted.get_mut(usize::from(at)) {
                    *wanted += 1;
                }
            }
            for partition in topic.all() {
                let at = usize::from(partition.route.partition.0);
                while wanted[at] > 0 {
                    let limit = wanted[at].min(REDRIVEN_MESSAGES as i64);
                    let share = (limit, skips[at], base.to_string(), redriven, of.to_string());
                    let some = self.on(&partition.name(), |it| redrive(it, share.clone())).await;
                    let (_, some) = match some {
                        Err(error) if redriven > 0 => return Err(error.after_change()),
                        some => some?,
                    };
                    redriven += some.redriven;
                    skips[at] += some.skipped;
                    lefts[at] = some.left;
                    wanted[at] -= some.redriven + some.skipped;
                    if some.redriven + some.skipped == 0 {
                        break;
                    }
                }
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        Ok(Redriven { redriven, remaining: lefts.iter().sum() })
    }
}

/// What a partition is to redrive: messages, how many to skip, from when on, the index of the first, and of how many.
type Share = (i64, i64, String, i64, String);

/// What one call purged.
pub(crate) struct PurgedSome {
    purged: i64,
    /// Left in the states that it was told.
    remaining: i64,
}

pub(crate) fn read_purged(reply: &mut Reply<'_>) -> Result<PurgedSome, CallError> {
    reply.now()?;
    let (purged, remaining) = (reply.int()?, reply.int()?);
    reply.topic().counters.purged.inc_by(purged as u64);
    Ok(PurgedSome { purged, remaining })
}

/// What one call redrove.
pub(crate) struct RedrivenSome {
    /// From when on those of the request fall due.
    pub base: Millis,
    pub redriven: i64,
    pub skipped: i64,
    pub left: i64,
    pub of: i64,
}

pub(crate) fn read_redriven(reply: &mut Reply<'_>) -> Result<RedrivenSome, CallError> {
    reply.now_and_wake()?;
    let (redriven, skipped) = (reply.int()?, reply.int()?);
    reply.topic().counters.redriven.inc_by(redriven as u64);
    let (left, of, base) = (reply.int()?, reply.int()?, reply.int()?);
    Ok(RedrivenSome { base, redriven, skipped, left, of })
}
