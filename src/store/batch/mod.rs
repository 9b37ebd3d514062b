//! Group commit. Requests wait in an inbox while the calls before them are under way. A lane takes what waits, puts the
//! requests of one kind for one partition into one script call, and sends all calls as one pipeline. So the busier dueq is,
//! the less a message costs; a lone request waits for nobody.
//!
//! Nothing in here knows what a request does. One that comes by the thousand is an [`Op`]: how a group of requests becomes
//! the arguments of one call, and how the reply is taken apart again. Any other is a [`Command`], which has a call to itself.
//!
//! The way of a request: [`Lanes::submit`] → [`node`] → [`inbox`] → [`lane`] → [`request::group`] → `Lane::exchange` → its answer, which
//! may have to wait for replicas: [`fence`].

mod fence;
mod fencing;
mod group;
mod inbox;
mod lane;
mod lanes;
mod node;
mod request;
mod round;
mod sending;
mod single;

pub use fence::{Confirm, Confirmed};
pub use lanes::Lanes;
pub use lanes::Wake;
pub(super) use lanes::answer;
pub use node::Node;
pub use request::Request;
pub(super) use request::{Answered, Call, Job};

use super::{
    partition::Partition,
    reply::{CallError, Reply},
    scripts::Script,
};
use deadpool_redis::redis::{Arg, Cmd, ToRedisArgs, cmd};
use dueq_model::Epoch;

/// Messages in one script call, at most: bounds what a call costs Redis, and `unpack` in Lua.
pub const GROUP_MESSAGES: usize = 128;
/// Bytes of bodies in one script call, at most; a larger message goes alone.
pub const GROUP_BYTES: usize = 256 * 1024;

/// The place of a call among those that a lane sends together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It publishes, ends leases, or looks at single messages.
    Write,
    /// It grants. A request that acks and leases acks first, and a grant sees all that came with it.
    Grant,
    /// It looks at a whole topic or operates on it. Publishes and leases come first.
    Scan,
}

/// One outcome for each request of a group, in order, or one error for all. A request whose outcome is
/// [`CallError::Again`] goes into a later call.
pub type Answers<T> = Result<Vec<Result<T, CallError>>, CallError>;

/// A kind of request that one script serves, for one partition and many requests at a time.
pub trait Op: Sized + Send + Sync + 'static {
    /// What one request gets.
    type Output: Send + 'static;

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
    /// Messages that it counts for in what a lane takes of its partition.
    fn share(&self, _partition: &Partition) -> usize {
        self.messages()
    }
    /// Hashes of the message or the keys that two requests of one call must not both concern. The second goes in the next
    /// call, and finds what the first did.
    fn conflicts(&self) -> [Option<u64>; 2] {
        [None, None]
    }
    /// Writes keys (with their number first) and arguments of one call for `group`. `epoch` is what grants go by where
    /// Redis shows scripts no replication ID.
    fn write(group: &[Self], partition: &Partition, epoch: Epoch, command: &mut Cmd);
    /// Takes the reply apart.
    fn read(group: &[Self], reply: &mut Reply<'_>) -> Answers<Self::Output>;
    /// Does the answer tell of anything that a replica might not know?
    fn tells(_output: &Self::Output) -> bool {
        true
    }
}

/// A command, mostly the call of a script, that a request has to itself.
#[derive(Clone)]
pub struct Command {
    /// The script that it calls by its digest; `cmd` has the keys and arguments then.
    script: Option<&'static Script>,
    cmd: Cmd,
    confirm: Confirm,
    /// Its place among the calls that a lane sends together.
    phase: Phase,
}

impl Command {
    /// A command of Redis.
    pub fn new(name: &str) -> Self {
        Self { script: None, cmd: cmd(name), confirm: Confirm::Never, phase: Phase::Write }
    }

    /// A call of a script by its text: one that housekeeping, schedules or a new topic need, and that nobody waits for by the
    /// thousand.
    pub fn eval(script: &'static Script, keys: &[&str]) -> Self {
        Self::new("EVAL").arg((script.source, keys.len())).arg(keys)
    }

    /// A call of a script by its digest.
    pub fn script(script: &'static Script, keys: &[&str]) -> Self {
        let (cmd, confirm, phase) = (Cmd::new(), Confirm::Never, script.phase);
        Self { script: Some(script), cmd, confirm, phase }.arg(keys.len()).arg(keys)
    }

    /// A call of a script that gets all keys of a partition, and the word that it knows the topic by.
    pub fn on(script: &'static Script, partition: &Partition) -> Self {
        Self::script(script, &partition.keys.all()).arg(&partition.topic.version_tag)
    }

    /// As [`Command::on`], with the keys that few scripts need.
    pub fn on_all_with_rare(script: &'static Script, partition: &Partition) -> Self {
        Self::script(script, &partition.keys.all_with_rare()).arg(&partition.topic.version_tag)
    }

    /// The first key that it names. A command of a bare server names none.
    fn key(&self) -> Option<&[u8]> {
        let argument = |at: usize| match self.cmd.args_iter().nth(at)? {
            Arg::Simple(argument) => Some(argument),
            _ => None,
        };
        if self.script.is_some() {
            // The number of keys comes first.
            return argument(1);
        }
        match argument(0)? {
            b"EVAL" => argument(3),
            b"INFO" | b"TIME" | b"ROLE" | b"CLUSTER" | b"CONFIG" => None,
            _ => argument(1),
        }
    }

    /// Adds an argument, or several.
    pub fn arg(mut self, argument: impl ToRedisArgs) -> Self {
        self.cmd.arg(argument);
        self
    }

    /// The call is one of a client about one message, whatever else its script does.
    pub fn of_one_message(mut self) -> Self {
        self.phase = Phase::Write;
        self
    }

    /// The answer waits for the replicas that confirm at once: it tells of a change that all instances go by.
    pub fn confirmed(mut self) -> Self {
        self.confirm = Confirm::Attempt;
        self
    }

    /// Makes the command a request for `partition`, whose reply a lane reads like this. The word `STALE` never gets there.
    pub fn read<T: Send + 'static>(
        self,
        partition: &Partition,
        read: impl FnOnce(&mut Reply<'_>) -> Result<T, CallError> + Send + Sync + 'static,
    ) -> Request<T> {
        let mut this = self;
        if this.script.is_none_or(|script| !script.only_looks()) {
            this.confirm = this.confirm.max(partition.topic.confirm());
        }
        let partition = partition.clone();
        Request::single(this, move |value, exchange| exchange.read(&partition, value, read))
    }
}
