//! What the clients of a load share: when to stop, how far they are, and messages that one of them
//! leaves for another.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use tokio::sync::watch;
use tokio::time::sleep;

use super::dice::{dice, fate};
use super::drafts::Draft;
use super::mix::Mix;
use crate::proof::actor::Actor;
use crate::proof::history::{Outcome, Published};

/// How many messages wait for one role at most; the oldest are forgotten.
const MOST: usize = 1_000;

/// A message that waits for the client whose role it is to do something about it.
pub struct Left {
    pub id: String,
    /// What its dice are thrown for: the payload, and what tells this time from others.
    pub purpose: String,
}

/// The board of one load.
pub struct Board {
    pub seed: u64,
    pub mix: Mix,
    over: AtomicBool,
    published: watch::Sender<u64>,
    /// How many live messages there were a moment ago.
    backlog: AtomicU64,
    pub to_delete: Queue,
    pub to_update: Queue,
    pub to_watch: Queue,
    pub dead: Queue,
}

/// First in, first out, and what is too much is forgotten.
#[derive(Default)]
pub struct Queue(Mutex<VecDeque<Left>>);

impl Queue {
    pub fn push(&self, id: &str, purpose: &str) {
        let mut queue = self.0.lock().unwrap();
        if queue.len() == MOST {
            queue.pop_front();
        }
        queue.push_back(Left { id: id.to_owned(), purpose: purpose.to_owned() });
    }

    pub fn pop(&self) -> Option<Left> {
        self.0.lock().unwrap().pop_front()
    }
}

impl Board {
    pub fn new(seed: u64, mix: Mix) -> Board {
        Board {
            seed,
            mix,
            over: AtomicBool::default(),
            published: watch::Sender::new(0),
            backlog: AtomicU64::default(),
            to_delete: Queue::default(),
            to_update: Queue::default(),
            to_watch: Queue::default(),
            dead: Queue::default(),
        }
    }

    /// Is the load to end?
    pub fn over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Ends the load.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Dice of this load.
    pub fn dice(&self, purpose: impl std::hash::Hash) -> StdRng {
        dice(self.seed, purpose)
    }

    /// How many messages were made by publishes answered 2xx, now and from now on.
    pub fn published(&self) -> watch::Receiver<u64> {
        self.published.subscribe()
    }

    /// Counts a publish, and leaves its message to those whose turn it is by its fate.
    pub fn tell(&self, draft: &Draft, outcome: &Outcome<Published>) {
        let Outcome::Ok(Published { id, duplicate: false, .. }) = outcome else { return };
        self.published.send_modify(|published| *published += 1);
        let payload = &draft.publish.payload;
        let fate = fate(self.seed, payload);
        if fate.deleted && self.mix.deleters > 0 {
            self.to_delete.push(id, payload);
        }
        if fate.updated && self.mix.updaters > 0 {
            self.to_update.push(id, payload);
        }
        if fate.watched && self.mix.watchers > 0 {
            self.to_watch.push(id, payload);
        }
    }

    /// Waits until there is room for more messages, or the load ends.
    pub async fn room(&self) {
        while self.mix.backlog > 0
            && self.backlog.load(Ordering::Relaxed) >= self.mix.backlog
            && !self.over()
        {
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Looks again and again at how many messages there are.
    pub async fn gauge(&self, mut actor: Actor) {
        while self.mix.backlog > 0 && !self.over() {
            if let Outcome::Ok(topic) = actor.topic().await {
                let count = |name: &str| topic["counts"][name].as_u64().unwrap_or(0);
                let backlog = ["delayed", "ready", "leased", "blocked"].map(count).iter().sum();
                self.backlog.store(backlog, Ordering::Relaxed);
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// A short rest, longer after a request that came to nothing.
    pub async fn rest(&self, actor: &mut Actor, answered: bool, most: u64) {
        use rand::Rng;
        let ms = if answered { actor.random.random_range(0..=most) } else { 20 };
        if ms > 0 {
            sleep(Duration::from_millis(ms)).await;
        }
    }
}
