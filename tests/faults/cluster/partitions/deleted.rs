//! A deletion of a topic that is cut off, since a primary was away and then the instance died: the next request completes it
//! or takes it back, and what is published since is not lost for it.

use std::collections::BTreeSet;
use std::time::Duration;

use rand::Rng;
use serde_json::{Value, json};

use super::{Ground, PARTITIONS, ids, on_disk};
use crate::harness::*;

/// Messages with and without a name, into every partition: their ids.
async fn fill(client: &Client, topic: &str, name: &str) -> BTreeSet<String> {
    let mut sent = BTreeSet::new();
    for round in 0..8 {
        let message = |n: usize| match n % 4 {
            0 => json!({"payload": n, "key": format!("{name}-{round}-{n}")}),
            _ => json!({"payload": n}),
        };
        let messages: Vec<Value> = (0..300).map(message).collect();
        sent.extend(client.fill(topic, &messages).await);
    }
    sent
}

/// A deletion by force meets a primary that is away, and its instance dies.
async fn cut_off(first: impl AsyncFnOnce(&Ground, &Client)) {
    let mut ground = Ground::start(on_disk()).await;
    let victim = (ground.registry + 2) % 3;
    assert!(!ground.on(victim).await.contains(&0));
    let before: BTreeSet<String> = ground.fill().await.into_iter().collect();
    let (topic, other) = (ground.topic.clone(), ground.other.client());
    ground.lose(victim).await;
    let answer = ground.one.client().delete_topic(&topic, "?force=true").await.expect(503);
    println!("the deletion: {}", answer.text("code"));
    ground.one.kill9();
    ground.one = ground.cluster.launch().start().await;
    ground.find_again(victim).await;
    first(&ground, &other).await;
    // By now it is deleted, or it is not: what comes from now on stays, by whichever instance.
    let mut sent = fill(&other, &topic, "other").await;
    sent.extend(fill(&ground.one.client(), &topic, "one").await);
    let held = ids(&ground.lease_all(&other).await);
    let missing: Vec<_> = sent.difference(&held).collect();
    let from = partitions_of(&missing.iter().map(|id| (*id).clone()).collect::<Vec<_>>());
    assert!(missing.is_empty(), "{} are lost, of partitions {from:?}", missing.len());
    // All of the old topic, or none.
    let old = before.intersection(&held).count();
    assert!(old == 0 || old == before.len(), "{old} of {} are left", before.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forced_deletion_that_was_cut_off_loses_nothing_that_is_published_after_it() {
    cut_off(async |_, _| ()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_is_made_anew_after_a_forced_deletion_that_was_cut_off() {
    cut_off(async |ground, client| {
        client.delete_topic(&ground.topic, "?force=true").await;
        let made = client.put_topic(&ground.topic, json!({"partitions": PARTITIONS})).await;
        made.expect(201);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletions_cut_off_anywhere_lose_nothing_that_is_published_beside_them() {
    let mut ground = Ground::start(on_disk()).await;
    let (topic, other) = (ground.topic.clone(), ground.other.client());
    for round in 0..6 {
        let delete = ground.one.client();
        let name = topic.clone();
        let deletion = tokio::spawn(async move {
            let _ = delete.try_send("DELETE", &format!("/topics/{name}"), &[], None).await;
        });
        tokio::time::sleep(Duration::from_micros(rand::rng().random_range(0..12_000))).await;
        ground.one.kill9();
        let _ = deletion.await;
        let mut sent = BTreeSet::new();
        for n in 0..40 {
            let key = json!({"payload": n, "key": format!("{round}-{n}")});
            let message = if n % 2 == 0 { key } else { json!({"payload": n}) };
            // While the deletion is taken back, a client may be told that nothing happened.
            let id = eventually("a publish", || async {
                let answer = other.publish(&topic, message.clone()).await;
                assert!([201, 503].contains(&answer.status), "{answer}");
                (answer.status == 201).then(|| answer.text("id"))
            });
            sent.insert(id.await);
        }
        ground.one = ground.cluster.launch().start().await;
        let held = ground.lease_all(&ground.one.client()).await;
        let missing: Vec<_> = sent.difference(&ids(&held)).cloned().collect();
        assert!(missing.is_empty(), "round {round}: lost {missing:?}");
        super::ack_all(&other, &held).await;
        // It may be gone, and is made with one partition by anyone who publishes.
        let put = ground.one.client().put_topic(&topic, json!({"partitions": PARTITIONS})).await;
        if put.status == 422 {
            other.delete_topic(&topic, "").await.expect(204);
            other.new_topic(&topic, json!({"partitions": PARTITIONS})).await;
        }
    }
}
