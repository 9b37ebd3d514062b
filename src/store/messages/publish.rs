//! publish: stores messages. Those that name nothing but when they are due go by a script that does no more than that
//! needs; all others by [`PublishSpecial`].

use crate::{
    Store,
    backend::ENDS_VERSION,
    batch::{Answers, GROUP_BYTES, GROUP_MESSAGES, Node, Op, answer},
    partition::{Partition, name as name_of},
    publish_special::PublishSpecial,
    registry::Topic,
    reply::{CallError, Reply},
    scripts::{self, Script},
    types::{Due, IfAbsent, MessageOptions, NewMessage, Published},
};
use bytes::Bytes;
use deadpool_redis::redis::Cmd;
use dueq_model::{Epoch, MessageId, State, TopicName, TopicNumber, error::Error};
use std::{collections::HashSet, sync::Arc, time::Instant};

/// Bodies above this size make leases look at sizes.
pub(crate) const LARGE_BODY_BYTES: usize = 1024;
/// Bytes of bodies of a batch that go to Redis at once.
const WAVE_BYTES: usize = 768 * 1024;
/// Messages of a batch that go to Redis at once.
const WAVE_MESSAGES: usize = 4 * GROUP_MESSAGES;

/// What the options of a message take at most: key, group, idempotency key and policy.
const OPTIONS_BYTES: usize = 5 * 1024;

/// Partitions that a message without a name is tried in where its own is full, or its server away.
const MORE_PLACES: usize = 2;

/// What is stored.
#[derive(Clone, Copy)]
pub(crate) enum Kind<'a> {
    /// What a client publishes: bodies up to this size, and what to do if there is no topic.
    Published(i64, IfAbsent<'a>),
    /// Letters about what died in this topic. No bound of theirs refuses them.
    Letter(Option<TopicNumber>),
}

/// What one message's publish gave.
pub type Outcome = Result<Published, Error>;

impl Store {
    /// Stores a message. Where its key is taken, or its idempotency key came before, an existing message may answer.
    ///
    /// Errors: `TopicNotFound`, `PayloadTooLarge`, `CallbackUrlMissing`, `TopicNotPushed`, `HeaderReserved`, `NothingMasked`, `BadSetting`,
    /// `GroupChanged`, `DuplicateKey`, `MessageLeased`, `IdempotencyKeyReused`, `TopicFull`, `TopicsExhausted`, `TooManyTopics`, `RedisUnavailable`,
    /// `OutcomeUnknown`.
    pub async fn publish(
        &self,
        name: &TopicName,
        message: NewMessage,
        absent: IfAbsent<'_>,
    ) -> Result<Published, Error> {
        match self.publish_batch(name, vec![message], absent).await {
            Ok(mut outcomes) => outcomes.pop().unwrap_or(Err(Error::Internal)),
            Err(Error::OfMessage(_, error)) => Err(*error),
            Err(error) => Err(error),
        }
    }

    /// Stores messages as if one after another, each with its own outcome, in order.
    ///
    /// Errors: `TopicNotFound`, `PayloadTooLarge`, `OfMessage` with `CallbackUrlMissing`, `TopicNotPushed`, `HeaderReserved` or
    /// `NothingMasked`, `TopicsExhausted`, `TooManyTopics`, `RedisUnavailable`, `OutcomeUnknown`; then none is stored.
    pub async fn publish_batch(
        &self,
        name: &TopicName,
        mut messages: Vec<NewMessage>,
        absent: IfAbsent<'_>,
    ) -> Result<Vec<Outcome>, Error> {
        for message in messages.iter_mut().filter(|_| name.is_callbacks()) {
            self.own_names(name, message).await?;
        }
        let size =
            messages.iter().map(|m| m.body.content.payload().len()).max().unwrap_or(0) as i64;
        if let Some(at) = messages.iter().position(|message| message.body.callback.is_some()) {
            let checked = self.check_callable(name).await;
            checked.map_err(|error| Error::OfMessage(at, Box::new(error)))?;
        }
        let topic = self.topic_for(name, size, absent).await?;
        let takes = |topic: &Topic| {
            messages.iter().enumerate().try_for_each(|(at, message)| {
                let taken = topic.takes_new(message);
                taken.map_err(|error| Error::OfMessage(at, Box::new(error)))
            })
        };
        if let Err(refusal) = takes(&topic) {
            self.confirm(&topic, refusal).await?;
            takes(&*self.topic_for(name, size, absent).await?)?;
        }
        let outcomes = self.store_all(name, Kind::Published(size, absent), &messages).await;
        let full = outcomes.iter().filter(|it| matches!(it, Err(Error::TopicFull))).count();
        if full > 0 {
            self.lanes.shared.metrics.topic(name).refused.inc_by(full as u64);
        }
        Ok(outcomes)
    }

    /// Stores messages, wave by wave.
    pub(crate) async fn store_all(
        &self,
        name: &TopicName,
        kind: Kind<'_>,
        messages: &[NewMessage],
    ) -> Vec<Outcome> {
        let bodies: Vec<_> = messages.iter().map(|message| message.body.encode()).collect();
        let all = messages.len();
        let mut outcomes = Vec::with_capacity(all);
        while outcomes.len() < all {
            let (messages, bodies) = (&messages[outcomes.len()..], &bodies[outcomes.len()..]);
            let length = wave_length(messages, bodies);
            let wave = (&messages[..length], &bodies[..length]);
            outcomes.extend(self.store_wave(name, kind, wave).await);
            // A batch may have as many waves as messages, and a caller waits for Redis once. The rest is not sent.
            let is_held_up = |outcome: &Outcome| {
                matches!(outcome, Err(Error::RedisUnavailable | Error::OutcomeUnknown))
            };
            if outcomes.iter().any(is_held_up) {
                outcomes.resize(all, Err(Error::RedisUnavailable));
            }
        }
        outcomes
    }

    /// The topic for these messages, as it is known now. Only a configuration that was changed meanwhile refuses them: what is
    /// stored by then stays. `None`: it must be found again.
    pub(crate) async fn topic_of(
        &self,
        name: &TopicName,
        kind: Kind<'_>,
        messages: &[NewMessage],
    ) -> Result<Option<Arc<Topic>>, Error> {
        let topic = match kind {
            Kind::Published(size, absent) => self.topic_for(name, size, absent).await?,
            Kind::Letter(died_in) => {
                if name.is_callbacks() {
                    self.make_callbacks().await?;
                }
                self.registry.find_or_create(name, None, died_in).await?
            }
        };
        if let Kind::Published(..) = kind {
            messages.iter().try_for_each(|message| topic.takes_new(message))?;
        }
        if messages.iter().any(|message| topic.ends_of(&message.body).any()) {
            self.adopt_version(ENDS_VERSION).await?;
        }
        let grouped = messages.iter().any(|message| message.options.group.is_some());
        let known = !grouped || topic.settings.closing || self.knows_groups(&topic).await?;
        Ok(known.then_some(topic))
    }

    /// Stores messages that can go to Redis at once.
    async fn store_wave(
        &self,
        name: &TopicName,
        kind: Kind<'_>,
        (messages, bodies): (&[NewMessage], &[Bytes]),
    ) -> Vec<Outcome> {
        // A message whose every try was stale is not stored.
        let mut outcomes = vec![Err(Error::RedisUnavailable); messages.len()];
        let mut left: Vec<usize> = (0..messages.len()).collect();
        // For each how many partitions could not take it, and the last.
        let mut passed = vec![(0, None::<Partition>); messages.len()];
        let mut retry = self.stale_retry();
        while retry.next().await {
            let topic = match self.topic_of(name, kind, messages).await {
                Ok(Some(topic)) => topic,
                Ok(None) => continue,
                Err(error) => {
                    left.iter().for_each(|at| outcomes[*at] = Err(error.clone()));
                    break;
                }
            };
            if topic.settings.closing {
                self.await_change(&topic, &retry).await;
                continue;
            }
            let body = |at: usize| match topic.settings.push.is_some() || topic.reports_ends() {
                true => topic.encode(&messages[at].body),
                false => bodies[at].clone(),
            };
            let ends = |at: usize| topic.ends_of(&messages[at].body);
            let place = |at: &usize| {
                let full = passed[*at].1.as_ref();
                self.lanes.place(topic.clone(), &messages[*at].options, full)
            };
            let places: Vec<_> = left.iter().map(place).collect();
            let placed = || left.iter().zip(&places);
            // One message with options sends all of them through publish_special, so that they stay in order.
            let is_plain = |at: &usize| messages[*at].options.is_plain() && !ends(*at).any();
            let (bounded, copy) =
                (topic.settings.max_messages.is_some(), matches!(kind, Kind::Letter(_)));
            let since = Instant::now();
            let answered = if !bounded && left.iter().all(is_plain) {
                let plain = |(at, it): (&usize, &Partition)| {
                    let (id, due) = (self.next_id(it), messages[*at].due);
                    (it.clone(), Publish { id, body: body(*at), due })
                };
                self.lanes.send_many(placed().map(plain))
            } else {
                let special = |(at, it): (&usize, &Partition)| {
                    let NewMessage { due, options, .. } = &messages[*at];
                    let (id, body, due) = (self.next_id(it), body(*at), *due);
                    let options = MessageOptions { ends: ends(*at), ..options.clone() };
                    let bounded = bounded && !copy;
                    (it.clone(), PublishSpecial { id, body, due, options, copy, bounded })
                };
                self.lanes.send_many(placed().map(special))
            };
            // In another partition a name would not be found again.
            let elsewhere =
                |at: usize| topic.is_split() && name_of(&messages[at].options).is_none();
            let mut answers = Vec::with_capacity(answered.len());
            for ((at, partition), answered) in placed().zip(answered) {
                let answer = answer(answered);
                let answer =
                    self.lanes.answer_unless_away(partition, since, elsewhere(*at), answer);
                answers.push(answer.await);
            }
            let (mut again, mut stale) = (Vec::new(), Vec::new());
            for ((at, partition), answer) in left.into_iter().zip(places).zip(answers) {
                match answer {
                    Ok(Err(Error::TopicFull)) | Err(CallError::Unavailable)
                        if passed[at].0 < MORE_PLACES && elsewhere(at) =>
                    {
                        passed[at] = (passed[at].0 + 1, Some(partition));
                        outcomes[at] = answer.unwrap_or_else(|error| Err(error.into()));
                        again.push(at);
                    }
                    Ok(outcome) => outcomes[at] = outcome,
                    Err(CallError::Stale) => {
                        again.push(at);
                        stale.push(partition);
                    }
                    Err(error) => outcomes[at] = Err(error.into()),
                }
            }
            left = again;
            if left.is_empty() || self.registry.refresh_all(stale).await.is_err() {
                break;
            }
        }
        outcomes
    }

    pub(crate) fn next_id(&self, partition: &Partition) -> MessageId {
        let next =
            |Node { backend, .. }: &Node| backend.ids.next(backend.clock.now(), partition.route);
        self.lanes.at_slot(partition.slot, next)
    }
}

/// How many of these messages can go to Redis at once, in order: up to the first whose key came before, and no more than
/// a lane takes together.
fn wave_length<'m>(messages: &'m [NewMessage], bodies: &[Bytes]) -> usize {
    // A call may put off what it has no room for. Messages of a group stay in order: a wave with any is one call a partition.
    let next = &messages[..messages.len().min(WAVE_MESSAGES)];
    let (most, room, each) = match next.iter().any(|message| message.options.group.is_some()) {
        true => (GROUP_MESSAGES / 4, GROUP_BYTES, OPTIONS_BYTES),
        false => (WAVE_MESSAGES, WAVE_BYTES, 0),
    };
    let mut seen = HashSet::new();
    let mut bytes = 0;
    let mut ends = |message: &'m NewMessage, body: &Bytes| {
        let options = &message.options;
        bytes += body.len() + each;
        let key = options.key.as_ref().map(|key| (0, key.name.as_bytes()));
        let idempotency = options.idempotency.as_ref().map(|idempotency| (1, &idempotency.key[..]));
        let repeats = key.into_iter().chain(idempotency).any(|key| !seen.insert(key));
        repeats || bytes > room
    };
    let most = messages.len().min(most);
    let end = (0..most).find(|at| ends(&messages[*at], &bodies[*at]));
    end.unwrap_or(most).max(1)
}

/// A message to store that names nothing but when it is due.
pub struct Publish {
    pub id: MessageId,
    /// The encoded body.
    pub body: Bytes,
    pub due: Due,
}

impl Op for Publish {
    type Output = Outcome;

    fn script() -> &'static Script {
        &scripts::PUBLISH
    }

    fn bytes(&self) -> usize {
        self.body.len()
    }

    fn write(group: &[Self], partition: &Partition, _: Epoch, command: &mut Cmd) {
        let keys = &partition.keys;
        command.arg(3).arg(&keys.messages).arg(&keys.delayed).arg(&keys.meta);
        let large = group.iter().any(|publish| publish.body.len() > LARGE_BODY_BYTES);
        command.arg(&partition.topic.version_tag).arg(group.len()).arg(u8::from(large));
        for Self { id, due, .. } in group {
            match *due {
                Due::After(delay) => command.arg(delay),
                due => command.arg(due.to_script()),
            };
            command.arg(&id.member()[..]);
        }
        for Self { id, body, .. } in group {
            command.arg(&id.member()[..]).arg(&body[..]);
        }
    }

    fn read(group: &[Self], reply: &mut Reply<'_>) -> Answers<Outcome> {
        let (partition, now) = (reply.partition, reply.now_and_wake()?);
        let (topic, up) = (&partition.topic, reply.int()?);
        topic.counters.published.inc_by(group.len() as u64);
        partition.happened(true);
        let due_at = |publish: &Self| publish.due.from(now, up);
        if let Some(ttl) = topic.settings.ttl_ms {
            let first = group.iter().map(due_at).min();
            partition.sweep_by(now, first.map(|due_at| due_at.saturating_add(ttl)));
        }
        let stored = |publish: &Self| {
            let due_at = due_at(publish);
            let state = if due_at > now { State::Delayed } else { State::Ready };
            let due_at = Some(due_at);
            Published { id: publish.id, state, due_at, duplicate: false, replaced: false }
        };
        Ok(group.iter().map(|publish| Ok(Ok(stored(publish)))).collect())
    }
}
