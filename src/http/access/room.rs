//! How much a key may store: what the topics that it may publish to hold together, by any publisher. The topics are counted
//! in Redis, once a second while the key publishes; between two counts an instance adds what it publishes for the key. Several
//! instances share what a count leaves, so that together they store no more than that, however old their counts are. A publish
//! waits for a count only where its instance's share does not do, and a count that fails leaves the last one in force.

use dueq_model::error::Error;
use dueq_store::Stored;
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::time::sleep;

/// A count is that old at most, unless there are many partitions to look at…
const MAX_AGE: Duration = Duration::from_secs(1);
/// …since for each of them a count is waited for: so counting takes Redis a few hundredths of its time at most.
const PACE: Duration = Duration::from_millis(1);
/// Counts that a publish waits for: the first may have missed others that were under way, which is then held against it.
const COUNTS: usize = 2;

/// Messages and bytes.
type Amount = [i64; 2];

/// What a key may store, and what was counted of it.
#[derive(Debug)]
pub struct Room {
    /// How many messages and how many bytes, where that is limited.
    pub most: [Option<i64>; 2],
    counted: Mutex<Counted>,
    /// Held while it is counted.
    turn: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Default)]
struct Counted {
    /// By the last count that succeeded; nothing before the first.
    stored: Stored,
    /// When the last count ended, and whether it failed.
    last: Option<(Instant, bool)>,
    /// What was published since, or was under way then.
    added: Amount,
    under_way: Amount,
}

/// A publish under way.
pub struct Publishing(Arc<Room>, Amount);

/// Why something is not published: there are so many messages (0) or bytes (1).
#[derive(Debug)]
pub struct Full {
    pub of: usize,
    pub held: i64,
    /// By what was counted alone.
    is_certain: bool,
}

impl Counted {
    /// How long no count is to be made yet; `is_needed` by a publish that waits for it.
    fn rest(&self, is_needed: bool) -> Duration {
        let Some((at, failed)) = self.last else { return Duration::ZERO };
        let pace = PACE * self.stored.partitions.clamp(1, 1 << 20) as u32;
        match (failed, is_needed) {
            // One failure serves all for so long.
            (true, true) if at.elapsed() < MAX_AGE => Duration::MAX,
            (false, true) => pace.saturating_sub(at.elapsed()),
            _ => MAX_AGE.max(pace).saturating_sub(at.elapsed()),
        }
    }
}

impl Room {
    /// For as many messages and bytes; `None` where neither is limited.
    pub fn new(most: [Option<i64>; 2]) -> Option<Arc<Self>> {
        let is_limited = most.iter().any(Option::is_some);
        let (counted, turn) = Default::default();
        is_limited.then(|| Arc::new(Self { most, counted, turn }))
    }

    /// Takes the room for what is to be published. `count` says what is stored.
    pub async fn take<F>(
        self: &Arc<Self>,
        wanted: Amount,
        count: impl Fn() -> F,
    ) -> Result<Publishing, Full>
    where
        F: Future<Output = Result<Stored, Error>> + Send + 'static,
    {
        let taken = self.add(wanted, false);
        if taken.is_ok() {
            let is_due = self.lock().rest(false).is_zero();
            if is_due && let Ok(turn) = self.turn.clone().try_lock_owned() {
                let (room, count) = (self.clone(), count());
                tokio::spawn(async move {
                    room.count(count).await;
                    drop(turn);
                });
            }
            return taken;
        }
        let _turn = self.turn.lock().await;
        for counts in 0..COUNTS {
            let full = match self.add(wanted, false) {
                Err(full) => full,
                taken => return taken,
            };
            let rest = self.lock().rest(true);
            let is_in_vain = full.is_certain || rest > MAX_AGE;
            if is_in_vain && (counts > 0 || !rest.is_zero()) {
                return Err(full);
            }
            sleep(rest).await;
            if self.count(count()).await
                && let Ok(taken) = self.add(wanted, true)
            {
                return Ok(taken);
            }
        }
        self.add(wanted, false)
    }

    /// Counts. Returns whether that succeeded.
    async fn count(&self, count: impl Future<Output = Result<Stored, Error>>) -> bool {
        let Counted { added, under_way, .. } = *self.lock();
        let found = count.await;
        let mut counted = self.lock();
        counted.last = Some((Instant::now(), found.is_err()));
        let Ok(stored) = found else { return false };
        counted.stored = stored;
        // What was under way may have been counted or not.
        for at in 0..2 {
            counted.added[at] += under_way[at] - added[at];
        }
        true
    }

    /// Adds this where there is room; by a count that `is_fresh` beyond the share of this instance.
    fn add(self: &Arc<Self>, wanted: Amount, is_fresh: bool) -> Result<Publishing, Full> {
        let mut counted = self.lock();
        let Stored { messages, bytes, instances, .. } = counted.stored;
        let is_known = counted.last.is_some();
        for (at, stored) in [messages, bytes].into_iter().enumerate() {
            let Some(most) = self.most[at] else { continue };
            let (new, left) = (counted.added[at] + wanted[at], most - stored);
            let share = if is_fresh { left } else { (left + instances - 1) / instances.max(1) };
            if wanted[at] > 0 && new > share || !is_known {
                let (held, is_certain) =
                    (stored + counted.added[at], is_known && wanted[at] > left);
                return Err(Full { of: at, held, is_certain });
            }
        }
        for (at, wanted) in wanted.into_iter().enumerate() {
            counted.added[at] += wanted;
            counted.under_way[at] += wanted;
        }
        drop(counted);
        Ok(Publishing(self.clone(), wanted))
    }

    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Publishing {
    fn drop(&mut self) {
        let mut counted = self.0.lock();
        for at in 0..2 {
            counted.under_way[at] -= self.1[at];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

    /// What is counted, how often it was, and whether that fails.
    #[derive(Clone, Default)]
    struct Counts(Arc<AtomicI64>, Stored, bool);

    impl Counts {
        fn of(messages: i64, instances: i64, partitions: i64) -> Self {
            let stored = Stored { messages, instances, partitions, ..Stored::default() };
            Self(Arc::default(), stored, false)
        }

        fn made(&self) -> i64 {
            self.0.load(Relaxed)
        }

        async fn take(&self, room: &Arc<Room>, wanted: Amount) -> Result<Publishing, Full> {
            let count = || {
                let Self(made, stored, fails) = self.clone();
                async move {
                    made.fetch_add(1, Relaxed);
                    if fails { Err(Error::RedisUnavailable) } else { Ok(stored) }
                }
            };
            room.take(wanted, count).await
        }
    }

    fn room(messages: i64) -> Arc<Room> {
        Room::new([Some(messages), None]).unwrap()
    }

    #[tokio::test]
    async fn one_instance_counts_again_only_where_there_may_be_no_room() {
        let (room, counts) = (room(100), Counts::of(40, 1, 1));
        for _ in 0..60 {
            counts.take(&room, [1, 1 << 40]).await.unwrap();
        }
        assert_eq!(counts.made(), 1);
        let full = Counts::of(100, 1, 1).take(&room, [1, 0]).await.err().unwrap();
        assert_eq!((full.of, full.held, full.is_certain), (0, 100, true));
        sleep(PACE).await;
        counts.take(&room, [60, 0]).await.expect("some are gone");
        sleep(PACE).await;
        let full = counts.take(&room, [61, 0]).await.err().unwrap();
        assert_eq!((full.held, full.is_certain), (40, true));
        assert!(Room::new([None, None]).is_none());
    }

    #[tokio::test]
    async fn instances_share_what_a_count_leaves_however_old_it_is() {
        // Two instances and a thousand partitions, which are counted once a second.
        let (one, other, counts) = (room(1000), room(1000), Counts::of(0, 2, 1000));
        for _ in 0..500 {
            counts.take(&one, [1, 0]).await.unwrap();
            counts.take(&other, [1, 0]).await.unwrap();
        }
        assert_eq!(counts.made(), 2);
        let begun = Instant::now();
        let next = Counts::of(1000, 2, 1000).take(&one, [1, 0]).await;
        assert!(next.err().unwrap().is_certain, "its share is used up");
        assert!(begun.elapsed() > MAX_AGE / 2, "until it may count again");
        // What a count leaves is for one publish that waited for it, even if it is more than the share.
        let counts = Counts::of(900, 2, 1);
        counts.take(&other, [100, 0]).await.unwrap();
        assert!(counts.take(&other, [101, 0]).await.is_err());
    }

    #[tokio::test]
    async fn what_is_under_way_during_a_count_is_held_against_the_next_ones() {
        let (room, counts) = (room(2), Counts::of(0, 1, 1));
        let publishing = counts.take(&room, [2, 0]).await.unwrap();
        assert!(counts.take(&room, [1, 0]).await.is_err());
        drop(publishing);
        counts.take(&room, [1, 0]).await.unwrap();
    }

    #[tokio::test]
    async fn a_failed_count_serves_all_for_a_second_and_the_last_one_goes_on() {
        let (room, counts) = (room(100), Counts::of(50, 1, 1));
        let fails = Counts(Arc::default(), Stored::default(), true);
        for _ in 0..30 {
            fails.take(&room, [1, 0]).await.expect("what is not known is no obstacle");
        }
        assert_eq!(fails.made(), 1);
        assert!(fails.take(&room, [71, 0]).await.is_err());
        assert_eq!(fails.made(), 1);
        tokio::time::sleep(MAX_AGE).await;
        counts.take(&room, [1, 0]).await.unwrap();
        while counts.made() == 0 || matches!(room.lock().last, Some((_, true))) {
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(MAX_AGE).await;
        for _ in 0..40 {
            fails.take(&room, [1, 0]).await.unwrap();
            tokio::task::yield_now().await;
        }
        assert_eq!((fails.made(), matches!(room.lock().last, Some((_, true)))), (2, true));
        let full = fails.take(&room, [11, 0]).await.err().unwrap();
        assert!(full.held >= 90 && full.of == 0, "{full:?}");
    }
}
