//! Ticks that are kept where they do not belong, and are moved: another version of the time zone database has worked them
//! out, or a clock that was ahead. Of several instances those with the newest database decide; while others run, they look
//! again and again, since the others work out the next tick of whatever they publish.

use super::{Schedule, Ticked};
use crate::{Store, batch::Command, reply::int};
use dueq_model::{Millis, Zones, error::Error};
use parking_lot::RwLock;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Schedules that are looked at in one call.
const PAGE: usize = 500;
/// A claim from further ahead (ms) was made by another clock. One from less far is taken over soon anyway.
const CLAIM_AHEAD_MS: Millis = 1_000;

/// The time zones that this instance works by.
pub struct ZonesInUse {
    zones: RwLock<Arc<Zones>>,
    /// No other instance has a newer database.
    decides: AtomicBool,
    /// Others had an older one when last looked at.
    is_mixed: AtomicBool,
}

impl Default for ZonesInUse {
    fn default() -> Self {
        let zones = RwLock::new(Arc::new(Zones::bundled()));
        Self { zones, decides: AtomicBool::new(false), is_mixed: AtomicBool::new(false) }
    }
}

impl Schedule {
    /// When it ticks next, if that is not what is kept of it at `now`; `sooner` as for [`dueq_model::Timing::revised`].
    fn revised(&self, now: Millis, sooner: bool) -> Option<Millis> {
        let kept = self.next_at?;
        let timing = &self.spec.timing;
        let next = timing.revised(kept, now, sooner || self.is_ahead(now))?;
        // Revisions count from the clock; what lies before a put or a resume is not made up for.
        let is_over = self.last_at == Some(next) || next <= self.revision / 1024;
        let next = if next != kept && is_over { timing.next_after(now)? } else { next };
        (next != kept).then_some(next)
    }

    /// Whether nobody is publishing its ticks.
    pub(super) fn is_free(&self, now: Millis) -> bool {
        self.claimed_at == 0 || self.is_stuck(now)
    }

    /// Whether it has ticked or was put by a clock that was ahead.
    fn is_ahead(&self, now: Millis) -> bool {
        let last = self.last_at.max(self.missed_ticks.last().copied());
        last > Some(now) || self.revision / 1024 > now
    }

    /// Whether it was claimed by a clock that was ahead, and nobody would take over for as long.
    fn is_stuck(&self, now: Millis) -> bool {
        self.claimed_at > now + CLAIM_AHEAD_MS
    }
}

impl Store {
    /// The time zones by which schedules tick.
    pub fn zones(&self) -> Arc<Zones> {
        self.zones.zones.read().clone()
    }

    /// Uses these from now on, and logs which they are.
    pub fn use_zones(&self, zones: Zones) {
        let (version, source) = zones.named();
        tracing::info!(version, source, "time zone database");
        if let Some(warning) = zones.warning(self.now()) {
            tracing::warn!("{warning}");
        }
        *self.zones.zones.write() = Arc::new(zones);
    }

    /// When a schedule ticks next, if that is not what is kept of it and this instance decides.
    pub(super) fn revised(&self, schedule: &Schedule, now: Millis, sooner: bool) -> Option<Millis> {
        let decides = self.zones.decides.load(Ordering::Relaxed);
        schedule.revised(now, sooner).filter(|_| decides)
    }

    /// Moves the next tick of a schedule, unless it has ticked or was changed since it was read.
    pub(super) async fn move_schedule(
        &self,
        schedule: &Schedule,
        next: Millis,
    ) -> Result<bool, Error> {
        tracing::info!(name = %schedule.name, next, "the next tick of a schedule was worked out again");
        self.note_ticks(schedule, schedule.next_at, Some(next), &Ticked::default(), true).await
    }

    /// Learns whether this instance's time zones have changed, and which the others have. Returns whether
    /// [`Store::revise_schedules`] has to look, and whether nobody has with this version.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn compare_zones(&self) -> Result<(bool, bool), Error> {
        // A look at one line, and at most the directory's names: soon done.
        let renewed = self.zones().renewed();
        let has_changed = renewed.is_some();
        if let Some(zones) = renewed {
            self.use_zones(zones);
        }
        let (zones, others) = (self.zones(), self.instances().await?);
        let versions = || others.iter().map(|other| other.tzdata.as_deref().unwrap_or_default());
        let decides = versions().all(|other| other <= zones.version());
        let is_mixed = versions().any(|other| other != zones.version());
        let is_new = has_changed || !self.zones.decides.load(Ordering::Relaxed);
        let was_mixed = self.zones.is_mixed.swap(is_mixed, Ordering::Relaxed);
        self.zones.decides.store(decides, Ordering::Relaxed);
        let is_first = decides && is_new && self.is_first_with(zones.version()).await?;
        Ok((decides && (is_new || is_mixed || was_mixed), is_first))
    }

    /// Whether no instance has had this version of the database before, on these data.
    async fn is_first_with(&self, version: &str) -> Result<bool, Error> {
        let field = format!(":tzdata {version}");
        let note = Command::new("HSETNX").arg((self.schedule_keys()[1], field, 1));
        Ok(int(self.lanes.node_of(&self.lanes.shared.keys.schedules).command(note).await?)? == 1)
    }

    /// Moves all ticks that are not where they belong; `sooner` as for [`dueq_model::Timing::revised`]. Returns whether
    /// that was all of them: one whose ticks are being published, or that was changed meanwhile, has to be looked at again.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn revise_schedules(&self, sooner: bool) -> Result<bool, Error> {
        let (mut after, mut all) = (None, true);
        loop {
            let (page, more, now) = self.read_schedules(after.as_ref(), PAGE).await?;
            for schedule in &page {
                if let Some(why) =
                    schedule.spec.timing.warning().filter(|_| !schedule.spec.timing.can_tick())
                {
                    tracing::warn!(name = %schedule.name, why, "a schedule");
                }
                let stuck = schedule.next_at.filter(|_| schedule.is_stuck(now));
                let revised = self.revised(schedule, now, sooner);
                let is_free = schedule.is_free(now);
                // Another instance that publishes its ticks puts the next one where it does not belong, either.
                all &= revised.is_none() || is_free;
                if let Some(next) = revised.filter(|_| is_free).or(stuck) {
                    all &= self.move_schedule(schedule, next).await?;
                    self.schedules_changed.notify_one();
                }
            }
            after = page.into_iter().next_back().map(|last| last.name);
            if !more || after.is_none() {
                return Ok(all);
            }
        }
    }
}
