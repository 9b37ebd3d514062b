//! Backoff policies: how long a failed message waits before its next attempt.

use super::Millis;
use serde::{Deserialize, Serialize};

/// A backoff policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Backoff {
    /// base × factor^(failures − 1), at most max, times 1 ± jitter.
    Exponential {
        /// Delay after the first failure, ms.
        base_ms: Millis,
        /// What each further failure multiplies it with.
        factor: f64,
        /// The longest delay, ms.
        max_ms: Millis,
        /// Share by which a delay varies at random, so that failures do not come back all at once.
        jitter: f64,
    },
    /// Always the same delay.
    Fixed {
        /// The delay, ms.
        base_ms: Millis,
    },
    /// A delay for each failure; the last one repeats.
    Schedule {
        /// The delays, ms; at least one.
        delays_ms: Vec<Millis>,
    },
}

impl Default for Backoff {
    fn default() -> Self {
        Self::Exponential { base_ms: 1_000, factor: 2.0, max_ms: 3_600_000, jitter: 0.1 }
    }
}

impl Backoff {
    /// The policy as the scripts' include `backoff.lua` reads it.
    pub fn to_script(&self) -> String {
        match self {
            Self::Exponential { base_ms, factor, max_ms, jitter } => {
                format!("exponential;{base_ms};{factor};{max_ms};{jitter}")
            }
            Self::Fixed { base_ms } => format!("fixed;{base_ms}"),
            Self::Schedule { delays_ms } => {
                let delays: Vec<_> = delays_ms.iter().map(ToString::to_string).collect();
                format!("schedule;{}", delays.join(";"))
            }
        }
    }

    /// Reads what [`Backoff::to_script`] wrote; `None` where it is no such text.
    pub fn from_script(text: &str) -> Option<Self> {
        let mut parts = text.split(';');
        match parts.next()? {
            "exponential" => Some(Self::Exponential {
                base_ms: parts.next()?.parse().ok()?,
                factor: parts.next()?.parse().ok()?,
                max_ms: parts.next()?.parse().ok()?,
                jitter: parts.next()?.parse().ok()?,
            }),
            "fixed" => Some(Self::Fixed { base_ms: parts.next()?.parse().ok()? }),
            "schedule" => {
                let delays_ms: Vec<_> = parts.map(str::parse).collect::<Result<_, _>>().ok()?;
                (!delays_ms.is_empty()).then_some(Self::Schedule { delays_ms })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_come_back_from_their_text() {
        for policy in [
            Backoff::default(),
            Backoff::Exponential { base_ms: 0, factor: 1.5, max_ms: 10, jitter: 0.0 },
            Backoff::Fixed { base_ms: 5_000 },
            Backoff::Schedule { delays_ms: vec![1_000, 0, 60_000] },
        ] {
            let text = policy.to_script();
            assert!(!text.contains(','), "{text}");
            assert_eq!(Backoff::from_script(&text), Some(policy), "{text}");
        }
    }

    #[test]
    fn a_schedule_without_delays_is_none() {
        assert_eq!(Backoff::from_script("schedule"), None);
    }

    #[test]
    fn a_number_comes_back_from_json_to_its_last_digit() {
        let (factor, jitter) = (12.186593445987667, 0.24674471734225642);
        let policy = Backoff::Exponential { base_ms: 0, factor, max_ms: 0, jitter };
        let json = serde_json::to_string(&policy).unwrap();
        assert_eq!(serde_json::from_str::<Backoff>(&json).unwrap(), policy);
    }
}
