//! What the holder of a lease can do: ack, nack, extend, one message or many at a time.

use super::{
    Store,
    ack::Ack,
    extend::Extend,
    failed,
    nack::{How, Nack},
    registry::Topic,
    reply::CallError,
    submit::Grouped,
    types::{Extended, NackRequest, Nacked},
};
use crate::{
    error::Error,
    model::{MessageId, Seal},
};
use std::{collections::HashSet, sync::Arc};

/// Who holds a lease, and what for: message, token, and what else the request says.
type Hold<T> = (MessageId, String, T);

impl Store {
    /// Forgets a message whose lease the token holds, or keeps it as acked where its topic retains such messages.
    ///
    /// Errors: `LeaseLost`, `MessageNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn ack(&self, id: MessageId, token: &str) -> Result<(), Error> {
        self.hold(id, token, |seal| Ack { id, seal, call: None }).await
    }

    /// Gives a lease back.
    ///
    /// Errors: `LeaseLost`, `MessageNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn nack(
        &self,
        id: MessageId,
        token: &str,
        request: NackRequest,
    ) -> Result<Nacked, Error> {
        self.hold(id, token, |seal| Nack { id, seal, how: How::Asked(request.clone()) }).await
    }

    /// Makes a lease `lease_ms` long from now; never shorter than it was, never past 12 h from the grant.
    ///
    /// Errors: `LeaseLost`, `MessageNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn extend(
        &self,
        id: MessageId,
        token: &str,
        lease_ms: u64,
    ) -> Result<Extended, Error> {
        self.hold(id, token, |seal| Extend { id, seal, lease_ms }).await
    }

    /// Acks in order, as if one after another, each with its own outcome.
    pub async fn ack_batch(&self, acks: &[(MessageId, String)]) -> Vec<Result<(), Error>> {
        self.hold_batch(
            acks,
            |(id, token)| (*id, token),
            |(id, _), seal| Ack { id: *id, seal, call: None },
        )
        .await
    }

    /// Gives leases back in order, as if one after another, each with its own outcome.
    pub async fn nack_batch(&self, nacks: Vec<Hold<NackRequest>>) -> Vec<Result<Nacked, Error>> {
        let nack = |(id, _, request): &Hold<NackRequest>, seal| {
            let how = How::Asked(request.clone());
            Nack { id: *id, seal, how }
        };
        self.hold_batch(&nacks, |(id, token, _)| (*id, token), nack).await
    }

    /// Extends leases in order, as if one after another, each with its own outcome.
    pub async fn extend_batch(&self, extends: Vec<Hold<u64>>) -> Vec<Result<Extended, Error>> {
        let extend =
            |(id, _, lease_ms): &Hold<u64>, seal| Extend { id: *id, seal, lease_ms: *lease_ms };
        self.hold_batch(&extends, |(id, token, _)| (*id, token), extend).await
    }

    async fn hold<V, T>(
        &self,
        id: MessageId,
        token: &str,
        verb: impl Fn(Seal) -> V,
    ) -> Result<T, Error>
    where
        V: Grouped<Answer = Result<T, Error>>,
    {
        let seal = self.open(id, token).await?;
        self.of_holder(id, || verb(seal)).await
    }

    /// Carries out what the holder of a message asks for.
    pub(super) async fn of_holder<V, T>(
        &self,
        id: MessageId,
        verb: impl Fn() -> V,
    ) -> Result<T, Error>
    where
        V: Grouped<Answer = Result<T, Error>>,
    {
        let submit = async |topic: Arc<Topic>| self.lanes.submit(&topic, verb()).await;
        self.of_message(id, submit).await?.1
    }

    /// `holder` says the message and the token of each.
    async fn hold_batch<V, T, H>(
        &self,
        holds: &[H],
        holder: impl for<'h> Fn(&'h H) -> (MessageId, &'h str),
        verb: impl Fn(&H, Seal) -> V,
    ) -> Vec<Result<T, Error>>
    where
        V: Grouped<Answer = Result<T, Error>>,
    {
        let mut outcomes: Vec<Option<Result<T, Error>>> = holds.iter().map(|_| None).collect();
        let mut left: Vec<usize> = (0..holds.len()).collect();
        while !left.is_empty() {
            // What concerns a message for a second time comes after the answer for the first.
            let mut seen = HashSet::new();
            let (wave, later): (Vec<_>, Vec<_>) =
                left.into_iter().partition(|at| seen.insert(holder(&holds[*at]).0));
            left = later;
            let (mut sent, mut verbs) = (Vec::new(), Vec::new());
            for at in wave {
                let hold = &holds[at];
                let (id, token) = holder(hold);
                let known = self.open_known(&id, token);
                match (known, self.topic_of(id).await) {
                    (Some(seal), Ok(topic)) => {
                        sent.push(at);
                        verbs.push((topic, verb(hold, seal)));
                    }
                    (_, Err(error)) => outcomes[at] = Some(Err(error)),
                    (None, Ok(_)) => {
                        outcomes[at] = Some(self.hold(id, token, |seal| verb(hold, seal)).await);
                    }
                }
            }
            let answers = self.lanes.submit_many(verbs.into_iter()).await;
            for (at, answer) in sent.into_iter().zip(answers) {
                let hold = &holds[at];
                let (id, token) = holder(hold);
                outcomes[at] = Some(match answer {
                    Ok(outcome) => outcome,
                    // The topic has changed: this one by itself, which reads the registry again.
                    Err(CallError::Stale) => self.hold(id, token, |seal| verb(hold, seal)).await,
                    Err(error) => Err(failed(error)),
                });
            }
        }
        outcomes.into_iter().map(|outcome| outcome.unwrap_or(Err(Error::Internal))).collect()
    }

    /// What a token says, unless it is forged.
    fn open_known(&self, id: &MessageId, token: &str) -> Option<Seal> {
        self.lanes.backend.service()?.token_key.open(id, token)
    }

    /// What a token says. A forged one never reaches a script: it is only looked whether there is such a message.
    async fn open(&self, id: MessageId, token: &str) -> Result<Seal, Error> {
        match self.open_known(&id, token) {
            Some(seal) => Ok(seal),
            None if self.exists(id).await? => Err(Error::LeaseLost),
            None => Err(Error::MessageNotFound),
        }
    }

    /// The token of a grant.
    pub fn token(&self, id: &MessageId, seal: &Seal) -> String {
        // A grant comes from a Redis that was met, so its service is known.
        self.lanes.backend.service().map(|s| s.token_key.seal(id, seal)).unwrap_or_default()
    }
}
