//! Long polls. A consumer that finds nothing joins the wait list of its topics. One task per topic asks Redis for all who
//! wait, oldest first, and sleeps until the next message falls due or somebody publishes. Nothing ticks: an idle topic
//! costs nothing, and no connection to Redis is held for a consumer that waits.

mod timer;
mod topic_task;
mod wait_list;

use crate::{
    error::Error,
    metrics::Metrics,
    model::TopicName,
    store::{Grants, LeaseOptions, Store, Wake},
};
use std::{
    future::pending,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::Instant,
};
use wait_list::WaitList;

/// A consumer whom Redis is being asked for when its time is over waits this much longer for what may have been granted.
const LATE_GRANT_TIMEOUT: Duration = Duration::from_millis(400);
/// A first look that has not come to an end so long after its consumer's time is over ends.
const FIRST_LEASE_TIMEOUT: Duration = Duration::from_millis(250);
/// Whoever looks at several topics in order spends this much, at most, on what those who wait for them already leave.
const INQUIRY_TIMEOUT: Duration = Duration::from_millis(250);

/// The long polls of one instance. Cheap to clone.
#[derive(Clone)]
pub struct LongPolls {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    metrics: Arc<Metrics>,
    list: Mutex<WaitList>,
    closing: watch::Sender<bool>,
    pushed: watch::Sender<()>,
}

impl LongPolls {
    /// Long polls over `store`, and the task that passes wake-ups on to them.
    pub async fn start(
        store: Store,
        metrics: Arc<Metrics>,
        mut woken: mpsc::UnboundedReceiver<Wake>,
    ) -> Self {
        timer::start().await;
        let background = metrics.background.clone();
        let inner = Arc::new(Inner {
            store,
            metrics,
            list: Mutex::default(),
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

    /// Passes on wake-ups from elsewhere until the long polls close.
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
        options: LeaseOptions,
        wait: Duration,
    ) -> Result<Grants, Error> {
        self.lease_until(topics, options, wait, pending()).await
    }

    /// As [`LongPolls::lease`]; the wait also ends with `cut`, which begins with it.
    pub async fn lease_until(
        &self,
        topics: &[TopicName],
        options: LeaseOptions,
        wait: Duration,
        cut: impl Future<Output = ()>,
    ) -> Result<Grants, Error> {
        let start = Instant::now();
        let end = start + wait;
        let late = end + FIRST_LEASE_TIMEOUT;
        for topic in topics {
            // After the last of them nothing is out of order.
            let thorough = (topics.last() != Some(topic)).then_some(start + INQUIRY_TIMEOUT);
            if !wait.is_zero() && self.is_waited_for(topic, options.push, thorough).await {
                continue;
            }
            let outcome = self.inner.store.lease(topic, options, false, late.into_std()).await?;
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
        let (number, mut granted) = self.add(topics, options);
        let waiter = WaiterGuard::new(self, number, options);
        tokio::select! {
            grants = &mut granted => return Ok(grants.unwrap_or_default()),
            () = tokio::time::sleep_until(end) => {}
            () = self.closed() => {}
            () = cut => {}
        }
        if waiter.expire() {
            return Ok(Grants::default());
        }
        let until = end.min(Instant::now()) + LATE_GRANT_TIMEOUT;
        let last = tokio::time::timeout_at(until, granted).await;
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
        // An error means that the long polls are gone, which is closed too.
        let _ = self.inner.closing.subscribe().wait_for(|closing| *closing).await;
    }

    fn wake(&self, wake: &Wake) {
        match wake {
            Wake::Topic(topic) if *topic == TopicName::pushed() => {
                self.inner.pushed.send_replace(());
            }
            Wake::Topic(topic) => self.lock().notify(topic),
            Wake::All => {
                self.inner.pushed.send_replace(());
                self.lock().notify_all();
            }
        }
    }

    fn add(&self, topics: &[TopicName], options: LeaseOptions) -> (u64, oneshot::Receiver<Grants>) {
        let (grants, granted) = oneshot::channel();
        let (number, opened) = self.lock().add(topics, options, grants);
        for (topic, notify) in opened {
            let (this, background) = (self.clone(), self.inner.metrics.background.clone());
            let task = move || this.clone().serve(topic.clone(), notify.clone());
            tokio::spawn(async move { background.keep("long polls", task).await });
        }
        (number, granted)
    }

    fn lock(&self) -> MutexGuard<'_, WaitList> {
        // Nothing in here panics half way through a change.
        self.inner.list.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Removes the waiter however the wait ends: a consumer that goes away leaves nothing behind.
struct WaiterGuard<'a> {
    polls: &'a LongPolls,
    number: u64,
    /// dueq's own senders are no consumers that anybody would look for.
    counts: bool,
}

impl<'a> WaiterGuard<'a> {
    fn new(polls: &'a LongPolls, number: u64, options: LeaseOptions) -> Self {
        let counts = !options.push;
        if counts {
            polls.inner.metrics.waiters.inc();
        }
        Self { polls, number, counts }
    }

    /// Removes the waiter, unless Redis is being asked for it at the moment.
    fn expire(&self) -> bool {
        self.polls.lock().expire(self.number)
    }
}

impl Drop for WaiterGuard<'_> {
    fn drop(&mut self) {
        if self.counts {
            self.polls.inner.metrics.waiters.dec();
        }
        self.polls.lock().remove(self.number);
    }
}
