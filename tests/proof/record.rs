//! Where all clients of a run write what they did.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard};

use super::history::{Fault, FaultKind, History, Limits, Ms, Op, Outcome, Partitions, What, now};

/// Collects the requests of all clients of a run, and its faults.
pub struct Recorder {
    /// What the run's random choices came from.
    pub seed: u64,
    ops: Mutex<Vec<Op>>,
    faults: Mutex<Vec<Fault>>,
    limits: Mutex<HashMap<String, Limits>>,
}

impl Recorder {
    /// An empty record; the seed is `DUEQ_TEST_SEED` where that is set.
    pub fn new() -> Recorder {
        let seed = std::env::var("DUEQ_TEST_SEED").ok().and_then(|text| text.parse().ok());
        Recorder::of_seed(seed.unwrap_or_else(rand::random))
    }

    /// An empty record of a run with this seed.
    pub fn of_seed(seed: u64) -> Recorder {
        eprintln!("to repeat these choices: DUEQ_TEST_SEED={seed}");
        Recorder { seed, ops: Mutex::default(), faults: Mutex::default(), limits: Mutex::default() }
    }

    /// Adds one request that was answered, or given up on, right now.
    pub fn add(&self, topic: &str, client: u64, instance: usize, sent: Ms, what: What) {
        let answered = now() + 1;
        self.lock().push(Op { topic: topic.to_owned(), client, instance, sent, answered, what });
    }

    /// Notes a fault that began at `from` and is over now.
    pub fn fault(&self, kind: FaultKind, from: Ms) {
        self.fault_at(kind, from, Partitions::ALL);
    }

    /// The same of one that concerned these partitions.
    pub fn fault_at(&self, kind: FaultKind, from: Ms, at: Partitions) {
        let fault = Fault { kind, from, until: now() + 1, at };
        self.faults.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(fault);
    }

    /// Notes how `topic` is limited.
    pub fn limit(&self, topic: &str, limits: Limits) {
        self.limits.lock().expect("no panic").insert(topic.to_owned(), limits);
    }

    /// What was done on `topic` so far.
    pub fn history(&self, topic: &str) -> History {
        let faults = self.faults.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        let limits = self.limits.lock().expect("no panic").get(topic).copied().unwrap_or_default();
        History { seed: self.seed, ops: self.of(topic), faults, max_attempts: 10, limits }
    }

    /// All requests on `topic` so far, in the order in which they were answered.
    pub fn of(&self, topic: &str) -> Vec<Op> {
        self.lock().iter().filter(|op| op.topic == topic).cloned().collect()
    }

    /// The payloads of all grants on `topic`.
    pub fn granted_payloads(&self, topic: &str) -> HashSet<String> {
        let granted = |op: &Op| match &op.what {
            What::Lease { outcome: Outcome::Ok(grants), .. } => grants.clone(),
            _ => Vec::new(),
        };
        self.of(topic).iter().flat_map(granted).map(|grant| grant.payload).collect()
    }

    /// How many requests ended with each outcome, by its word.
    pub fn outcomes(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        self.lock().iter().for_each(|op| *counts.entry(op.outcome()).or_default() += 1);
        counts
    }

    /// How many requests are like this.
    pub fn count(&self, is: impl Fn(&Op) -> bool) -> usize {
        self.lock().iter().filter(|op| is(op)).count()
    }

    /// The request that took longest beyond the wait that it asked for, and how long.
    pub fn slowest(&self) -> (Ms, Option<Op>) {
        let ops = self.lock();
        let slowest = ops.iter().max_by_key(|op| op.took());
        (slowest.map_or(0, Op::took), slowest.cloned())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Op>> {
        self.ops.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
