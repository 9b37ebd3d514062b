//! What the holder of a lease asks for: an ack, a nack or an extension. All three go the same way: the token says which lease is
//! meant, requests for one partition share a call of the verb's script, and the script checks the token.

use crate::{
    Store,
    batch::{Answers, Command, Op, Request},
    partition::Partition,
    reply::{CallError, Reply, malformed},
    scripts::{self, Script},
    types::MessageRef,
};
use deadpool_redis::redis::Cmd;
use dueq_model::{Epoch, LeaseClaims, MessageId, Millis, error::Error};
use std::{collections::HashSet, time::Instant};

/// A verb of the holder of a lease, with its options.
pub trait Settle: Clone + Send + Sync + 'static {
    /// What the holder gets.
    type Outcome: Send + 'static;

    /// The script.
    fn script() -> &'static Script;
    /// Bytes that the options add to a call.
    fn bytes(&self) -> usize {
        0
    }
    /// Writes the keys that the script takes, with their number first.
    fn write_keys(partition: &Partition, command: &mut Cmd) {
        partition.keys.write_all(command);
    }
    /// Writes the options, which come after the claims.
    fn write(group: &[Held<Self>], partition: &Partition, command: &mut Cmd);
    /// Reads one outcome for each.
    fn read(group: &[Held<Self>], reply: &mut Reply<'_>) -> Answers<Result<Self::Outcome, Error>>;
}

/// A lease, and what its holder asks for.
#[derive(Clone)]
pub struct Held<W> {
    pub id: MessageId,
    pub claims: LeaseClaims,
    pub what: W,
}

impl<W: Settle> Op for Held<W> {
    type Output = Result<W::Outcome, Error>;

    fn script() -> &'static Script {
        W::script()
    }

    fn bytes(&self) -> usize {
        self.what.bytes()
    }

    fn conflicts(&self) -> [Option<u64>; 2] {
        [Some(self.id.hash()), None]
    }

    fn write(group: &[Self], partition: &Partition, _: Epoch, command: &mut Cmd) {
        W::write_keys(partition, command);
        command.arg(&partition.topic.version_tag).arg(group.len());
        write_claims(group, command);
        W::write(group, partition, command);
    }

    fn read(group: &[Self], reply: &mut Reply<'_>) -> Answers<Self::Output> {
        W::read(group, reply)
    }
}

/// Writes epochs, the common claims if all leases have the same, members, claims. Claims name their epoch by its place
/// among the epochs.
fn write_claims<W>(group: &[Held<W>], command: &mut Cmd) {
    let mut epochs = Vec::new();
    let pack = |Held { claims, .. }: &Held<W>| {
        let at = epochs.iter().position(|epoch| *epoch == claims.epoch).unwrap_or_else(|| {
            epochs.push(claims.epoch);
            epochs.len() - 1
        });
        u64::from(claims.attempt) << 12 | (at as u64) << 1 | u64::from(claims.last)
    };
    let packed: Vec<u64> = group.iter().map(pack).collect();
    let fields: Vec<_> = epochs.iter().map(|epoch| format!("epoch:{epoch}")).collect();
    command.arg(fields.join(" "));
    let common = packed.first().filter(|first| packed.iter().all(|claims| claims == *first));
    match common {
        Some(claims) => command.arg(claims),
        None => command.arg(""),
    };
    for Held { id, .. } in group {
        command.arg(&id.member()[..]);
    }
    if common.is_none() {
        command.arg(&packed);
    }
}

/// A script's code for a token that does not hold.
pub(crate) fn refused(code: i64) -> Error {
    match code {
        1 => Error::LeaseLost,
        2 => Error::MessageNotFound,
        _ => Error::Internal,
    }
}

impl Store {
    /// Carries out what the holder of this token asks for. A forged token never reaches a script: the answer only depends on
    /// whether there is such a message.
    ///
    /// Errors: `LeaseLost`, `MessageNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn settle<W: Settle>(
        &self,
        id: MessageId,
        token: &str,
        what: W,
    ) -> Result<W::Outcome, Error> {
        match self.claims_of(&id, token) {
            Some(claims) => self.settle_claimed(id, claims, what).await,
            None => self.get(&MessageRef::Id(id)).await.and(Err(Error::LeaseLost)),
        }
    }

    /// The same for a lease whose claims are known.
    ///
    /// Errors: as for [`Store::settle`].
    pub async fn settle_claimed<W: Settle>(
        &self,
        id: MessageId,
        claims: LeaseClaims,
        what: W,
    ) -> Result<W::Outcome, Error> {
        let held = Held { id, claims, what };
        self.on(id, |partition| Request::new(partition, held.clone(), Instant::now())).await?.1
    }

    /// Carries out what the holders of these tokens ask for, in order, as if one after another, each with its own outcome.
    pub async fn settle_all<W: Settle>(
        &self,
        all: &[(MessageId, String, W)],
    ) -> Vec<Result<W::Outcome, Error>> {
        let one = async |at: usize| {
            let (id, token, what) = &all[at];
            self.settle(*id, token, what.clone()).await
        };
        // As a consumer's loop has it.
        if all.len() == 1 {
            return vec![one(0).await];
        }
        let mut outcomes: Vec<Option<Result<W::Outcome, Error>>> =
            all.iter().map(|_| None).collect();
        let mut left: Vec<usize> = (0..all.len()).collect();
        while !left.is_empty() {
            // What concerns a message for a second time comes after the answer for the first.
            let mut seen = HashSet::new();
            let (wave, later): (Vec<_>, Vec<_>) =
                left.into_iter().partition(|at| seen.insert(all[*at].0));
            left = later;
            let (mut sent, mut requests) = (Vec::new(), Vec::new());
            for at in wave {
                let (id, token, what) = &all[at];
                match (self.claims_of(id, token), self.partition_of(*id).await) {
                    (Some(claims), Ok(partition)) => {
                        sent.push(at);
                        requests.push((partition, Held { id: *id, claims, what: what.clone() }));
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

    /// What the holder of a lease that has ended still asks for: deletes the message whose last grant this was, or has it due
    /// after `delay_ms`. Returns whether it did; otherwise the message is gone, or was granted again. Where the lease holds, acks
    /// and extensions do that, and pay nothing for this.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn settle_late(
        &self,
        id: MessageId,
        claims: &LeaseClaims,
        delay_ms: Option<Millis>,
    ) -> Result<bool, Error> {
        let settle = |partition: &Partition| {
            let settle = Command::on(&scripts::SETTLE_LATE, partition);
            let settle = settle.arg((&id.member()[..], claims.attempt));
            let settle = settle.arg(format!("epoch:{}", claims.epoch));
            let settle = settle.arg(delay_ms.map(|delay| delay.to_string()).unwrap_or_default());
            let deletes = delay_ms.is_none();
            settle.read(partition, move |reply| read_settled(reply, deletes))
        };
        match self.on(id, settle).await {
            Ok((_, done)) => Ok(done),
            Err(Error::MessageNotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// What a token says, unless it is forged, or Redis was never met.
    pub fn claims_of(&self, id: &MessageId, token: &str) -> Option<LeaseClaims> {
        self.lanes.shared.service()?.token_key.open(id, token)
    }

    /// The token of a grant.
    pub fn token(&self, id: &MessageId, claims: &LeaseClaims) -> String {
        // A grant comes from a Redis that was met, so its service is known.
        self.lanes.shared.service().map(|s| s.token_key.seal(id, claims)).unwrap_or_default()
    }
}

pub(crate) fn read_settled(reply: &mut Reply<'_>, deletes: bool) -> Result<bool, CallError> {
    match reply.word() {
        Some(word @ ("OK" | "REPORTED")) => {
            if deletes {
                reply.topic().counters.deleted.inc();
            }
            if word == "REPORTED" {
                reply.partition.publish_ends(reply.backend.clock.now());
            }
            Ok(true)
        }
        Some("NONE" | "OTHER") => Ok(false),
        _ => Err(malformed(&reply.whole)),
    }
}
