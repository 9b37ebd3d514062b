//! Operations on a topic, repeated while they are stale. A script that answers STALE did nothing, and says that somebody
//! else has changed the topic: the registry is read again and the operation repeated, for as long as a request may wait
//! for Redis.

use super::{Store, batch::Op, failed, registry::Topic, reply::CallError, types::MessageRef};
use crate::{
    error::Error,
    model::{MessageId, TopicName},
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Tries that follow each other at once; later ones leave a moment to whoever changes the topic.
const IMMEDIATE_TRIES: u32 = 3;
const RETRY_INTERVAL: Duration = Duration::from_millis(3);

/// How often an operation is still repeated.
pub(super) struct StaleRetry {
    until: Instant,
    tries: u32,
}

impl StaleRetry {
    /// For an operation that begins now and may take this long.
    pub fn new(limit: Duration) -> Self {
        Self { until: Instant::now() + limit, tries: 0 }
    }

    /// Waits for the next try, the first among them; false when the time is over.
    pub async fn next(&mut self) -> bool {
        self.tries += 1;
        if self.tries > IMMEDIATE_TRIES {
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
        self.tries == 1 || Instant::now() < self.until
    }
}

impl Store {
    pub(super) fn stale_retry(&self) -> StaleRetry {
        StaleRetry::new(self.lanes.timeout)
    }

    /// Carries out an operation on the topic of this name.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub(super) async fn on_topic<O: Op>(
        &self,
        name: &TopicName,
        op: impl Fn() -> O,
    ) -> Result<(Arc<Topic>, O::Output), Error> {
        let mut retry = self.stale_retry();
        while retry.next().await {
            let topic = self.known_topic(name).await?.ok_or(Error::TopicNotFound)?;
            if let Some(output) = self.submit(&topic, op()).await? {
                return Ok((topic, output));
            }
        }
        Err(failed(CallError::Stale))
    }

    /// Carries out an operation on the topic that the id names.
    ///
    /// Errors: `MessageNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub(super) async fn on_message<O: Op>(
        &self,
        id: MessageId,
        op: impl Fn() -> O,
    ) -> Result<(Arc<Topic>, O::Output), Error> {
        let mut retry = self.stale_retry();
        while retry.next().await {
            let topic = self.topic_of(id).await?;
            if let Some(output) = self.submit(&topic, op()).await? {
                return Ok((topic, output));
            }
        }
        Err(failed(CallError::Stale))
    }

    /// Carries out an operation on the topic of the message that is meant.
    ///
    /// Errors: those of `on_message` for an id, of `on_topic` for a key.
    pub(super) async fn on_ref<O: Op>(
        &self,
        message: &MessageRef,
        op: impl Fn() -> O,
    ) -> Result<(Arc<Topic>, O::Output), Error> {
        match message {
            MessageRef::Id(id) => self.on_message(*id, op).await,
            MessageRef::Key(name, _) => self.on_topic(name, op).await,
        }
    }

    /// The output of an operation. `None` where the topic was stale; then it is known by now as it is in Redis.
    async fn submit<O: Op>(&self, topic: &Arc<Topic>, op: O) -> Result<Option<O::Output>, Error> {
        match self.lanes.submit(topic, op).await {
            Ok(output) => Ok(Some(output)),
            Err(CallError::Stale) => self.refresh(topic).await.map(|()| None),
            Err(error) => Err(failed(error)),
        }
    }

    /// The topic that an id names.
    ///
    /// Errors: `MessageNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub(super) async fn topic_of(&self, id: MessageId) -> Result<Arc<Topic>, Error> {
        let route = id.route().ok_or(Error::MessageNotFound)?;
        let topic = self.registry.find_by_number(&self.lanes, route.topic).await.map_err(failed)?;
        topic.filter(|topic| topic.route.partition == route.partition).ok_or(Error::MessageNotFound)
    }

    /// Reads a stale topic's entry of the registry again.
    pub(super) async fn refresh(&self, topic: &Topic) -> Result<(), Error> {
        self.registry.refresh(&self.lanes, topic).await.map_err(failed)
    }
}
