//! A paused topic grants nothing, whatever became of the servers of its partitions meanwhile.

use serde_json::json;

use super::{Ground, PARTITIONS, ids};
use crate::harness::*;

/// There is something in every partition, and nobody is granted anything; until it is resumed, and all of it is.
async fn grants_nothing(ground: &Ground) {
    let clients = [ground.one.client(), ground.other.client()];
    let mut sent = Vec::new();
    for partition in 0..PARTITIONS as u8 {
        let client = &clients[usize::from(partition % 2)];
        sent.push(ground.published(client, partition, json!(partition)).await);
    }
    for client in &clients {
        // An instance may not have met the new primary yet.
        let topic = eventually("a topic of which every partition answers", || async {
            let answer = client.topic(&ground.topic).await;
            assert!([200, 503].contains(&answer.status), "{answer}");
            (answer.status == 200).then(|| answer.json())
        });
        assert_eq!(topic.await["paused"], true);
        for wait in [0, 300] {
            let want = json!({"max_messages": 1000, "wait_ms": wait});
            let held = client.leased(&ground.topic, want).await;
            let from = partitions_of(&ids(&held).into_iter().collect::<Vec<_>>());
            assert!(held.is_empty(), "paused, and granted from {from:?}");
        }
    }
    clients[0].resume_topic(&ground.topic).await.expect(200);
    assert_eq!(ids(&ground.lease_all(&clients[1]).await), sent.into_iter().collect());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_that_a_failover_has_forgotten_holds_all_the_same() {
    let mut ground = Ground::start(Redis::options()).await;
    let victim = (ground.registry + 1) % 3;
    let pause = async |ground: &Ground| {
        ground.one.client().pause_topic(&ground.topic).await.expect(200);
    };
    ground.fall_back(victim, pause).await;
    grants_nothing(&ground).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_that_is_opened_anew_is_as_paused_as_the_others() {
    let mut ground = Ground::start(Redis::options()).await;
    let victim = (ground.registry + 2) % 3;
    ground.one.client().pause_topic(&ground.topic).await.expect(200);
    // With nothing on its disk it comes back empty.
    ground.lose(victim).await;
    ground.find_again(victim).await;
    grants_nothing(&ground).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_while_a_primary_fails_over_holds_once_it_is_answered() {
    let mut ground = Ground::start(Redis::options()).await;
    let victim = (ground.registry + 1) % 3;
    ground.cluster.kill9(victim);
    let client = ground.other.client();
    client.pause_topic(&ground.topic).await.expect(503);
    eventually("a pause", || async {
        let answer = client.pause_topic(&ground.topic).await;
        assert!([200, 503].contains(&answer.status), "{answer}");
        (answer.status == 200).then_some(())
    })
    .await;
    grants_nothing(&ground).await;
}
