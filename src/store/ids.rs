//! Makes message ids that grow strictly within this instance: messages published one after another with the same due
//! time are then granted in that order, since Redis orders equal scores by member.

use dueq_model::{MessageId, Millis, Route};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// A step back of the clock by more than this (ms) begins a new era; by less, ids wait for the clock.
const BACKWARD_MS: Millis = 1_000;

#[derive(Debug, Default)]
struct Last {
    at: Millis,
    era: u64,
    counter: u64,
}

#[derive(Debug, Default)]
pub struct IdMaker {
    instance: AtomicU64,
    last: Mutex<Last>,
}

impl IdMaker {
    /// Takes the number that Redis gave this instance in its present run; two instances never have the same.
    pub fn set_instance(&self, number: u64) {
        self.instance.store(number & 0xf_ffff, Ordering::Relaxed);
    }

    /// The next id, of a message published at `now`.
    pub fn next(&self, now: Millis, route: Route) -> MessageId {
        let (at, era, counter) = {
            let mut last = self.last.lock();
            if now > last.at {
                (last.at, last.counter) = (now, 0);
            } else if now < last.at - BACKWARD_MS {
                (last.at, last.counter, last.era) = (now, 0, (last.era + 1) & 0xf);
            } else if last.counter == 0xffff {
                (last.at, last.counter) = (last.at + 1, 0);
            } else {
                last.counter += 1;
            }
            (last.at, last.era, last.counter)
        };
        let tail = self.instance.load(Ordering::Relaxed) << 20 | era << 16 | counter;
        MessageId::new(at, route, tail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dueq_model::{PartitionNumber, TopicNumber};

    #[test]
    fn ids_grow_strictly_even_past_the_counter_and_a_small_step_back() {
        let maker = IdMaker::default();
        maker.set_instance(0xabcde);
        let route = Route { topic: TopicNumber(1), partition: PartitionNumber(0) };
        let mut before = maker.next(1_000_000, route).member();
        for i in 0..200_000 {
            let id = maker.next(1_000_000 - (i % 500), route).member();
            assert!(id > before);
            before = id;
        }
    }

    #[test]
    fn a_clock_set_back_never_makes_an_id_twice() {
        let maker = IdMaker::default();
        let route = Route { topic: TopicNumber(1), partition: PartitionNumber(0) };
        let mut seen = std::collections::HashSet::new();
        for now in [10_000_000, 5_000_000, 10_000_000, 5_000_000] {
            for _ in 0..100 {
                assert!(seen.insert(maker.next(now, route).member()));
            }
        }
    }
}
