//! Long polls. A consumer that finds nothing takes a seat in the room of each of its topics; one task per room asks Redis
//! for all who sit there, oldest first, and sleeps until the next message falls due or somebody publishes. Nothing ticks:
//! an idle room costs nothing, and no connection to Redis is held for a consumer that waits.

mod alarm;
mod hall;
mod room;

use crate::{
    error::Error,
    metrics::Metrics,
    model::TopicName,
    store::{Grants, Store, Wake, Want},
};
use hall::Hall;
use std::{
    future::pending,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::Instant,
};

/// A consumer whose want is with Redis when its time is over waits this much longer for what may have been granted.
const LAST_CALL: Duration = Duration::from_millis(400);
/// A first look that has not come to an end so long after its consumer's time is over ends.
const LOOK: Duration = Duration::from_millis(250);
/// Whoever looks at several topics in order spends this much, at most, on what those who wait for them already leave.
const GLANCE: Duration = Duration::from_millis(250);

/// All rooms of one instance. Cheap to clone.
#[derive(Clone)]
pub struct WaitingRooms {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    metrics: Arc<Metrics>,
    hall: Mutex<Hall>,
    closing: watch::Sender<bool>,
    pushed: watch::Sender<()>,
}

impl WaitingRooms {
    /// Rooms over `store`, and the task that passes wake-ups on to them.
    pub async fn open(
        store: Store,
        metrics: Arc<Metrics>,
        mut woken: mpsc::UnboundedReceiver<Wake>,
    ) -> Self {
        alarm::start().await;
        let background = metrics.background.clone();
        let inner = Arc::new(Inner {
            store,
            metrics,
            hall: Mutex::default(),
            closing: watch::Sender::new(false),
            pushed: watch::Sender::new(()),
        });
        let this = Self { inner };
        let local = this.clone();
        tokio::spawn(async move {
            while let Some(wake) = woken.recv().await {
                local.wake(&wake);
            }
        });
        let remote = this.clone();
        tokio::spawn(async move { background.keep("wake-ups", || remote.pass_on_wakes()).await });
        this
    }

    /// Passes on wake-ups from elsewhere until the rooms close.
    async fn pass_on_wakes(&self) {
        let mut steps = self.inner.store.clock_steps();
        let mut epochs = self.inner.store.new_epochs();
        tokio::select! {
            () = self.inner.store.listen_for_wakes(|wake| self.wake(&wake)) => {}
            () = async { while steps.changed().await.is_ok() { self.wake(&Wake::All) } } => {}
            () = async { while epochs.changed().await.is_ok() { self.wake(&Wake::All) } } => {}
            () = self.closed() => {}
        }
    }

    /// Leases what is ready in the first of these topics that has something, or waits up to `wait` until one has.
    ///
    /// Errors: those of [`Store::lease`], for the first look; a Redis that goes away later is waited for.
    pub async fn lease(
        &self,
        topics: &[TopicName],
        want: Want,
        wait: Duration,
    ) -> Result<Grants, Error> {
        self.lease_until(topics, want, wait, pending()).await
    }

    /// As [`WaitingRooms::lease`]; the wait also ends with `cut`, which begins with it.
    pub async fn lease_until(
        &self,
        topics: &[TopicName],
        want: Want,
        wait: Duration,
        cut: impl Future<Output = ()>,
    ) -> Result<Grants, Error> {
        let start = Instant::now();
        let end = start + wait;
        let late = end + LOOK;
        for topic in topics {
            // After the last of them nothing is out of order.
            let thorough = (topics.last() != Some(topic)).then_some(start + GLANCE);
            if !wait.is_zero() && self.is_waited_for(topic, want.push, thorough).await {
                continue;
            }
            let outcome = self.inner.store.lease(topic, want, false, late.into_std()).await?;
            if !outcome.grants.messages().is_empty() {
                return Ok(outcome.grants);
            }
            // Many topics, or a slow Redis, or much that has expired.
            if Instant::now() >= late {
                return Ok(Grants::default());
            }
        }
        if wait.is_zero() {
            return Ok(Grants::default());
        }
        let (number, mut granted) = self.sit_down(topics, want);
        let seats = SeatsGuard::new(self, number, want);
        tokio::select! {
            grants = &mut granted => return Ok(grants.unwrap_or_default()),
            () = tokio::time::sleep_until(end) => {}
            () = self.closed() => {}
            () = cut => {}
        }
        if seats.stand_up() {
            return Ok(Grants::default());
        }
        let last_call = end.min(Instant::now()) + LAST_CALL;
        let last = tokio::time::timeout_at(last_call, granted).await;
        Ok(last.ok().and_then(Result::ok).unwrap_or_default())
    }

    /// Does somebody wait for this topic, and so comes first? Where `thorough`, nothing is left for others if so, as far
    /// as that is known by then.
    async fn is_waited_for(
        &self,
        topic: &TopicName,
        push: bool,
        thorough: Option<Instant>,
    ) -> bool {
        if !self.lock().is_waited_for(topic, push) {
            return false;
        }
        let Some(until) = thorough else { return true };
        let inquiry = self.lock().inquire(topic);
        let Some((mut settled, ask)) = inquiry else { return false };
        let known = async { settled.wait_for(|settled| *settled >= ask).await.is_ok() };
        tokio::time::timeout_at(until, known).await.unwrap_or(true)
    }

    /// Changes whenever a topic may have become one that is pushed, at whichever instance.
    pub fn pushed(&self) -> watch::Receiver<()> {
        self.inner.pushed.subscribe()
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
        match wake {
            Wake::Topic(topic) if *topic == TopicName::pushed() => {
                self.inner.pushed.send_replace(());
            }
            Wake::Topic(topic) => self.lock().ring(topic),
            Wake::All => {
                self.inner.pushed.send_replace(());
                self.lock().ring_all();
            }
        }
    }

    fn sit_down(&self, topics: &[TopicName], want: Want) -> (u64, oneshot::Receiver<Grants>) {
        let (grants, granted) = oneshot::channel();
        let (number, opened) = self.lock().sit_down(topics, want, grants);
        for (topic, bell) in opened {
            let (this, background) = (self.clone(), self.inner.metrics.background.clone());
            let room = move || this.clone().serve(topic.clone(), bell.clone());
            tokio::spawn(async move { background.keep("long polls", room).await });
        }
        (number, granted)
    }

    fn lock(&self) -> MutexGuard<'_, Hall> {
        // Nothing in here panics half way through a change.
        self.inner.hall.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Frees the seats however the wait ends: a consumer that goes away leaves nothing behind.
struct SeatsGuard<'a> {
    rooms: &'a WaitingRooms,
    number: u64,
    /// dueq's own senders are no consumers that anybody would look for.
    counts: bool,
}

impl<'a> SeatsGuard<'a> {
    fn new(rooms: &'a WaitingRooms, number: u64, want: Want) -> Self {
        let counts = !want.push;
        if counts {
            rooms.inner.metrics.waiters.inc();
        }
        Self { rooms, number, counts }
    }

    /// Leaves, unless Redis is being asked for this consumer at the moment.
    fn stand_up(&self) -> bool {
        self.rooms.lock().stand_up(self.number)
    }
}

impl Drop for SeatsGuard<'_> {
    fn drop(&mut self) {
        if self.counts {
            self.rooms.inner.metrics.waiters.dec();
        }
        self.rooms.lock().leave(self.number);
    }
}
