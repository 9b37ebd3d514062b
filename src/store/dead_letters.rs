//! take_dead, finish_dead, and the publishing in between: what dies in a topic is told of in another.
//!
//! Whatever script sees a death notes it in the same partition, in the same breath. An instance takes what is noted, with
//! the messages as they stand, publishes a copy of each, and crosses out what it published. Killed in between, it or
//! another does all of that again; an idempotency key lets the second copy find the first.

use super::{
    Store,
    batch::Command,
    message::read_snapshot,
    partition::{Partition, PartitionName},
    publish_special::PublishSpecial,
    registry::Topic,
    reply::{CallError, Fields, Reply, malformed},
    scripts,
    types::{Due, Idempotency, MessageOptions, MessageSnapshot},
};
use crate::{
    error::Error,
    model::{Body, MessageId, Millis, TopicName},
};
use deadpool_redis::redis::Value;
use std::sync::Arc;

/// Deaths of one call.
const CALL_DEATHS: u32 = 64;
/// Bytes of bodies of one call; a larger one comes alone.
const CALL_BYTES: u32 = 256 * 1024;
/// For how long a copy is found by its repetition: 10 minutes in ms.
const IDEMPOTENCY_WINDOW_MS: Millis = 600_000;

/// A death that is to be told of.
#[derive(Debug)]
pub struct Death {
    /// Whose.
    pub id: MessageId,
    /// When.
    pub died_at: Millis,
    /// The message as it stands; `None` where it cannot be read.
    pub message: Option<MessageSnapshot>,
}

/// What tells of a death, or the dead message itself.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    /// Whose.
    pub id: MessageId,
    /// When.
    pub died_at: Millis,
    /// Content and headers.
    pub body: Body,
    /// 0…255.
    pub priority: u8,
    /// The group of the message, and so of what tells of it.
    pub group: Option<String>,
}

impl DeadLetter {
    /// What finds it again.
    fn idempotency(&self) -> Idempotency {
        let occasion = format!("dead {} {}", self.id, self.died_at);
        Idempotency::of_dueq(&occasion, IDEMPOTENCY_WINDOW_MS)
    }
}

impl Store {
    /// Some deaths in a partition that are to be told of, longest dead first.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn take_dead(&self, name: &PartitionName) -> Result<(Arc<Topic>, Vec<Death>), Error> {
        let take = |partition: &Partition| {
            let take = Command::on(&scripts::TAKE_DEAD, partition);
            take.arg((CALL_DEATHS, CALL_BYTES)).read(partition, read_deaths)
        };
        let (Partition { topic, .. }, deaths) = self.on(name, take).await?;
        Ok((topic, deaths))
    }

    /// Publishes what tells of deaths, whatever the size and the bound of this topic, which comes into being if need be.
    /// What was published before is not again.
    ///
    /// Errors: `TopicsExhausted`, `RedisUnavailable`, `OutcomeUnknown`; then some may be published.
    pub async fn publish_dead_letters(
        &self,
        name: &TopicName,
        letters: Vec<DeadLetter>,
    ) -> Result<(), Error> {
        let mut left = letters;
        let mut retry = self.stale_retry();
        while !left.is_empty() {
            if !retry.next().await {
                return Err(CallError::Stale.into());
            }
            let topic = self.registry.find_or_create(name).await?;
            if topic.settings.closing {
                self.await_change(&topic, &retry).await;
                continue;
            }
            let grouped = left.iter().any(|letter| letter.group.is_some());
            if grouped && !self.knows_groups(&topic).await? {
                continue;
            }
            let home = |letter: &DeadLetter| {
                let idempotency = letter.idempotency();
                let name = letter.group.as_ref().map_or(&idempotency.key[..], |it| it.as_bytes());
                Partition::home(topic.clone(), name)
            };
            let homes: Vec<_> = left.iter().map(home).collect();
            let copies =
                left.iter().zip(&homes).map(|(letter, it)| (it.clone(), self.copy(it, letter)));
            let answers = self.lanes.submit_many(copies).await;
            let (mut again, mut stale) = (Vec::new(), Vec::new());
            for ((letter, partition), answer) in left.into_iter().zip(homes).zip(answers) {
                match answer {
                    Ok(outcome) => drop(outcome?),
                    Err(CallError::Stale) => {
                        again.push(letter);
                        stale.push(partition);
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            left = again;
            self.registry.refresh_all(stale).await?;
        }
        Ok(())
    }

    fn copy(&self, partition: &Partition, letter: &DeadLetter) -> PublishSpecial {
        let options = MessageOptions {
            idempotency: Some(letter.idempotency()),
            group: letter.group.clone(),
            priority: letter.priority,
            ..MessageOptions::default()
        };
        let body = partition.topic.encode(&letter.body);
        let (id, due) = (self.next_id(partition), Due::After(0));
        PublishSpecial { id, body, due, options, copy: true, bounded: false }
    }

    /// These deaths have been told of, or need not be. Those whose messages were `moved` end here.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn finish_dead(
        &self,
        name: &PartitionName,
        told: &[(MessageId, Millis)],
        moved: impl Fn(&MessageId) -> bool,
    ) -> Result<(), Error> {
        let finish = |partition: &Partition| {
            let mut finish = Command::on(&scripts::FINISH_DEAD, partition);
            for (id, died_at) in told {
                finish = finish.arg((&id.member()[..], died_at, u8::from(moved(id))));
            }
            finish.read(partition, |reply| match reply.whole {
                Value::Int(_) => Ok(()),
                _ => Err(malformed(&reply.whole)),
            })
        };
        self.on(name, finish).await.map(|_| ())
    }
}

pub(super) fn read_deaths(reply: &mut Reply<'_>) -> Result<Vec<Death>, CallError> {
    reply.now()?;
    let partition = reply.partition;
    let mut deaths = Vec::with_capacity(reply.len() / 3);
    while !reply.is_empty() {
        let id = MessageId::from_member(&reply.member()?, partition.route);
        let died_at = reply.int()?;
        // One that cannot be read is logged, and must not hold up the others.
        let message = match reply.value()? {
            snapshot @ Value::Array(_) => {
                read_snapshot(partition, &mut Fields::of(snapshot)?, None).ok()
            }
            _ => None,
        };
        deaths.push(Death { id, died_at, message });
    }
    Ok(deaths)
}
