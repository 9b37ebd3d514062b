//! count_topic: what a topic holds, in numbers.

use super::MAX_LOOKS;
use crate::{
    error::Error,
    model::{Millis, TopicName},
    store::{
        Store,
        batch::{CallContext, Phase, SingleOp},
        registry::Topic,
        reply::{CallError, Fields, int},
        scripts::{self, Script},
    },
};
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
    /// Due, or their lease has ended.
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

impl Store {
    /// The topic of this name, and what it holds.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn topic(&self, name: &TopicName) -> Result<(Arc<Topic>, TopicSnapshot), Error> {
        let mut looks = 0;
        loop {
            let (topic, snapshot) = self.on_topic(name, || CountTopic).await?;
            looks += 1;
            if !snapshot.more || looks == MAX_LOOKS {
                topic.sweep_by(self.now(), snapshot.more.then(|| self.now()));
                return Ok((topic, snapshot));
            }
        }
    }
}

pub(crate) struct CountTopic;

impl SingleOp for CountTopic {
    type Output = TopicSnapshot;
    const PHASE: Phase = Phase::Scan;

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
        context: &mut CallContext<'_>,
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
