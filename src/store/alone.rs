//! Calls that serve one request each: what nobody asks for by the thousand, so that grouping it would save nothing.

use super::{
    call::{Call, Context},
    job::Job,
    lanes::Lanes,
    registry::Topic,
    reply::{CallError, malformed, word},
    scripts::Script,
};
use deadpool_redis::redis::{Cmd, Value, cmd};
use std::{sync::Arc, time::Instant};
use tokio::sync::oneshot;

/// A kind of request that has a script call to itself.
pub(crate) trait Alone: Send + Sync + 'static {
    /// What it gets.
    type Answer: Send + 'static;
    /// It looks at a whole topic, or operates on it: whoever publishes and consumes comes first.
    const BEHIND: bool = false;

    /// The script.
    fn script() -> &'static Script;
    /// Writes keys (with their number first) and arguments.
    fn write(&self, topic: &Topic, command: &mut Cmd);
    /// Takes the reply apart.
    fn read(
        &self,
        topic: &Arc<Topic>,
        context: &mut Context<'_>,
        reply: Value,
    ) -> Result<Self::Answer, CallError>;
}

struct AloneCall<A: Alone> {
    verb: A,
    topic: Arc<Topic>,
    answer: oneshot::Sender<Result<A::Answer, CallError>>,
}

impl<A: Alone> Call for AloneCall<A> {
    fn command(&self, _: &Context<'_>) -> Cmd {
        let mut command = cmd("EVALSHA");
        command.arg(A::script().sha());
        self.verb.write(&self.topic, &mut command);
        command
    }

    fn finish(self: Box<Self>, context: &mut Context<'_>, result: Result<Value, CallError>) {
        context.backend.metrics.observe_group(A::script().name, 1);
        let answer = result.and_then(|reply| match word(&reply) {
            Some("STALE") => Err(CallError::Stale),
            _ => self.verb.read(&self.topic, context, reply),
        });
        // A caller that is gone needs no answer.
        let _ = self.answer.send(answer);
    }

    fn refuse(self: Box<Self>) {
        let _ = self.answer.send(Err(CallError::Unavailable));
    }

    fn is_abandoned(&self) -> bool {
        self.answer.is_closed()
    }
}

impl Lanes {
    /// Sends a request in a call of its own and waits for its answer.
    pub async fn submit_alone<A: Alone>(
        &self,
        topic: &Arc<Topic>,
        verb: A,
    ) -> Result<A::Answer, CallError> {
        let (answer, answered) = oneshot::channel();
        let call = Box::new(AloneCall { verb, topic: topic.clone(), answer });
        let job = if A::BEHIND { Job::Behind } else { Job::Alone };
        self.inbox.put(job(call, Instant::now()));
        // A lane that ended without an answer had sent the request, or may have.
        answered.await.unwrap_or(Err(CallError::Unknown))
    }
}

/// The reply's word, for scripts that answer in one where they refuse.
pub(crate) fn word_of(reply: &Value) -> Result<&str, CallError> {
    word(reply).ok_or_else(|| malformed(reply))
}
