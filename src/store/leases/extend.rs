//! extend: makes held leases longer, or gives them an end.

use crate::{
    batch::Answers,
    partition::Partition,
    reply::Reply,
    scripts::{self, Script},
    settle::{Held, Settle, refused},
    types::Extended,
};
use deadpool_redis::redis::Cmd;
use dueq_model::{LEASE_CAP_MS, Millis, error::Error};

/// Makes a lease `lease_ms` long from now; never past 12 h from the grant.
#[derive(Clone, Copy)]
pub struct Extend {
    /// From now on.
    pub lease_ms: u64,
    /// The lease may get shorter.
    pub shortens: bool,
}

impl Settle for Extend {
    type Outcome = Extended;

    fn script() -> &'static Script {
        &scripts::EXTEND
    }

    fn write(group: &[Held<Self>], _: &Partition, command: &mut Cmd) {
        for Held { what: Self { lease_ms, shortens }, .. } in group {
            let lease_ms = *lease_ms as Millis;
            command.arg(if *shortens { -lease_ms } else { lease_ms });
        }
        for extend in group {
            command.arg(extend.claims.granted_at + LEASE_CAP_MS as Millis);
        }
    }

    fn read(group: &[Held<Self>], reply: &mut Reply<'_>) -> Answers<Result<Extended, Error>> {
        let (now, up) = (reply.now()?, reply.int()?);
        let mut answers = Vec::with_capacity(group.len());
        for extend in group {
            let (code, deadline) = (reply.int()?, reply.int()?);
            if extend.what.shortens && code == 0 {
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
