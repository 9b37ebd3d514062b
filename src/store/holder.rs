//! What ack, nack and extend have in common: each concerns a lease, and whoever holds it says so by its token.

use super::{Store, batch::Op, reply::CallError};
use deadpool_redis::redis::Cmd;
use dueq_model::{LeaseClaims, MessageId, error::Error};
use std::collections::HashSet;

/// Writes epochs, the common claims if all leases have the same, members, claims. Claims name their epoch by its place
/// among the epochs.
pub(super) fn write_claims<'a>(
    leases: impl Iterator<Item = (&'a MessageId, &'a LeaseClaims)> + Clone,
    command: &mut Cmd,
) {
    let mut epochs = Vec::new();
    let pack = |(_, claims): (_, &LeaseClaims)| {
        let at = epochs.iter().position(|epoch| *epoch == claims.epoch).unwrap_or_else(|| {
            epochs.push(claims.epoch);
            epochs.len() - 1
        });
        u64::from(claims.attempt) << 12 | (at as u64) << 1 | u64::from(claims.last)
    };
    let packed: Vec<u64> = leases.clone().map(pack).collect();
    let fields: Vec<_> = epochs.iter().map(|epoch| format!("epoch:{epoch}")).collect();
    command.arg(fields.join(" "));
    let common = packed.first().filter(|first| packed.iter().all(|claims| claims == *first));
    match common {
        Some(claims) => command.arg(claims),
        None => command.arg(""),
    };
    for (id, _) in leases {
        command.arg(&id.member()[..]);
    }
    if common.is_none() {
        command.arg(&packed);
    }
}

/// A script's code for a token that does not hold.
pub(super) fn refused(code: i64) -> Error {
    match code {
        1 => Error::LeaseLost,
        2 => Error::MessageNotFound,
        _ => Error::Internal,
    }
}

impl Store {
    /// Carries out what the holder of this token asks for.
    pub(super) async fn on_token<O, T>(
        &self,
        id: MessageId,
        token: &str,
        op: impl Fn(LeaseClaims) -> O,
    ) -> Result<T, Error>
    where
        O: Op<Output = Result<T, Error>>,
    {
        let claims = self.claims(id, token).await?;
        self.on_op(id, || op(claims)).await?.1
    }

    /// Carries out what the holders of these tokens ask for, in order, as if one after another, each with its own outcome.
    /// `op` makes the request at this place.
    pub(super) async fn on_tokens<O, T>(
        &self,
        held: &[(MessageId, &str)],
        op: impl Fn(usize, LeaseClaims) -> O,
    ) -> Vec<Result<T, Error>>
    where
        O: Op<Output = Result<T, Error>>,
    {
        let one = async |at: usize| {
            let (id, token) = held[at];
            self.on_token(id, token, |claims| op(at, claims)).await
        };
        let mut outcomes: Vec<Option<Result<T, Error>>> = held.iter().map(|_| None).collect();
        let mut left: Vec<usize> = (0..held.len()).collect();
        while !left.is_empty() {
            // What concerns a message for a second time comes after the answer for the first.
            let mut seen = HashSet::new();
            let (wave, later): (Vec<_>, Vec<_>) =
                left.into_iter().partition(|at| seen.insert(held[*at].0));
            left = later;
            let (mut sent, mut requests) = (Vec::new(), Vec::new());
            for at in wave {
                let (id, token) = held[at];
                match (self.open(&id, token), self.partition_of(id).await) {
                    (Some(claims), Ok(partition)) => {
                        sent.push(at);
                        requests.push((partition, op(at, claims)));
                    }
                    (_, Err(error)) => outcomes[at] = Some(Err(error)),
                    (None, Ok(_)) => outcomes[at] = Some(one(at).await),
                }
            }
            let answers = self.lanes.submit_many(requests.into_iter()).await;
            for (at, answer) in sent.into_iter().zip(answers) {
                outcomes[at] = Some(match answer {
                    Ok(outcome) => outcome,
                    // The topic has changed: this one by itself, which reads the registry again.
                    Err(CallError::Stale) => one(at).await,
                    Err(error) => Err(error.into()),
                });
            }
        }
        outcomes.into_iter().map(|outcome| outcome.unwrap_or(Err(Error::Internal))).collect()
    }

    /// What a token says, unless it is forged.
    pub(super) fn open(&self, id: &MessageId, token: &str) -> Option<LeaseClaims> {
        self.lanes.shared.service()?.token_key.open(id, token)
    }

    /// What a token says. A forged one never reaches a script: it is only looked whether there is such a message.
    ///
    /// Errors: `LeaseLost`, `MessageNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    async fn claims(&self, id: MessageId, token: &str) -> Result<LeaseClaims, Error> {
        match self.open(&id, token) {
            Some(claims) => Ok(claims),
            None if self.exists(id).await? => Err(Error::LeaseLost),
            None => Err(Error::MessageNotFound),
        }
    }

    /// The token of a grant.
    pub fn token(&self, id: &MessageId, claims: &LeaseClaims) -> String {
        // A grant comes from a Redis that was met, so its service is known.
        self.lanes.shared.service().map(|s| s.token_key.seal(id, claims)).unwrap_or_default()
    }
}
