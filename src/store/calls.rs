//! start_call, fetch_parked, and whether a call may begin at all: what sending needs of a topic between lease and ack.

use super::{
    Store,
    batch::{CallContext, SingleOp},
    failed,
    registry::Topic,
    reply::{CallError, Fields, malformed, word},
    scripts::{self, Script},
};
use crate::{
    error::Error,
    model::{MessageId, Millis, TopicName},
};
use deadpool_redis::redis::{Cmd, Value, cmd};
use std::sync::Arc;

/// Messages that one call fetches.
const CALL_MESSAGES: usize = 128;

/// A topic as Redis has it now, and whether it is paused.
#[derive(Clone, Debug)]
pub struct InForce {
    /// The topic.
    pub topic: Arc<Topic>,
    /// Nothing is granted.
    pub paused: bool,
}

impl Store {
    /// A topic as Redis has it now.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn topic_in_force(&self, name: &TopicName) -> Result<InForce, Error> {
        let mut retry = self.stale_retry();
        while retry.next().await {
            let topic = self.known_topic(name).await?.ok_or(Error::TopicNotFound)?;
            let mut look = cmd("HMGET");
            look.arg(&topic.keys.meta).arg("topic").arg("rules");
            let mut found =
                Fields::of(self.lanes.command(look).await.map_err(failed)?).map_err(failed)?;
            let (owner, rules) = (found.value().map_err(failed)?, found.value().map_err(failed)?);
            if word(&owner) == Some(topic.word.as_str()) {
                let paused = word(&rules).is_some_and(|rules| rules.starts_with('1'));
                return Ok(InForce { topic, paused });
            }
            self.refresh(&topic).await?;
        }
        Err(failed(CallError::Stale))
    }

    /// The call of a leased message begins: a key that it holds until then is free.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn start_call(&self, name: &TopicName, id: MessageId) -> Result<(), Error> {
        self.on_topic(name, || StartCall(id)).await.map(|_| ())
    }

    /// Makes messages due as they were before they were parked: for each until when it was, and when it had been due.
    /// What has become of one meanwhile stays.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn fetch_parked(
        &self,
        name: &TopicName,
        parked: &[(MessageId, Millis, Millis)],
    ) -> Result<(), Error> {
        for some in parked.chunks(CALL_MESSAGES) {
            self.on_topic(name, || FetchParked(some.to_vec())).await?;
        }
        Ok(())
    }
}

struct StartCall(MessageId);

impl SingleOp for StartCall {
    type Output = ();

    fn script() -> &'static Script {
        &scripts::START_CALL
    }

    fn write(&self, topic: &Topic, command: &mut Cmd) {
        topic.keys.write_all(command);
        command.arg(&topic.word).arg(&self.0.member()[..]);
    }

    fn read(&self, _: &Arc<Topic>, _: &mut CallContext<'_>, reply: Value) -> Result<(), CallError> {
        if word(&reply) == Some("OK") { Ok(()) } else { Err(malformed(&reply)) }
    }
}

struct FetchParked(Vec<(MessageId, Millis, Millis)>);

impl SingleOp for FetchParked {
    type Output = ();

    fn script() -> &'static Script {
        &scripts::FETCH_PARKED
    }

    fn write(&self, topic: &Topic, command: &mut Cmd) {
        topic.keys.write_all(command);
        command.arg(&topic.word);
        for (id, until, due_at) in &self.0 {
            command.arg(&id.member()[..]).arg(until).arg(due_at);
        }
    }

    fn read(
        &self,
        topic: &Arc<Topic>,
        context: &mut CallContext<'_>,
        reply: Value,
    ) -> Result<(), CallError> {
        context.read_wake(topic, &mut Fields::of(reply)?).map(|_| ())
    }
}
