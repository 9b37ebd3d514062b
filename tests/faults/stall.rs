//! A Redis that is there and does not answer: stopped, or held by a script that runs away.

use std::time::{Duration, Instant};

use deadpool_redis::redis;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::actor::Options;
use crate::harness::{Dueq, Redis, eventually};
use crate::history::{Grant, Ms};
use crate::load::{Load, only};

/// `--redis-timeout-ms` here: shorter than the stalls.
const DEADLINE: Ms = 1_500;
/// What two busy cores and a debug build may add to it.
const SLACK: Ms = 700;

/// More publishes at once than a lane sends: some of them never reach Redis.
async fn crowd(load: &Load, from: u64) {
    let mut crowd = JoinSet::new();
    for number in from..from + 150 {
        let mut actor = load.actor(number);
        crowd.spawn(async move { actor.publish(Options::default()).await });
    }
    while let Some(ended) = crowd.join_next().await {
        ended.unwrap();
    }
}

/// Messages of a topic of their own, held for longer than any stall.
async fn hold(load: &Load, messages: usize) -> Vec<Grant> {
    let mut actor = load.actor(1);
    for _ in 0..messages {
        actor.publish(Options::default()).await.ok().expect("a publish before the stall");
    }
    let held = actor.lease(messages, 20_000, 1_000, &[]).await;
    held.ok().filter(|held| held.len() == messages).expect("a grant for each").clone()
}

/// One request for each held message, all at once.
async fn use_all(load: &Load, held: &[Grant]) {
    let mut crowd = JoinSet::new();
    for (number, grant) in held.iter().cloned().enumerate() {
        let mut actor = load.actor(1_000 + number as u64);
        crowd.spawn(async move {
            match number % 3 {
                0 => drop(actor.ack(&grant).await),
                1 => drop(actor.nack(&grant, 100).await),
                _ => drop(actor.extend(&grant, 30_000).await),
            }
        });
    }
    while let Some(ended) = crowd.join_next().await {
        ended.unwrap();
    }
}

/// Acks all that was held: where the request before was answered `redis_unavailable`, the lease
/// must still be there (the checker demands it).
async fn ack_all(load: &Load, held: &[Grant]) {
    let mut actor = load.actor(2);
    for grant in held {
        actor.ack(grant).await;
    }
}

/// Redis answers again: how soon does a publish get through?
async fn recovers(load: &Load) {
    let begin = Instant::now();
    eventually("a publish after the stall", || {
        let mut actor = load.actor(7_000 + begin.elapsed().as_millis() as u64);
        async move { actor.publish(Options::default()).await.ok().cloned() }
    })
    .await;
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(3), "publishes get through again only after {took:?}");
}

/// Nothing hung, and much of it was refused outright.
fn in_time(load: &Load) {
    let (outcomes, (slowest, op)) = (load.recorder.outcomes(), load.recorder.slowest());
    assert!(outcomes.get("never").is_some_and(|never| *never > 50), "{outcomes:?}");
    assert!(slowest < DEADLINE + SLACK, "a request took {slowest} ms: {op:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_stopped_for_5_s_is_503_in_time_and_nothing_refused_runs_later() {
    let mut redis = Redis::start().await;
    let dueq = Dueq::on(&redis).args(["--redis-timeout-ms", &DEADLINE.to_string()]);
    let dueq = dueq.start().await;
    let mut load = Load::start(&only(dueq.client()), "stopped", 3, 4);
    let mut holders = Load::start(&only(dueq.client()), "stopped-held", 0, 0);
    let held = hold(&holders, 120).await;
    sleep(Duration::from_millis(800)).await;
    redis.pause();
    let begin = Instant::now();
    crowd(&load, 100).await;
    use_all(&holders, &held).await; // the lanes have given up on their first calls
    crowd(&load, 300).await;
    sleep(Duration::from_secs(5).saturating_sub(begin.elapsed())).await;
    redis.resume();
    recovers(&load).await;
    ack_all(&holders, &held).await;
    holders.verify(&redis).await;
    load.verify(&redis).await;
    in_time(&load);
    in_time(&holders);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_that_runs_away_is_503_in_time() {
    let redis = Redis::options().args(["--busy-reply-threshold", "200"]).start().await;
    let dueq = Dueq::on(&redis).args(["--redis-timeout-ms", &DEADLINE.to_string()]);
    let dueq = dueq.start().await;
    let mut load = Load::start(&only(dueq.client()), "busy", 3, 4);
    sleep(Duration::from_millis(800)).await;
    let url = redis.url();
    let runaway = tokio::spawn(async move {
        let client = redis::Client::open(url).unwrap();
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        let mut connection =
            client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
        let mut eval = redis::cmd("EVAL");
        eval.arg("while true do end").arg(0);
        eval.query_async::<()>(&mut connection).await
    });
    sleep(Duration::from_millis(100)).await;
    crowd(&load, 100).await;
    sleep(Duration::from_millis(500)).await;
    crowd(&load, 300).await; // by now Redis answers BUSY
    sleep(Duration::from_millis(1_500)).await;
    let _: String = redis.command(&["SCRIPT", "KILL"]).await;
    runaway.await.unwrap().expect_err("the script was killed");
    recovers(&load).await;
    sleep(Duration::from_millis(500)).await;
    load.verify(&redis).await;
    in_time(&load);
}
