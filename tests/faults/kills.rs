//! Processes and connections that die in the middle of load.

use std::time::Duration;

use deadpool_redis::redis;
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

use crate::actor::Fleet;
use crate::audit::connect;
use crate::harness::{Dueq, Redis};
use crate::history::{Op, Outcome, What};
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
    let (slowest, op) = load.recorder.slowest();
    assert!(slowest < 4_500, "a request took {slowest} ms: {op:?}");
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
    let mut load = Load::start(&fleet, "connections-cut", 10, 12);
    load.inspect(&redis.url());
    for _ in 0..12 {
        sleep(Duration::from_millis(400)).await;
        for _ in 0..4 {
            cut(&redis).await;
            sleep(Duration::from_millis(15)).await;
        }
    }
    let doubtful = |op: &Op| matches!(op.what, What::Publish { outcome: Outcome::Unknown, .. });
    let doubtful: Vec<Op> = load.recorder.of(&load.topic).into_iter().filter(doubtful).collect();
    sleep(Duration::from_millis(500)).await;
    load.verify(&redis).await;
    assert!(load.recorder.outcomes()["ok"] > 300);
    let granted = load.recorder.granted_payloads(&load.topic);
    let ran = doubtful.iter().filter(|op| match &op.what {
        What::Publish { payload, .. } => granted.contains(payload),
        _ => false,
    });
    let (ran, all) = (ran.count(), doubtful.len());
    eprintln!("of {all} publishes without an answer {ran} had run");
    assert!(ran > 0, "no answer was lost after its script ran: nothing was tested");
}

/// Cuts all connections between a script and its answer: what arrives while Redis is busy runs in
/// one turn of its loop with the cut that arrives after it, and answers are written at its end.
async fn cut(redis: &Redis) {
    let (mut busy, mut cutter) =
        (connect(&redis.url()).await.unwrap(), connect(&redis.url()).await.unwrap());
    let work = tokio::spawn(async move {
        let mut eval = redis::cmd("EVAL");
        eval.arg("for i = 1, 4000000 do end").arg(0);
        let _ = eval.query_async::<()>(&mut busy).await; // cut off too
    });
    sleep(Duration::from_millis(10)).await;
    for kind in ["pubsub", "normal"] {
        let mut kill = redis::cmd("CLIENT");
        kill.arg("KILL").arg("TYPE").arg(kind);
        kill.query_async::<i64>(&mut cutter).await.unwrap();
    }
    work.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flushed_scripts_are_invisible() {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    let mut load = Load::start(&only(dueq.client()), "scripts-flushed", 8, 8);
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
