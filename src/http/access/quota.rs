//! The quotas of a key. How many topics it may make, and how much the topics that it may publish to may hold; see `stored`
//! for how that is counted. And how many messages it may publish in a second, at this instance. What was not used in the last second may be used at once,
//! and a larger batch in one piece: the time it takes is waited for afterwards.

use dueq_model::TopicNumber;
use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Messages a second, at most.
pub const MAX_RATE: u32 = 1_000_000;

/// What quotas are of, and the least and the most of each.
const QUOTAS: [(&str, i64, i64); 3] = [
    ("topics", 0, TopicNumber::MOST as i64),
    ("messages", 1, 1_000_000_000_000),
    ("bytes", 1, 1_000_000_000_000_000),
];

/// How many topics a key may make, and how many messages and bytes it may store, as far as its line says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quotas(pub [Option<i64>; 3]);

impl Quotas {
    /// Adds a word such as `topics=1000`; `None` for one that is none of these. Errors: what is wrong with it.
    pub fn add(&mut self, word: &str) -> Option<Result<(), String>> {
        let (name, number) = word.split_once('=')?;
        let at = QUOTAS.iter().position(|(known, ..)| *known == name)?;
        let (_, least, most) = QUOTAS[at];
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        let number = number.parse().ok().filter(|it| is_number && (least..=most).contains(it));
        Some(match (number, self.0[at]) {
            (None, _) => Err(format!("a quota is {name}=N, with N from {least} to {most}")),
            (_, Some(_)) => Err(format!("it has more than one {name}=")),
            _ => {
                self.0[at] = number;
                Ok(())
            }
        })
    }

    /// As a line of a key file has them.
    pub fn words(&self) -> impl Iterator<Item = String> {
        let all = QUOTAS.iter().zip(self.0);
        all.filter_map(|((name, ..), quota)| quota.map(|quota| format!("{name}={quota}")))
    }
}

/// The messages that a key may publish now.
#[derive(Debug)]
pub struct Quota {
    per_second: u32,
    /// How many, less than none after a large batch, and when they were counted.
    left: Mutex<(f64, Instant)>,
}

impl Quota {
    /// So many messages a second.
    pub fn new(per_second: u32) -> Self {
        Self { per_second, left: Mutex::new((f64::from(per_second), Instant::now())) }
    }

    /// So many messages a second.
    pub fn per_second(&self) -> u32 {
        self.per_second
    }

    /// Takes so many messages. Errors: how long to wait first.
    pub fn take(&self, messages: usize) -> Result<(), Duration> {
        self.take_at(messages, Instant::now())
    }

    fn take_at(&self, messages: usize, now: Instant) -> Result<(), Duration> {
        let most = f64::from(self.per_second);
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = now.saturating_duration_since(left.1).as_secs_f64();
        *left = ((left.0 + passed * most).min(most), left.1.max(now));
        let wanted = messages as f64;
        let missing = wanted.min(most) - left.0;
        // Sums of fractions are not exact.
        if missing > 1e-6 {
            return Err(Duration::from_secs_f64(missing / most));
        }
        left.0 -= wanted;
        Ok(())
    }
}

/// Reads `publish=500/s`. Errors: what is wrong with it.
pub fn parse(text: &str) -> Result<u32, String> {
    let count = text.strip_prefix("publish=").and_then(|rest| rest.strip_suffix("/s"));
    let is_number = |count: &&str| count.bytes().all(|byte| byte.is_ascii_digit());
    let rate = count.filter(is_number).and_then(|count| count.parse().ok());
    rate.filter(|rate| (1..=MAX_RATE).contains(rate))
        .ok_or_else(|| format!("a rate is rate:publish=N/s, with N from 1 to {MAX_RATE}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holds_its_messages_and_no_more() {
        let quota = Quota::new(10);
        let begin = quota.left.lock().unwrap().1;
        let at = |ms: u64| begin + Duration::from_millis(ms);
        for _ in 0..10 {
            assert_eq!(quota.take_at(1, at(0)), Ok(()));
        }
        assert_eq!(quota.take_at(1, at(0)), Err(Duration::from_millis(100)));
        assert_eq!(quota.take_at(1, at(100)), Ok(()));
        assert!(quota.take_at(2, at(200)).is_err());
        // Time that passes unused counts up to a second.
        assert_eq!(quota.take_at(10, at(60_000)), Ok(()));
        assert!(quota.take_at(1, at(60_000)).is_err());
    }

    #[test]
    fn a_batch_beyond_a_second_waits_afterwards() {
        let quota = Quota::new(10);
        let begin = quota.left.lock().unwrap().1;
        assert_eq!(quota.take_at(35, begin), Ok(()));
        assert_eq!(quota.take_at(1, begin), Err(Duration::from_millis(2600)));
        assert_eq!(quota.take_at(1, begin + Duration::from_millis(2600)), Ok(()));
    }

    #[test]
    fn a_rate_is_messages_a_second() {
        assert_eq!((parse("publish=500/s"), parse("publish=1000000/s")), (Ok(500), Ok(1_000_000)));
        for wrong in [
            "",
            "publish",
            "publish=",
            "publish=/s",
            "publish=0/s",
            "publish=1000001/s",
            "publish=5/m",
            "publish=5",
            "publish=-1/s",
            "publish=+5/s",
            "publish=1.5/s",
            "consume=5/s",
            "500/s",
        ] {
            assert!(parse(wrong).unwrap_err().contains("rate:publish=N/s"), "{wrong}");
        }
    }
}
