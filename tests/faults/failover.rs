//! A primary and its replica behind one address, whose roles change, failovers that
//! Sentinels lead, and a Redis that goes back to a snapshot.

use crate::harness::{Dueq, Redis};
use crate::proof::scenarios::run;
use crate::proof::stage::{
    Durability::{Memory, Replicated},
    Setting,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failover() {
    run("failover", Setting::short(Memory, 1)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshot_restored() {
    run("snapshot_restored", Setting::short(Memory, 1)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failover_idle() {
    run("failover_idle", Setting::short(Memory, 1)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinel_killed() {
    run("sentinel_killed", Setting::short(Memory, 1)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinel_frozen() {
    run("sentinel_frozen", Setting::short(Memory, 1)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinel_stale() {
    run("sentinel_stale", Setting::short(Memory, 1)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replica_away() {
    run("replica_away", Setting::short(Replicated, 1)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replica_deaf() {
    run("replica_deaf", Setting::short(Replicated, 1)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replica_lost() {
    run("replica_lost", Setting::short(Replicated, 1)).await.expect_clean();
}

#[tokio::test]
async fn a_replica_is_refused_at_the_start_with_the_reason() {
    let redis = Redis::start().await;
    let _: () = redis.command(&["REPLICAOF", "127.0.0.1", "1"]).await;
    let finished = Dueq::on(&redis).finish().await;
    assert_eq!(finished.code, 2, "{finished:?}");
    assert!(finished.stderr.contains("read-only replica"), "{finished:?}");
}
