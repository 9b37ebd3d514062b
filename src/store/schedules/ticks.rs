//! A claimed schedule: which ticks are to be made, as what messages, and what became of them.

use super::{Schedule, call, read_all, stored::NO_ID};
use crate::{
    error::Error,
    model::{CatchUp, MAX_DELAY_MS, MAX_IDEMPOTENCY_WINDOW_MS, MessageId, Millis},
    store::{
        Idempotency, NewMessage, Store,
        alone::Alone,
        call::Context,
        failed,
        registry::Topic,
        reply::{CallError, Fields},
        scripts::{self, Script},
    },
};
use bytes::Bytes;
use deadpool_redis::redis::{Cmd, Value};
use std::{sync::Arc, time::Instant};

/// Schedules that are claimed at once.
const CLAIM: usize = 32;
/// For how long (ms) a claimed schedule is its claimer's.
const HOLD: Millis = 1_000;
/// Bytes of definitions that a claim takes, about.
const CLAIM_BYTES: usize = 512 * 1024;
/// A tick's idempotency key answers at least this long once the tick is noted, ms.
const MIN_WINDOW_MS: Millis = 600_000;
/// It answers for so many ticks then, so that a claimer that was stopped for long publishes nothing twice.
const WINDOW_TICKS: Millis = 1_000;
/// Before, it answers for as long as it may take until somebody is there to note it, ms.
const UNNOTED_MS: Millis = MAX_DELAY_MS as Millis;
/// Ticks of one call.
const RELEASE: usize = 128;

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
        self.spec.timing.ticks(first, self.until(), self.spec.catch_up)
    }

    /// Up to when ticks are made. Whoever takes over from a claimer that died makes those that it would have made; but
    /// what nothing makes up for is made on time or not at all.
    fn until(&self) -> Millis {
        match self.spec.catch_up {
            CatchUp::None => self.claimed_at.max(self.held_at),
            CatchUp::One | CatchUp::All => self.claimed_at,
        }
    }

    /// The message of a tick. However often it is published, there is one.
    pub fn message_of(&self, tick: Millis) -> NewMessage {
        let mut message = self.spec.message.clone();
        message.options.idempotency = Some(self.idempotency_of(tick));
        message
    }

    /// How long ticks answer once they are noted, ms.
    fn window(&self) -> Millis {
        let first = self.next_at.unwrap_or_default();
        let next = self.spec.timing.next_after(first).unwrap_or(first);
        let most = MAX_IDEMPOTENCY_WINDOW_MS as Millis;
        (next - first).saturating_mul(WINDOW_TICKS).clamp(MIN_WINDOW_MS, most)
    }

    fn idempotency_of(&self, tick: Millis) -> Idempotency {
        Idempotency::of_dueq(&format!("tick {} {tick}", self.generation), UNNOTED_MS)
    }

    /// The first tick after those of the claim.
    pub(super) fn next_after_claim(&self) -> Option<Millis> {
        self.spec.timing.next_after(self.until().max(self.next_at.unwrap_or_default()))
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
        let now = fields.int().map_err(failed)?;
        self.lanes.backend.clock.observe(now, asked);
        let next = Some(fields.int().map_err(failed)?).filter(|at| *at > 0);
        let mut claimed = read_all(fields)?;
        claimed.iter_mut().for_each(|schedule| schedule.held_at = now);
        Ok((claimed, next))
    }

    /// Notes what became of a claimed schedule's ticks, which need not be found by a repetition for long then.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn finish_schedule(&self, claimed: &Schedule, ticked: &Ticked) -> Result<(), Error> {
        let keys = &self.lanes.backend.keys;
        let mut finish = call(
            &scripts::FINISH_SCHEDULE,
            &[&keys.schedules, &keys.schedule_states, &keys.schedules_due],
        );
        finish.arg(claimed.name.as_str()).arg(claimed.next_at.unwrap_or(0)).arg(claimed.claimed_at);
        finish.arg(claimed.next_after_claim().unwrap_or(0)).arg(ticked.last_at.unwrap_or(0));
        let id = ticked.last_message_id.map(|id| id.to_string());
        finish.arg(id.as_deref().unwrap_or(NO_ID));
        finish.arg(ticked.last_error.as_deref().unwrap_or_default()).arg(&claimed.generation);
        // Where it is not, somebody else has done it, or changed the schedule.
        self.answers_ok(finish).await?;
        let keys: Vec<_> =
            claimed.ticks().into_iter().map(|tick| claimed.idempotency_of(tick).key).collect();
        let window_ms = claimed.window();
        for keys in keys.chunks(RELEASE) {
            let release = async |topic| {
                let release = ReleaseTicks { keys: keys.to_vec(), window_ms };
                self.lanes.submit_alone(&topic, release).await
            };
            match self.of_topic(&claimed.spec.topic, release).await {
                // Nothing was published where there is no topic.
                Ok(_) | Err(Error::TopicNotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Idempotency keys of ticks that are noted.
struct ReleaseTicks {
    keys: Vec<Bytes>,
    window_ms: Millis,
}

impl Alone for ReleaseTicks {
    type Answer = ();

    fn script() -> &'static Script {
        &scripts::RELEASE_TICKS
    }

    fn write(&self, topic: &Topic, command: &mut Cmd) {
        let keys = &topic.keys;
        command.arg(3).arg(&keys.idem).arg(&keys.idem_due).arg(&keys.meta);
        command.arg(&topic.word).arg(self.window_ms);
        for key in &self.keys {
            command.arg(&key[..]);
        }
    }

    fn read(
        &self,
        topic: &Arc<Topic>,
        context: &mut Context<'_>,
        _: Value,
    ) -> Result<(), CallError> {
        let now = context.backend.clock.now();
        topic.sweep_by(now, Some(now + self.window_ms));
        Ok(())
    }
}
