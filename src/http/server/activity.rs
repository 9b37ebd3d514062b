//! What a connection is doing, as far as it matters for who is closed first when there is no room.

use dueq_model::network;
use std::{
    net::IpAddr,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{sync::Notify, task::AbortHandle};

/// A connection with a request in progress is closed after those without one. Once it has made no progress for this long,
/// it counts as one without.
const STALLED_AFTER_MS: u64 = 5_000;
/// The phase of a connection: it begins, with a handshake perhaps…
const BEGINNING: u8 = 3;
/// …no request is in progress…
const IDLE: u8 = 0;
/// …the head of one has arrived…
const REQUESTED: u8 = 1;
/// …or its response is being written.
const RESPONDING: u8 = 2;

/// Tracks whether a connection waits for its client, and since when.
pub(crate) struct Activity {
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
    /// A request on it was let in.
    is_known: AtomicBool,
    /// hyper serves it, and sees itself when the server stops.
    has_hyper: AtomicBool,
    /// How many requests have come.
    requests: AtomicU64,
    /// Where it comes from; `None` where a trusted proxy has not said yet.
    source: Mutex<Option<IpAddr>>,
    /// How many connections begin.
    beginning: Arc<AtomicUsize>,
    /// What serves it, once that has begun.
    pub task: OnceLock<AbortHandle>,
}

impl Activity {
    /// Of a new connection from here, which counts as one that begins.
    pub fn new(beginning: Arc<AtomicUsize>, source: Option<IpAddr>) -> Self {
        beginning.fetch_add(1, Ordering::Relaxed);
        Self {
            opened: Instant::now(),
            idle_since: AtomicU64::new(1),
            polling_since: AtomicU64::new(0),
            evict_poll: Notify::new(),
            phase: AtomicU8::new(BEGINNING),
            body_unread: AtomicBool::new(false),
            is_known: AtomicBool::new(false),
            has_hyper: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            source: Mutex::new(source.map(network)),
            beginning,
            task: OnceLock::new(),
        }
    }

    /// Closes the connection.
    pub fn close(&self) {
        self.task.get().inspect(|task| task.abort());
    }

    /// Records that hyper serves it from now on.
    pub fn goes_on_with_hyper(&self) {
        self.has_hyper.store(true, Ordering::Relaxed);
    }

    /// Does it wait for a request, and nothing else would end that when the server stops?
    pub fn is_parked(&self) -> bool {
        self.awaits_head() && !self.has_hyper.load(Ordering::Relaxed)
    }

    /// Records that requests may come.
    pub fn accepted(&self) {
        self.has_begun();
        self.mark_idle();
    }

    fn has_begun(&self) {
        if self.phase.swap(IDLE, Ordering::Relaxed) == BEGINNING {
            self.beginning.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Records that a request's head has arrived.
    pub fn request_started(&self, has_body: bool) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.phase.store(REQUESTED, Ordering::Relaxed);
        self.body_unread.store(has_body, Ordering::Relaxed);
        self.mark_busy();
    }

    /// Records that a request was let in: its client is no stranger.
    pub fn let_in(&self) {
        self.is_known.store(true, Ordering::Relaxed);
    }

    /// Was a request on it let in?
    pub fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    /// May what is read next be of a head?
    pub fn awaits_head(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == IDLE
    }

    /// How many requests have come.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Records which client a trusted proxy sends a request for.
    pub fn is_from(&self, client: IpAddr) {
        *self.source.lock().unwrap_or_else(PoisonError::into_inner) = Some(network(client));
    }

    /// The address that it counts for, or the network of 64 bits in IPv6.
    pub fn source(&self) -> Option<IpAddr> {
        *self.source.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does it wait for its handshake?
    pub fn begins(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == BEGINNING
    }

    /// Was a request on it let in, and does none stall that has waited for its client for `ms`?
    pub fn is_of_good_client(&self, ms: u64) -> bool {
        let stalls = ms >= STALLED_AFTER_MS && self.has_request();
        self.is_known() && !stalls
    }

    /// Is a request under way, though it has waited for its client for `ms`?
    pub fn is_in_progress(&self, ms: u64) -> bool {
        ms < STALLED_AFTER_MS && self.has_request()
    }

    fn has_request(&self) -> bool {
        matches!(self.phase.load(Ordering::Relaxed), REQUESTED | RESPONDING)
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
    pub fn mark_busy(&self) {
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

    /// Ends its long poll.
    pub fn end_poll(&self) {
        self.polling_since.store(0, Ordering::Relaxed);
        self.evict_poll.notify_waiters();
    }

    /// How long the connection has waited for its client, ms.
    pub fn idle_ms(&self) -> Option<u64> {
        self.elapsed_ms(&self.idle_since)
    }

    /// How long its long poll waits, ms.
    pub fn polling_ms(&self) -> Option<u64> {
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

impl Drop for Activity {
    fn drop(&mut self) {
        self.has_begun();
    }
}

/// Records the end of a long poll when dropped.
struct PollGuard<'a>(&'a AtomicU64);

impl Drop for PollGuard<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn progress_restarts_the_idle_time_only_while_dueq_waits_for_the_client() {
        let activity = Activity::new(Arc::default(), None);
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
