//! The order in which ready messages are granted: priority, then due time, then publishing.

use serde_json::json;

use crate::facts::ids;
use crate::harness::*;

async fn all(client: &Client, topic: &str) -> Vec<String> {
    ids(&client.leased(topic, json!({"max_messages": 1000})).await)
}

#[tokio::test]
async fn higher_priority_goes_first() {
    let (client, topic) = (client().await, topic("order"));
    let mut sent = Vec::new();
    for priority in [0, 255, 1, 128, 254, 0, 255] {
        let message = json!({"payload": 1, "priority": priority});
        sent.push(client.published(&topic, message).await);
    }
    let wanted: Vec<&String> = [1, 6, 4, 3, 2, 0, 5].iter().map(|i| &sent[*i]).collect();
    assert_eq!(all(&client, &topic).await.iter().collect::<Vec<_>>(), wanted);
}

#[tokio::test]
async fn at_equal_priority_the_earlier_due_goes_first() {
    for priority in [0, 9] {
        let (client, topic) = (client().await, topic("order"));
        let now = shared().await.redis.time_ms().await;
        let mut sent = Vec::new();
        for due in [900, 700, 800, 600].map(|ms| instant(now + ms)) {
            let message = json!({"payload": 1, "priority": priority, "deliver_at": due});
            sent.push(client.published(&topic, message).await);
        }
        eventually("all due", || async {
            (client.count(&topic, "ready").await == 4).then_some(())
        })
        .await;
        sent = [3, 1, 2, 0].map(|i| sent[i].clone()).to_vec();
        assert_eq!(all(&client, &topic).await, sent, "priority {priority}");
    }
}

#[tokio::test]
async fn at_equal_priority_and_due_time_the_earlier_published_goes_first() {
    for priority in [0, 9] {
        let (client, topic) = (client().await, topic("order"));
        let at = instant(shared().await.redis.time_ms().await + 600);
        let mut sent = Vec::new();
        for n in 0..100 {
            let message = json!({"payload": n, "priority": priority, "deliver_at": at});
            sent.push(client.published(&topic, message).await);
        }
        eventually("all due", || async {
            (client.count(&topic, "ready").await == 100).then_some(())
        })
        .await;
        assert_eq!(all(&client, &topic).await, sent, "priority {priority}");
    }
}

#[tokio::test]
async fn what_one_client_publishes_one_after_another_is_granted_in_that_order() {
    for priority in [0, 9] {
        let (client, topic) = (client().await, topic("order"));
        let mut sent = Vec::new();
        for n in 0..100 {
            let message = json!({"payload": n, "priority": priority});
            sent.push(client.published(&topic, message).await);
        }
        let mut got = Vec::new();
        for _ in 0..100 {
            got.push(text(&client.lease_one(&topic).await, "id").to_owned());
        }
        assert_eq!(got, sent, "priority {priority}");
    }
}

#[tokio::test]
async fn a_priority_counts_only_once_the_message_is_due() {
    let (client, topic) = (client().await, topic("order"));
    let urgent = json!({"payload": 1, "priority": 255, "delay_ms": 60_000});
    client.published(&topic, urgent).await;
    let plain = client.published(&topic, json!({"payload": 1})).await;
    assert_eq!(all(&client, &topic).await, [plain]);
}

#[tokio::test]
async fn a_priority_survives_failed_attempts() {
    let (client, topic) = (client().await, topic("order"));
    let urgent = client.published(&topic, json!({"payload": 1, "priority": 9})).await;
    let plain = client.published(&topic, json!({"payload": 1})).await;
    for delay in [0, 100] {
        let first = client.lease_one(&topic).await;
        assert_eq!((&first["id"], &first["priority"]), (&json!(urgent), &json!(9)));
        client.nack_leased(&first, json!({"delay_ms": delay})).await.expect(200);
        eventually("it is ready again", || async {
            (client.state(&urgent).await == "ready").then_some(())
        })
        .await;
    }
    assert_eq!(all(&client, &topic).await, [urgent, plain]);
}

#[tokio::test]
async fn a_nacked_message_queues_by_its_new_due_time() {
    let (client, topic) = (client().await, topic("order"));
    let nacked = client.published(&topic, json!({"payload": 1})).await;
    let held = client.lease_one(&topic).await;
    let waiting = client.published(&topic, json!({"payload": 1})).await;
    let redis = &shared().await.redis;
    let published = redis.time_ms().await;
    eventually("a later millisecond", || async {
        (redis.time_ms().await > published).then_some(())
    })
    .await;
    client.nack_leased(&held, json!({"delay_ms": 0})).await.expect(200);
    assert_eq!(all(&client, &topic).await, [waiting, nacked]);
}

#[tokio::test]
async fn a_message_too_large_for_the_answer_is_not_passed_by_smaller_ones() {
    let (client, topic) = (client().await, topic("order"));
    let sizes = [10, 5000, 10, 10];
    let mut sent = Vec::new();
    for size in sizes {
        sent.push(client.published(&topic, json!({"payload": "x".repeat(size)})).await);
    }
    let mut got = Vec::new();
    for count in [1, 1, 2] {
        let want = json!({"max_messages": 10, "max_bytes": 1000});
        let leased = ids(&client.leased(&topic, want).await);
        assert_eq!(leased.len(), count);
        got.extend(leased);
    }
    assert_eq!(got, sent);
}
