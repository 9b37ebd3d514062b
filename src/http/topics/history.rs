//! getTopicHistory: what happened in a topic, step by step.

use crate::{
    openapi::describe::{described, integer},
    prelude::*,
};
use dueq_store as store;
use serde::Serialize;

/// The most points of the finest step.
const MAX_FINE_POINTS: u64 = 360;
/// The most points.
const MAX_POINTS: u64 = 1_440;
/// The steps that there are, ms.
const STEPS_MS: [u64; 2] = [10_000, 60_000];

/// The length of a point, ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StepMs(u64);

impl Input for StepMs {
    fn read(value: fields::Value<'_>) -> Result<Self, Wrong> {
        let text = value.text().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let step = text.and_then(|text| text.parse().ok()).filter(|step| STEPS_MS.contains(step));
        step.map(Self).ok_or_else(|| wrong("must be 10000 or 60000"))
    }
}

described!(StepMs: |_| integer().enum_values(Some(STEPS_MS)););

request! {
    /// Query parameters of getTopicHistory.
    pub struct HistoryParams {
        /// Length of a point, ms: 10000, or 60000 by default.
        pub step_ms: StepMs = StepMs(60_000),
        /// Number of points, 1 to 1440; with `step_ms` 10000 up to 360.
        pub points: Bounded<1, MAX_POINTS> = Bounded::new(60),
    }
    check(fields) {
        let fine = step_ms.is_some_and(|step| step.0 == STEPS_MS[0]);
        if fine && points.is_some_and(|points| points.get() > MAX_FINE_POINTS) {
            fields.refuse("points", "must be an integer from 1 to 360 if step_ms is 10000");
        }
    }
}

answer! {
    /// What happened in a topic, by time.
    pub struct TopicHistory {
        /// Length of a point, ms.
        step_ms: i64,
        /// The points, the oldest first. The last one is not over.
        points: Vec<HistoryPoint>,
    }
}

answer! {
    /// What happened in a topic in one step.
    pub struct HistoryPoint {
        /// When it begins, RFC 3339 in UTC with ms.
        at: Instant,
        /// Messages stored.
        published: i64,
        /// Leases given.
        granted: i64,
        /// Messages acknowledged.
        acked: i64,
        /// Leases given back as failed.
        nacked: i64,
        /// Messages whose attempts were used up.
        dead: i64,
        /// Leases that ended by themselves.
        lease_expired: i64,
        /// How long the oldest ready message had been due at the end of the step, ms. Absent if there was none.
        oldest_ready_age_ms: Option<i64>,
        /// Half of the messages that were leased for the first time were leased at most so late after they fell due, ms. Absent
        /// if there were none. An estimate that may be off by a factor of two.
        lateness_p50_ms: Option<i64>,
        /// The same for 99 % of them.
        lateness_p99_ms: Option<i64>,
        /// How late the latest of them was, ms. Exact.
        lateness_max_ms: Option<i64>,
    }
}

impl From<store::HistoryPoint> for HistoryPoint {
    fn from(point: store::HistoryPoint) -> Self {
        let [published, granted, acked, nacked, dead, lease_expired] = point.added;
        let late = point.lateness();
        Self {
            at: Instant(point.at),
            published,
            granted,
            acked,
            nacked,
            dead,
            lease_expired,
            oldest_ready_age_ms: point.oldest_ready_age_ms,
            lateness_p50_ms: late.map(|(half, ..)| half),
            lateness_p99_ms: late.map(|(_, most, _)| most),
            lateness_max_ms: late.map(|(.., longest)| longest),
        }
    }
}

/// Get a topic's history.
///
/// Counts what happened in each of the newest steps: up to 24 h in steps of a minute, and up to 1 h in steps of 10 s. Steps in which
/// nothing happened are zero. The points add up to the difference of the topic's totals, also when an instance dies. With
/// more than 25 active topics, steps of 10 s are kept for topics whose history is asked for; in others, what happened within a minute
/// is shown in its last step. Lateness is reported every 10 s by each instance: that of the newest steps may be incomplete, and
/// that of an instance that is killed is lost for up to 10 s.
#[utoipa::path(
    get, path = "/topics/{topic}/history", tag = "topics", params(TopicPath, HistoryParams),
    responses(
        (status = 200, description = "What happened in each step", body = TopicHistory),
        TopicProblems, RedisProblems,
    ),
)]
pub async fn get_topic_history(
    cx: Context,
    TopicPath(name): TopicPath,
    Query(HistoryParams { step_ms, points }): Query<HistoryParams>,
) -> Answer {
    let step_ms = step_ms.0 as i64;
    let points = cx.store.history(&name, step_ms, points.get() as usize).await?;
    let points = points.into_iter().map(HistoryPoint::from).collect();
    Ok(json(&TopicHistory { step_ms, points }))
}
