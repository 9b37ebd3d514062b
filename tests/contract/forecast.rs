//! forecastTopic, and what getTopic says of the next due time: how much falls due when.

use serde_json::{Value, json};

use crate::harness::*;

/// The buckets of a forecast: when each begins, and its count.
fn buckets(answer: &Answer) -> Vec<(i64, i64)> {
    let buckets = answer.json()["buckets"].as_array().cloned().unwrap_or_default();
    let bucket = |b: &Value| (instant_ms(text(b, "from_at")), number(b, "count"));
    buckets.iter().map(bucket).collect()
}

#[tokio::test]
async fn buckets_follow_each_other_from_now_on() {
    let (client, topic) = (client().await, topic("forecast"));
    client.new_topic(&topic, json!({})).await;
    for (bucket_ms, count) in [(1, 1), (1, 1000), (1000, 60), (60_000, 7), (86_400_000, 1000)] {
        let before = shared().await.redis.time_ms().await;
        let answer = client.forecast(&topic, bucket_ms, count).await.expect(200);
        let after = shared().await.redis.time_up_ms().await;
        let seen = buckets(&answer);
        assert_eq!(seen.len(), count as usize);
        assert!((before..=after).contains(&seen[0].0), "{before} {after}: {answer}");
        for (n, (from, messages)) in seen.iter().enumerate() {
            assert_eq!(*from, seen[0].0 + n as i64 * bucket_ms);
            assert_eq!(*messages, 0);
        }
    }
}

#[tokio::test]
async fn each_message_is_in_the_bucket_of_its_due_time() {
    let (client, topic) = (client().await, topic("forecast"));
    let now = shared().await.redis.time_ms().await;
    let message = |n: i64| {
        let due = instant(now + 600_000 + n * n * 137 % 100_000);
        json!({"payload": n, "deliver_at": due, "priority": n % 3 * 100})
    };
    let messages: Vec<Value> = (0..500).map(message).collect();
    client.fill(&topic, &messages).await;
    let dues: Vec<i64> =
        messages.iter().map(|message| instant_ms(text(message, "deliver_at"))).collect();
    for (bucket_ms, count) in [(1_000_000, 1), (7000, 100), (650_000, 2), (1000, 1000)] {
        let answer = client.forecast(&topic, bucket_ms, count).await.expect(200);
        for (from, messages) in buckets(&answer) {
            let within = dues.iter().filter(|due| (from..from + bucket_ms).contains(due)).count();
            assert_eq!(messages, within as i64, "from {}: {answer}", instant(from));
        }
    }
    let sum = |answer: Answer| -> i64 { buckets(&answer).iter().map(|(_, count)| count).sum() };
    assert_eq!(sum(client.forecast(&topic, 1000, 1000).await), 500);
    assert_eq!(sum(client.forecast(&topic, 1000, 500).await), 0, "all are due later");
}

#[tokio::test]
async fn a_bucket_begins_with_what_falls_due_at_its_instant() {
    let (client, topic) = (client().await, topic("forecast"));
    for priority in [0, 5] {
        let message = json!({"payload": 1, "delay_ms": 700, "priority": priority});
        let due = client.publish(&topic, message).await.expect(201).instant("due_at");
        let seen = buckets(&client.forecast(&topic, 1, 1000).await.expect(200));
        let with: Vec<i64> =
            seen.iter().filter(|(_, count)| *count > 0).map(|(from, _)| *from).collect();
        assert!(with.contains(&due), "due at {due}, shown at {with:?}");
        client.purge(&topic, &["delayed", "ready"]).await.expect(200);
    }
}

#[tokio::test]
async fn what_is_due_leased_or_dead_is_not_in_it() {
    let (client, topic) = (client().await, topic("forecast"));
    crate::facts::dead_message(&client, &topic).await;
    client.published(&topic, json!({"payload": 1})).await;
    client.lease_one(&topic).await;
    for priority in [0, 9] {
        client.published(&topic, json!({"payload": 1, "priority": priority})).await;
        let message = json!({"payload": 1, "priority": priority, "delay_ms": 30_000});
        client.published(&topic, message).await;
    }
    let seen = buckets(&client.forecast(&topic, 60_000, 3).await.expect(200));
    assert_eq!(seen.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [2, 0, 0]);
}

#[tokio::test]
async fn a_nacked_or_rescheduled_message_is_where_it_now_falls_due() {
    let (client, topic) = (client().await, topic("forecast"));
    client.published(&topic, json!({"payload": 1})).await;
    let held = client.lease_one(&topic).await;
    client.nack_leased(&held, json!({"delay_ms": 150_000})).await.expect(200);
    let id = client.published(&topic, json!({"payload": 1, "delay_ms": 30_000})).await;
    let body = json!({"delay_ms": 90_000}).to_string().into_bytes();
    let json_type = [("content-type", "application/json")];
    client.send("PATCH", &format!("/messages/{id}"), &json_type, Some(body)).await.expect(200);
    let seen = buckets(&client.forecast(&topic, 60_000, 3).await.expect(200));
    assert_eq!(seen.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [0, 1, 1]);
}

#[tokio::test]
async fn a_forecast_of_thousands_adds_up() {
    let (client, topic) = (client().await, topic("forecast"));
    let message = |n: i64| json!({"payload": 1, "delay_ms": 10_000 + n * 10, "priority": n % 2});
    let messages: Vec<Value> = (0..3000).map(message).collect();
    client.fill(&topic, &messages).await;
    let seen = buckets(&client.forecast(&topic, 45, 1000).await.expect(200));
    assert_eq!(seen.iter().map(|(_, count)| count).sum::<i64>(), 3000);
    assert!(seen.iter().all(|(_, count)| *count <= 10), "ten ms lie between two of a batch's");
}

#[tokio::test]
async fn the_next_due_time_and_the_oldest_ready_age_follow_every_change() {
    let (client, topic) = (client().await, topic("forecast"));
    let seen = client.new_topic(&topic, json!({})).await.json();
    for name in ["next_due_at", "oldest_ready_age_ms"] {
        assert!(seen.get(name).is_none(), "an empty topic has no {name}: {seen}");
    }
    let late = json!({"payload": 1, "delay_ms": 90_000});
    let late = client.publish(&topic, late).await.expect(201).json();
    let soon = json!({"payload": 1, "delay_ms": 60_000, "priority": 9});
    let soon = client.publish(&topic, soon).await.expect(201).json();
    let seen = client.topic(&topic).await.expect(200).json();
    assert_eq!(seen["next_due_at"], soon["due_at"]);
    client.delete(text(&soon, "id")).await.expect(204);
    let seen = client.topic(&topic).await.expect(200).json();
    assert_eq!(seen["next_due_at"], late["due_at"]);
    client.purge(&topic, &["delayed"]).await.expect(200);
    client.published(&topic, json!({"payload": 1})).await;
    tokio::time::sleep(std::time::Duration::from_millis(60)).await;
    let seen = client.topic(&topic).await.expect(200).json();
    assert!(seen.get("next_due_at").is_none(), "{seen}");
    assert!(number(&seen, "oldest_ready_age_ms") >= 50, "{seen}");
    client.lease_one(&topic).await;
    let seen = client.topic(&topic).await.expect(200).json();
    assert!(seen.get("oldest_ready_age_ms").is_none(), "{seen}");
}

#[tokio::test]
async fn a_pause_changes_no_forecast() {
    let (client, topic) = (client().await, topic("forecast"));
    client.published(&topic, json!({"payload": 1, "delay_ms": 30_000})).await;
    client.pause_topic(&topic).await.expect(200);
    let seen = buckets(&client.forecast(&topic, 60_000, 1).await.expect(200));
    assert_eq!(seen[0].1, 1);
}
