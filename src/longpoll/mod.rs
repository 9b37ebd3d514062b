//! Long polls. A consumer that finds nothing joins the wait list of its topics. One task per topic leases on behalf of all
//! its waiters, oldest first, and sleeps until the next message falls due or a publish wakes it. No timer runs for an idle
//! topic, and a waiting consumer holds no connection to Redis.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod timer;
mod topic_task;
mod wait_list;

use dueq_base::metrics::Metrics;
use dueq_model::{TopicName, error::Error};
use dueq_store::{Grants, LeaseMode, LeaseOptions, Store, Wake};
use parking_lot::{Mutex, MutexGuard};
use std::{future::pending, sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, timeout_at},
};
use wait_list::WaitList;

/// How much longer a consumer waits if a lease for it is under way when its wait ends: the lease may grant it messages.
const LATE_GRANT_TIMEOUT: Duration = Duration::from_millis(400);
/// The first leases of a request end this long after its wait, even if topics are left.
const FIRST_LEASE_TIMEOUT: Duration = Duration::from_millis(250);
/// How long a request for several topics may spend on finding out what the waiters of these topics leave for it.
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
    /// Creates the long polls of `store` and starts the tasks that pass wake-ups on to them.
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

    /// Passes on the wake-ups of Redis's channel until the long polls close. A clock step or a new epoch wakes everyone.
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

    /// Leases from the first of these topics that has ready messages, or waits up to `wait` until one has.
    ///
    /// Errors: those of [`Store::lease`], from the first leases only. If Redis becomes unavailable later, the wait goes on.
    pub async fn lease(
        &self,
        topics: &[TopicName],
        options: LeaseOptions,
        wait: Duration,
    ) -> Result<Grants, Error> {
        self.lease_until(topics, options, wait, pending()).await
    }

    /// Like [`LongPolls::lease`], but the wait also ends when `cancelled` completes, which is first polled when it begins.
    pub async fn lease_until(
        &self,
        topics: &[TopicName],
        options: LeaseOptions,
        wait: Duration,
        cancelled: impl Future<Output = ()>,
    ) -> Result<Grants, Error> {
        let start = Instant::now();
        let end = start + wait;
        let late = end + FIRST_LEASE_TIMEOUT;
        let (mut failed, mut unsure) = (Vec::new(), None);
        for topic in topics {
            // No topic comes after the last one, so what its waiters leave does not matter.
            let inquire_until = (topics.last() != Some(topic)).then_some(start + INQUIRY_TIMEOUT);
            if !wait.is_zero() && self.must_queue(topic, options.push, inquire_until).await {
                continue;
            }
            let wants = [options];
            let lease = self.inner.store.lease(topic, &wants, LeaseMode::Now(late.into_std()));
            // What is granted later goes back.
            let leased = match wait.is_zero() {
                true => lease.await,
                false => timeout_at(end + LATE_GRANT_TIMEOUT, lease)
                    .await
                    .unwrap_or(Err(Error::OutcomeUnknown)),
            };
            let leased = leased.and_then(|mut one| one.pop().unwrap_or(Err(Error::Internal)));
            let outcome = match leased {
                // The others may be on another server.
                Err(error @ (Error::RedisUnavailable | Error::OutcomeUnknown)) => {
                    failed.push(error);
                    continue;
                }
                leased => leased?,
            };
            if !outcome.grants.messages().is_empty() {
                return Ok(outcome.grants);
            }
            unsure = outcome.failed.or(unsure);
            // This takes long with many topics, a slow Redis, or many expired messages.
            if Instant::now() >= late {
                return Ok(Grants::default());
            }
        }
        let none_answered = failed.len() == topics.len();
        if wait.is_zero() || none_answered {
            return failed.pop().or(unsure).map_or(Ok(Grants::default()), Err);
        }
        let (number, mut granted) = self.add(topics, options);
        let waiter = WaiterGuard::new(self, number, options);
        tokio::select! {
            grants = &mut granted => return Ok(grants.unwrap_or_default()),
            () = tokio::time::sleep_until(end) => {}
            () = self.closed() => {}
            () = cancelled => {}
        }
        if waiter.expire() {
            return Ok(Grants::default());
        }
        let until = end.min(Instant::now()) + LATE_GRANT_TIMEOUT;
        let last = timeout_at(until, granted).await;
        Ok(last.ok().and_then(Result::ok).unwrap_or_default())
    }

    /// Returns whether other waiters of this topic come first. With `inquire_until`, this is so only if they leave nothing,
    /// or if that is not known by then.
    async fn must_queue(
        &self,
        topic: &TopicName,
        push: bool,
        inquire_until: Option<Instant>,
    ) -> bool {
        if !self.lock().has_waiters(topic, push) {
            return false;
        }
        let Some(until) = inquire_until else { return true };
        let inquiry = self.lock().inquire(topic);
        let Some((mut settled, call)) = inquiry else { return false };
        let known = async { settled.wait_for(|settled| *settled >= call).await.is_ok() };
        timeout_at(until, known).await.unwrap_or(true)
    }

    /// Changes whenever a topic may have become a pushed one, or a host may have been paused or resumed, on any instance.
    pub fn pushed(&self) -> watch::Receiver<()> {
        self.inner.pushed.subscribe()
    }

    /// Ends all waits without messages. From now on, nobody waits.
    pub fn close(&self) {
        self.inner.closing.send_replace(true);
    }

    async fn closed(&self) {
        // An error means that the sender was dropped, which closes the long polls too.
        let _ = self.inner.closing.subscribe().wait_for(|closing| *closing).await;
    }

    fn wake(&self, wake: &Wake) {
        self.inner.store.note_wake(wake);
        match wake {
            Wake::Topic(topic, _) if *topic == TopicName::pushed() => {
                self.inner.pushed.send_replace(());
            }
            Wake::Topic(topic, _) => self.lock().notify(topic),
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
        self.inner.list.lock()
    }
}

/// Removes the waiter when dropped, so that a consumer that disconnects leaves nothing behind.
struct WaiterGuard<'a> {
    polls: &'a LongPolls,
    number: u64,
    /// Whether the metric counts it. It counts consumers, not dueq's own senders.
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

    /// Removes the waiter, unless a lease for it is under way. Returns whether it was removed.
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
