//! ack: forgets messages whose lease the token holds, or keeps them as acked where their topic retains such messages.

use crate::{
    batch::Answers,
    partition::Partition,
    reply::{CallError, Reply, malformed},
    scripts::{self, Script},
    settle::{Held, Settle, refused},
    types::Call,
};
use bytes::Bytes;
use deadpool_redis::redis::{Cmd, Value};
use dueq_model::{error::Error, result_line};

/// An acknowledgement.
#[derive(Clone, Default)]
pub struct Ack {
    /// The call that delivered it.
    pub call: Option<Call>,
    /// Its completion is to be published. Otherwise the call is kept only where the topic retains acked messages.
    pub reports: bool,
    /// What came of the work, JSON. Like the call it is kept only with the message: where the topic retains acked ones, and until
    /// its completion is published.
    pub result: Option<Bytes>,
}

impl Ack {
    /// The call, if it is kept in a topic that retains acked messages or does not.
    fn call(&self, retained: bool) -> Option<&Call> {
        self.call.as_ref().filter(|_| retained || self.reports)
    }
}

impl Settle for Ack {
    type Outcome = ();

    fn script() -> &'static Script {
        &scripts::ACK
    }

    fn bytes(&self) -> usize {
        let result = self.result.as_ref().map_or(0, |result| result.len() + 40);
        self.call.as_ref().map_or(0, Call::bytes) + result
    }

    fn write_keys(partition: &Partition, command: &mut Cmd) {
        let keys = &partition.keys;
        // Plain messages need no more.
        let grouped = partition.topic.settings.grouped;
        command
            .arg(if grouped { 20 } else { 11 })
            .arg(&keys.unack)
            .arg(&keys.last)
            .arg(&keys.messages)
            .arg(&keys.extra);
        command.arg(&keys.meta).arg(&keys.keys).arg(&keys.expires).arg(&keys.first_due);
        command.arg(&keys.events).arg(&keys.acked).arg(&keys.dead_out);
        if grouped {
            command.arg(&keys.heads).arg(&keys.queued).arg(&keys.blocked).arg(&keys.rates);
            command.arg(&keys.delayed).arg(&keys.delayed_prio).arg(&keys.ready).arg(&keys.turns);
            command.arg(&keys.offers);
        }
    }

    fn write(group: &[Held<Self>], partition: &Partition, command: &mut Cmd) {
        let retained = partition.topic.settings.retention.acked_ms > 0;
        let is_noted =
            |ack: &Held<Self>| ack.what.call(retained).is_some() || ack.what.result.is_some();
        if group.iter().any(is_noted) {
            for Held { id, what, .. } in group {
                Call::write(what.call(retained), command);
                let text = what.result.as_deref().map(String::from_utf8_lossy);
                command
                    .arg(text.map(|text| result_line(id.published(), &text)).unwrap_or_default());
            }
        }
    }

    fn read(group: &[Held<Self>], reply: &mut Reply<'_>) -> Answers<Result<(), Error>> {
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
        let (mut answers, mut reported) = (Vec::with_capacity(size), false);
        for _ in 0..size {
            let code = reply.int()?;
            if matches!(code, 0 | 5) {
                topic.counters.acked.inc();
                reply.partition.happened(true);
            }
            reported |= code == 5;
            answers.push(match code {
                // 3: it was acked before by the same token, and is retained.
                0 | 3 | 5 => Ok(Ok(())),
                4 => Err(CallError::Again),
                code => Ok(Err(refused(code))),
            });
        }
        if reported {
            reply.partition.publish_ends(reply.backend.clock.now());
        }
        Ok(answers)
    }
}
