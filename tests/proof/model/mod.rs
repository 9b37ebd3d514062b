//! The model test: random sequences of all operations of the contract, against a simple model of it in
//! memory. After each step the answer, the topic's counts and totals, and a message that the step was
//! about must be what the model says. A sequence that fails is shrunk to a short one.
//!
//! One client sends one request after another, through two instances in turn, and time passes only
//! when a step says so ([`clock`]): so the model knows everything to the millisecond. What the
//! contract leaves open (which of two due in the same millisecond is dropped first, a backoff's
//! jitter) is taken from the answer, if it is allowed.

mod broken;
mod bulk;
mod change;
mod clock;
mod config;
mod groups;
mod hold;
mod holding;
mod known;
mod look;
mod operating;
mod publish;
mod shrink;
mod steps;
mod strategy;
mod walk;
mod wire;
mod words;
mod world;

use std::cell::Cell;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use self::broken::{Kept, must};
use self::clock::StillRedis;
use self::shrink::Sequence;
use self::steps::Step;
use self::walk::Walk;
use self::wire::Talk;
use crate::harness::Dueq;
use crate::proof::audit::{Audit, connect};
use crate::proof::bugs::probes::leftovers::leftovers;

/// How long a sequence is shrunk at most.
const SHRINK: Duration = Duration::from_secs(40);

/// What a run came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    pub sequences: usize,
    pub steps: usize,
    pub requests: u64,
    pub took: Duration,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { sequences, steps, requests, took } = self;
        let seconds = took.as_secs_f64();
        write!(f, "{sequences} sequences, {steps} steps, {requests} requests in {seconds:.1} s")
    }
}

/// A sequence that did not go as the model says.
#[derive(Debug)]
pub struct Failure {
    /// The promise that was broken: an invariant's name where one fits.
    pub promise: &'static str,
    /// How.
    pub text: String,
    /// What draws the sequence again, as the first of a run.
    pub seed: u64,
    /// The sequence, shrunk, with what was said.
    pub heard: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.heard {
            writeln!(f, "{line}")?;
        }
        writeln!(f, "{} is broken: {}", self.promise, self.text)?;
        write!(f, "again: DUEQ_TEST_SEED={} cargo test --test faults model", self.seed)
    }
}

/// Two instances on one Redis, and a runtime to talk to them.
struct Place {
    redis: StillRedis,
    _dueqs: [Dueq; 2],
    addrs: [String; 2],
    runtime: tokio::runtime::Runtime,
    name: usize,
    walked: Cell<usize>,
    requests: Cell<u64>,
}

impl Place {
    fn start(name: usize, bug: Option<&'static str>) -> Place {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let redis = runtime.block_on(StillRedis::start());
        let start = || runtime.block_on(Dueq::at(&redis.url()).bug(bug).start());
        let dueqs = [start(), start()];
        let addrs = [dueqs[0].addr().to_owned(), dueqs[1].addr().to_owned()];
        let (walked, requests) = (Cell::new(0), Cell::new(0));
        Place { redis, _dueqs: dueqs, addrs, runtime, name, walked, requests }
    }

    /// Walks a sequence on topics of its own; what was said, where that is wanted.
    fn walk(&self, steps: &[Step], listen: bool) -> (Kept, Option<Vec<String>>) {
        let n = self.walked.replace(self.walked.get() + 1);
        let names = ["one", "two"].map(|topic| format!("model-{}-{n}-{topic}", self.name));
        self.runtime.block_on(async {
            let talk = Talk::with(&self.addrs, listen).await;
            let mut walk = Walk::new(&self.redis.clock, talk, names);
            let mut kept = walk.all(steps).await;
            if kept.is_ok() {
                kept = self.audited(&walk.names).await;
            }
            let cleared = walk.clear().await;
            if kept.is_ok() {
                kept = cleared;
            }
            if kept.is_ok() {
                kept = self.cleared(&walk.names).await;
            }
            self.requests.set(self.requests.get() + walk.talk.requests);
            (kept, walk.talk.heard)
        })
    }

    /// What lies in Redis at the end of a sequence: nothing of messages that are gone, and totals that add up.
    async fn audited(&self, names: &[String]) -> Kept {
        let mut connection = connect(&self.redis.url()).await.expect("a connection");
        for name in names {
            let audit = Audit::read(&mut connection, name).await.expect("an audit");
            let violations = audit.violations();
            must!("I8 one place", violations.is_empty(), "{violations:?}");
        }
        Ok(())
    }

    /// What lies in Redis of topics that were deleted: nothing in any partition.
    async fn cleared(&self, names: &[String]) -> Kept {
        let mut connection = connect(&self.redis.url()).await.expect("a connection");
        for name in names {
            let mut left = leftovers(&mut connection, name).await;
            // Another instance may note a sweep a moment later; that goes by itself.
            left.retain(|it| it.starts_with("dueq:"));
            must!("I8 one place", left.is_empty(), "a deleted topic leaves {left:?}");
        }
        Ok(())
    }

    /// Draws the sequence of this seed and walks it; shrinks it when that fails.
    fn sequence(&self, seed: u64, steps: usize) -> Result<(), Failure> {
        let mut sequence = Sequence::draw(seed, steps);
        let Err(mut broken) = self.walk(&sequence.steps(), false).0 else { return Ok(()) };
        sequence.shrink(Instant::now() + SHRINK, |steps| match self.walk(steps, false).0 {
            Err(other) => other.promise == broken.promise,
            Ok(()) => false,
        });
        let (kept, heard) = self.walk(&sequence.steps(), true);
        let mut heard = heard.unwrap_or_default();
        match kept {
            Err(again) => broken = again,
            Ok(()) => heard.push("(this time it went well: what failed depends on timing)".into()),
        }
        Err(Failure { promise: broken.promise, text: broken.text, seed, heard })
    }
}

/// Walks the sequences that went wrong once.
///
/// # Errors
/// The first that does not go as the model says.
pub fn known() -> Result<(), Failure> {
    let place = Place::start(0, None);
    for (about, steps) in known::sequences() {
        let (kept, heard) = place.walk(&steps, true);
        if let Err(broken) = kept {
            let text = format!("{about}: {}", broken.text);
            let heard = heard.unwrap_or_default();
            return Err(Failure { promise: broken.promise, text, seed: 0, heard });
        }
    }
    Ok(())
}

/// Walks this many sequences of this many steps, on this many threads, each with a Redis and two
/// instances of its own; they run with this seeded bug. The n-th sequence comes from seed + n.
///
/// # Errors
/// The first sequence found that does not go as the model says.
pub fn run(
    sequences: usize,
    steps: usize,
    seed: Option<u64>,
    threads: usize,
    bug: Option<&'static str>,
) -> Result<Summary, Failure> {
    let seed = seed.unwrap_or_else(rand::random);
    let start = Instant::now();
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (failure, requests) = (Mutex::new(None), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for name in 0..threads.max(1) {
            let (next, stop, failure, requests) = (&next, &stop, &failure, &requests);
            scope.spawn(move || {
                let place = Place::start(name, bug);
                while !stop.load(Ordering::Relaxed) {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= sequences {
                        break;
                    }
                    if let Err(found) = place.sequence(seed.wrapping_add(n as u64), steps) {
                        stop.store(true, Ordering::Relaxed);
                        failure.lock().expect("no panic").get_or_insert(found);
                    }
                }
                let requests_of = usize::try_from(place.requests.get()).unwrap_or_default();
                requests.fetch_add(requests_of, Ordering::Relaxed);
            });
        }
    });
    match failure.into_inner().expect("no panic") {
        Some(failure) => Err(failure),
        None => Ok(Summary {
            sequences,
            steps: sequences * steps,
            requests: requests.into_inner() as u64,
            took: start.elapsed(),
        }),
    }
}
