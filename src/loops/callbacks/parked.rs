//! What one sender has parked: messages that wait in Redis for a place that is expected to come free. Should there be
//! one sooner, because limits were raised, a host has recovered, or the topic is pushed no more, they are fetched back.

use super::places::HostKey;
use crate::model::{MessageId, Millis};
use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};
use tokio::time::Instant;

/// Messages that are remembered, at most; others come back at their time.
const MOST: usize = 65_536;
/// Messages that are fetched back are on their way for this long, about: as many as can be called meanwhile come at once
/// (see `places::AHEAD`).
const ON_THEIR_WAY: Duration = Duration::from_millis(200);

/// A parked message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parked {
    /// Which.
    pub id: MessageId,
    /// When it comes back by itself.
    pub until: Millis,
    /// When it was due.
    pub due_at: Millis,
}

/// All of a sender, by host.
#[derive(Default)]
pub(super) struct Parking {
    hosts: HashMap<HostKey, VecDeque<Parked>>,
    count: usize,
    fetched_at: Option<Instant>,
}

impl Parking {
    /// Nothing is parked.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// A message has been parked at `now`.
    pub fn park(&mut self, host: HostKey, parked: Parked, now: Millis) {
        let queue = self.hosts.entry(host).or_default();
        while queue.front().is_some_and(|first| first.until <= now) {
            queue.pop_front();
            self.count -= 1;
        }
        if self.count < MOST {
            queue.push_back(parked);
            self.count += 1;
        }
    }

    /// Takes up to `most` for which there is a place before their time; `vacancy` says how many can be called at a host.
    pub fn fetch(
        &mut self,
        now: (Instant, Millis),
        mut most: usize,
        mut vacancy: impl FnMut(&str) -> usize,
    ) -> Vec<Parked> {
        let mut fetched = Vec::new();
        if self.fetched_at.is_some_and(|at| now.0 < at + ON_THEIR_WAY) {
            return fetched;
        }
        self.hosts.retain(|host, queue| {
            let before = queue.len();
            queue.retain(|parked| parked.until > now.1);
            if most > 0 && !queue.is_empty() {
                let places = vacancy(host).min(queue.len()).min(most);
                most -= places;
                fetched.extend(queue.drain(..places));
            }
            self.count -= before - queue.len();
            !queue.is_empty()
        });
        if !fetched.is_empty() {
            self.fetched_at = Some(now.0);
        }
        fetched
    }

    /// Takes all of them.
    pub fn clear(&mut self) -> Vec<Parked> {
        self.count = 0;
        self.hosts.drain().flat_map(|(_, queue)| queue).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Partition, Route, TopicNumber};

    fn parked(n: u64, until: Millis) -> Parked {
        let route = Route { topic: TopicNumber(1), partition: Partition(0) };
        Parked { id: MessageId::new(n as Millis, route, n), until, due_at: 0 }
    }

    #[test]
    fn as_many_as_there_are_places_come_back_in_order_and_no_more_until_they_are_here() {
        let (mut parking, now) = (Parking::default(), Instant::now());
        for n in 0..10 {
            parking.park("a".to_owned(), parked(n, 100), 0);
        }
        assert!(parking.fetch((now, 1), 9, |_| 0).is_empty());
        let first = parking.fetch((now, 1), 9, |_| 3);
        assert_eq!(first, [0, 1, 2].map(|n| parked(n, 100)));
        assert!(parking.fetch((now, 1), 9, |_| 3).is_empty());
        assert_eq!(parking.fetch((now + ON_THEIR_WAY, 2), 2, |_| 3).len(), 2);
        assert_eq!(parking.clear().len(), 5);
        assert!(parking.is_empty());
    }

    #[test]
    fn what_has_come_back_by_itself_is_forgotten() {
        let (mut parking, now) = (Parking::default(), Instant::now());
        parking.park("a".to_owned(), parked(1, 10), 0);
        parking.park("a".to_owned(), parked(2, 20), 15);
        parking.park("b".to_owned(), parked(3, 20), 15);
        assert_eq!(parking.count, 2);
        assert!(parking.fetch((now, 20), 9, |_| 9).is_empty());
        assert!(parking.is_empty() && parking.hosts.is_empty());
    }
}
