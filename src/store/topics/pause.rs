//! pause_topic: stops granting, and grants again.

use crate::{
    error::Error,
    model::TopicName,
    store::{
        Store,
        batch::{CallContext, SingleOp},
        registry::Topic,
        reply::{CallError, malformed, required_word},
        scripts::{self, Script},
    },
};
use deadpool_redis::redis::{Cmd, Value};
use std::sync::Arc;

impl Store {
    /// Stops granting, on every instance at once.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn pause_topic(&self, name: &TopicName) -> Result<(), Error> {
        self.on_topic(name, || Pause(true)).await.map(|_| ())
    }

    /// Grants again, on every instance at once.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn resume_topic(&self, name: &TopicName) -> Result<(), Error> {
        self.on_topic(name, || Pause(false)).await.map(|_| ())
    }
}

/// Stops or resumes granting.
pub(crate) struct Pause(pub bool);

impl SingleOp for Pause {
    type Output = ();

    fn script() -> &'static Script {
        &scripts::PAUSE_TOPIC
    }

    fn write(&self, topic: &Topic, command: &mut Cmd) {
        command.arg(1).arg(&topic.keys.meta).arg(&topic.word).arg(u8::from(self.0));
    }

    fn read(
        &self,
        topic: &Arc<Topic>,
        context: &mut CallContext<'_>,
        reply: Value,
    ) -> Result<(), CallError> {
        if required_word(&reply)? != "OK" {
            return Err(malformed(&reply));
        }
        if !self.0 {
            context.wakes.push(topic.clone());
        }
        Ok(())
    }
}
