//! `max_messages` with reject and drop_oldest: exact, whoever publishes at the same moment.

use serde_json::{Value, json};

use crate::facts::topic_in_balance;
use crate::harness::*;
use crate::topic_facts::{alike, dead_messages, full, lease_over, live, rush, topic_has};

/// A new topic that holds so many and refuses more.
async fn rejecting(client: &Client, max_messages: i64) -> String {
    let topic = topic("max");
    client.new_topic(&topic, json!({"max_messages": max_messages, "on_full": "reject"})).await;
    topic
}

/// The statuses of a batch's results.
async fn batch(client: &Client, topic: &str, messages: &[Value]) -> Vec<String> {
    let path = format!("/topics/{topic}/messages/batch");
    let answer = client.post(&path, &json!({"messages": messages})).await.expect(200).json();
    let results = answer["results"].as_array().unwrap();
    results.iter().map(|result| text(result, "status").to_owned()).collect()
}

#[tokio::test]
async fn a_full_topic_refuses_every_way_to_publish() {
    let client = client().await;
    let topic = rejecting(&client, 1).await;
    let id = client.published(&topic, json!({"payload": 1})).await;
    full(client.publish(&topic, json!({"payload": 2})).await);
    full(client.publish(&topic, json!({"payload": 2, "priority": 9, "delay_ms": 60_000})).await);
    full(client.publish(&topic, json!({"payload": 2, "key": "k"})).await);
    full(client.publish_raw(&topic, "", None, b"x").await);
    assert_eq!(batch(&client, &topic, &alike(2, json!({"payload": 2}))).await, ["topic_full"; 2]);
    topic_has(&client, &topic, json!({"counts": {"ready": 1}, "totals": {"published": 1}})).await;
    client.delete(&id).await.expect(204);
    client.published(&topic, json!({"payload": 2, "key": "k"})).await;
}

#[tokio::test]
async fn a_topic_without_the_limit_is_never_full_and_reject_is_the_default() {
    let (client, topic) = (client().await, topic("max"));
    client.fill(&topic, &alike(50, json!({"payload": 1}))).await;
    client.update_topic(&topic, json!({"max_messages": 51})).await.expect(200);
    client.published(&topic, json!({"payload": 1})).await;
    full(client.publish(&topic, json!({"payload": 1})).await);
    client.update_topic(&topic, json!({"max_messages": null})).await.expect(200);
    client.published(&topic, json!({"payload": 1})).await;
}

#[tokio::test]
async fn delayed_ready_and_leased_count_and_the_dead_and_acked_do_not() {
    let client = client().await;
    let topic = rejecting(&client, 3).await;
    client.update_topic(&topic, json!({"retention": {"acked_ms": 600_000}})).await.expect(200);
    dead_messages(&client, &topic, 2).await;
    client.published(&topic, json!({"payload": 1})).await;
    client.ack_leased(&client.lease_one(&topic).await).await.expect(204);
    client.published(&topic, json!({"payload": 1})).await;
    let held = client.lease_one(&topic).await;
    client.published(&topic, json!({"payload": 1, "priority": 2})).await;
    client.published(&topic, json!({"payload": 1, "delay_ms": 60_000})).await;
    full(client.publish(&topic, json!({"payload": 1})).await);
    client.nack_leased(&held, json!({})).await.expect(200);
    full(client.publish(&topic, json!({"payload": 1})).await);
    let ready = client.lease_one(&topic).await;
    client.ack_leased(&ready).await.expect(204);
    client.published(&topic, json!({"payload": 1})).await;
    full(client.publish(&topic, json!({"payload": 1})).await);
}

#[tokio::test]
async fn a_last_lease_that_is_over_has_left_its_place() {
    let client = client().await;
    let topic = rejecting(&client, 1).await;
    client.published(&topic, json!({"payload": 1, "max_attempts": 1})).await;
    let held = client.lease_one_with(&topic, json!({"lease_ms": 1000})).await;
    full(client.publish(&topic, json!({"payload": 1})).await);
    lease_over(&held).await;
    client.published(&topic, json!({"payload": 2})).await;
    topic_has(&client, &topic, json!({"counts": {"dead": 1, "ready": 1, "leased": 0}})).await;
}

#[tokio::test]
async fn the_limit_is_exact_under_concurrent_publishers_of_two_instances() {
    let (here, there) = (instance().await, instance().await);
    let clients = [here.client(), there.client()];
    for (max, priority) in [(20, 0), (63, 0), (20, 5)] {
        let topic = rejecting(&clients[0], max).await;
        let message = json!({"payload": 1, "priority": priority});
        assert_eq!(rush(&clients, &topic, 64, &message).await, max as usize);
        assert_eq!(live(&clients[1], &topic).await, max);
        let held = clients[0].leased(&topic, json!({"max_messages": 7})).await;
        for message in &held {
            clients[1].ack_leased(message).await.expect(204);
        }
        assert_eq!(rush(&clients, &topic, 64, &message).await, 7);
        assert_eq!(live(&clients[0], &topic).await, max);
    }
}

#[tokio::test]
async fn a_batch_fills_what_is_left_in_its_order() {
    let client = client().await;
    let topic = rejecting(&client, 5).await;
    client.fill(&topic, &alike(2, json!({"payload": 1}))).await;
    let mut messages = alike(6, json!({"payload": 2}));
    messages[1]["key"] = json!("k");
    messages[4]["key"] = json!("k");
    let full = "topic_full";
    let statuses = batch(&client, &topic, &messages).await;
    assert_eq!(statuses, ["ok", "ok", "ok", full, "ok", full], "the fifth is a duplicate");
    assert_eq!(live(&client, &topic).await, 5);
}

#[tokio::test]
async fn a_batch_of_a_thousand_is_as_exact() {
    let client = client().await;
    let topic = rejecting(&client, 700).await;
    let statuses = batch(&client, &topic, &alike(1000, json!({"payload": 2}))).await;
    assert!(statuses[..700].iter().all(|status| status == "ok"), "{statuses:?}");
    assert!(statuses[700..].iter().all(|status| status == "topic_full"), "{statuses:?}");
    assert_eq!(live(&client, &topic).await, 700);
}

#[tokio::test]
async fn what_answers_with_a_message_that_is_there_needs_no_place() {
    for on_full in ["reject", "drop_oldest"] {
        let (client, topic) = (client().await, topic("max"));
        client.new_topic(&topic, json!({"max_messages": 2, "on_full": on_full})).await;
        let first = json!({"payload": 1, "key": "k", "idempotency_key": "i"});
        let id = client.published(&topic, first.clone()).await;
        client.published(&topic, json!({"payload": 2})).await;
        let duplicate = json!({"payload": 3, "key": "k"});
        let replace = json!({"payload": 4, "key": "k", "on_duplicate": "replace"});
        for message in [first, duplicate, replace] {
            let answer = client.publish(&topic, message).await.expect(200);
            assert_eq!(answer.text("id"), id);
        }
        let reject = json!({"payload": 5, "key": "k", "on_duplicate": "reject"});
        client.publish(&topic, reject).await.problem(409, "duplicate_key");
        let want = json!({
            "counts": {"ready": 2}, "totals": {"published": 2, "expired": 0, "replaced": 1},
        });
        topic_has(&client, &topic, want).await;
    }
}

#[tokio::test]
async fn a_refused_publish_takes_neither_key_nor_idempotency_key() {
    let client = client().await;
    let topic = rejecting(&client, 1).await;
    let id = client.published(&topic, json!({"payload": 1})).await;
    let message = json!({"payload": 2, "key": "k", "idempotency_key": "i"});
    full(client.publish(&topic, message.clone()).await);
    client.get_path(&format!("/topics/{topic}/keys/k")).await.problem(404, "message_not_found");
    client.delete(&id).await.expect(204);
    client.publish(&topic, message).await.expect(201);
}

#[tokio::test]
async fn drop_oldest_drops_what_is_due_earliest_whatever_its_priority_or_state() {
    let (client, topic) = (client().await, topic("max"));
    client.new_topic(&topic, json!({"max_messages": 4, "on_full": "drop_oldest"})).await;
    let mut ids = Vec::new();
    for (delay_ms, priority) in [(120_000, 0), (60_000, 255), (0, 9), (0, 0)] {
        let message = json!({"payload": 1, "delay_ms": delay_ms, "priority": priority});
        ids.push(client.published(&topic, message).await);
        tokio::time::sleep(std::time::Duration::from_millis(3)).await;
    }
    let order = [2, 3, 1, 0];
    for (dropped, oldest) in order.into_iter().enumerate() {
        let message = json!({"payload": "new", "delay_ms": 600_000, "priority": dropped % 2});
        client.publish(&topic, message).await.expect(201);
        client.get(&ids[oldest]).await.problem(404, "message_not_found");
        for later in &order[dropped + 1..] {
            client.get(&ids[*later]).await.expect(200);
        }
        let expired = dropped + 1;
        topic_has(&client, &topic, json!({"totals": {"expired": expired, "deleted": 0}})).await;
        assert_eq!(live(&client, &topic).await, 4);
    }
}

#[tokio::test]
async fn drop_oldest_leaves_the_leased_and_is_full_of_them_alone() {
    let (client, topic) = (client().await, topic("max"));
    client.new_topic(&topic, json!({"max_messages": 3, "on_full": "drop_oldest"})).await;
    for n in 0..3 {
        client.published(&topic, json!({"payload": n})).await;
    }
    let mut held = client.leased(&topic, json!({"max_messages": 2})).await;
    let new = client.published(&topic, json!({"payload": 3})).await;
    topic_has(&client, &topic, json!({"counts": {"leased": 2}, "totals": {"expired": 1}})).await;
    held.push(client.lease_one(&topic).await);
    assert_eq!(held[2]["id"], new);
    full(client.publish(&topic, json!({"payload": 4})).await);
    assert_eq!(batch(&client, &topic, &[json!({"payload": 4})]).await, ["topic_full"]);
    for message in &held {
        client.ack_leased(message).await.expect(204);
    }
    client.published(&topic, json!({"payload": 5})).await;
}

#[tokio::test]
async fn what_is_dropped_frees_its_key() {
    let (client, topic) = (client().await, topic("max"));
    client.new_topic(&topic, json!({"max_messages": 1, "on_full": "drop_oldest"})).await;
    let old = client.published(&topic, json!({"payload": 1, "key": "k"})).await;
    client.published(&topic, json!({"payload": 2, "key": "other"})).await;
    client.get(&old).await.problem(404, "message_not_found");
    let again = client.publish(&topic, json!({"payload": 3, "key": "k"})).await.expect(201);
    assert_eq!(again.json()["duplicate"], false);
}

#[tokio::test]
async fn drop_oldest_is_exact_under_concurrent_publishers_of_two_instances() {
    let (here, there, topic) = (instance().await, instance().await, topic("max"));
    let clients = [here.client(), there.client()];
    clients[0].new_topic(&topic, json!({"max_messages": 10, "on_full": "drop_oldest"})).await;
    assert_eq!(rush(&clients, &topic, 64, &json!({"payload": 1})).await, 64);
    topic_has(&clients[0], &topic, json!({"counts": {"ready": 10}, "totals": {"expired": 54}}))
        .await;
    let batches =
        batch(&clients[1], &topic, &alike(100, json!({"payload": 2, "priority": 1}))).await;
    assert_eq!(batches, ["ok"; 100]);
    topic_has(&clients[0], &topic, json!({"counts": {"ready": 10}, "totals": {"expired": 154}}))
        .await;
}

#[tokio::test]
async fn a_limit_lowered_below_what_is_there_removes_nothing_by_itself() {
    let (client, topic) = (client().await, topic("max"));
    client.fill(&topic, &alike(5, json!({"payload": 1}))).await;
    client.update_topic(&topic, json!({"max_messages": 3})).await.expect(200);
    assert_eq!(live(&client, &topic).await, 5);
    for left in [4, 3] {
        full(client.publish(&topic, json!({"payload": 2})).await);
        client.ack_leased(&client.lease_one(&topic).await).await.expect(204);
        assert_eq!(live(&client, &topic).await, left);
    }
    full(client.publish(&topic, json!({"payload": 2})).await);
    client.ack_leased(&client.lease_one(&topic).await).await.expect(204);
    client.published(&topic, json!({"payload": 2})).await;
}

#[tokio::test]
async fn drop_oldest_lowered_below_what_is_there_is_kept_from_the_next_publish_on() {
    let (client, topic) = (client().await, topic("max"));
    let ids = client.fill(&topic, &alike(5, json!({"payload": 1}))).await;
    let changes = json!({"max_messages": 3, "on_full": "drop_oldest"});
    client.update_topic(&topic, changes).await.expect(200);
    let new = client.published(&topic, json!({"payload": 2})).await;
    topic_has(&client, &topic, json!({"counts": {"ready": 3}, "totals": {"expired": 3}})).await;
    let granted = client.leased(&topic, json!({"max_messages": 10})).await;
    assert_eq!(crate::facts::ids(&granted), [&*ids[3], &*ids[4], &*new]);
    topic_in_balance(&client, &topic).await;
}
