//! The watch sees what it is there for, and is not misled by a machine that is busy or a Redis that is stopped.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use tokio::time::sleep;

use crate::harness::{Dueq, Redis, Script, Sights, eventually, topic, watched};

/// Runs a script of so many turns that name this key by its digest, as dueq runs scripts.
async fn run_script(redis: &Redis, turns: usize, key: &str) {
    let text = format!("for i = 1, {turns} do end");
    let sha: String = redis.command(&["SCRIPT", "LOAD", &text]).await;
    let _: Option<i64> = redis.command(&["EVALSHA", &sha, "1", key]).await;
}

fn with_key<'a>(scripts: &'a [Script], key: &str) -> Vec<&'a Script> {
    scripts.iter().filter(|script| script.called.starts_with(key)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_script_is_seen_and_a_short_one_is_not() {
    // A script is not counted that waited for a processor longer than it ran, or that stood still with its machine: a busy
    // machine hides some, and makes short ones long.
    let mut tries = Vec::new();
    for _ in 0..20 {
        let sights = long_and_short().await;
        let is_seen = |key: &&str| {
            let seen = with_key(&sights.scripts, key);
            seen.len() == 1 && seen[0].micros > 5_000 && seen[0].micros <= seen[0].took
        };
        if ["long", "last"].iter().all(is_seen) && with_key(&sights.scripts, "short").is_empty() {
            return;
        }
        tries.push(sights);
    }
    panic!("{tries:?}");
}

async fn long_and_short() -> Sights {
    let ((), sights) = watched(async {
        let redis = Redis::start().await;
        sleep(Duration::from_millis(50)).await; // the first look
        run_script(&redis, 4_000_000, "long").await;
        run_script(&redis, 100, "short").await;
        run_script(&redis, 4_000_000, "last").await; // nobody looks before it ends
    })
    .await;
    sights
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_of_a_redis_that_is_stopped_is_not_long() {
    let ((), sights) = watched(async {
        let mut redis = Redis::start().await;
        for _ in 0..3 {
            let url = redis.url();
            let call = tokio::spawn(async move {
                let client = deadpool_redis::redis::Client::open(url).unwrap();
                let mut connection = client.get_multiplexed_async_connection().await.unwrap();
                let script = deadpool_redis::redis::Script::new("for i = 1, 2000000 do end");
                let _: Result<(), _> = script.key("stopped").invoke_async(&mut connection).await;
            });
            sleep(Duration::from_millis(8)).await;
            redis.pause();
            sleep(Duration::from_millis(150)).await;
            redis.resume();
            call.await.unwrap();
        }
    })
    .await;
    let long = |script: &&Script| script.micros > 150_000;
    assert_eq!(sights.scripts.iter().filter(long).count(), 0, "{sights:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_ends_by_itself_is_named_and_one_that_is_killed_is_not() {
    let ((), sights) = watched(async {
        let redis = Redis::start().await;
        let mut killed = Dueq::on(&redis).start().await;
        killed.kill9();
        let mut other = Dueq::on(&redis).start().await;
        other.client().published(&topic("watched"), json!({"payload": 1})).await;
        other.process.signal(Signal::KILL); // nobody tells the watch
        eventually("its end", || {
            let ended = other.process.ended();
            async move { ended }
        })
        .await;
    })
    .await;
    assert_eq!(sights.found.len(), 1, "{sights:?}");
    assert!(sights.found[0].starts_with("it goes on: "), "{sights:?}");
}
