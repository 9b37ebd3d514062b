//! A change of a topic's configuration is in force on every instance at once: the next request to
//! another one already follows it, however often that one has seen the old.

use serde_json::json;

use crate::harness::*;
use crate::topic_facts::full;

/// Two instances and a topic that both know well: each has published, leased and acked there.
async fn two() -> (Dueq, Dueq, Client, Client, String) {
    let (first, second) = (instance().await, instance().await);
    let (here, there, topic) = (first.client(), second.client(), topic("both"));
    for client in [&here, &there] {
        client.published(&topic, json!({"payload": 1})).await;
        client.ack_leased(&client.lease_one(&topic).await).await.expect(204);
    }
    (first, second, here, there, topic)
}

#[tokio::test]
async fn a_lease_lasts_as_the_last_change_says() {
    let (_a, _b, here, there, topic) = two().await;
    here.fill(&topic, &vec![json!({"payload": 1}); 40]).await;
    for n in 1..=20 {
        let (changer, other) = if n % 2 == 0 { (&here, &there) } else { (&there, &here) };
        let lease_ms = 100_000 * n;
        changer.update_topic(&topic, json!({"lease_ms": lease_ms})).await.expect(200);
        for client in [other, changer] {
            let held = client.leased(&topic, json!({})).await;
            let left = number(&held[0], "lease_ms");
            assert!((lease_ms - 20_000..=lease_ms).contains(&left), "{left} of {lease_ms}");
        }
    }
}

#[tokio::test]
async fn a_payload_is_measured_by_the_last_change() {
    let (_a, _b, here, there, topic) = two().await;
    let message = json!({"payload": "0123456789"});
    for _ in 0..10 {
        here.update_topic(&topic, json!({"max_payload_bytes": 11})).await.expect(200);
        there.publish(&topic, message.clone()).await.problem(413, "payload_too_large");
        there.publish_raw(&topic, "", None, &[0; 12]).await.problem(413, "payload_too_large");
        here.update_topic(&topic, json!({"max_payload_bytes": 12})).await.expect(200);
        there.publish(&topic, message.clone()).await.expect(201);
    }
    let large = json!({"payload": "x".repeat(1_000_000)});
    there.publish(&topic, large.clone()).await.refused(413);
    here.update_topic(&topic, json!({"max_payload_bytes": 1_048_576})).await.expect(200);
    there.publish(&topic, large).await.expect(201);
}

#[tokio::test]
async fn attempts_are_counted_against_the_last_change() {
    let (_a, _b, here, there, topic) = two().await;
    let mut messages = vec![json!({"payload": 1}); 9];
    messages.push(json!({"payload": 1, "max_attempts": 77}));
    here.fill(&topic, &messages).await;
    for max_attempts in [1, 5, 1, 1000, 2, 1, 3, 1, 10] {
        here.update_topic(&topic, json!({"max_attempts": max_attempts})).await.expect(200);
        let held = there.leased(&topic, json!({})).await;
        assert_eq!(number(&held[0], "attempts_left"), max_attempts - 1, "{held:?}");
        let state = if max_attempts == 1 { "dead" } else { "delayed" };
        let answer = there.nack_leased(&held[0], json!({"delay_ms": 600_000})).await.expect(200);
        assert_eq!(answer.text("state"), state, "{answer}");
    }
    let own = there.leased(&topic, json!({})).await;
    assert_eq!(own[0]["attempts_left"], 76, "a message keeps the policy it was published with");
}

#[tokio::test]
async fn a_backoff_is_that_of_the_last_change() {
    let (_a, _b, here, there, topic) = two().await;
    here.fill(&topic, &vec![json!({"payload": 1}); 6]).await;
    for n in 1..=6 {
        let base_ms = 100_000 * n;
        let backoff = json!({"kind": "fixed", "base_ms": base_ms});
        here.update_topic(&topic, json!({"backoff": backoff})).await.expect(200);
        let held = there.leased(&topic, json!({})).await;
        let before = shared().await.redis.time_ms().await;
        let due = there.nack_leased(&held[0], json!({})).await.expect(200).instant("due_at");
        let after = shared().await.redis.time_up_ms().await;
        assert!((before + base_ms..=after + base_ms).contains(&due), "{base_ms} ms of backoff");
    }
}

#[tokio::test]
async fn a_topic_is_full_by_the_last_change() {
    let (_a, _b, here, there, topic) = two().await;
    for n in 0..10 {
        there.published(&topic, json!({"payload": n})).await;
        here.update_topic(&topic, json!({"max_messages": n + 1})).await.expect(200);
        full(there.publish(&topic, json!({"payload": n})).await);
        here.update_topic(&topic, json!({"max_messages": null})).await.expect(200);
    }
    here.update_topic(&topic, json!({"max_messages": 10})).await.expect(200);
    full(there.publish(&topic, json!({"payload": 1})).await);
    here.update_topic(&topic, json!({"on_full": "drop_oldest"})).await.expect(200);
    there.published(&topic, json!({"payload": 1})).await;
    assert_eq!(there.count(&topic, "ready").await, 10);
}

#[tokio::test]
async fn a_pause_holds_for_the_next_request_to_the_other() {
    let (_a, _b, here, there, topic) = two().await;
    here.fill(&topic, &vec![json!({"payload": 1}); 10]).await;
    for _ in 0..10 {
        here.pause_topic(&topic).await.expect(200);
        assert!(there.leased(&topic, json!({})).await.is_empty());
        here.resume_topic(&topic).await.expect(200);
        assert_eq!(there.leased(&topic, json!({})).await.len(), 1);
    }
}

#[tokio::test]
async fn acked_messages_are_kept_or_not_by_the_last_change() {
    let (_a, _b, here, there, topic) = two().await;
    for acked_ms in [600_000, 0, 600_000] {
        here.update_topic(&topic, json!({"retention": {"acked_ms": acked_ms}})).await.expect(200);
        let id = there.published(&topic, json!({"payload": 1})).await;
        there.ack_leased(&there.lease_one(&topic).await).await.expect(204);
        there.get(&id).await.expect(if acked_ms == 0 { 404 } else { 200 });
    }
}

#[tokio::test]
async fn a_time_to_live_is_that_of_the_last_change() {
    let (_a, _b, here, there, topic) = two().await;
    here.update_topic(&topic, json!({"ttl_ms": 300})).await.expect(200);
    let id = there.published(&topic, json!({"payload": 1})).await;
    tokio::time::sleep(std::time::Duration::from_millis(400)).await;
    assert!(there.leased(&topic, json!({})).await.is_empty());
    eventually("it is gone", || async { (here.get(&id).await.status == 404).then_some(()) }).await;
    here.update_topic(&topic, json!({"ttl_ms": null})).await.expect(200);
    there.published(&topic, json!({"payload": 1})).await;
    tokio::time::sleep(std::time::Duration::from_millis(400)).await;
    assert_eq!(there.leased(&topic, json!({})).await.len(), 1);
}

#[tokio::test]
async fn a_put_is_seen_whole_by_whoever_asks_next() {
    let (_a, _b, here, there, topic) = two().await;
    for n in 0..10 {
        let config = json!({"lease_ms": 1000 + n, "max_attempts": 1 + n});
        let put = here.put_topic(&topic, config).await.expect(200).json();
        assert_eq!(there.topic(&topic).await.expect(200).json(), put);
        let (tag, change) = (etag(&put), json!({"lease_ms": 5000}));
        let next = there.topic_if("PATCH", &topic, Some(&tag), &change).await.expect(200).json();
        assert_eq!(here.topic(&topic).await.expect(200).json(), next);
    }
}

#[tokio::test]
async fn changes_of_different_settings_at_the_same_moment_all_stay() {
    let (_a, _b, here, there, topic) = two().await;
    for round in 1..=5 {
        let changes = [
            json!({"lease_ms": 1000 + round}),
            json!({"max_attempts": round}),
            json!({"ttl_ms": 600_000 + round}),
            json!({"max_payload_bytes": 1000 + round}),
            json!({"max_messages": 100 + round}),
            json!({"idempotency_window_ms": 10_000 + round}),
            json!({"retention": {"acked_ms": round, "acked_max": 7, "dead_ms": 1_000_000, "dead_max": 10}}),
            json!({"backoff": {"kind": "fixed", "base_ms": round}}),
        ];
        let sends = changes.iter().enumerate().map(|(n, change)| {
            let client = if n % 2 == 0 { &here } else { &there };
            client.update_topic(&topic, change.clone())
        });
        for answer in futures_util::future::join_all(sends).await {
            answer.expect(200);
        }
        let seen = here.topic(&topic).await.expect(200).json();
        for (name, value) in changes.iter().flat_map(|change| change.as_object().unwrap()) {
            assert_eq!(&seen["config"][name], value, "{name}: {seen}");
        }
    }
}

#[tokio::test]
async fn a_time_to_live_changed_reaches_the_messages_that_named_none() {
    let (_a, _b, here, there, topic) = two().await;
    let plain = there.published(&topic, json!({"payload": 1})).await;
    let ranked = there.published(&topic, json!({"payload": 1, "priority": 3})).await;
    let own = there.published(&topic, json!({"payload": 1, "ttl_ms": 600_000})).await;
    here.update_topic(&topic, json!({"ttl_ms": 500})).await.expect(200);
    for id in [plain, ranked] {
        eventually("it is gone", || async { (there.get(&id).await.status == 404).then_some(()) })
            .await;
    }
    assert_eq!(there.state(&own).await, "ready");
    here.update_topic(&topic, json!({"ttl_ms": 1500})).await.expect(200);
    let kept = there.published(&topic, json!({"payload": 1})).await;
    here.update_topic(&topic, json!({"ttl_ms": null})).await.expect(200);
    tokio::time::sleep(std::time::Duration::from_millis(2500)).await;
    assert_eq!(there.state(&kept).await, "ready");
}

#[tokio::test]
async fn attempts_lowered_below_those_made_leave_one_more_at_most() {
    let (_a, _b, here, there, topic) = two().await;
    there.published(&topic, json!({"payload": 1})).await;
    crate::facts::fail_attempts(&there, &topic, 3).await;
    here.update_topic(&topic, json!({"max_attempts": 2})).await.expect(200);
    let held = there.leased(&topic, json!({})).await;
    for message in &held {
        assert_eq!(message["attempts_left"], 0);
        let answer = here.nack_leased(message, json!({"delay_ms": 0})).await.expect(200);
        assert_eq!(answer.text("state"), "dead");
    }
    assert!(there.leased(&topic, json!({})).await.is_empty());
    assert_eq!(there.count(&topic, "dead").await, 1);
}
