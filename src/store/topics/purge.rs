//! purge_topic: removes the messages of some states, a bounded number a call.

use super::MAX_OPERATION_TIME;
use crate::{
    error::Error,
    model::{State, TopicName},
    store::{
        Store,
        batch::{CallContext, Phase, SingleOp},
        registry::Topic,
        reply::{CallError, Fields},
        scripts::{self, Script},
        types::Purged,
    },
};
use deadpool_redis::redis::{Cmd, Value};
use std::{sync::Arc, time::Instant};

/// Messages of one call.
const CALL_MESSAGES: u64 = 128;

impl Store {
    /// Removes the messages of these states (delayed, ready, dead). Those that come meanwhile may stay.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn purge_topic(&self, name: &TopicName, states: &[State]) -> Result<Purged, Error> {
        let started = Instant::now();
        let (mut purged, mut most) = (0, None);
        loop {
            let purge = || PurgeSome { states: states.to_vec(), limit: CALL_MESSAGES };
            let (_, some) = self.on_topic(name, purge).await.map_err(|error| match purged {
                0 => error,
                _ => error.after_change(),
            })?;
            purged += some.purged;
            // As many as there were: whoever publishes faster than this purges does not hold it up for ever.
            let most = *most.get_or_insert(some.purged + some.left);
            let late = started.elapsed() > MAX_OPERATION_TIME;
            if some.left == 0 || some.purged == 0 || purged >= most || late {
                return Ok(Purged { purged, remaining: some.left });
            }
        }
    }
}

/// What one call purged, and what is left in the states that it was told.
pub(crate) struct PurgedSome {
    pub purged: i64,
    pub left: i64,
}

/// Some messages of these states leave.
pub(crate) struct PurgeSome {
    pub states: Vec<State>,
    pub limit: u64,
}

impl SingleOp for PurgeSome {
    type Output = PurgedSome;
    const PHASE: Phase = Phase::Scan;

    fn script() -> &'static Script {
        &scripts::PURGE_TOPIC
    }

    fn write(&self, topic: &Topic, command: &mut Cmd) {
        topic.keys.write_all(command);
        command.arg(&topic.word).arg(self.limit);
        for state in [State::Delayed, State::Ready, State::Dead] {
            command.arg(u8::from(self.states.contains(&state)));
        }
    }

    fn read(
        &self,
        topic: &Arc<Topic>,
        context: &mut CallContext<'_>,
        reply: Value,
    ) -> Result<PurgedSome, CallError> {
        let mut fields = Fields::of(reply)?;
        context.read_now(&mut fields)?;
        let (purged, left) = (fields.int()?, fields.int()?);
        topic.counters.purged.inc_by(purged as u64);
        Ok(PurgedSome { purged, left })
    }
}
