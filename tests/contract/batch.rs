//! publishBatch: many messages in one request, all of them valid or none stored, each with its own
//! status.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::facts::{column, counted, ids, topic_in_balance};
use crate::harness::*;

/// A thousand plain messages, numbered.
fn thousand() -> Vec<Value> {
    (0..1000).map(|n| json!({"payload": n})).collect()
}

#[tokio::test]
async fn a_thousand_messages_are_answered_and_granted_in_order() {
    let (client, topic) = (client().await, topic("batch"));
    let results = client.published_batch(&topic, &thousand()).await;
    assert_eq!(results.len(), 1000);
    let mut sent = Vec::new();
    for (n, result) in results.iter().enumerate() {
        assert_eq!(result["status"], "ok", "{n}: {result}");
        let message = &result["message"];
        assert_eq!((&message["state"], &message["topic"]), (&json!("ready"), &json!(topic)));
        assert_eq!(message["duplicate"], false);
        assert!(instant_ms(text(message, "published_at")) <= instant_ms(text(message, "due_at")));
        sent.push(text(message, "id").to_owned());
    }
    let mut held = Vec::new();
    while held.len() < 1000 {
        let more = client.leased(&topic, json!({"max_messages": 1000})).await;
        assert!(!more.is_empty(), "{} of 1000", held.len());
        held.extend(more);
    }
    assert_eq!(ids(&held), sent);
    assert!(held.iter().enumerate().all(|(n, message)| message["payload"] == n));
    counted(&client, &topic, &[("totals", "published", 1000), ("counts", "leased", 1000)]).await;
}

#[tokio::test]
async fn each_message_has_its_own_options() {
    let (client, topic) = (client().await, topic("batch"));
    let batch = [
        json!({"payload": null}),
        json!({"payload": "later", "delay_ms": 60_000}),
        json!({"payload": "at", "deliver_at": "2100-01-01T00:00:00Z"}),
        json!({"payload_base64": "AP8=", "content_type": "image/png", "priority": 9}),
        json!({"payload": 1, "headers": {"x": "y"}, "max_attempts": 2, "ttl_ms": 60_000}),
        json!({"payload": 1, "key": "k", "key_until": "granted", "idempotency_key": "r"}),
        json!({"payload": 1, "backoff": {"kind": "fixed", "base_ms": 60_000}}),
    ];
    let results = client.published_batch(&topic, &batch).await;
    assert!(results.iter().all(|result| result["status"] == "ok"), "{results:?}");
    for (sent, result) in batch.iter().zip(&results) {
        let seen = client.get(text(&result["message"], "id")).await.expect(200).json();
        for name in ["state", "due_at", "published_at"] {
            assert_eq!(seen[name], result["message"][name], "{name} of {sent}");
        }
        for name in ["payload", "payload_base64", "content_type", "key"] {
            assert_eq!(seen.get(name), sent.get(name), "{name} of {sent}");
        }
        assert_eq!(seen["priority"], sent["priority"].as_i64().unwrap_or(0), "{sent}");
        let left = sent["max_attempts"].as_i64().unwrap_or(10);
        assert_eq!(seen["attempts_left"], left, "{sent}");
    }
    counted(&client, &topic, &[("counts", "delayed", 2), ("counts", "ready", 5)]).await;
}

#[tokio::test]
async fn payloads_are_kept_byte_for_byte() {
    let (client, topic) = (client().await, topic("batch"));
    let payloads = ["{\"a\":1, \"a\" :2}", "1E400", "-0", "[ ]", "\"\\u0041\\u0000\"", "1.0"];
    let messages: Vec<String> =
        payloads.iter().map(|payload| format!("{{\"payload\":{payload}}}")).collect();
    let body = format!("{{\"messages\":[{}]}}", messages.join(","));
    let path = format!("/topics/{topic}/messages/batch");
    let results = client.post_text(&path, &body).await.expect(200).json();
    for (payload, result) in payloads.iter().zip(results["results"].as_array().unwrap()) {
        let answer = client.get(text(&result["message"], "id")).await.expect(200);
        let body = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(body.contains(&format!("\"payload\":{payload}")), "{payload}: {body}");
    }
}

#[tokio::test]
async fn messages_of_one_batch_that_share_a_key_go_one_after_another() {
    let (client, topic) = (client().await, topic("batch"));
    let message = |n: i64, key: &str, on: &str| json!({"payload": n, "key": key, "on_duplicate": on, "delay_ms": 60_000});
    let batch = [
        message(0, "a", "return"),
        message(1, "a", "return"),
        message(2, "a", "reject"),
        message(3, "b", "reject"),
        message(4, "a", "replace"),
        message(5, "b", "replace"),
        message(6, "b", "return"),
    ];
    let results = client.published_batch(&topic, &batch).await;
    let wanted = ["ok", "ok", "duplicate_key", "ok", "ok", "ok", "ok"];
    assert_eq!(column(&results, "status"), wanted);
    assert!(results[2].get("message").is_none(), "{results:?}");
    let id = |n: usize| text(&results[n]["message"], "id").to_owned();
    for (first, later) in [(0, [1, 4]), (3, [5, 6])] {
        assert_eq!(results[first]["message"]["duplicate"], false);
        for later in later {
            assert_eq!(id(later), id(first), "{later}");
            assert_eq!(results[later]["message"]["duplicate"], true, "{later}");
        }
    }
    for (key, payload) in [("a", 4), ("b", 5)] {
        let seen = client.get_by_key(&topic, key).await.expect(200);
        assert_eq!(seen.number("payload"), payload, "{key}");
    }
    counted(&client, &topic, &[("totals", "published", 2), ("totals", "replaced", 2)]).await;
}

#[tokio::test]
async fn what_only_the_queue_knows_is_told_of_each_message() {
    let (client, topic) = (client().await, topic("batch"));
    client.published(&topic, json!({"payload": 1, "key": "held"})).await;
    client.lease_one(&topic).await;
    client.published(&topic, json!({"payload": 1, "idempotency_key": "r"})).await;
    client.configure(&topic, json!({"max_messages": 4})).await;
    let batch = [
        json!({"payload": 2, "key": "held", "on_duplicate": "replace"}),
        json!({"payload": 2, "key": "held", "on_duplicate": "reject"}),
        json!({"payload": 2, "key": "held"}),
        json!({"payload": 2, "idempotency_key": "r"}),
        json!({"payload": 3}),
        json!({"payload": 4, "key": "new"}),
        json!({"payload": 5}),
        json!({"payload": 6, "key": "new"}),
        json!({"payload": 7, "key": "newer"}),
        json!({"payload": 1, "idempotency_key": "r"}),
    ];
    let results = client.published_batch(&topic, &batch).await;
    let wanted = [
        "message_leased",
        "duplicate_key",
        "ok",
        "idempotency_key_reused",
        "ok",
        "ok",
        "topic_full",
        "ok", // a duplicate needs no room
        "topic_full",
        "ok",
    ];
    assert_eq!(column(&results, "status"), wanted, "{results:?}");
    assert_eq!(results[2]["message"]["state"], "leased");
    counted(&client, &topic, &[("totals", "published", 4), ("counts", "leased", 1)]).await;
}

#[tokio::test]
async fn a_thousand_of_many_keys_are_answered_each_by_its_own() {
    let (client, topic) = (client().await, topic("batch"));
    let batch: Vec<Value> = (0..1000)
        .map(|n| json!({"payload": n, "key": format!("k{}", n % 300), "delay_ms": 60_000}))
        .collect();
    let results = client.published_batch(&topic, &batch).await;
    for (n, result) in results.iter().enumerate() {
        assert_eq!(result["status"], "ok", "{n}");
        assert_eq!(result["message"]["duplicate"], n >= 300, "{n}");
        assert_eq!(result["message"]["id"], results[n % 300]["message"]["id"], "{n}");
    }
    counted(&client, &topic, &[("totals", "published", 300), ("counts", "delayed", 300)]).await;
}

#[tokio::test]
async fn large_payloads_go_in_one_batch_up_to_the_bodys_limit() {
    let (client, topic) = (client().await, topic("batch"));
    let large = |n: usize| -> Vec<Value> {
        (0..n).map(|n| json!({"payload": format!("{n:05}{}", "x".repeat(60 * 1024))})).collect()
    };
    // 17.6 MiB: refused by its Content-Length, so that the connection may close while it is sent.
    let body = json!({"messages": large(300)}).to_string().into_bytes();
    let headers = [("content-type", "application/json")];
    let path = format!("/topics/{topic}/messages/batch");
    if let Ok(answer) = client.try_send("POST", &path, &headers, Some(body)).await {
        answer.refused(413);
    }
    client.topic(&topic).await.problem(404, "topic_not_found");
    let results = client.published_batch(&topic, &large(260)).await;
    assert_eq!(results.len(), 260);
    assert!(results.iter().all(|result| result["status"] == "ok"));
    let want = json!({"max_messages": 1000, "max_bytes": 16_777_216});
    let mut held = Vec::new();
    while held.len() < 260 {
        let more = client.leased(&topic, want.clone()).await;
        assert!(!more.is_empty(), "{} of 260", held.len());
        held.extend(more);
    }
    for (n, (message, result)) in held.iter().zip(&results).enumerate() {
        assert_eq!(message["id"], result["message"]["id"], "{n}");
        let payload = text(message, "payload");
        assert_eq!((payload[..5].parse(), payload.len()), (Ok(n), 5 + 60 * 1024));
    }
    topic_in_balance(&client, &topic).await;
}

#[tokio::test]
async fn a_payload_above_the_limit_refuses_the_whole_batch() {
    let (client, topic) = (client().await, topic("batch"));
    let batch = |bytes: usize| {
        [json!({"payload": 1}), json!({"payload": "x".repeat(bytes - 2)}), json!({"payload": 2})]
    };
    client.publish_batch(&topic, &batch(262_145)).await.refused(413);
    client.topic(&topic).await.problem(404, "topic_not_found");
    client.published_batch(&topic, &batch(262_144)).await;
    client.configure(&topic, json!({"max_payload_bytes": 100})).await;
    client.publish_batch(&topic, &batch(101)).await.refused(413);
    client.published_batch(&topic, &batch(100)).await;
    counted(&client, &topic, &[("totals", "published", 6)]).await;
}

#[tokio::test]
async fn a_batch_wakes_those_who_wait() {
    let dueq = instance().await;
    let (client, topic) = (dueq.client(), topic("batch"));
    let polls = join_all((0..5).map(|_| client.lease_one(&topic)));
    let publish = async {
        waiters(&client, 5).await;
        let batch: Vec<Value> = (0..5).map(|n| json!({"payload": n})).collect();
        client.published_batch(&topic, &batch).await;
    };
    let (held, ()) = tokio::join!(polls, publish);
    let mut payloads: Vec<i64> = held.iter().map(|message| number(message, "payload")).collect();
    payloads.sort_unstable();
    assert_eq!(payloads, [0, 1, 2, 3, 4]);
}

#[tokio::test]
async fn batches_and_single_publishes_at_once_do_not_mix() {
    let (client, topic) = (client().await, topic("batch"));
    let batches = join_all((0..4).map(|of| {
        let messages: Vec<Value> = (0..400).map(|n| json!({"payload": [of, n]})).collect();
        let (client, topic) = (&client, &topic);
        async move { client.published_batch(topic, &messages).await }
    }));
    let singles = join_all((0..100).map(|n| client.published(&topic, json!({"payload": [9, n]}))));
    let (batches, singles) = tokio::join!(batches, singles);
    for (of, results) in batches.iter().enumerate() {
        for n in [0, 1, 255, 256, 399] {
            let id = text(&results[n]["message"], "id");
            assert_eq!(client.get(id).await.expect(200).json()["payload"], json!([of, n]));
        }
    }
    let all = batches.iter().flatten().map(|result| text(&result["message"], "id").to_owned());
    let mut all: Vec<String> = all.chain(singles).collect();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 1700, "every message has an id of its own");
    counted(&client, &topic, &[("totals", "published", 1700), ("counts", "ready", 1700)]).await;
}
