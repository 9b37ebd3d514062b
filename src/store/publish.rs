//! publish: from a group of new messages to the script's arguments.

use super::{
    backend::Backend,
    call::{Context, Ticket, Verb},
    inbox::Job,
    registry::Topic,
    reply::{CallError, Fields},
    scripts::{self, Script},
    submit::Grouped,
};
use crate::model::{MessageId, Millis};
use bytes::Bytes;
use deadpool_redis::redis::{Cmd, Value};
use std::sync::Arc;

/// Bodies above this many bytes make leases look at sizes.
const LARGE_BODY: usize = 1024;

/// When a message falls due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// This long after Redis takes it, ms.
    After(Millis),
    /// At this instant, or at once if it has passed.
    At(Millis),
}

impl Due {
    /// The due time when Redis's clock says `now`.
    fn from(self, now: Millis) -> Millis {
        match self {
            Self::After(delay) => now + delay,
            Self::At(instant) => instant.max(now),
        }
    }
}

/// A message to store.
pub(crate) struct Publish {
    pub id: MessageId,
    /// The encoded body.
    pub body: Bytes,
    pub due: Due,
    pub priority: u8,
    pub max_attempts: Option<u16>,
}

/// What Redis says of a message that it stored.
pub(crate) struct Stored {
    pub due_at: Millis,
    /// Redis's time when it was stored.
    pub now: Millis,
}

impl Publish {
    fn is_special(&self) -> bool {
        self.priority > 0 || self.max_attempts.is_some()
    }
}

impl Grouped for Publish {
    fn job(ticket: Ticket<Self>) -> Job {
        Job::Publish(ticket)
    }
}

impl Verb for Publish {
    type Answer = Stored;

    fn script() -> &'static Script {
        &scripts::PUBLISH
    }

    fn bytes(&self) -> usize {
        self.body.len()
    }

    fn write(group: &[Ticket<Self>], topic: &Topic, _: &Context<'_>, command: &mut Cmd) {
        let keys = &topic.keys;
        command.arg(6).arg(&keys.messages).arg(&keys.delayed).arg(&keys.meta);
        command.arg(&keys.extra).arg(&keys.delayed_prio).arg(&keys.ready);
        let plain = || group.iter().map(|ticket| &ticket.verb).filter(|verb| !verb.is_special());
        let special = || group.iter().map(|ticket| &ticket.verb).filter(|verb| verb.is_special());
        let large = group.iter().any(|ticket| ticket.verb.body.len() > LARGE_BODY);
        command
            .arg(topic.route.topic.0)
            .arg(group.len())
            .arg(special().count())
            .arg(u8::from(large));
        for verb in plain().chain(special()) {
            match verb.due {
                Due::After(delay) => command.arg(delay),
                Due::At(instant) => command.arg(format!("@{instant}")),
            };
            command.arg(&verb.id.member()[..]);
        }
        for verb in plain().chain(special()) {
            command.arg(&verb.id.member()[..]).arg(&verb.body[..]);
        }
        for verb in special() {
            command.arg(verb.priority);
            match verb.max_attempts {
                Some(max_attempts) => command.arg(max_attempts),
                None => command.arg(""),
            };
        }
    }

    fn read(
        group: &[Ticket<Self>],
        topic: &Arc<Topic>,
        context: &mut Context<'_>,
        reply: Value,
    ) -> Result<Vec<Result<Stored, CallError>>, CallError> {
        let mut fields = Fields::of(reply)?;
        let now = fields.int()?;
        context.backend.clock.observe(now);
        if fields.int()? == 1 {
            context.wakes.push(topic.clone());
        }
        topic.counters.published.inc_by(group.len() as u64);
        Ok(group.iter().map(|t| Ok(Stored { due_at: t.verb.due.from(now), now })).collect())
    }

    fn canned(self, _: &Arc<Topic>, backend: &Backend) -> Stored {
        let now = backend.clock.now();
        Stored { due_at: self.due.from(now), now }
    }
}
