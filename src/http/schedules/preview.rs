//! previewSchedule: when a schedule would tick, before it is put. Nothing is asked of Redis but the time.

use crate::{prelude::*, schedule_fields::TimingFields};
use std::iter::successors;

/// Ticks of a preview, at most.
const MAX_TICKS: u64 = 100;

request! {
    /// Query parameters of previewSchedule.
    pub struct PreviewScheduleParams {
        pub timing: Flat<TimingFields>,
        /// How many ticks, 1 to 100.
        #[example = 5]
        pub count: Bounded<1, MAX_TICKS> = Bounded::new(5),
    }
}

answer! {
    /// When a schedule would tick.
    pub struct SchedulePreview {
        /// The next ticks in order, RFC 3339 in UTC with ms. Fewer than asked for if there are no more.
        next: Vec<Instant>,
        /// The same in words. Absent where the expression has no short ones.
        #[example = "every day at 09:00 in Europe/Berlin"]
        description: Option<String>,
        /// In words: what in `cron` may be meant otherwise. Absent if there is nothing.
        warnings: Option<Vec<String>>,
    }
}

/// Preview a schedule's ticks.
///
/// Returns when a schedule with this timing would tick next if it were put now, and refuses what putSchedule refuses. Stores
/// nothing. Any key may ask. No schedule can be called `preview`.
#[utoipa::path(
    get, path = "/schedules/preview", tag = "schedules", params(PreviewScheduleParams),
    responses((status = 200, description = "The next ticks", body = SchedulePreview)),
)]
pub async fn preview_schedule(
    State(state): State<AppState>,
    Query(PreviewScheduleParams { timing, count }): Query<PreviewScheduleParams>,
) -> Result<Response, Problem> {
    let now = state.store.now();
    let timing = timing.0.into_timing(now, &state.store.zones())?;
    let ticks = successors(timing.next_after(now), |tick| timing.next_after(*tick));
    let next = ticks.take(count.get() as usize).map(Instant).collect();
    let warnings = timing.warning().map(|warning| vec![warning]);
    Ok(json(&SchedulePreview { next, description: timing.words(), warnings }))
}
