//! Wrong keys are counted by the address they come from. Beyond ten a second, an address gets 429, and the metric
//! counts it. That does not protect a key that can be guessed: a right key is let in at any speed, since others
//! may share the address. What keeps keys from being found is their length.
//!
//! Addresses share a fixed number of counters: there is no memory to use up, and who meets whom in a counter is secret.

use dueq_model::network;
use std::{
    hash::{BuildHasher, RandomState},
    net::IpAddr,
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

/// Wrong keys of one address in a second that are looked at.
const MAX_PER_SECOND: u64 = 10;
const COUNTERS: usize = 4096;

/// The wrong keys of this second.
#[derive(Debug)]
pub struct Guesses {
    begun: Instant,
    hasher: RandomState,
    /// Each a second since the beginning, and in the lower 32 bits how many came in it.
    counters: Vec<AtomicU64>,
}

impl Guesses {
    /// None so far.
    pub fn new() -> Self {
        let counters = (0..COUNTERS).map(|_| AtomicU64::new(0)).collect();
        Self { begun: Instant::now(), hasher: RandomState::new(), counters }
    }

    /// Counts a wrong key from this address. Returns whether there were too many.
    pub fn are_too_many(&self, from: IpAddr) -> bool {
        self.count(from, self.begun.elapsed().as_secs())
    }

    fn count(&self, from: IpAddr, second: u64) -> bool {
        let at = self.hasher.hash_one(network(from)) as usize % COUNTERS;
        let counted = |counter: u64| match (counter >> 32 == second, counter & 0xffff_ffff) {
            (true, count) => second << 32 | (count + 1).min(MAX_PER_SECOND + 1),
            (false, _) => second << 32 | 1,
        };
        let relaxed = Ordering::Relaxed;
        let before =
            self.counters[at].fetch_update(relaxed, relaxed, |counter| Some(counted(counter)));
        before.is_ok_and(|before| counted(before) & 0xffff_ffff > MAX_PER_SECOND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_in_a_second_are_looked_at_by_address() {
        let guesses = Guesses::new();
        let (one, other) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let met = |a: IpAddr, b: IpAddr| {
            let at = |ip: IpAddr| guesses.hasher.hash_one(network(ip)) as usize % COUNTERS;
            at(a) == at(b)
        };
        for second in [5, 6, 100] {
            let refused: Vec<_> = (0..12).map(|_| guesses.count(one, second)).collect();
            assert_eq!(refused, [vec![false; 10], vec![true; 2]].concat());
            assert_eq!(guesses.count(other, second), met(one, other));
        }
    }
}
