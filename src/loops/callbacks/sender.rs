//! The sender of one pushed topic: leases as many messages as can be called soon, and begins their calls as places come
//! free. It waits in the topic's room as any consumer does, so nothing ticks while there is nothing to send.

use super::{
    Sending,
    context::{CallEnded, DispatchContext},
    flight::{Flights, LEASE_MS},
    parked::{Parked, Parking},
    places::{HostKey, Limits, Offered, Places},
};
use crate::{
    error::Error,
    metrics::CallMetrics,
    model::{Push, TopicName},
    store::{Granted, Grants, LeaseOptions},
};
use futures_util::future::{BoxFuture, FutureExt as _};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

/// How long a look for messages waits; then the topic's settings are looked at again.
const WAIT: Duration = Duration::from_secs(30);
/// Messages that one look takes, at most: as many as one call to Redis does.
const TAKE: u64 = 128;
/// Bytes of payloads that one look takes, at most.
const TAKE_BYTES: u64 = 4 * 1024 * 1024;
/// Those who have waited too long are looked for this often.
const TIDY_EVERY: Duration = Duration::from_millis(50);
/// Between two looks at a rate; what may be called meanwhile is called together.
const RATE_STEP: Duration = Duration::from_millis(10);
/// A leased message waits this long for its topic's rate.
const HOLD: Duration = Duration::from_secs(5);
/// While Redis is away.
const RETRY: Duration = Duration::from_millis(250);

/// A look for messages.
type Look = BoxFuture<'static, Result<Grants, Error>>;

/// Sends one topic's messages.
pub(super) struct Sender {
    sending: Sending,
    flights: Flights,
    name: TopicName,
    metrics: Arc<CallMetrics>,
    ended: mpsc::UnboundedSender<CallEnded>,
    endings: mpsc::UnboundedReceiver<CallEnded>,
    parked: mpsc::UnboundedSender<(HostKey, Parked)>,
    parkings: mpsc::UnboundedReceiver<(HostKey, Parked)>,
    places: Places<Granted>,
    parking: Parking,
    context: Option<(i64, Arc<DispatchContext>)>,
    /// A configuration has changed somewhere.
    stale: bool,
}

impl Sender {
    pub fn new(sending: Sending, flights: Flights, name: TopicName) -> Self {
        let metrics = Arc::new(sending.metrics.calls(&name));
        let (ended, endings) = mpsc::unbounded_channel();
        let (parked, parkings) = mpsc::unbounded_channel();
        Self {
            sending,
            flights,
            name,
            metrics,
            ended,
            endings,
            parked,
            parkings,
            places: Places::new(),
            parking: Parking::default(),
            context: None,
            stale: false,
        }
    }

    /// Sends until the topic is pushed no more, or dueq stops.
    pub async fn run(mut self, stopping: CancellationToken) {
        let mut tidy = interval(TIDY_EVERY);
        tidy.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // One look at a time, and never broken off for other news: what it was granted would have to go back.
        let mut look: Option<Look> = None;
        let mut look_rate = None;
        let mut news = self.sending.polls.pushed();
        while !stopping.is_cancelled() {
            let Ok(push) = self.settings().await else {
                pause(RETRY, &stopping).await;
                continue;
            };
            let Some(context) = push else { break };
            let limits = limits_of(&context.push);
            while let Some((host, granted)) = self.places.begin(Instant::now(), limits) {
                self.flights.begin(context.clone(), host, granted);
            }
            let rate = context.push.rate_per_s;
            if look_rate != rate {
                // It was made for another rate; what it may have been granted goes back.
                (look, look_rate) = (None, rate);
            }
            if look.is_none() {
                let room = (self.places.room(Instant::now(), limits) as u64).min(TAKE);
                look = (room > 0)
                    .then(|| lease(self.sending.clone(), self.name.clone(), rate, room).boxed());
            }
            let looked = async {
                match &mut look {
                    None => std::future::pending().await,
                    Some(look) => look.await,
                }
            };
            tokio::select! {
                biased;
                () = stopping.cancelled() => {}
                leased = looked => {
                    look = None;
                    match leased {
                        Ok(grants) => self.offer(grants, limits).await,
                        // It is pushed no more: that is seen above.
                        Err(Error::TopicNotPushed) => self.context = None,
                        Err(error) => {
                            tracing::debug!(topic = %self.name, %error, "nothing can be sent now");
                            pause(RETRY, &stopping).await;
                        }
                    }
                }
                Some(ended) = self.endings.recv() => self.note_ended(&ended),
                Some((host, parked)) = self.parkings.recv() => self.note_parked(host, parked),
                _ = news.changed() => self.stale = true,
                _ = tidy.tick(), if self.places.in_flight() > 0 || !self.parking.is_empty() => {
                    let now = Instant::now();
                    self.places.look(now, |host| self.sending.caller.address_of(host));
                    let overdue = self.places.overdue(now, limits);
                    self.park(&context, overdue).await;
                    let now = (Instant::now(), self.sending.store.now());
                    let most = self.places.room(now.0, limits);
                    let vacancy = |host: &str| self.places.vacancy(host, now.0, limits);
                    let parked = self.parking.fetch(now, most, vacancy);
                    self.fetch(parked);
                }
            }
        }
        drop(look);
        for granted in self.places.clear() {
            let flights = self.flights.clone();
            self.flights.spawn(async move { flights.put_back(&granted, granted.due_at).await });
        }
        // Whoever comes after this sender need not wait for a place here.
        self.parkings.close();
        while let Ok((host, parked)) = self.parkings.try_recv() {
            self.note_parked(host, parked);
        }
        let parked = self.parking.clear();
        self.fetch(parked);
    }

    fn note_parked(&mut self, host: HostKey, parked: Parked) {
        self.parking.park(host, parked, self.sending.store.now());
    }

    /// Makes parked messages due again.
    fn fetch(&self, parked: Vec<Parked>) {
        if !parked.is_empty() {
            let (flights, topic) = (self.flights.clone(), self.name.clone());
            self.flights.spawn(async move { flights.fetch(&topic, &parked).await });
        }
    }

    /// What the topic's present settings mean for its flights; nothing where it is pushed no more.
    async fn settings(&mut self) -> Result<Option<Arc<DispatchContext>>, Error> {
        let store = &self.sending.store;
        let mut topic = store.known_topic(&self.name).await?;
        if self.stale || topic.as_ref().is_none_or(|topic| topic.settings.push.is_none()) {
            // Another instance may have changed it.
            topic = store.fresh_topic(&self.name).await?;
            self.stale = false;
        }
        // dueq's own comes into being with its first message.
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
        let context = Arc::new(DispatchContext {
            topic: self.name.clone(),
            revision,
            push,
            metrics: self.metrics.clone(),
            ended: self.ended.clone(),
            parked: self.parked.clone(),
            unsigned: Arc::default(),
        });
        self.context = Some((revision, context.clone()));
        Ok(Some(context))
    }

    fn note_ended(&mut self, ended: &CallEnded) {
        let now = Instant::now();
        self.places.call_ended(&ended.host, ended.took, ended.answered, now);
        while let Ok(ended) = self.endings.try_recv() {
            self.places.call_ended(&ended.host, ended.took, ended.answered, now);
        }
    }

    /// Gives each message a place, or lets it wait for one here or in Redis.
    async fn offer(&mut self, grants: Grants, limits: Limits) {
        // The settings may have changed while they were waited for.
        let context = match self.settings().await {
            Ok(Some(context)) if !grants.messages().is_empty() => context,
            // They go back by themselves.
            _ => return,
        };
        let now = Instant::now();
        let mut parked = Vec::new();
        for granted in grants.take() {
            let host = context.host(&granted.body);
            let bytes = granted.payload_bytes as usize;
            match self.places.offer(host.clone(), bytes, granted, now, limits) {
                Offered::Begin(granted) => self.flights.begin(context.clone(), host, granted),
                Offered::Waits => {}
                Offered::Park(message, wait) => parked.push((message, wait)),
            }
        }
        self.park(&context, parked).await;
    }

    /// Gives back messages for which there is no place soon.
    async fn park(&self, context: &Arc<DispatchContext>, parked: Vec<(Granted, Duration)>) {
        if let Some(rate) = context.push.rate_per_s
            && !parked.is_empty()
        {
            // They were counted, and are not called. Before the next look, which would find nothing left for others.
            let back = -(parked.len() as i64);
            if let Err(error) = self.sending.store.take_calls(&self.name, rate, back).await {
                tracing::debug!(topic = %self.name, %error, "calls that were not made count");
            }
        }
        let now = self.sending.store.now();
        for (granted, wait) in parked {
            self.flights.park(context.clone(), granted, now + wait.as_millis() as i64);
        }
    }
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

/// Leases up to `room` messages, and waits for the first; within the topic's rate, if it has one.
async fn lease(
    sending: Sending,
    name: TopicName,
    rate_per_s: Option<f64>,
    room: u64,
) -> Result<Grants, Error> {
    let topics = [name.clone()];
    let options = |max_messages| LeaseOptions {
        max_messages,
        max_bytes: TAKE_BYTES,
        lease_ms: Some(LEASE_MS),
        push: true,
    };
    let Some(rate) = rate_per_s else {
        return sending.polls.lease(&topics, options(room), WAIT).await;
    };
    let take = async |most: u64| {
        loop {
            let allowance = sending.store.take_calls(&name, rate, most as i64).await?;
            if allowance.calls > 0 {
                return Ok::<_, Error>(allowance.calls);
            }
            let pause = Duration::from_millis(allowance.next_ms.max(1).unsigned_abs());
            sleep(pause.max(RATE_STEP)).await;
        }
    };
    let taken = take(room).await?;
    let grants = sending.polls.lease(&topics, options(taken), Duration::ZERO).await?;
    let used = grants.messages().len() as u64;
    if used < taken {
        sending.store.take_calls(&name, rate, used as i64 - taken as i64).await?;
    }
    if used > 0 {
        return Ok(grants);
    }
    // Nothing is there: whatever comes first is called by the rate too, before anything else is looked for.
    let grants = sending.polls.lease(&topics, options(1), WAIT).await?;
    if grants.messages().is_empty() {
        return Ok(grants);
    }
    // Its lease runs, and others may want to call as well: then it goes back, and is waited for without one.
    match timeout(HOLD, take(1)).await {
        Ok(taken) => taken.map(|_| grants),
        Err(_) => Ok(Grants::default()),
    }
}
