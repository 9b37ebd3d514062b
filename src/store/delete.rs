//! delete: removes a message.

use super::{
    Store,
    batch::{CallContext, SingleOp},
    registry::Topic,
    reply::{CallError, malformed, required_word},
    scripts::{self, Script},
    types::MessageRef,
};
use crate::error::Error;
use deadpool_redis::redis::{Cmd, Value};
use std::sync::Arc;

pub(crate) struct Delete {
    pub message: MessageRef,
    pub force: bool,
}

impl Store {
    /// Removes a message from any state but leased, with `force` from that too.
    ///
    /// Errors: `MessageNotFound`, `TopicNotFound` for a key, `MessageLeased`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn delete(&self, message: &MessageRef, force: bool) -> Result<(), Error> {
        self.on_ref(message, || Delete { message: message.clone(), force }).await?.1
    }
}

impl SingleOp for Delete {
    type Output = Result<(), Error>;

    fn script() -> &'static Script {
        &scripts::DELETE
    }

    fn write(&self, topic: &Topic, command: &mut Cmd) {
        topic.keys.write_all(command);
        command.arg(&topic.word);
        self.message.write(command);
        command.arg(u8::from(self.force));
    }

    fn read(
        &self,
        topic: &Arc<Topic>,
        _: &mut CallContext<'_>,
        reply: Value,
    ) -> Result<Self::Output, CallError> {
        match required_word(&reply)? {
            "OK" => {
                topic.counters.deleted.inc();
                Ok(Ok(()))
            }
            "LEASED" => Ok(Err(Error::MessageLeased)),
            "NONE" => Ok(Err(Error::MessageNotFound)),
            _ => Err(malformed(&reply)),
        }
    }
}
