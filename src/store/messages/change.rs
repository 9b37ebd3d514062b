//! change_messages: redrives, deletes or makes due messages, one or many, a bounded number a call, each with its own outcome.

use crate::{
    Store,
    batch::{Command, Request},
    message::read_snapshot,
    partition::Partition,
    registry::Topic,
    reply::{CallError, Reply},
    scripts,
    turns::Round,
    types::{Due, MessageRef, MessageSnapshot},
};
use dueq_model::{MessageId, Route, State, error::Error};
use futures_util::future::join_all;
use std::{collections::HashMap, sync::Arc};

/// Messages of one call. Redriving or deleting one that is in a group takes some 45 commands.
const CALL_MESSAGES: usize = 32;

/// What is done to messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Dead ones live again, with a fresh budget of attempts.
    Redrive,
    /// They are deleted, unless they are leased.
    Delete,
    /// They are deleted, even if they are leased.
    ForceDelete,
    /// The same; the totals count it as a purge.
    Purge,
    /// Waiting ones are due, none later than it was.
    Run,
}

impl Change {
    /// As the script has it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Redrive => "redrive",
            Self::Delete => "delete",
            Self::ForceDelete => "force",
            Self::Purge => "purge",
            Self::Run => "run",
        }
    }
}

/// What came of messages.
pub(crate) struct Changed {
    /// For each whether it was changed, of as many as the call got to, one at least.
    pub outcomes: Vec<Result<bool, Error>>,
    /// The only one, as it is now, if that was asked for and it was changed.
    shown: Option<MessageSnapshot>,
}

impl Store {
    /// Removes a message from any state but leased, with `force` from that too.
    ///
    /// Errors: `MessageNotFound`, `TopicNotFound` for a key, `MessageLeased`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn delete(&self, message: &MessageRef, force: bool) -> Result<(), Error> {
        let change = if force { Change::ForceDelete } else { Change::Delete };
        self.change_one(message, change).await.map(drop)
    }

    /// Makes a dead message ready again, with a fresh budget of attempts.
    ///
    /// Errors: `MessageNotFound`, `MessageNotDead`, `DuplicateKey`, `TopicFull`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn redrive_message(
        &self,
        id: MessageId,
    ) -> Result<(Arc<Topic>, MessageSnapshot), Error> {
        let (topic, shown) = self.change_one(&MessageRef::Id(id), Change::Redrive).await?;
        let mut shown = shown.ok_or(Error::Internal)?;
        // It is redriven, whether it is known what it waits for or not.
        let _ = self.explain(&topic, [&mut shown]).await;
        Ok((topic, shown))
    }

    async fn change_one(
        &self,
        message: &MessageRef,
        what: Change,
    ) -> Result<(Arc<Topic>, Option<MessageSnapshot>), Error> {
        let change = |partition: &Partition| {
            let (member, key) = message.arguments();
            let message = [(member, Due::After(0))];
            request(partition, what, "", Some(key), message.into_iter())
        };
        let (Partition { topic, .. }, mut changed) = self.on(message, change).await?;
        changed.outcomes.pop().unwrap_or(Err(Error::Internal))?;
        Ok((topic, changed.shown))
    }

    /// Does this to each of the messages, which for a redrive and a run are due then. What is in none of these `states` is not
    /// found; with no states any will do. Without a round they need no turn. Outcomes are in the order of the messages: was it
    /// changed, or as it should be already?
    ///
    /// Errors, for each: `MessageNotFound`, `MessageLeased`, `MessageDead`, `MessageAcked`, `MessageNotDead`, `DuplicateKey`,
    /// `TopicFull`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn change_messages(
        &self,
        round: Option<&Round>,
        change: Change,
        states: &[State],
        messages: &[(MessageId, Due)],
    ) -> Vec<Result<bool, Error>> {
        let mut routes: HashMap<Option<Route>, Vec<usize>> = HashMap::new();
        for (at, (id, _)) in messages.iter().enumerate() {
            routes.entry(id.route()).or_default().push(at);
        }
        let each = routes.into_values().map(async |places| {
            let of_one: Vec<_> = places.iter().map(|at| messages[*at]).collect();
            places.into_iter().zip(self.change_in_one(round, change, states, &of_one).await)
        });
        let mut outcomes = vec![Err(Error::Internal); messages.len()];
        for (at, outcome) in join_all(each).await.into_iter().flatten() {
            outcomes[at] = outcome;
        }
        outcomes
    }

    /// The same for messages of one partition.
    async fn change_in_one(
        &self,
        round: Option<&Round>,
        what: Change,
        states: &[State],
        messages: &[(MessageId, Due)],
    ) -> Vec<Result<bool, Error>> {
        let words: String = states.iter().map(|state| format!("{},", state.word())).collect();
        let words = if words.is_empty() { words } else { format!(",{words}") };
        let mut outcomes = Vec::with_capacity(messages.len());
        while let Some((first, _)) = messages.get(outcomes.len()) {
            let some = &messages[outcomes.len()..];
            let some = &some[..some.len().min(CALL_MESSAGES)];
            let change = |partition: &Partition| {
                let of = some.iter().map(|(id, due)| (id.member().to_vec(), *due));
                request(partition, what, &words, None, of)
            };
            let turn = match round {
                Some(round) => round.turn().await,
                None => None,
            };
            let changed = self.on(*first, change).await;
            drop(turn);
            match changed {
                Ok((_, Changed { outcomes: some, .. })) => outcomes.extend(some),
                Err(error) => {
                    outcomes.resize(outcomes.len() + some.len(), Err(error.clone()));
                    // What comes after an outcome that is unknown was not sent.
                    let rest = match error {
                        Error::OutcomeUnknown => Error::RedisUnavailable,
                        error => error,
                    };
                    outcomes.resize(messages.len(), Err(rest));
                }
            }
        }
        outcomes
    }
}

/// A call for some messages, by member and due time, in one of these states. `one`: it is about one message, which may be meant
/// by this key, and is shown if it is redriven.
fn request(
    partition: &Partition,
    what: Change,
    states: &str,
    one: Option<&str>,
    messages: impl Iterator<Item = (Vec<u8>, Due)>,
) -> Request<Changed> {
    let show = one.is_some() && what == Change::Redrive;
    let change = Command::on(&scripts::CHANGE_MESSAGES, partition);
    let change = if one.is_some() { change.of_one_message() } else { change };
    let change = change.arg((what.word(), states, one.unwrap_or_default(), u8::from(show)));
    let change =
        messages.fold(change, |change, (member, due)| change.arg((member, due.to_script())));
    change.read(partition, move |reply| read_changes(reply, what, show))
}

pub(crate) fn read_changes(
    reply: &mut Reply<'_>,
    what: Change,
    show: bool,
) -> Result<Changed, CallError> {
    let now = reply.now_and_wake()?;
    let (mut outcomes, mut shown) = (Vec::with_capacity(reply.len()), None);
    while !reply.is_empty() {
        outcomes.push(match reply.int()? {
            0 => Ok(true),
            1 => Err(Error::MessageNotFound),
            2 => Err(Error::MessageLeased),
            3 => Err(Error::MessageDead),
            4 => Err(Error::MessageAcked),
            5 => Err(Error::MessageNotDead),
            6 => Err(Error::DuplicateKey),
            7 => Ok(false),
            8 => Err(Error::TopicFull),
            _ => return Err(CallError::Internal),
        });
        if show && outcomes == [Ok(true)] {
            let snapshot = read_snapshot(reply.partition, &mut reply.fields()?, None)?;
            reply.partition.sweep_by(now, snapshot.expires_at);
            shown = Some(snapshot);
        }
    }
    if outcomes.is_empty() {
        return Err(CallError::Internal);
    }
    let done = outcomes.iter().filter(|outcome| **outcome == Ok(true)).count() as u64;
    let counters = &reply.topic().counters;
    match what {
        Change::Redrive => counters.redriven.inc_by(done),
        Change::Delete | Change::ForceDelete => counters.deleted.inc_by(done),
        Change::Purge => counters.purged.inc_by(done),
        Change::Run => 0,
    };
    Ok(Changed { outcomes, shown })
}
