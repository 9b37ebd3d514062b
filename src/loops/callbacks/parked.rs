//! The messages that one sender has parked: they wait in Redis until a slot is expected for them. They are fetched back if
//! there is one sooner, because limits were raised or a host has recovered, or if the topic is no longer pushed.

use super::slots::HostKey;
use dueq_model::{MessageId, Millis};
use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};
use tokio::time::Instant;

/// Maximum number of messages that are remembered. Others come back at their time only.
const MAX_PARKED: usize = 65_536;
/// Time between two fetches. Fetched messages take about this long to arrive, so one fetch takes as many as can be called
/// meanwhile (see `slots::LOCAL_WINDOW`).
const FETCH_INTERVAL: Duration = Duration::from_millis(200);

/// A parked message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parked {
    /// The message.
    pub id: MessageId,
    /// When it becomes due again.
    pub until: Millis,
    /// When it was due before it was parked.
    pub due_at: Millis,
}

/// The parked messages of a sender, by host.
#[derive(Default)]
pub(super) struct ParkedMessages {
    hosts: HashMap<HostKey, HostQueue>,
    count: usize,
    fetched_at: Option<Instant>,
}

/// Those of one host, in the order in which they were parked. A message that was made due meanwhile may be parked again:
/// its last place is the one that counts.
#[derive(Default)]
struct HostQueue {
    places: VecDeque<Parked>,
    last: HashMap<MessageId, Millis>,
}

impl HostQueue {
    /// Keeps the places of which this is true, and drops those that do not count any more.
    fn retain(&mut self, mut keep: impl FnMut(&Parked) -> bool) {
        let Self { places, last } = self;
        places.retain(|parked| {
            let counts = last.get(&parked.id) == Some(&parked.until);
            let keeps = counts && keep(parked);
            if counts && !keeps {
                last.remove(&parked.id);
            }
            keeps
        });
    }
}

impl ParkedMessages {
    /// Returns whether no messages are parked.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns how many messages of each host are parked, at most: some may have been deleted since.
    pub fn counts(&self) -> impl Iterator<Item = (&HostKey, usize)> {
        self.hosts.iter().map(|(host, queue)| (host, queue.last.len()))
    }

    /// Adds a message that was parked at `now`.
    pub fn park(&mut self, host: HostKey, parked: Parked, now: Millis) {
        let queue = self.hosts.entry(host).or_default();
        while let Some(first) = queue.places.front().filter(|first| first.until <= now) {
            if queue.last.get(&first.id) == Some(&first.until) {
                queue.last.remove(&first.id);
            }
            queue.places.pop_front();
            self.count -= 1;
        }
        if self.count < MAX_PARKED
            && queue.last.insert(parked.id, parked.until) != Some(parked.until)
        {
            queue.places.push_back(parked);
            self.count += 1;
        }
    }

    /// Removes and returns up to `most` messages that can be called before their time. `capacity` returns how many can be
    /// called for a host.
    pub fn fetch(
        &mut self,
        now: (Instant, Millis),
        mut most: usize,
        mut capacity: impl FnMut(&str) -> usize,
    ) -> Vec<Parked> {
        let mut fetched = Vec::new();
        if self.fetched_at.is_some_and(|at| now.0 < at + FETCH_INTERVAL) {
            return fetched;
        }
        self.hosts.retain(|host, queue| {
            let before = queue.places.len();
            let mut left = if most > 0 { capacity(host).min(most) } else { 0 };
            queue.retain(|parked| {
                if parked.until <= now.1 {
                    return false;
                }
                if left == 0 {
                    return true;
                }
                (left, most) = (left - 1, most - 1);
                fetched.push(*parked);
                false
            });
            self.count -= before - queue.places.len();
            !queue.places.is_empty()
        });
        if !fetched.is_empty() {
            self.fetched_at = Some(now.0);
        }
        fetched
    }

    /// Removes and returns all messages.
    pub fn clear(&mut self) -> Vec<Parked> {
        self.count = 0;
        let all = self.hosts.drain().flat_map(|(_, mut queue)| {
            queue.retain(|_| true);
            queue.places
        });
        all.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dueq_model::{PartitionNumber, Route, TopicNumber};

    fn parked(n: u64, until: Millis) -> Parked {
        let route = Route { topic: TopicNumber(1), partition: PartitionNumber(0) };
        Parked { id: MessageId::new(n as Millis, route, n), until, due_at: 0 }
    }

    #[test]
    fn a_fetch_returns_as_many_as_can_be_called_in_order_and_none_until_they_have_arrived() {
        let (mut messages, now) = (ParkedMessages::default(), Instant::now());
        for n in 0..10 {
            messages.park("a".to_owned(), parked(n, 100), 0);
        }
        assert!(messages.fetch((now, 1), 9, |_| 0).is_empty());
        let first = messages.fetch((now, 1), 9, |_| 3);
        assert_eq!(first, [0, 1, 2].map(|n| parked(n, 100)));
        assert!(messages.fetch((now, 1), 9, |_| 3).is_empty());
        assert_eq!(messages.fetch((now + FETCH_INTERVAL, 2), 2, |_| 3).len(), 2);
        assert_eq!(messages.clear().len(), 5);
        assert!(messages.is_empty());
    }

    #[test]
    fn a_message_that_is_parked_again_counts_once_and_is_fetched_once() {
        let (mut messages, now) = (ParkedMessages::default(), Instant::now());
        for until in [10, 20, 20, 30] {
            messages.park("a".to_owned(), parked(1, until), 0);
            messages.park("a".to_owned(), parked(2, until + 1), 0);
        }
        assert_eq!(messages.counts().map(|(_, count)| count).collect::<Vec<_>>(), [2]);
        // Its first place is over, and the message waits on.
        messages.park("a".to_owned(), parked(3, 40), 12);
        assert_eq!(messages.counts().map(|(_, count)| count).collect::<Vec<_>>(), [3]);
        assert_eq!(messages.fetch((now, 13), 2, |_| 9), [parked(1, 30), parked(2, 31)]);
        assert_eq!((messages.count, messages.clear()), (1, vec![parked(3, 40)]));
    }

    #[test]
    fn messages_that_came_back_at_their_time_are_forgotten() {
        let (mut messages, now) = (ParkedMessages::default(), Instant::now());
        messages.park("a".to_owned(), parked(1, 10), 0);
        messages.park("a".to_owned(), parked(2, 20), 15);
        messages.park("b".to_owned(), parked(3, 20), 15);
        assert_eq!(messages.count, 2);
        assert!(messages.fetch((now, 20), 9, |_| 9).is_empty());
        assert!(messages.is_empty() && messages.hosts.is_empty());
    }
}
