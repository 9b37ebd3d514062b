//! nack: gives leases back: as failed, as not worked on, or as never seen.

use super::{
    ack::{refused, write_call, write_holders},
    call::{Context, Ticket, Verb},
    job::Job,
    registry::Topic,
    reply::{CallError, Fields},
    scripts::{self, Script},
    submit::Grouped,
    types::{NackKind, NackRequest, Nacked, json_bytes},
};
use crate::{
    error::Error,
    model::{MessageId, Millis, Seal, State},
};
use deadpool_redis::redis::{Cmd, Value};
use std::sync::Arc;

/// A topic in which messages die is looked at this soon (ms): it may hold more dead ones than it keeps.
const DEAD_SOON: Millis = 1_000;

/// How a lease is given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// As its holder says.
    Asked(NackRequest),
    /// Its consumer never saw it: due as before, the attempt does not count.
    Return(Millis),
    /// There is no place for its call before this instant; the attempt does not count, and it is no event.
    Park(Millis),
}

/// A lease given back.
pub(crate) struct Nack {
    pub id: MessageId,
    pub seal: Seal,
    pub how: How,
}

impl Grouped for Nack {
    fn job(ticket: Ticket<Self>) -> Job {
        Job::Nack(ticket)
    }
}

impl Verb for Nack {
    type Answer = Result<Nacked, Error>;

    fn script() -> &'static Script {
        &scripts::NACK
    }

    /// What is noted of it: the call's answer, or the reason.
    fn bytes(&self) -> usize {
        match &self.how {
            How::Asked(NackRequest { call: Some(call), .. }) => call.bytes(),
            How::Asked(NackRequest { reason: Some(reason), .. }) => json_bytes(reason),
            _ => 0,
        }
    }

    fn concerns(&self) -> [Option<u64>; 2] {
        [Some(self.id.hash()), None]
    }

    fn write(group: &[Ticket<Self>], topic: &Topic, _: &Context<'_>, command: &mut Cmd) {
        topic.keys.write_all(command);
        command.arg(&topic.word).arg(group.len());
        let holders = group.iter().map(|ticket| (&ticket.verb.id, &ticket.verb.seal));
        write_holders(holders, command);
        for Self { seal, how, .. } in group.iter().map(|ticket| &ticket.verb) {
            match how {
                How::Asked(request) => {
                    let most = if request.wished { "<" } else { "" };
                    let delay = request.delay_ms.map(|delay| format!("{most}{delay}"));
                    command.arg(letter(request.kind)).arg(delay.unwrap_or_default());
                }
                How::Return(due_at) => {
                    command.arg("u").arg(format!("@{due_at}"));
                }
                How::Park(due_at) => {
                    command.arg("w").arg(format!("@{due_at}"));
                }
            }
            command.arg(random_unit()).arg(seal.granted_at);
            match how {
                How::Asked(NackRequest { call: None, reason: Some(reason), .. }) => {
                    // A string always serializes.
                    command.arg("").arg(serde_json::to_string(reason).unwrap_or_default());
                }
                How::Asked(NackRequest { call, .. }) => write_call(call.as_ref(), command),
                _ => write_call(None, command),
            }
        }
    }

    fn read(
        group: &[Ticket<Self>],
        topic: &Arc<Topic>,
        context: &mut Context<'_>,
        reply: Value,
    ) -> Result<Vec<Result<Self::Answer, CallError>>, CallError> {
        let mut fields = Fields::of(reply)?;
        let now = context.read_wake(topic, &mut fields)?;
        let mut died = 0;
        let mut answers = Vec::with_capacity(group.len());
        for ticket in group {
            let (code, at) = (fields.int()?, fields.int()?);
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
            let Self { seal, how, .. } = &ticket.verb;
            match how {
                How::Return(_) => topic.counters.returned.inc(),
                How::Park(_) => topic.counters.released.inc(),
                How::Asked(request) if request.kind == NackKind::Released => {
                    topic.counters.released.inc()
                }
                How::Asked(_) => topic.counters.nacked.inc(),
            };
            match state {
                State::Dead => {
                    died += 1;
                    let soon = topic.settings.retention.dead_ms.min(DEAD_SOON);
                    topic.sweep_by(now, Some(at.saturating_add(soon)));
                }
                State::Expired => {
                    topic.counters.expired.inc();
                }
                _ => {}
            }
            let due_at = matches!(state, State::Delayed | State::Ready).then_some(at);
            answers.push(Ok(Ok(Nacked { state, due_at, attempt: seal.attempt })));
        }
        topic.saw_deaths(died, now);
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
