//! A topic gets more partitions while it is in use: nothing moves, nothing is lost, and names stand in the way.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use serde_json::{Value, json};

use crate::facts::{ids, killed};
use crate::harness::*;
use crate::partitions::{batch, lease_all, sorted, token};

async fn grow(client: &Client, topic: &str, partitions: usize) -> Value {
    let grown = client.update_topic(topic, json!({"partitions": partitions})).await.expect(200);
    let grown = grown.json();
    assert_eq!(grown["config"]["partitions"], partitions);
    grown
}

#[tokio::test]
async fn what_is_there_stays_where_it_is() {
    let (one, other) = (instance().await, instance().await);
    let (one, other) = (one.client(), other.client());
    let topic = topic("grow");
    let before = one.new_topic(&topic, json!({"max_messages": 100_000})).await.json();
    let mut all = batch(&one, &topic, &vec![json!({"payload": "before"}); 20]).await;
    let later = batch(&one, &topic, &vec![json!({"payload": 1, "delay_ms": 3_600_000}); 5]).await;
    // Looking for each message takes a while.
    let long = json!({"max_messages": 3, "lease_ms": 600_000});
    let held = other.leased(&topic, long).await;
    let wait = json!({"wait_ms": 20_000, "max_messages": 1000});
    for partitions in [4, 64] {
        let grown = grow(&one, &topic, partitions).await;
        assert_ne!(grown["revision"], before["revision"]);
        assert_eq!(grown["config"]["max_messages"], 100_000);
        for id in all.iter().chain(&later) {
            other.get(id).await.expect(200);
        }
        // More than one partition takes at a time.
        all.extend(batch(&other, &topic, &vec![json!({"payload": partitions}); 700]).await);
    }
    assert!(partitions_of(&all).len() > 4, "{:?}", partitions_of(&all));
    for message in &held {
        other.ack_leased(message).await.expect(204);
    }
    let mut got = ids(&held);
    got.extend(ids(&lease_all(&one, &topic).await));
    assert_eq!(sorted(&got), sorted(&all));
    assert_eq!(one.count(&topic, "delayed").await, 5);
    // Who waits since before hears of what comes into new partitions.
    let waiting = other.leased(&topic, wait);
    let growing = async {
        waiters(&other, 1).await;
        grow(&one, &topic, 256).await;
        one.published(&topic, json!({"payload": "last"})).await;
    };
    let (waited, ()) = tokio::join!(waiting, growing);
    assert_eq!(waited.len(), 1);
}

#[tokio::test]
async fn a_paused_topic_stays_paused() {
    let client = client().await;
    let topic = topic("grow");
    client.new_topic(&topic, json!({})).await;
    for partitions in [4, 16] {
        client.post(&format!("/topics/{topic}/pause"), &json!({})).await.expect(200);
        grow(&client, &topic, partitions).await;
        assert_eq!(client.topic(&topic).await.json()["paused"], true);
        batch(&client, &topic, &vec![json!({"payload": 1}); 300]).await;
        assert!(client.leased(&topic, json!({})).await.is_empty());
        client.post(&format!("/topics/{topic}/resume"), &json!({})).await.expect(200);
        assert_eq!(lease_all(&client, &topic).await.len(), 300);
    }
}

#[tokio::test]
async fn names_stand_in_the_way() {
    let client = client().await;
    for partitions in [1, 2] {
        let topic = topic("grow");
        client.new_topic(&topic, json!({"partitions": partitions})).await;
        for n in 0..3 {
            client.published(&topic, json!({"payload": n, "key": format!("order-{n}")})).await;
        }
        let unnamed = client.published(&topic, json!({"payload": "unnamed"})).await;
        for method in ["PUT", "PATCH"] {
            let body = json!({"partitions": 8});
            let answer = client.send_json(method, &format!("/topics/{topic}"), &body).await;
            let answer = answer.problem(409, "names_in_use");
            assert!(answer.text("detail").contains(": 3 keys"), "{}", answer.text("detail"));
        }
        let seen = client.topic(&topic).await.json();
        assert_eq!(seen["config"]["partitions"], partitions);
        // It goes on as before.
        let again = json!({"payload": 1, "key": "order-1", "on_duplicate": "reject"});
        client.publish(&topic, again).await.problem(409, "duplicate_key");
        let held = lease_all(&client, &topic).await;
        assert!(ids(&held).contains(&unnamed));
        for message in held {
            client.ack_leased(&message).await.expect(204);
        }
        grow(&client, &topic, 8).await;

        client.update_topic(&topic, json!({"idempotency_window_ms": 6000})).await.expect(200);
        client.published(&topic, json!({"payload": 1, "idempotency_key": "once"})).await;
        let refused = client.update_topic(&topic, json!({"partitions": 16})).await;
        refused.problem(409, "names_in_use");
        eventually("the idempotency key to be forgotten", || async {
            let grown = client.update_topic(&topic, json!({"partitions": 16})).await;
            (grown.status == 200).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn dead_messages_without_a_name_are_no_hindrance() {
    // Its log is looked at in the end.
    let dueq = instance().await;
    let client = dueq.client();
    let topic = topic("grow");
    client.new_topic(&topic, json!({})).await;
    let plain = killed(&client, &topic, json!({"payload": 1})).await;
    let own = killed(&client, &topic, json!({"payload": 2, "max_attempts": 2})).await;
    grow(&client, &topic, 16).await;
    assert_eq!(sorted(&ids(&client.listed(&topic, "state=dead").await)), sorted(&[plain, own]));
}

#[tokio::test]
async fn names_of_dead_messages_stand_in_the_way_too() {
    let client = client().await;
    for name in ["key", "group"] {
        let topic = topic("grow");
        client.new_topic(&topic, json!({"max_attempts": 1})).await;
        let mut message = json!({"payload": 1});
        message[name] = json!("a");
        let id = client.published(&topic, message).await;
        let held = client.lease_one(&topic).await;
        client.nack_leased(&held, json!({})).await.expect(200);
        let grown = client.update_topic(&topic, json!({"partitions": 16})).await;
        grown.problem(409, "names_in_use");
        client.redrive(&id).await.expect(200);
        let held = client.lease_one(&topic).await;
        client.ack_leased(&held).await.expect(204);
        grow(&client, &topic, 16).await;
    }
}

#[tokio::test]
async fn nothing_is_dropped_by_growth() {
    let client = client().await;
    let refused = async |topic: &str| {
        let grown = client.update_topic(topic, json!({"partitions": 16})).await;
        grown.refused(422).field("partitions");
        assert_eq!(client.topic(topic).await.json()["config"]["partitions"], 1);
    };
    let full = topic("grow");
    client.new_topic(&full, json!({"max_messages": 320, "on_full": "drop_oldest"})).await;
    batch(&client, &full, &vec![json!({"payload": 1}); 100]).await;
    refused(&full).await;
    client.update_topic(&full, json!({"max_messages": 4800})).await.expect(200);
    grow(&client, &full, 16).await;
    batch(&client, &full, &vec![json!({"payload": 2}); 100]).await;
    assert_eq!(client.count(&full, "ready").await, 200);
    assert_eq!(client.total(&full, "expired").await, 0);

    // Nor does the topic get room for more than its limit.
    let reject = topic("grow");
    client.new_topic(&reject, json!({"max_messages": 320})).await;
    batch(&client, &reject, &vec![json!({"payload": 1}); 320]).await;
    refused(&reject).await;
    client.publish(&reject, json!({"payload": 1})).await.problem(429, "topic_full");
    client.purge(&reject, &["ready"]).await.expect(200);
    grow(&client, &reject, 16).await;

    let (dead, acked) = (topic("grow"), topic("grow"));
    client.new_topic(&dead, json!({"max_attempts": 1, "retention": {"dead_max": 160}})).await;
    let kept = json!({"retention": {"acked_ms": 3_600_000, "acked_max": 160}});
    client.new_topic(&acked, kept).await;
    for (topic, verb) in [(&dead, "nack"), (&acked, "ack")] {
        batch(&client, topic, &vec![json!({"payload": 1}); 20]).await;
        let held = client.leased(topic, json!({"max_messages": 100, "wait_ms": 10_000})).await;
        let tokens: Vec<_> = held.iter().map(|it| token(it, json!({}))).collect();
        client.held_batch(verb, &tokens).await;
        refused(topic).await;
    }
    client.update_topic(&dead, json!({"retention": {"dead_max": 1600}})).await.expect(200);
    grow(&client, &dead, 16).await;
    assert_eq!(client.count(&dead, "dead").await, 20);
}

#[tokio::test]
async fn it_grows_under_load() {
    let (one, other) = (instance().await, instance().await);
    let topic = topic("grow");
    one.client().new_topic(&topic, json!({})).await;
    let done = AtomicBool::new(false);
    let (publishing, left) = (AtomicUsize::new(2), AtomicUsize::new(0));
    let publish = async |client: Client| {
        let mut sent = Vec::new();
        while !done.load(Relaxed) {
            left.fetch_add(51, Relaxed);
            sent.push(client.published(&topic, json!({"payload": 1})).await);
            sent.extend(batch(&client, &topic, &vec![json!({"payload": 2}); 50]).await);
        }
        publishing.fetch_sub(1, Relaxed);
        sent
    };
    let consume = async |client: Client| {
        let (mut got, mut last) = (Vec::new(), Instant::now());
        // What does not come within 30 s is lost.
        while publishing.load(Relaxed) + left.load(Relaxed) > 0 && last.elapsed().as_secs() < 30 {
            let want = json!({"max_messages": 100, "wait_ms": 500});
            let held = client.leased(&topic, want).await;
            if held.is_empty() {
                continue;
            }
            let tokens: Vec<_> = held.iter().map(|it| token(it, json!({}))).collect();
            client.held_batch("ack", &tokens).await;
            left.fetch_sub(held.len(), Relaxed);
            (got, last) = ([got, ids(&held)].concat(), Instant::now());
        }
        got
    };
    let growth = async {
        for partitions in [2, 4, 16, 64] {
            tokio::time::sleep(std::time::Duration::from_millis(150)).await;
            grow(&one.client(), &topic, partitions).await;
        }
        done.store(true, Relaxed);
    };
    let (mut sent, more, mut got, rest, ()) = tokio::join!(
        publish(one.client()),
        publish(other.client()),
        consume(one.client()),
        consume(other.client()),
        growth
    );
    sent.extend(more);
    got.extend(rest);
    let (got, sent) = (sorted(&got), sorted(&sent));
    assert!(got == sent, "{} published, {} acked", sent.len(), got.len());
}

/// An instance that has not heard of the growth.
#[tokio::test]
async fn who_knows_a_topic_from_before_asks_all_of_it() {
    let (one, other) = (instance().await, instance().await);
    let (one, other) = (one.client(), other.client());
    let of_all = async |change: &str| {
        let topic = topic("grow");
        one.new_topic(&topic, json!({"max_attempts": 1})).await;
        one.published(&topic, json!({"payload": 1})).await;
        other.topic(&topic).await.expect(200);
        if change == "resume" {
            one.pause_topic(&topic).await.expect(200);
        }
        grow(&one, &topic, 16).await;
        let sent = batch(&one, &topic, &vec![json!({"payload": 1}); 299]).await;
        assert!(partitions_of(&sent).len() > 1);
        topic
    };
    let topic = of_all("pause").await;
    other.pause_topic(&topic).await.expect(200);
    assert!(one.leased(&topic, json!({"max_messages": 100})).await.is_empty());
    assert_eq!(one.topic(&topic).await.json()["paused"], true);

    let topic = of_all("resume").await;
    other.post(&format!("/topics/{topic}/resume"), &json!({})).await.expect(200);
    assert_eq!(lease_all(&one, &topic).await.len(), 300);

    let topic = of_all("look").await;
    assert_eq!(other.count(&topic, "ready").await, 300);
    let topic = of_all("purge").await;
    let purged = other.purge(&topic, &["ready"]).await.expect(200);
    assert_eq!((purged.number("purged"), purged.number("remaining")), (300, 0));

    let topic = of_all("redrive").await;
    for message in lease_all(&one, &topic).await {
        one.nack_leased(&message, json!({})).await.expect(200);
    }
    let redriven = other.redrive_topic(&topic, json!({})).await.expect(200);
    assert_eq!((redriven.number("redriven"), redriven.number("remaining")), (300, 0));

    let topic = of_all("lease").await;
    one.update_topic(&topic, json!({"max_leased": 400})).await.expect(200);
    other.count(&topic, "ready").await;
    grow(&one, &topic, 64).await;
    assert_eq!(lease_all(&other, &topic).await.len(), 300);
}
