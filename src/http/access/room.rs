//! How much a key may store: what the topics that it may publish to hold together, whoever published it. The topics are counted
//! in Redis; between two counts an instance adds what it publishes for the key. A publish waits for a count where the quota
//! would be exceeded, where the last count is old, and where several instances run, once 1 % of the quota was published in
//! all. A count waits for the publishes of the key that are under way, so that it sees them.

use crate::{error::Error, store::Stored};
use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::{RwLock, RwLockReadGuard};

/// A count is that old at most, unless there are many partitions to look at…
const MAX_AGE: Duration = Duration::from_secs(1);
/// …since for each of them a count is waited for: so counting takes Redis a few hundredths of its time at most.
const PACE: Duration = Duration::from_millis(1);

/// Messages and bytes.
type Amount = [i64; 2];

/// What a key may store, and what was counted of it.
#[derive(Debug)]
pub struct Room {
    /// How many messages and how many bytes, where that is limited.
    pub most: [Option<i64>; 2],
    counted: RwLock<Counted>,
    /// What was published since.
    added: Mutex<Amount>,
}

#[derive(Debug, Default)]
struct Counted {
    stored: Stored,
    at: Option<Instant>,
}

/// A publish under way. No count begins before it is dropped.
pub struct Publishing<'a>(#[expect(dead_code, reason = "it is held")] RwLockReadGuard<'a, Counted>);

/// Why something is not published.
#[derive(Debug)]
pub enum NoRoom {
    /// There are as many messages (0) or bytes (1) as may be, so many.
    Full(usize, i64),
    /// They could not be counted.
    Failed(Error),
}

impl Counted {
    fn is_older_than(&self, age: Duration) -> bool {
        self.at.is_none_or(|at| at.elapsed() >= age)
    }

    fn pace(&self) -> Duration {
        PACE * self.stored.partitions.clamp(1, 1 << 20) as u32
    }
}

impl Room {
    /// For as many messages and bytes; `None` where neither is limited.
    pub fn new(most: [Option<i64>; 2]) -> Option<Self> {
        let is_limited = most.iter().any(Option::is_some);
        is_limited.then(|| Self { most, counted: RwLock::default(), added: Mutex::default() })
    }

    /// Takes the room for what is to be published. `count` says what is stored.
    pub async fn take(
        &self,
        wanted: Amount,
        count: impl Future<Output = Result<Stored, Error>>,
    ) -> Result<Publishing<'_>, NoRoom> {
        let counted = self.counted.read().await;
        let age = MAX_AGE.max(counted.pace());
        if !counted.is_older_than(age) && self.add(&counted, wanted, true).is_ok() {
            return Ok(Publishing(counted));
        }
        drop(counted);
        let mut counted = self.counted.write().await;
        if counted.is_older_than(counted.pace()) {
            let stored = count.await.map_err(NoRoom::Failed)?;
            *counted = Counted { stored, at: Some(Instant::now()) };
            *self.added.lock().unwrap_or_else(PoisonError::into_inner) = [0, 0];
        }
        let counted = counted.downgrade();
        self.add(&counted, wanted, false)?;
        Ok(Publishing(counted))
    }

    /// Adds this where there is room; `is_shared`: other instances may add as well.
    fn add(&self, counted: &Counted, wanted: Amount, is_shared: bool) -> Result<(), NoRoom> {
        let Stored { messages, bytes, instances, .. } = counted.stored;
        let mut added = self.added.lock().unwrap_or_else(PoisonError::into_inner);
        for (at, stored) in [messages, bytes].into_iter().enumerate() {
            let Some(most) = self.most[at] else { continue };
            let new = added[at] + wanted[at];
            let share = if is_shared && instances > 1 { most / 100 / instances } else { most };
            if stored + new > most || (new > share && added[at] > 0) {
                return Err(NoRoom::Full(at, stored + added[at]));
            }
        }
        *added = [added[0] + wanted[0], added[1] + wanted[1]];
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

    async fn take(room: &Room, wanted: Amount, stored: Stored, counts: &AtomicI64) -> bool {
        let count = async {
            counts.fetch_add(1, Relaxed);
            Ok(stored)
        };
        room.take(wanted, count).await.is_ok()
    }

    #[tokio::test]
    async fn one_instance_counts_again_only_where_there_may_be_no_room() {
        let (room, counts) = (Room::new([Some(100), None]).unwrap(), AtomicI64::new(0));
        let stored = Stored { messages: 40, partitions: 1, instances: 1, ..Stored::default() };
        for _ in 0..60 {
            assert!(take(&room, [1, 1 << 40], stored, &counts).await);
        }
        assert_eq!(counts.load(Relaxed), 1);
        tokio::time::sleep(PACE).await;
        let full = Stored { messages: 100, ..stored };
        assert!(!take(&room, [1, 0], full, &counts).await);
        tokio::time::sleep(PACE).await;
        assert!(take(&room, [60, 0], stored, &counts).await, "some are gone");
        tokio::time::sleep(PACE).await;
        assert!(!take(&room, [61, 0], stored, &counts).await);
        assert_eq!(counts.load(Relaxed), 4);
    }

    #[tokio::test]
    async fn several_instances_count_after_a_hundredth_of_the_quota() {
        let (room, counts) = (Room::new([None, Some(10_000)]).unwrap(), AtomicI64::new(0));
        let stored = Stored { partitions: 1, instances: 2, ..Stored::default() };
        for _ in 0..10 {
            assert!(take(&room, [1, 10], stored, &counts).await);
        }
        // 50 bytes are its share.
        tokio::time::sleep(PACE).await;
        assert!(take(&room, [1, 10], stored, &counts).await);
        assert!((2..=3).contains(&counts.load(Relaxed)), "{counts:?}");
    }

    #[tokio::test]
    async fn a_count_waits_for_what_is_being_published() {
        let (room, counts) = (Room::new([Some(2), None]).unwrap(), AtomicI64::new(0));
        let stored = Stored { partitions: 1, instances: 1, ..Stored::default() };
        let publishing = room.take([2, 0], async { Ok(stored) }).await.unwrap();
        tokio::time::sleep(PACE).await;
        let next = take(&room, [1, 0], stored, &counts);
        tokio::pin!(next);
        assert!(tokio::time::timeout(PACE * 20, &mut next).await.is_err());
        drop(publishing);
        assert!(next.await);
        assert!(Room::new([None, None]).is_none());
    }
}
