//! ack: forgets messages whose lease the token holds.

use super::{
    Store,
    batch::{Answers, Op},
    grants::Granted,
    holder::{refused, write_claims},
    partition::Partition,
    reply::{CallError, Reply, malformed},
    scripts::{self, Script},
    types::Call,
};
use deadpool_redis::redis::{Cmd, Value};
use dueq_model::{Epoch, LeaseClaims, MessageId, error::Error};

/// An acknowledgement.
pub struct Ack {
    pub id: MessageId,
    pub claims: LeaseClaims,
    /// The call that delivered it; kept only where the topic retains acked messages.
    pub call: Option<Call>,
}

impl Store {
    /// Forgets a message whose lease the token holds, or keeps it as acked where its topic retains such messages.
    ///
    /// Errors: `LeaseLost`, `MessageNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn ack(&self, id: MessageId, token: &str) -> Result<(), Error> {
        self.on_token(id, token, |claims| Ack { id, claims, call: None }).await
    }

    /// Acks in order, as if one after another, each with its own outcome.
    pub async fn ack_batch(&self, acks: &[(MessageId, String)]) -> Vec<Result<(), Error>> {
        let held: Vec<_> = acks.iter().map(|(id, token)| (*id, token.as_str())).collect();
        self.on_tokens(&held, |at, claims| Ack { id: held[at].0, claims, call: None }).await
    }

    /// Acks a message that dueq delivered itself, by this call.
    ///
    /// Errors: as for [`Store::ack`].
    pub async fn ack_call(&self, granted: &Granted, call: Call) -> Result<(), Error> {
        let Granted { id, claims, .. } = *granted;
        self.on_op(id, || Ack { id, claims, call: Some(call.clone()) }).await?.1
    }
}

impl Op for Ack {
    type Output = Result<(), Error>;
    fn script() -> &'static Script {
        &scripts::ACK
    }

    fn bytes(&self) -> usize {
        self.call.as_ref().map_or(0, Call::bytes)
    }

    fn conflicts(&self) -> [Option<u64>; 2] {
        [Some(self.id.hash()), None]
    }

    fn write(group: &[Self], partition: &Partition, _: Epoch, command: &mut Cmd) {
        let keys = &partition.keys;
        // Plain messages need no more.
        let grouped = partition.topic.settings.grouped;
        command
            .arg(if grouped { 19 } else { 11 })
            .arg(&keys.unack)
            .arg(&keys.last)
            .arg(&keys.messages)
            .arg(&keys.extra);
        command.arg(&keys.meta).arg(&keys.keys).arg(&keys.expires).arg(&keys.first_due);
        command.arg(&keys.events).arg(&keys.acked).arg(&keys.dead_out);
        if grouped {
            command.arg(&keys.heads).arg(&keys.queued).arg(&keys.blocked).arg(&keys.rates);
            command.arg(&keys.delayed).arg(&keys.delayed_prio).arg(&keys.ready).arg(&keys.turns);
        }
        command.arg(&partition.topic.version_tag).arg(group.len());
        write_claims(group.iter().map(|ack| (&ack.id, &ack.claims)), command);
        let retained = partition.topic.settings.retention.acked_ms > 0;
        if retained && group.iter().any(|ack| ack.call.is_some()) {
            for ack in group {
                Call::write(ack.call.as_ref(), command);
            }
        }
    }

    fn read(group: &[Self], reply: &mut Reply<'_>) -> Answers<Self::Output> {
        let (size, topic) = (group.len(), reply.topic());
        let acked_ms = topic.settings.retention.acked_ms;
        if acked_ms > 0 {
            let now = reply.backend.clock.now();
            reply.partition.sweep_by(now, Some(now.saturating_add(acked_ms)));
        }
        if let Value::Int(good) = reply.whole {
            if good as usize != size {
                return Err(malformed(&reply.whole));
            }
            topic.counters.acked.inc_by(size as u64);
            reply.partition.happened(true);
            return Ok((0..size).map(|_| Ok(Ok(()))).collect());
        }
        let mut answers = Vec::with_capacity(size);
        for _ in 0..size {
            let code = reply.int()?;
            if code == 0 {
                topic.counters.acked.inc();
                reply.partition.happened(true);
            }
            answers.push(match code {
                // 3: it was acked before by the same token, and is retained.
                0 | 3 => Ok(Ok(())),
                4 => Err(CallError::Again),
                code => Ok(Err(refused(code))),
            });
        }
        Ok(answers)
    }
}
