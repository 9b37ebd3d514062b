//! The connections that are open, and the bound on them. Every connection is a file, of which the system gives a process
//! only so many; whoever opens them and keeps silent must not keep the others out. So where there is no place left, those
//! who have kept dueq waiting longest are closed for whoever comes.

use std::{
    collections::HashMap,
    future::Future,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{sync::Notify, task::AbortHandle, time::timeout};

/// A client that came or was answered so shortly ago may still send its next request.
const GRACE_MS: u64 = 1_000;
/// The part of the connections that is closed at once, so that a flood of new ones is not a search for each.
const PART: usize = 64;
/// While all places are taken by clients that wait for dueq.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Files beside clients' connections: those of dueq itself and of Redis, and those of calls under way.
const OTHER_FILES: u64 = 64 + 1024;

/// How many connections there may be where `wanted` are asked for and the system allows so many open files.
pub fn most(wanted: usize, files: Option<u64>) -> usize {
    let Some(files) = files else { return wanted };
    let left = files.saturating_sub(OTHER_FILES).max(files * 3 / 8);
    wanted.min(usize::try_from(left).unwrap_or(wanted))
}

/// Whether a connection waits for its client, and since when.
pub(super) struct Life {
    opened: Instant,
    /// ms since `opened`, plus one; 0 while the client waits for dueq.
    waits_since: AtomicU64,
    refused: AtomicBool,
}

impl Life {
    /// The client is to send something, or to read what it was sent: from now on.
    pub fn waits(&self) {
        let since = self.opened.elapsed().as_millis() as u64 + 1;
        self.waits_since.store(since, Ordering::Relaxed);
    }

    /// dueq works for the client.
    pub fn works(&self) {
        self.waits_since.store(0, Ordering::Relaxed);
    }

    /// A body was refused before it was read whole: the client may still be sending.
    pub fn refuse_body(&self) {
        self.refused.store(true, Ordering::Relaxed);
    }

    /// Was one?
    pub fn refused_body(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// How long it has waited for its client, ms.
    fn waited(&self) -> Option<u64> {
        let since = self.waits_since.load(Ordering::Relaxed);
        let now = self.opened.elapsed().as_millis() as u64 + 1;
        (since > 0).then(|| now.saturating_sub(since))
    }
}

/// All open connections.
pub(super) struct Connections {
    most: usize,
    open: Mutex<Open>,
    left: Notify,
}

#[derive(Default)]
struct Open {
    next: u64,
    connections: HashMap<u64, (Arc<Life>, AbortHandle)>,
}

impl Connections {
    /// None yet, `most` at most.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, open: Mutex::default(), left: Notify::new() })
    }

    /// Serves a connection as a task of its own.
    pub fn spawn<F>(self: &Arc<Self>, serve: impl FnOnce(Arc<Life>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (waits_since, refused) = (AtomicU64::new(1), AtomicBool::new(false));
        let life = Arc::new(Life { opened: Instant::now(), waits_since, refused });
        let served = serve(life.clone());
        // Held until the task is noted, so that it cannot leave before.
        let mut open = self.lock();
        let number = open.next;
        open.next += 1;
        let place = Place { connections: self.clone(), number };
        let task = tokio::spawn(async move {
            let _place = place;
            served.await;
        });
        open.connections.insert(number, (life, task.abort_handle()));
    }

    /// Is every place taken?
    pub fn are_full(&self) -> bool {
        self.lock().connections.len() >= self.most
    }

    /// Waits for a place, and makes one where a connection waits for its client.
    pub async fn place(&self) {
        while self.are_full() {
            self.make_room();
            // Somebody may begin to wait for its client meanwhile.
            let _ = timeout(LOOK_EVERY, self.left.notified()).await;
        }
    }

    /// Closes some of those that have waited longest for their clients.
    pub fn make_room(&self) {
        let open = self.lock();
        let mut waiting: Vec<_> = open
            .connections
            .values()
            .filter_map(|(life, task)| Some((life.waited().filter(|ms| *ms >= GRACE_MS)?, task)))
            .collect();
        let some = (self.most / PART).max(1);
        if waiting.len() > some {
            waiting.select_nth_unstable_by_key(some, |(ms, _)| std::cmp::Reverse(*ms));
        }
        waiting.iter().take(some).for_each(|(_, task)| task.abort());
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        // Nothing in here panics half way through a change.
        self.open.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A connection's place, given back however it ends.
struct Place {
    connections: Arc<Connections>,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.lock().connections.remove(&self.number);
        self.connections.left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    #[test]
    fn connections_leave_files_for_the_rest() {
        for (wanted, files, most_of_them) in [
            (16_384, None, 16_384),
            (16_384, Some(1_048_576), 16_384),
            (16_384, Some(20_000), 16_384),
            (16_384, Some(4_096), 3_008),
            (16_384, Some(1_024), 384),
            (16_384, Some(64), 24),
            (10, Some(64), 10),
        ] {
            assert_eq!(most(wanted, files), most_of_them, "{wanted} {files:?}");
        }
    }

    #[tokio::test]
    async fn who_has_waited_longest_makes_room_and_who_is_served_stays() {
        let connections = Connections::new(3);
        let lives = Mutex::new(Vec::new());
        for _ in 0..3 {
            connections.spawn(|life| {
                lives.lock().unwrap().push(life);
                pending()
            });
        }
        let lives = lives.into_inner().unwrap();
        lives[0].works();
        let full = timeout(Duration::from_millis(300), connections.place()).await;
        assert!(full.is_err(), "nobody has waited for long");
        lives[1].waits();
        connections.place().await;
        let open: Vec<_> = connections.lock().connections.keys().copied().collect();
        assert_eq!((open.len(), open.contains(&0), open.contains(&1)), (2, true, true), "{open:?}");
    }
}
