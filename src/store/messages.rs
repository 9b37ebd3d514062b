//! Publishing, looking at and deleting messages.

use super::{
    Store,
    call::Verb,
    failed,
    inspect::{Delete, Exists, Get, MessageSnapshot},
    publish::{Due, Publish},
    registry::Topic,
    reply::CallError,
};
use crate::{
    error::Error,
    model::{Body, MessageId, Millis, State, TopicName},
};
use std::{future::Future, sync::Arc};

/// How often an operation starts over after the registry turned out to be stale.
const TRIES: usize = 3;

/// A message to publish.
#[derive(Clone, Debug)]
pub struct NewMessage {
    /// Content and headers.
    pub body: Body,
    /// When it falls due.
    pub due: Due,
    /// 0…255.
    pub priority: u8,
    /// Its own limit of counted grants.
    pub max_attempts: Option<u16>,
}

/// A message that Redis has stored.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    /// Its id.
    pub id: MessageId,
    /// delayed or ready.
    pub state: State,
    /// When it falls due.
    pub due_at: Millis,
}

impl Store {
    /// Stores a message; its topic comes into being if need be.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`, `TopicsExhausted`.
    pub async fn publish(
        &self,
        topic: &TopicName,
        message: NewMessage,
    ) -> Result<Published, Error> {
        let body = message.body.encode();
        for _ in 0..TRIES {
            let topic =
                self.registry.find_or_create(&self.lanes, topic).await.map_err(failed)??;
            let backend = &self.lanes.backend;
            let publish = Publish {
                id: backend.ids.next(backend.clock.now(), topic.route),
                body: body.clone(),
                due: message.due,
                priority: message.priority,
                max_attempts: message.max_attempts,
            };
            let id = publish.id;
            match self.lanes.submit(&topic, publish).await {
                Ok(stored) => {
                    let state =
                        if stored.due_at > stored.now { State::Delayed } else { State::Ready };
                    return Ok(Published { id, state, due_at: stored.due_at });
                }
                Err(CallError::Stale) => self.refresh(&topic).await?,
                Err(error) => return Err(failed(error)),
            }
        }
        Err(failed(CallError::Stale))
    }

    /// A message as it stands, and its topic.
    ///
    /// Errors: `MessageNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn get(&self, id: MessageId) -> Result<(Arc<Topic>, MessageSnapshot), Error> {
        let (topic, found) =
            self.of_message(id, async |topic| self.alone(topic, Get(id)).await).await?;
        Ok((topic, found.ok_or(Error::MessageNotFound)?))
    }

    /// Removes a message from any state but leased.
    ///
    /// Errors: `MessageNotFound`, `MessageLeased`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn delete(&self, id: MessageId) -> Result<(), Error> {
        self.of_message(id, async |topic| self.alone(topic, Delete(id)).await).await?.1
    }

    /// Is there such a message?
    pub(super) async fn exists(&self, id: MessageId) -> Result<bool, Error> {
        match self.of_message(id, async |topic| self.alone(topic, Exists(id)).await).await {
            Ok((_, found)) => Ok(found),
            Err(Error::MessageNotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Carries out `operation` on the topic that the id names.
    pub(super) async fn of_message<T, F>(
        &self,
        id: MessageId,
        operation: impl Fn(Arc<Topic>) -> F,
    ) -> Result<(Arc<Topic>, T), Error>
    where
        F: Future<Output = Result<T, CallError>>,
    {
        let route = id.route().ok_or(Error::MessageNotFound)?;
        for _ in 0..TRIES {
            let topic =
                self.registry.find_by_number(&self.lanes, route.topic).await.map_err(failed)?;
            let topic = topic
                .filter(|topic| topic.route.partition == route.partition)
                .ok_or(Error::MessageNotFound)?;
            match operation(topic.clone()).await {
                Ok(answer) => return Ok((topic, answer)),
                Err(CallError::Stale) => self.refresh(&topic).await?,
                Err(error) => return Err(failed(error)),
            }
        }
        Err(failed(CallError::Stale))
    }

    pub(super) async fn refresh(&self, topic: &Topic) -> Result<(), Error> {
        self.registry.refresh(&self.lanes, topic).await.map_err(failed)
    }

    async fn alone<V: Verb>(&self, topic: Arc<Topic>, verb: V) -> Result<V::Answer, CallError> {
        self.lanes.submit_alone(&topic, verb).await
    }
}
