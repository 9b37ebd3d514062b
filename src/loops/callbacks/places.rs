//! Who may be called now: the places of one pushed topic at one instance, and the messages that wait for one. A host has
//! few places, so one that is slow or dead holds few, and what is for other hosts passes it. A message for which there
//! will be none soon is parked: it goes back to Redis until about when there is one.
//!
//! Whoever may publish can name any number of hosts, so hosts that do not answer share a part of the places, the fewer
//! each the more they are; and places are counted by the dialled address too, whatever its names and ports.
//!
//! Nothing here knows Redis or HTTP; instants come from the caller.

mod tally;

use std::{
    collections::{HashMap, VecDeque},
    net::IpAddr,
    time::Duration,
};
use tally::{Standing, Tally, literal};
use tokio::time::Instant;

/// A host, as the dialler sees it: name or address, and port.
pub(super) type HostKey = String;

/// Messages wait here for so long, about, rather than in Redis: it bridges the way there and back.
const AHEAD: Duration = Duration::from_millis(200);
/// Whoever has waited this long waits in Redis from now on.
const PATIENCE: Duration = Duration::from_secs(1);
/// Messages that wait here, at most.
const MOST_WAITING: usize = 512;
/// Bytes of messages that wait here, at most.
const MOST_WAITING_BYTES: usize = 16 * 1024 * 1024;
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
    /// Calls to one host that an instance makes at once, at most.
    pub per_host: usize,
}

/// What becomes of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Offered<M> {
    /// It is called now.
    Begin(M),
    /// It waits here.
    Waits,
    /// It goes back for this long.
    Park(M, Duration),
}

struct Host<M> {
    in_flight: usize,
    standing: Standing,
    /// How long its last call took that was answered.
    answered_in: Duration,
    /// Since when there is no place for it although it has none.
    blocked_since: Option<Instant>,
    /// Since when, how many bytes, what.
    waiting: VecDeque<(Instant, usize, M)>,
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
    tally: Tally,
    waiting: usize,
    waiting_bytes: usize,
    takes: Duration,
}

impl<M> Host<M> {
    fn new(key: &str, now: Instant) -> Self {
        Self {
            in_flight: 0,
            standing: Standing { silent: true, address: literal(key) },
            answered_in: Duration::ZERO,
            blocked_since: None,
            waiting: VecDeque::new(),
            takes: FIRST_GUESS,
            progress_at: now,
            slot_at: now,
        }
    }

    fn may_begin(&self, tally: &Tally, limits: Limits) -> bool {
        tally.has_room(self.standing, self.in_flight, limits)
    }

    fn begin(&mut self, tally: &mut Tally, now: Instant) {
        if self.in_flight == 0 {
            self.progress_at = now;
        }
        self.blocked_since = None;
        self.in_flight += 1;
        tally.take(self.standing, 1);
    }

    /// It is found to stand otherwise than was known.
    fn stand(&mut self, tally: &mut Tally, standing: Standing) {
        tally.give_back(self.standing, self.in_flight);
        self.standing = standing;
        tally.take(self.standing, self.in_flight);
    }

    /// How long its calls take, as far as that is known by now: not less than nothing has come back for.
    fn pace(&self, now: Instant) -> Duration {
        let since = match self.in_flight {
            0 => self.blocked_since.unwrap_or(now),
            _ => self.progress_at,
        };
        self.takes.max(now.saturating_duration_since(since))
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
            tally: Tally::default(),
            waiting: 0,
            waiting_bytes: 0,
            takes: FIRST_GUESS,
        }
    }

    /// Calls under way.
    pub fn in_flight(&self) -> usize {
        self.tally.in_flight
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
        let room = most.saturating_sub(self.tally.in_flight + self.waiting);
        if self.waiting_bytes > MOST_WAITING_BYTES {
            return 0;
        }
        if room * 4 >= most || self.waiting == 0 { room } else { 0 }
    }

    /// A message of so many bytes has come for this host.
    pub fn offer(
        &mut self,
        host: HostKey,
        bytes: usize,
        message: M,
        now: Instant,
        limits: Limits,
    ) -> Offered<M> {
        if self.hosts.len() >= MOST_IDLE && !self.hosts.contains_key(&host) {
            // Those who answer are remembered longer: any number of others can be named.
            let many = self.hosts.len() >= 4 * MOST_IDLE;
            let answers = |host: &Host<M>| !host.standing.silent && !many;
            let busy = |host: &Host<M>| host.in_flight > 0 || !host.waiting.is_empty();
            self.hosts.retain(|_, host| busy(host) || answers(host));
        }
        let entry = self.hosts.entry(host.clone()).or_insert_with(|| Host::new(&host, now));
        if entry.waiting.is_empty() && entry.may_begin(&self.tally, limits) {
            entry.begin(&mut self.tally, now);
            return Offered::Begin(message);
        }
        if entry.in_flight == 0 {
            entry.blocked_since.get_or_insert(now);
        }
        let full = self.waiting >= MOST_WAITING || self.waiting_bytes + bytes > MOST_WAITING_BYTES;
        if full || entry.waiting.len() >= entry.quota(now, limits) {
            return Offered::Park(message, entry.park(now, limits));
        }
        if entry.waiting.is_empty() {
            self.turns.push_back(host);
        }
        entry.waiting.push_back((now, bytes, message));
        self.waiting += 1;
        self.waiting_bytes += bytes;
        Offered::Waits
    }

    /// A call to this host has ended, and was answered or not; or it was not made.
    pub fn call_ended(&mut self, host: &str, took: Option<Duration>, answered: bool, now: Instant) {
        self.takes = took.map_or(self.takes, |took| average(self.takes, took));
        if let Some(host) = self.hosts.get_mut(host) {
            host.in_flight -= 1;
            self.tally.give_back(host.standing, 1);
            if let Some(took) = took {
                host.takes = average(host.takes, took);
                host.progress_at = now;
                host.answered_in = if answered { took } else { host.answered_in };
                host.stand(&mut self.tally, Standing { silent: !answered, ..host.standing });
            }
        }
    }

    /// Looks once more how hosts stand: `address_of` tells where a host was dialled.
    pub fn look(&mut self, now: Instant, address_of: impl Fn(&str) -> Option<IpAddr>) {
        for (key, host) in self.hosts.iter_mut().filter(|(_, host)| host.in_flight > 0) {
            // Twice as long as its last answer took, it gets on.
            let hangs = host.progress_at + SLOW.max(2 * host.answered_in) < now;
            let address = host.standing.address.or_else(|| address_of(key).map(tally::owner));
            let standing = Standing { silent: host.standing.silent || hangs, address };
            if standing != host.standing {
                host.stand(&mut self.tally, standing);
            }
        }
    }

    /// How many messages for this host could be called soon, were they here rather than parked. Those that are parked
    /// next are no further ahead then.
    pub fn vacancy(&mut self, host: &str, now: Instant, limits: Limits) -> usize {
        let free = limits.in_flight.saturating_sub(self.tally.in_flight).min(limits.per_host);
        let Some(host) = self.hosts.get_mut(host) else {
            let standing = Standing { silent: true, address: literal(host) };
            return if self.tally.has_room(standing, 0, limits) { free } else { 0 };
        };
        if !host.waiting.is_empty() || !host.may_begin(&self.tally, limits) {
            return 0;
        }
        host.slot_at = now;
        if host.standing.silent {
            // Its answer tells whether more can come.
            return 1;
        }
        free.min(limits.per_host - host.in_flight) + host.quota(now, limits)
    }

    /// The next message that waits and has a place by now, and its host.
    pub fn begin(&mut self, now: Instant, limits: Limits) -> Option<(HostKey, M)> {
        for _ in 0..self.turns.len() {
            let key = self.turns.pop_front()?;
            let Some(host) = self.hosts.get_mut(&key) else { continue };
            if !host.may_begin(&self.tally, limits) {
                self.turns.push_back(key);
                continue;
            }
            let Some((_, bytes, message)) = host.waiting.pop_front() else { continue };
            self.waiting -= 1;
            self.waiting_bytes -= bytes;
            host.begin(&mut self.tally, now);
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
            while host.waiting.front().is_some_and(|(since, ..)| *since + PATIENCE <= now) {
                let Some((_, bytes, message)) = host.waiting.pop_front() else { break };
                self.waiting_bytes -= bytes;
                parked.push((message, host.park(now, limits)));
            }
            let quota = host.quota(now, limits);
            if host.waiting.len() > quota {
                for (_, bytes, message) in host.waiting.split_off(quota) {
                    self.waiting_bytes -= bytes;
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
        (self.waiting, self.waiting_bytes) = (0, 0);
        let waiting = self.hosts.values_mut().flat_map(|host| host.waiting.drain(..));
        waiting.map(|(.., message)| message).collect()
    }
}

#[cfg(test)]
mod tests;
