//! Why messages died: the newest dead ones of a topic by their last error, in which whatever tells one message from another is
//! masked.

use super::list::{ListSome, MAX_SCANNED};
use crate::{Store, partition::Partition, turns::Round};
use dueq_model::{MessageId, Millis, State, TopicName, error::Error, reason_of};
use futures_util::future::try_join_all;
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// Messages of one call.
const CALL_MESSAGES: u64 = 256;
/// Reasons of an answer.
const MAX_REASONS: usize = 200;
/// How long a request looks.
const MAX_TIME: Duration = Duration::from_secs(2);

/// A reason and the dead messages that have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// Their last error, masked; `None` where none was given.
    pub reason: Option<String>,
    /// The one that died last.
    pub example: MessageId,
    /// How many they are.
    pub count: u64,
    /// When the first of them died.
    pub first_at: Millis,
    /// When the last did.
    pub last_at: Millis,
}

/// Each reason once, as the errors of ten thousand messages may differ.
type Reasons = HashMap<Option<String>, Found>;

/// The messages of one reason.
struct Found {
    example: MessageId,
    count: u64,
    first_at: Millis,
    last_at: Millis,
}

impl Store {
    /// The most frequent reasons of the newest dead messages, and how many messages were looked at. The partitions of a topic
    /// have equal shares of these.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn dead_reasons(
        &self,
        round: &Round,
        name: &TopicName,
    ) -> Result<(Vec<Reason>, u64), Error> {
        if self.sweep_all(name).await?.is_empty() {
            return Err(Error::TopicNotFound);
        }
        let topic = self.registry.find(name).await?.ok_or(Error::TopicNotFound)?;
        let share = MAX_SCANNED.div_ceil(topic.partitions.len() as u64);
        let parts = try_join_all(topic.all().map(|it| self.reasons_of(round, it, share))).await?;
        let (mut all, mut scanned) = (Reasons::new(), 0);
        for (reasons, some) in parts {
            scanned += some;
            for (reason, found) in reasons {
                all.entry(reason).and_modify(|known| known.add(&found)).or_insert(found);
            }
        }
        let with_reason = |(reason, found): (Option<String>, Found)| {
            let Found { example, count, first_at, last_at } = found;
            Reason { reason, example, count, first_at, last_at }
        };
        let mut all: Vec<_> = all.into_iter().map(with_reason).collect();
        all.sort_by(|a, b| (b.count, b.last_at, &a.reason).cmp(&(a.count, a.last_at, &b.reason)));
        all.truncate(MAX_REASONS);
        Ok((all, scanned))
    }

    async fn reasons_of(
        &self,
        round: &Round,
        partition: Partition,
        newest: u64,
    ) -> Result<(Reasons, u64), Error> {
        let (mut reasons, mut scanned) = (Reasons::new(), 0);
        let (begun, mut after, mut more) = (Instant::now(), None, true);
        while more && scanned < newest && begun.elapsed() < MAX_TIME {
            let limit = CALL_MESSAGES.min(newest - scanned);
            let list = ListSome {
                state: State::Dead,
                limit,
                after,
                newest: Some(newest),
                body_bytes: None,
                payloads: false,
            };
            let turn = round.turn().await;
            let some = self.list_dead(&partition.name(), list).await?;
            drop(turn);
            scanned += some.items.len() as u64;
            more = some.more && !some.items.is_empty();
            after = some.items.last().map(|item| item.cursor.clone());
            for dead in some.items.into_iter().map(|item| item.message) {
                let error = dead.last_error.as_deref().filter(|error| !error.is_empty());
                let reason = error.map(reason_of);
                let found =
                    Found { example: dead.id, count: 1, first_at: dead.at, last_at: dead.at };
                reasons.entry(reason).and_modify(|known| known.add(&found)).or_insert(found);
            }
        }
        Ok((reasons, scanned))
    }
}

impl Found {
    fn add(&mut self, other: &Self) {
        if other.last_at >= self.last_at {
            self.example = other.example;
        }
        self.count += other.count;
        self.first_at = self.first_at.min(other.first_at);
        self.last_at = self.last_at.max(other.last_at);
    }
}
