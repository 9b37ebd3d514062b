//! Redis's clock as this instance knows it: estimated from the instants in its replies, and only ever used to number
//! messages and to decide how long to sleep. What is due is decided by Redis alone.

use crate::reply;
use deadpool_redis::redis::Value;
use dueq_base::seeded;
use dueq_model::Millis;
use parking_lot::Mutex;
use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::{Duration, Instant, SystemTime},
};
use tokio::sync::watch;

/// A reply this far (ms) from all that can be expected means that Redis's clock was set.
const STEP_MS: u64 = 500;
/// A better estimate is forgotten after this, so that clocks that drift apart are followed.
const ESTIMATE_LIFETIME: Duration = Duration::from_secs(2);
/// Not for a reply that was on its way for longer than this (µs): it says little.
const MAX_PROMPT_US: i64 = 100_000;

#[derive(Debug)]
pub struct Clock {
    base: Instant,
    /// Redis's time minus the time since `base`, µs. In whole ms it would be up to one ahead.
    offset: AtomicI64,
    raised: Mutex<Instant>,
    steps: watch::Sender<()>,
}

impl Clock {
    /// A clock of which nothing is known yet; `steps` changes whenever it was set.
    pub fn new(steps: watch::Sender<()>) -> Self {
        let now = Instant::now();
        Self {
            base: now,
            // Before the first reply nothing is known; any reply is a step from here.
            offset: AtomicI64::new(0),
            raised: Mutex::new(now),
            steps,
        }
    }

    /// Redis's time now, or some ms before: a reply is always older than the moment it is read.
    pub fn now(&self) -> Millis {
        self.now_us() / 1000
    }

    /// How far the clock of this machine is ahead of Redis's, ms; too far by what a reply's way takes. `None` before the first
    /// reply.
    pub fn machine_ahead(&self) -> Option<Millis> {
        let machine = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
        let is_known = self.offset().load(Ordering::Relaxed) != 0;
        is_known.then(|| machine.as_millis() as Millis - self.now())
    }

    /// How long until then: too long by what a reply's way takes, and too short only while a clock that was set back a
    /// little is not noticed yet.
    pub fn until(&self, at: Millis) -> Duration {
        let left = at.saturating_mul(1000).saturating_sub(self.now_us());
        Duration::from_micros(left.try_into().unwrap_or(0))
    }

    /// Takes an instant that a reply just brought; the request was sent at `sent`, and Redis looked at its clock somewhere in
    /// between. So a reply that comes late is no step of the clock.
    pub fn observe(&self, redis_now: Millis, sent: Instant) {
        let redis_us = redis_now.saturating_mul(1000);
        let least = redis_us.saturating_sub(self.elapsed_us());
        let known = self.offset().load(Ordering::Relaxed);
        if least == known {
            return;
        }
        // Redis's time is cut to whole ms, too.
        let way_us = sent.elapsed().as_micros() as i64 + 999;
        let most = least.saturating_add(way_us);
        let mut raised = self.raised.lock();
        // The reply that travelled fastest comes nearest to the truth: keep the greatest, for a while.
        let renewed = raised.elapsed() > ESTIMATE_LIFETIME && way_us < MAX_PROMPT_US;
        let offset = if renewed { least } else { known.clamp(least, most) };
        if renewed || offset != known {
            self.offset().store(offset, Ordering::Relaxed);
            *raised = Instant::now();
        }
        if offset.abs_diff(known) > STEP_MS * 1000 {
            self.steps.send_replace(());
        }
    }

    /// Takes the reply to TIME: seconds, microseconds.
    pub fn observe_time(&self, time: &[Value], sent: Instant) {
        let number = |at: usize| time.get(at).and_then(reply::word)?.parse::<Millis>().ok();
        if let (Some(seconds), Some(micros)) = (number(0), number(1)) {
            self.observe(seconds.saturating_mul(1000).saturating_add(micros / 1000), sent);
        }
    }

    fn now_us(&self) -> i64 {
        self.offset().load(Ordering::Relaxed).saturating_add(self.elapsed_us())
    }

    fn offset(&self) -> &AtomicI64 {
        static OF_ALL: AtomicI64 = AtomicI64::new(0);
        if seeded::bug("one clock") { &OF_ALL } else { &self.offset }
    }

    fn elapsed_us(&self) -> i64 {
        self.base.elapsed().as_micros() as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_is_never_ahead_and_follows_a_step() {
        let sender = watch::Sender::new(());
        let (clock, steps) = (Clock::new(sender.clone()), sender.subscribe());
        let observe = |redis_now| clock.observe(redis_now, Instant::now());
        observe(1_000_000);
        assert!((999_999..=1_000_050).contains(&clock.now()));
        clock.observe(999_990, Instant::now() - Duration::from_millis(50));
        assert!(clock.now() >= 1_000_000, "a slower reply does not pull the estimate back");
        observe(5_000_000);
        assert!(clock.now() >= 5_000_000);
        observe(1_000_000);
        assert!(clock.now() < 1_000_500);
        let left = clock.until(1_002_000);
        assert!((Duration::from_millis(1_500)..=Duration::from_millis(2_000)).contains(&left));
        assert_eq!(clock.until(999_000), Duration::ZERO);
        assert!(steps.has_changed().unwrap());
    }

    #[test]
    fn a_late_answer_is_no_step_and_a_step_told_late_is_one() {
        let sender = watch::Sender::new(());
        let clock = Clock::new(sender.clone());
        clock.observe(1_000_000, Instant::now());
        let mut steps = sender.subscribe();
        steps.mark_unchanged();
        for ms in [600, 5_000] {
            // Redis looked at its clock as soon as it was asked, and the answer took so long.
            let sent = Instant::now() - Duration::from_millis(ms);
            clock.observe(1_000_000 - ms as i64, sent);
            assert!(clock.now() >= 1_000_000, "the estimate after {ms} ms");
        }
        assert!(!steps.has_changed().unwrap());
        clock.observe(997_000, Instant::now() - Duration::from_millis(600));
        assert!(clock.now() < 999_000, "no answer is that late: the clock was set back");
        assert!(steps.has_changed().unwrap());
    }
}
