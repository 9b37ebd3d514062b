//! A claimed schedule: which ticks are to be made, as what messages, and what became of them.

use super::{
    Schedule,
    stored::{NO_ID, read_all},
};
use crate::{
    Idempotency, NewMessage, Store,
    batch::Command,
    keys::PartitionKeys,
    partition::{Partition, name},
    reply::Fields,
    scripts,
    stale::Target,
};
use dueq_model::{
    CatchUp, MAX_DELAY_MS, MAX_IDEMPOTENCY_WINDOW_MS, MessageId, Millis, error::Error,
};
use std::{collections::BTreeMap, time::Instant};

/// Schedules that are claimed at once.
const MAX_CLAIMS: usize = 32;
/// For how long (ms) a claimed schedule is its claimer's.
const CLAIM_MS: Millis = 1_000;
/// Bytes of definitions that a claim takes, about.
const CLAIM_BYTES: usize = 512 * 1024;
/// A tick's idempotency key answers at least this long once it is released, ms.
const MIN_WINDOW_MS: Millis = 600_000;
/// It answers for so many ticks then, so that a claimer that was stopped for long publishes nothing twice.
const WINDOW_TICKS: Millis = 1_000;
/// Before, where missed ticks are made up for, it answers however long nobody is there, ms.
const UNNOTED_WINDOW_MS: Millis = MAX_DELAY_MS as Millis;
/// Ticks of one call.
const CALL_KEYS: usize = 128;
/// Ticks that published nothing and are remembered, the latest.
const MAX_MISSED: usize = 10;

/// What became of a claimed schedule's ticks.
#[derive(Clone, Debug, Default)]
pub struct Ticked {
    /// The last tick that was made.
    pub last_at: Option<Millis>,
    /// The message published last.
    pub last_message_id: Option<MessageId>,
    /// Why the last tick published nothing.
    pub last_error: Option<String>,
    /// The ticks that published nothing, oldest first.
    pub missed: Vec<Millis>,
}

impl Schedule {
    /// The ticks of a claimed schedule that are to be made.
    pub fn ticks(&self) -> Vec<Millis> {
        let first = self.next_at.unwrap_or(Millis::MAX);
        self.spec.timing.ticks(first, self.until(), self.spec.catch_up)
    }

    /// The ticks of a claimed schedule that nothing makes up for, the latest of them; its other ticks are `made`.
    pub fn left_out(&self, made: &[Millis]) -> Vec<Millis> {
        let first = self.next_at.unwrap_or(Millis::MAX);
        let before = made.first().map_or(self.until(), |made| made - 1);
        self.spec.timing.ticks(first, before, CatchUp::All)
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

    /// The ticks that anybody may have published under this claim, whatever `catch_up` said. Where they are noted
    /// already, `next_at` is beyond the claim and no longer says which was the first.
    pub(super) fn claimed_ticks(&self) -> Vec<Millis> {
        let first = self.next_at.filter(|next| *next <= self.claimed_at).unwrap_or(0);
        self.spec.timing.ticks(first, self.claimed_at, CatchUp::All)
    }

    /// Whether it was claimed so long ago that another may have made its ticks, and what they were found by may be over.
    pub fn is_stale(&self, now: Millis) -> bool {
        now - self.held_at > MIN_WINDOW_MS / 2
    }

    /// How long ticks answer once they are released, ms.
    fn window(&self) -> Millis {
        let first = self.next_at.unwrap_or_default();
        let next = self.spec.timing.next_after(first).unwrap_or(first);
        let most = MAX_IDEMPOTENCY_WINDOW_MS as Millis;
        (next - first).saturating_mul(WINDOW_TICKS).clamp(MIN_WINDOW_MS, most)
    }

    fn idempotency_of(&self, tick: Millis) -> Idempotency {
        let window_ms = match self.spec.catch_up {
            // Nobody makes it again when it is late.
            CatchUp::None => self.window(),
            CatchUp::One | CatchUp::All => UNNOTED_WINDOW_MS,
        };
        Idempotency::of_dueq(&format!("tick {} {tick}", self.generation), window_ms)
    }

    /// The first tick after those of the claim.
    pub(super) fn next_after_claim(&self) -> Option<Millis> {
        let until = self.until();
        let noted = self.next_at.filter(|next| *next > until);
        noted.or_else(|| self.spec.timing.next_after(until))
    }
}

impl Store {
    /// Claims schedules whose time has come, for the instance that publishes their [`Schedule::ticks`] and says so by
    /// [`Store::finish_schedule`]. Also says when to ask again, at the latest. Those whose time has not come by the present
    /// time zones are put where they belong, and not returned.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn claim_schedules(&self) -> Result<(Vec<Schedule>, Option<Millis>), Error> {
        let claim = Command::eval(&scripts::CLAIM_SCHEDULES, &self.schedule_keys()[..3]);
        let asked = Instant::now();
        let answer = self.lanes.command(claim.arg((MAX_CLAIMS, CLAIM_MS, CLAIM_BYTES))).await?;
        let mut fields = Fields::of(answer)?;
        let now = fields.int()?;
        self.lanes.node_of(&self.lanes.shared.keys.schedules).backend.clock.observe(now, asked);
        let next = fields.instant()?;
        let mut claimed = Vec::new();
        for mut schedule in read_all(fields, &self.zones())? {
            schedule.held_at = now;
            // Ticks of an earlier claim may be published already.
            let revised =
                self.revised(&schedule, now, false).filter(|_| schedule.claimed_at == now);
            match revised {
                Some(next) => drop(self.move_schedule(&schedule, next).await?),
                None if schedule.spec.timing.can_tick() => claimed.push(schedule),
                None => {}
            }
        }
        self.mark_schedules(&mut claimed).await?;
        Ok((claimed, next))
    }

    /// Notes what became of a claimed schedule's ticks, which need not be found by a repetition for long then. The
    /// claim ends once they are released: the instance that takes over releases them before.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn finish_schedule(&self, claimed: &Schedule, ticked: &Ticked) -> Result<(), Error> {
        let next = claimed.next_after_claim();
        let ours = self.note_ticks(claimed, claimed.next_at, next, ticked, false).await?;
        self.release_ticks(claimed).await?;
        // If not, another instance has done it, or the schedule was changed.
        if ours {
            self.note_ticks(claimed, next, next, ticked, true).await?;
        }
        Ok(())
    }

    /// Notes ticks of a claim that goes from `first` to before `next`; `over`: the claim ends.
    pub(super) async fn note_ticks(
        &self,
        claimed: &Schedule,
        first: Option<Millis>,
        next: Option<Millis>,
        ticked: &Ticked,
        over: bool,
    ) -> Result<bool, Error> {
        let id = ticked.last_message_id.map_or(NO_ID.to_owned(), |id| id.to_string());
        let error = ticked.last_error.as_deref().unwrap_or_default();
        let finish = Command::eval(&scripts::FINISH_SCHEDULE, &self.schedule_keys()[..3]);
        let finish = finish.arg((claimed.name.as_str(), first.unwrap_or(0), claimed.claimed_at));
        let finish = finish.arg((next.unwrap_or(0), ticked.last_at.unwrap_or(0), id, error));
        let finish = finish.arg((&claimed.generation, over, MAX_MISSED));
        // They are noted once.
        let missed: &[Millis] = if over { &[] } else { &ticked.missed };
        let latest = missed.len().saturating_sub(MAX_MISSED);
        self.answers_ok(finish.arg(missed[latest..].to_vec())).await
    }

    async fn release_ticks(&self, claimed: &Schedule) -> Result<(), Error> {
        let ticks = claimed.claimed_ticks();
        let key = |tick| claimed.idempotency_of(tick).key.to_vec();
        let keys: Vec<_> = ticks.into_iter().map(key).collect();
        let window_ms = claimed.window();
        // Nothing was published where there is no topic.
        let Some(topic) = self.registry.find(&claimed.spec.topic).await? else { return Ok(()) };
        // As they were placed: by a name of the message, if it has one.
        let mut message = claimed.spec.message.clone();
        self.own_names(&topic.name, &mut message).await?;
        let named = name(&message.options);
        let home =
            |key: &[u8]| Partition::home(topic.clone(), named.unwrap_or(key)).route.partition;
        let mut homes: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for key in keys {
            homes.entry(home(&key)).or_default().push(key);
        }
        for (home, keys) in homes {
            for keys in keys.chunks(CALL_KEYS) {
                self.release(Target::Partition(&topic.name, home), keys, window_ms).await?;
            }
        }
        Ok(())
    }

    async fn release(
        &self,
        target: Target<'_>,
        keys: &[Vec<u8>],
        window_ms: Millis,
    ) -> Result<(), Error> {
        let release = |partition: &Partition| {
            let PartitionKeys { idem, idem_due, meta, .. } = &partition.keys;
            let release = Command::script(&scripts::RELEASE_TICKS, &[idem, idem_due, meta]);
            let release = release.arg((&partition.topic.version_tag, window_ms)).arg(keys);
            release.read(partition, move |reply| {
                let now = reply.backend.clock.now();
                reply.partition.sweep_by(now, Some(now + window_ms));
                Ok(())
            })
        };
        match self.on(target, release).await {
            Ok(_) | Err(Error::TopicNotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
