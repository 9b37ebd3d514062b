//! Requests that share a call: those of one [`Op`] for one partition.

use super::{
    super::{
        cluster::Slot,
        partition::Partition,
        reply::{CallError, Reply},
        scripts::Script,
    },
    Confirm, GROUP_BYTES, GROUP_MESSAGES, Op,
    fence::Waiting,
    request::{AnyRequest, Call, Caller, Came, Exchange, Job},
};
use deadpool_redis::redis::{Cmd, Value};
use dueq_model::Epoch;
use std::any::Any;

/// One request of an [`Op`].
pub(super) struct OpRequest<O: Op> {
    pub op: O,
    pub partition: Partition,
    pub caller: Caller<O::Output>,
}

impl<O: Op> AnyRequest for OpRequest<O> {
    fn load(&self) -> (usize, usize) {
        (self.op.bytes(), self.op.share(&self.partition))
    }

    fn slot(&self) -> Option<Slot> {
        Some(self.partition.slot)
    }

    fn set_came(&mut self, came: Came) {
        self.caller.came = came;
    }

    fn is_abandoned(&self) -> bool {
        self.caller.answer.is_closed()
    }

    fn into_call(self: Box<Self>) -> Box<dyn Call> {
        let conflicts = self.op.conflicts();
        let (partition, ops, callers) = (self.partition.clone(), Vec::new(), Vec::new());
        let mut group =
            Group { partition, ops, callers, bytes: 0, messages: 0, conflicts: Vec::new() };
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
    /// At most two of each: so few are found soonest by looking at all.
    conflicts: Vec<u64>,
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
        exchange.node.backend.shared.metrics.observe_group(O::script().name, size);
        let read = |reply: &mut Reply<'_>| O::read(&ops, reply);
        let outcome = result.and_then(|value| exchange.read(&partition, value, read));
        let answers: Vec<_> = match outcome {
            Ok(answers) if answers.len() == size => answers,
            Ok(_) => (0..size).map(|_| Err(CallError::Internal)).collect(),
            Err(error) => (0..size).map(|_| Err(error)).collect(),
        };
        let replicas = exchange.replicas_for(partition.topic.confirm());
        let mut held = Vec::new();
        for ((op, caller), answer) in ops.into_iter().zip(callers).zip(answers) {
            match answer {
                Err(CallError::Again) => {
                    let partition = partition.clone();
                    exchange.again.push(Job::of(OpRequest { op, partition, caller }));
                }
                Ok(output) if replicas > 0 && O::tells(&output) => held.push((caller, output)),
                answer => caller.answer(answer),
            }
        }
        if !held.is_empty() {
            let release = move |confirmed: Result<(), CallError>| {
                for (caller, output) in held {
                    caller.answer(confirmed.map(|()| output));
                }
            };
            let release = Box::new(release);
            exchange.held.push(Waiting { replicas, attempt: false, release });
        }
    }

    fn refuse(self: Box<Self>) {
        self.callers.into_iter().for_each(|caller| caller.answer(Err(CallError::Unavailable)));
    }

    fn confirm(&self) -> Confirm {
        self.partition.topic.confirm()
    }

    fn into_jobs(self: Box<Self>) -> Vec<Job> {
        let Self { ops, partition, callers, .. } = *self;
        let job = |(op, caller)| Job::of(OpRequest { op, partition: partition.clone(), caller });
        ops.into_iter().zip(callers).map(job).collect()
    }
}
