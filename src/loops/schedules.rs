//! Publishes the ticks of schedules. The instance that claims a due schedule makes its ticks (see `store::schedules`). The
//! loop sleeps until the next tick, so ticks are on time and idle schedules cost one check a second.

use dueq_base::traces::{Span, Traces};
use dueq_model::{Millis, ScheduleName, error::Error};
use dueq_store::{IfAbsent, Schedule, Store, Ticked};
use std::{
    convert::Infallible,
    time::{Duration, Instant},
};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};

/// How often to check for schedules that were put through other instances.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The shortest sleep, since Redis's clock is known to the millisecond.
const MIN_SLEEP: Duration = Duration::from_millis(1);
/// Pause after an error of Redis.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);
/// Claimed schedules whose ticks are under way, at most.
const MAX_UNDER_WAY: usize = 256;
/// Maximum number of missed ticks that are published together.
const MAX_BATCH_TICKS: usize = 100;
/// How often to compare time zone databases with other instances, and to look for ticks that are not where they belong.
const COMPARE_INTERVAL: Duration = Duration::from_secs(5);
const REVISE_INTERVAL: Duration = Duration::from_secs(600);
/// Maximum size of their payloads.
const MAX_BATCH_BYTES: usize = 1024 * 1024;

/// Publishes the messages of schedules until the future is dropped.
pub async fn tick_schedules(store: Store, traces: Option<Traces>) -> Infallible {
    // A topic on a server that does not answer holds up the ticks of no other.
    let mut under_way = JoinSet::new();
    // Also the first tick is made where it belongs.
    let mut revising = Revising::new(&store);
    revising.look(&store, false).await;
    if let Ok(name) = ScheduleName::parse("preview")
        && store.get_schedule(&name).await.is_ok()
    {
        // An earlier version let it be made.
        tracing::warn!("a schedule is called `preview`: see /guide/upgrade");
    }
    under_way.spawn(revising.keep(store.clone()));
    loop {
        while under_way.try_join_next().is_some() {}
        if under_way.len() >= MAX_UNDER_WAY {
            under_way.join_next().await;
            continue;
        }
        match store.claim_schedules().await {
            Ok((claimed, next)) if claimed.is_empty() => {
                // The next claim finds out which of the two it was.
                let _ = timeout(until(&store, next), store.schedules_changed()).await;
            }
            Ok((claimed, _)) => {
                for schedule in claimed {
                    under_way.spawn(tick(store.clone(), traces.clone(), schedule));
                }
            }
            Err(_) => sleep(RETRY_INTERVAL).await,
        }
    }
}

/// Moves ticks that are not where they belong: after a change of the time zone database or of Redis's clock, and while
/// others have an older database.
struct Revising {
    steps: watch::Receiver<()>,
    revised: Option<Instant>,
    /// An earlier tick than the next one may be due by now. Kept until a look has succeeded.
    sooner: bool,
}

impl Revising {
    fn new(store: &Store) -> Self {
        Self { steps: store.clock_steps(), revised: None, sooner: false }
    }

    async fn look(&mut self, store: &Store, was_set: bool) {
        let is_due = self.revised.is_none_or(|at| at.elapsed() > REVISE_INTERVAL);
        self.sooner |= was_set;
        let revised = match store.compare_zones().await {
            Ok((false, _)) if !is_due && !self.sooner => return,
            Ok((_, is_first)) => {
                self.sooner |= is_first;
                store.revise_schedules(self.sooner).await
            }
            Err(error) => Err(error),
        };
        // Otherwise the next look tries again.
        let is_done = matches!(revised, Ok(true));
        self.sooner &= !is_done;
        self.revised = is_done.then(Instant::now);
    }

    async fn keep(mut self, store: Store) {
        loop {
            let was_set = timeout(COMPARE_INTERVAL, self.steps.changed()).await.is_ok();
            self.look(&store, was_set).await;
        }
    }
}

fn until(store: &Store, next: Option<Millis>) -> Duration {
    next.map_or(POLL_INTERVAL, |at| store.until_tick(at)).clamp(MIN_SLEEP, POLL_INTERVAL)
}

async fn tick(store: Store, traces: Option<Traces>, schedule: Schedule) {
    // If the outcome is unknown, the claim expires soon, and an instance makes the ticks again.
    let Some(ticked) = publish(&store, traces.as_ref(), &schedule).await else { return };
    if let Err(error) = store.finish_schedule(&schedule, &ticked).await {
        tracing::debug!(name = %schedule.name, %error, "ticks were published but not recorded");
    }
}

/// Publishes the ticks of a claimed schedule. Returns `None` if the outcome of one is unknown or the claim is too old.
async fn publish(store: &Store, traces: Option<&Traces>, schedule: &Schedule) -> Option<Ticked> {
    let spec = &schedule.spec;
    let bytes = spec.message.body.content.payload().len();
    let batch_size = (MAX_BATCH_BYTES / bytes.max(1)).clamp(1, MAX_BATCH_TICKS);
    let ticks = schedule.ticks();
    let (last_at, missed) = (ticks.last().copied(), schedule.left_out(&ticks));
    let mut ticked = Ticked { last_at, missed, ..Ticked::default() };
    for ticks in ticks.chunks(batch_size) {
        // The process was suspended. By now, publishing a tick again may not find that it was published.
        if schedule.is_stale(store.tick_now()) {
            return None;
        }
        // The spans end with the publish.
        let begin = |_| traces.and_then(|it| it.tick(&schedule.name, &spec.topic));
        let spans: Vec<_> = ticks.iter().map(begin).collect();
        let message = |(tick, span): (&Millis, &Option<Span>)| {
            let mut message = schedule.message_of(*tick);
            message.body.trace = span.as_ref().map(Span::context);
            message
        };
        let messages = ticks.iter().zip(&spans).map(message).collect();
        let absent = IfAbsent::Create(spec.maker.as_ref());
        let outcomes = match store.publish_batch(&spec.topic, messages, absent).await {
            Ok(outcomes) => outcomes,
            // The batch was refused as a whole: its one outcome is that of all.
            Err(error) => {
                ticked.missed.extend(&ticks[1..]);
                vec![Err(error)]
            }
        };
        for (tick, outcome) in ticks.iter().zip(outcomes) {
            match outcome {
                Ok(published) => {
                    (ticked.last_message_id, ticked.last_error) = (Some(published.id), None);
                }
                Err(Error::RedisUnavailable | Error::OutcomeUnknown) => return None,
                Err(error) => {
                    tracing::warn!(name = %schedule.name, %error, "a tick could not be published");
                    ticked.last_error = Some(error.to_string());
                    ticked.missed.push(*tick);
                }
            }
        }
    }
    ticked.missed.sort_unstable();
    Some(ticked)
}
