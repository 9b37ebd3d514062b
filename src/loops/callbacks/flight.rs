//! One message on its way: the call, the lease that is kept while it lasts, and what the answer means for the message.

use super::{Caller, Sending, Verdict, outcome::CallOutcome, places::HostKey, request};
use crate::{
    error::Error,
    metrics::CallMetrics,
    model::{CallReport, Millis, Push, SigningSecret, TopicName},
    seeded,
    store::{Call, Granted, NackKind, NackRequest, Store},
};
use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::mpsc, time::sleep};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// How long a sender's leases last, ms; when an instance is killed its calls begin anew after this.
pub(super) const LEASE_MS: u64 = 30_000;
/// A lease is made longer this often while a call lasts.
const EXTEND_EVERY: Duration = Duration::from_millis(LEASE_MS / 3);
/// While Redis is away.
const RETRY: Duration = Duration::from_millis(250);

/// A call has ended.
pub(super) struct Landed {
    /// Where it went.
    pub host: HostKey,
    /// How long it took.
    pub took: Duration,
}

/// All that is in the air, of all topics.
#[derive(Clone)]
pub(super) struct Flights {
    store: Store,
    caller: Caller,
    secrets: Arc<[SigningSecret]>,
    tracker: TaskTracker,
    /// Calls are to be broken off.
    giving_up: CancellationToken,
}

/// A topic's part of what a flight needs.
pub(super) struct Course {
    pub topic: TopicName,
    pub push: Push,
    pub metrics: Arc<CallMetrics>,
    pub landed: mpsc::UnboundedSender<Landed>,
}

/// A place that is taken; it is free again however the call ends.
struct Place {
    course: Arc<Course>,
    host: HostKey,
    began: Instant,
}

impl Place {
    fn taken(course: &Arc<Course>, host: HostKey) -> Self {
        course.metrics.in_flight.inc();
        Self { course: course.clone(), host, began: Instant::now() }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.course.metrics.in_flight.dec();
        let host = std::mem::take(&mut self.host);
        // Nobody listens while the topic's sender stops.
        let _ = self.course.landed.send(Landed { host, took: self.began.elapsed() });
    }
}

impl Flights {
    pub fn new(sending: &Sending) -> Self {
        Self {
            store: sending.store.clone(),
            caller: sending.caller.clone(),
            secrets: sending.secrets.clone(),
            tracker: TaskTracker::new(),
            giving_up: CancellationToken::new(),
        }
    }

    /// Runs something that must end before dueq does.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tracker.spawn(task);
    }

    /// Sends a message, and tells the course when its place is free.
    pub fn begin(&self, course: Arc<Course>, host: HostKey, granted: Granted) {
        let flights = self.clone();
        self.spawn(async move {
            let place = Place::taken(&course, host);
            let (began, started_at) = (place.began, flights.store.now());
            if granted.lease_expires_at <= started_at {
                // It waited here while this instance was stopped, and is somebody else's by now.
                return;
            }
            let late = (started_at - granted.due_at).max(0) as f64 / 1000.0;
            course.metrics.lateness_seconds.observe(late);
            let outcome = flights.call(&course, &granted, started_at).await;
            // The place is free before Redis knows.
            drop(place);
            match outcome {
                Some(outcome) => {
                    course.metrics.seconds.observe(began.elapsed().as_secs_f64());
                    flights.settle(&course, &granted, started_at, outcome).await;
                }
                None => flights.put_back(&granted, flights.store.now()).await,
            }
        });
    }

    /// Waits until all have ended; those that take longer than `drain` are broken off, and their messages go back.
    pub async fn land(&self, drain: Duration) {
        self.tracker.close();
        if tokio::time::timeout(drain, self.tracker.wait()).await.is_err() {
            self.giving_up.cancel();
            self.tracker.wait().await;
        }
    }

    /// Makes the call, and keeps the lease meanwhile; nothing where it was broken off.
    async fn call(
        &self,
        course: &Course,
        granted: &Granted,
        started_at: Millis,
    ) -> Option<CallOutcome> {
        let Course { topic, push, .. } = course;
        let attempt = granted.seal.attempt;
        let request = request::build(
            &granted.id,
            topic,
            attempt,
            &granted.body,
            push,
            &self.secrets,
            started_at,
        );
        let request = match request {
            Ok(request) => request,
            Err(error) => {
                let report = CallReport { error: Some(error.to_string()), ..CallReport::default() };
                return Some(CallOutcome { report, verdict: Verdict::Retry { after: None } });
            }
        };
        let broken_off = async {
            tokio::select! {
                () = self.keep(granted) => {}
                () = self.giving_up.cancelled() => {}
            }
        };
        self.caller.call(request, broken_off).await
    }

    /// Makes the lease longer and longer; ends when it is lost.
    async fn keep(&self, granted: &Granted) {
        let held = (granted.id, granted.seal);
        let mut pause = EXTEND_EVERY;
        loop {
            sleep(pause).await;
            match self.store.extend_call(held, LEASE_MS).await {
                Ok(_) => pause = EXTEND_EVERY,
                Err(Error::LeaseLost | Error::MessageNotFound) => {
                    tracing::debug!(id = %granted.id, "a message was lost to another while it was called");
                    return;
                }
                Err(error) => {
                    tracing::debug!(%error, "a lease was not extended");
                    pause = RETRY;
                }
            }
        }
    }

    async fn settle(
        &self,
        course: &Course,
        granted: &Granted,
        started_at: Millis,
        CallOutcome { report, verdict }: CallOutcome,
    ) {
        let call = Call { started_at, report };
        let (outcome, kind, after) = match verdict {
            Verdict::Delivered => {
                course.metrics.count("delivered");
                self.insist(granted, || self.store.ack_call(granted, call.clone())).await;
                if seeded::bug("called again") {
                    self.call(course, granted, started_at).await;
                }
                return;
            }
            Verdict::Dead => ("dead", NackKind::Dead, None),
            Verdict::Retry { after } => ("failed", NackKind::Failed, after),
        };
        course.metrics.count(outcome);
        let delay_ms =
            after.map(|after| Millis::try_from(after.as_millis()).unwrap_or(Millis::MAX));
        let request = NackRequest { delay_ms, kind, wished: true, call: Some(call), reason: None };
        self.insist(granted, || self.store.nack_call(granted, request.clone())).await;
    }

    /// Gives back a message that was not called, or not to the end.
    pub async fn put_back(&self, granted: &Granted, due_at: Millis) {
        self.insist(granted, || self.store.park(granted, due_at)).await;
    }

    /// Tells Redis until it has heard, as long as the lease may last: what is told is safe to repeat.
    async fn insist<T, F>(&self, granted: &Granted, tell: impl Fn() -> F)
    where
        F: Future<Output = Result<T, Error>>,
    {
        let until = Instant::now() + Duration::from_millis(LEASE_MS);
        loop {
            match tell().await {
                Ok(_) => return,
                // Also after an answer that was lost: it was done.
                Err(Error::MessageNotFound | Error::LeaseLost) => return,
                Err(Error::RedisUnavailable | Error::OutcomeUnknown)
                    if Instant::now() < until && !self.giving_up.is_cancelled() =>
                {
                    sleep(RETRY).await;
                }
                Err(error) => {
                    let id = granted.id;
                    tracing::warn!(%id, %error, "the end of a call could not be told to Redis");
                    return;
                }
            }
        }
    }
}
