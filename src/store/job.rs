//! Requests on their way to Redis, and how they are grouped into calls.

use super::{
    ack::Ack,
    call::{Call, Group, Single, Ticket, Verb},
    extend::Extend,
    lease::Lease,
    nack::Nack,
    publish::{Publish, PublishSpecial},
    registry::Topic,
    reply::CallError,
    submit::Grouped,
};
use std::{collections::HashMap, sync::Arc, time::Instant};

/// Tells topics from each other, and holds nothing of them.
pub(super) type TopicMark = usize;

/// What a request adds to a call.
pub(super) struct Load {
    /// The topic that it works on, if it is one of those that go in groups.
    pub topic: Option<TopicMark>,
    /// It grants, and so comes after whatever else there is for its topic.
    pub grants: bool,
    pub bytes: usize,
    pub messages: usize,
}

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
    /// One that looks at a whole topic or operates on it: it comes after all others.
    Behind(Box<dyn Call>, Instant),
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
            Self::Alone(_, since) | Self::Behind(_, since) => *since,
        }
    }

    pub fn load(&self) -> Load {
        fn load<V: Verb>(ticket: &Ticket<V>) -> Load {
            let topic = Some(Arc::as_ptr(&ticket.topic).addr());
            let (bytes, messages) = (ticket.verb.bytes(), ticket.verb.messages());
            Load { topic, grants: false, bytes, messages }
        }
        match self {
            Self::Ack(ticket) => load(ticket),
            Self::Nack(ticket) => load(ticket),
            Self::Extend(ticket) => load(ticket),
            Self::Publish(ticket) => load(ticket),
            Self::PublishSpecial(ticket) => load(ticket),
            Self::Lease(ticket) => {
                let messages = ticket.verb.expects(&ticket.topic);
                Load { grants: true, messages, ..load(ticket) }
            }
            Self::Alone(..) | Self::Behind(..) => {
                Load { topic: None, grants: false, bytes: 0, messages: 1 }
            }
        }
    }

    /// Has everybody gone who waited for its answer?
    pub fn is_abandoned(&self) -> bool {
        match self {
            Self::Ack(ticket) => ticket.is_abandoned(),
            Self::Nack(ticket) => ticket.is_abandoned(),
            Self::Extend(ticket) => ticket.is_abandoned(),
            Self::Publish(ticket) => ticket.is_abandoned(),
            Self::PublishSpecial(ticket) => ticket.is_abandoned(),
            Self::Lease(ticket) => ticket.is_abandoned(),
            Self::Alone(call, _) | Self::Behind(call, _) => call.is_abandoned(),
        }
    }

    /// Answers a request that was never sent.
    pub fn refuse(self) {
        fn refuse<V: Verb>(ticket: Ticket<V>) {
            ticket.answer(Err(CallError::Unavailable));
        }
        match self {
            Self::Ack(ticket) => refuse(ticket),
            Self::Nack(ticket) => refuse(ticket),
            Self::Extend(ticket) => refuse(ticket),
            Self::Publish(ticket) => refuse(ticket),
            Self::PublishSpecial(ticket) => refuse(ticket),
            Self::Lease(ticket) => refuse(ticket),
            Self::Alone(call, _) | Self::Behind(call, _) => call.refuse(),
        }
    }
}

impl Job {
    /// A seeded bug: a publish is answered that nothing was sent, and goes on waiting to be sent.
    pub fn refuse_and_keep(&mut self) {
        if let Self::Publish(ticket) = self
            && let Some(answer) = ticket.answer.take()
        {
            let _ = answer.send(Err(CallError::Unavailable));
        }
    }
}

/// The requests of one verb, by topic.
struct Groups<V: Grouped> {
    groups: Vec<Group<V>>,
    open: HashMap<*const Topic, usize>,
}

impl<V: Grouped> Groups<V> {
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
    let (mut calls, mut behind) = (Vec::new(), Vec::new());
    for job in jobs {
        match job {
            Job::Ack(ticket) => acks.add(ticket),
            Job::Nack(ticket) => nacks.add(ticket),
            Job::Extend(ticket) => extends.add(ticket),
            Job::Publish(ticket) => publishes.add(ticket),
            Job::PublishSpecial(ticket) => specials.add(ticket),
            Job::Lease(ticket) => leases.add(ticket),
            Job::Alone(call, _) => calls.push(call),
            Job::Behind(call, _) => behind.push(call),
        }
    }
    calls.extend(acks.into_calls());
    calls.extend(nacks.into_calls());
    calls.extend(extends.into_calls());
    calls.extend(publishes.into_calls());
    calls.extend(specials.into_calls());
    calls.extend(leases.into_calls());
    calls.append(&mut behind);
    calls
}

impl Single {
    /// A job of its own for one command.
    pub fn job(self) -> Job {
        Job::Alone(Box::new(self), Instant::now())
    }
}
