//! What works through the messages of a topic, a bounded number a call. Where only states select them, and nothing else may come
//! into these meanwhile, a purge leaves that to `purge_topic`. Everything else lists messages, and then changes them by id.

use super::list::{Listing, Search};
use crate::{
    Store,
    batch::Command,
    change::Change,
    partition::Partition,
    reply::{CallError, Reply},
    scripts,
    turns::Round,
};
use dueq_model::{Millis, State, TopicName, error::Error};
use std::time::{Duration, Instant};

/// A request that works through many messages ends after this long, and says what remains.
const MAX_OPERATION_TIME: Duration = Duration::from_secs(20);
/// Messages of one call.
const PURGED_MESSAGES: u64 = 128;
/// Messages that are changed together.
const CHANGED_TOGETHER: usize = 1024;
/// Ready messages of groups that one request purges.
const MAX_HEADS: u64 = 100_000;

/// What a request did to the messages of a topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Worked {
    /// Messages changed.
    pub done: i64,
    /// Messages left in the named states.
    pub remaining: i64,
    /// It took too long: some of those that were there at its beginning are left.
    pub cut_short: bool,
}

impl Store {
    /// Removes the messages of these states (delayed with blocked, ready, dead, blocked, leased). Those that come meanwhile may
    /// stay.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn purge_topic(
        &self,
        round: &Round,
        name: &TopicName,
        states: &[State],
    ) -> Result<Worked, Error> {
        let named = [State::Delayed, State::Ready, State::Dead, State::Blocked, State::Leased]
            .map(|s| states.contains(&s));
        let [delayed, ready, _, blocked, _] = named;
        let mut sum = Worked::default();
        let mut named = named;
        if ready && !delayed && !blocked {
            let topic = self.registry.look_up(name).await?.ok_or(Error::TopicNotFound)?;
            if topic.settings.grouped && !topic.settings.is_fair() {
                // With each of them the next of its group gets ready, which is not to go as well. So they are listed before
                // the first goes.
                let walk = Walk { change: Change::Purge, state: State::Ready, page: MAX_HEADS };
                sum = self.work_through(round, name, walk, MAX_HEADS, 0).await?;
                if !sum.cut_short && sum.done < MAX_HEADS as i64 {
                    // Those that are ready by now came later.
                    sum.remaining = 0;
                }
                named[1] = false;
                if !named.contains(&true) {
                    return Ok(sum);
                }
            }
        }
        let purge = |partition: &Partition| {
            let purge = Command::on(&scripts::PURGE_TOPIC, partition);
            purge.arg(PURGED_MESSAGES).arg(&named).read(partition, read_purged)
        };
        let started = Instant::now();
        let turn = round.turn().await;
        let first = self.change_each(name, purge).await;
        drop(turn);
        let mut left = first.map_err(|error| error.after(sum.done > 0))?;
        // For each how many were purged, and how many there were: a client that publishes faster than this purges does not hold
        // it up for ever.
        for (partition, some) in &mut left {
            let (mut done, most) = (some.purged, some.purged + some.remaining);
            while some.remaining > 0 && some.purged > 0 && done < most {
                if started.elapsed() > MAX_OPERATION_TIME {
                    sum.cut_short = true;
                    break;
                }
                let _turn = round.turn().await;
                let more = self.on(&partition.name(), purge).await;
                *some = more.map_err(Error::after_change)?.1;
                done += some.purged;
            }
            sum.done += done;
            sum.remaining += some.remaining;
        }
        Ok(sum)
    }

    /// Moves back what came here when it died and is ready, to topics to which the caller may publish. Then makes dead messages
    /// live again, longest dead first, as many as the topic has room for. At most `most` together, at once or spread over `spread_ms`.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn redrive_topic(
        &self,
        round: &Round,
        name: &TopicName,
        (most, spread_ms): (u64, Millis),
        may: &(dyn Fn(&TopicName) -> bool + Sync),
    ) -> Result<Worked, Error> {
        let page = CHANGED_TOGETHER as u64;
        let walk = Walk { change: Change::Redrive, state: State::Dead, page };
        // First, since what dies here again is ready here once more.
        let mut sum = Worked::default();
        let moved = self.move_back(round, name, (most, spread_ms), may, &mut sum).await;
        moved.map_err(|error| error.after(sum.done > 0))?;
        let most = most - sum.done as u64;
        let redriven = self.work_through(round, name, walk, most, spread_ms).await;
        let redriven = redriven.map_err(|error| error.after(sum.done > 0))?;
        sum.done += redriven.done;
        sum.remaining += redriven.remaining;
        Ok(sum)
    }

    /// Lists the messages of a state, page by page, and changes up to `most` of them, evenly over `spread_ms`.
    async fn work_through(
        &self,
        round: &Round,
        name: &TopicName,
        Walk { change, state, page }: Walk,
        most: u64,
        spread_ms: Millis,
    ) -> Result<Worked, Error> {
        let started = Instant::now();
        let (topic, before) = self.topic(name).await?;
        let live = before.delayed + before.ready + before.blocked + before.leased;
        let room = topic.settings.max_messages.filter(|_| change == Change::Redrive);
        let room = room.map_or(i64::MAX, |most| (most - live).max(0));
        let of = before.count(state).min(room).min(most as i64);
        let (mut sum, mut after) = (Worked::default(), None);
        while sum.done < of && !sum.cut_short {
            let (mut ids, limit) = (Vec::new(), page.min((of - sum.done) as u64));
            let (after_it, bodies, most_bytes) = (after.as_ref(), false, usize::MAX);
            let listing = Listing {
                state,
                after: after_it,
                limit,
                bodies,
                urls: false,
                most_bytes,
                query: None,
                round,
            };
            let page = self.search(name, listing, &mut Search::new(), |it| ids.push(it.id)).await;
            let (_, next) = page.map_err(|error| error.after(sum.done > 0))?;
            for some in ids.chunks(CHANGED_TOGETHER) {
                sum.cut_short = started.elapsed() > MAX_OPERATION_TIME;
                if sum.cut_short {
                    break;
                }
                let spread = (spread_ms, sum.done, of);
                let done = self.change_selected(round, change, &[state], some, spread).await;
                sum.done += done.map_err(|error| error.after(sum.done > 0))?;
            }
            after = next;
            if after.is_none() {
                break;
            }
        }
        let now = self.topic(name).await.map_err(|error| error.after(sum.done > 0))?.1;
        sum.remaining = now.count(state);
        Ok(sum)
    }
}

/// Which messages a request lists, so many at a time, and what it does to them.
struct Walk {
    change: Change,
    state: State,
    page: u64,
}

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
