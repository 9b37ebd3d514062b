//! redrive_message: makes a dead message ready again.

use super::{
    Store,
    batch::{CallContext, SingleOp},
    registry::Topic,
    reply::{CallError, malformed, required_word},
    scripts::{self, Script},
    types::MessageSnapshot,
    update::read_changed,
};
use crate::{error::Error, model::MessageId};
use deadpool_redis::redis::{Cmd, Value};
use std::sync::Arc;

pub(crate) struct RedriveMessage(pub MessageId);

impl Store {
    /// Makes a dead message ready again, with a fresh budget of attempts.
    ///
    /// Errors: `MessageNotFound`, `MessageNotDead`, `DuplicateKey`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn redrive_message(
        &self,
        id: MessageId,
    ) -> Result<(Arc<Topic>, MessageSnapshot), Error> {
        let (topic, snapshot) = self.on_message(id, || RedriveMessage(id)).await?;
        Ok((topic, snapshot?))
    }
}

impl SingleOp for RedriveMessage {
    type Output = Result<MessageSnapshot, Error>;

    fn script() -> &'static Script {
        &scripts::REDRIVE_MESSAGE
    }

    fn write(&self, topic: &Topic, command: &mut Cmd) {
        topic.keys.write_all(command);
        command.arg(&topic.word).arg(&self.0.member()[..]);
    }

    fn read(
        &self,
        topic: &Arc<Topic>,
        context: &mut CallContext<'_>,
        reply: Value,
    ) -> Result<Self::Output, CallError> {
        if !matches!(reply, Value::Array(_)) {
            return match required_word(&reply)? {
                "NONE" => Ok(Err(Error::MessageNotFound)),
                "NOT_DEAD" => Ok(Err(Error::MessageNotDead)),
                "DUPLICATE" => Ok(Err(Error::DuplicateKey)),
                _ => Err(malformed(&reply)),
            };
        }
        topic.counters.redriven.inc();
        read_changed(topic, context, reply, None).map(|(snapshot, ..)| Ok(snapshot))
    }
}
