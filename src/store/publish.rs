//! publish: stores messages. Those that name nothing but when they are due go by a script that does no more than that
//! needs; all others by [`PublishSpecial`].

use super::{
    Store,
    batch::{Answers, GROUP_BYTES, GROUP_MESSAGES, Node, Op, Request, answer},
    partition::{Partition, name as name_of},
    publish_special::PublishSpecial,
    registry::Topic,
    reply::{CallError, Reply},
    scripts::{self, Script},
    types::{Due, IfAbsent, NewMessage, Published},
};
use bytes::Bytes;
use deadpool_redis::redis::Cmd;
use dueq_model::{Epoch, MessageId, State, TopicName, error::Error};
use std::{collections::HashSet, sync::Arc, time::Instant};

/// Bodies above this size make leases look at sizes.
pub(super) const LARGE_BODY_BYTES: usize = 1024;
/// Bytes of bodies of a batch that go to Redis at once.
const WAVE_BYTES: usize = 768 * 1024;
/// Messages of a batch that go to Redis at once.
const WAVE_MESSAGES: usize = 4 * GROUP_MESSAGES;

/// What the options of a message take at most: key, group, idempotency key and policy.
const OPTIONS_BYTES: usize = 5 * 1024;

/// Partitions that a message without a name is tried in where its own is full, or its server away.
const MORE_PLACES: usize = 2;

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
        mut message: NewMessage,
        absent: IfAbsent<'_>,
    ) -> Result<Published, Error> {
        self.own_names(name, &mut message).await?;
        let size = message.body.content.payload().len() as i64;
        if message.body.callback.is_some() {
            self.check_callable(name).await?;
        }
        let nameless = name_of(&message.options).is_none();
        let mut retry = self.stale_retry();
        // Partitions that could not take it: how many, and the last.
        let (mut passed, mut full) = (0, None::<Partition>);
        while retry.next().await {
            let topic = self.topic_for(name, size, absent).await?;
            if let Err(refusal) = topic.takes_new(&message) {
                self.confirm(&topic, refusal).await?;
                continue;
            }
            if message.options.group.is_some() && !self.knows_groups(&topic).await? {
                continue;
            }
            if topic.settings.closing {
                self.await_change(&topic, &retry).await;
                continue;
            }
            let body = topic.encode(&message.body);
            let partition = self.lanes.place(topic, &message.options, full.as_ref());
            let elsewhere = nameless && partition.topic.is_split();
            let since = Instant::now();
            let request = match partition.topic.takes_plain(&message.options) {
                true => Request::new(&partition, self.plain(&partition, &message, body), since),
                false => Request::new(&partition, self.special(&partition, &message, body), since),
            };
            let answer = self.lanes.submit(request);
            match self.lanes.answer_unless_away(&partition, since, elsewhere, answer).await {
                Ok(Err(Error::TopicFull)) | Err(CallError::Unavailable)
                    if elsewhere && passed < MORE_PLACES =>
                {
                    passed += 1;
                    full = Some(partition);
                }
                Ok(outcome) => {
                    self.count_refused(name, std::slice::from_ref(&outcome));
                    return outcome;
                }
                Err(CallError::Stale) => self.registry.refresh(&partition).await?,
                Err(error) => return Err(error.into()),
            }
        }
        Err(CallError::Stale.into())
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
        let bodies: Vec<_> = messages.iter().map(|message| message.body.encode()).collect();
        let all = messages.len();
        let mut outcomes = Vec::with_capacity(all);
        while outcomes.len() < all {
            let (messages, bodies) = (&messages[outcomes.len()..], &bodies[outcomes.len()..]);
            let length = wave_length(messages, bodies);
            let wave = (&messages[..length], &bodies[..length]);
            outcomes.extend(self.publish_wave(name, (size, absent), wave).await);
            // A batch may have as many waves as messages, and a caller waits for Redis once. The rest is not sent.
            let is_held_up = |outcome: &Outcome| {
                matches!(outcome, Err(Error::RedisUnavailable | Error::OutcomeUnknown))
            };
            if outcomes.iter().any(is_held_up) {
                outcomes.resize(all, Err(Error::RedisUnavailable));
            }
        }
        self.count_refused(name, &outcomes);
        Ok(outcomes)
    }

    /// Stores messages of a batch that can go to Redis at once.
    async fn publish_wave(
        &self,
        name: &TopicName,
        (size, absent): (i64, IfAbsent<'_>),
        (messages, bodies): (&[NewMessage], &[Bytes]),
    ) -> Vec<Outcome> {
        // A message whose every try was stale is not stored.
        let mut outcomes = vec![Err(Error::RedisUnavailable); messages.len()];
        let mut left: Vec<usize> = (0..messages.len()).collect();
        // For each how many partitions could not take it, and the last.
        let mut passed = vec![(0, None::<Partition>); messages.len()];
        let mut retry = self.stale_retry();
        while retry.next().await {
            // Refused only by a configuration that was changed meanwhile: what is stored by then stays.
            let takes = |topic: Arc<Topic>| {
                left.iter().try_for_each(|at| topic.takes_new(&messages[*at])).map(|()| topic)
            };
            let topic = match self.topic_for(name, size, absent).await.and_then(takes) {
                Ok(topic) => topic,
                Err(error) => {
                    left.iter().for_each(|at| outcomes[*at] = Err(error.clone()));
                    break;
                }
            };
            let body = |at: usize| match topic.settings.push {
                Some(_) => topic.encode(&messages[at].body),
                None => bodies[at].clone(),
            };
            if topic.settings.closing {
                self.await_change(&topic, &retry).await;
                continue;
            }
            if left.iter().any(|at| messages[*at].options.group.is_some()) {
                match self.knows_groups(&topic).await {
                    Ok(true) => {}
                    Ok(false) => continue,
                    Err(error) => {
                        left.iter().for_each(|at| outcomes[*at] = Err(error.clone()));
                        break;
                    }
                }
            }
            let nameless = |at: usize| name_of(&messages[at].options).is_none();
            let place = |at: &usize| {
                let full = passed[*at].1.as_ref();
                self.lanes.place(topic.clone(), &messages[*at].options, full)
            };
            let places: Vec<_> = left.iter().map(place).collect();
            let placed = || left.iter().zip(&places);
            // One message with options sends all of them through publish_special, so that they stay in order.
            let is_plain = |at: &usize| messages[*at].options.is_plain();
            let since = Instant::now();
            let answered = if topic.settings.max_messages.is_none() && left.iter().all(is_plain) {
                let plain = |(at, it): (&usize, &Partition)| {
                    (it.clone(), self.plain(it, &messages[*at], body(*at)))
                };
                self.lanes.send_many(placed().map(plain))
            } else {
                let special = |(at, it): (&usize, &Partition)| {
                    (it.clone(), self.special(it, &messages[*at], body(*at)))
                };
                self.lanes.send_many(placed().map(special))
            };
            let mut answers = Vec::with_capacity(answered.len());
            for ((at, partition), answered) in placed().zip(answered) {
                let answer = answer(answered);
                let elsewhere = nameless(*at) && topic.is_split();
                let answer = self.lanes.answer_unless_away(partition, since, elsewhere, answer);
                answers.push(answer.await);
            }
            let (mut again, mut stale) = (Vec::new(), Vec::new());
            for ((at, partition), answer) in left.into_iter().zip(places).zip(answers) {
                let elsewhere = nameless(at) && passed[at].0 < MORE_PLACES && topic.is_split();
                match answer {
                    Ok(Err(Error::TopicFull)) | Err(CallError::Unavailable) if elsewhere => {
                        passed[at] = (passed[at].0 + 1, Some(partition));
                        outcomes[at] = Err(match answer {
                            Ok(_) => Error::TopicFull,
                            Err(error) => error.into(),
                        });
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

    fn plain(&self, partition: &Partition, message: &NewMessage, body: Bytes) -> Publish {
        Publish { id: self.next_id(partition), body, due: message.due }
    }

    fn special(&self, partition: &Partition, message: &NewMessage, body: Bytes) -> PublishSpecial {
        let (due, options) = (message.due, message.options.clone());
        let bounded = partition.topic.settings.max_messages.is_some();
        PublishSpecial { id: self.next_id(partition), body, due, options, copy: false, bounded }
    }

    pub(super) fn next_id(&self, partition: &Partition) -> MessageId {
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
