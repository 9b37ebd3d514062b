//! Schedules tick here: whichever instance comes first makes a tick (see `store::schedules`). The loop sleeps until the
//! next one, so that it comes on time and idle schedules cost nothing but a look a second.

use crate::{
    error::Error,
    model::Millis,
    seeded,
    store::{Schedule, Store, Ticked},
};
use futures_util::future::join_all;
use std::{convert::Infallible, time::Duration};
use tokio::time::{sleep, timeout};

/// Schedules that were put through other instances are seen this late, at most.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The clock that says how long to sleep is known to the millisecond.
const BLINK: Duration = Duration::from_millis(1);
/// While Redis is away.
const RETRY: Duration = Duration::from_millis(250);
/// Ticks that are made up for go to Redis together, up to so many…
const TICKS: usize = 100;
/// …of so many bytes.
const TICKS_BYTES: usize = 1024 * 1024;

/// Publishes what schedules say until the future is dropped.
pub async fn tick_schedules(store: Store) -> Infallible {
    loop {
        match store.claim_schedules().await {
            Ok((claimed, next)) if claimed.is_empty() => {
                // Whether time is over or somebody rang, the next look says.
                let _ = timeout(until(&store, next), store.schedules_changed()).await;
            }
            Ok((claimed, _)) => {
                join_all(claimed.iter().map(|schedule| tick(&store, schedule))).await;
                if seeded::bug("loop that ends") {
                    return std::future::pending().await;
                }
            }
            Err(_) => sleep(RETRY).await,
        }
    }
}

fn until(store: &Store, next: Option<Millis>) -> Duration {
    next.map_or(LOOK_EVERY, |at| store.until(at)).clamp(BLINK, LOOK_EVERY)
}

async fn tick(store: &Store, schedule: &Schedule) {
    // Where the outcome is not known, the claim is soon anybody's, and somebody makes the ticks again.
    let Some(ticked) = publish(store, schedule).await else { return };
    if let Err(error) = store.finish_schedule(schedule, &ticked).await {
        tracing::debug!(name = %schedule.name, %error, "a tick was made and is still to be noted");
    }
}

/// Publishes the ticks of a claimed schedule; `None` where that is not known of all, or the claim is too old.
async fn publish(store: &Store, schedule: &Schedule) -> Option<Ticked> {
    let spec = &schedule.spec;
    let bytes = spec.message.body.content.payload().len();
    let together = (TICKS_BYTES / bytes.max(1)).clamp(1, TICKS);
    let ticks = schedule.ticks();
    let mut ticked = Ticked { last_at: ticks.last().copied(), ..Ticked::default() };
    for ticks in ticks.chunks(together) {
        // This process was stopped, and by now a repetition may find nothing.
        if schedule.is_stale(store.now()) {
            return None;
        }
        let messages = ticks.iter().map(|tick| schedule.message_of(*tick)).collect();
        let outcomes = match store.publish_batch(&spec.topic, messages).await {
            Ok(outcomes) => outcomes,
            // Refused as a whole.
            Err(error) => vec![Err(error)],
        };
        for outcome in outcomes {
            match outcome {
                Ok(published) => {
                    (ticked.last_message_id, ticked.last_error) = (Some(published.id), None);
                }
                Err(Error::RedisUnavailable | Error::OutcomeUnknown) => return None,
                Err(error) => {
                    tracing::warn!(name = %schedule.name, %error, "a tick published nothing");
                    ticked.last_error = Some(error.to_string());
                }
            }
        }
    }
    Some(ticked)
}
