//! The end of a load: everything is leased and acked until nothing is left but what is dead, and
//! that goes the way the mix wants. It takes no longer than a limit; what has not drained then is a
//! violation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::mix::{AtTheEnd, Mix};
use crate::proof::actor::Actor;
use crate::proof::history::{Grant, Outcome};

/// Drains with these clients, of which the first only looks on; what did not work, in words.
pub async fn drain(mut clients: Vec<Actor>, mix: &Mix) -> Vec<String> {
    let over = Arc::new(AtomicBool::new(false));
    let watcher = clients.remove(0);
    let mut drainers = JoinSet::new();
    for client in clients {
        drainers.spawn(drainer(client, over.clone()));
    }
    let watch = tokio::spawn(watch(watcher, mix.clone())).await;
    let mut found = Vec::new();
    found.extend(watch.unwrap_or_else(|error| Err(super::panic_of(error))).err());
    over.store(true, Ordering::Relaxed);
    while let Some(ended) = drainers.join_next().await {
        found.extend(ended.err().map(super::panic_of));
    }
    found
}

/// Waits until the queue is empty, and sees to the dead.
async fn watch(mut watcher: Actor, mix: Mix) -> Result<(), String> {
    empty(&mut watcher, &mix).await?;
    match mix.at_the_end {
        AtTheEnd::Keep => Ok(()),
        AtTheEnd::Purge => purge(&mut watcher, &mix).await,
        AtTheEnd::Redrive => redrive(&mut watcher, &mix).await,
    }
}

/// Leases and acks until it is told to stop.
async fn drainer(mut actor: Actor, over: Arc<AtomicBool>) {
    let mut held: Vec<Grant> = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let acks = std::mem::take(&mut held);
        match actor.lease(100, 5_000, 200, &acks).await {
            Outcome::Ok(grants) => held = grants,
            _ => sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Waits until nothing lives. The limit is set with the first answer, when it
/// is known how many messages there are.
async fn empty(watcher: &mut Actor, mix: &Mix) -> Result<(), String> {
    let begin = Instant::now();
    let mut limit = None;
    loop {
        match watcher.topic().await {
            Outcome::Ok(topic) => {
                let left: i64 = ["delayed", "ready", "leased", "blocked"]
                    .map(|n| count(&topic, n))
                    .iter()
                    .sum();
                if left == 0 {
                    return Ok(());
                }
                let more = Duration::from_millis(5 * left as u64);
                let end = *limit.get_or_insert(begin + mix.patience + more);
                if Instant::now() > end {
                    return Err(format!("I1 no loss: the queue does not drain: {topic}"));
                }
                if topic["paused"] == true {
                    watcher.pause(false).await;
                }
            }
            // Nothing was ever published.
            Outcome::Refused(404, _) => return Ok(()),
            other if begin.elapsed() > mix.patience => {
                return Err(format!("I12 liveness: getTopic says {:?} at the end", other.bare()));
            }
            _ => {}
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// Purges the dead, however often that takes.
async fn purge(watcher: &mut Actor, mix: &Mix) -> Result<(), String> {
    let limit = Instant::now() + mix.patience;
    loop {
        match watcher.purge(&["dead"]).await {
            Outcome::Ok(_) | Outcome::Refused(404, _) => return Ok(()),
            other if Instant::now() > limit => {
                return Err(format!("I12 liveness: purgeTopic says {:?} at the end", other.bare()));
            }
            _ => sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Redrives the dead until none is left, while the others drain.
async fn redrive(watcher: &mut Actor, mix: &Mix) -> Result<(), String> {
    let limit = Instant::now() + mix.patience;
    loop {
        watcher.redrive_topic(10_000).await;
        empty(watcher, mix).await?;
        match watcher.topic().await {
            Outcome::Ok(topic) if count(&topic, "dead") == 0 => return Ok(()),
            Outcome::Refused(404, _) => return Ok(()),
            other if Instant::now() > limit => {
                return Err(format!("I7 attempts: what is dead cannot be redriven: {other:?}"));
            }
            _ => {}
        }
    }
}

fn count(topic: &Value, name: &str) -> i64 {
    topic["counts"][name].as_i64().unwrap_or(0)
}
