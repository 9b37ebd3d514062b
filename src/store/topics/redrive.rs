//! redrive_topic: makes dead messages live again, a bounded number a call.

use super::MAX_OPERATION_TIME;
use crate::{
    error::Error,
    model::{Millis, TopicName},
    store::{
        Store,
        batch::{CallContext, Phase, SingleOp},
        registry::Topic,
        reply::{CallError, Fields},
        scripts::{self, Script},
        types::Redriven,
    },
};
use deadpool_redis::redis::{Cmd, Value};
use std::{sync::Arc, time::Instant};

/// Messages of one call.
const CALL_MESSAGES: u64 = 64;

impl Store {
    /// Makes dead messages live again, longest dead first, at most `most`; at once or spread over `spread_ms`.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn redrive_topic(
        &self,
        name: &TopicName,
        most: u64,
        spread_ms: Millis,
    ) -> Result<Redriven, Error> {
        let started = Instant::now();
        let (mut redriven, mut skip) = (0, 0);
        let (mut base, mut of) = (None, None);
        loop {
            let limit = CALL_MESSAGES;
            let redrive =
                || RedriveSome { limit, skip, base, index: redriven, of, spread_ms, most };
            let (_, some) = self.on_topic(name, redrive).await.map_err(|error| match redriven {
                0 => error,
                _ => error.after_change(),
            })?;
            redriven += some.redriven;
            skip += some.skipped;
            base.get_or_insert(some.base);
            of.get_or_insert(some.of);
            let over = some.redriven + some.skipped == 0 || redriven >= some.of;
            if over || some.left <= skip || started.elapsed() > MAX_OPERATION_TIME {
                return Ok(Redriven { redriven, remaining: some.left });
            }
        }
    }
}

/// A part of a topic's redrive.
pub(crate) struct RedriveSome {
    /// Messages in this call.
    pub limit: u64,
    /// Dead ones before that stay.
    pub skip: i64,
    /// From when on they fall due; `None`: now.
    pub base: Option<Millis>,
    /// How many were redriven before.
    pub index: i64,
    /// How many there are in all; `None`: to be found out.
    pub of: Option<i64>,
    pub spread_ms: Millis,
    /// How many the request wants.
    pub most: u64,
}

/// What one call redrove.
pub(crate) struct RedrivenSome {
    /// From when on those of the request fall due.
    pub base: Millis,
    pub redriven: i64,
    pub skipped: i64,
    pub left: i64,
    pub of: i64,
}

impl SingleOp for RedriveSome {
    type Output = RedrivenSome;
    const PHASE: Phase = Phase::Scan;

    fn script() -> &'static Script {
        &scripts::REDRIVE_TOPIC
    }

    fn write(&self, topic: &Topic, command: &mut Cmd) {
        let known = |number: Option<i64>| number.map(|n| n.to_string()).unwrap_or_default();
        topic.keys.write_all(command);
        command.arg(&topic.word).arg(self.limit).arg(self.skip).arg(known(self.base));
        command.arg(self.index).arg(known(self.of)).arg(self.spread_ms).arg(self.most);
    }

    fn read(
        &self,
        topic: &Arc<Topic>,
        context: &mut CallContext<'_>,
        reply: Value,
    ) -> Result<RedrivenSome, CallError> {
        let mut fields = Fields::of(reply)?;
        context.read_wake(topic, &mut fields)?;
        let (redriven, skipped) = (fields.int()?, fields.int()?);
        topic.counters.redriven.inc_by(redriven as u64);
        let (left, of, base) = (fields.int()?, fields.int()?, fields.int()?);
        Ok(RedrivenSome { base, redriven, skipped, left, of })
    }
}
