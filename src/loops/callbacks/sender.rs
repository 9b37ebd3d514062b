//! The sender of one pushed topic. It leases as many messages as can be called soon, and begins their calls as slots become
//! free. It waits for messages with a long poll like any consumer, so it does no work while there is nothing to send.

use super::{
    Sending,
    context::{DispatchContext, Report},
    dispatcher::{Dispatcher, LEASE_MS},
    parked::{Parked, ParkedMessages},
    slots::{Gate, Gates, HostKey, Limits, Offered, Parking, Slots},
};
use dueq_base::metrics::CallMetrics;
use dueq_model::{CallPlace, Millis, Push, TopicName, error::Error};
use dueq_store::{Failing, Granted, Grants, LeaseOptions, Places};
use futures_util::future::{BoxFuture, FutureExt as _};
use std::{cmp::Reverse, collections::HashMap, sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

/// How long a lease waits for messages. Then the topic's settings are read again.
const LEASE_WAIT: Duration = Duration::from_secs(30);
/// Maximum number of messages per lease: as many as one call to Redis can lease.
const MAX_MESSAGES: u64 = 128;
/// Maximum size of the payloads per lease.
const MAX_BYTES: u64 = 4 * 1024 * 1024;
/// Bytes at which a call for many messages begins.
const CALL_BYTES: usize = 1024 * 1024;
/// What a message has besides payload and headers, about.
const MESSAGE_BYTES: usize = 512;
/// How often to check for messages to park or to fetch back.
const PARK_INTERVAL: Duration = Duration::from_millis(50);
/// Minimum pause between two checks of the rate. The calls that it allows meanwhile are made together.
const RATE_INTERVAL: Duration = Duration::from_millis(10);
/// How long a leased message waits for its topic's rate.
const RATE_TIMEOUT: Duration = Duration::from_secs(5);
/// How often the calls under way and the messages that wait are counted, by host.
const COUNT_INTERVAL: Duration = Duration::from_millis(500);
/// Hosts that are counted: those with the most.
const MAX_COUNTED: usize = 2_000;
/// Pause after an error of Redis.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// A lease under way, which may wait for messages.
type Lease = BoxFuture<'static, Result<Grants, Error>>;

/// Sends one topic's messages.
pub(super) struct Sender {
    dispatcher: Dispatcher,
    name: TopicName,
    metrics: Arc<CallMetrics>,
    /// For its calls.
    reporter: mpsc::UnboundedSender<Report>,
    reports: mpsc::UnboundedReceiver<Report>,
    /// The messages of each call.
    slots: Slots<Vec<Granted>>,
    /// Messages that wait for others to be called with.
    gathered: Vec<Granted>,
    /// Until when they wait, if there are any.
    gather_until: Option<Instant>,
    parked_messages: ParkedMessages,
    context: Option<(i64, Arc<DispatchContext>)>,
    /// Whether another instance may have changed the topic's settings.
    stale: bool,
    /// When the calls and messages of hosts were last counted, if there were any.
    counted_at: Option<Instant>,
}

impl Sender {
    pub fn new(dispatcher: Dispatcher, name: TopicName) -> Self {
        let metrics = Arc::new(dispatcher.metrics.calls(&name));
        let (reporter, reports) = mpsc::unbounded_channel();
        Self {
            dispatcher,
            name,
            metrics,
            reporter,
            reports,
            slots: Slots::new(),
            gathered: Vec::new(),
            gather_until: None,
            parked_messages: ParkedMessages::default(),
            context: None,
            stale: false,
            counted_at: None,
        }
    }

    /// Sends messages until the topic is no longer pushed, or dueq stops.
    pub async fn run(mut self, stopping: CancellationToken) {
        let mut park_interval = interval(PARK_INTERVAL);
        park_interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // There is one lease at a time. Other events do not cancel it, since its grants would have to be given back.
        let mut lease: Option<Lease> = None;
        let mut lease_rate = None;
        let mut changes = self.dispatcher.polls.pushed();
        let mut paused = self.dispatcher.store.paused_hosts();
        let mut failing = self.dispatcher.store.failing_hosts();
        let mut gated_by = None;
        while !stopping.is_cancelled() {
            let Ok(context) = self.context().await else {
                pause(RETRY_INTERVAL, &stopping).await;
                continue;
            };
            let Some(context) = context else { break };
            let limits = limits_of(&context.push);
            // Whether it heeds failing hosts is one of its settings.
            if gated_by != Some(context.revision) {
                gated_by = Some(context.revision);
                paused.mark_changed();
            }
            if context.push.batch.is_none()
                || self.gather_until.is_some_and(|until| until <= Instant::now())
            {
                let gathered = self.take_gathered();
                // It may have become fewer meanwhile.
                let calls = gathered.chunks(per_call(&context.push)).map(<[_]>::to_vec).collect();
                self.offer_calls(&context, calls, limits).await;
            }
            while let Some((host, carried)) = self.slots.begin(Instant::now(), limits) {
                self.dispatcher.begin(context.clone(), host, carried);
            }
            let rate = context.push.rate_per_s;
            if lease_rate != rate {
                // The lease was for another rate. Grants that it may have go back when it is dropped.
                (lease, lease_rate) = (None, rate);
            }
            if lease.is_none() {
                let batch = context.push.batch.as_ref();
                let calls = self.slots.capacity(Instant::now(), limits) * per_call(&context.push);
                let options = LeaseOptions {
                    max_messages: (calls.saturating_sub(self.gathered.len()) as u64)
                        .min(MAX_MESSAGES),
                    max_bytes: MAX_BYTES,
                    lease_ms: Some(LEASE_MS + batch.map_or(0, |it| it.max_wait_ms.unsigned_abs())),
                    push: true,
                    several: false,
                };
                lease = (options.max_messages > 0).then(|| {
                    let sending = Sending::clone(&self.dispatcher);
                    start_lease(sending, self.name.clone(), rate, options).boxed()
                });
            }
            let leased = async {
                match &mut lease {
                    None => std::future::pending().await,
                    Some(lease) => lease.await,
                }
            };
            let is_active = self.is_active() || self.counted_at.is_some();
            tokio::select! {
                biased;
                () = stopping.cancelled() => {}
                // The store, which has the other ends, is there.
                () = either(&mut paused, &mut failing) => {
                    let now = Instant::now();
                    self.slots.set_gates(self.gates(&context.push, now), now);
                    let overdue = self.slots.overdue(now, limits);
                    self.park(&context, overdue).await;
                }
                leased = leased => {
                    lease = None;
                    match leased {
                        Ok(grants) => self.offer(grants, limits).await,
                        // The next round reads the settings again and ends.
                        Err(Error::TopicNotPushed) => self.context = None,
                        Err(error) => {
                            tracing::debug!(topic = %self.name, %error, "leasing messages failed");
                            pause(RETRY_INTERVAL, &stopping).await;
                        }
                    }
                }
                Some(report) = self.reports.recv() => self.note(report),
                () = until(self.gather_until) => {}
                _ = changes.changed() => self.stale = true,
                _ = park_interval.tick(), if is_active => {
                    let now = Instant::now();
                    self.slots.update_hosts(now, |host| self.dispatcher.caller.address_of(host));
                    let overdue = self.slots.overdue(now, limits);
                    self.park(&context, overdue).await;
                    let now = (Instant::now(), self.dispatcher.store.now());
                    let per_call = per_call(&context.push);
                    let most = self.slots.capacity(now.0, limits) * per_call;
                    let capacity =
                        |host: &str| self.slots.host_capacity(host, now.0, limits) * per_call;
                    let parked = self.parked_messages.fetch(now, most, capacity);
                    self.fetch(parked);
                    self.count_places(now.0);
                }
            }
        }
        drop(lease);
        if !stopping.is_cancelled() {
            self.release_put_off();
        }
        self.dispatcher.store.note_places(&self.name, HashMap::new());
        for carried in self.slots.clear().into_iter().chain([self.take_gathered()]) {
            let dispatcher = self.dispatcher.clone();
            self.dispatcher
                .spawn(async move { dispatcher.give_back(&carried, |it| it.due_at).await });
        }
        // Parked messages wait for a slot of this sender. Without it, they are due at once.
        self.reports.close();
        if let Ok(report) = self.reports.try_recv() {
            self.note(report);
        }
        let parked = self.parked_messages.clear();
        self.fetch(parked);
    }

    /// How calls may begin to hosts that are paused, that fail, or that failed.
    fn gates(&self, push: &Push, now: Instant) -> Gates {
        let store = &self.dispatcher.store;
        let mut gates = Gates::new();
        if push.failing_after() > 0 {
            let all = store.failing_hosts().borrow().clone();
            let known = |it: &Failing| !it.is_closed() || it.holds(&self.name, push);
            for (host, failing) in all.iter().filter(|(_, it)| known(it)) {
                let wait = (failing.probe_at - store.now()).max(0).unsigned_abs();
                let probe_at = now + Duration::from_millis(wait);
                let gate =
                    if failing.is_closed() { Gate::Failing(probe_at) } else { Gate::Opening };
                gates.insert(host.clone(), gate);
            }
        }
        let paused = store.paused_hosts().borrow().clone().unwrap_or_default();
        gates.extend(paused.keys().map(|host| (host.clone(), Gate::Paused)));
        gates
    }

    /// Makes the messages due that wait for failing hosts.
    fn release_put_off(&self) {
        let (dispatcher, topic) = (self.dispatcher.clone(), self.name.clone());
        self.dispatcher.spawn(async move {
            if let Err(error) = dispatcher.store.release_topic(&topic).await {
                tracing::debug!(%topic, %error, "messages for failing hosts wait for these on");
            }
        });
    }

    fn is_active(&self) -> bool {
        self.slots.in_flight() > 0 || !self.parked_messages.is_empty()
    }

    /// Tells the store from time to time which calls are under way and which messages wait, by host.
    fn count_places(&mut self, now: Instant) {
        if self.counted_at.is_some_and(|at| now < at + COUNT_INTERVAL) {
            return;
        }
        self.counted_at = self.is_active().then_some(now);
        let mut places: HashMap<&HostKey, Places> = HashMap::new();
        for (host, in_flight, waiting) in self.slots.places() {
            let (in_flight, waiting) = (in_flight as i64, waiting as i64);
            places.insert(host, Places { in_flight, waiting });
        }
        for (host, count) in self.parked_messages.counts() {
            places.entry(host).or_default().waiting += count as i64;
        }
        let mut places: Vec<_> = places.into_iter().collect();
        if places.len() > MAX_COUNTED {
            places.sort_by_key(|(_, it)| Reverse(it.in_flight + it.waiting));
            places.truncate(MAX_COUNTED);
        }
        let places = places.into_iter().map(|(host, places)| (host.clone(), places)).collect();
        self.dispatcher.store.note_places(&self.name, places);
    }

    /// Makes parked messages due again.
    fn fetch(&self, parked: Vec<Parked>) {
        if !parked.is_empty() {
            let (dispatcher, topic) = (self.dispatcher.clone(), self.name.clone());
            self.dispatcher.spawn(async move { dispatcher.fetch(&topic, &parked).await });
        }
    }

    /// Returns the context for the topic's current settings, or `None` if it is no longer pushed.
    async fn context(&mut self) -> Result<Option<Arc<DispatchContext>>, Error> {
        let store = &self.dispatcher.store;
        let mut topic = store.known_topic(&self.name).await?;
        if self.stale || topic.as_ref().is_none_or(|topic| topic.settings.push.is_none()) {
            // Another instance may have changed the topic.
            topic = store.fresh_topic(&self.name).await?;
            self.stale = false;
        }
        // The topic `_callbacks` is created by its first message.
        let revision = topic.as_ref().map_or(0, |topic| topic.revision);
        if let Some((known, context)) = &self.context
            && *known == revision
        {
            return Ok(Some(context.clone()));
        }
        let push = match topic {
            Some(topic) => topic.settings.push.clone(),
            None => self.name.is_callbacks().then(Push::of_callbacks),
        };
        let Some(push) = push else { return Ok(None) };
        if self.context.is_some() {
            // Their messages may have another URL now, or need not wait.
            self.release_put_off();
        }
        let context = Arc::new(DispatchContext {
            topic: self.name.clone(),
            revision,
            push,
            metrics: self.metrics.clone(),
            reports: self.reporter.clone(),
            warned_unsigned: Arc::default(),
        });
        self.context = Some((revision, context.clone()));
        Ok(Some(context))
    }

    /// Takes in this report and those that wait behind it.
    fn note(&mut self, report: Report) {
        let (now, mut next) = (Instant::now(), Some(report));
        while let Some(report) = next {
            match report {
                Report::Ended { host, took, answered, well } => {
                    if let Some(well) = well {
                        self.slots.note_answer(&host, well);
                    }
                    self.slots.call_ended(&host, took, answered, now);
                }
                Report::Parked(host, parked) => {
                    self.parked_messages.park(host, parked, self.dispatcher.store.now());
                }
            }
            next = self.reports.try_recv().ok();
        }
    }

    /// Begins the call of each message, or lets it wait for a slot here or in Redis, or for others to be called with.
    async fn offer(&mut self, mut grants: Grants, limits: Limits) {
        // The settings may have changed during the lease.
        let context = match self.context().await {
            Ok(Some(context)) if !grants.messages().is_empty() => context,
            // The grants go back when they are dropped.
            _ => return,
        };
        self.dispatcher.store.bury_damaged(&mut grants).await;
        let (now, mut calls) = (Instant::now(), Vec::new());
        let mut bytes: usize = self.gathered.iter().map(bytes_of).sum();
        for granted in grants.take() {
            let Some(batch) = context.batch(&granted.body) else {
                calls.push(vec![granted]);
                continue;
            };
            // It may have been leased before the topic had these settings.
            let left = granted.lease_expires_at - self.dispatcher.store.now() - LEASE_MS as Millis;
            let wait = batch.max_wait_ms.min(left).max(0).unsigned_abs();
            let (until, more) = (now + Duration::from_millis(wait), bytes_of(&granted));
            if bytes + more > CALL_BYTES && !self.gathered.is_empty() {
                calls.push(self.take_gathered());
                bytes = 0;
            }
            bytes += more;
            self.gather_until = Some(self.gather_until.map_or(until, |known| known.min(until)));
            self.gathered.push(granted);
            if self.gathered.len() >= batch.max_messages as usize || bytes >= CALL_BYTES {
                calls.push(self.take_gathered());
                bytes = 0;
            }
        }
        self.offer_calls(&context, calls, limits).await;
    }

    /// Begins each call, or lets it wait for a slot here or in Redis.
    async fn offer_calls(
        &mut self,
        context: &Arc<DispatchContext>,
        calls: Vec<Vec<Granted>>,
        limits: Limits,
    ) {
        let (now, mut parked) = (Instant::now(), Vec::new());
        for carried in calls {
            let Some(host) = carried.first().map(|first| context.host(&first.body)) else {
                continue;
            };
            let bytes = carried.iter().map(bytes_of).sum();
            match self.slots.offer(host.clone(), bytes, carried, now, limits) {
                Offered::Begin(carried) => self.dispatcher.begin(context.clone(), host, carried),
                Offered::Wait => {}
                Offered::Park(carried, wait, place) => parked.push((carried, wait, place)),
            }
        }
        self.park(context, parked).await;
    }

    fn take_gathered(&mut self) -> Vec<Granted> {
        self.gather_until = None;
        std::mem::take(&mut self.gathered)
    }

    /// Gives back messages that do not get a slot soon.
    async fn park(&self, context: &Arc<DispatchContext>, parked: Vec<Parking<Vec<Granted>>>) {
        let alone = |(carried, wait, place): Parking<Vec<Granted>>| {
            carried.into_iter().map(move |granted| (granted, wait, place))
        };
        let parked: Vec<Parking<Granted>> = parked.into_iter().flat_map(alone).collect();
        if let Some(rate) = context.push.rate_per_s
            && !parked.is_empty()
        {
            // The rate has counted these messages, but they are not called. This must come before the next lease, which
            // would otherwise find the rate used up.
            let unused = -(parked.len() as i64);
            if let Err(error) = self.dispatcher.store.take_calls(&self.name, rate, unused).await {
                tracing::debug!(topic = %self.name, %error, "calls that were not made still count against the rate");
            }
        }
        let now = self.dispatcher.store.now();
        for (granted, wait, place) in parked {
            match self.put_off_until(context, &granted).await {
                Some(until) => {
                    let place = Some(CallPlace::Host);
                    self.dispatcher.park(context.clone(), granted, until, place, true);
                }
                None => {
                    let until = now + wait.as_millis() as i64;
                    self.dispatcher.park(context.clone(), granted, until, place, false);
                }
            }
        }
    }

    /// Until when to put off a message if its host fails, ms.
    async fn put_off_until(&self, context: &DispatchContext, granted: &Granted) -> Option<i64> {
        let store = &self.dispatcher.store;
        if context.push.failing_after() == 0 || store.failing_hosts().borrow().is_empty() {
            return None;
        }
        let host = context.host(&granted.body);
        if store.is_host_paused(&host) {
            return None;
        }
        store.put_off_for(&host, &self.name, &context.push).await.ok().flatten()
    }
}

/// Waits until one of them has changed, and marks both as seen.
async fn either<A, B>(a: &mut watch::Receiver<A>, b: &mut watch::Receiver<B>) {
    tokio::select! {
        _ = a.changed() => {}
        _ = b.changed() => {}
    }
    a.mark_unchanged();
    b.mark_unchanged();
}

async fn pause(pause: Duration, stopping: &CancellationToken) {
    tokio::select! {
        () = sleep(pause) => {}
        () = stopping.cancelled() => {}
    }
}

fn limits_of(push: &Push) -> Limits {
    Limits {
        in_flight: push.max_in_flight as usize,
        per_host: push.max_in_flight_per_host as usize,
    }
}

/// The bytes of a message, payload, headers and the rest.
fn bytes_of(granted: &Granted) -> usize {
    let headers = granted.body.headers.iter().map(|(name, value)| name.len() + value.len());
    granted.payload_bytes as usize + headers.sum::<usize>() + MESSAGE_BYTES
}

/// The most messages that one call carries.
fn per_call(push: &Push) -> usize {
    push.batch.as_ref().map_or(1, |batch| batch.max_messages.max(1) as usize)
}

/// Waits until then; without end where there is no such time.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Leases messages, within the topic's rate if it has one, and waits for the first.
async fn start_lease(
    sending: Sending,
    name: TopicName,
    rate_per_s: Option<f64>,
    options: LeaseOptions,
) -> Result<Grants, Error> {
    let (topics, most) = ([name.clone()], options.max_messages);
    let options = |max_messages| LeaseOptions { max_messages, ..options };
    let Some(rate) = rate_per_s else {
        return sending.polls.lease(&topics, options(most), LEASE_WAIT).await;
    };
    let take = async |most: u64| {
        loop {
            let allowance = sending.store.take_calls(&name, rate, most as i64).await?;
            if allowance.calls > 0 {
                return Ok::<_, Error>(allowance.calls);
            }
            let pause = Duration::from_millis(allowance.next_ms.max(1).unsigned_abs());
            sleep(pause.max(RATE_INTERVAL)).await;
        }
    };
    let taken = take(most).await?;
    let grants = sending.polls.lease(&topics, options(taken), Duration::ZERO).await?;
    let used = grants.messages().len() as u64;
    if used < taken {
        sending.store.take_calls(&name, rate, used as i64 - taken as i64).await?;
    }
    if used > 0 {
        return Ok(grants);
    }
    // There are no messages. The first one to arrive is subject to the rate as well.
    let grants = sending.polls.lease(&topics, options(1), LEASE_WAIT).await?;
    if grants.messages().is_empty() {
        return Ok(grants);
    }
    // The lease runs while other instances may use up the rate. After the timeout the message goes back.
    match timeout(RATE_TIMEOUT, take(1)).await {
        Ok(taken) => taken.map(|_| grants),
        Err(_) => Ok(Grants::default()),
    }
}
