//! Who waits for which topics. A waiter stands in the queue of each topic that it waits for, but it is one waiter: a queue
//! claims it before Redis is asked on its behalf, and no other queue does so until that claim has ended, so that it is
//! never granted twice. Nothing in here waits or talks to Redis; the list is changed under one lock.

use crate::{
    model::TopicName,
    store::{Grants, LeaseOptions},
};
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};
use tokio::sync::{Notify, oneshot, watch};

/// Waiters that are asked for at once: one message must not cost a question for each of thousands who wait.
const MAX_CLAIMED: usize = 64;

/// All waiters of an instance.
#[derive(Default)]
pub(super) struct WaitList {
    queues: HashMap<TopicName, Queue>,
    waiters: HashMap<u64, Waiter>,
    /// Waiters are numbered as they come, so the lowest number is the oldest.
    next: u64,
}

/// The waiters for one topic, by number.
#[derive(Default)]
struct Queue {
    numbers: BTreeSet<u64>,
    notify: Arc<Notify>,
    /// Asks of Redis that began.
    begun: u64,
    /// The last of them that found nothing for somebody.
    settled: watch::Sender<u64>,
}

/// A consumer that waits.
struct Waiter {
    options: LeaseOptions,
    topics: Arc<[TopicName]>,
    grants: oneshot::Sender<Grants>,
    /// Redis is being asked for it right now.
    claimed: bool,
    /// Its time is over: it goes as soon as the claim ends.
    over: bool,
    /// Of queues that could ask for nobody because of the claim.
    blocked: Vec<Arc<Notify>>,
}

/// What the task of a topic may do now.
pub(super) enum Claim {
    /// Ask for these, oldest first; they are claimed.
    Ask(Vec<(u64, LeaseOptions)>),
    /// Other queues ask for everybody who waits here: the task is notified when that is over.
    Blocked,
    /// Nobody waits here: the queue is gone.
    Empty,
}

impl WaitList {
    /// Adds a waiter: its number, and the topics whose queues are new and need a task to serve them.
    pub fn add(
        &mut self,
        topics: &[TopicName],
        options: LeaseOptions,
        grants: oneshot::Sender<Grants>,
    ) -> (u64, Vec<(TopicName, Arc<Notify>)>) {
        let number = self.next;
        self.next += 1;
        let mut opened = Vec::new();
        for topic in topics {
            if let Some(queue) = self.queues.get(topic)
                && !self.is_waited_for(topic, options.push)
            {
                // What those who wait here know of the topic is not what this one wants to know.
                queue.notify.notify_one();
            }
            let queue = self.queues.entry(topic.clone()).or_insert_with(|| {
                let queue = Queue::default();
                opened.push((topic.clone(), queue.notify.clone()));
                queue
            });
            queue.numbers.insert(number);
        }
        let (claimed, over, blocked) = (false, false, Vec::new());
        let waiter = Waiter { options, topics: topics.into(), grants, claimed, over, blocked };
        self.waiters.insert(number, waiter);
        (number, opened)
    }

    /// Does somebody wait for this topic who is, as `push` says, dueq itself, to send its messages, or a consumer? What
    /// the one may have is never the other's, though both may wait here while the topic changes.
    pub fn is_waited_for(&self, topic: &TopicName, push: bool) -> bool {
        let Some(queue) = self.queues.get(topic) else { return false };
        let of = |number| {
            self.waiters.get(number).is_some_and(|waiter: &Waiter| waiter.options.push == push)
        };
        queue.numbers.is_empty() || queue.numbers.iter().any(of)
    }

    /// Has a queue, if there is one, look whether its topic has more than its waiters want: it has not, once this ask or a
    /// later one has settled. Where the queue goes before, nobody waits there any more.
    pub fn inquire(&self, topic: &TopicName) -> Option<(watch::Receiver<u64>, u64)> {
        let queue = self.queues.get(topic)?;
        queue.notify.notify_one();
        Some((queue.settled.subscribe(), queue.begun + 1))
    }

    /// Notifies the task of this topic.
    pub fn notify(&self, topic: &TopicName) {
        if let Some(queue) = self.queues.get(topic) {
            queue.notify.notify_one();
        }
    }

    /// Notifies the tasks of all topics.
    pub fn notify_all(&self) {
        self.queues.values().for_each(|queue| queue.notify.notify_one());
    }

    /// Claims the oldest waiters for a topic whom no other queue has claimed.
    ///
    /// A queue that finds one at least learns all about its topic by asking for that one, so it leaves no notification
    /// with the others. A queue that finds none leaves its notification once. Hence a wake-up makes a queue ask once
    /// however many claims it meets, and queues do not keep one another awake.
    pub fn claim(&mut self, topic: &TopicName) -> Claim {
        let Some(queue) = self.queues.get_mut(topic) else { return Claim::Empty };
        let Some(oldest) = queue.numbers.first() else {
            self.queues.remove(topic);
            return Claim::Empty;
        };
        let mut asked = Vec::new();
        for number in &queue.numbers {
            if asked.len() == MAX_CLAIMED {
                break;
            }
            if let Some(waiter) = self.waiters.get_mut(number).filter(|waiter| !waiter.claimed) {
                waiter.claimed = true;
                asked.push((*number, waiter.options));
            }
        }
        if !asked.is_empty() {
            queue.begun += 1;
            return Claim::Ask(asked);
        }
        if let Some(waiter) = self.waiters.get_mut(oldest)
            && !waiter.blocked.iter().any(|notify| Arc::ptr_eq(notify, &queue.notify))
        {
            waiter.blocked.push(queue.notify.clone());
        }
        Claim::Blocked
    }

    /// The ask that began last has found nothing for somebody who waits for this topic.
    pub fn settle(&self, topic: &TopicName) {
        if let Some(queue) = self.queues.get(topic) {
            queue.settled.send_replace(queue.begun);
        }
    }

    /// Ends a claim that came to nothing.
    pub fn release(&mut self, number: u64) {
        let Some(waiter) = self.waiters.get_mut(&number) else { return };
        if waiter.over {
            self.take(number);
            return;
        }
        waiter.claimed = false;
        waiter.blocked.drain(..).for_each(|notify| notify.notify_one());
    }

    /// Ends a claim with what was granted, and the wait with it. Gives back what nobody is there to take.
    pub fn grant(&mut self, number: u64, grants: Grants) -> Result<(), Grants> {
        match self.take(number) {
            Some(waiter) => waiter.grants.send(grants),
            None => Err(grants),
        }
    }

    /// The waiter's time is over: true if it is removed with nothing. While it is claimed it stays until the claim has
    /// ended, and is not claimed again; when it was granted something, that is on its way.
    pub fn expire(&mut self, number: u64) -> bool {
        match self.waiters.get_mut(&number) {
            Some(waiter) if waiter.claimed => {
                waiter.over = true;
                false
            }
            Some(_) => self.take(number).is_some(),
            None => false,
        }
    }

    /// Removes a waiter that is gone, claimed or not. It may have been removed already.
    pub fn remove(&mut self, number: u64) {
        self.take(number);
    }

    /// Does nobody wait for this topic?
    pub fn is_empty(&self, topic: &TopicName) -> bool {
        self.queues.get(topic).is_none_or(|queue| queue.numbers.is_empty())
    }

    fn take(&mut self, number: u64) -> Option<Waiter> {
        let mut waiter = self.waiters.remove(&number)?;
        for topic in waiter.topics.iter() {
            let Some(queue) = self.queues.get_mut(topic) else { continue };
            queue.numbers.remove(&number);
            if queue.numbers.is_empty() {
                // The task must come and remove an empty queue.
                queue.notify.notify_one();
            }
        }
        waiter.blocked.drain(..).for_each(|notify| notify.notify_one());
        Some(waiter)
    }
}

#[cfg(test)]
mod tests;
