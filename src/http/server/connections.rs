//! The open connections and the limit on them. Every connection is an open file, and the system limits those per process.
//! Idle clients must not keep others out. So at the limit, the connections that have kept dueq waiting longest are closed
//! to make room for new ones.

use super::activity::Activity;
use futures_util::FutureExt;
use prometheus_client::metrics::gauge::Gauge;
use std::{
    cmp::Reverse,
    collections::HashMap,
    future::Future,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{runtime::Handle, sync::Notify, time::timeout};

/// A client that connected or was answered this recently is not closed: it may still send its next request.
const MIN_IDLE_MS: u64 = 1_000;
/// At most one in this many connections is closed at once. Closing several spares a flood of new ones a search for each.
const EVICTION_DIVISOR: usize = 64;
/// An address with more than this part of all connections makes room before others, and sooner.
const SHARE_DIVISOR: usize = 4;
const MIN_CROWD_IDLE_MS: u64 = 100;
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

/// Handshakes under way. The buffers of one can be made to hold 64 KiB.
const MAX_HANDSHAKES: usize = 1024;

/// All open connections.
pub(crate) struct Connections {
    threads: Vec<Handle>,
    max: usize,
    open: Mutex<Open>,
    closed: Notify,
    /// How many begin.
    beginning: Arc<AtomicUsize>,
    /// How many are open, for operators.
    gauge: Gauge,
}

struct Open {
    next: u64,
    /// How many connections each thread serves.
    of_thread: Vec<usize>,
    connections: HashMap<u64, Arc<Activity>>,
}

impl Connections {
    /// Creates an empty set of at most `max` connections that these threads are to serve; `gauge` shows how many are open.
    pub fn new(threads: &[Handle], max: usize, gauge: Gauge) -> Arc<Self> {
        let of_thread = vec![0; threads.len()];
        let open = Mutex::new(Open { next: 0, of_thread, connections: HashMap::new() });
        let (closed, beginning) = (Notify::new(), Arc::default());
        Arc::new(Self { threads: threads.to_vec(), max, open, closed, beginning, gauge })
    }

    /// Serves a connection from here as a task of its own, on the thread with the fewest connections.
    pub fn spawn<F>(
        self: &Arc<Self>,
        source: Option<IpAddr>,
        serve: impl FnOnce(Arc<Activity>) -> F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let activity = Arc::new(Activity::new(self.beginning.clone(), source));
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
        // A block that awaits what it captures would have room for it twice.
        let task = handle.spawn(served.map(|()| drop(slot)));
        let _ = activity.task.set(task.abort_handle());
        open.connections.insert(number, activity);
        self.gauge.inc();
    }

    /// Returns whether a limit is reached.
    pub fn are_full(&self) -> bool {
        self.too_many_begin() || self.lock().connections.len() >= self.max
    }

    fn too_many_begin(&self) -> bool {
        self.beginning.load(Ordering::Relaxed) >= MAX_HANDSHAKES
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
    /// oldest long poll. If too many begin, only those are closed. Among connections that are equal otherwise, those of an address
    /// that has more than its share go first.
    pub fn evict(&self) {
        let too_many_begin = self.too_many_begin();
        let open = self.lock();
        let crowd = open.crowd(self.max / SHARE_DIVISOR);
        let is_of_crowd = |activity: &Activity| crowd.is_some() && activity.source() == crowd;
        let connections = || {
            let all = open.connections.values();
            all.filter(|activity| !too_many_begin || activity.begins())
        };
        let mut idle: Vec<_> =
            connections().filter_map(|activity| Some((activity.idle_ms()?, activity))).collect();
        if idle.is_empty() {
            let polls =
                connections().filter_map(|activity| Some((activity.polling_ms()?, activity)));
            let oldest = |(ms, activity): &(u64, &Arc<Activity>)| (is_of_crowd(activity), *ms);
            if let Some((_, activity)) = polls.max_by_key(oldest) {
                activity.end_poll();
            }
        }
        // Clients that were let in are spared while there are strangers…
        if idle.iter().any(|(ms, activity)| !activity.is_of_good_client(*ms)) {
            idle.retain(|(ms, activity)| !activity.is_of_good_client(*ms));
        }
        // …and requests in progress while there are other connections, even if those are too recent to close.
        let others = idle.iter().any(|(ms, activity)| !activity.is_in_progress(*ms));
        idle.retain(|(ms, activity)| !(others && activity.is_in_progress(*ms)));
        let crowded = idle.iter().filter(|(_, activity)| is_of_crowd(activity)).count();
        let min_idle_ms = if (1..idle.len()).contains(&crowded) {
            idle.retain(|(_, activity)| is_of_crowd(activity));
            MIN_CROWD_IDLE_MS
        } else {
            MIN_IDLE_MS
        };
        idle.retain(|(ms, ..)| *ms >= min_idle_ms);
        let count = (self.max / EVICTION_DIVISOR).max(1);
        if idle.len() > count {
            idle.select_nth_unstable_by_key(count, |(ms, ..)| Reverse(*ms));
        }
        idle.iter().take(count).for_each(|(_, activity)| activity.close());
    }

    /// Closes those that wait for a request.
    pub fn close_idle(&self) {
        let open = self.lock();
        open.connections.values().filter(|it| it.is_parked()).for_each(|it| it.close());
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        // Nothing panics while it holds the lock.
        self.open.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Open {
    /// The address with the most connections, if it has more than `share`.
    fn crowd(&self, share: usize) -> Option<IpAddr> {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for source in self.connections.values().filter_map(|activity| activity.source()) {
            *counts.entry(source).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        most.filter(|(_, count)| *count > share).map(|(source, _)| source)
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
        self.connections.gauge.dec();
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
            connections.spawn(None, |activity| {
                activities.lock().unwrap().push(activity);
                pending()
            });
        }
        activities.into_inner().unwrap()
    }

    #[tokio::test]
    async fn the_connection_that_is_idle_longest_is_evicted_and_a_busy_one_stays() {
        let connections = Connections::new(&[Handle::current()], 3, Gauge::default());
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
    async fn an_address_with_more_than_its_share_makes_room_first_and_a_proxy_counts_by_its_clients()
     {
        let connections = Connections::new(&[Handle::current()], 8, Gauge::default());
        let activities = fill(&connections);
        let address = |last: u8| IpAddr::from([192, 0, 2, last]);
        // The first five are of clients of their own behind a proxy, the others of one.
        for (at, activity) in activities.iter().enumerate() {
            activity.is_from(address(at.min(5) as u8));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        activities[5..].iter().for_each(|activity| activity.mark_idle());
        connections.wait_for_slot().await;
        let open: Vec<_> = connections.lock().connections.keys().copied().collect();
        assert!((0..5).all(|at| open.contains(&at)) && open.len() == 7, "{open:?}");
        // Then nobody has more than a quarter, and who waits longest goes.
        tokio::time::sleep(Duration::from_millis(MIN_IDLE_MS)).await;
        connections.evict();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let open: Vec<_> = connections.lock().connections.keys().copied().collect();
        assert_eq!(open.iter().filter(|at| **at < 5).count(), 4, "{open:?}");
    }

    #[tokio::test]
    async fn clients_that_were_let_in_stay_while_there_are_strangers() {
        let connections = Connections::new(&[Handle::current()], 2, Gauge::default());
        let activities = fill(&connections);
        activities[0].let_in();
        tokio::time::sleep(Duration::from_millis(100)).await;
        activities[1].mark_idle();
        connections.wait_for_slot().await;
        let open: Vec<_> = connections.lock().connections.keys().copied().collect();
        assert_eq!(open, [0], "though it waits longer");
    }

    #[tokio::test]
    async fn too_many_handshakes_make_room_by_themselves() {
        let connections =
            Connections::new(&[Handle::current()], MAX_HANDSHAKES * 2, Gauge::default());
        let mut activities = Vec::new();
        for _ in 0..=MAX_HANDSHAKES {
            connections.spawn(None, |activity| {
                activities.push(activity);
                pending()
            });
        }
        activities[0].accepted();
        tokio::time::sleep(Duration::from_millis(100)).await;
        activities[1..].iter().for_each(|activity| activity.mark_idle());
        drop(activities);
        connections.wait_for_slot().await;
        let open = connections.lock();
        assert!(open.connections.contains_key(&0), "no handshake, though it waits longest");
        assert!(open.connections.len() < MAX_HANDSHAKES + 1);
    }

    #[tokio::test]
    async fn a_connection_without_a_request_is_evicted_before_one_with_a_request_in_progress() {
        let connections = Connections::new(&[Handle::current()], 2, Gauge::default());
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
}
