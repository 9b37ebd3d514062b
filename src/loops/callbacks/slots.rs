//! The call slots of one pushed topic on one instance, and the messages that wait for a slot. Each call takes one slot. A
//! host has few slots, so a slow or dead host holds only these, and messages for other hosts pass its own. A message that
//! will not get a slot soon is parked: it goes back to Redis until about the time when a slot is expected.
//!
//! A publisher can name any number of hosts. So hosts that do not answer share a part of the slots, and the more of them
//! there are, the fewer each may take. Slots are also counted by the dialled address, whatever its names and ports: those of
//! hosts that do not answer apart from those of hosts that do.
//!
//! Nothing in here calls Redis or HTTP. The caller passes the current time.

mod host;
mod usage;

use dueq_model::CallPlace;
pub(super) use host::Gate;
use host::Host;
use std::{
    collections::{HashMap, VecDeque},
    net::IpAddr,
    time::Duration,
};
use tokio::time::Instant;
use usage::{HostState, Usage, ip_of};

/// A host as the dialler knows it: name or address, and port.
pub(super) type HostKey = String;

/// Messages that can be called within this time wait here, others in Redis. It covers the time to fetch more from Redis.
const LOCAL_WINDOW: Duration = Duration::from_millis(200);
/// A message that has waited here this long is parked.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// Maximum number of messages that wait here.
const MAX_WAITING: usize = 512;
/// Maximum size of the messages that wait here.
const MAX_WAITING_BYTES: usize = 16 * 1024 * 1024;
/// Call time to assume until the first call has ended.
const INITIAL_CALL_TIME: Duration = Duration::from_millis(10);
/// A host whose calls take longer than this is slow. Messages for other hosts are leased even if only this one has calls.
const SLOW_CALL: Duration = Duration::from_secs(2);
/// Number of hosts above which idle ones are forgotten.
const MAX_HOSTS: usize = 1_024;
/// A host that failed is called as usual once it may have so many calls under way.
const MAX_OPENING: usize = 1_024;

/// Hosts whose calls may not begin as usual.
pub(super) type Gates = HashMap<HostKey, Gate>;

/// The call limits of a topic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Maximum number of calls under way.
    pub in_flight: usize,
    /// Maximum number of calls under way to one host.
    pub per_host: usize,
}

/// What to do with an offered message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Offered<M> {
    /// Call it now: it has a slot.
    Begin(M),
    /// Keep it here until it has a slot.
    Wait,
    /// Park it for this long, for lack of this place.
    Park(M, Duration, Option<CallPlace>),
}

/// A message to park, for how long, and the place that it lacks; `None`: its host is paused, or fails.
pub(super) type Parking<M> = (M, Duration, Option<CallPlace>);

/// A message that waits for a slot.
struct Waiting<M> {
    since: Instant,
    bytes: usize,
    message: M,
}

/// The slots of one topic, and the messages that wait for them.
pub(super) struct Slots<M> {
    hosts: HashMap<HostKey, Host<M>>,
    /// Hosts with waiting messages, in round-robin order.
    round_robin: VecDeque<HostKey>,
    usage: Usage,
    gates: Gates,
    waiting: usize,
    waiting_bytes: usize,
    /// Moving average of how long calls take, over all hosts.
    call_time: Duration,
}

/// Returns how many calls of this duration `slots` slots can make within [`LOCAL_WINDOW`], up to [`MAX_WAITING`].
fn calls_within_window(slots: usize, call_time: Duration) -> usize {
    let calls_per_slot = LOCAL_WINDOW.as_secs_f64() / call_time.as_secs_f64().max(0.000_1);
    (slots as f64 * calls_per_slot).min(MAX_WAITING as f64) as usize
}

fn moving_average(average: Duration, latest: Duration) -> Duration {
    (average * 7 + latest) / 8
}

impl<M> Slots<M> {
    pub fn new() -> Self {
        Self {
            hosts: HashMap::new(),
            round_robin: VecDeque::new(),
            usage: Usage::default(),
            gates: Gates::new(),
            waiting: 0,
            waiting_bytes: 0,
            call_time: INITIAL_CALL_TIME,
        }
    }

    /// The number of calls under way.
    pub fn in_flight(&self) -> usize {
        self.usage.in_flight
    }

    /// Returns how many messages to lease now, or 0 if that would be few: each lease costs a call to Redis.
    pub fn capacity(&self, now: Instant, limits: Limits) -> usize {
        let mut busy = self.hosts.values().filter(|host| host.in_flight > 0);
        let only = busy.next().filter(|_| busy.next().is_none());
        // If only one host has calls and is not slow, its slots are the limit. Further messages wait in Redis, in order.
        let slots = match only {
            Some(host) if host.expected_call_time(now) <= SLOW_CALL => {
                limits.in_flight.min(limits.per_host)
            }
            _ => limits.in_flight,
        };
        let total = slots + calls_within_window(slots, self.call_time);
        let free = total.saturating_sub(self.usage.in_flight + self.waiting);
        if self.waiting_bytes > MAX_WAITING_BYTES {
            return 0;
        }
        if free * 4 >= total || self.waiting == 0 { free } else { 0 }
    }

    /// Decides what to do with a leased message of this size for this host.
    pub fn offer(
        &mut self,
        host: HostKey,
        bytes: usize,
        message: M,
        now: Instant,
        limits: Limits,
    ) -> Offered<M> {
        if self.hosts.len() >= MAX_HOSTS && !self.hosts.contains_key(&host) {
            // Hosts that answer are kept longer, since publishers can name any number of others.
            let many = self.hosts.len() >= 4 * MAX_HOSTS;
            let answers = |host: &Host<M>| !host.state.silent && !many;
            let busy = |host: &Host<M>| host.in_flight > 0 || !host.waiting.is_empty();
            self.hosts.retain(|_, host| busy(host) || answers(host));
        }
        let gate = self.gates.get(&host).copied().unwrap_or_default();
        let entry = self.hosts.entry(host.clone()).or_insert_with(|| Host::new(&host, gate, now));
        if entry.waiting.is_empty() && entry.has_slot(&self.usage, now, limits) {
            entry.begin(&mut self.usage, now);
            return Offered::Begin(message);
        }
        if entry.in_flight == 0 {
            entry.blocked_since.get_or_insert(now);
        }
        let full = self.waiting >= MAX_WAITING || self.waiting_bytes + bytes > MAX_WAITING_BYTES;
        if full || entry.waiting.len() >= entry.max_waiting(now, limits) {
            let place = entry.lacks(&self.usage, limits);
            return Offered::Park(message, entry.park(now, limits), place);
        }
        if entry.waiting.is_empty() {
            self.round_robin.push_back(host);
        }
        entry.waiting.push_back(Waiting { since: now, bytes, message });
        self.waiting += 1;
        self.waiting_bytes += bytes;
        Offered::Wait
    }

    /// Frees the slot of a call to this host. `took` is `None` if the call was not made.
    pub fn call_ended(&mut self, host: &str, took: Option<Duration>, answered: bool, now: Instant) {
        self.call_time = took.map_or(self.call_time, |took| moving_average(self.call_time, took));
        if let Some(host) = self.hosts.get_mut(host) {
            host.in_flight -= 1;
            self.usage.release(host.state, 1);
            if let Some(took) = took {
                host.call_time = moving_average(host.call_time, took);
                host.progress_at = now;
                host.last_answer_time = if answered { took } else { host.last_answer_time };
                let state = HostState { silent: !answered, failed: !answered, ..host.state };
                host.set_state(&mut self.usage, state);
            }
        }
    }

    /// Notes whether a host answered other than with a 5xx: one that failed gets more calls with each such answer.
    pub fn note_answer(&mut self, host: &str, well: bool) {
        let Some(host) = self.hosts.get_mut(host) else { return };
        let more = |may: usize| if well { may.saturating_add(1) } else { 1 };
        host.opened = host.opened.map(more).filter(|may| *may < MAX_OPENING);
    }

    /// Begins calls to these hosts as their gates say, and to all others as usual. Messages that wait for hosts that are paused, or
    /// that fail, are overdue.
    pub fn set_gates(&mut self, gates: Gates, now: Instant) {
        for (key, host) in &mut self.hosts {
            let gate = gates.get(key).copied().unwrap_or_default();
            if gate.holds() != host.gate.holds() {
                // What was expected of it is over.
                host.next_slot_at = now;
                host.blocked_since = None;
            }
            if matches!(host.gate, Gate::Failing(_)) && !gate.holds() {
                host.opened = Some(1);
            }
            host.gate = gate;
        }
        self.gates = gates;
    }

    /// Returns the calls under way to each host, and the messages that wait here.
    pub fn places(&self) -> impl Iterator<Item = (&HostKey, usize, usize)> {
        let used = self.hosts.iter().map(|(key, host)| (key, host.in_flight, host.waiting.len()));
        used.filter(|(_, in_flight, waiting)| in_flight + waiting > 0)
    }

    /// Updates the state of hosts with calls. `address_of` returns the address that a host was dialled at.
    pub fn update_hosts(&mut self, now: Instant, address_of: impl Fn(&str) -> Option<IpAddr>) {
        for (key, host) in self.hosts.iter_mut().filter(|(_, host)| host.in_flight > 0) {
            // A host may take twice as long as for its last answer before it counts as hanging.
            let hangs = host.progress_at + SLOW_CALL.max(2 * host.last_answer_time) < now;
            let address = host.state.address.or_else(|| address_of(key).map(dueq_model::network));
            let HostState { silent, failed, .. } = host.state;
            let state = HostState { silent: silent || hangs, failed: failed || hangs, address };
            if state != host.state {
                host.set_state(&mut self.usage, state);
            }
        }
    }

    /// Returns how many parked messages of this host to fetch back, because they can be called soon. If there are any, the
    /// times of messages that are parked from now on start over.
    pub fn host_capacity(&mut self, host: &str, now: Instant, limits: Limits) -> usize {
        let free = limits.in_flight.saturating_sub(self.usage.in_flight).min(limits.per_host);
        if self.gates.get(host).is_some_and(|gate| gate.holds()) {
            return 0;
        }
        let Some(host) = self.hosts.get_mut(host) else {
            let state = HostState { silent: true, failed: false, address: ip_of(host) };
            return if self.usage.lacks(state, 0, limits).is_none() { free } else { 0 };
        };
        if !host.waiting.is_empty() || !host.has_slot(&self.usage, now, limits) {
            return 0;
        }
        host.next_slot_at = now;
        if host.state.silent {
            // One call shows whether the host answers.
            return 1;
        }
        free.min(limits.per_host.min(host.may(now)) - host.in_flight)
            + host.max_waiting(now, limits)
    }

    /// Gives a slot to the next waiting message that can have one, and returns it with its host.
    pub fn begin(&mut self, now: Instant, limits: Limits) -> Option<(HostKey, M)> {
        for _ in 0..self.round_robin.len() {
            let key = self.round_robin.pop_front()?;
            let Some(host) = self.hosts.get_mut(&key) else { continue };
            if !host.has_slot(&self.usage, now, limits) {
                self.round_robin.push_back(key);
                continue;
            }
            let Some(Waiting { bytes, message, .. }) = host.waiting.pop_front() else { continue };
            self.waiting -= 1;
            self.waiting_bytes -= bytes;
            host.begin(&mut self.usage, now);
            if !host.waiting.is_empty() {
                self.round_robin.push_back(key.clone());
            }
            return Some((key, message));
        }
        None
    }

    /// Removes the messages that have waited too long or are expected to, and returns how to park each.
    pub fn overdue(&mut self, now: Instant, limits: Limits) -> Vec<Parking<M>> {
        let mut parked = Vec::new();
        for host in self.hosts.values_mut().filter(|host| !host.waiting.is_empty()) {
            let place = host.lacks(&self.usage, limits);
            while host.waiting.front().is_some_and(|first| first.since + MAX_WAIT <= now) {
                let Some(Waiting { bytes, message, .. }) = host.waiting.pop_front() else { break };
                self.waiting_bytes -= bytes;
                parked.push((message, host.park(now, limits), place));
            }
            let most = host.max_waiting(now, limits);
            if host.waiting.len() > most {
                for Waiting { bytes, message, .. } in host.waiting.split_off(most) {
                    self.waiting_bytes -= bytes;
                    parked.push((message, host.park(now, limits), place));
                }
            }
        }
        self.waiting -= parked.len();
        let hosts = &self.hosts;
        self.round_robin.retain(|key| hosts.get(key).is_some_and(|host| !host.waiting.is_empty()));
        parked
    }

    /// Removes and returns all waiting messages.
    pub fn clear(&mut self) -> Vec<M> {
        self.round_robin.clear();
        (self.waiting, self.waiting_bytes) = (0, 0);
        let waiting = self.hosts.values_mut().flat_map(|host| host.waiting.drain(..));
        waiting.map(|waiting| waiting.message).collect()
    }
}

#[cfg(test)]
mod tests;
