//! Slots that move between primaries while dueq uses them: at once, and with a window in which half of a topic's keys are
//! here and half are there.

use std::time::Duration;

use serde_json::json;

use crate::harness::*;

use super::works_here;
use crate::publisher::Publisher;

/// Two instances, one of which has a short deadline.
async fn two(cluster: &Cluster) -> (Dueq, Dueq) {
    let hasty = cluster.launch().args(["--redis-timeout-ms", "1500"]);
    (cluster.launch().args(["--redis-timeout-ms", "10000"]).start().await, hasty.start().await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_goes_round_under_load_refuses_nobody_and_loses_nothing() {
    let cluster = Cluster::start(3, 0).await;
    let (one, other) = two(&cluster).await;
    let name = &cluster.topic_on(0, "round").await;
    one.client().published(name, json!({"payload": "first"})).await;
    let mut poll = Wire::long_poll(other.addr(), &topic("round-elsewhere")).await;
    let publisher = Publisher::start(one.client(), name);
    let second = Publisher::start(other.client(), name);
    for to in [1, 2, 0, 1] {
        cluster.move_slot(slot_of(name), to).await;
        works_here(&other.client(), name).await;
    }
    if moves_atomically() {
        for to in [2, 0, 1] {
            cluster.move_slot_atomically(slot_of(name), to).await;
            works_here(&other.client(), name).await;
        }
    }
    let mut taken = 0;
    for done in [publisher.finish().await, second.finish().await] {
        assert!(done.refused.is_empty(), "{:?}", done.refused);
        for (_, id) in &done.taken {
            one.client().get(id).await.expect(200);
        }
        taken += done.taken.len() as i64;
    }
    let again = if moves_atomically() { 7 } else { 4 };
    assert_eq!(one.client().count(name, "ready").await, taken + 1 + again, "each once");
    assert!(!poll.closes_within(Duration::ZERO).await, "a waiter elsewhere is left alone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_with_half_of_the_keys_is_waited_out() {
    let cluster = Cluster::start(3, 0).await;
    let (patient, hasty) = two(&cluster).await;
    let (client, hasty) = (patient.client(), hasty.client());
    let name = &cluster.topic_on(0, "window").await;
    client.published(name, json!({"payload": 1})).await;
    client.published(name, json!({"payload": 2, "delay_ms": 600_000, "key": "k"})).await;
    hasty.published(name, json!({"payload": 3})).await;
    let held = client.lease_one(name).await;
    let before = client.count(name, "ready").await;

    let moving = cluster.begin_move(slot_of(name), 1).await;
    // Every script names it.
    let meta = format!("dueq:{{{name}:0}}:meta");
    assert!(cluster.move_keys(moving, Some(&meta)).await.unwrap());
    // Anyone who cannot wait is told that nothing happened.
    hasty.publish(name, json!({"payload": 4})).await.problem(503, "redis_unavailable");
    hasty.lease(name, json!({})).await.problem(503, "redis_unavailable");
    hasty.ack_leased(&held).await.problem(503, "redis_unavailable");
    // Other topics do not wait behind it, on the same node or elsewhere.
    for index in 0..3 {
        let elsewhere = cluster.topic_on(index, "window-elsewhere").await;
        hasty.published(&elsewhere, json!({"payload": 1})).await;
        let one = hasty.lease_one(&elsewhere).await;
        hasty.ack_leased(&one).await.expect(204);
    }
    // Who can wait is served once the slot has moved.
    let patient = async {
        let published = client.published(name, json!({"payload": 5}));
        let acked = client.ack_leased(&held);
        let found = client.get_by_key(name, "k");
        let (_, acked, found) = tokio::join!(published, acked, found);
        acked.expect(204);
        found.expect(200);
    };
    let end = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        cluster.end_move(moving).await;
    };
    tokio::join!(patient, end);
    works_here(&hasty, name).await;
    assert_eq!(client.count(name, "ready").await, before + 2, "what was refused did not happen");
    let mut leased = 0;
    while let Some(one) = hasty.leased(name, json!({})).await.pop() {
        hasty.ack_leased(&one).await.expect(204);
        leased += 1;
    }
    assert_eq!(leased, before + 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_hears_of_messages_wherever_its_topic_has_moved_to() {
    let cluster = Cluster::start(3, 0).await;
    let (one, other) = two(&cluster).await;
    let name = &cluster.topic_on(0, "waits").await;
    one.client().new_topic(name, json!({})).await;
    for (to, payload) in [(1, "one"), (2, "two")] {
        let mut poll = Wire::long_poll(other.addr(), name).await;
        waiters(&other.client(), 1).await;
        cluster.move_slot(slot_of(name), to).await;
        one.client().published(name, json!({"payload": payload})).await;
        let woken = poll.answer("the poll", WOKEN).await.unwrap().expect(200);
        assert_eq!(woken.json()["messages"][0]["payload"], payload);
        other.client().ack_leased(&woken.json()["messages"][0]).await.expect(204);
    }
}
