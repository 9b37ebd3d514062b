//! A Redis that is there and does not answer: stopped, or held by a script that runs away.

use std::time::{Duration, Instant};

use deadpool_redis::redis as client;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::ground::{DEADLINE, Run, SLACK, both, hasty, redis};
use super::pulse::Pulse;
use crate::harness::Dueq;
use crate::proof::actor::Options;
use crate::proof::history::{FaultKind, Grant, now};
use crate::proof::load::only;
use crate::proof::stage::{Report, Setting};

/// More publishes at once than a lane sends: some of them never reach Redis.
async fn crowd(run: &Run, from: u64) {
    let mut crowd = JoinSet::new();
    for number in from..from + 150 {
        let mut actor = run.load.actor(number);
        crowd.spawn(async move { actor.publish(Options::default()).await });
    }
    while let Some(ended) = crowd.join_next().await {
        ended.unwrap();
    }
}

/// Messages of a topic of their own, held for longer than any stall.
async fn hold(run: &Run, client: u64, messages: usize) -> Vec<Grant> {
    let mut actor = run.load.actor(client);
    for _ in 0..messages {
        actor.publish(Options::default()).await.ok().expect("a publish before the stall");
    }
    let held = actor.lease(messages, 20_000, 1_000, &[]).await;
    held.ok().filter(|held| held.len() == messages).expect("a grant for each").clone()
}

/// One request for each held message, all at once.
async fn use_all(run: &Run, from: u64, held: &[Grant]) {
    let mut crowd = JoinSet::new();
    for (number, grant) in held.iter().cloned().enumerate() {
        let mut actor = run.load.actor(from + number as u64);
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
async fn ack_all(run: &Run, client: u64, held: &[Grant]) {
    let mut actor = run.load.actor(client);
    for grant in held {
        actor.ack(grant).await;
    }
}

/// Much was refused outright, and nothing hung.
fn in_time(run: &mut Run, pulse: &Pulse) {
    let never = run.ended("never");
    run.bit(never > 50, || format!("only {never} requests were refused"));
    run.in_time(DEADLINE + SLACK + pulse.late());
}

/// Redis is stopped for 5 s: requests are answered 503 in time, and none that was refused runs later.
pub async fn redis_paused(setting: Setting) -> Report {
    let mut redis = redis(&setting).start().await;
    let dueq = hasty(Dueq::on(&redis)).bug(setting.bug).start().await;
    let (fleet, pulse) = (only(dueq.client()), Pulse::start(dueq.client()));
    let mut run = Run::begin("redis_paused", &setting, &fleet);
    let mut holders = Run::quiet("redis_paused", &setting, &fleet);
    for round in 0..setting.rounds {
        let first = 10_000 * (round as u64 + 1);
        let held = hold(&holders, first, 120).await;
        run.pace(round, 800).await;
        let (from, begin) = (now(), Instant::now());
        redis.pause();
        crowd(&run, first + 1_000).await;
        use_all(&holders, first + 2_000, &held).await; // the lanes have given up on their first calls
        crowd(&run, first + 3_000).await;
        sleep(Duration::from_secs(5).saturating_sub(begin.elapsed())).await;
        redis.resume();
        run.fault(FaultKind::RedisPaused, from);
        holders.fault(FaultKind::RedisPaused, from);
        run.recovers(first + 4_000, Duration::from_secs(3)).await;
        ack_all(&holders, first + 5_000, &held).await;
    }
    in_time(&mut run, &pulse);
    in_time(&mut holders, &pulse);
    let held = holders.report(&redis.url()).await;
    both(run.report(&redis.url()).await, held)
}

/// A script runs away for some seconds, and Redis answers BUSY.
pub async fn redis_busy(setting: Setting) -> Report {
    let redis = redis(&setting).args(["--lua-time-limit", "200"]).start().await;
    let dueq = hasty(Dueq::on(&redis)).bug(setting.bug).start().await;
    let pulse = Pulse::start(dueq.client());
    let mut run = Run::begin("redis_busy", &setting, &only(dueq.client()));
    for round in 0..setting.rounds {
        let first = 10_000 * (round as u64 + 1);
        run.pace(round, 800).await;
        let from = now();
        let runaway = tokio::spawn(run_away(redis.url()));
        sleep(Duration::from_millis(100)).await;
        crowd(&run, first).await;
        sleep(Duration::from_millis(500)).await;
        crowd(&run, first + 1_000).await; // by now Redis answers BUSY
        sleep(Duration::from_millis(1_500)).await;
        let _: String = redis.command(&["SCRIPT", "KILL"]).await;
        runaway.await.unwrap().expect_err("the script was killed");
        run.fault(FaultKind::RedisBusy, from);
        run.recovers(first + 2_000, Duration::from_secs(3)).await;
    }
    sleep(Duration::from_millis(500)).await;
    in_time(&mut run, &pulse);
    run.report(&redis.url()).await
}

/// A script that never ends, until it is killed.
async fn run_away(url: String) -> client::RedisResult<()> {
    let config = client::AsyncConnectionConfig::new().set_response_timeout(None);
    let mut connection =
        client::Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await?;
    let mut eval = client::cmd("EVAL");
    eval.arg("while true do end").arg(0);
    eval.query_async(&mut connection).await
}
