//! One message on its way: the call, the lease that is kept while it lasts, and what the answer means for the message.

use super::{
    Caller, Sending, Verdict,
    context::{DispatchContext, InFlight},
    outcome::CallOutcome,
    parked::Parked,
    places::HostKey,
    request,
};
use crate::{
    error::Error,
    model::{CallReport, Millis, SigningSecret, TopicName},
    seeded,
    store::{Call, Granted, InForce, NackKind, NackRequest, Store},
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
/// A lease of which no more than this is left is made longer, ms.
const KEPT_MS: Millis = LEASE_MS as Millis * 2 / 3;
/// What was granted so long ago (ms) is not called before it is known that its topic still says so.
const FRESH_MS: Millis = 10;
/// While Redis is away.
const RETRY: Duration = Duration::from_millis(250);

/// All that is in the air, of all topics.
#[derive(Clone)]
pub(super) struct Flights {
    store: Store,
    caller: Caller,
    secrets: Arc<[SigningSecret]>,
    longest: Duration,
    tracker: TaskTracker,
    /// Calls are to be broken off.
    giving_up: CancellationToken,
}

impl Flights {
    pub fn new(sending: &Sending) -> Self {
        Self {
            store: sending.store.clone(),
            caller: sending.caller.clone(),
            secrets: sending.secrets.clone(),
            longest: sending.longest,
            tracker: TaskTracker::new(),
            giving_up: CancellationToken::new(),
        }
    }

    /// Runs something that must end before dueq does.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tracker.spawn(task);
    }

    /// Sends a message, and tells the context when its place is free.
    pub fn begin(&self, context: Arc<DispatchContext>, host: HostKey, mut granted: Granted) {
        let flights = self.clone();
        self.spawn(async move {
            let mut place = InFlight::taken(&context, host);
            let Some(context) = flights.ready(context, &place.host, &mut granted).await else {
                return;
            };
            let (began, started_at) = (Instant::now(), flights.store.now());
            place.began = Some(began);
            let late = (started_at - granted.due_at).max(0) as f64 / 1000.0;
            context.metrics.lateness_seconds.observe(late);
            let outcome = flights.call(&context, &granted, started_at).await;
            place.answered = outcome.as_ref().is_some_and(|it| it.report.status.is_some());
            // The place is free before Redis knows.
            drop(place);
            match outcome {
                Some(outcome) => {
                    context.metrics.seconds.observe(began.elapsed().as_secs_f64());
                    flights.settle(&context, &granted, started_at, outcome).await;
                }
                None => flights.put_back(&granted, flights.store.now()).await,
            }
        });
    }

    /// Readies a message for its call: its lease is long enough, its key is free, and the context is what its topic says
    /// now. Nothing where it is not to be called from here: then it goes back, or is somebody else's already.
    async fn ready(
        &self,
        mut context: Arc<DispatchContext>,
        host: &HostKey,
        granted: &mut Granted,
    ) -> Option<Arc<DispatchContext>> {
        let now = self.store.now();
        let left = granted.lease_expires_at - now;
        if left <= 0 {
            // It waited here while this instance was stopped.
            return None;
        }
        let checked = async {
            if left < KEPT_MS {
                let held = (granted.id, granted.claims);
                granted.lease_expires_at = self.store.extend_call(held, LEASE_MS).await?;
            }
            if now - granted.claims.granted_at > FRESH_MS && !seeded::bug("called as it was") {
                let InForce { topic, paused } = self.store.topic_in_force(&context.topic).await?;
                if topic.revision != context.revision {
                    let push = topic.settings.push.clone().ok_or(Error::TopicNotPushed)?;
                    let revision = topic.revision;
                    context = Arc::new(DispatchContext { revision, push, ..(*context).clone() });
                }
                if paused || context.host(&granted.body) != *host {
                    return Ok(false);
                }
            }
            if granted.key.is_some() {
                self.store.start_call(&context.topic, granted.id).await?;
            }
            Ok::<_, Error>(true)
        };
        match checked.await {
            Ok(true) => return Some(context),
            Ok(false) => {}
            Err(error) => {
                tracing::debug!(id = %granted.id, %error, "a message is not called now");
            }
        }
        self.put_back(granted, granted.due_at).await;
        None
    }

    /// Gives back a message for which there is no place before `until`, and tells the context. Where its sender has
    /// ended, nobody else would fetch it back before its time.
    pub fn park(&self, context: Arc<DispatchContext>, granted: Granted, until: Millis) {
        let flights = self.clone();
        self.spawn(async move {
            flights.put_back(&granted, until).await;
            let parked = Parked { id: granted.id, until, due_at: granted.due_at };
            let told = context.parked.send((context.host(&granted.body), parked));
            if let Err(mpsc::error::SendError((_, parked))) = told {
                flights.fetch(&context.topic, &[parked]).await;
            }
        });
    }

    /// Makes parked messages due again.
    pub async fn fetch(&self, topic: &TopicName, parked: &[Parked]) {
        let parked: Vec<_> = parked.iter().map(|one| (one.id, one.until, one.due_at)).collect();
        if let Err(error) = self.store.fetch_parked(topic, &parked).await {
            tracing::debug!(%topic, %error, "parked messages come back at their time");
        }
    }

    /// Waits until all have ended; those that take longer than `drain` are broken off, and their messages go back.
    pub async fn drain(&self, drain: Duration) {
        self.tracker.close();
        if tokio::time::timeout(drain, self.tracker.wait()).await.is_err() {
            self.giving_up.cancel();
            self.tracker.wait().await;
        }
    }

    /// Makes the call, and keeps the lease meanwhile; nothing where it was broken off.
    async fn call(
        &self,
        context: &DispatchContext,
        granted: &Granted,
        started_at: Millis,
    ) -> Option<CallOutcome> {
        let DispatchContext { topic, push, .. } = context;
        let attempt = granted.claims.attempt;
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
            Ok(mut request) => {
                request.timeout = request.timeout.min(self.longest);
                context.warn_unsigned(&request);
                request
            }
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
        let held = (granted.id, granted.claims);
        // Whatever was left of it when the call began.
        let until_kept = |ends: Millis| self.store.until(ends - KEPT_MS);
        let mut pause = until_kept(granted.lease_expires_at);
        loop {
            sleep(pause).await;
            match self.store.extend_call(held, LEASE_MS).await {
                Ok(ends) => pause = until_kept(ends).max(RETRY),
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
        context: &DispatchContext,
        granted: &Granted,
        started_at: Millis,
        CallOutcome { report, verdict }: CallOutcome,
    ) {
        let call = Call { started_at, report };
        let (outcome, kind, after) = match verdict {
            Verdict::Delivered => {
                context.metrics.count("delivered");
                self.insist(granted, || self.store.ack_call(granted, call.clone())).await;
                if seeded::bug("called again") {
                    self.call(context, granted, started_at).await;
                }
                return;
            }
            Verdict::Dead => ("dead", NackKind::Dead, None),
            Verdict::Retry { after } => ("failed", NackKind::Failed, after),
        };
        context.metrics.count(outcome);
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
