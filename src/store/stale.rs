//! Operations on a topic, repeated while they are stale. A script that answers STALE did nothing, and says that somebody
//! else has changed the topic: the registry is read again and the operation repeated, for as long as a request may wait
//! for Redis.

use super::{
    Store,
    batch::Request,
    partition::{Partition, PartitionName},
    registry::Topic,
    reply::CallError,
    types::MessageRef,
};
use dueq_model::{MessageId, PartitionNumber, TopicName, error::Error};
use futures_util::future::try_join_all;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Tries that follow each other at once; later ones leave a moment to the request that changes the topic.
const IMMEDIATE_TRIES: u32 = 3;
const RETRY_INTERVAL: Duration = Duration::from_millis(3);

/// Limits the retries of an operation: at least one try, then until a deadline.
pub(super) struct StaleRetry {
    begun: Instant,
    limit: Duration,
    tries: u32,
}

impl StaleRetry {
    /// For an operation that begins now and may take this long.
    pub fn new(limit: Duration) -> Self {
        Self { begun: Instant::now(), limit, tries: 0 }
    }

    /// Waits for the next try, the first among them; false when the time is over.
    pub async fn next(&mut self) -> bool {
        self.tries += 1;
        if self.tries > IMMEDIATE_TRIES {
            Box::pin(tokio::time::sleep(RETRY_INTERVAL)).await;
        }
        self.tries == 1 || self.begun.elapsed() < self.limit
    }
}

/// What says which partition of which topic an operation is for.
pub enum Target<'a> {
    /// Its name; the first partition is meant.
    Topic(&'a TopicName),
    /// The name of a key, whose home is meant.
    Key(&'a TopicName, &'a str),
    /// A partition.
    Partition(&'a TopicName, PartitionNumber),
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

impl<'a> From<&'a PartitionName> for Target<'a> {
    fn from(name: &'a PartitionName) -> Self {
        Self::Partition(&name.topic, name.number)
    }
}

impl<'a> From<&'a MessageRef> for Target<'a> {
    fn from(message: &'a MessageRef) -> Self {
        match message {
            MessageRef::Id(id) => Self::Message(*id),
            MessageRef::Key(name, key) => Self::Key(name, key),
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
    pub async fn on<T: Send + 'static>(
        &self,
        target: impl Into<Target<'_>>,
        request: impl Fn(&Partition) -> Request<T>,
    ) -> Result<(Partition, T), Error> {
        let target = target.into();
        let mut retry = self.stale_retry();
        while retry.next().await {
            let partition = match target {
                Target::Topic(name) => Partition::first(self.found(name).await?),
                Target::Key(name, key) => Partition::home(self.found(name).await?, key.as_bytes()),
                Target::Partition(name, number) => {
                    let topic = self.found(name).await?;
                    topic.partition(number).ok_or(Error::TopicNotFound)?
                }
                Target::Message(id) => self.partition_of(id).await?,
            };
            match self.lanes.submit(request(&partition)).await {
                Ok(output) => return Ok((partition, output)),
                Err(CallError::Stale) => self.registry.refresh(&partition).await?,
                Err(error) => return Err(error.into()),
            }
        }
        Err(CallError::Stale.into())
    }

    /// As [`Store::on`], on all partitions of a topic at once, and then on those that it has got meanwhile.
    pub async fn on_each<T: Send + 'static>(
        &self,
        name: &TopicName,
        request: impl Fn(&Partition) -> Request<T>,
    ) -> Result<Vec<(Partition, T)>, Error> {
        let one = |it: Partition| self.on(Target::Partition(name, it.route.partition), &request);
        let mut parts = Vec::new();
        loop {
            // Another instance may have given it more: what is known here is seen to be old by the first that is asked.
            let topic = match self.registry.find(name).await? {
                None if parts.is_empty() => return Err(Error::TopicNotFound),
                Some(topic) if topic.partitions.len() > parts.len() => topic,
                _ => return Ok(parts),
            };
            parts.extend(try_join_all(topic.all().skip(parts.len()).map(one)).await?);
        }
    }

    /// As [`Store::on_each`], where a request changes something: after an error some partitions may have been changed.
    pub(super) async fn change_each<T: Send + 'static>(
        &self,
        name: &TopicName,
        request: impl Fn(&Partition) -> Request<T>,
    ) -> Result<Vec<(Partition, T)>, Error> {
        let is_split = self.found(name).await?.is_split();
        self.on_each(name, request).await.map_err(|error| error.after(is_split))
    }

    /// The topic of this name.
    async fn found(&self, name: &TopicName) -> Result<Arc<Topic>, Error> {
        self.registry.find(name).await?.ok_or(Error::TopicNotFound)
    }

    /// This topic is about to be deleted, or to get more partitions, so nothing is published to it before the next
    /// try, which reads the registry again. If that takes half as long as there is, that request has died, and its mark is taken back.
    pub(super) async fn await_change(&self, topic: &Topic, retry: &StaleRetry) {
        self.registry.forget(topic);
        if retry.begun.elapsed() > retry.limit / 2 {
            // Where this fails, so will the next try.
            let _ = self.set_closing(topic, false).await;
        }
    }

    /// The partition that an id names.
    ///
    /// Errors: `MessageNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn partition_of(&self, id: MessageId) -> Result<Partition, Error> {
        let route = id.route().ok_or(Error::MessageNotFound)?;
        let topic = self.registry.find_by_number(route.topic).await?;
        let partition = topic.and_then(|topic| topic.partition(route.partition));
        partition.ok_or(Error::MessageNotFound)
    }

    /// The name of the topic that an id is of, if this instance has used the topic lately.
    pub fn known_topic_of(&self, id: MessageId) -> Option<TopicName> {
        self.registry.peek_number(id.route()?.topic).map(|topic| topic.name.clone())
    }
}
