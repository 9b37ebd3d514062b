//! nack: gives leases back, as failed or as never seen.

use super::{
    ack::{refused, write_holders},
    backend::Backend,
    call::{Context, Ticket, Verb},
    inbox::Job,
    registry::Topic,
    reply::{CallError, Fields},
    scripts::{self, Script},
    submit::Grouped,
};
use crate::{
    error::Error,
    model::{MessageId, Millis, Seal, State},
};
use deadpool_redis::redis::{Cmd, Value};
use std::sync::Arc;

/// When a message that was given back is due again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NackDelay {
    /// As its backoff policy says.
    Backoff,
    /// After this many ms.
    After(Millis),
    /// Its consumer never saw it: ready as before, the attempt does not count.
    Return(Millis),
}

/// A lease given back.
pub(crate) struct Nack {
    pub id: MessageId,
    pub seal: Seal,
    pub delay: NackDelay,
}

/// Where a message is after its nack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nacked {
    /// delayed, ready or dead.
    pub state: State,
    /// When it is due; `None` when dead.
    pub due_at: Option<Millis>,
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

    fn one_a_group(&self) -> Option<MessageId> {
        Some(self.id)
    }

    fn write(group: &[Ticket<Self>], topic: &Topic, context: &Context<'_>, command: &mut Cmd) {
        let keys = &topic.keys;
        command.arg(9).arg(&keys.unack).arg(&keys.last).arg(&keys.messages).arg(&keys.extra);
        command.arg(&keys.meta).arg(&keys.delayed).arg(&keys.delayed_prio);
        command.arg(&keys.ready).arg(&keys.dead);
        command.arg(topic.route.topic.0).arg(group.len());
        let holders = group.iter().map(|ticket| (&ticket.verb.id, &ticket.verb.seal));
        write_holders(holders, context, command);
        for ticket in group {
            match ticket.verb.delay {
                NackDelay::Backoff => command.arg(""),
                NackDelay::After(delay) => command.arg(delay),
                NackDelay::Return(due_at) => command.arg(format!("@{due_at}")),
            };
        }
        for _ in group {
            command.arg(random_unit());
        }
    }

    fn read(
        group: &[Ticket<Self>],
        topic: &Arc<Topic>,
        context: &mut Context<'_>,
        reply: Value,
    ) -> Result<Vec<Result<Self::Answer, CallError>>, CallError> {
        let mut fields = Fields::of(reply)?;
        context.backend.clock.observe(fields.int()?);
        if fields.int()? == 1 {
            context.wakes.push(topic.clone());
        }
        let mut answers = Vec::with_capacity(group.len());
        for ticket in group {
            let (code, at) = (fields.int()?, fields.int()?);
            let state = match code {
                0 => State::Delayed,
                3 => State::Ready,
                4 => State::Dead,
                code => {
                    answers.push(Ok(Err(refused(code))));
                    continue;
                }
            };
            match ticket.verb.delay {
                NackDelay::Return(_) => topic.counters.returned.inc(),
                _ => topic.counters.nacked.inc(),
            };
            if state == State::Dead {
                topic.counters.dead.inc();
            }
            answers.push(Ok(Ok(Nacked { state, due_at: (state != State::Dead).then_some(at) })));
        }
        Ok(answers)
    }

    fn canned(self, _: &Arc<Topic>, backend: &Backend) -> Self::Answer {
        Ok(Nacked { state: State::Ready, due_at: Some(backend.clock.now()) })
    }
}

/// A number in [0, 1) as text, for the jitter; the middle where the system has no randomness to give.
fn random_unit() -> String {
    let random = getrandom::u32().unwrap_or(u32::MAX / 2);
    format!("{:.6}", f64::from(random) / (f64::from(u32::MAX) + 1.0))
}
