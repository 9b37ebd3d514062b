//! Keeps the history of topics: reports what this instance did, and notes partitions for all (see `store::history`).

use dueq_base::notify::Notifier;
use dueq_model::error::Error;
use dueq_store::{Active, Store};
use serde_json::json;
use std::{convert::Infallible, time::Duration};
use tokio::time::sleep;

/// Reports of all instances arrive before this; then partitions are claimed.
const REPORTS_TAKE: Duration = Duration::from_secs(1);
/// Between two partitions, so that history leaves Redis to those who wait for it.
const MIN_PAUSE: Duration = Duration::from_millis(2);

/// Redis is away if it cannot be used in so many checks in a row.
const OUTAGE_CHECKS: u32 = 3;
/// The time between two of them.
const OUTAGE_CHECK: Duration = Duration::from_secs(1);

/// Runs until the future is dropped.
pub async fn keep_history(store: Store, notifier: Notifier) -> Infallible {
    loop {
        sleep(store.until_history()).await;
        if let Err(error) = store.report_activity().await {
            tracing::debug!(%error, "what happened is reported the next time");
        }
        sleep(REPORTS_TAKE).await;
        if let Err(error) = note_claimed(&store, &notifier).await {
            tracing::debug!(%error, "history is noted the next time");
        }
    }
}

/// Notes all partitions whose step is over and that no other instance notes.
async fn note_claimed(store: &Store, notifier: &Notifier) -> Result<(), Error> {
    loop {
        let claimed = store.claim_history().await?;
        let (mut noted, mut failed): (Vec<&Active>, Vec<&Active>) = Default::default();
        for active in &claimed.partitions {
            match store.note_history(active).await {
                Ok(died) => {
                    noted.push(active);
                    if died > 0 && notifier.is_on() {
                        tell_of_deaths(store, notifier, active, died).await;
                    }
                }
                // What happened is noted once Redis has room, or is there again.
                Err(Error::RedisUnavailable) => failed.push(active),
                Err(error) => {
                    tracing::debug!(partition = %active.name, %error, "history was not noted");
                }
            }
            sleep(MIN_PAUSE).await;
        }
        store.finish_history(&claimed, &noted, &failed).await?;
        if !claimed.more || !failed.is_empty() {
            return Ok(());
        }
    }
}

/// Tells that messages of a topic died, if none did in the hour before.
async fn tell_of_deaths(store: &Store, notifier: &Notifier, active: &Active, died: i64) {
    let topic = &active.name.topic;
    match store.is_first_death(topic).await {
        Ok(true) => {
            let text = format!(
                "messages of {topic} die: {died} in the last minute, none in the hour before."
            );
            let fields = json!({"topic": topic.as_str(), "dead": died});
            notifier.send("dead_letters", &text, store.now(), fields);
        }
        Ok(false) => {}
        Err(error) => tracing::debug!(%topic, %error, "a notification is lost"),
    }
}

/// Tells when Redis cannot be used, and when it can again. Runs until the future is dropped.
pub async fn watch_redis(store: Store, notifier: Notifier) -> Infallible {
    let (mut failed, mut away) = (0, None);
    loop {
        sleep(OUTAGE_CHECK).await;
        let now = store.now();
        match (store.outage(), away) {
            (Some(cause), None) => {
                failed += 1;
                if failed == OUTAGE_CHECKS {
                    away = Some(now);
                    let text = format!("Redis cannot be used: {cause}.");
                    notifier.send("redis_away", &text, now, json!({"error": cause}));
                }
            }
            (None, Some(since)) => {
                (failed, away) = (0, None);
                // Every instance may say that it is away, as nothing tells them of each other then.
                if store.is_first_back().await.unwrap_or(true) {
                    let seconds = (now - since) / 1000;
                    let text = format!("Redis can be used again, after {seconds} s.");
                    notifier.send("redis_back", &text, now, json!({"seconds": seconds}));
                }
            }
            (None, None) => failed = 0,
            (Some(_), Some(_)) => {}
        }
    }
}
