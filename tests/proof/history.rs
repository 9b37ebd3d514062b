//! What a run leaves behind: every request with its outcome, the instants and tokens of its answer,
//! and the faults that happened meanwhile.
//!
//! Instants in answers are milliseconds of Redis's clock. `sent` and `answered` are this machine's
//! clock, which a private Redis shares unless a fault sets its clock (`FaultKind::ClockStepped`).

use std::time::{SystemTime, UNIX_EPOCH};

pub use super::limits::Limits;
pub use super::partitions::Partitions;

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

    /// Was it 2xx?
    pub fn is_ok(&self) -> bool {
        self.ok().is_some()
    }

    /// May it have changed something?
    pub fn may_have_run(&self) -> bool {
        matches!(self, Outcome::Ok(_) | Outcome::Unknown)
    }

    /// The code of a refusal.
    pub fn code(&self) -> Option<&str> {
        match self {
            Outcome::Refused(_, code) => Some(code),
            _ => None,
        }
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

    /// The outcome without its answer.
    pub fn bare(&self) -> Outcome<()> {
        match self {
            Outcome::Ok(_) => Outcome::Ok(()),
            Outcome::Refused(status, code) => Outcome::Refused(*status, code.clone()),
            Outcome::Never => Outcome::Never,
            Outcome::Unknown => Outcome::Unknown,
        }
    }
}

/// What a publish does that finds its key taken.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum OnDuplicate {
    #[default]
    Return,
    Reject,
    Replace,
}

impl OnDuplicate {
    /// As the API spells it.
    pub fn word(self) -> &'static str {
        match self {
            OnDuplicate::Return => "return",
            OnDuplicate::Reject => "reject",
            OnDuplicate::Replace => "replace",
        }
    }
}

/// One publish, alone or an item of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Publish {
    /// Unique in a run, so that it tells which publish a message came from; but a repetition with
    /// the same idempotency key has the same.
    pub payload: String,
    pub delay: Ms,
    pub priority: u8,
    pub max_attempts: Option<u32>,
    pub ttl: Option<Ms>,
    pub key: Option<String>,
    pub on_duplicate: OnDuplicate,
    /// The key is free again once the message is granted, not only when it is done.
    pub key_until_granted: bool,
    pub idempotency_key: Option<String>,
    pub group: Option<String>,
    pub outcome: Outcome<Published>,
}

/// The answer to a publish.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    pub id: String,
    pub due_at: Ms,
    /// It answered a message that was there already.
    pub duplicate: bool,
}

/// One message of a lease's answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    pub id: String,
    pub token: String,
    /// As it stood in the answer, byte for byte.
    pub payload: String,
    pub group: Option<String>,
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

/// A message as getMessage, updateMessage and redriveMessage answer it.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub state: String,
    pub due_at: Option<Ms>,
    pub attempts: i64,
    pub attempts_left: i64,
}

/// How a nack gives a message back.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Back {
    /// It failed.
    #[default]
    Failed,
    /// It was not worked on, and does not count.
    Released,
    /// It is to be dead at once.
    Dead,
}

/// A request and its outcome.
#[derive(Clone, Debug)]
pub enum What {
    Publish(Publish),
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
        back: Back,
        /// Absent: the backoff policy's.
        delay: Option<Ms>,
        outcome: Outcome<Nacked>,
    },
    Extend {
        id: String,
        token: String,
        lease_ms: Ms,
        /// The new deadline.
        outcome: Outcome<Ms>,
    },
    Delete {
        id: String,
        force: bool,
        outcome: Outcome<()>,
    },
    /// updateMessage of what is named.
    Update {
        id: String,
        payload: Option<String>,
        delay: Option<Ms>,
        outcome: Outcome<Seen>,
    },
    Redrive {
        id: String,
        outcome: Outcome<Seen>,
    },
    /// redriveTopic; how many were redriven.
    RedriveTopic {
        max_messages: usize,
        outcome: Outcome<i64>,
    },
    /// purgeTopic; how many were purged.
    Purge {
        states: Vec<&'static str>,
        outcome: Outcome<i64>,
    },
    /// pauseTopic or resumeTopic; of a group, pauseGroup or resumeGroup.
    Pause {
        group: Option<String>,
        paused: bool,
        outcome: Outcome<()>,
    },
    Get {
        id: String,
        outcome: Outcome<Seen>,
    },
}

/// One request of the run.
#[derive(Clone, Debug)]
pub struct Op {
    pub topic: String,
    /// Number of the client that made it, which makes one request after another.
    pub client: u64,
    /// Number of the instance that it was sent to.
    pub instance: usize,
    /// Just before it was sent.
    pub sent: Ms,
    /// Just after its answer was read, or given up on.
    pub answered: Ms,
    pub what: What,
}

/// What was done to the processes, or to what lies between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FaultKind {
    /// Of this number.
    InstanceKilled(usize),
    InstancePaused(usize),
    /// SIGKILL; whatever it wrote is there, fsynced or not.
    RedisKilled,
    /// SIGKILL, and the AOF cut back to what was fsynced: up to this many ms of the newest answers
    /// may be forgotten (0 with `appendfsync always`).
    PowerLost(Ms),
    RedisPaused,
    /// A script that runs away.
    RedisBusy,
    MemoryFull,
    DiskFull,
    ScriptsFlushed,
    ConnectionsCut,
    /// The answers of Redis are lost, delayed or cut.
    AnswersLost,
    /// Redis's clock was set by this many ms, at `from`.
    ClockStepped(Ms),
}

/// A fault and when it was, on this machine's clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    pub kind: FaultKind,
    /// Just before.
    pub from: Ms,
    /// Just after things were in order again, as far as the fault itself goes.
    pub until: Ms,
    /// Of the topic's partitions those that may have forgotten something for it.
    pub at: Partitions,
}

/// All that a run left behind, of one topic; what the checker reads.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub seed: u64,
    /// In the order in which they were answered.
    pub ops: Vec<Op>,
    /// In order.
    pub faults: Vec<Fault>,
    /// `max_attempts` of the topic (10 unless it was set).
    pub max_attempts: i64,
    pub limits: Limits,
}

impl Op {
    /// How long it took, beyond the wait that it asked for.
    pub fn took(&self) -> Ms {
        let wait = if let What::Lease { wait, .. } = self.what { wait } else { 0 };
        self.answered - self.sent - wait
    }

    /// Did an answer come that Redis had a part in?
    pub fn was_answered(&self) -> bool {
        matches!(self.bare(), Outcome::Ok(()) | Outcome::Refused(..))
    }

    /// Its outcome without the answer.
    pub fn bare(&self) -> Outcome<()> {
        match &self.what {
            What::Publish(publish) => publish.outcome.bare(),
            What::Lease { outcome, .. } => outcome.bare(),
            What::Ack { outcome, .. } | What::Delete { outcome, .. } => outcome.clone(),
            What::Pause { outcome, .. } => outcome.clone(),
            What::Nack { outcome, .. } => outcome.bare(),
            What::Extend { outcome, .. } => outcome.bare(),
            What::Update { outcome, .. }
            | What::Redrive { outcome, .. }
            | What::Get { outcome, .. } => outcome.bare(),
            What::RedriveTopic { outcome, .. } | What::Purge { outcome, .. } => outcome.bare(),
        }
    }

    /// Ok, refused, never, unknown: for a line about the run.
    pub fn outcome(&self) -> &'static str {
        match self.bare() {
            Outcome::Ok(()) => "ok",
            Outcome::Refused(..) => "refused",
            Outcome::Never => "never",
            Outcome::Unknown => "unknown",
        }
    }
}

/// This machine's clock in milliseconds, rounded down.
pub fn now() -> Ms {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    since.as_millis() as Ms
}
