//! The record of a run: every request, what came of it, and the instants and tokens of its answer.
//!
//! All instants are milliseconds of Redis's clock. Answers carry it; for requests whose answer is
//! lost `sent` and `answered` are this machine's clock, which the private Redis of a test shares.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds, of a duration or since 1970.
pub type Ms = i64;

/// What came of a request, as `guarantees.md` tells the three apart.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome<T> {
    /// 2xx.
    Ok(T),
    /// Another 4xx or 5xx, with its code: it changed nothing.
    Refused(u16, String),
    /// 503 `redis_unavailable`, or no connection at all: it never ran and never will.
    Never,
    /// No answer, or 503 `outcome_unknown`: it may have run.
    Unknown,
}

impl<T> Outcome<T> {
    /// The answer, if it was 2xx.
    pub fn ok(&self) -> Option<&T> {
        match self {
            Outcome::Ok(answer) => Some(answer),
            _ => None,
        }
    }

    /// May it have changed something?
    pub fn may_have_run(&self) -> bool {
        matches!(self, Outcome::Ok(_) | Outcome::Unknown)
    }

    /// The same outcome with another answer.
    pub fn map<U>(self, answer: impl FnOnce(T) -> U) -> Outcome<U> {
        match self {
            Outcome::Ok(value) => Outcome::Ok(answer(value)),
            Outcome::Refused(status, code) => Outcome::Refused(status, code),
            Outcome::Never => Outcome::Never,
            Outcome::Unknown => Outcome::Unknown,
        }
    }
}

/// The answer to a publish.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    pub id: String,
    pub due_at: Ms,
}

/// One message of a lease's answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    pub id: String,
    pub token: String,
    /// As it stood in the answer, byte for byte.
    pub payload: String,
    pub attempt: i64,
    pub attempts_left: i64,
    /// The due time in force.
    pub due_at: Ms,
    /// `lease_expires_at` − the lease asked for.
    pub granted_at: Ms,
    /// `lease_expires_at`.
    pub deadline: Ms,
}

/// The answer to a nack.
#[derive(Clone, Debug, PartialEq)]
pub struct Nacked {
    pub state: String,
    /// Absent where the message is dead.
    pub due_at: Option<Ms>,
    pub attempt: i64,
}

/// A request and its outcome.
#[derive(Clone, Debug)]
pub enum What {
    /// Payloads are unique in a run, so that one tells which publish it came from.
    Publish {
        payload: String,
        delay: Ms,
        outcome: Outcome<Published>,
    },
    Lease {
        max_messages: usize,
        /// How long it was to wait for a message.
        wait: Ms,
        outcome: Outcome<Vec<Grant>>,
    },
    Ack {
        id: String,
        token: String,
        outcome: Outcome<()>,
    },
    Nack {
        id: String,
        token: String,
        outcome: Outcome<Nacked>,
    },
    Extend {
        id: String,
        token: String,
        /// The new deadline.
        outcome: Outcome<Ms>,
    },
}

/// One request of the run.
#[derive(Clone, Debug)]
pub struct Op {
    pub topic: String,
    /// Just before it was sent.
    pub sent: Ms,
    /// Just after its answer was read, or given up on.
    pub answered: Ms,
    pub what: What,
}

/// Collects the requests of all clients of a run.
pub struct Recorder {
    /// What the run's random choices came from.
    pub seed: u64,
    ops: Mutex<Vec<Op>>,
}

impl Recorder {
    /// An empty record; the seed is `DUEQ_TEST_SEED` where that is set.
    pub fn new() -> Recorder {
        let seed = std::env::var("DUEQ_TEST_SEED").ok().and_then(|text| text.parse().ok());
        let seed = seed.unwrap_or_else(rand::random);
        eprintln!("to repeat these choices: DUEQ_TEST_SEED={seed}");
        Recorder { seed, ops: Mutex::new(Vec::new()) }
    }

    /// Adds one request.
    pub fn add(&self, topic: &str, sent: Ms, what: What) {
        let op = Op { topic: topic.to_owned(), sent, answered: now() + 1, what };
        self.lock().push(op);
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

impl Op {
    /// How long it took, beyond the wait that it asked for.
    pub fn took(&self) -> Ms {
        let wait = if let What::Lease { wait, .. } = self.what { wait } else { 0 };
        self.answered - self.sent - wait
    }

    /// Did an answer come that Redis had a part in?
    pub fn was_answered(&self) -> bool {
        matches!(self.outcome(), "ok" | "refused")
    }

    /// Ok, refused, never, unknown: for a line about the run.
    pub fn outcome(&self) -> &'static str {
        fn word<T>(outcome: &Outcome<T>) -> &'static str {
            match outcome {
                Outcome::Ok(_) => "ok",
                Outcome::Refused(..) => "refused",
                Outcome::Never => "never",
                Outcome::Unknown => "unknown",
            }
        }
        match &self.what {
            What::Publish { outcome, .. } => word(outcome),
            What::Lease { outcome, .. } => word(outcome),
            What::Ack { outcome, .. } => word(outcome),
            What::Nack { outcome, .. } => word(outcome),
            What::Extend { outcome, .. } => word(outcome),
        }
    }
}

/// This machine's clock in milliseconds, rounded down.
pub fn now() -> Ms {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    since.as_millis() as Ms
}
