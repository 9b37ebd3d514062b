//! count_topic and forecast_topic: what a topic holds, in numbers.

use super::{
    alone::Alone,
    call::Context,
    registry::Topic,
    reply::{CallError, Fields, int},
    scripts::{self, Script},
};
use crate::model::Millis;
use deadpool_redis::redis::{Cmd, Value};
use std::sync::Arc;

/// Names of a topic's totals, in the order of the contract.
pub const TOTALS: [&str; 14] = [
    "published",
    "granted",
    "acked",
    "nacked",
    "released",
    "lease_expired",
    "dead",
    "expired",
    "deleted",
    "purged",
    "redriven",
    "replaced",
    "returned",
    "deleted_leased",
];

/// One consistent look at a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicSnapshot {
    /// No grants.
    pub paused: bool,
    /// Not due yet.
    pub delayed: i64,
    /// Due, or their lease is over.
    pub ready: i64,
    /// Held by consumers.
    pub leased: i64,
    /// Dead.
    pub dead: i64,
    /// Kept after their ack.
    pub acked: i64,
    /// How long the oldest ready message has been due, ms.
    pub oldest_ready_age_ms: Option<Millis>,
    /// When the next delayed message falls due.
    pub next_due_at: Option<Millis>,
    /// As many as `TOTALS` has names.
    pub totals: [i64; TOTALS.len()],
    /// Time has brought more than was carried out.
    pub(crate) more: bool,
}

pub(crate) struct CountTopic;

impl Alone for CountTopic {
    type Answer = TopicSnapshot;
    const BEHIND: bool = true;

    fn script() -> &'static Script {
        &scripts::COUNT_TOPIC
    }

    fn write(&self, topic: &Topic, command: &mut Cmd) {
        topic.keys.write_all(command);
        command.arg(&topic.word).arg(&TOTALS[..]);
    }

    fn read(
        &self,
        _: &Arc<Topic>,
        context: &mut Context<'_>,
        reply: Value,
    ) -> Result<TopicSnapshot, CallError> {
        let mut fields = Fields::of(reply)?;
        let now = context.read_now(&mut fields)?;
        let (more, paused) = (fields.int()? == 1, fields.int()? == 1);
        let (delayed, ready, leased) = (fields.int()?, fields.int()?, fields.int()?);
        let (dead, acked) = (fields.int()?, fields.int()?);
        let (oldest, next) = (fields.int()?, fields.int()?);
        let mut totals = [0; TOTALS.len()];
        for total in &mut totals {
            *total = int(fields.value()?)?;
        }
        Ok(TopicSnapshot {
            paused,
            delayed,
            ready,
            leased,
            dead,
            acked,
            oldest_ready_age_ms: (oldest > 0).then(|| now.saturating_sub(oldest).max(0)),
            next_due_at: (next > 0).then_some(next),
            totals,
            more,
        })
    }
}

/// Some buckets of a forecast.
pub(crate) struct Forecast {
    /// Where the first begins; `None` for now.
    pub from: Option<Millis>,
    pub bucket_ms: Millis,
    pub buckets: u64,
}

impl Alone for Forecast {
    /// Where the first bucket begins, and the counts.
    type Answer = (Millis, Vec<i64>);
    const BEHIND: bool = true;

    fn script() -> &'static Script {
        &scripts::FORECAST_TOPIC
    }

    fn write(&self, topic: &Topic, command: &mut Cmd) {
        topic.keys.write_all(command);
        command.arg(&topic.word).arg(self.from.map(|from| from.to_string()).unwrap_or_default());
        command.arg(self.bucket_ms).arg(self.buckets);
    }

    fn read(
        &self,
        _: &Arc<Topic>,
        _: &mut Context<'_>,
        reply: Value,
    ) -> Result<Self::Answer, CallError> {
        let mut fields = Fields::of(reply)?;
        let from = fields.int()?;
        let mut counts = Vec::with_capacity(fields.len());
        while !fields.is_empty() {
            counts.push(fields.int()?);
        }
        Ok((from, counts))
    }
}
