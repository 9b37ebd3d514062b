//! Requests that have a call to themselves.

use super::{
    super::{
        cluster::{Slot, slot_of},
        reply::CallError,
        scripts::Script,
    },
    Command, Confirm,
    fence::Waiting,
    request::{AnyRequest, Call, Came, Exchange, Job},
};
use deadpool_redis::redis::{Arg, Cmd, Value};
use dueq_model::Epoch;
use std::any::TypeId;
use tokio::sync::oneshot;

type Read<T> = dyn FnOnce(Value, &mut Exchange<'_>) -> Result<T, CallError> + Send + Sync;

/// A request that has a call to itself, and is that call.
pub(super) struct Single<T> {
    pub command: Command,
    pub read: Box<Read<T>>,
    pub answer: oneshot::Sender<Result<T, CallError>>,
    pub came: Came,
}

impl<T: Send + 'static> Single<T> {
    pub fn into_job(self) -> Job {
        let (came, phase, kind) = (self.came, self.command.phase, TypeId::of::<Self>());
        Job { came, phase, partition: None, asking: false, kind, request: Box::new(self) }
    }
}

impl<T: Send + 'static> AnyRequest for Single<T> {
    fn load(&self) -> (usize, usize) {
        (0, 1)
    }

    fn slot(&self) -> Option<Slot> {
        self.command.key().map(slot_of)
    }

    fn set_came(&mut self, came: Came) {
        self.came = came;
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
        let Self { command, read, answer, .. } = *self;
        let metrics = &exchange.node.backend.shared.metrics;
        command.script.inspect(|script| metrics.observe_group(script.name, 1));
        let before = exchange.held.len();
        let result = result.and_then(|value| read(value, exchange));
        // The reader may have made something else wait than the answer.
        let waits = result.is_ok() && exchange.held.len() == before;
        match exchange.replicas_for(command.confirm) {
            replicas if replicas > 0 && waits => {
                let release = move |confirmed: Result<(), CallError>| {
                    drop(answer.send(confirmed.and(result)));
                };
                let attempt = command.confirm == Confirm::Attempt;
                exchange.held.push(Waiting { replicas, attempt, release: Box::new(release) });
            }
            _ => drop(answer.send(result)),
        }
    }

    fn refuse(self: Box<Self>) {
        let _ = self.answer.send(Err(CallError::Unavailable));
    }

    fn confirm(&self) -> Confirm {
        self.command.confirm
    }

    fn into_jobs(self: Box<Self>) -> Vec<Job> {
        vec![self.into_job()]
    }
}
