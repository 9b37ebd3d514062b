//! start_call, fetch_parked, and whether a call may begin at all: what sending needs of a topic between lease and ack.

use super::{
    Store,
    batch::Command,
    registry::Topic,
    reply::{CallError, Fields, word},
    scripts,
};
use crate::{
    error::Error,
    model::{MessageId, Millis, TopicName},
};
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
            let topic = self.registry.find(name).await?.ok_or(Error::TopicNotFound)?;
            let look = Command::new("HMGET").arg((&topic.keys.meta, "topic", "rules"));
            let mut found = Fields::of(self.lanes.command(look).await?)?;
            let (owner, rules) = (found.value()?, found.value()?);
            if word(&owner) == Some(topic.word.as_str()) {
                let paused = word(&rules).is_some_and(|rules| rules.starts_with('1'));
                return Ok(InForce { topic, paused });
            }
            self.registry.refresh(&topic).await?;
        }
        Err(CallError::Stale.into())
    }

    /// The call of a leased message begins: a key that it holds until then is free.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn start_call(&self, name: &TopicName, id: MessageId) -> Result<(), Error> {
        let start = |topic: &Arc<Topic>| {
            let start = Command::on(&scripts::START_CALL, topic).arg(&id.member()[..]);
            start.read(topic, |reply| reply.expect("OK"))
        };
        self.on(name, start).await.map(|_| ())
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
            let fetch = |topic: &Arc<Topic>| {
                let mut fetch = Command::on(&scripts::FETCH_PARKED, topic);
                for (id, until, due_at) in some {
                    fetch = fetch.arg((&id.member()[..], until, due_at));
                }
                fetch.read(topic, |reply| reply.now_and_wake().map(|_| ()))
            };
            self.on(name, fetch).await?;
        }
        Ok(())
    }
}
