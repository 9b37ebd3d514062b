//! delete_topic: closes a topic's partition, then takes the topic out of the registry.

use crate::{
    error::Error,
    model::{Millis, TopicName},
    store::{
        Store,
        batch::{CallContext, SingleOp},
        failed,
        registry::Topic,
        reply::{CallError, malformed, required_word},
        scripts::{self, Script},
    },
};
use deadpool_redis::redis::{Cmd, Value};
use std::{sync::Arc, time::Duration};

/// How long nobody takes up a deleted topic again who does not know yet that it is: 1 h in ms.
const DELETED_MARK_MS: Millis = 3_600_000;
/// Between two looks whether deaths have been told of.
const DEATHS_POLL_INTERVAL: Duration = Duration::from_millis(20);

impl Store {
    /// Deletes a topic; with `force` together with what is in it, else once deaths in it have been told of elsewhere.
    ///
    /// Errors: `TopicNotFound`, `TopicNotEmpty`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn delete_topic(&self, name: &TopicName, force: bool) -> Result<(), Error> {
        let mut retry = self.stale_retry();
        while retry.next().await {
            let close = || Close { force, mark_ms: DELETED_MARK_MS };
            let (topic, closed) = self.on_topic(name, close).await?;
            match closed {
                Closed::Done => {
                    let removed = self.registry.remove(&self.lanes, &topic).await;
                    return removed.map_err(|error| failed(error).after_change());
                }
                Closed::NotEmpty => break,
                Closed::NotYet => {}
                Closed::Untold => {
                    topic.tell_deaths(self.now());
                    tokio::time::sleep(DEATHS_POLL_INTERVAL).await;
                }
            }
        }
        Err(Error::TopicNotEmpty)
    }
}

/// Deletes what is in a topic.
pub(crate) struct Close {
    pub force: bool,
    /// How long nobody may take the topic up again who does not know that it is deleted, ms.
    pub mark_ms: Millis,
}

/// What came of closing a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    Done,
    /// There are messages.
    NotEmpty,
    /// There are messages, but some of them are over: ask again.
    NotYet,
    /// There are none, but deaths that are still to be told of elsewhere.
    Untold,
}

impl SingleOp for Close {
    type Output = Closed;

    fn script() -> &'static Script {
        &scripts::CLOSE_PARTITION
    }

    fn write(&self, topic: &Topic, command: &mut Cmd) {
        topic.keys.write_all(command);
        command.arg(&topic.word).arg(topic.route.topic.0);
        command.arg(u8::from(self.force)).arg(self.mark_ms);
    }

    fn read(
        &self,
        _: &Arc<Topic>,
        _: &mut CallContext<'_>,
        reply: Value,
    ) -> Result<Closed, CallError> {
        match required_word(&reply)? {
            "OK" => Ok(Closed::Done),
            "NOT_EMPTY" => Ok(Closed::NotEmpty),
            "MORE" => Ok(Closed::NotYet),
            "UNTOLD" => Ok(Closed::Untold),
            _ => Err(malformed(&reply)),
        }
    }
}
