//! Group commit. Requests wait in an inbox while the calls before them are under way. A lane takes what waits, puts the
//! requests of one kind for one topic into one script call, and sends all calls as one pipeline. So the busier dueq is,
//! the less a message costs; a lone request waits for nobody.
//!
//! Nothing in here knows what a request does. That is its [`Op`]: the script, how a group of requests becomes the
//! arguments of one call, and how the reply is taken apart again.
//!
//! The way of a request: [`Lanes::submit`] → [`inbox`] → [`lane`] → [`request::group`] → [`Lanes::exchange`] → its answer.

mod inbox;
mod lane;
mod lanes;
mod request;

pub(super) use lanes::Lanes;
pub use lanes::Wake;
pub(super) use request::Answered;

use super::{
    backend::Backend,
    registry::Topic,
    reply::{CallError, Fields, word},
    scripts::Script,
};
use crate::model::{Epoch, Millis};
use deadpool_redis::redis::{Cmd, Value};
use request::Job;
use std::{sync::Arc, time::Instant};

/// Messages in one script call, at most: bounds what a call costs Redis, and `unpack` in Lua.
pub(crate) const GROUP_MESSAGES: usize = 128;
/// Bytes of bodies in one script call, at most; a larger message goes alone.
const GROUP_BYTES: usize = 256 * 1024;

/// Where a call stands among those that a lane sends together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// It publishes, ends leases, or looks at single messages.
    Write,
    /// It grants. A request that acks and leases acks first, and a grant sees all that came with it.
    Grant,
    /// It looks at a whole topic or operates on it. Whoever publishes and consumes comes first.
    Scan,
}

/// A kind of request that one script serves, for one topic and many requests at a time.
pub(crate) trait Op: Sized + Send + Sync + 'static {
    /// What one request gets.
    type Output: Send + 'static;
    /// Where its calls stand among others.
    const PHASE: Phase = Phase::Write;
    /// Requests of this kind for one topic share a call.
    const GROUPED: bool = true;

    /// The script.
    fn script() -> &'static Script;
    /// Bytes that this request adds to a call.
    fn bytes(&self) -> usize {
        0
    }
    /// Messages that this request adds to what a call has to do.
    fn messages(&self) -> usize {
        1
    }
    /// Messages that it counts for in what a lane takes of its topic.
    fn share(&self, _topic: &Topic) -> usize {
        self.messages()
    }
    /// Hashes of the message or the keys that two requests of one call must not both concern. The second goes in the next
    /// call, and finds what the first did.
    fn conflicts(&self) -> [Option<u64>; 2] {
        [None, None]
    }
    /// Writes keys (with their number first) and arguments of one call for `group`.
    fn write(group: &[Self], topic: &Topic, context: &CallContext<'_>, command: &mut Cmd);
    /// Takes the reply apart: one outcome for each request of the group, in order. One that is [`CallError::Again`] goes
    /// into a later call.
    fn read(
        group: &[Self],
        topic: &Arc<Topic>,
        context: &mut CallContext<'_>,
        reply: Value,
    ) -> Result<Vec<Result<Self::Output, CallError>>, CallError>;
}

/// A kind of request that has a script call to itself: nobody asks for it by the thousand, so grouping would save nothing.
pub(crate) trait SingleOp: Send + Sync + 'static {
    /// What it gets.
    type Output: Send + 'static;
    /// Where its calls stand among others.
    const PHASE: Phase = Phase::Write;

    /// The script.
    fn script() -> &'static Script;
    /// Writes keys (with their number first) and arguments.
    fn write(&self, topic: &Topic, command: &mut Cmd);
    /// Takes the reply apart. The word `STALE` never gets here.
    fn read(
        &self,
        topic: &Arc<Topic>,
        context: &mut CallContext<'_>,
        reply: Value,
    ) -> Result<Self::Output, CallError>;
}

impl<S: SingleOp> Op for S {
    type Output = <S as SingleOp>::Output;
    const PHASE: Phase = <S as SingleOp>::PHASE;
    const GROUPED: bool = false;

    fn script() -> &'static Script {
        <S as SingleOp>::script()
    }

    fn write(group: &[Self], topic: &Topic, _: &CallContext<'_>, command: &mut Cmd) {
        group.iter().for_each(|op| SingleOp::write(op, topic, command));
    }

    fn read(
        group: &[Self],
        topic: &Arc<Topic>,
        context: &mut CallContext<'_>,
        reply: Value,
    ) -> Result<Vec<Result<Self::Output, CallError>>, CallError> {
        let [op] = group else { return Err(CallError::Internal) };
        match word(&reply) {
            Some("STALE") => Err(CallError::Stale),
            _ => Ok(vec![SingleOp::read(op, topic, context, reply)]),
        }
    }
}

/// What a call may use beside its own requests.
pub(crate) struct CallContext<'a> {
    pub backend: &'a Backend,
    /// What grants go by where Redis shows scripts no replication ID.
    pub epoch: Epoch,
    /// Topics whose sleeping consumers a reply asked to wake.
    pub wakes: Vec<Arc<Topic>>,
    /// Requests that a call had no room for.
    again: Vec<Job>,
    /// When the call was sent.
    sent: Instant,
}

impl<'a> CallContext<'a> {
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
