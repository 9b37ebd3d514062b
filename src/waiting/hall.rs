//! Who sits where. A consumer has a seat in the room of each topic that it waits for, but it is one consumer: a room
//! claims it before Redis is asked on its behalf, and no other room does so until that claim has ended, so that it is
//! never granted twice. Nothing in here waits or talks to Redis; the hall is changed under one lock.

use crate::{
    model::TopicName,
    store::{Grants, Want},
};
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};
use tokio::sync::{Notify, oneshot, watch};

/// Seats that are asked for at once: one message must not cost a question for each of thousands who wait.
const ASK: usize = 64;

/// All rooms of an instance, and the consumers in them.
#[derive(Default)]
pub(super) struct Hall {
    rooms: HashMap<TopicName, Room>,
    consumers: HashMap<u64, Consumer>,
    /// Consumers are numbered as they come, so the lowest number is the oldest.
    next: u64,
}

/// The consumers that wait for one topic, by number.
#[derive(Default)]
struct Room {
    seats: BTreeSet<u64>,
    bell: Arc<Notify>,
    /// Asks of Redis that began.
    begun: u64,
    /// The last of them that found nothing for somebody.
    settled: watch::Sender<u64>,
}

/// A consumer that waits.
struct Consumer {
    want: Want,
    topics: Arc<[TopicName]>,
    grants: oneshot::Sender<Grants>,
    /// Redis is being asked for it right now.
    claimed: bool,
    /// Its time is over: it goes as soon as the claim ends.
    over: bool,
    /// Of rooms that could ask for nobody because of the claim.
    bells: Vec<Arc<Notify>>,
}

/// What a room's task may do now.
pub(super) enum Turn {
    /// Ask for these, oldest first; they are claimed.
    Ask(Vec<(u64, Want)>),
    /// Other rooms ask for everybody who sits here: the bell rings when that is over.
    Blocked,
    /// Nobody sits here: the room is gone.
    Closed,
}

impl Hall {
    /// Gives a consumer its seats: its number, and the rooms that are new and need somebody to serve them.
    pub fn sit_down(
        &mut self,
        topics: &[TopicName],
        want: Want,
        grants: oneshot::Sender<Grants>,
    ) -> (u64, Vec<(TopicName, Arc<Notify>)>) {
        let number = self.next;
        self.next += 1;
        let mut opened = Vec::new();
        for topic in topics {
            if let Some(room) = self.rooms.get(topic)
                && !self.is_waited_for(topic, want.push)
            {
                // What those who sit here know of the topic is not what this one wants to know.
                room.bell.notify_one();
            }
            let room = self.rooms.entry(topic.clone()).or_insert_with(|| {
                let room = Room::default();
                opened.push((topic.clone(), room.bell.clone()));
                room
            });
            room.seats.insert(number);
        }
        let (claimed, over, bells) = (false, false, Vec::new());
        let consumer = Consumer { want, topics: topics.into(), grants, claimed, over, bells };
        self.consumers.insert(number, consumer);
        (number, opened)
    }

    /// Does somebody wait for this topic who is, as `push` says, dueq itself, to send its messages, or a consumer? What
    /// the one may have is never the other's, though both may sit here while the topic changes.
    pub fn is_waited_for(&self, topic: &TopicName, push: bool) -> bool {
        let Some(room) = self.rooms.get(topic) else { return false };
        let of = |number| {
            self.consumers.get(number).is_some_and(|seated: &Consumer| seated.want.push == push)
        };
        room.seats.is_empty() || room.seats.iter().any(of)
    }

    /// Has a room, if there is one, look whether its topic has more than those who sit there want: it has not, once this
    /// ask or a later one has settled. Where the room closes before, nobody sits there any more.
    pub fn inquire(&self, topic: &TopicName) -> Option<(watch::Receiver<u64>, u64)> {
        let room = self.rooms.get(topic)?;
        room.bell.notify_one();
        Some((room.settled.subscribe(), room.begun + 1))
    }

    /// Rings the bell of this topic's room.
    pub fn ring(&self, topic: &TopicName) {
        if let Some(room) = self.rooms.get(topic) {
            room.bell.notify_one();
        }
    }

    /// Rings all bells.
    pub fn ring_all(&self) {
        self.rooms.values().for_each(|room| room.bell.notify_one());
    }

    /// Claims the oldest of a room whom no other room has claimed.
    ///
    /// A room that finds one at least learns all about its topic by asking for that one, so it leaves no bell with the
    /// others. A room that finds none leaves its bell once. Hence a wake-up makes a room ask once however many claims
    /// it meets, and rooms do not keep one another awake.
    pub fn claim(&mut self, topic: &TopicName) -> Turn {
        let Some(room) = self.rooms.get_mut(topic) else { return Turn::Closed };
        let Some(oldest) = room.seats.first() else {
            self.rooms.remove(topic);
            return Turn::Closed;
        };
        let mut asked = Vec::new();
        for number in &room.seats {
            if asked.len() == ASK {
                break;
            }
            if let Some(consumer) = self.consumers.get_mut(number).filter(|c| !c.claimed) {
                consumer.claimed = true;
                asked.push((*number, consumer.want));
            }
        }
        if !asked.is_empty() {
            room.begun += 1;
            return Turn::Ask(asked);
        }
        if let Some(consumer) = self.consumers.get_mut(oldest)
            && !consumer.bells.iter().any(|bell| Arc::ptr_eq(bell, &room.bell))
        {
            consumer.bells.push(room.bell.clone());
        }
        Turn::Blocked
    }

    /// The ask that began last has found nothing for somebody who sits there.
    pub fn settle(&self, topic: &TopicName) {
        if let Some(room) = self.rooms.get(topic) {
            room.settled.send_replace(room.begun);
        }
    }

    /// Ends a claim that came to nothing.
    pub fn release(&mut self, number: u64) {
        let Some(consumer) = self.consumers.get_mut(&number) else { return };
        if consumer.over {
            self.remove(number);
            return;
        }
        consumer.claimed = false;
        consumer.bells.drain(..).for_each(|bell| bell.notify_one());
    }

    /// Ends a claim with what was granted, and the consumer's wait with it. Gives back what nobody is there to take.
    pub fn grant(&mut self, number: u64, grants: Grants) -> Result<(), Grants> {
        match self.remove(number) {
            Some(consumer) => consumer.grants.send(grants),
            None => Err(grants),
        }
    }

    /// The consumer's time is over: true if it has left with nothing. While it is claimed it stays until the claim has
    /// ended, and is not claimed again; when it was granted something, that is on its way.
    pub fn stand_up(&mut self, number: u64) -> bool {
        match self.consumers.get_mut(&number) {
            Some(consumer) if consumer.claimed => {
                consumer.over = true;
                false
            }
            Some(_) => self.remove(number).is_some(),
            None => false,
        }
    }

    /// The consumer is gone, claimed or not. It may have left already.
    pub fn leave(&mut self, number: u64) {
        self.remove(number);
    }

    /// Does nobody sit in this room?
    pub fn is_empty(&self, topic: &TopicName) -> bool {
        self.rooms.get(topic).is_none_or(|room| room.seats.is_empty())
    }

    fn remove(&mut self, number: u64) -> Option<Consumer> {
        let mut consumer = self.consumers.remove(&number)?;
        for topic in consumer.topics.iter() {
            let Some(room) = self.rooms.get_mut(topic) else { continue };
            room.seats.remove(&number);
            if room.seats.is_empty() {
                // The task must come and close a room that nobody sits in.
                room.bell.notify_one();
            }
        }
        consumer.bells.drain(..).for_each(|bell| bell.notify_one());
        Some(consumer)
    }
}

#[cfg(test)]
mod tests;
