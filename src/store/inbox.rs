//! Where requests wait while the calls before them are under way. Whichever lane is free takes all that waits, and so
//! a group is as large as the load asks for: alone when the service is idle, hundreds when it is busy.
//!
//! One lane more is for what must not wait behind a busy topic: while the others are all at work it takes requests of
//! topics that none of them is busy with.

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
use crate::seeded;
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::sync::Notify;

/// Messages of one topic that a lane takes at once, at most: a topic with much to do lets others in between.
const TAKE_OF_TOPIC: usize = 128;
/// Messages that a lane takes at once, about.
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

    /// The topic that it works on, if it is one of those that go in groups; bytes and messages that it adds to a call.
    fn load(&self) -> (Option<TopicMark>, usize, usize) {
        fn load<V: Verb>(ticket: &Ticket<V>) -> (Option<TopicMark>, usize, usize) {
            let topic = Arc::as_ptr(&ticket.topic).addr();
            (Some(topic), ticket.verb.bytes(), ticket.verb.messages())
        }
        match self {
            Self::Ack(ticket) => load(ticket),
            Self::Nack(ticket) => load(ticket),
            Self::Extend(ticket) => load(ticket),
            Self::Publish(ticket) => load(ticket),
            Self::PublishSpecial(ticket) => load(ticket),
            Self::Lease(ticket) => load(ticket),
            Self::Alone(..) => (None, 0, 1),
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

impl Job {
    /// A seeded bug: a publish is answered that nothing was sent, and goes on waiting to be sent.
    fn refuse_and_keep(&mut self) {
        if let Self::Publish(ticket) = self {
            let (nobody, _) = tokio::sync::oneshot::channel();
            let answer = std::mem::replace(&mut ticket.answer, nobody);
            let _ = answer.send(Err(CallError::Unavailable));
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
    /// How many lanes, the express one apart, wait for something to do.
    idle: usize,
    /// Topics that lanes are busy with, and how many lanes.
    busy: HashMap<TopicMark, usize>,
}

/// The inbox that all lanes share.
#[derive(Default)]
pub(crate) struct Inbox {
    queue: Mutex<Queue>,
    filled: Notify,
    /// For the express lane.
    express: Notify,
}

/// What a lane took; its topics count as busy until this is dropped.
pub(crate) struct Taken<'a> {
    pub jobs: Vec<Job>,
    inbox: &'a Inbox,
    topics: Vec<TopicMark>,
}

/// Tells topics from each other, and holds nothing of them.
type TopicMark = usize;

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut queue = self.inbox.lock();
        for topic in &self.topics {
            if let Some(lanes) = queue.busy.get_mut(topic) {
                *lanes -= 1;
                if *lanes == 0 {
                    queue.busy.remove(topic);
                }
            }
        }
    }
}

/// A lane that waits, however its waiting ends.
struct Idle<'a>(&'a Inbox);

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        self.0.lock().idle -= 1;
    }
}

impl Queue {
    /// May this request pass those of busy topics?
    fn passes(&self, job: &Job) -> bool {
        job.load().0.is_none_or(|topic| !self.busy.contains_key(&topic))
    }
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
            return;
        }
        let before = queue.jobs.len();
        queue.jobs.extend(jobs);
        // What came together is mostly of one topic.
        let pressing =
            queue.idle == 0 && queue.jobs.get(before).is_some_and(|job| queue.passes(job));
        drop(queue);
        self.filled.notify_one();
        if pressing {
            self.express.notify_one();
        }
    }

    /// Waits until there is something to take; false when the inbox is closed and empty.
    pub async fn wait(&self, express: bool) -> bool {
        loop {
            let _idle = {
                let mut queue = self.lock();
                let found = match express {
                    false => !queue.jobs.is_empty(),
                    true => queue.idle == 0 && queue.jobs.iter().any(|job| queue.passes(job)),
                };
                if found {
                    return true;
                }
                if queue.closed && queue.jobs.is_empty() {
                    // The other lanes sleep on the same bells.
                    self.filled.notify_one();
                    self.express.notify_one();
                    return false;
                }
                queue.idle += usize::from(!express);
                (!express).then(|| Idle(self))
            };
            let bell = if express { &self.express } else { &self.filled };
            bell.notified().await;
        }
    }

    /// Takes what waits, oldest first, within the bounds: of each topic and of all. What was put in together is taken
    /// together, and what is left of a topic stays in its order. The express lane takes nothing of a busy topic.
    pub fn take(&self, express: bool) -> Taken<'_> {
        let mut queue = self.lock();
        let mut jobs = Vec::with_capacity(queue.jobs.len().min(TAKE));
        let mut left = VecDeque::new();
        let mut of_topics: HashMap<TopicMark, usize> = HashMap::new();
        let (mut messages, mut bytes) = (0, 0);
        // When the job before came, and whether it was taken.
        let mut before: Option<(Instant, bool)> = None;
        while let Some(job) = queue.jobs.pop_front() {
            let together = before.filter(|(since, _)| *since == job.since());
            if together.is_none() && (messages >= TAKE || bytes >= TAKE_BYTES) {
                left.push_back(job);
                break;
            }
            let (topic, its_bytes, its_messages) = job.load();
            let of_topic = topic.and_then(|topic| of_topics.get(&topic).copied()).unwrap_or(0);
            let fits = of_topic < TAKE_OF_TOPIC && (!express || queue.passes(&job));
            let take = together.map_or(fits, |(_, taken)| taken);
            before = Some((job.since(), take));
            if take {
                if let Some(topic) = topic {
                    of_topics.insert(topic, of_topic + its_messages);
                }
                messages += its_messages;
                bytes += its_bytes;
                jobs.push(job);
            } else {
                left.push_back(job);
            }
        }
        left.append(&mut queue.jobs);
        queue.jobs = left;
        let topics: Vec<_> = of_topics.into_keys().collect();
        for topic in &topics {
            *queue.busy.entry(*topic).or_default() += 1;
        }
        if !queue.jobs.is_empty() {
            self.filled.notify_one();
        }
        Taken { jobs, inbox: self, topics }
    }

    /// Refuses what has waited longer than `limit`: it was not sent and will not be.
    pub fn refuse_older(&self, limit: Duration) {
        let late: Vec<_> = {
            let mut queue = self.lock();
            let late = queue.jobs.iter().take_while(|job| job.since().elapsed() >= limit).count();
            if seeded::bug("sent after 503") {
                queue.jobs.iter_mut().take(late).for_each(Job::refuse_and_keep);
                return;
            }
            queue.jobs.drain(..late).collect()
        };
        late.into_iter().for_each(Job::refuse);
    }

    /// Refuses everything from now on; what waits is still served.
    pub fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_one();
        self.express.notify_one();
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
