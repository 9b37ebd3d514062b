//! Who may be called now: the places of one pushed topic at one instance, and the messages that wait for one. A host has
//! few places, so one that is slow or dead holds few, and what is for other hosts passes it. A message for which there
//! will be none soon is parked: it goes back to Redis until about when there is one.
//!
//! Nothing here knows Redis or HTTP; instants come from the caller.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};
use tokio::time::Instant;

/// A host, as the dialler sees it: name or address, and port.
pub(super) type HostKey = String;

/// Messages wait here for so long, about, rather than in Redis: it bridges the way there and back.
const AHEAD: Duration = Duration::from_millis(200);
/// Whoever has waited this long waits in Redis from now on.
const PATIENCE: Duration = Duration::from_secs(1);
/// Messages that wait here, at most.
const MOST_WAITING: usize = 512;
/// A parked message is looked at again after this long, at the latest, should its host have recovered.
const LONGEST_PARKED: Duration = Duration::from_secs(30);
/// How long a call takes, as long as none has ended.
const FIRST_GUESS: Duration = Duration::from_millis(10);
/// A host whose calls take longer than this is passed even where it is the only one in sight.
const SLOW: Duration = Duration::from_secs(2);
/// Hosts that are remembered without having a call or a message here.
const MOST_IDLE: usize = 1_024;

/// The bounds of a topic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Calls under way, at most.
    pub in_flight: usize,
    /// The same for one host.
    pub per_host: usize,
}

/// What becomes of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Seat<M> {
    /// It is called now.
    Begin(M),
    /// It waits here.
    Waits,
    /// It goes back for this long.
    Park(M, Duration),
}

struct Host<M> {
    in_flight: usize,
    waiting: VecDeque<(Instant, M)>,
    /// How long its calls take, on the average of the last few.
    takes: Duration,
    /// When a call last ended, or the first of those under way began.
    progress_at: Instant,
    /// When a place comes free for the next message that is parked.
    slot_at: Instant,
}

/// The places of one topic, and who waits for them.
pub(super) struct Places<M> {
    hosts: HashMap<HostKey, Host<M>>,
    /// Hosts with messages that wait, in the order in which they get their turn.
    turns: VecDeque<HostKey>,
    in_flight: usize,
    waiting: usize,
    takes: Duration,
}

impl<M> Host<M> {
    fn new(now: Instant) -> Self {
        Self {
            in_flight: 0,
            waiting: VecDeque::new(),
            takes: FIRST_GUESS,
            progress_at: now,
            slot_at: now,
        }
    }

    fn begin(&mut self, now: Instant) {
        if self.in_flight == 0 {
            self.progress_at = now;
        }
        self.in_flight += 1;
    }

    /// How long its calls take, as far as that is known by now: not less than nothing has come back for.
    fn pace(&self, now: Instant) -> Duration {
        match self.in_flight {
            0 => self.takes,
            _ => self.takes.max(now.saturating_duration_since(self.progress_at)),
        }
    }

    /// Messages that can wait for it here.
    fn quota(&self, now: Instant, limits: Limits) -> usize {
        ahead(limits.per_host.min(limits.in_flight), self.pace(now))
    }

    /// How long until the message that is parked next gets a place. Each is given a place of its own in the host's future,
    /// so that they come back one by one, in order.
    fn park(&mut self, now: Instant, limits: Limits) -> Duration {
        let apart = self.pace(now) / limits.per_host.min(limits.in_flight).max(1) as u32;
        self.slot_at = self.slot_at.max(now + AHEAD) + apart;
        let wait = self.slot_at - now;
        if wait <= LONGEST_PARKED {
            return wait;
        }
        // Too far ahead to be told: they come back spread over the second half of the longest time.
        let half = LONGEST_PARKED / 2;
        let spread = wait.as_millis() as u64 % half.as_millis() as u64;
        // Not ever further, so that a host that recovers is believed soon.
        self.slot_at = self.slot_at.min(now + 20 * LONGEST_PARKED);
        half + Duration::from_millis(spread)
    }
}

/// Messages that can be called within `AHEAD` with so many places.
fn ahead(places: usize, takes: Duration) -> usize {
    let turns = AHEAD.as_secs_f64() / takes.as_secs_f64().max(0.000_1);
    (places as f64 * turns).min(MOST_WAITING as f64) as usize
}

fn average(known: Duration, one: Duration) -> Duration {
    (known * 7 + one) / 8
}

impl<M> Places<M> {
    pub fn new() -> Self {
        Self {
            hosts: HashMap::new(),
            turns: VecDeque::new(),
            in_flight: 0,
            waiting: 0,
            takes: FIRST_GUESS,
        }
    }

    /// Calls under way.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// How many messages to lease now; 0: not yet. Few at a time would cost a call to Redis each.
    pub fn room(&self, now: Instant, limits: Limits) -> usize {
        let mut busy = self.hosts.values().filter(|host| host.in_flight > 0);
        let only = busy.next().filter(|_| busy.next().is_none());
        // With one host in sight that gets on, its places are all there are: what is behind waits in Redis, in order.
        let places = match only {
            Some(host) if host.pace(now) <= SLOW => limits.in_flight.min(limits.per_host),
            _ => limits.in_flight,
        };
        let most = places + ahead(places, self.takes);
        let room = most.saturating_sub(self.in_flight + self.waiting);
        if room * 4 >= most || self.waiting == 0 { room } else { 0 }
    }

    /// A message for this host has come.
    pub fn offer(&mut self, host: HostKey, message: M, now: Instant, limits: Limits) -> Seat<M> {
        if self.hosts.len() >= MOST_IDLE && !self.hosts.contains_key(&host) {
            self.hosts.retain(|_, host| host.in_flight > 0 || !host.waiting.is_empty());
        }
        let entry = self.hosts.entry(host.clone()).or_insert_with(|| Host::new(now));
        let free = entry.in_flight < limits.per_host && self.in_flight < limits.in_flight;
        if free && entry.waiting.is_empty() {
            entry.begin(now);
            self.in_flight += 1;
            return Seat::Begin(message);
        }
        if entry.waiting.len() >= entry.quota(now, limits) || self.waiting >= MOST_WAITING {
            return Seat::Park(message, entry.park(now, limits));
        }
        if entry.waiting.is_empty() {
            self.turns.push_back(host);
        }
        entry.waiting.push_back((now, message));
        self.waiting += 1;
        Seat::Waits
    }

    /// A call to this host has ended.
    pub fn land(&mut self, host: &str, took: Duration, now: Instant) {
        self.takes = average(self.takes, took);
        self.in_flight -= 1;
        if let Some(host) = self.hosts.get_mut(host) {
            host.takes = average(host.takes, took);
            host.in_flight -= 1;
            host.progress_at = now;
        }
    }

    /// The next message that waits and has a place by now, and its host.
    pub fn begin(&mut self, now: Instant, limits: Limits) -> Option<(HostKey, M)> {
        for _ in 0..self.turns.len() {
            if self.in_flight >= limits.in_flight {
                return None;
            }
            let key = self.turns.pop_front()?;
            let Some(host) = self.hosts.get_mut(&key) else { continue };
            if host.in_flight >= limits.per_host {
                self.turns.push_back(key);
                continue;
            }
            let Some((_, message)) = host.waiting.pop_front() else { continue };
            self.waiting -= 1;
            host.begin(now);
            self.in_flight += 1;
            if !host.waiting.is_empty() {
                self.turns.push_back(key.clone());
            }
            return Some((key, message));
        }
        None
    }

    /// Those who have waited too long, or would from what is known by now, and for how long to park each.
    pub fn overdue(&mut self, now: Instant, limits: Limits) -> Vec<(M, Duration)> {
        let mut parked = Vec::new();
        for host in self.hosts.values_mut() {
            while host.waiting.front().is_some_and(|(since, _)| *since + PATIENCE <= now) {
                let Some((_, message)) = host.waiting.pop_front() else { break };
                parked.push((message, host.park(now, limits)));
            }
            let quota = host.quota(now, limits);
            if host.waiting.len() > quota {
                for (_, message) in host.waiting.split_off(quota) {
                    parked.push((message, host.park(now, limits)));
                }
            }
        }
        self.waiting -= parked.len();
        let hosts = &self.hosts;
        self.turns.retain(|key| hosts.get(key).is_some_and(|host| !host.waiting.is_empty()));
        parked
    }

    /// All who wait.
    pub fn clear(&mut self) -> Vec<M> {
        self.turns.clear();
        self.waiting = 0;
        let waiting = self.hosts.values_mut().flat_map(|host| host.waiting.drain(..));
        waiting.map(|(_, message)| message).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { in_flight: 6, per_host: 2 };

    fn offer(places: &mut Places<u32>, host: &str, message: u32, now: Instant) -> Seat<u32> {
        places.offer(host.to_owned(), message, now, LIMITS)
    }

    #[test]
    fn a_host_that_never_answers_holds_its_places_and_others_pass_it() {
        let (mut places, now) = (Places::new(), Instant::now());
        assert_eq!(offer(&mut places, "dead", 1, now), Seat::Begin(1));
        assert_eq!(offer(&mut places, "dead", 2, now), Seat::Begin(2));
        assert_eq!(offer(&mut places, "dead", 3, now), Seat::Waits);
        assert_eq!(offer(&mut places, "alive", 4, now), Seat::Begin(4));
        assert_eq!(places.begin(now, LIMITS), None);
        places.land("alive", Duration::from_millis(1), now);
        assert_eq!(places.begin(now, LIMITS), None);
        // The longer nothing comes back, the fewer may wait for it.
        let later = now + Duration::from_millis(200);
        assert_eq!(offer(&mut places, "dead", 5, later), Seat::Waits);
        assert!(matches!(offer(&mut places, "dead", 6, later), Seat::Park(6, _)));
        assert_eq!(offer(&mut places, "alive", 7, later), Seat::Begin(7));
        let parked = places.overdue(now + PATIENCE, LIMITS);
        assert_eq!(parked.iter().map(|(message, _)| *message).collect::<Vec<_>>(), [3, 5]);
        assert_eq!((places.waiting, places.in_flight), (0, 3));
    }

    #[test]
    fn whoever_waits_begins_when_a_place_of_its_host_comes_free_hosts_by_turns() {
        let (mut places, now) = (Places::new(), Instant::now());
        for message in 1..=4 {
            offer(&mut places, "a", message, now);
            offer(&mut places, "b", 10 + message, now);
        }
        let took = Duration::from_millis(5);
        places.land("b", took, now);
        assert_eq!(places.begin(now, LIMITS), Some(("b".to_owned(), 13)));
        assert_eq!(places.begin(now, LIMITS), None);
        places.land("a", took, now);
        places.land("b", took, now);
        assert_eq!(places.begin(now, LIMITS), Some(("a".to_owned(), 3)));
        assert_eq!(places.begin(now, LIMITS), Some(("b".to_owned(), 14)));
        assert_eq!(places.clear(), [4]);
    }

    #[test]
    fn a_burst_for_a_host_that_is_not_known_yet_waits_here() {
        let (mut places, now) = (Places::new(), Instant::now());
        let seats: Vec<_> =
            (0..40).map(|message| offer(&mut places, "new", message, now)).collect();
        assert!(!seats.iter().any(|seat| matches!(seat, Seat::Park(..))));
    }

    #[test]
    fn parked_messages_come_back_one_after_another_at_the_pace_of_their_host_and_never_late() {
        let (mut places, now) = (Places::new(), Instant::now());
        offer(&mut places, "slow", 0, now);
        offer(&mut places, "slow", 1, now);
        let (mut parked, later) = (Vec::new(), now + Duration::from_secs(1));
        for message in 0..2_000 {
            if let Seat::Park(_, wait) = offer(&mut places, "slow", message, later) {
                parked.push(wait);
            }
        }
        // A second and more a call, two places: one every 500 ms.
        assert_eq!(parked[1] - parked[0], Duration::from_millis(500));
        assert!(parked.iter().all(|wait| *wait <= LONGEST_PARKED), "{:?}", parked.iter().max());
        let late = parked.iter().filter(|wait| **wait > LONGEST_PARKED / 2).count();
        assert!(late > 1_500, "{late}");
    }

    #[test]
    fn as_much_is_leased_as_can_be_called_soon() {
        let (mut places, now) = (Places::<u32>::new(), Instant::now());
        assert_eq!(places.room(now, LIMITS), 6 + 120);
        assert_eq!(offer(&mut places, "a", 1, now), Seat::Begin(1));
        // One host in sight: its places, unless it hangs.
        assert_eq!(places.room(now, LIMITS), 2 + 40 - 1);
        assert_eq!(places.room(now + 2 * SLOW, LIMITS), 6 + 120 - 1);
        offer(&mut places, "b", 2, now);
        assert_eq!(places.room(now, LIMITS), 6 + 120 - 2);
        for _ in 0..200 {
            places.land("a", Duration::from_secs(20), now);
            assert_eq!(offer(&mut places, "a", 3, now), Seat::Begin(3));
        }
        // Slow: none in advance.
        assert_eq!(places.room(now, LIMITS), 4);
    }
}
