//! nack: gives leases back: as failed, as not worked on, or as never seen.

use super::{
    Store,
    batch::{Answers, Op},
    grants::Granted,
    holder::{refused, write_claims},
    partition::Partition,
    reply::{CallError, Reply},
    scripts::{self, Script},
    types::{Call, NackKind, NackRequest, Nacked, json_bytes},
};
use deadpool_redis::redis::Cmd;
use dueq_model::{Epoch, LeaseClaims, MessageId, Millis, State, error::Error};

/// A topic in which messages die is looked at this soon (ms): it may hold more dead ones than it keeps.
const DEAD_SWEEP_DELAY_MS: Millis = 1_000;

/// How a lease is given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// As its holder says.
    Asked(NackRequest),
    /// Its consumer never saw it: due as before, the attempt does not count.
    Return(Millis),
    /// There is no place for its call before this instant: it is neither an attempt nor an event. The next grant has the same
    /// number, so the end of the lease says which one is meant.
    Park {
        /// When it is due again.
        due_at: Millis,
        /// When the lease ends.
        lease_expires_at: Millis,
    },
}

/// A lease given back.
pub struct Nack {
    pub id: MessageId,
    pub claims: LeaseClaims,
    pub how: Disposition,
}

impl Store {
    /// Gives a lease back.
    ///
    /// Errors: `LeaseLost`, `MessageNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn nack(
        &self,
        id: MessageId,
        token: &str,
        request: NackRequest,
    ) -> Result<Nacked, Error> {
        self.on_token(id, token, |claims| Nack {
            id,
            claims,
            how: Disposition::Asked(request.clone()),
        })
        .await
    }

    /// Gives leases back in order, as if one after another, each with its own outcome.
    pub async fn nack_batch(
        &self,
        nacks: Vec<(MessageId, String, NackRequest)>,
    ) -> Vec<Result<Nacked, Error>> {
        let held: Vec<_> = nacks.iter().map(|(id, token, _)| (*id, token.as_str())).collect();
        let how = |at: usize| Disposition::Asked(nacks[at].2.clone());
        self.on_tokens(&held, |at, claims| Nack { id: held[at].0, claims, how: how(at) }).await
    }

    /// Gives back a message that dueq could not deliver itself.
    ///
    /// Errors: as for [`Store::nack`].
    pub async fn nack_call(
        &self,
        granted: &Granted,
        request: NackRequest,
    ) -> Result<Nacked, Error> {
        self.nack_granted(granted, Disposition::Asked(request)).await
    }

    /// Gives back a message for whose call there is no slot before `due_at`: that is no attempt.
    ///
    /// Errors: as for [`Store::nack`].
    pub async fn park(&self, granted: &Granted, due_at: Millis) -> Result<(), Error> {
        let lease_expires_at = granted.lease_expires_at;
        self.nack_granted(granted, Disposition::Park { due_at, lease_expires_at }).await.map(|_| ())
    }

    async fn nack_granted(&self, granted: &Granted, how: Disposition) -> Result<Nacked, Error> {
        let Granted { id, claims, .. } = *granted;
        self.on_op(id, || Nack { id, claims, how: how.clone() }).await?.1
    }
}

impl Op for Nack {
    type Output = Result<Nacked, Error>;

    fn script() -> &'static Script {
        &scripts::NACK
    }

    /// What is noted of it: the call's answer, or the reason.
    fn bytes(&self) -> usize {
        match &self.how {
            Disposition::Asked(NackRequest { call: Some(call), .. }) => call.bytes(),
            Disposition::Asked(NackRequest { reason: Some(reason), .. }) => json_bytes(reason),
            _ => 0,
        }
    }

    fn conflicts(&self) -> [Option<u64>; 2] {
        [Some(self.id.hash()), None]
    }

    fn write(group: &[Self], partition: &Partition, _: Epoch, command: &mut Cmd) {
        partition.keys.write_all(command);
        command.arg(&partition.topic.version_tag).arg(group.len());
        write_claims(group.iter().map(|nack| (&nack.id, &nack.claims)), command);
        for Self { claims, how, .. } in group {
            match how {
                Disposition::Asked(request) => {
                    let most = if request.wished { "<" } else { "" };
                    let delay = request.delay_ms.map(|delay| format!("{most}{delay}"));
                    command.arg(letter(request.kind)).arg(delay.unwrap_or_default());
                }
                Disposition::Return(due_at) => {
                    command.arg("u").arg(format!("@{due_at}"));
                }
                Disposition::Park { due_at, .. } => {
                    command.arg("w").arg(format!("@{due_at}"));
                }
            }
            command.arg(random_unit()).arg(match how {
                Disposition::Park { lease_expires_at, .. } => *lease_expires_at,
                _ => claims.granted_at,
            });
            match how {
                Disposition::Asked(NackRequest { call: None, reason: Some(reason), .. }) => {
                    // A string always serializes.
                    command.arg("").arg(serde_json::to_string(reason).unwrap_or_default());
                }
                Disposition::Asked(NackRequest { call, .. }) => Call::write(call.as_ref(), command),
                _ => Call::write(None, command),
            }
        }
    }

    fn read(group: &[Self], reply: &mut Reply<'_>) -> Answers<Self::Output> {
        let (partition, now) = (reply.partition, reply.now_and_wake()?);
        let topic = &partition.topic;
        let mut died = 0;
        let mut answers = Vec::with_capacity(group.len());
        for Self { claims, how, .. } in group {
            let (code, at) = (reply.int()?, reply.int()?);
            let state = match code {
                0 => State::Delayed,
                3 => State::Ready,
                4 => State::Dead,
                5 => State::Expired,
                6 => {
                    answers.push(Err(CallError::Again));
                    continue;
                }
                code => {
                    answers.push(Ok(Err(refused(code))));
                    continue;
                }
            };
            match how {
                Disposition::Return(_) => topic.counters.returned.inc(),
                Disposition::Park { .. } => topic.counters.released.inc(),
                Disposition::Asked(request) if request.kind == NackKind::Released => {
                    topic.counters.released.inc()
                }
                Disposition::Asked(_) => {
                    partition.happened(true);
                    topic.counters.nacked.inc()
                }
            };
            match state {
                State::Dead => {
                    died += 1;
                    let soon = topic.settings.retention.dead_ms.min(DEAD_SWEEP_DELAY_MS);
                    partition.sweep_by(now, Some(at.saturating_add(soon)));
                }
                State::Expired => {
                    topic.counters.expired.inc();
                }
                _ => {}
            }
            let due_at = matches!(state, State::Delayed | State::Ready).then_some(at);
            answers.push(Ok(Ok(Nacked { state, due_at, attempt: claims.attempt })));
        }
        partition.saw_deaths(died, now);
        Ok(answers)
    }
}

/// How the script calls it.
fn letter(kind: NackKind) -> &'static str {
    match kind {
        NackKind::Failed => "n",
        NackKind::Dead => "d",
        NackKind::Released => "r",
    }
}

/// A number in [0, 1) as text, for the jitter; the middle where the system has no randomness to give.
fn random_unit() -> String {
    let random = getrandom::u32().unwrap_or(u32::MAX / 2);
    format!("{:.6}", f64::from(random) / (f64::from(u32::MAX) + 1.0))
}
