//! The consumers that wait, by topic. A waiter is in the queue of each of its topics. A queue claims the waiter before it
//! leases on its behalf, and no other queue can claim it until that claim ends, so a waiter is never granted messages
//! twice. Nothing in here waits or calls Redis; one lock guards the list.

use dueq_model::TopicName;
use dueq_store::{Grants, LeaseOptions};
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};
use tokio::sync::{Notify, oneshot, watch};

/// Maximum number of waiters per claim. Without it, one message would cost a lease for each of thousands of waiters.
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
    /// The number of lease calls that were started.
    calls: u64,
    /// The last of these calls that left a waiter without messages, and so nothing for others.
    settled: watch::Sender<u64>,
}

/// A waiting consumer.
struct Waiter {
    options: LeaseOptions,
    topics: Arc<[TopicName]>,
    grants: oneshot::Sender<Grants>,
    /// A lease on its behalf is under way.
    claimed: bool,
    /// Its wait has ended: it is removed as soon as the claim ends.
    expired: bool,
    /// The queues that found nobody to claim because of this claim.
    blocked: Vec<Arc<Notify>>,
}

/// What the task of a topic does next.
pub(super) enum Claim {
    /// Lease for these waiters, oldest first. They are claimed.
    Claimed(Vec<(u64, LeaseOptions)>),
    /// Other queues have claimed all waiters. The task is notified when a claim ends.
    Blocked,
    /// No waiters are left, and the queue was removed.
    Empty,
}

impl WaitList {
    /// Adds a waiter. Returns its number, and the topics whose queues are new and need a task.
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
                && !self.has_waiters(topic, options.push)
            {
                // The task knows what the topic has for the other kind of waiter, not for this one.
                queue.notify.notify_one();
            }
            let queue = self.queues.entry(topic.clone()).or_insert_with(|| {
                let queue = Queue::default();
                opened.push((topic.clone(), queue.notify.clone()));
                queue
            });
            queue.numbers.insert(number);
        }
        let (claimed, expired, blocked) = (false, false, Vec::new());
        let waiter = Waiter { options, topics: topics.into(), grants, claimed, expired, blocked };
        self.waiters.insert(number, waiter);
        (number, opened)
    }

    /// Returns whether the topic has waiters of this kind: with `push` dueq's own senders, else consumers. A message is
    /// only ever for one of the kinds, but both may wait here while the topic changes.
    pub fn has_waiters(&self, topic: &TopicName, push: bool) -> bool {
        let Some(queue) = self.queues.get(topic) else { return false };
        let same_kind = |number| {
            self.waiters.get(number).is_some_and(|waiter: &Waiter| waiter.options.push == push)
        };
        queue.numbers.is_empty() || queue.numbers.iter().any(same_kind)
    }

    /// Makes the topic's queue, if there is one, find out whether the topic has more messages than its waiters want. It has
    /// none once `settled` reaches the returned call. If the queue is removed first, nobody waits there any more.
    pub fn inquire(&self, topic: &TopicName) -> Option<(watch::Receiver<u64>, u64)> {
        let queue = self.queues.get(topic)?;
        queue.notify.notify_one();
        Some((queue.settled.subscribe(), queue.calls + 1))
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

    /// Claims the topic's oldest waiters that no other queue has claimed.
    ///
    /// If the queue can claim at least one, its lease call shows all there is to know about the topic, so the queue does
    /// not need to be notified when other claims end. If it can claim none, it registers for one notification. A wake-up
    /// therefore leads to one lease call, however many claims are in the way, and queues do not keep each other awake.
    pub fn claim(&mut self, topic: &TopicName) -> Claim {
        let Some(queue) = self.queues.get_mut(topic) else { return Claim::Empty };
        let Some(oldest) = queue.numbers.first() else {
            self.queues.remove(topic);
            return Claim::Empty;
        };
        let mut claimed = Vec::new();
        for number in &queue.numbers {
            if claimed.len() == MAX_CLAIMED {
                break;
            }
            if let Some(waiter) = self.waiters.get_mut(number).filter(|waiter| !waiter.claimed) {
                waiter.claimed = true;
                claimed.push((*number, waiter.options));
            }
        }
        if !claimed.is_empty() {
            queue.calls += 1;
            return Claim::Claimed(claimed);
        }
        if let Some(waiter) = self.waiters.get_mut(oldest)
            && !waiter.blocked.iter().any(|notify| Arc::ptr_eq(notify, &queue.notify))
        {
            waiter.blocked.push(queue.notify.clone());
        }
        Claim::Blocked
    }

    /// Records that the topic's last lease call left a waiter without messages.
    pub fn settle(&self, topic: &TopicName) {
        if let Some(queue) = self.queues.get(topic) {
            queue.settled.send_replace(queue.calls);
        }
    }

    /// Ends a claim without messages.
    pub fn release(&mut self, number: u64) {
        let Some(waiter) = self.waiters.get_mut(&number) else { return };
        if waiter.expired {
            self.take(number);
            return;
        }
        waiter.claimed = false;
        waiter.blocked.drain(..).for_each(|notify| notify.notify_one());
    }

    /// Ends a claim and the wait with the granted messages. Returns them as the error if the waiter is gone.
    pub fn grant(&mut self, number: u64, grants: Grants) -> Result<(), Grants> {
        match self.take(number) {
            Some(waiter) => waiter.grants.send(grants),
            None => Err(grants),
        }
    }

    /// Ends a waiter's wait. Returns true if the waiter was removed without messages. A claimed waiter stays until its
    /// claim ends, and is not claimed again. A waiter that was granted messages is about to receive them.
    pub fn expire(&mut self, number: u64) -> bool {
        match self.waiters.get_mut(&number) {
            Some(waiter) if waiter.claimed => {
                waiter.expired = true;
                false
            }
            Some(_) => self.take(number).is_some(),
            None => false,
        }
    }

    /// Removes a waiter, claimed or not, if it is still there.
    pub fn remove(&mut self, number: u64) {
        self.take(number);
    }

    /// Returns whether nobody waits for this topic.
    pub fn is_empty(&self, topic: &TopicName) -> bool {
        self.queues.get(topic).is_none_or(|queue| queue.numbers.is_empty())
    }

    fn take(&mut self, number: u64) -> Option<Waiter> {
        let mut waiter = self.waiters.remove(&number)?;
        for topic in waiter.topics.iter() {
            let Some(queue) = self.queues.get_mut(topic) else { continue };
            queue.numbers.remove(&number);
            if queue.numbers.is_empty() {
                // The topic's task removes the empty queue.
                queue.notify.notify_one();
            }
        }
        waiter.blocked.drain(..).for_each(|notify| notify.notify_one());
        Some(waiter)
    }
}

#[cfg(test)]
mod tests;
