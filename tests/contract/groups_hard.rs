//! Groups where something else happens at the same moment: a rate, a TTL, a replace, a call that has no room.

use serde_json::json;

use crate::facts::{counted, topic_in_balance};
use crate::groups::{line, payloads};
use crate::harness::*;

#[tokio::test]
async fn a_head_that_has_gone_takes_nothing_of_the_rate() {
    let (client, topic) = (client().await, topic("groups"));
    client.configure(&topic, json!({"group_rate_per_s": 10})).await;
    let far = json!({"payload": 0, "group": "a", "delay_ms": 3_600_000});
    let first = client.published(&topic, far).await;
    line(&client, &topic, "a", 1..3).await;
    client.delete(&first).await.expect(204);
    for wanted in [1, 2] {
        let got = client.leased(&topic, json!({"wait_ms": 10_000})).await;
        assert_eq!(got.len(), 1);
        assert_eq!(got[0]["payload"], wanted);
        client.ack_leased(&got[0]).await.expect(204);
    }
}

#[tokio::test]
async fn a_rate_whose_turn_has_passed_leaves_a_message_its_due_time() {
    let (client, topic) = (client().await, topic("groups"));
    client.configure(&topic, json!({"group_rate_per_s": 100})).await;
    let ids = line(&client, &topic, "a", 0..2).await;
    let due = client.get(&ids[1]).await.text("due_at");
    let head = client.lease_one(&topic).await;
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    client.ack_leased(&head).await.expect(204);
    let next = client.get(&ids[1]).await;
    assert_eq!((next.text("state"), next.text("due_at")), ("ready".into(), due));
}

#[tokio::test]
async fn a_message_that_waits_for_the_rate_keeps_a_ttl_of_its_own() {
    let (client, topic) = (client().await, topic("groups"));
    client.configure(&topic, json!({"ttl_ms": 700, "group_rate_per_s": 0.5})).await;
    for n in 0..2 {
        let message = json!({"payload": n, "group": "a", "ttl_ms": 3_600_000});
        client.published(&topic, message).await;
    }
    for wanted in [0, 1] {
        let got = client.leased(&topic, json!({"wait_ms": 10_000})).await;
        assert_eq!(got.len(), 1, "{wanted}");
        assert_eq!(got[0]["payload"], wanted);
        client.ack_leased(&got[0]).await.expect(204);
    }
}

#[tokio::test]
async fn a_blocked_message_is_replaced_while_its_head_expires() {
    let (client, topic) = (client().await, topic("groups"));
    let first = json!({"payload": 0, "group": "a", "key": "y", "ttl_ms": 60});
    client.published(&topic, first).await;
    client.published(&topic, json!({"payload": 1, "group": "a", "key": "x"})).await;
    tokio::time::sleep(std::time::Duration::from_millis(80)).await;
    let replaced = json!({"payload": 2, "group": "a", "key": "x", "on_duplicate": "replace"});
    let other = json!({"payload": 3, "group": "b", "key": "y"});
    client.publish_batch(&topic, &[replaced, other]).await.expect(200);
    counted(&client, &topic, &[("counts", "ready", 2), ("counts", "blocked", 0)]).await;
    let (mut found, leased) = payloads(&client, &topic).await;
    found.sort();
    assert_eq!(found, [2, 3]);
    for message in &leased {
        client.ack_leased(message).await.expect(204);
    }
    topic_in_balance(&client, &topic).await;
    client.delete_topic(&topic, "").await.expect(204);
}

#[tokio::test]
async fn a_batch_keeps_the_order_of_a_group_though_a_call_has_no_room_for_it() {
    let (client, topic) = (client().await, topic("groups"));
    client.configure(&topic, json!({"max_attempts": 1000})).await;
    let named: Vec<_> = (0..6).map(|n| json!({"payload": n, "key": format!("k{n}")})).collect();
    client.fill(&topic, &named).await;
    for _ in 0..24 {
        for message in client.leased(&topic, json!({"max_messages": 6})).await {
            let reason = json!({"delay_ms": 0, "reason": "\u{1}".repeat(1024)});
            client.nack_leased(&message, reason).await.expect(200);
        }
    }
    let ordered = (0..150).map(|n| json!({"payload": n, "group": "a", "priority": 9}));
    let all: Vec<_> = named.into_iter().chain(ordered).collect();
    client.publish_batch(&topic, &all).await.expect(200);
    for wanted in 0..150 {
        let message = client.lease_one(&topic).await;
        assert_eq!(number(&message, "payload"), wanted);
        client.ack_leased(&message).await.expect(204);
    }
}

#[tokio::test]
async fn another_concurrency_is_no_other_rate() {
    let (client, topic) = (client().await, topic("groups"));
    client.configure(&topic, json!({"group_rate_per_s": 0.01})).await;
    line(&client, &topic, "a", 0..3).await;
    client.reconfigure(&topic, json!({"group_concurrency": 2})).await;
    // The second has come to the front, and waits for its turn there.
    counted(&client, &topic, &[("counts", "delayed", 1), ("counts", "blocked", 1)]).await;
    assert_eq!(payloads(&client, &topic).await.0, [0]);
}

#[tokio::test]
async fn a_new_rate_begins_anew() {
    let (client, topic) = (client().await, topic("groups"));
    let slow = json!({"group_concurrency": 10, "group_rate_per_s": 0.01});
    client.configure(&topic, slow).await;
    let ids = line(&client, &topic, "a", 0..10).await;
    client.update_topic(&topic, json!({"group_rate_per_s": 1000})).await.expect(200);
    for id in ids {
        client.delete(&id).await.expect(204);
    }
    line(&client, &topic, "a", 10..11).await;
    assert_eq!(payloads(&client, &topic).await.0, [10]);
}
