//! Operations on a topic, repeated while they are stale. A script that answers STALE did nothing, and says that somebody
//! else has changed the topic: the registry is read again and the operation repeated, for as long as a request may wait
//! for Redis.

use super::{
    Store,
    batch::{Op, Request},
    partition::Partition,
    reply::CallError,
    types::MessageRef,
};
use crate::{
    error::Error,
    model::{MessageId, TopicName},
};
use std::time::{Duration, Instant};

/// Tries that follow each other at once; later ones leave a moment to whoever changes the topic.
const IMMEDIATE_TRIES: u32 = 3;
const RETRY_INTERVAL: Duration = Duration::from_millis(3);

/// Limits the retries of an operation: at least one try, then until a deadline.
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

/// What says which topic an operation is for.
pub(crate) enum Target<'a> {
    /// Its name.
    Topic(&'a TopicName),
    /// The id of one of its messages.
    Message(MessageId),
}

impl<'a> From<&'a TopicName> for Target<'a> {
    fn from(name: &'a TopicName) -> Self {
        Self::Topic(name)
    }
}

impl From<MessageId> for Target<'_> {
    fn from(id: MessageId) -> Self {
        Self::Message(id)
    }
}

impl<'a> From<&'a MessageRef> for Target<'a> {
    fn from(message: &'a MessageRef) -> Self {
        match message {
            MessageRef::Id(id) => Self::Message(*id),
            MessageRef::Key(name, _) => Self::Topic(name),
        }
    }
}

impl Store {
    pub(super) fn stale_retry(&self) -> StaleRetry {
        StaleRetry::new(self.lanes.timeout)
    }

    /// Carries out what `request` asks for, on the topic that is meant.
    ///
    /// Errors: `TopicNotFound`, or `MessageNotFound` for an id; `RedisUnavailable`, `OutcomeUnknown`.
    pub(crate) async fn on<T: Send + 'static>(
        &self,
        target: impl Into<Target<'_>>,
        request: impl Fn(&Partition) -> Request<T>,
    ) -> Result<(Partition, T), Error> {
        let target = target.into();
        let mut retry = self.stale_retry();
        while retry.next().await {
            let partition = match target {
                Target::Topic(name) => {
                    Partition::of(self.registry.find(name).await?.ok_or(Error::TopicNotFound)?)
                }
                Target::Message(id) => self.partition_of(id).await?,
            };
            match self.lanes.submit(request(&partition)).await {
                Ok(output) => return Ok((partition, output)),
                Err(CallError::Stale) => self.registry.refresh(&partition.topic).await?,
                Err(error) => return Err(error.into()),
            }
        }
        Err(CallError::Stale.into())
    }

    /// As [`Store::on`], by an [`Op`].
    pub(super) async fn on_op<O: Op>(
        &self,
        target: impl Into<Target<'_>>,
        op: impl Fn() -> O,
    ) -> Result<(Partition, O::Output), Error> {
        self.on(target, |partition| Request::new(partition, op(), Instant::now())).await
    }

    /// The partition that an id names.
    ///
    /// Errors: `MessageNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn partition_of(&self, id: MessageId) -> Result<Partition, Error> {
        let route = id.route().ok_or(Error::MessageNotFound)?;
        let topic = self.registry.find_by_number(route.topic).await?;
        let partition = topic.map(Partition::of).filter(|it| it.route == route);
        partition.ok_or(Error::MessageNotFound)
    }
}
