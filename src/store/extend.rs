//! extend: makes held leases longer.

use super::{
    ack::{refused, write_holders},
    call::{Context, Ticket, Verb},
    job::Job,
    registry::Topic,
    reply::{CallError, Fields},
    scripts::{self, Script},
    submit::Grouped,
    types::Extended,
};
use crate::{
    error::Error,
    model::{LEASE_CAP_MS, MessageId, Millis, Seal},
};
use deadpool_redis::redis::{Cmd, Value};
use std::sync::Arc;

/// A lease to be made longer.
pub(crate) struct Extend {
    pub id: MessageId,
    pub seal: Seal,
    pub lease_ms: u64,
}

impl Grouped for Extend {
    fn job(ticket: Ticket<Self>) -> Job {
        Job::Extend(ticket)
    }
}

impl Verb for Extend {
    type Answer = Result<Extended, Error>;

    fn script() -> &'static Script {
        &scripts::EXTEND
    }

    fn concerns(&self) -> [Option<u64>; 2] {
        [Some(self.id.hash()), None]
    }

    fn write(group: &[Ticket<Self>], topic: &Topic, _: &Context<'_>, command: &mut Cmd) {
        let keys = &topic.keys;
        command.arg(5).arg(&keys.unack).arg(&keys.last).arg(&keys.messages);
        command.arg(&keys.extra).arg(&keys.meta);
        command.arg(&topic.word).arg(group.len());
        let holders = group.iter().map(|ticket| (&ticket.verb.id, &ticket.verb.seal));
        write_holders(holders, command);
        for ticket in group {
            command.arg(ticket.verb.lease_ms);
        }
        for ticket in group {
            command.arg(ticket.verb.seal.granted_at + LEASE_CAP_MS as Millis);
        }
    }

    fn read(
        group: &[Ticket<Self>],
        _: &Arc<Topic>,
        context: &mut Context<'_>,
        reply: Value,
    ) -> Result<Vec<Result<Self::Answer, CallError>>, CallError> {
        let mut fields = Fields::of(reply)?;
        let (_, up) = (context.read_now(&mut fields)?, fields.int()?);
        let mut answers = Vec::with_capacity(group.len());
        for _ in group {
            let (code, deadline) = (fields.int()?, fields.int()?);
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
