//! Calls to scripts, and groups of them. A verb says how a group of requests becomes the arguments of one script call
//! and how the reply is taken apart again; everything else about a call is the same for all verbs and lives here.

use super::{
    backend::Backend,
    job::Job,
    registry::Topic,
    reply::{CallError, Fields},
    scripts::Script,
    submit::Grouped,
};
use crate::{
    model::{Epoch, Millis},
    seeded,
};
use deadpool_redis::redis::{Cmd, Value, cmd};
use std::{collections::HashSet, sync::Arc, time::Instant};
use tokio::sync::oneshot;

/// Messages in one script call, at most: bounds what a call costs Redis, and `unpack` in Lua.
pub(crate) const GROUP_MESSAGES: usize = 128;
/// Bytes of bodies in one script call, at most; a larger message goes alone.
pub(crate) const GROUP_BYTES: usize = 256 * 1024;

/// What a call may use beside its own request.
pub(crate) struct Context<'a> {
    pub backend: &'a Backend,
    /// What grants go by where Redis shows scripts no replication ID.
    pub epoch: Epoch,
    /// Topics whose sleeping consumers a reply asked to wake.
    pub wakes: Vec<Arc<Topic>>,
    /// Requests that this call had no room for.
    pub again: Vec<Job>,
    /// When the call was sent.
    pub sent: Instant,
}

impl<'a> Context<'a> {
    /// For calls that are sent now.
    pub fn new(backend: &'a Backend, epoch: Epoch) -> Self {
        Self { backend, epoch, wakes: Vec::new(), again: Vec::new(), sent: Instant::now() }
    }

    /// Reads what nearly every script begins its reply with: Redis's time.
    pub fn read_now(&self, fields: &mut Fields) -> Result<Millis, CallError> {
        let now = fields.int()?;
        self.backend.clock.observe(now, self.sent);
        Ok(now)
    }

    /// Reads what every script that makes messages due begins its reply with: Redis's time, and whether consumers of
    /// the topic must be woken. Returns the time.
    pub fn read_wake(
        &mut self,
        topic: &Arc<Topic>,
        fields: &mut Fields,
    ) -> Result<Millis, CallError> {
        let now = self.read_now(fields)?;
        if fields.int()? == 1 {
            self.wakes.push(topic.clone());
        }
        Ok(now)
    }
}

/// A kind of request that one script serves, many at a time.
pub(crate) trait Verb: Sized + Send + Sync + 'static {
    /// What one request gets.
    type Answer: Send + 'static;

    /// The script.
    fn script() -> &'static Script;
    /// Bytes that this request adds to the call.
    fn bytes(&self) -> usize {
        0
    }
    /// Messages that this request adds to what the call has to do: one, unless it asks for more.
    fn messages(&self) -> usize {
        1
    }
    /// Hashes of the message or the keys that two requests of one group must not both concern: the second goes in the
    /// next call, and finds what the first did.
    fn concerns(&self) -> [Option<u64>; 2] {
        [None, None]
    }
    /// Writes keys (with their number first) and arguments of one call for `group`.
    fn write(group: &[Ticket<Self>], topic: &Topic, context: &Context<'_>, command: &mut Cmd);
    /// Takes the reply apart: one outcome for each request of the group, in order.
    fn read(
        group: &[Ticket<Self>],
        topic: &Arc<Topic>,
        context: &mut Context<'_>,
        reply: Value,
    ) -> Result<Vec<Result<Self::Answer, CallError>>, CallError>;
}

/// One request on its way to Redis.
pub(crate) struct Ticket<V: Verb> {
    pub verb: V,
    pub topic: Arc<Topic>,
    /// When it came: what waits too long is refused and not sent.
    pub since: Instant,
    /// `None` where nobody wants to know.
    pub answer: Option<oneshot::Sender<Result<V::Answer, CallError>>>,
}

impl<V: Verb> Ticket<V> {
    /// Hands out the answer.
    pub fn answer(self, answer: Result<V::Answer, CallError>) {
        if let Some(caller) = self.answer {
            // A caller that is gone drops the answer, which knows what to do then (see `Grants`).
            let _ = caller.send(answer);
        }
    }

    /// Has the caller gone, who wanted to know?
    pub fn is_abandoned(&self) -> bool {
        self.answer.as_ref().is_some_and(oneshot::Sender::is_closed)
    }
}

/// Requests that go to Redis in one call.
pub(crate) struct Group<V: Verb> {
    topic: Arc<Topic>,
    tickets: Vec<Ticket<V>>,
    bytes: usize,
    messages: usize,
    concerned: HashSet<u64>,
}

impl<V: Verb> Group<V> {
    pub fn new(ticket: Ticket<V>) -> Self {
        let (bytes, messages) = (ticket.verb.bytes(), ticket.verb.messages());
        let concerned = ticket.verb.concerns().into_iter().flatten().collect();
        Self { topic: ticket.topic.clone(), tickets: vec![ticket], bytes, messages, concerned }
    }

    /// Takes `ticket` in if it fits, else gives it back.
    pub fn add(&mut self, ticket: Ticket<V>) -> Result<(), Ticket<V>> {
        let bytes = self.bytes + ticket.verb.bytes();
        let messages = self.messages + ticket.verb.messages();
        if messages > GROUP_MESSAGES || bytes > GROUP_BYTES {
            return Err(ticket);
        }
        let concerns = ticket.verb.concerns();
        if concerns.iter().flatten().any(|concern| self.concerned.contains(concern)) {
            return Err(ticket);
        }
        self.concerned.extend(concerns.into_iter().flatten());
        (self.bytes, self.messages) = (bytes, messages);
        self.tickets.push(ticket);
        Ok(())
    }
}

/// A call of any kind, ready to be sent.
pub(crate) trait Call: Send + Sync {
    /// The command to send.
    fn command(&self, context: &Context<'_>) -> Cmd;
    /// Hands out what came back.
    fn finish(self: Box<Self>, context: &mut Context<'_>, result: Result<Value, CallError>);
    /// Answers all of its requests that nothing was sent.
    fn refuse(self: Box<Self>);
    /// Has everybody gone who waited for its answers?
    fn is_abandoned(&self) -> bool;
}

impl<V: Grouped> Call for Group<V> {
    fn command(&self, context: &Context<'_>) -> Cmd {
        let mut command = cmd("EVALSHA");
        command.arg(V::script().sha());
        V::write(&self.tickets, &self.topic, context, &mut command);
        command
    }

    fn finish(self: Box<Self>, context: &mut Context<'_>, result: Result<Value, CallError>) {
        let size = self.tickets.len();
        context.backend.metrics.observe_group(V::script().name, size);
        let outcome = result.and_then(|reply| V::read(&self.tickets, &self.topic, context, reply));
        let mut answers: Vec<_> = match outcome {
            Ok(answers) if answers.len() == size => answers,
            Ok(_) => (0..size).map(|_| Err(CallError::Internal)).collect(),
            Err(error) => (0..size).map(|_| Err(error)).collect(),
        };
        if seeded::bug("answers swapped") {
            answers.rotate_left(1);
        }
        for (ticket, answer) in self.tickets.into_iter().zip(answers) {
            match answer {
                Err(CallError::Again) => context.again.push(V::job(ticket)),
                answer => ticket.answer(answer),
            }
        }
    }

    fn refuse(self: Box<Self>) {
        for ticket in self.tickets {
            ticket.answer(Err(CallError::Unavailable));
        }
    }

    fn is_abandoned(&self) -> bool {
        self.tickets.iter().all(Ticket::is_abandoned)
    }
}

/// A single command of no script, such as a read of the registry.
pub(crate) struct Single {
    pub command: Cmd,
    pub answer: oneshot::Sender<Result<Value, CallError>>,
}

impl Call for Single {
    fn command(&self, _: &Context<'_>) -> Cmd {
        self.command.clone()
    }

    fn finish(self: Box<Self>, _: &mut Context<'_>, result: Result<Value, CallError>) {
        let _ = self.answer.send(result);
    }

    fn refuse(self: Box<Self>) {
        let _ = self.answer.send(Err(CallError::Unavailable));
    }

    fn is_abandoned(&self) -> bool {
        self.answer.is_closed()
    }
}
