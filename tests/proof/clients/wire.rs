//! The answers that clients read, and what a word in them says about one item of many.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::harness::instant_ms;
use crate::proof::history::{Grant, Ms, Nacked, Outcome, Published, Seen};

/// An instant, as milliseconds.
#[derive(Clone, Copy)]
pub struct At(pub Ms);

impl<'de> Deserialize<'de> for At {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<At, D::Error> {
        Ok(At(instant_ms(&String::deserialize(deserializer)?)))
    }
}

#[derive(Deserialize)]
pub struct PublishedWire {
    id: String,
    due_at: Option<At>,
    #[serde(default)]
    duplicate: bool,
}

#[derive(Deserialize)]
pub struct Results<T> {
    pub results: Vec<T>,
}

#[derive(Deserialize)]
pub struct PublishResult {
    pub status: String,
    pub message: Option<PublishedWire>,
}

#[derive(Deserialize)]
pub struct Leases {
    pub messages: Vec<Leased>,
    #[serde(default)]
    pub acks: Vec<Status>,
}

#[derive(Deserialize)]
pub struct Leased {
    id: String,
    lease_token: String,
    payload: Box<RawValue>,
    group: Option<String>,
    attempt: i64,
    attempts_left: i64,
    due_at: At,
    lease_expires_at: At,
}

#[derive(Deserialize)]
pub struct Status {
    pub id: String,
    pub status: String,
}

#[derive(Deserialize)]
pub struct NackedWire {
    state: String,
    due_at: Option<At>,
    attempt: i64,
}

#[derive(Deserialize)]
pub struct ExtendedWire {
    lease_expires_at: At,
}

/// An item of a batch's answer: its fields where it is `ok`.
#[derive(Deserialize)]
pub struct HoldResult<T> {
    pub id: String,
    pub status: String,
    /// Absent where a field is: then it was refused.
    #[serde(flatten)]
    pub rest: Option<T>,
}

#[derive(Deserialize)]
pub struct SeenWire {
    state: String,
    due_at: Option<At>,
    attempts: i64,
    attempts_left: i64,
}

#[derive(Deserialize)]
pub struct Redriven {
    pub redriven: i64,
}

#[derive(Deserialize)]
pub struct Purged {
    pub purged: i64,
}

impl From<PublishedWire> for Published {
    fn from(wire: PublishedWire) -> Published {
        let due_at = wire.due_at.map_or(0, |at| at.0);
        Published { id: wire.id, due_at, duplicate: wire.duplicate }
    }
}

impl From<NackedWire> for Nacked {
    fn from(wire: NackedWire) -> Nacked {
        let due_at = wire.due_at.map(|at| at.0);
        Nacked { state: wire.state, due_at, attempt: wire.attempt }
    }
}

impl From<ExtendedWire> for Ms {
    fn from(wire: ExtendedWire) -> Ms {
        wire.lease_expires_at.0
    }
}

impl From<SeenWire> for Seen {
    fn from(wire: SeenWire) -> Seen {
        let SeenWire { state, attempts, attempts_left, .. } = wire;
        Seen { state, due_at: wire.due_at.map(|at| at.0), attempts, attempts_left }
    }
}

impl Leased {
    /// The grant, of a lease that was to last this long.
    pub fn grant(self, lease_ms: Ms) -> Grant {
        let deadline = self.lease_expires_at.0;
        Grant {
            id: self.id,
            token: self.lease_token,
            payload: Box::<str>::from(self.payload).into(),
            group: self.group,
            attempt: self.attempt,
            attempts_left: self.attempts_left,
            due_at: self.due_at.0,
            granted_at: deadline - lease_ms,
            deadline,
        }
    }
}

/// What became of an item whose status is this word; `answer` is what an `ok` came with.
pub fn outcome_of<T>(status: &str, answer: impl FnOnce() -> T) -> Outcome<T> {
    let refused = |code| Outcome::Refused(code, status.to_owned());
    match status {
        "ok" => Outcome::Ok(answer()),
        "redis_unavailable" => Outcome::Never,
        "outcome_unknown" => Outcome::Unknown,
        "message_not_found" | "topic_not_found" => refused(404),
        "lease_lost" | "duplicate_key" | "message_leased" => refused(409),
        "idempotency_key_reused" => refused(422),
        "topic_full" => refused(429),
        _ => refused(500), // no word of the contract
    }
}
