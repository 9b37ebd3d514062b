//! forecast_topic: how many messages fall due when.

use crate::{
    error::Error,
    model::{Millis, TopicName},
    store::{
        Store,
        batch::{CallContext, Phase, SingleOp},
        registry::Topic,
        reply::{CallError, Fields},
        scripts::{self, Script},
    },
};
use deadpool_redis::redis::{Cmd, Value};
use std::sync::Arc;

/// Buckets of one call.
const CALL_BUCKETS: u64 = 128;

impl Store {
    /// How many messages fall due in each of the coming `buckets` of `bucket_ms`; and where the first begins.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn forecast_topic(
        &self,
        name: &TopicName,
        bucket_ms: Millis,
        buckets: u64,
    ) -> Result<(Millis, Vec<i64>), Error> {
        let mut counts = Vec::new();
        let mut from = None;
        loop {
            let done = counts.len() as u64;
            let forecast = || {
                let from = from.map(|from| from + bucket_ms * done as Millis);
                let buckets = CALL_BUCKETS.min(buckets - done);
                Forecast { from, bucket_ms, buckets }
            };
            let (_, (begun, some)) = self.on_topic(name, forecast).await?;
            let from = *from.get_or_insert(begun);
            counts.extend(some);
            if counts.len() as u64 >= buckets {
                return Ok((from, counts));
            }
        }
    }
}

/// Some buckets of a forecast.
pub(crate) struct Forecast {
    /// Where the first begins; `None` for now.
    pub from: Option<Millis>,
    pub bucket_ms: Millis,
    pub buckets: u64,
}

impl SingleOp for Forecast {
    /// Where the first bucket begins, and the counts.
    type Output = (Millis, Vec<i64>);
    const PHASE: Phase = Phase::Scan;

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
        _: &mut CallContext<'_>,
        reply: Value,
    ) -> Result<Self::Output, CallError> {
        let mut fields = Fields::of(reply)?;
        let from = fields.int()?;
        let mut counts = Vec::with_capacity(fields.len());
        while !fields.is_empty() {
            counts.push(fields.int()?);
        }
        Ok((from, counts))
    }
}
