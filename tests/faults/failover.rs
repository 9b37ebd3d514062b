//! A primary and its replica behind one address: what idles, and what starts, while the roles change.

use serde_json::json;

use crate::harness::{Dueq, Redis, eventually, topic};
use crate::proof::scenarios::{failover, snapshot};
use crate::proof::stage::{Durability::Memory, Setting};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a token of a lost grant fits the next one"]
async fn failover() {
    failover::failover(Setting::short(Memory, 1)).await.expect_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a revision that Redis lost is given out again"]
async fn snapshot_restored() {
    snapshot::snapshot_restored(Setting::short(Memory, 1)).await.expect_clean();
}

#[tokio::test]
async fn an_idle_instance_leaves_a_server_that_became_a_replica() {
    let mut pair = failover::Pair::start(&Setting::short(Memory, 0)).await;
    let dueq = Dueq::at(&pair.address.url()).start().await;
    let (client, topic) = (dueq.client(), topic("failover-idle"));
    client.published(&topic, json!({"payload": 1})).await;
    pair.caught_up().await;
    pair.cut_off().await;
    pair.switch().await;
    eventually("nobody at the replica", || async {
        failover::left_alone(&pair.replica).await.then_some(())
    })
    .await;
    // Whichever lane takes these, each finds the primary.
    for _ in 0..10 {
        client.published(&topic, json!({"payload": 2})).await;
    }
}

#[tokio::test]
async fn a_replica_is_refused_at_the_start_with_the_reason() {
    let redis = Redis::start().await;
    let _: () = redis.command(&["REPLICAOF", "127.0.0.1", "1"]).await;
    let finished = Dueq::on(&redis).finish().await;
    assert_eq!(finished.code, 2, "{finished:?}");
    assert!(finished.stderr.contains("is a replica"), "{finished:?}");
}
