//! Publishing, looking at, changing and deleting messages.

use super::{
    Store,
    call::GROUP_MESSAGES,
    failed,
    inspect::{Delete, Exists, Get, RedriveMessage, Update, Updated},
    patience::Patience,
    publish::{Outcome, Publish, PublishSpecial},
    registry::Topic,
    reply::CallError,
    types::{MessageSnapshot, MessageUpdate, NewMessage, Published, Which},
};
use crate::{
    error::Error,
    model::{Body, DEFAULT_PAYLOAD_BYTES, MessageId, TopicName},
    seeded,
};
use bytes::Bytes;
use std::{collections::HashSet, future::Future, sync::Arc};

/// Bytes of bodies of a batch that go to Redis at once.
const WAVE_BYTES: usize = 768 * 1024;
/// Messages of a batch that go to Redis at once.
const WAVE_MESSAGES: usize = 4 * GROUP_MESSAGES;

impl Store {
    /// Stores a message; its topic comes into being if need be. Where the message's key is taken, or its idempotency key
    /// came before, an existing message may answer.
    ///
    /// Errors: `PayloadTooLarge`, `CallbackUrlMissing`, `TopicNotPushed`, `HeaderReserved`, `NothingMasked`,
    /// `DuplicateKey`, `MessageLeased`, `IdempotencyKeyReused`, `TopicFull`, `TopicsExhausted`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn publish(&self, name: &TopicName, message: NewMessage) -> Result<Published, Error> {
        let size = message.body.content.payload().len() as i64;
        if message.body.callback.is_some() {
            self.check_callable(name).await?;
        }
        let mut patience = Patience::new(self.lanes.timeout);
        while patience.another().await {
            let topic = self.topic_for(name, size).await?;
            if let Err(refusal) = topic.takes(&message.body) {
                self.confirm(&topic, refusal).await?;
                continue;
            }
            let body = topic.encode(&message.body);
            let answer = if message.options.is_plain() && topic.settings.max_messages.is_none() {
                self.lanes.submit(&topic, self.plain(&topic, &message, &body)).await
            } else {
                self.lanes.submit(&topic, self.special(&topic, &message, &body)).await
            };
            match answer {
                Ok(outcome) => return outcome,
                Err(CallError::Stale) => self.refresh(&topic).await?,
                Err(CallError::Unknown) if seeded::bug("blind repeat") => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Err(failed(CallError::Stale))
    }

    /// Stores messages as if one after another, each with its own outcome, in order.
    ///
    /// Errors: `PayloadTooLarge`, `OfMessage` with `CallbackUrlMissing`, `TopicNotPushed`, `HeaderReserved` or
    /// `NothingMasked`, `TopicsExhausted`, `RedisUnavailable`, `OutcomeUnknown`; then none is stored.
    pub async fn publish_batch(
        &self,
        name: &TopicName,
        messages: Vec<NewMessage>,
    ) -> Result<Vec<Outcome>, Error> {
        let size =
            messages.iter().map(|m| m.body.content.payload().len()).max().unwrap_or(0) as i64;
        if let Some(at) = messages.iter().position(|message| message.body.callback.is_some()) {
            let checked = self.check_callable(name).await;
            checked.map_err(|error| Error::OfMessage(at, Box::new(error)))?;
        }
        let topic = self.topic_for(name, size).await?;
        let takes = |topic: &Topic| {
            messages.iter().enumerate().try_for_each(|(at, message)| {
                let taken = topic.takes(&message.body);
                taken.map_err(|error| Error::OfMessage(at, Box::new(error)))
            })
        };
        if let Err(refusal) = takes(&topic) {
            self.confirm(&topic, refusal).await?;
            takes(&*self.topic_for(name, size).await?)?;
        }
        let mut bodies: Vec<_> = messages.iter().map(|message| message.body.encode()).collect();
        let mut outcomes: Vec<Option<Outcome>> = vec![None; messages.len()];
        let mut begin = 0;
        while begin < messages.len() {
            let end = begin + wave(&messages[begin..], &bodies[begin..]);
            let mut left: Vec<usize> = (begin..end).collect();
            let mut patience = Patience::new(self.lanes.timeout);
            while patience.another().await {
                // Refused only by a configuration that was changed meanwhile: what is stored by then stays.
                let takes = |topic: Arc<Topic>| {
                    left.iter().try_for_each(|at| topic.takes(&messages[*at].body)).map(|()| topic)
                };
                let topic = match self.topic_for(name, size).await.and_then(takes) {
                    Ok(topic) => topic,
                    Err(error) => {
                        left.drain(..).for_each(|at| outcomes[at] = Some(Err(error.clone())));
                        break;
                    }
                };
                if topic.settings.push.is_some() {
                    left.iter().for_each(|at| bodies[*at] = topic.encode(&messages[*at].body));
                }
                let answers = self.publish_wave(&topic, &messages, &bodies, &left).await;
                let mut stale = Vec::new();
                for (at, answer) in answers {
                    match answer {
                        Ok(outcome) => outcomes[at] = Some(outcome),
                        Err(CallError::Stale) => stale.push(at),
                        Err(error) => outcomes[at] = Some(Err(failed(error))),
                    }
                }
                left = stale;
                if left.is_empty() {
                    break;
                }
                if self.refresh(&topic).await.is_err() {
                    break;
                }
            }
            // They were not stored, whatever became of the registry.
            left.into_iter().for_each(|at| outcomes[at] = Some(Err(Error::RedisUnavailable)));
            begin = end;
        }
        Ok(outcomes.into_iter().map(|outcome| outcome.unwrap_or(Err(Error::Internal))).collect())
    }

    /// Sends the messages at these places of a batch. One that is not plain makes all take the way of those, so that
    /// they stay in order.
    async fn publish_wave(
        &self,
        topic: &Arc<Topic>,
        messages: &[NewMessage],
        bodies: &[Bytes],
        places: &[usize],
    ) -> Vec<(usize, Result<Outcome, CallError>)> {
        let is_plain = |at: &usize| messages[*at].options.is_plain();
        let answers = if topic.settings.max_messages.is_none() && places.iter().all(is_plain) {
            let plain = |at: &usize| self.plain(topic, &messages[*at], &bodies[*at]);
            self.lanes.submit_many(places.iter().map(|at| (topic.clone(), plain(at)))).await
        } else {
            let special = |at: &usize| self.special(topic, &messages[*at], &bodies[*at]);
            self.lanes.submit_many(places.iter().map(|at| (topic.clone(), special(at)))).await
        };
        places.iter().copied().zip(answers).collect()
    }

    fn plain(&self, topic: &Topic, message: &NewMessage, body: &Bytes) -> Publish {
        Publish { id: self.next_id(topic), body: body.clone(), due: message.due }
    }

    fn special(&self, topic: &Topic, message: &NewMessage, body: &Bytes) -> PublishSpecial {
        let (due, options) = (message.due, message.options.clone());
        let (id, body) = (self.next_id(topic), body.clone());
        let bounded = topic.settings.max_messages.is_some();
        PublishSpecial { id, body, due, options, copy: false, bounded }
    }

    pub(super) fn next_id(&self, topic: &Topic) -> MessageId {
        let backend = &self.lanes.backend;
        backend.ids.next(backend.clock.now(), topic.route)
    }

    /// The topic for a payload of `size` bytes.
    async fn topic_for(&self, name: &TopicName, size: i64) -> Result<Arc<Topic>, Error> {
        let default = DEFAULT_PAYLOAD_BYTES as i64;
        let known = if size <= default {
            Some(self.registry.find_or_create(&self.lanes, name).await.map_err(failed)??)
        } else {
            self.registry.find(&self.lanes, name).await.map_err(failed)?
        };
        if let Some(topic) = known.filter(|topic| size <= topic.settings.max_payload_bytes) {
            return Ok(topic);
        }
        // The limit may be a higher one by now; and what is refused makes no topic.
        let topic = self.registry.look_up(&self.lanes, name).await.map_err(failed)?;
        let limit = topic.as_ref().map_or(default, |topic| topic.settings.max_payload_bytes);
        topic.filter(|_| size <= limit).ok_or(Error::PayloadTooLarge(limit))
    }

    /// A message as it stands, and its topic.
    ///
    /// Errors: `MessageNotFound`, `TopicNotFound` for a key, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn get(&self, which: &Which) -> Result<(Arc<Topic>, MessageSnapshot), Error> {
        let get = async |topic| self.lanes.submit_alone(&topic, Get(which.clone())).await;
        let (topic, found) = self.of_which(which, get).await?;
        Ok((topic, found.ok_or(Error::MessageNotFound)?))
    }

    /// Changes a message in place that waits or is dead.
    ///
    /// Errors: `MessageNotFound`, `TopicNotFound` for a key, `MessageLeased`, `MessageDead` for a due time,
    /// `MessageAcked`, `PayloadTooLarge`, `CallbackUrlMissing`, `TopicNotPushed`, `NothingMasked`, `SecretRequired`,
    /// `HeadersTooLarge`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn update(
        &self,
        which: &Which,
        update: MessageUpdate,
    ) -> Result<(Arc<Topic>, MessageSnapshot), Error> {
        let mut patience = Patience::new(self.lanes.timeout);
        while patience.another().await {
            let body = match (&update.content, &update.headers, &update.callback) {
                (None, None, None) => None,
                _ => Some(self.new_body(which, &update).await?),
            };
            let change = async |topic| {
                let (which, update, body) = (which.clone(), update.clone(), body.clone());
                self.lanes.submit_alone(&topic, Update { which, update, body }).await
            };
            match self.of_which(which, change).await? {
                (topic, Updated::Done(snapshot)) => return Ok((topic, *snapshot)),
                (_, Updated::Refused(error)) => return Err(error),
                (_, Updated::Changed) => {}
            }
        }
        // Somebody else changes it all the time; this change was never carried out.
        Err(Error::RedisUnavailable)
    }

    /// The events of the message as it is, and its body as the update wants it: payload and headers lie in one.
    async fn new_body(
        &self,
        which: &Which,
        update: &MessageUpdate,
    ) -> Result<(String, Bytes), Error> {
        let (topic, found) = self.get(which).await?;
        let seen = found.body.ok_or(Error::Internal)?;
        let mut body = Body {
            content: update.content.clone().unwrap_or_else(|| seen.content.clone()),
            callback: update.callback.clone().unwrap_or_else(|| seen.callback.clone()),
            ..seen.clone()
        };
        if update.content.is_some() {
            self.topic_for(&topic.name, body.content.payload().len() as i64).await?;
        }
        if update.callback.is_some() || update.headers.is_some() {
            topic.keep_secrets(&mut body, &seen, update.headers.as_ref())?;
            topic.takes(&body)?;
        }
        Ok((found.written, body.encode()))
    }

    /// Removes a message from any state but leased, with `force` from that too.
    ///
    /// Errors: `MessageNotFound`, `TopicNotFound` for a key, `MessageLeased`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn delete(&self, which: &Which, force: bool) -> Result<(), Error> {
        let delete = async |topic| {
            self.lanes.submit_alone(&topic, Delete { which: which.clone(), force }).await
        };
        self.of_which(which, delete).await?.1
    }

    /// Makes a dead message ready again, with a fresh budget of attempts.
    ///
    /// Errors: `MessageNotFound`, `MessageNotDead`, `DuplicateKey`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn redrive_message(
        &self,
        id: MessageId,
    ) -> Result<(Arc<Topic>, MessageSnapshot), Error> {
        let redrive = async |topic| self.lanes.submit_alone(&topic, RedriveMessage(id)).await;
        let (topic, snapshot) = self.of_message(id, redrive).await?;
        Ok((topic, snapshot?))
    }

    /// Is there such a message?
    pub(super) async fn exists(&self, id: MessageId) -> Result<bool, Error> {
        let exists = async |topic| self.lanes.submit_alone(&topic, Exists(id)).await;
        match self.of_message(id, exists).await {
            Ok((_, found)) => Ok(found),
            Err(Error::MessageNotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Carries out `operation` on the topic of the message that is meant.
    async fn of_which<T, F>(
        &self,
        which: &Which,
        operation: impl Fn(Arc<Topic>) -> F,
    ) -> Result<(Arc<Topic>, T), Error>
    where
        F: Future<Output = Result<T, CallError>>,
    {
        match which {
            Which::Id(id) => self.of_message(*id, operation).await,
            Which::Key(name, _) => self.of_topic(name, operation).await,
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
        let mut patience = Patience::new(self.lanes.timeout);
        while patience.another().await {
            let topic = self.topic_of(id).await?;
            match operation(topic.clone()).await {
                Ok(answer) => return Ok((topic, answer)),
                Err(CallError::Stale) => self.refresh(&topic).await?,
                Err(error) => return Err(failed(error)),
            }
        }
        Err(failed(CallError::Stale))
    }

    /// The topic that an id names.
    pub(super) async fn topic_of(&self, id: MessageId) -> Result<Arc<Topic>, Error> {
        let route = id.route().ok_or(Error::MessageNotFound)?;
        let topic = self.registry.find_by_number(&self.lanes, route.topic).await.map_err(failed)?;
        topic.filter(|topic| topic.route.partition == route.partition).ok_or(Error::MessageNotFound)
    }

    pub(super) async fn refresh(&self, topic: &Topic) -> Result<(), Error> {
        self.registry.refresh(&self.lanes, topic).await.map_err(failed)
    }
}

/// How many of these messages can go to Redis at once, in order: up to the first whose key came before, and no more than
/// a lane takes together.
fn wave<'m>(messages: &'m [NewMessage], bodies: &[Bytes]) -> usize {
    let mut seen = HashSet::new();
    let mut bytes = 0;
    let mut ends = |message: &'m NewMessage, body: &Bytes| {
        let options = &message.options;
        bytes += body.len();
        let key = options.key.as_ref().map(|key| (0, key.name.as_bytes()));
        let idempotency = options.idempotency.as_ref().map(|idempotency| (1, &idempotency.key[..]));
        let repeats = key.into_iter().chain(idempotency).any(|key| !seen.insert(key));
        repeats || bytes > WAVE_BYTES
    };
    let most = messages.len().min(WAVE_MESSAGES);
    let end = (0..most).find(|at| ends(&messages[*at], &bodies[*at]));
    end.unwrap_or(most).max(1)
}
