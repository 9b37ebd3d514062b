//! ack: forgets messages whose lease the token holds.

use super::{
    call::{Context, Ticket, Verb},
    job::Job,
    registry::Topic,
    reply::{CallError, Fields, malformed},
    scripts::{self, Script},
    submit::Grouped,
    types::Call,
};
use crate::{
    error::Error,
    model::{MessageId, Seal},
    seeded,
};
use deadpool_redis::redis::{Cmd, Value};
use std::sync::Arc;

/// An acknowledgement.
pub(crate) struct Ack {
    pub id: MessageId,
    pub seal: Seal,
    /// The call that delivered it; kept only where the topic retains acked messages.
    pub call: Option<Call>,
}

/// Writes what ack, nack and extend have in common: epochs, the common seal if there is one, members, seals. A seal names
/// its epoch by its place among the epochs.
pub(crate) fn write_holders<'a>(
    holders: impl Iterator<Item = (&'a MessageId, &'a Seal)> + Clone,
    command: &mut Cmd,
) {
    let mut epochs = Vec::new();
    let pack = |(_, seal): (_, &Seal)| {
        let at = epochs.iter().position(|epoch| *epoch == seal.epoch).unwrap_or_else(|| {
            epochs.push(seal.epoch);
            epochs.len() - 1
        });
        u64::from(seal.attempt) << 12 | (at as u64) << 1 | u64::from(seal.last)
    };
    let seals: Vec<u64> = holders.clone().map(pack).collect();
    let fields: Vec<_> = epochs.iter().map(|epoch| format!("epoch:{epoch}")).collect();
    command.arg(fields.join(" "));
    let common = seals.first().filter(|first| seals.iter().all(|seal| seal == *first));
    match common {
        Some(seal) => command.arg(seal),
        None => command.arg(""),
    };
    for (id, _) in holders {
        command.arg(&id.member()[..]);
    }
    if common.is_none() {
        command.arg(&seals);
    }
}

/// Writes when a call began and its report, as the events keep it.
pub(crate) fn write_call(call: Option<&Call>, command: &mut Cmd) {
    match call {
        // A report always serializes.
        Some(Call { started_at, report }) => {
            command.arg(*started_at).arg(serde_json::to_string(report).unwrap_or_default())
        }
        None => command.arg("").arg(""),
    };
}

/// A script's code for a token that does not hold.
pub(crate) fn refused(code: i64) -> Error {
    match code {
        1 => Error::LeaseLost,
        2 => Error::MessageNotFound,
        _ => Error::Internal,
    }
}

impl Grouped for Ack {
    fn job(ticket: Ticket<Self>) -> Job {
        Job::Ack(ticket)
    }
}

impl Verb for Ack {
    type Answer = Result<(), Error>;

    fn script() -> &'static Script {
        &scripts::ACK
    }

    fn bytes(&self) -> usize {
        self.call.as_ref().map_or(0, Call::bytes)
    }

    fn concerns(&self) -> [Option<u64>; 2] {
        if seeded::bug("tokens read first") {
            return [None, None];
        }
        [Some(self.id.hash()), None]
    }

    fn write(group: &[Ticket<Self>], topic: &Topic, _: &Context<'_>, command: &mut Cmd) {
        let keys = &topic.keys;
        command.arg(11).arg(&keys.unack).arg(&keys.last).arg(&keys.messages).arg(&keys.extra);
        command.arg(&keys.meta).arg(&keys.keys).arg(&keys.expires).arg(&keys.first_due);
        command.arg(&keys.events).arg(&keys.acked).arg(&keys.dead_out);
        command.arg(&topic.word).arg(group.len());
        let holders = group.iter().map(|ticket| (&ticket.verb.id, &ticket.verb.seal));
        write_holders(holders, command);
        let calls = || group.iter().map(|ticket| &ticket.verb.call);
        if topic.settings.retention.acked_ms > 0 && calls().any(Option::is_some) {
            for call in calls() {
                write_call(call.as_ref(), command);
            }
        }
    }

    fn read(
        group: &[Ticket<Self>],
        topic: &Arc<Topic>,
        context: &mut Context<'_>,
        reply: Value,
    ) -> Result<Vec<Result<Self::Answer, CallError>>, CallError> {
        let size = group.len();
        let acked_ms = topic.settings.retention.acked_ms;
        if acked_ms > 0 {
            let now = context.backend.clock.now();
            topic.sweep_by(now, Some(now.saturating_add(acked_ms)));
        }
        if let Value::Int(good) = reply {
            if good as usize != size {
                return Err(malformed(&reply));
            }
            topic.counters.acked.inc_by(size as u64);
            return Ok((0..size).map(|_| Ok(Ok(()))).collect());
        }
        let mut codes = Fields::of(reply)?;
        let mut answers = Vec::with_capacity(size);
        for _ in 0..size {
            let code = codes.int()?;
            if code == 0 {
                topic.counters.acked.inc();
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
