//! A claimed schedule: which ticks are to be made, as what messages, and what became of them.

use super::{Schedule, call, read_all, stored::NO_ID};
use crate::{
    error::Error,
    model::{MAX_IDEMPOTENCY_WINDOW_MS, MessageId, Millis},
    store::{Idempotency, NewMessage, Store, failed, reply::Fields, scripts},
};
use std::time::Instant;

/// Schedules that are claimed at once.
const CLAIM: usize = 32;
/// For how long (ms) a claimed schedule is its claimer's.
const HOLD: Millis = 1_000;
/// Bytes of definitions that a claim takes, about.
const CLAIM_BYTES: usize = 1024 * 1024;
/// A tick's idempotency key answers at least this long, ms.
const MIN_WINDOW_MS: Millis = 600_000;
/// A tick's idempotency key answers for so many ticks, so that rare ones survive long downtimes.
const WINDOW_TICKS: Millis = 1_000;

/// What became of a claimed schedule's ticks.
#[derive(Clone, Debug, Default)]
pub struct Ticked {
    /// The last tick that was made.
    pub last_at: Option<Millis>,
    /// The message that was published last.
    pub last_message_id: Option<MessageId>,
    /// Why the last tick published nothing.
    pub last_error: Option<String>,
}

impl Schedule {
    /// The ticks of a claimed schedule that are to be made.
    pub fn ticks(&self) -> Vec<Millis> {
        let first = self.next_at.unwrap_or(Millis::MAX);
        self.spec.timing.ticks(first, self.claimed_at, self.spec.catch_up)
    }

    /// The message of a tick. However often it is published, there is one.
    pub fn message_of(&self, tick: Millis) -> NewMessage {
        let next = self.spec.timing.next_after(tick).unwrap_or(tick);
        let most = MAX_IDEMPOTENCY_WINDOW_MS as Millis;
        let window = (next - tick).saturating_mul(WINDOW_TICKS).clamp(MIN_WINDOW_MS, most);
        let occasion = format!("tick {} {tick}", self.generation);
        let mut message = self.spec.message.clone();
        message.options.idempotency = Some(Idempotency::of_dueq(&occasion, window));
        message
    }

    /// The first tick after those of the claim.
    pub(super) fn next_after_claim(&self) -> Option<Millis> {
        self.spec.timing.next_after(self.claimed_at.max(self.next_at.unwrap_or_default()))
    }
}

impl Store {
    /// Claims schedules whose time has come, for whoever publishes their [`Schedule::ticks`] and says so by
    /// [`Store::finish_schedule`]. Also says when to ask again, at the latest.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn claim_schedules(&self) -> Result<(Vec<Schedule>, Option<Millis>), Error> {
        let keys = &self.lanes.backend.keys;
        let mut claim = call(
            &scripts::CLAIM_SCHEDULES,
            &[&keys.schedules, &keys.schedule_states, &keys.schedules_due],
        );
        claim.arg(CLAIM).arg(HOLD).arg(CLAIM_BYTES);
        let asked = Instant::now();
        let answer = self.lanes.command(claim).await.map_err(failed)?;
        let mut fields = Fields::of(answer).map_err(failed)?;
        self.lanes.backend.clock.observe(fields.int().map_err(failed)?, asked);
        let next = Some(fields.int().map_err(failed)?).filter(|at| *at > 0);
        Ok((read_all(fields)?, next))
    }

    /// Notes what became of a claimed schedule's ticks.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn finish_schedule(&self, claimed: &Schedule, ticked: &Ticked) -> Result<(), Error> {
        let keys = &self.lanes.backend.keys;
        let mut finish =
            call(&scripts::FINISH_SCHEDULE, &[&keys.schedule_states, &keys.schedules_due]);
        finish.arg(claimed.name.as_str()).arg(claimed.next_at.unwrap_or(0)).arg(claimed.claimed_at);
        finish.arg(claimed.next_after_claim().unwrap_or(0)).arg(ticked.last_at.unwrap_or(0));
        let id = ticked.last_message_id.map(|id| id.to_string());
        finish.arg(id.as_deref().unwrap_or(NO_ID));
        finish.arg(ticked.last_error.as_deref().unwrap_or_default());
        // Where it is not, somebody else has done it, or changed the schedule.
        self.answers_ok(finish).await.map(|_| ())
    }
}
