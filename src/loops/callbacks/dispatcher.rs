//! Handles the messages of one call from its slot to their acks or nacks: checks that the call may be made, makes it, extends
//! their leases meanwhile, and records the outcome. It is one message, unless the topic has `push.batch`.

use super::{
    Sending, Signing, Verdict,
    context::{DispatchContext, InFlight, Report},
    outcome::{CallOutcome, keep_less},
    parked::Parked,
    request,
    slots::HostKey,
    trace::CallSpan,
};
use dueq_model::{
    Body, CallPlace, CallReport, Content, Millis, State, TopicName, derived, error::Error,
    format_instant, is_shared, signing_keys,
};
use dueq_store::{
    Ack, Call, CallCounts, CallEnd, Extend, Granted, HostTurn, InForce, Nack, NackKind,
    NackRequest, Settle,
};
use futures_util::future::join_all;
use http::{HeaderName, HeaderValue, header};
use serde_json::json;
use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet},
    future::Future,
    ops::Deref,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::sleep;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use uuid::Uuid;

/// How long a sender's leases last (ms). If an instance is killed, others repeat its calls after this.
pub(super) const LEASE_MS: u64 = 30_000;
/// A lease is extended once less than this is left of it (ms).
const EXTEND_BELOW_MS: Millis = LEASE_MS as Millis * 2 / 3;
/// If a message was granted longer ago than this (ms), the topic's settings are checked again before its call.
const RECHECK_AFTER_MS: Millis = 10;
/// If a message was granted longer ago than this (ms), its lease is extended before its call, which shows whether it is still there.
const GATHERED_MS: Millis = 2_000;
/// The header with the instant at which the message was due, or due again.
const DUE_AT: HeaderName = HeaderName::from_static("dueq-due-at");
/// A message's own time limit, ms, from which on a call that it ends counts against the host.
const LEAST_TIMEOUT_MS: Millis = 5_000;
/// Pause after an error of Redis.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// Makes the calls of all topics and tracks those under way.
#[derive(Clone)]
pub(super) struct Dispatcher {
    sending: Sending,
    tracker: TaskTracker,
    /// Cancels the calls under way.
    cancel: CancellationToken,
}

impl Deref for Dispatcher {
    type Target = Sending;

    fn deref(&self) -> &Sending {
        &self.sending
    }
}

impl Dispatcher {
    pub fn new(sending: Sending) -> Self {
        Self { sending, tracker: TaskTracker::new(), cancel: CancellationToken::new() }
    }

    /// Runs a task that must end before dueq does.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tracker.spawn(task);
    }

    /// Begins the call of messages that have a slot, and reports through the context when the slot is free.
    pub fn begin(&self, context: Arc<DispatchContext>, host: HostKey, mut carried: Vec<Granted>) {
        let this = self.clone();
        self.spawn(async move {
            let mut slot = InFlight::new(&context, host);
            let Some(context) = this.prepare(context, &slot.host, &mut carried).await else {
                return;
            };
            let (began, started_at) = (Instant::now(), this.store.now());
            slot.began = Some(began);
            for granted in &carried {
                let late = (started_at - granted.due_at).max(0) as f64 / 1000.0;
                context.metrics.lateness_seconds.observe(late);
            }
            let outcome = this.call(&context, &carried, started_at).await;
            slot.answered = outcome.as_ref().is_some_and(|it| it.report.status.is_some());
            slot.well = outcome.as_ref().and_then(|it| it.answered);
            if let Some((outcome, first)) = outcome.as_ref().zip(carried.first()) {
                this.judge(&context, first, &slot.host, outcome);
            }
            // The next call need not wait for Redis to record this one.
            drop(slot);
            match outcome {
                Some(outcome) => {
                    context.metrics.seconds.observe(began.elapsed().as_secs_f64());
                    this.settle(&context, &carried, started_at, outcome).await;
                }
                None => {
                    // The leases may have been extended meanwhile. Those that were not are given back as well.
                    let _ = this.extend_all(&mut carried).await;
                    let now = this.store.now();
                    this.give_back(&carried, |_| now).await;
                }
            }
        });
    }

    /// Prepares messages for their call: extends leases if needed, checks that keys are free, and returns the context for the
    /// topic's current settings. Messages whose lease is over are left out. Returns `None` if there is to be no call: all are
    /// given back, or their leases are over.
    async fn prepare(
        &self,
        mut context: Arc<DispatchContext>,
        host: &HostKey,
        carried: &mut Vec<Granted>,
    ) -> Option<Arc<DispatchContext>> {
        let now = self.store.now();
        // They waited here while the process was suspended.
        carried.retain(|granted| granted.lease_expires_at > now);
        let leased_at = carried.iter().map(|it| it.claims.granted_at).min()?;
        let left = carried.iter().map(|it| it.lease_expires_at).min()? - now;
        let checked = async {
            if now - leased_at > RECHECK_AFTER_MS {
                let InForce { topic, paused } = self.store.topic_in_force(&context.topic).await?;
                if topic.revision != context.revision {
                    let push = topic.settings.push.clone().ok_or(Error::TopicNotPushed)?;
                    let revision = topic.revision;
                    context = Arc::new(DispatchContext { revision, push, ..(*context).clone() });
                }
                if paused {
                    return Ok(false);
                }
            }
            let is_as_before = carried.first().is_some_and(|first| {
                let most = context.batch(&first.body).map_or(1, |batch| batch.max_messages);
                carried.len() <= most as usize && context.host(&first.body) == *host
            });
            if !is_as_before {
                return Ok(false);
            }
            if self.store.is_host_paused(host) {
                return Ok(false);
            }
            // Those that waited long for others may be gone.
            if left < EXTEND_BELOW_MS || now - leased_at > GATHERED_MS {
                self.extend_all(carried).await?;
            }
            if carried.is_empty()
                || !self.store.begin_probe(host, &context.topic, &context.push).await?
            {
                return Ok(false);
            }
            if self.store.failing(host).is_some_and(|it| it.holds(&context.topic, &context.push)) {
                // One attempt is enough to see whether it answers.
                let others = carried.split_off(1);
                self.give_back(&others, |granted| granted.due_at).await;
            }
            let started = join_all(carried.iter().map(async |granted| {
                let start = self.store.start_call(&context.topic, granted.id);
                !granted.frees_key || start.await.is_ok()
            }));
            let mut started = started.await.into_iter();
            let refused = carried.extract_if(.., |_| !started.next().unwrap_or_default());
            let refused: Vec<_> = refused.collect();
            if !refused.is_empty() {
                tracing::debug!("messages not called, since their keys may not be free");
                self.give_back(&refused, |granted| granted.due_at).await;
            }
            if carried.is_empty() {
                return Ok(false);
            }
            Ok::<_, Error>(true)
        };
        match checked.await {
            Ok(true) => return Some(context),
            Ok(false) => {}
            Err(error) => {
                let id = carried.first().map(|granted| granted.id.to_string()).unwrap_or_default();
                tracing::debug!(id, %error, "message not called");
            }
        }
        self.give_back(carried, |granted| granted.due_at).await;
        None
    }

    /// Notes what the call has shown of its host, and has all instances know if it fails now or answers again.
    fn judge(
        &self,
        context: &Arc<DispatchContext>,
        granted: &Granted,
        host: &HostKey,
        outcome: &CallOutcome,
    ) {
        let Some(answered) = outcome.answered else { return };
        if !answered && ended_soon(&granted.body, &outcome.report) {
            return;
        }
        let of = (&context.topic, &context.push);
        let publisher = granted.body.publisher.as_deref().unwrap_or_default();
        let Some(turn) = self.store.judge(of, publisher, host, answered) else { return };
        let (this, context, host) = (self.clone(), context.clone(), host.clone());
        let error = outcome.report.failure().map(Cow::into_owned).unwrap_or_default();
        self.spawn(async move {
            match this.store.turn_host(&host, &context.topic, turn, &error).await {
                Ok(true) if turn != HostTurn::Answers => {
                    tracing::warn!(host, error, "host fails: its messages wait");
                    let text =
                        format!("{host} fails ({error}). Its messages wait until it answers.");
                    let fields =
                        json!({"host": host, "error": error, "topic": context.topic.as_str()});
                    this.notifier.send("host_failing", &text, this.store.now(), fields);
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(host, %error, "the state of a host is not written down")
                }
            }
        });
    }

    /// Gives back a message that has no slot before `until`, for lack of this place, and reports it to its sender. If that has ended, the message is
    /// made due at once, since nobody else would fetch it back before its time. If `fails`, its host does, and it is not reported:
    /// the store makes it due.
    pub fn park(
        &self,
        context: Arc<DispatchContext>,
        granted: Granted,
        until: Millis,
        place: Option<CallPlace>,
        fails: bool,
    ) {
        let this = self.clone();
        self.spawn(async move {
            let lease_expires_at = granted.lease_expires_at;
            let put_off = Some((granted.due_at, place));
            let park = Nack::Park { due_at: until, lease_expires_at, put_off };
            let since = this.retry(&granted, park).await.and_then(|parked| parked.due_at);
            let due_at = since.unwrap_or(granted.due_at);
            let parked = Parked { id: granted.id, until, due_at };
            let host = context.host(&granted.body);
            if fails && this.store.failing(&host).is_some_and(|it| it.until == until) {
                return;
            }
            let report = Report::Parked(host, parked);
            if context.reports.send(report).is_err() {
                this.fetch(&context.topic, &[parked]).await;
            }
        });
    }

    /// Makes parked messages due again.
    pub async fn fetch(&self, topic: &TopicName, parked: &[Parked]) {
        let parked: Vec<_> = parked.iter().map(|one| (one.id, one.until, one.due_at)).collect();
        if let Err(error) = self.store.fetch_parked(topic, &parked).await {
            tracing::debug!(%topic, %error, "fetching parked messages failed");
        }
    }

    /// Waits until all tasks have ended. Calls that are under way after the drain time are cancelled. Their messages are
    /// nacked, or given back if they were not sent.
    pub async fn drain(&self) {
        self.tracker.close();
        if tokio::time::timeout(self.sending.drain, self.tracker.wait()).await.is_err() {
            self.cancel.cancel();
            self.tracker.wait().await;
        }
    }

    /// Makes the call and extends the leases meanwhile. Returns `None` if the call was cancelled before it was sent.
    async fn call(
        &self,
        context: &DispatchContext,
        carried: &[Granted],
        started_at: Millis,
    ) -> Option<CallOutcome> {
        let DispatchContext { topic, push, .. } = context;
        let first = carried.first()?;
        let publisher = first.body.publisher.as_deref().unwrap_or_default();
        let of = match is_shared(topic, publisher) && !push.secrets.is_empty() {
            true => push.secrets.as_slice().into(),
            false => self.secrets.borrow().clone(),
        };
        let mut secrets = match self.signing {
            Signing::Ed25519 => Vec::new(),
            Signing::Hmac | Signing::Both => derived(&of, topic, publisher),
        };
        if self.shared_signing {
            secrets.extend_from_slice(&of);
        }
        let is_batch = context.batch(&first.body).is_some();
        let (id, attempt, body) = match is_batch {
            false => {
                let attempt = Some(first.claims.attempt);
                (first.id.to_string(), attempt, Ok(Cow::Borrowed(&first.body)))
            }
            true => {
                let array = (self.body_of)(topic, push, carried)
                    .map(|array| Body::new(Content::Json(array.into()), BTreeMap::new()));
                let body =
                    array.ok_or_else(|| "the stored body of a message is damaged".to_owned());
                // The same messages may not come together again.
                (format!("batch_{}", Uuid::new_v4().simple()), None, body.map(Cow::Owned))
            }
        };
        let request = body.and_then(|body| {
            request::build(&id, topic, attempt, &body, push, &secrets, started_at)
                .map_err(|error| error.to_string())
        });
        let mut request = match request {
            Ok(mut request) => {
                request.timeout = request.timeout.min(self.longest);
                if self.signing != Signing::Hmac {
                    let origin = request.url.origin().unwrap_or_default();
                    request.sign_by(topic, &signing_keys(&of, topic, publisher, &origin));
                }
                if is_batch {
                    request.names_failed = true;
                    let plain = HeaderValue::from_static("identity");
                    request.headers.insert(header::ACCEPT_ENCODING, plain);
                } else if let Ok(due_at) = HeaderValue::try_from(format_instant(first.due_at)) {
                    // It tells the receiver how late the call is. It is ASCII.
                    request.headers.insert(DUE_AT, due_at);
                }
                context.warn_unsigned(&request);
                request
            }
            Err(error) => {
                let report = CallReport { error: Some(error), ..CallReport::default() };
                let verdict = Verdict::Retry { after: None };
                let (answered, failed) = (None, HashMap::new());
                return Some(CallOutcome { report, verdict, answered, failed });
            }
        };
        let cancelled = async {
            tokio::select! {
                () = self.keep_leases(topic, carried) => {}
                () = self.cancel.cancelled() => {}
            }
        };
        let traces = self.traces.as_ref();
        let span = traces.and_then(|it| CallSpan::begin(it, topic, first, &mut request));
        let outcome = self.caller.call(request, cancelled).await;
        if let Some(span) = span {
            span.end(outcome.as_ref());
        }
        outcome
    }

    /// Extends the leases again and again. Returns when all are lost.
    async fn keep_leases(&self, topic: &TopicName, carried: &[Granted]) {
        let until_extension =
            |expires_at: Millis| self.store.until(topic, expires_at - EXTEND_BELOW_MS);
        let first = carried.iter().map(|granted| granted.lease_expires_at).min();
        let mut pause = until_extension(first.unwrap_or_default());
        let mut lost = HashSet::new();
        while lost.len() < carried.len() {
            sleep(pause).await;
            let held: Vec<_> = carried.iter().filter(|it| !lost.contains(&it.id)).collect();
            let extended = join_all(held.iter().map(|granted| self.extend(granted))).await;
            pause = Duration::MAX;
            for (granted, extended) in held.into_iter().zip(extended) {
                let id = granted.id;
                match extended {
                    Ok(expires_at) => {
                        pause = pause.min(until_extension(expires_at)).max(RETRY_INTERVAL);
                    }
                    Err(Error::LeaseLost | Error::MessageNotFound) => {
                        tracing::debug!(%id, "lost the lease of a message during its call");
                        lost.insert(id);
                    }
                    Err(error) => {
                        tracing::debug!(%error, "extending a lease failed");
                        pause = RETRY_INTERVAL;
                    }
                }
            }
        }
    }

    /// Acks or nacks messages by the outcome of their call.
    async fn settle(
        &self,
        context: &DispatchContext,
        carried: &[Granted],
        started_at: Millis,
        outcome: CallOutcome,
    ) {
        let settled = carried.iter().map(|granted| {
            let (mut report, mut verdict) = (outcome.report.clone(), outcome.verdict);
            if let Some(delay_ms) = outcome.failed.get(&granted.id) {
                report.error = Some("the answer names it among those that failed".to_owned());
                keep_less(&mut report);
                verdict = Verdict::Retry { after: delay_ms.map(Duration::from_millis) };
            }
            self.settle_one(context, granted, Call { started_at, report }, verdict)
        });
        join_all(settled).await;
    }

    async fn settle_one(
        &self,
        context: &DispatchContext,
        granted: &Granted,
        call: Call,
        verdict: Verdict,
    ) {
        let host = context.host(&granted.body);
        let (took_ms, error) =
            (call.report.duration_ms, call.report.failure().map(Cow::into_owned));
        let note = |outcome, counts: CallCounts| {
            context.metrics.count(&host, outcome);
            let error = error.as_deref().filter(|_| counts.delivered == 0);
            self.store.note_call(&context.topic, &host, CallEnd { counts, took_ms, error });
        };
        let (kind, after) = match verdict {
            Verdict::Delivered => {
                note("delivered", CallCounts { delivered: 1, ..CallCounts::default() });
                let reports = granted.body.on_done.is_some();
                self.retry(granted, Ack { call: Some(call), reports, result: None }).await;
                return;
            }
            Verdict::Dead => (NackKind::Dead, None),
            Verdict::Retry { after } => (NackKind::Failed, after),
        };
        let delay_ms =
            after.map(|after| Millis::try_from(after.as_millis()).unwrap_or(Millis::MAX));
        let request = NackRequest { delay_ms, kind, wished: true, call: Some(call), reason: None };
        let nacked = self.retry(granted, Nack::Asked(request)).await;
        // Only Redis knows whether this was the last attempt.
        match nacked.map_or(verdict == Verdict::Dead, |nacked| nacked.state == State::Dead) {
            true => note("dead", CallCounts { dead: 1, ..CallCounts::default() }),
            false => note("failed", CallCounts { failed: 1, ..CallCounts::default() }),
        }
    }

    /// Gives back messages whose call was not sent, due as this says.
    pub async fn give_back(&self, carried: &[Granted], due_at: impl Fn(&Granted) -> Millis) {
        let given = carried.iter().map(|granted| {
            let (due_at, lease_expires_at) = (due_at(granted), granted.lease_expires_at);
            self.retry(granted, Nack::Park { due_at, lease_expires_at, put_off: None })
        });
        join_all(given).await;
    }

    /// Makes the lease `LEASE_MS` long from now. Returns when it ends.
    async fn extend(&self, granted: &Granted) -> Result<Millis, Error> {
        let extend = Extend { lease_ms: LEASE_MS, shortens: false };
        let extended = self.store.settle_claimed(granted.id, granted.claims, extend).await?;
        Ok(extended.lease_expires_at)
    }

    /// Extends all leases and leaves out messages whose lease is lost. Returns an error that kept another one from it.
    async fn extend_all(&self, carried: &mut Vec<Granted>) -> Result<(), Error> {
        let extended = join_all(carried.iter().map(|granted| self.extend(granted))).await;
        let (mut extended, mut result) = (extended.into_iter(), Ok(()));
        carried.retain_mut(|granted| match extended.next() {
            Some(Ok(expires_at)) => {
                granted.lease_expires_at = expires_at;
                true
            }
            Some(Err(Error::LeaseLost | Error::MessageNotFound)) => false,
            Some(Err(error)) => {
                result = Err(error);
                true
            }
            None => true,
        });
        result
    }

    /// Settles the lease, which is safe to repeat, until Redis has done it or the lease must be over. Returns the outcome,
    /// unless that is not known.
    async fn retry<W: Settle>(&self, granted: &Granted, what: W) -> Option<W::Outcome> {
        let until = Instant::now() + Duration::from_millis(LEASE_MS);
        loop {
            match self.store.settle_claimed(granted.id, granted.claims, what.clone()).await {
                Ok(done) => return Some(done),
                // The lease is lost, or an earlier try succeeded and its reply was lost.
                Err(Error::MessageNotFound | Error::LeaseLost) => return None,
                Err(Error::RedisUnavailable | Error::OutcomeUnknown)
                    if Instant::now() < until && !self.cancel.is_cancelled() =>
                {
                    sleep(RETRY_INTERVAL).await;
                }
                // The log has the outage, once.
                Err(error @ (Error::RedisUnavailable | Error::OutcomeUnknown)) => {
                    tracing::debug!(id = %granted.id, %error, "a call will be made again");
                    return None;
                }
                Err(error) => {
                    let id = granted.id;
                    tracing::warn!(%id, %error, "the outcome of a call could not be recorded");
                    return None;
                }
            }
        }
    }
}

/// Whether a call without an answer ended at a time limit that its message set too low to say that the host fails.
fn ended_soon(body: &Body, report: &CallReport) -> bool {
    let callback = body.callback.as_ref();
    let limits = callback.map(|it| [it.timeout_ms, it.connect_timeout_ms]).unwrap_or_default();
    let over = |ms: Millis| ms < LEAST_TIMEOUT_MS && report.duration_ms >= ms;
    report.status.is_none() && limits.into_iter().flatten().any(over)
}
