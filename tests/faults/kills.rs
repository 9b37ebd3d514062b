//! Processes and connections that die in the middle of load.

use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

use crate::actor::Fleet;
use crate::harness::{Dueq, Redis};
use crate::load::{Load, only};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_killed_every_second_loses_and_doubles_nothing() {
    let redis = Redis::start().await;
    let mut instances = [Dueq::on(&redis).start().await, Dueq::on(&redis).start().await];
    let fleet = Fleet::new(instances.iter().map(Dueq::client));
    let mut load = Load::start(&fleet, "instance-killed", 4, 5);
    load.inspect(&redis.url());
    for round in 0..8 {
        sleep(Duration::from_millis(700)).await;
        let index = round % instances.len();
        instances[index].kill9();
        sleep(Duration::from_millis(150)).await;
        instances[index] = Dueq::on(&redis).start().await;
        fleet.replace(index, instances[index].client());
    }
    sleep(Duration::from_millis(500)).await;
    load.verify(&redis).await;
    assert!(load.recorder.outcomes()["ok"] > 300, "too few requests to mean anything");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_killed_and_restarted_comes_back_with_everything() {
    // With `always` every answer is on disk before it is sent: I1 holds strictly.
    let always = ["--appendfsync", "always"];
    let mut redis = Redis::options().appendonly().args(always).start().await;
    let dueq = Dueq::on(&redis).start().await;
    let mut load = Load::start(&only(dueq.client()), "redis-killed", 4, 5);
    load.inspect(&redis.url());
    for _ in 0..4 {
        sleep(Duration::from_millis(1_200)).await;
        redis.kill9();
        let logged = dueq.log().len();
        let tries = connections_within(Duration::from_millis(500), redis.port()).await;
        assert!(tries < 100, "{tries} connections in 500 ms: a reconnect storm");
        let logged = dueq.log().len() - logged;
        assert!(logged < 100_000, "{logged} bytes of log: {}", dueq.log());
        dueq.client().get_path("/readyz").await.expect(503);
        dueq.client().get_path("/healthz").await.expect(200);
        redis.restart().await;
    }
    sleep(Duration::from_millis(800)).await;
    load.verify(&redis).await;
    let outcomes = load.recorder.outcomes();
    assert!(outcomes["ok"] > 300 && outcomes.contains_key("never"), "{outcomes:?}");
    // While Redis was away nothing hung for longer than --redis-timeout-ms (3 s) and some.
    assert!(load.recorder.slowest() < 4_500, "slowest {} ms", load.recorder.slowest());
}

/// How many connections somebody who is no Redis gets at this port; it closes them at once.
async fn connections_within(limit: Duration, port: u16) -> usize {
    let mut connections = 0;
    let _ = timeout(limit, async {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("the dead Redis's port");
        while listener.accept().await.is_ok() {
            connections += 1;
        }
    })
    .await;
    connections
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_cut_in_bursts_double_nothing() {
    let redis = Redis::start().await;
    let dueq = [Dueq::on(&redis).start().await, Dueq::on(&redis).start().await];
    let fleet = Fleet::new(dueq.iter().map(Dueq::client));
    let mut load = Load::start(&fleet, "connections-cut", 4, 5);
    load.inspect(&redis.url());
    for _ in 0..12 {
        sleep(Duration::from_millis(450)).await;
        for _ in 0..4 {
            let _: i64 = redis.command(&["CLIENT", "KILL", "TYPE", "normal"]).await;
            let _: i64 = redis.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
            sleep(Duration::from_millis(15)).await;
        }
    }
    sleep(Duration::from_millis(500)).await;
    load.verify(&redis).await;
    assert!(load.recorder.outcomes()["ok"] > 300);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flushed_scripts_are_invisible() {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    let mut load = Load::start(&only(dueq.client()), "scripts-flushed", 4, 5);
    load.inspect(&redis.url());
    for _ in 0..60 {
        sleep(Duration::from_millis(50)).await;
        let _: String = redis.command(&["SCRIPT", "FLUSH"]).await;
    }
    load.verify(&redis).await;
    let outcomes = load.recorder.outcomes();
    assert!(!outcomes.contains_key("never") && !outcomes.contains_key("unknown"), "{outcomes:?}");
    assert!(outcomes["ok"] > 200, "{outcomes:?}");
}
