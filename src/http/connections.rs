//! The connections that are open, and the bound on them. Every connection is a file, of which the system gives a process
//! only so many; whoever opens them and keeps silent must not keep the others out. So where there is no place left, those
//! who have kept dueq waiting longest are closed for whoever comes.

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

/// A client that came or was answered so shortly ago may still send its next request.
const GRACE_MS: u64 = 1_000;
/// Whoever has begun a request and goes on with it is closed after those who have begun none; after so long without any
/// progress it counts for no more than they do.
const STALLED_MS: u64 = 5_000;
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

/// What is under way on a connection: no request…
const IDLE: u8 = 0;
/// …one whose head is there…
const ASKED: u8 = 1;
/// …or one whose answer is being written.
const ANSWERED: u8 = 2;

/// Whether a connection waits for its client, and since when.
pub(super) struct Life {
    opened: Instant,
    /// ms since `opened`, plus one; 0 while the client waits for dueq.
    waits_since: AtomicU64,
    /// As `waits_since`, while it is a long poll.
    polls_since: AtomicU64,
    /// Ends the long poll.
    cut: Notify,
    phase: AtomicU8,
    /// The request has a body that was not read to its end.
    owes_body: AtomicBool,
}

impl Life {
    fn new() -> Self {
        Self {
            opened: Instant::now(),
            waits_since: AtomicU64::new(1),
            polls_since: AtomicU64::new(0),
            cut: Notify::new(),
            phase: AtomicU8::new(IDLE),
            owes_body: AtomicBool::new(false),
        }
    }

    /// A request's head is there.
    pub fn begins(&self, has_body: bool) {
        self.phase.store(ASKED, Ordering::Relaxed);
        self.owes_body.store(has_body, Ordering::Relaxed);
        self.works();
    }

    /// There is an answer for the client to read.
    pub fn answers(&self) {
        self.phase.store(ANSWERED, Ordering::Relaxed);
        self.waits();
    }

    /// All that there was is written: if there was an answer, the client may send its next request.
    pub fn wrote_all(&self) {
        let (relaxed, phase) = (Ordering::Relaxed, &self.phase);
        let _ = phase.compare_exchange(ANSWERED, IDLE, relaxed, relaxed);
    }

    /// The client is to send something, or to read what it was sent: from now on.
    pub fn waits(&self) {
        self.waits_since.store(self.now(), Ordering::Relaxed);
    }

    /// The client has sent or taken a good piece of what it is waited for.
    pub fn progresses(&self) {
        if self.waited().is_some() {
            self.waits();
        }
    }

    /// dueq works for the client.
    pub fn works(&self) {
        self.waits_since.store(0, Ordering::Relaxed);
    }

    /// The request's body was read to its end.
    pub fn has_read_body(&self) {
        self.owes_body.store(false, Ordering::Relaxed);
        self.works();
    }

    /// Was the request answered without that, no longer ago than this? The client may still be sending then.
    pub fn owes_body(&self, within: Duration) -> bool {
        let recent = self.waited().is_none_or(|ms| u128::from(ms) <= within.as_millis());
        recent && self.owes_body.load(Ordering::Relaxed)
    }

    /// A long poll begins: ready when it is to end so that others find a place.
    pub async fn polls_until_cut(&self) {
        let cut = self.cut.notified();
        self.polls_since.store(self.now(), Ordering::Relaxed);
        let _over = Over(&self.polls_since);
        cut.await;
    }

    /// How long it has waited for its client, ms.
    fn waited(&self) -> Option<u64> {
        self.since(&self.waits_since)
    }

    fn since(&self, since: &AtomicU64) -> Option<u64> {
        let since = since.load(Ordering::Relaxed);
        (since > 0).then(|| self.now().saturating_sub(since))
    }

    fn now(&self) -> u64 {
        self.opened.elapsed().as_millis() as u64 + 1
    }
}

/// Notes the end of a long poll, however it ends.
struct Over<'a>(&'a AtomicU64);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
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

    /// Serves a connection as a task of its own on this thread.
    pub fn spawn<F>(self: &Arc<Self>, thread: &Handle, serve: impl FnOnce(Arc<Life>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let life = Arc::new(Life::new());
        let served = serve(life.clone());
        // Held until the task is noted, so that it cannot leave before.
        let mut open = self.lock();
        let number = open.next;
        open.next += 1;
        let place = Slot { connections: self.clone(), number };
        let task = thread.spawn(async move {
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

    /// Closes some of those that have waited longest for their clients; where none waits for its client, the oldest long
    /// poll is ended.
    pub fn make_room(&self) {
        let open = self.lock();
        let lives = || open.connections.values();
        let mut waiting: Vec<_> =
            lives().filter_map(|(life, task)| Some((life.waited()?, life, task))).collect();
        if waiting.is_empty() {
            let polls =
                lives().filter_map(|(life, _)| Some((life.since(&life.polls_since)?, life)));
            if let Some((_, life)) = polls.max_by_key(|(ms, _)| *ms) {
                life.polls_since.store(0, Ordering::Relaxed);
                life.cut.notify_waiters();
            }
        }
        let goes_on =
            |ms: u64, life: &Life| ms < STALLED_MS && life.phase.load(Ordering::Relaxed) != IDLE;
        // Whoever goes on with a request stays as long as there is anybody else, who may have to come of age first.
        let others = waiting.iter().any(|(ms, life, _)| !goes_on(*ms, life));
        waiting.retain(|(ms, life, _)| *ms >= GRACE_MS && !(others && goes_on(*ms, life)));
        let some = (self.most / PART).max(1);
        if waiting.len() > some {
            waiting.select_nth_unstable_by_key(some, |(ms, ..)| Reverse(*ms));
        }
        waiting.iter().take(some).for_each(|(.., task)| task.abort());
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        // Nothing in here panics half way through a change.
        self.open.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A connection's place, given back however it ends.
struct Slot {
    connections: Arc<Connections>,
    number: u64,
}

impl Drop for Slot {
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
            connections.spawn(&Handle::current(), |life| {
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

    #[tokio::test]
    async fn who_goes_on_with_a_request_stays_before_who_has_begun_none() {
        let connections = Connections::new(2);
        let lives = Mutex::new(Vec::new());
        for _ in 0..2 {
            connections.spawn(&Handle::current(), |life| {
                lives.lock().unwrap().push(life);
                pending()
            });
        }
        let lives = lives.into_inner().unwrap();
        lives[0].begins(true);
        lives[0].waits();
        lives[0].wrote_all();
        tokio::time::sleep(Duration::from_millis(100)).await;
        lives[1].waits();
        connections.place().await;
        let open: Vec<_> = connections.lock().connections.keys().copied().collect();
        assert_eq!(open, [0], "its request is not answered");
    }

    #[tokio::test]
    async fn progress_is_that_of_whoever_is_waited_for() {
        let life = Life::new();
        life.begins(true);
        life.progresses();
        assert_eq!(life.waited(), None, "dueq works");
        life.waits();
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(life.waited() >= Some(50));
        life.progresses();
        assert!(life.waited() < Some(50), "{:?}", life.waited());
    }
}
