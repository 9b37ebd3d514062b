//! Requests of any kind: in the inbox as a [`Job`], on their way to Redis as part of a [`Call`].

use super::{
    super::{
        partition::Partition,
        reply::{CallError, Reply},
        scripts::Script,
    },
    Command, GROUP_BYTES, GROUP_MESSAGES, Lanes, Op, Phase,
};
use crate::{model::Epoch, seeded};
use deadpool_redis::redis::{Arg, Cmd, Value};
use std::{
    any::{Any, TypeId},
    collections::{HashMap, HashSet},
    time::Instant,
};
use tokio::sync::oneshot;

/// Where the answer to a request arrives.
pub(in crate::store) type Answered<T> = oneshot::Receiver<Result<T, CallError>>;

/// Tells partitions from each other, and holds nothing of them.
pub(super) type PartitionId = usize;

/// A request, and where its answer arrives.
pub(crate) struct Request<T> {
    pub(super) job: Job,
    pub(super) answered: Answered<T>,
}

impl<T: Send + 'static> Request<T> {
    /// One for `partition` that came at `since`.
    pub fn new<O: Op<Output = T>>(partition: &Partition, op: O, since: Instant) -> Self {
        let (answer, answered) = oneshot::channel();
        let caller = Caller { since, answer: Some(answer) };
        Self { job: Job::of(OpRequest { op, partition: partition.clone(), caller }), answered }
    }

    /// One that has a call to itself.
    pub(super) fn single(
        command: Command,
        read: impl FnOnce(Value, &Exchange<'_>) -> Result<T, CallError> + Send + Sync + 'static,
    ) -> Self {
        let (answer, answered) = oneshot::channel();
        let phase = command.script.map_or(Phase::Write, |script| script.phase);
        let (since, kind) = (Instant::now(), TypeId::of::<Single<T>>());
        let request = Box::new(Single { command, read: Box::new(read), answer });
        Self { job: Job { since, phase, partition: None, kind, request }, answered }
    }
}

/// A request in the inbox.
pub(super) struct Job {
    /// When it came: what waits too long is refused and not sent.
    pub since: Instant,
    pub phase: Phase,
    /// The partition that it works on, if it is one of those that share calls.
    pub partition: Option<PartitionId>,
    kind: TypeId,
    request: Box<dyn AnyRequest>,
}

impl Job {
    fn of<O: Op>(request: OpRequest<O>) -> Self {
        Self {
            since: request.caller.since,
            phase: O::script().phase,
            partition: Some(request.partition.address()),
            kind: TypeId::of::<O>(),
            request: Box::new(request),
        }
    }

    /// Bytes and messages that it adds to what a lane takes.
    pub fn load(&self) -> (usize, usize) {
        self.request.load()
    }

    /// Has the caller gone who waited for its answer?
    pub fn is_abandoned(&self) -> bool {
        self.request.is_abandoned()
    }

    /// Answers a request that was never sent.
    pub fn refuse(self) {
        self.request.into_call().refuse();
    }

    /// A seeded bug: a publish is answered that nothing was sent, and goes on waiting to be sent.
    pub fn refuse_and_keep(&mut self) {
        self.request.refuse_and_keep();
    }
}

/// Puts jobs together into calls, in the order in which they are to be sent.
pub(super) fn group(jobs: Vec<Job>) -> Vec<Box<dyn Call>> {
    let mut calls: Vec<(Phase, Box<dyn Call>)> = Vec::new();
    // Where the call is that requests of one kind for one partition still join.
    let mut open: HashMap<(TypeId, PartitionId), usize> = HashMap::new();
    // The same for the job before, which is mostly of the same kind and partition.
    let mut last = None;
    for Job { phase, partition, kind, mut request, .. } in jobs {
        let Some(key) = partition.map(|partition| (kind, partition)) else {
            calls.push((phase, request.into_call()));
            continue;
        };
        let joined = match last {
            Some((last, at)) if last == key => Some(at),
            _ => open.get(&key).copied(),
        };
        if let Some(at) = joined {
            last = Some((key, at));
            match calls[at].1.add(request) {
                Ok(()) => continue,
                Err(full) => request = full,
            }
        }
        open.insert(key, calls.len());
        last = Some((key, calls.len()));
        calls.push((phase, request.into_call()));
    }
    calls.sort_by_key(|(phase, _)| *phase);
    calls.into_iter().map(|(_, call)| call).collect()
}

/// A pipeline of calls under way, and what came of it so far.
pub(in crate::store) struct Exchange<'a> {
    pub lanes: &'a Lanes,
    pub sent: Instant,
    /// Requests that a call had no room for.
    pub again: Vec<Job>,
}

impl Exchange<'_> {
    /// Has a reply read that came for `partition`, and wakes consumers where it says so.
    pub fn read<T>(
        &self,
        partition: &Partition,
        value: Value,
        read: impl FnOnce(&mut Reply<'_>) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let mut reply = Reply::new(partition, &self.lanes.backend, self.sent, value)?;
        let read = read(&mut reply);
        if reply.wake {
            self.lanes.wake(&partition.topic.name, Some(partition.route.partition));
        }
        read
    }
}

/// A request of any kind.
pub(super) trait AnyRequest: Any + Send + Sync {
    fn load(&self) -> (usize, usize);
    fn is_abandoned(&self) -> bool;
    fn refuse_and_keep(&mut self) {}
    /// A call for this request, which others may join.
    fn into_call(self: Box<Self>) -> Box<dyn Call>;
}

/// A call of any kind, ready to be sent.
pub(super) trait Call: Send + Sync {
    /// Takes a request in if it fits, else gives it back.
    fn add(&mut self, request: Box<dyn AnyRequest>) -> Result<(), Box<dyn AnyRequest>> {
        Err(request)
    }
    /// The command to send; `call` begins that of a script.
    fn command(&self, epoch: Epoch, call: &mut dyn FnMut(&'static Script) -> Cmd) -> Cmd;
    /// Hands out what came back.
    fn finish(self: Box<Self>, exchange: &mut Exchange<'_>, result: Result<Value, CallError>);
    /// Answers all of its requests that nothing was sent.
    fn refuse(self: Box<Self>);
}

/// Who made a request.
struct Caller<T> {
    since: Instant,
    /// `None` once it was answered by a seeded bug.
    answer: Option<oneshot::Sender<Result<T, CallError>>>,
}

impl<T> Caller<T> {
    fn answer(self, answer: Result<T, CallError>) {
        if let Some(caller) = self.answer {
            // A caller that is gone drops the answer, which knows what to do then (see `Grants`).
            let _ = caller.send(answer);
        }
    }
}

/// One request of an [`Op`].
struct OpRequest<O: Op> {
    op: O,
    partition: Partition,
    caller: Caller<O::Output>,
}

impl<O: Op> AnyRequest for OpRequest<O> {
    fn load(&self) -> (usize, usize) {
        (self.op.bytes(), self.op.share(&self.partition))
    }

    fn is_abandoned(&self) -> bool {
        self.caller.answer.as_ref().is_some_and(oneshot::Sender::is_closed)
    }

    fn refuse_and_keep(&mut self) {
        if O::script().name == "publish"
            && let Some(answer) = self.caller.answer.take()
        {
            let _ = answer.send(Err(CallError::Unavailable));
        }
    }

    fn into_call(self: Box<Self>) -> Box<dyn Call> {
        let conflicts = self.op.conflicts();
        let (partition, ops, callers) = (self.partition.clone(), Vec::new(), Vec::new());
        let mut group =
            Group { partition, ops, callers, bytes: 0, messages: 0, conflicts: HashSet::new() };
        group.push(*self, conflicts);
        Box::new(group)
    }
}

/// Requests of one kind for one partition that go to Redis in one call.
struct Group<O: Op> {
    partition: Partition,
    ops: Vec<O>,
    /// Who made them, in the same order.
    callers: Vec<Caller<O::Output>>,
    bytes: usize,
    messages: usize,
    conflicts: HashSet<u64>,
}

impl<O: Op> Group<O> {
    fn has_room(&self, op: &O, conflicts: [Option<u64>; 2]) -> bool {
        self.bytes + op.bytes() <= GROUP_BYTES
            && self.messages + op.messages() <= GROUP_MESSAGES
            && !conflicts.iter().flatten().any(|hash| self.conflicts.contains(hash))
    }

    /// Takes a request in; `conflicts` are its own.
    fn push(&mut self, request: OpRequest<O>, conflicts: [Option<u64>; 2]) {
        let OpRequest { op, caller, .. } = request;
        self.bytes += op.bytes();
        self.messages += op.messages();
        self.conflicts.extend(conflicts.into_iter().flatten());
        self.ops.push(op);
        self.callers.push(caller);
    }
}

impl<O: Op> Call for Group<O> {
    fn add(&mut self, request: Box<dyn AnyRequest>) -> Result<(), Box<dyn AnyRequest>> {
        let Some(own) = (&*request as &dyn Any).downcast_ref::<OpRequest<O>>() else {
            return Err(request);
        };
        let conflicts = own.op.conflicts();
        if !self.has_room(&own.op, conflicts) {
            return Err(request);
        }
        if let Ok(request) = (request as Box<dyn Any>).downcast::<OpRequest<O>>() {
            self.push(*request, conflicts);
        }
        Ok(())
    }

    fn command(&self, epoch: Epoch, call: &mut dyn FnMut(&'static Script) -> Cmd) -> Cmd {
        let mut command = call(O::script());
        O::write(&self.ops, &self.partition, epoch, &mut command);
        command
    }

    fn finish(self: Box<Self>, exchange: &mut Exchange<'_>, result: Result<Value, CallError>) {
        let Self { ops, partition, callers, .. } = *self;
        let size = ops.len();
        exchange.lanes.backend.metrics.observe_group(O::script().name, size);
        let read = |reply: &mut Reply<'_>| O::read(&ops, reply);
        let outcome = result.and_then(|value| exchange.read(&partition, value, read));
        let mut answers: Vec<_> = match outcome {
            Ok(answers) if answers.len() == size => answers,
            Ok(_) => (0..size).map(|_| Err(CallError::Internal)).collect(),
            Err(error) => (0..size).map(|_| Err(error)).collect(),
        };
        if seeded::bug("answers swapped") {
            answers.rotate_left(1);
        }
        for ((op, caller), answer) in ops.into_iter().zip(callers).zip(answers) {
            match answer {
                Err(CallError::Again) => {
                    let partition = partition.clone();
                    exchange.again.push(Job::of(OpRequest { op, partition, caller }));
                }
                answer => caller.answer(answer),
            }
        }
    }

    fn refuse(self: Box<Self>) {
        self.callers.into_iter().for_each(|caller| caller.answer(Err(CallError::Unavailable)));
    }
}

type Read<T> = dyn FnOnce(Value, &Exchange<'_>) -> Result<T, CallError> + Send + Sync;

/// A request that has a call to itself, and is that call.
struct Single<T> {
    command: Command,
    read: Box<Read<T>>,
    answer: oneshot::Sender<Result<T, CallError>>,
}

impl<T: Send + 'static> AnyRequest for Single<T> {
    fn load(&self) -> (usize, usize) {
        (0, 1)
    }

    fn is_abandoned(&self) -> bool {
        self.answer.is_closed()
    }

    fn into_call(self: Box<Self>) -> Box<dyn Call> {
        self
    }
}

impl<T: Send + 'static> Call for Single<T> {
    fn command(&self, _: Epoch, call: &mut dyn FnMut(&'static Script) -> Cmd) -> Cmd {
        let Some(script) = self.command.script else { return self.command.cmd.clone() };
        let mut call = call(script);
        for argument in self.command.cmd.args_iter() {
            let Arg::Simple(argument) = argument else { continue };
            call.arg(argument);
        }
        call
    }

    fn finish(self: Box<Self>, exchange: &mut Exchange<'_>, result: Result<Value, CallError>) {
        let Self { command, read, answer } = *self;
        let metrics = &exchange.lanes.backend.metrics;
        command.script.inspect(|script| metrics.observe_group(script.name, 1));
        let _ = answer.send(result.and_then(|value| read(value, exchange)));
    }

    fn refuse(self: Box<Self>) {
        let _ = self.answer.send(Err(CallError::Unavailable));
    }
}
