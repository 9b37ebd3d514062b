//! One host of a topic's calls: its slots, and for how long messages are parked that find none.

use super::{
    INITIAL_CALL_TIME, LOCAL_WINDOW, Limits, Waiting, calls_within_window,
    usage::{HostState, Usage, ip_of},
};
use dueq_model::CallPlace;
use std::{collections::VecDeque, time::Duration};
use tokio::time::Instant;

/// Longest time for which a message is parked. Its host may have recovered by then.
pub(super) const MAX_PARK_TIME: Duration = Duration::from_secs(30);
/// A message for a paused host is parked for at least this long. Others are fetched back sooner once the host is resumed, but
/// not those of an instance that died meanwhile.
pub(super) const MIN_HELD_TIME: Duration = Duration::from_secs(15);
/// Messages for a paused host come back one by one, this long after each other: each costs Redis a lease and a release…
pub(super) const HELD_INTERVAL: Duration = Duration::from_millis(2);
/// …but none comes back later than this.
pub(super) const MAX_HELD_TIME: Duration = Duration::from_secs(300);

/// Whether calls to a host may begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) enum Gate {
    /// They may.
    #[default]
    Open,
    /// It failed, and is being called again.
    Opening,
    /// It fails: one may, from then on.
    Failing(Instant),
    /// It is paused.
    Paused,
}

impl Gate {
    /// Do messages wait until it opens?
    pub fn holds(self) -> bool {
        matches!(self, Self::Failing(_) | Self::Paused)
    }
}

/// A host, and the messages that wait for it.
pub(super) struct Host<M> {
    pub in_flight: usize,
    pub gate: Gate,
    /// After it failed: how many calls may be under way, one more with each that is answered.
    pub opened: Option<usize>,
    pub state: HostState,
    /// How long its last answered call took.
    pub last_answer_time: Duration,
    /// Since when it has been refused a slot while it had none.
    pub blocked_since: Option<Instant>,
    pub waiting: VecDeque<Waiting<M>>,
    /// Moving average of how long its calls take.
    pub call_time: Duration,
    /// When its last call ended, or the first call under way began.
    pub progress_at: Instant,
    /// When the message that was parked last is expected to get a slot.
    pub next_slot_at: Instant,
}

impl<M> Host<M> {
    pub fn new(key: &str, gate: Gate, now: Instant) -> Self {
        Self {
            in_flight: 0,
            gate,
            opened: (gate == Gate::Opening).then_some(1),
            state: HostState { silent: true, failed: false, address: ip_of(key) },
            last_answer_time: Duration::ZERO,
            blocked_since: None,
            waiting: VecDeque::new(),
            call_time: INITIAL_CALL_TIME,
            progress_at: now,
            next_slot_at: now,
        }
    }

    pub fn has_slot(&self, usage: &Usage, now: Instant, limits: Limits) -> bool {
        self.in_flight < self.may(now) && usage.lacks(self.state, self.in_flight, limits).is_none()
    }

    /// How many calls may be under way, whatever its topic allows.
    pub fn may(&self, now: Instant) -> usize {
        match self.gate {
            Gate::Paused => 0,
            Gate::Failing(probe_at) => usize::from(probe_at <= now),
            Gate::Open | Gate::Opening => self.opened.unwrap_or(usize::MAX),
        }
    }

    /// The place that messages wait for which it has no slot for; `None` while it is paused.
    pub fn lacks(&self, usage: &Usage, limits: Limits) -> Option<CallPlace> {
        let lacks = || usage.lacks(self.state, self.in_flight, limits).unwrap_or(CallPlace::Host);
        (!self.gate.holds()).then(lacks)
    }

    pub fn begin(&mut self, usage: &mut Usage, now: Instant) {
        if self.in_flight == 0 {
            self.progress_at = now;
        }
        self.blocked_since = None;
        self.in_flight += 1;
        usage.take(self.state, 1);
    }

    pub fn set_state(&mut self, usage: &mut Usage, state: HostState) {
        usage.release(self.state, self.in_flight);
        self.state = state;
        usage.take(self.state, self.in_flight);
    }

    /// How long its calls are expected to take: the average, or the time without progress if that is longer.
    pub fn expected_call_time(&self, now: Instant) -> Duration {
        let since = match self.in_flight {
            0 => self.blocked_since.unwrap_or(now),
            _ => self.progress_at,
        };
        self.call_time.max(now.saturating_duration_since(since))
    }

    /// Maximum number of messages for it that wait here.
    pub fn max_waiting(&self, now: Instant, limits: Limits) -> usize {
        if self.gate.holds() {
            return 0;
        }
        let slots = limits.per_host.min(limits.in_flight).min(self.may(now));
        calls_within_window(slots, self.expected_call_time(now))
    }

    /// Returns for how long to park the next message: until a slot is expected for it. Each parked message has a time of its
    /// own, so that they come back one by one, in order.
    pub fn park(&mut self, now: Instant, limits: Limits) -> Duration {
        if self.gate.holds() {
            self.next_slot_at = self.next_slot_at.max(now) + HELD_INTERVAL;
            let spread = self.next_slot_at - now;
            let longest = MAX_HELD_TIME - MIN_HELD_TIME;
            if spread > longest {
                self.next_slot_at = now;
            }
            return MIN_HELD_TIME + spread.min(longest);
        }
        let interval =
            self.expected_call_time(now) / limits.per_host.min(limits.in_flight).max(1) as u32;
        self.next_slot_at = self.next_slot_at.max(now + LOCAL_WINDOW) + interval;
        let wait = self.next_slot_at - now;
        if wait <= MAX_PARK_TIME {
            return wait;
        }
        // The time is too far away to predict. Messages come back spread over the second half of the longest time.
        let half = MAX_PARK_TIME / 2;
        let spread = wait.as_millis() as u64 % half.as_millis() as u64;
        // The bound lets a host that recovers return to short times soon.
        self.next_slot_at = self.next_slot_at.min(now + 20 * MAX_PARK_TIME);
        half + Duration::from_millis(spread)
    }
}
