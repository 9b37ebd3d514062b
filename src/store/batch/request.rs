//! Requests of any kind: in the inbox as a [`Job`], on their way to Redis as part of a [`Call`].

use super::{
    super::{
        cluster::Slot,
        partition::Partition,
        reply::{CallError, Reply},
        scripts::Script,
    },
    Command, Confirm, Confirmed, Op, Phase,
    fence::Waiting,
    group::OpRequest,
    node::Node,
    single::Single,
};
use deadpool_redis::redis::{Cmd, Value};
use dueq_model::Epoch;
use std::{
    any::{Any, TypeId},
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
    time::Instant,
};
use tokio::sync::oneshot;

/// Where the answer to a request arrives.
pub(crate) type Answered<T> = oneshot::Receiver<Result<T, CallError>>;

/// Tells partitions from each other, and holds nothing of them.
pub(super) type PartitionId = usize;

/// A map by addresses and ids of types, which no client chooses: nothing is gained by hashing them with care.
pub(super) type ByAddress<K, V> = HashMap<K, V, BuildHasherDefault<AddressHasher>>;

/// Hashes one or two words.
#[derive(Default)]
pub(super) struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u64(&mut self, word: u64) {
        // An odd number with as many ones as zeros: the golden ratio's fraction.
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        // The lowest bits of a product depend on the lowest of its factors alone, which addresses have in common.
        self.0.rotate_left(26)
    }
}

/// A request, and where its answer arrives.
pub struct Request<T> {
    pub(super) job: Job,
    pub(super) answered: Answered<T>,
}

impl<T: Send + 'static> Request<T> {
    /// One for `partition` that came at `since`.
    pub fn new<O: Op<Output = T>>(partition: &Partition, op: O, since: Instant) -> Self {
        let (answer, answered) = oneshot::channel();
        let caller = Caller { came: Came { since, tries: 0 }, answer };
        Self { job: Job::of(OpRequest { op, partition: partition.clone(), caller }), answered }
    }

    /// One that has a call to itself.
    pub(super) fn single(
        command: Command,
        read: impl FnOnce(Value, &mut Exchange<'_>) -> Result<T, CallError> + Send + Sync + 'static,
    ) -> Self {
        let (answer, answered) = oneshot::channel();
        let came = Came { since: Instant::now(), tries: 0 };
        Self { job: Single { command, read: Box::new(read), answer, came }.into_job(), answered }
    }
}

/// When a request came, and how often a server of a Cluster has sent it away.
#[derive(Clone, Copy)]
pub struct Came {
    pub since: Instant,
    pub tries: u8,
}

/// A request in the inbox.
pub struct Job {
    /// When it came: what waits too long is refused and not sent.
    pub came: Came,
    pub(super) phase: Phase,
    /// The partition that it works on, if it is one of those that share calls.
    pub(super) partition: Option<PartitionId>,
    /// The server may have the keys of its slot although another serves the slot: it asks for that.
    pub asking: bool,
    pub(super) kind: TypeId,
    pub(super) request: Box<dyn AnyRequest>,
}

impl Job {
    pub(super) fn of<O: Op>(request: OpRequest<O>) -> Self {
        Self {
            came: request.caller.came,
            phase: O::script().phase,
            partition: Some(request.partition.address()),
            asking: false,
            kind: TypeId::of::<O>(),
            request: Box::new(request),
        }
    }

    /// Notes that a server has sent it away, and returns how often that was so.
    pub fn sent_away(&mut self) -> u8 {
        self.came.tries = self.came.tries.saturating_add(1);
        self.request.set_came(self.came);
        self.came.tries
    }

    /// The slot of its keys; nothing where it has none.
    pub fn slot(&self) -> Option<Slot> {
        self.request.slot()
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
}

/// Puts jobs together into calls, in the order in which they are to be sent.
pub(super) fn group(jobs: Vec<Job>) -> Vec<Box<dyn Call>> {
    let mut calls: Vec<(Phase, Box<dyn Call>)> = Vec::new();
    // Where the call is that requests of one kind for one partition still join.
    let mut open: ByAddress<(TypeId, PartitionId), usize> = ByAddress::default();
    // The same for the job before, which is mostly of the same kind and partition.
    let mut last = None;
    for Job { phase, partition, kind, mut request, asking, .. } in jobs {
        if asking {
            calls.push((phase, Box::new(Asking(request.into_call()))));
            continue;
        }
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
pub struct Exchange<'a> {
    pub node: &'a Node,
    pub sent: Instant,
    /// Requests that a call had no room for.
    pub again: Vec<Job>,
    /// In which epoch it began, if that was asked: then answers may have to wait.
    pub epoch: Option<Epoch>,
    /// Answers that wait for replicas, and for how many.
    pub held: Vec<Waiting>,
}

impl<'a> Exchange<'a> {
    /// One that begins now.
    pub fn new(node: &'a Node) -> Self {
        Self { node, sent: Instant::now(), again: Vec::new(), epoch: None, held: Vec::new() }
    }

    /// How many replicas such an answer waits for; 0: it does not.
    pub fn replicas_for(&self, confirm: Confirm) -> usize {
        if self.epoch.is_some() { self.node.replicas_for(confirm) } else { 0 }
    }

    /// Where it arrives that replicas have what this call wrote, if there are to be some.
    pub fn confirmed(&mut self, confirm: Confirm) -> Confirmed {
        let replicas = self.replicas_for(confirm);
        if replicas == 0 {
            return Confirmed(None);
        }
        let (tell, told) = oneshot::channel();
        let release = move |confirmed| {
            let _ = tell.send(confirmed);
        };
        let (attempt, release) = (confirm == Confirm::Attempt, Box::new(release));
        self.held.push(Waiting { replicas, attempt, release });
        Confirmed(Some(told))
    }

    /// Has a reply read that came for `partition`, and wakes consumers where it says so.
    pub fn read<T>(
        &self,
        partition: &Partition,
        value: Value,
        read: impl FnOnce(&mut Reply<'_>) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let mut reply = Reply::new(partition, &self.node.backend, self.sent, value)?;
        let read = read(&mut reply);
        if reply.wake {
            self.node.backend.shared.wake(&partition.topic.name, Some(partition.route.partition));
        }
        read
    }
}

/// A request of any kind.
pub trait AnyRequest: Any + Send + Sync {
    fn load(&self) -> (usize, usize);
    fn slot(&self) -> Option<Slot>;
    fn set_came(&mut self, came: Came);
    fn is_abandoned(&self) -> bool;
    /// A call for this request, which others may join.
    fn into_call(self: Box<Self>) -> Box<dyn Call>;
}

/// A call of any kind, ready to be sent.
pub trait Call: Send + Sync {
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
    /// Its requests, to be sent once more: the server did not run it.
    fn into_jobs(self: Box<Self>) -> Vec<Job>;
    /// Whether its answers wait for replicas.
    fn confirm(&self) -> Confirm;
    /// Is it for a server that may have the keys of a slot that another serves?
    fn is_asking(&self) -> bool {
        false
    }
}

/// A call for a server that may have the keys of a slot that another serves.
struct Asking(Box<dyn Call>);

impl Call for Asking {
    fn command(&self, epoch: Epoch, call: &mut dyn FnMut(&'static Script) -> Cmd) -> Cmd {
        self.0.command(epoch, call)
    }

    fn finish(self: Box<Self>, exchange: &mut Exchange<'_>, result: Result<Value, CallError>) {
        self.0.finish(exchange, result);
    }

    fn refuse(self: Box<Self>) {
        self.0.refuse();
    }

    fn into_jobs(self: Box<Self>) -> Vec<Job> {
        self.0.into_jobs()
    }

    fn confirm(&self) -> Confirm {
        self.0.confirm()
    }

    fn is_asking(&self) -> bool {
        true
    }
}

/// Who made a request.
pub(super) struct Caller<T> {
    pub came: Came,
    pub answer: oneshot::Sender<Result<T, CallError>>,
}

impl<T> Caller<T> {
    pub fn answer(self, answer: Result<T, CallError>) {
        // A caller that is gone drops the answer, which knows what to do then (see `Grants`).
        let _ = self.answer.send(answer);
    }
}
