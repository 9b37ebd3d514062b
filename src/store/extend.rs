//! extend: makes held leases longer, or gives them an end.

use super::{
    Store,
    batch::{Answers, Op},
    holder::{refused, write_claims},
    partition::Partition,
    reply::Reply,
    scripts::{self, Script},
    types::Extended,
};
use deadpool_redis::redis::Cmd;
use dueq_model::{Epoch, LEASE_CAP_MS, LeaseClaims, MessageId, Millis, error::Error};

/// A lease to be made longer.
pub struct Extend {
    pub id: MessageId,
    pub claims: LeaseClaims,
    pub lease_ms: u64,
    /// The lease may get shorter.
    pub shortens: bool,
}

impl Store {
    /// Makes a lease `lease_ms` long from now; never shorter than it was, never past 12 h from the grant.
    ///
    /// Errors: `LeaseLost`, `MessageNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn extend(
        &self,
        id: MessageId,
        token: &str,
        lease_ms: u64,
    ) -> Result<Extended, Error> {
        self.hold_for(id, token, lease_ms, false).await
    }

    /// Makes a lease end `lease_ms` from now, sooner than before or later; never past 12 h from the grant.
    ///
    /// Errors: as for [`Store::extend`].
    pub async fn set_lease(
        &self,
        id: MessageId,
        token: &str,
        lease_ms: u64,
    ) -> Result<Extended, Error> {
        self.hold_for(id, token, lease_ms, true).await
    }

    async fn hold_for(
        &self,
        id: MessageId,
        token: &str,
        lease_ms: u64,
        shortens: bool,
    ) -> Result<Extended, Error> {
        self.on_token(id, token, |claims| Extend { id, claims, lease_ms, shortens }).await
    }

    /// Extends leases in order, as if one after another, each with its own outcome.
    pub async fn extend_batch(
        &self,
        extends: Vec<(MessageId, String, u64)>,
    ) -> Vec<Result<Extended, Error>> {
        let held: Vec<_> = extends.iter().map(|(id, token, _)| (*id, token.as_str())).collect();
        let extend = |at: usize, claims| {
            let (id, lease_ms) = (held[at].0, extends[at].2);
            Extend { id, claims, lease_ms, shortens: false }
        };
        self.on_tokens(&held, extend).await
    }

    /// Makes the lease of a message that is being called `lease_ms` long from now. Returns when it ends.
    ///
    /// Errors: as for [`Store::extend`].
    pub async fn extend_call(
        &self,
        (id, claims): (MessageId, LeaseClaims),
        lease_ms: u64,
    ) -> Result<Millis, Error> {
        let extend = || Extend { id, claims, lease_ms, shortens: false };
        let (_, extended) = self.on_op(id, extend).await?;
        Ok(extended?.lease_expires_at)
    }
}

impl Op for Extend {
    type Output = Result<Extended, Error>;

    fn script() -> &'static Script {
        &scripts::EXTEND
    }

    fn conflicts(&self) -> [Option<u64>; 2] {
        [Some(self.id.hash()), None]
    }

    fn write(group: &[Self], partition: &Partition, _: Epoch, command: &mut Cmd) {
        let keys = &partition.keys;
        command.arg(5).arg(&keys.unack).arg(&keys.last).arg(&keys.messages);
        command.arg(&keys.extra).arg(&keys.meta);
        command.arg(&partition.topic.version_tag).arg(group.len());
        write_claims(group.iter().map(|extend| (&extend.id, &extend.claims)), command);
        for Extend { lease_ms, shortens, .. } in group {
            let lease_ms = *lease_ms as Millis;
            command.arg(if *shortens { -lease_ms } else { lease_ms });
        }
        for extend in group {
            command.arg(extend.claims.granted_at + LEASE_CAP_MS as Millis);
        }
    }

    fn read(group: &[Self], reply: &mut Reply<'_>) -> Answers<Self::Output> {
        let (now, up) = (reply.now()?, reply.int()?);
        let mut answers = Vec::with_capacity(group.len());
        for extend in group {
            let (code, deadline) = (reply.int()?, reply.int()?);
            if extend.shortens && code == 0 {
                reply.partition.sweep_by(now, Some(deadline));
            }
            answers.push(Ok(if code == 0 {
                let lease_ms = deadline.saturating_sub(up);
                Ok(Extended { lease_ms, lease_expires_at: deadline })
            } else {
                Err(refused(code))
            }));
        }
        Ok(answers)
    }
}
