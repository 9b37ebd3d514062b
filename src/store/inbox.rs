//! Where requests wait while the calls before them are under way. Whichever lane is free takes all that waits, and so
//! a group is as large as the load asks for: alone when the service is idle, hundreds when it is busy.

use super::{
    ack::Ack,
    call::{Call, Group, Single, Ticket, Verb},
    extend::Extend,
    lease::Lease,
    nack::Nack,
    publish::{Publish, PublishSpecial},
    registry::Topic,
    reply::CallError,
};
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::sync::Notify;

/// Requests that a lane takes at once, at most.
const TAKE: usize = 1024;
/// Bytes of bodies that a lane takes at once, about.
const TAKE_BYTES: usize = 1024 * 1024;

/// A request in the inbox.
pub(crate) enum Job {
    Ack(Ticket<Ack>),
    Nack(Ticket<Nack>),
    Extend(Ticket<Extend>),
    Publish(Ticket<Publish>),
    PublishSpecial(Ticket<PublishSpecial>),
    Lease(Ticket<Lease>),
    /// A call that is made for one request alone.
    Alone(Box<dyn Call>, Instant),
}

impl Job {
    /// When it came.
    pub fn since(&self) -> Instant {
        match self {
            Self::Ack(ticket) => ticket.since,
            Self::Nack(ticket) => ticket.since,
            Self::Extend(ticket) => ticket.since,
            Self::Publish(ticket) => ticket.since,
            Self::PublishSpecial(ticket) => ticket.since,
            Self::Lease(ticket) => ticket.since,
            Self::Alone(_, since) => *since,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Publish(ticket) => ticket.verb.bytes(),
            Self::PublishSpecial(ticket) => ticket.verb.bytes(),
            _ => 0,
        }
    }

    /// Answers a request that was never sent.
    fn refuse(self) {
        fn refuse<V: Verb>(ticket: Ticket<V>) {
            let _ = ticket.answer.send(Err(CallError::Unavailable));
        }
        match self {
            Self::Ack(ticket) => refuse(ticket),
            Self::Nack(ticket) => refuse(ticket),
            Self::Extend(ticket) => refuse(ticket),
            Self::Publish(ticket) => refuse(ticket),
            Self::PublishSpecial(ticket) => refuse(ticket),
            Self::Lease(ticket) => refuse(ticket),
            Self::Alone(call, _) => call.refuse(),
        }
    }
}

/// The requests of one verb, by topic.
struct Groups<V: Verb> {
    groups: Vec<Group<V>>,
    open: HashMap<*const Topic, usize>,
}

impl<V: Verb> Groups<V> {
    fn new() -> Self {
        Self { groups: Vec::new(), open: HashMap::new() }
    }

    fn add(&mut self, ticket: Ticket<V>) {
        let topic = Arc::as_ptr(&ticket.topic);
        let ticket = match self.open.get(&topic) {
            Some(&at) => match self.groups[at].add(ticket) {
                Ok(()) => return,
                Err(ticket) => ticket,
            },
            None => ticket,
        };
        self.open.insert(topic, self.groups.len());
        self.groups.push(Group::new(ticket));
    }

    fn into_calls(self) -> impl Iterator<Item = Box<dyn Call>> {
        self.groups.into_iter().map(|group| Box::new(group) as Box<dyn Call>)
    }
}

/// Groups jobs into calls. What ends leases and what publishes goes before what grants, so that a request which acks
/// and leases acks first, and a grant sees all that came with it.
pub(crate) fn group(jobs: Vec<Job>) -> Vec<Box<dyn Call>> {
    let (mut acks, mut nacks, mut extends) = (Groups::new(), Groups::new(), Groups::new());
    let (mut publishes, mut specials) = (Groups::new(), Groups::new());
    let mut leases = Groups::new();
    let mut calls = Vec::new();
    for job in jobs {
        match job {
            Job::Ack(ticket) => acks.add(ticket),
            Job::Nack(ticket) => nacks.add(ticket),
            Job::Extend(ticket) => extends.add(ticket),
            Job::Publish(ticket) => publishes.add(ticket),
            Job::PublishSpecial(ticket) => specials.add(ticket),
            Job::Lease(ticket) => leases.add(ticket),
            Job::Alone(call, _) => calls.push(call),
        }
    }
    calls.extend(acks.into_calls());
    calls.extend(nacks.into_calls());
    calls.extend(extends.into_calls());
    calls.extend(publishes.into_calls());
    calls.extend(specials.into_calls());
    calls.extend(leases.into_calls());
    calls
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    closed: bool,
}

/// The inbox that all lanes share.
#[derive(Default)]
pub(crate) struct Inbox {
    queue: Mutex<Queue>,
    filled: Notify,
}

impl Inbox {
    /// Puts a request in; refused at once when the lanes are gone.
    pub fn put(&self, job: Job) {
        self.put_all([job]);
    }

    /// Puts requests in that a lane takes together, in this order.
    pub fn put_all(&self, jobs: impl IntoIterator<Item = Job>) {
        let mut queue = self.lock();
        if queue.closed {
            drop(queue);
            jobs.into_iter().for_each(Job::refuse);
        } else {
            queue.jobs.extend(jobs);
            drop(queue);
            self.filled.notify_one();
        }
    }

    /// Waits until there is something to take; false when the inbox is closed and empty.
    pub async fn wait(&self) -> bool {
        loop {
            {
                let queue = self.lock();
                if !queue.jobs.is_empty() {
                    return true;
                }
                if queue.closed {
                    // The other lanes sleep on the same bell.
                    self.filled.notify_one();
                    return false;
                }
            }
            self.filled.notified().await;
        }
    }

    /// Takes what waits, oldest first, within the bounds. What was put in together is taken together.
    pub fn take(&self) -> Vec<Job> {
        let mut queue = self.lock();
        let (mut taken, mut bytes) = (0, 0);
        let jobs = &queue.jobs;
        while let Some(job) = jobs.get(taken) {
            let full = taken >= TAKE || bytes >= TAKE_BYTES;
            if taken > 0 && full && job.since() != jobs[taken - 1].since() {
                break;
            }
            bytes += job.bytes();
            taken += 1;
        }
        let jobs: Vec<_> = queue.jobs.drain(..taken).collect();
        if !queue.jobs.is_empty() {
            self.filled.notify_one();
        }
        jobs
    }

    /// Refuses what has waited longer than `limit`: it was not sent and will not be.
    pub fn refuse_older(&self, limit: Duration) {
        let late: Vec<_> = {
            let mut queue = self.lock();
            let late = queue.jobs.iter().take_while(|job| job.since().elapsed() >= limit).count();
            queue.jobs.drain(..late).collect()
        };
        late.into_iter().for_each(Job::refuse);
    }

    /// Refuses everything from now on; what waits is still served.
    pub fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_one();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Queue> {
        // Nothing in here panics half way through a change.
        self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Single {
    /// A job of its own for one command.
    pub fn job(self) -> Job {
        Job::Alone(Box::new(self), Instant::now())
    }
}
