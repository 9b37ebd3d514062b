//! change_messages: redrives, deletes or makes due many messages, a bounded number a call, each with its own outcome.

use super::{
    Store,
    batch::Command,
    partition::Partition,
    reply::{CallError, Reply},
    scripts,
    types::Due,
};
use dueq_model::{MessageId, Route, State, error::Error};
use futures_util::future::join_all;
use std::collections::HashMap;

/// Messages of one call. Redriving or deleting one that is in a group takes some 45 commands.
const CALL_MESSAGES: usize = 32;

/// What is done to messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Dead ones live again, with a fresh budget of attempts.
    Redrive,
    /// They are deleted, unless they are leased.
    Delete,
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
            Self::Purge => "purge",
            Self::Run => "run",
        }
    }
}

impl Store {
    /// Does this to each of the messages, which for a redrive and a run are due then. What is in none of these `states` is not
    /// found; with no states any will do. Outcomes are in the order of the messages: was it changed, or as it should be already?
    ///
    /// Errors, for each: `MessageNotFound`, `MessageLeased`, `MessageDead`, `MessageAcked`, `MessageNotDead`, `DuplicateKey`,
    /// `TopicFull`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn change_messages(
        &self,
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
            places.into_iter().zip(self.change_in_one(change, states, &of_one).await)
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
                let change = Command::on(&scripts::CHANGE_MESSAGES, partition);
                let change = change.arg((what.word(), &words));
                let change = some.iter().fold(change, |change, (id, due)| {
                    change.arg((&id.member()[..], due.to_script()))
                });
                change.read(partition, move |reply| read_changes(reply, what))
            };
            match self.on(*first, change).await {
                Ok((_, some)) => outcomes.extend(some),
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

/// What came of some messages, at least one.
pub(super) fn read_changes(
    reply: &mut Reply<'_>,
    what: Change,
) -> Result<Vec<Result<bool, Error>>, CallError> {
    reply.now_and_wake()?;
    let mut outcomes = Vec::with_capacity(reply.len());
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
    }
    if outcomes.is_empty() {
        return Err(CallError::Internal);
    }
    let done = outcomes.iter().filter(|outcome| **outcome == Ok(true)).count() as u64;
    let counters = &reply.topic().counters;
    match what {
        Change::Redrive => counters.redriven.inc_by(done),
        Change::Delete => counters.deleted.inc_by(done),
        Change::Purge => counters.purged.inc_by(done),
        Change::Run => 0,
    };
    Ok(outcomes)
}
