//! The open connections and the limit on them. Every connection is an open file, and the system limits those per process.
//! Idle clients must not keep others out. So at the limit, the connections that have kept dueq waiting longest are closed
//! to make room for new ones.

use std::{
    cmp::Reverse,
    collections::HashMap,
    future::Future,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{runtime::Handle, sync::Notify, task::AbortHandle, time::timeout};

/// A client that connected or was answered this recently is not closed: it may still send its next request.
const MIN_IDLE_MS: u64 = 1_000;
/// A connection with a request in progress is closed after those without one. Once it has made no progress for this long,
/// it counts as one without.
const STALLED_AFTER_MS: u64 = 5_000;
/// At most one in this many connections is closed at once. Closing several spares a flood of new ones a search for each.
const EVICTION_DIVISOR: usize = 64;
/// The interval of new attempts to evict while all clients wait for dueq.
const EVICTION_INTERVAL: Duration = Duration::from_millis(100);
/// Open files besides client connections: those of dueq itself, of Redis, and of callbacks in flight.
const OTHER_FILES: u64 = 64 + 1024;

/// The maximum number of connections, given the wanted number and the system's limit of open files.
pub fn max_connections(wanted: usize, files: Option<u64>) -> usize {
    let Some(files) = files else { return wanted };
    let left = files.saturating_sub(OTHER_FILES).max(files * 3 / 8);
    wanted.min(usize::try_from(left).unwrap_or(wanted))
}

/// The phase of a connection: no request is in progress…
const IDLE: u8 = 0;
/// …the head of one has arrived…
const REQUESTED: u8 = 1;
/// …or its response is being written.
const RESPONDING: u8 = 2;

/// Tracks whether a connection waits for its client, and since when.
pub(super) struct Activity {
    opened: Instant,
    /// When the connection began to wait for its client, ms since `opened` plus one; 0 while the client waits for dueq.
    idle_since: AtomicU64,
    /// When the long poll began, in the same form; 0 if there is none.
    polling_since: AtomicU64,
    /// Ends the long poll.
    evict_poll: Notify,
    phase: AtomicU8,
    /// The request has a body that was not read to its end.
    body_unread: AtomicBool,
}

impl Activity {
    fn new() -> Self {
        Self {
            opened: Instant::now(),
            idle_since: AtomicU64::new(1),
            polling_since: AtomicU64::new(0),
            evict_poll: Notify::new(),
            phase: AtomicU8::new(IDLE),
            body_unread: AtomicBool::new(false),
        }
    }

    /// Records that a request's head has arrived.
    pub fn request_started(&self, has_body: bool) {
        self.phase.store(REQUESTED, Ordering::Relaxed);
        self.body_unread.store(has_body, Ordering::Relaxed);
        self.mark_busy();
    }

    /// Records that a response is ready for the client to read.
    pub fn response_ready(&self) {
        self.phase.store(RESPONDING, Ordering::Relaxed);
        self.mark_idle();
    }

    /// Records that all output was written. After a response, the client may send its next request.
    pub fn flushed(&self) {
        let (relaxed, phase) = (Ordering::Relaxed, &self.phase);
        let _ = phase.compare_exchange(RESPONDING, IDLE, relaxed, relaxed);
    }

    /// Records that dueq waits for the client from now on: to send something, or to read its response.
    pub fn mark_idle(&self) {
        self.idle_since.store(self.now(), Ordering::Relaxed);
    }

    /// Records that the client has sent or read a chunk. This restarts the idle time, if dueq waits for the client.
    pub fn made_progress(&self) {
        if self.idle_ms().is_some() {
            self.mark_idle();
        }
    }

    /// Records that dueq works for the client.
    fn mark_busy(&self) {
        self.idle_since.store(0, Ordering::Relaxed);
    }

    /// Records that the request's body was read to its end.
    pub fn body_read(&self) {
        self.body_unread.store(false, Ordering::Relaxed);
        self.mark_busy();
    }

    /// Returns whether the request was answered, no longer ago than `within`, before its body was read. The client may
    /// still be sending it.
    pub fn body_unread(&self, within: Duration) -> bool {
        let recent = self.idle_ms().is_none_or(|ms| u128::from(ms) <= within.as_millis());
        recent && self.body_unread.load(Ordering::Relaxed)
    }

    /// Begins a long poll. Completes when the poll has to end to make room for other connections.
    pub async fn poll_until_evicted(&self) {
        let evicted = self.evict_poll.notified();
        self.polling_since.store(self.now(), Ordering::Relaxed);
        let _poll = PollGuard(&self.polling_since);
        evicted.await;
    }

    /// How long the connection has waited for its client, ms.
    fn idle_ms(&self) -> Option<u64> {
        self.elapsed_ms(&self.idle_since)
    }

    fn polling_ms(&self) -> Option<u64> {
        self.elapsed_ms(&self.polling_since)
    }

    fn elapsed_ms(&self, since: &AtomicU64) -> Option<u64> {
        let since = since.load(Ordering::Relaxed);
        (since > 0).then(|| self.now().saturating_sub(since))
    }

    fn now(&self) -> u64 {
        self.opened.elapsed().as_millis() as u64 + 1
    }
}

/// Records the end of a long poll when dropped.
struct PollGuard<'a>(&'a AtomicU64);

impl Drop for PollGuard<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// All open connections.
pub(super) struct Connections {
    threads: Vec<Handle>,
    max: usize,
    open: Mutex<Open>,
    closed: Notify,
}

struct Open {
    next: u64,
    /// How many connections each thread serves.
    of_thread: Vec<usize>,
    connections: HashMap<u64, (Arc<Activity>, AbortHandle)>,
}

impl Connections {
    /// Creates an empty set of at most `max` connections that these threads are to serve.
    pub fn new(threads: &[Handle], max: usize) -> Arc<Self> {
        let of_thread = vec![0; threads.len()];
        let open = Mutex::new(Open { next: 0, of_thread, connections: HashMap::new() });
        Arc::new(Self { threads: threads.to_vec(), max, open, closed: Notify::new() })
    }

    /// Serves a connection as a task of its own, on the thread with the fewest connections.
    pub fn spawn<F>(self: &Arc<Self>, serve: impl FnOnce(Arc<Activity>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let activity = Arc::new(Activity::new());
        let served = serve(activity.clone());
        // The lock is held until the task is registered, so that the task cannot end before.
        let mut open = self.lock();
        let number = open.next;
        open.next += 1;
        let threads = self.threads.iter().zip(&mut open.of_thread).enumerate();
        let Some((thread, (handle, count))) = threads.min_by_key(|(_, (_, count))| **count) else {
            return;
        };
        *count += 1;
        let slot = Slot { connections: self.clone(), number, thread };
        let task = handle.spawn(async move {
            let _slot = slot;
            served.await;
        });
        open.connections.insert(number, (activity, task.abort_handle()));
    }

    /// Returns whether the limit is reached.
    pub fn are_full(&self) -> bool {
        self.lock().connections.len() >= self.max
    }

    /// Waits until there is room for another connection, and evicts others if necessary.
    pub async fn wait_for_slot(&self) {
        while self.are_full() {
            self.evict();
            // Other connections may become idle meanwhile.
            let _ = timeout(EVICTION_INTERVAL, self.closed.notified()).await;
        }
    }

    /// Closes some of the connections that have waited longest for their clients. If none waits for its client, ends the
    /// oldest long poll.
    pub fn evict(&self) {
        let open = self.lock();
        let connections = || open.connections.values();
        let mut idle: Vec<_> = connections()
            .filter_map(|(activity, task)| Some((activity.idle_ms()?, activity, task)))
            .collect();
        if idle.is_empty() {
            let polls =
                connections().filter_map(|(activity, _)| Some((activity.polling_ms()?, activity)));
            if let Some((_, activity)) = polls.max_by_key(|(ms, _)| *ms) {
                activity.polling_since.store(0, Ordering::Relaxed);
                activity.evict_poll.notify_waiters();
            }
        }
        let in_progress = |ms: u64, activity: &Activity| {
            ms < STALLED_AFTER_MS && activity.phase.load(Ordering::Relaxed) != IDLE
        };
        // Requests in progress are spared while there are other connections, even if those are too recent to close.
        let others = idle.iter().any(|(ms, activity, _)| !in_progress(*ms, activity));
        idle.retain(|(ms, activity, _)| {
            *ms >= MIN_IDLE_MS && !(others && in_progress(*ms, activity))
        });
        let count = (self.max / EVICTION_DIVISOR).max(1);
        if idle.len() > count {
            idle.select_nth_unstable_by_key(count, |(ms, ..)| Reverse(*ms));
        }
        idle.iter().take(count).for_each(|(.., task)| task.abort());
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        // Nothing panics while it holds the lock.
        self.open.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A connection's slot, freed when dropped.
struct Slot {
    connections: Arc<Connections>,
    number: u64,
    thread: usize,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut open = self.connections.lock();
        open.connections.remove(&self.number);
        open.of_thread[self.thread] -= 1;
        drop(open);
        self.connections.closed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    #[test]
    fn connections_leave_files_for_the_rest() {
        for (wanted, files, max) in [
            (16_384, None, 16_384),
            (16_384, Some(1_048_576), 16_384),
            (16_384, Some(20_000), 16_384),
            (16_384, Some(4_096), 3_008),
            (16_384, Some(1_024), 384),
            (16_384, Some(64), 24),
            (10, Some(64), 10),
        ] {
            assert_eq!(max_connections(wanted, files), max, "{wanted} {files:?}");
        }
    }

    fn fill(connections: &Arc<Connections>) -> Vec<Arc<Activity>> {
        let activities = Mutex::new(Vec::new());
        for _ in 0..connections.max {
            connections.spawn(|activity| {
                activities.lock().unwrap().push(activity);
                pending()
            });
        }
        activities.into_inner().unwrap()
    }

    #[tokio::test]
    async fn the_connection_that_is_idle_longest_is_evicted_and_a_busy_one_stays() {
        let connections = Connections::new(&[Handle::current()], 3);
        let activities = fill(&connections);
        activities[0].mark_busy();
        let full = timeout(Duration::from_millis(300), connections.wait_for_slot()).await;
        assert!(full.is_err(), "none is idle for long");
        activities[1].mark_idle();
        connections.wait_for_slot().await;
        let open: Vec<_> = connections.lock().connections.keys().copied().collect();
        assert_eq!((open.len(), open.contains(&0), open.contains(&1)), (2, true, true), "{open:?}");
    }

    #[tokio::test]
    async fn a_connection_without_a_request_is_evicted_before_one_with_a_request_in_progress() {
        let connections = Connections::new(&[Handle::current()], 2);
        let activities = fill(&connections);
        activities[0].request_started(true);
        activities[0].mark_idle();
        activities[0].flushed();
        tokio::time::sleep(Duration::from_millis(100)).await;
        activities[1].mark_idle();
        connections.wait_for_slot().await;
        let open: Vec<_> = connections.lock().connections.keys().copied().collect();
        assert_eq!(open, [0], "its request is not answered");
    }

    #[tokio::test]
    async fn progress_restarts_the_idle_time_only_while_dueq_waits_for_the_client() {
        let activity = Activity::new();
        activity.request_started(true);
        activity.made_progress();
        assert_eq!(activity.idle_ms(), None, "dueq works");
        activity.mark_idle();
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(activity.idle_ms() >= Some(50));
        activity.made_progress();
        assert!(activity.idle_ms() < Some(50), "{:?}", activity.idle_ms());
    }
}
