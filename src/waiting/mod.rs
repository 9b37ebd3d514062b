//! Long polls. A consumer that finds nothing takes a seat in its topic's room; one task per room asks Redis for all who
//! sit there, oldest first, and sleeps until the next message falls due or somebody publishes. Nothing ticks: an idle
//! room costs nothing, and no connection to Redis is held for a consumer that waits.

mod room;

use crate::{
    error::Error,
    metrics::Metrics,
    model::TopicName,
    store::{Grants, Store, Wake, Want},
};
use room::{Room, Seat};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::{mpsc, oneshot, watch};

/// A seat whose want is with Redis when its time is over waits this much longer for what may have been granted.
const LAST_CALL: Duration = Duration::from_millis(400);

/// All rooms of one instance. Cheap to clone.
#[derive(Clone)]
pub struct WaitingRooms {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    metrics: Arc<Metrics>,
    rooms: Mutex<HashMap<TopicName, Room>>,
    next_seat: AtomicU64,
    closing: watch::Sender<bool>,
}

impl WaitingRooms {
    /// Rooms over `store`, and the task that passes wake-ups on to them.
    pub fn open(
        store: Store,
        metrics: Arc<Metrics>,
        mut woken: mpsc::UnboundedReceiver<Wake>,
    ) -> Self {
        let inner = Arc::new(Inner {
            store,
            metrics,
            rooms: Mutex::default(),
            next_seat: AtomicU64::new(0),
            closing: watch::Sender::new(false),
        });
        let this = Self { inner };
        let local = this.clone();
        tokio::spawn(async move {
            while let Some(wake) = woken.recv().await {
                local.wake(&wake);
            }
        });
        let remote = this.clone();
        tokio::spawn(async move {
            let mut steps = remote.inner.store.clock_steps();
            tokio::select! {
                () = remote.inner.store.listen_for_wakes(|wake| remote.wake(&wake)) => {}
                () = async { while steps.changed().await.is_ok() { remote.wake(&Wake::All) } } => {}
                () = remote.closed() => {}
            }
        });
        this
    }

    /// Leases what is ready, or waits up to `wait` until something is.
    ///
    /// Errors: those of [`Store::lease`], for the first look; a Redis that goes away later is waited for.
    pub async fn lease(
        &self,
        topic: &TopicName,
        want: Want,
        wait: Duration,
    ) -> Result<Grants, Error> {
        // Whoever waits already was first.
        if wait.is_zero() || !self.lock().contains_key(topic) {
            let outcome = self.inner.store.lease(topic, want, false).await?;
            if wait.is_zero() || !outcome.grants.messages().is_empty() {
                return Ok(outcome.grants);
            }
        }
        let (number, mut granted) = self.sit_down(topic, want);
        let seat = SeatGuard { rooms: self, topic, number };
        tokio::select! {
            grants = &mut granted => return Ok(grants.unwrap_or_default()),
            () = tokio::time::sleep(wait) => {}
            () = self.closed() => {}
        }
        if seat.stand_up() {
            return Ok(Grants::default());
        }
        let last = tokio::time::timeout(LAST_CALL, granted).await;
        Ok(last.ok().and_then(Result::ok).unwrap_or_default())
    }

    /// Answers everybody who waits, with nothing; nobody waits from now on.
    pub fn close(&self) {
        self.inner.closing.send_replace(true);
    }

    async fn closed(&self) {
        // An error means that the rooms are gone, which is closed too.
        let _ = self.inner.closing.subscribe().wait_for(|closing| *closing).await;
    }

    fn wake(&self, wake: &Wake) {
        let rooms = self.lock();
        match wake {
            Wake::Topic(topic) => {
                if let Some(room) = rooms.get(topic) {
                    room.bell.notify_one();
                }
            }
            Wake::All => rooms.values().for_each(|room| room.bell.notify_one()),
        }
    }

    fn sit_down(&self, topic: &TopicName, want: Want) -> (u64, oneshot::Receiver<Grants>) {
        let (grants, granted) = oneshot::channel();
        let number = self.inner.next_seat.fetch_add(1, Ordering::Relaxed);
        let seat = Seat { number, want, asked: false, grants };
        let mut rooms = self.lock();
        match rooms.get_mut(topic) {
            Some(room) => room.seats.push_back(seat),
            None => {
                let mut room = Room::default();
                room.seats.push_back(seat);
                tokio::spawn(self.clone().serve(topic.clone(), room.bell.clone()));
                rooms.insert(topic.clone(), room);
            }
        }
        self.inner.metrics.waiters.inc();
        (number, granted)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TopicName, Room>> {
        // Nothing in here panics half way through a change.
        self.inner.rooms.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Frees the seat however the wait ends: a consumer that goes away leaves nothing behind.
struct SeatGuard<'a> {
    rooms: &'a WaitingRooms,
    topic: &'a TopicName,
    number: u64,
}

impl SeatGuard<'_> {
    /// Leaves, unless Redis is being asked for this seat at the moment.
    fn stand_up(&self) -> bool {
        let mut rooms = self.rooms.lock();
        let Some(room) = rooms.get_mut(self.topic) else { return false };
        match room.seats.iter().position(|seat| seat.number == self.number) {
            Some(at) if !room.seats[at].asked => {
                room.seats.remove(at);
                room.ring_if_empty();
                true
            }
            _ => false,
        }
    }
}

impl Drop for SeatGuard<'_> {
    fn drop(&mut self) {
        self.rooms.inner.metrics.waiters.dec();
        let mut rooms = self.rooms.lock();
        if let Some(room) = rooms.get_mut(self.topic) {
            room.seats.retain(|seat| seat.number != self.number);
            room.ring_if_empty();
        }
    }
}
