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
/// Messages that are fetched back for a host are on their way for this long, about: as many as can be called meanwhile
/// come at once (see `places::AHEAD`).
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

#[derive(Default)]
struct Queue {
    parked: VecDeque<Parked>,
    fetched_at: Option<Instant>,
}

/// All of a sender, by host.
#[derive(Default)]
pub(super) struct Parking {
    hosts: HashMap<HostKey, Queue>,
    count: usize,
}

impl Parking {
    /// Nothing is parked.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// A message has been parked at `now`.
    pub fn park(&mut self, host: HostKey, parked: Parked, now: Millis) {
        let queue = self.hosts.entry(host).or_default();
        while queue.parked.front().is_some_and(|first| first.until <= now) {
            queue.parked.pop_front();
            self.count -= 1;
        }
        if self.count < MOST {
            queue.parked.push_back(parked);
            self.count += 1;
        }
    }

    /// Takes those for which there is a place before their time; `vacancy` says how many can be called at a host.
    pub fn fetch(
        &mut self,
        now: (Instant, Millis),
        mut vacancy: impl FnMut(&str) -> usize,
    ) -> Vec<Parked> {
        let mut fetched = Vec::new();
        for (host, queue) in &mut self.hosts {
            let before = queue.parked.len();
            queue.parked.retain(|parked| parked.until > now.1);
            let on_their_way = queue.fetched_at.is_some_and(|at| now.0 < at + ON_THEIR_WAY);
            if !on_their_way && !queue.parked.is_empty() {
                let most = vacancy(host).min(queue.parked.len());
                if most > 0 {
                    queue.fetched_at = Some(now.0);
                    fetched.extend(queue.parked.drain(..most));
                }
            }
            self.count -= before - queue.parked.len();
        }
        self.hosts.retain(|_, queue| !queue.parked.is_empty());
        fetched
    }

    /// Takes all of them.
    pub fn clear(&mut self) -> Vec<Parked> {
        self.count = 0;
        self.hosts.drain().flat_map(|(_, queue)| queue.parked).collect()
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
        assert!(parking.fetch((now, 1), |_| 0).is_empty());
        let first = parking.fetch((now, 1), |_| 3);
        assert_eq!(first, [0, 1, 2].map(|n| parked(n, 100)));
        assert!(parking.fetch((now, 1), |_| 3).is_empty());
        assert_eq!(parking.fetch((now + ON_THEIR_WAY, 2), |_| 3).len(), 3);
        assert_eq!(parking.clear().len(), 4);
        assert!(parking.is_empty());
    }

    #[test]
    fn what_has_come_back_by_itself_is_forgotten() {
        let (mut parking, now) = (Parking::default(), Instant::now());
        parking.park("a".to_owned(), parked(1, 10), 0);
        parking.park("a".to_owned(), parked(2, 20), 15);
        parking.park("b".to_owned(), parked(3, 20), 15);
        assert_eq!(parking.count, 2);
        assert!(parking.fetch((now, 20), |_| 9).is_empty());
        assert!(parking.is_empty() && parking.hosts.is_empty());
    }
}
