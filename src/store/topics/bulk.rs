//! purge_topic and redrive_topic: they work through the messages of a topic, a bounded number a call.

use crate::{
    error::Error,
    model::{Millis, State, TopicName},
    store::{
        Store,
        batch::Command,
        partition::Partition,
        reply::{CallError, Reply},
        scripts,
    },
};
use std::time::{Duration, Instant};

/// A request that works through many messages ends after this long, and says what remains.
const MAX_OPERATION_TIME: Duration = Duration::from_secs(20);
/// Messages of one call.
const PURGED_MESSAGES: u64 = 128;
const REDRIVEN_MESSAGES: u64 = 64;

/// The result of a purge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purged {
    /// Messages removed.
    pub purged: i64,
    /// Messages left in the named states.
    pub remaining: i64,
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
    /// Removes the messages of these states (delayed, ready, dead). Those that come meanwhile may stay.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn purge_topic(&self, name: &TopicName, states: &[State]) -> Result<Purged, Error> {
        let started = Instant::now();
        let (mut purged, mut most) = (0, None);
        let named =
            [State::Delayed, State::Ready, State::Dead].map(|state| states.contains(&state));
        let purge = |partition: &Partition| {
            let purge = Command::on(&scripts::PURGE_TOPIC, partition);
            purge.arg(PURGED_MESSAGES).arg(&named).read(partition, read_purged)
        };
        loop {
            let some = match self.on(name, purge).await {
                Ok((_, some)) => some,
                Err(error) if purged == 0 => return Err(error),
                Err(error) => return Err(error.after_change()),
            };
            purged += some.purged;
            // As many as there were: whoever publishes faster than this purges does not hold it up for ever.
            let most = *most.get_or_insert(some.purged + some.remaining);
            let late = started.elapsed() > MAX_OPERATION_TIME;
            if some.remaining == 0 || some.purged == 0 || purged >= most || late {
                return Ok(Purged { purged, ..some });
            }
        }
    }

    /// Makes dead messages live again, longest dead first, at most `most`; at once or spread over `spread_ms`.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn redrive_topic(
        &self,
        name: &TopicName,
        most: u64,
        spread_ms: Millis,
    ) -> Result<Redriven, Error> {
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

/// What one call purged, and what is left in the states that it was told.
pub(in crate::store) fn read_purged(reply: &mut Reply<'_>) -> Result<Purged, CallError> {
    reply.now()?;
    let (purged, remaining) = (reply.int()?, reply.int()?);
    reply.topic().counters.purged.inc_by(purged as u64);
    Ok(Purged { purged, remaining })
}

/// What one call redrove.
pub(in crate::store) struct RedrivenSome {
    /// From when on those of the request fall due.
    pub base: Millis,
    pub redriven: i64,
    pub skipped: i64,
    pub left: i64,
    pub of: i64,
}

pub(in crate::store) fn read_redriven(reply: &mut Reply<'_>) -> Result<RedrivenSome, CallError> {
    reply.now_and_wake()?;
    let (redriven, skipped) = (reply.int()?, reply.int()?);
    reply.topic().counters.redriven.inc_by(redriven as u64);
    let (left, of, base) = (reply.int()?, reply.int()?, reply.int()?);
    Ok(RedrivenSome { base, redriven, skipped, left, of })
}
