//! A topic's settings and the limits of the contract, each number in one place.

use super::Millis;

/// How long a lease lasts unless told otherwise, ms.
pub const DEFAULT_LEASE_MS: u64 = 30_000;
/// The shortest lease, ms.
pub const MIN_LEASE_MS: u64 = 1_000;
/// The longest lease, and the cap of all its extensions counted from the grant: 12 h in ms.
pub const LEASE_CAP_MS: u64 = 43_200_000;
/// The longest delay: ten years of 365 days in ms.
pub const MAX_DELAY_MS: u64 = 315_360_000_000;
/// The longest wait of a long poll, ms.
pub const MAX_WAIT_MS: u64 = 60_000;
/// Counted grants before a message is dead, unless told otherwise.
pub const DEFAULT_MAX_ATTEMPTS: u64 = 10;
/// The most counted grants that a message can ask for.
pub const MAX_ATTEMPTS_LIMIT: u64 = 1_000;
/// Messages in one lease request or batch, at most.
pub const MAX_MESSAGES_LIMIT: u64 = 1_000;
/// Payload bytes of one lease request unless told otherwise.
pub const DEFAULT_MAX_BYTES: u64 = 4_194_304;
/// Payload bytes of one lease request, at most.
pub const MAX_MAX_BYTES: u64 = 16_777_216;
/// Bytes of one payload, at most, unless the topic says otherwise.
pub const MAX_PAYLOAD_BYTES: u64 = 262_144;

/// How long a failed message waits: base × factor^(failures − 1), at most max, times 1 ± jitter.
#[derive(Clone, Debug, PartialEq, serde::Serialize, utoipa::ToSchema)]
#[schema(title = "Backoff")]
pub struct Backoff {
    /// Always `exponential` for now.
    #[schema(example = "exponential")]
    pub kind: &'static str,
    /// Delay after the first failure, ms.
    pub base_ms: i64,
    /// What each further failure multiplies it with.
    pub factor: f64,
    /// The longest delay, ms.
    pub max_ms: i64,
    /// Share by which a delay varies at random, so that failures do not come back all at once.
    pub jitter: f64,
}

/// What a topic does with its messages where they do not say so themselves.
#[derive(Clone, Debug, PartialEq, serde::Serialize, utoipa::ToSchema)]
pub struct TopicSettings {
    /// How long a lease lasts, ms.
    pub lease_ms: i64,
    /// Counted grants before a message is dead.
    pub max_attempts: i64,
    /// How long a failed message waits before its next attempt.
    pub backoff: Backoff,
    /// The largest payload that is taken, bytes.
    pub max_payload_bytes: i64,
}

impl Default for TopicSettings {
    fn default() -> Self {
        Self {
            lease_ms: DEFAULT_LEASE_MS as Millis,
            max_attempts: DEFAULT_MAX_ATTEMPTS as i64,
            backoff: Backoff {
                kind: "exponential",
                base_ms: 1_000,
                factor: 2.0,
                max_ms: 3_600_000,
                jitter: 0.1,
            },
            max_payload_bytes: MAX_PAYLOAD_BYTES as i64,
        }
    }
}

impl Backoff {
    /// The policy as the scripts' include `backoff.lua` reads it.
    pub fn to_script(&self) -> String {
        format!("{},{},{},{},{}", self.kind, self.base_ms, self.factor, self.max_ms, self.jitter)
    }
}
