//! How much of Redis's own CPU a script took, on a machine that is busy with other things.
//!
//! Redis's slow log knows how long a call took by the clock, other processes included. The kernel knows how long Redis's
//! thread ran and how long it was ready and did not run (`/proc/…/schedstat`). Whatever the slow log shows anew was called
//! between two looks at both, so the call ran for at least its time by the clock less what the thread waited between the
//! looks: never more than the truth, and, with looks so close together, not much less.
//!
//! A call that took longer than the thread ran and waited together stood still in between, with the machine or for a page
//! of memory. Nobody knows how much it ran: such a call does not count.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use deadpool_redis::redis::{self, Connection, Value};

/// Redis notes calls from here on (µs).
pub const NOTED_MICROS: &str = "2000";
/// A test of Redis's clock moves it by more than a script can take (µs).
const CLOCK_MOVED: i64 = 60_000_000;
/// By how much the kernel's figures may lag behind the clock (µs): a tick or two.
const KERNEL_LAG: i64 = 10_000;
/// A Redis that does not answer for so long is asked again later.
const PATIENCE: Duration = Duration::from_secs(2);

/// A script call that Redis noted.
#[derive(Clone, Debug)]
pub struct Script {
    /// Redis's CPU that it took at least, in µs.
    pub micros: i64,
    /// By the clock.
    pub took: i64,
    /// Digest of the script.
    pub sha: String,
    /// Its first key, and how many words it was called with.
    pub called: String,
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [micros, took] = [self.micros, self.took].map(|micros| micros as f64 / 1e3);
        let (sha, called) = (&self.sha, &self.called);
        write!(f, "{micros:.1} ms of Redis's CPU (of {took:.1} ms) for {sha} {called}")
    }
}

/// One process of Redis.
pub struct Server {
    pid: u32,
    url: String,
    /// How often it was stopped or went on: what it did meanwhile has no time that means anything.
    stops: AtomicU64,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    connection: Option<Connection>,
    /// What the kernel knew just before the last look at the slow log, and how often it had been stopped.
    before: Option<(Spent, u64)>,
    /// Number of the next entry of the slow log.
    next: i64,
    scripts: Vec<Script>,
}

/// Of Redis's main thread, µs.
#[derive(Clone, Copy)]
struct Spent {
    ran: i64,
    waited: i64,
}

type Entry = (i64, i64, i64, Vec<Value>, String, String);

impl Server {
    pub(super) fn new(pid: u32, url: &str) -> Server {
        Server { pid, url: url.to_owned(), stops: AtomicU64::default(), seen: Mutex::default() }
    }

    /// It was stopped, or goes on.
    pub fn stopped(&self) {
        self.stops.fetch_add(1, Ordering::SeqCst);
    }

    /// Reads what is new in the slow log.
    pub fn look(&self) {
        let mut seen = self.lock();
        let stops = self.stops.load(Ordering::SeqCst);
        if !stops.is_multiple_of(2) {
            return;
        }
        let Some(now) = self.spent() else { return };
        let Ok(entries) = self.slow_log(&mut seen) else {
            seen.connection = None;
            return;
        };
        let Some(after) = self.spent() else { return };
        let stopped = self.stops.load(Ordering::SeqCst) != stops;
        let before = seen.before.replace((now, stops));
        let new = entries.iter().filter(|entry| entry.0 >= seen.next);
        let scripts: Vec<Script> = match before {
            Some((before, then)) if then == stops && !stopped => {
                let (ran, waited) = (after.ran - before.ran, after.waited - before.waited);
                new.filter_map(|entry| script(entry, ran, waited)).collect()
            }
            _ => Vec::new(),
        };
        seen.scripts.extend(scripts);
        seen.next = entries.iter().map(|entry| entry.0 + 1).fold(seen.next, i64::max);
    }

    pub(super) fn scripts(&self) -> Vec<Script> {
        self.lock().scripts.clone()
    }

    fn slow_log(&self, seen: &mut Seen) -> redis::RedisResult<Vec<Entry>> {
        let connection = match &mut seen.connection {
            Some(connection) => connection,
            none => {
                let client = redis::Client::open(self.url.as_str())?;
                let connection = client.get_connection_with_timeout(PATIENCE)?;
                connection.set_read_timeout(Some(PATIENCE))?;
                connection.set_write_timeout(Some(PATIENCE))?;
                none.insert(connection)
            }
        };
        redis::cmd("SLOWLOG").arg("GET").arg(32).query(connection)
    }

    fn spent(&self) -> Option<Spent> {
        let path = format!("/proc/{0}/task/{0}/schedstat", self.pid);
        let text = std::fs::read_to_string(path).ok()?;
        let mut nanos = text.split_whitespace().map(|word| word.parse::<i64>().ok());
        Some(Spent { ran: nanos.next()?? / 1_000, waited: nanos.next()?? / 1_000 })
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// What this call took, if it is a script's: dueq calls them by digest, and nobody else does.
fn script((_, _, took, words, ..): &Entry, ran: i64, waited: i64) -> Option<Script> {
    let word = |at: usize| match words.get(at) {
        Some(Value::BulkString(word)) => String::from_utf8_lossy(word).into_owned(),
        _ => String::new(),
    };
    let micros = (took - waited).min(ran);
    let stood_still = *took > ran + waited + KERNEL_LAG;
    if !word(0).eq_ignore_ascii_case("EVALSHA") || *took > CLOCK_MOVED || stood_still || micros <= 0
    {
        return None;
    }
    let called = format!("{} ({} words)", word(3), words.len());
    Some(Script { micros, took: *took, sha: word(1), called })
}
