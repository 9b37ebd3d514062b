//! `push.batch`: many messages in one call, and what the answer makes of each.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::facts::{
    a_while, becomes, called, fixed, gone, pushed_with, ready, schedule, wait_ms, with,
};
use crate::harness::*;

/// A topic whose calls carry up to three messages.
async fn by_threes(client: &Client, receiver: &Receiver, push: Value, wait_ms: u64) -> String {
    let batch = json!({"max_messages": 3, "max_wait_ms": wait_ms});
    let push = with(json!({"url": receiver.url("/"), "batch": batch}), push);
    pushed_with(client, "batch", push, json!({"backoff": fixed(300_000)})).await
}

/// Publishes as many messages in one batch; returns their ids.
async fn published(client: &Client, topic: &str, count: usize) -> Vec<String> {
    let messages: Vec<_> = (0..count).map(|n| json!({"payload": {"n": n}})).collect();
    let results = client.published_batch(topic, &messages).await;
    results.iter().map(|it| text(&it["message"], "id").to_owned()).collect()
}

fn messages(call: &Call) -> Vec<Value> {
    serde_json::from_slice(&call.body).unwrap()
}

#[tokio::test]
async fn a_call_carries_as_many_messages_as_it_may_and_the_rest_after_a_while() {
    let (client, receiver) = ready().await;
    receiver.answer(Reply::status(200).body("stored"));
    let headers = json!({"headers": {"x-of-topic": "yes"}});
    let topic = by_threes(&client, &receiver, headers, 700).await;
    let kept = json!({"retention": {"acked_ms": 60_000}});
    client.send_json("PATCH", &format!("/topics/{topic}"), &kept).await.expect(200);
    let message = json!({"payload": {"a": 1.0}, "headers": {"x-own": "7", "authorization": "s3same"},
        "key": "one", "group": "two", "priority": 9});
    let first = client.published(&topic, message).await;
    let calls = receiver.wait_for(1).await;
    let seen = &messages(&calls[0])[0];
    for (name, value) in [
        ("id", json!(first)),
        ("topic", json!(topic)),
        ("payload", json!({"a": 1.0})),
        ("headers", json!({"x-own": "7", "authorization": "***"})),
        ("key", json!("one")),
        ("group", json!("two")),
        ("priority", json!(9)),
        ("attempt", json!(1)),
        ("attempts_left", json!(9)),
    ] {
        assert_eq!(seen[name], value, "{seen}");
    }
    assert!(seen["published_at"].is_string() && seen["due_at"].is_string(), "{seen}");
    for name in ["lease_token", "lease_ms", "lease_expires_at"] {
        assert_eq!(seen.get(name), None, "{seen}");
    }
    assert_eq!(calls[0].header("content-type"), "application/json");
    assert_eq!(calls[0].header("x-of-topic"), "yes");
    assert_eq!(calls[0].header("dueq-topic"), topic);
    for name in ["x-own", "authorization", "dueq-attempt", "dueq-due-at"] {
        assert_eq!(calls[0].header(name), "", "{name}");
    }
    assert!(calls[0].header("webhook-id").starts_with("batch_"));
    let done = becomes(&client, &first, "acked", 1).await;
    assert_eq!(done["result"]["body"], "stored", "{done}");

    let ids = published(&client, &topic, 7).await;
    let calls = receiver.wait_for(4).await;
    let mut sizes: Vec<_> = calls[1..].iter().map(|call| messages(call).len()).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [1, 3, 3]);
    let own: BTreeSet<_> = calls.iter().map(|call| call.header("webhook-id")).collect();
    assert_eq!(own.len(), 4, "each call has an id of its own");
    let carried = calls[1..].iter().flat_map(messages);
    let carried: BTreeSet<_> = carried.map(|it| text(&it, "id").to_owned()).collect();
    assert_eq!(carried, ids.iter().cloned().collect());
    for id in &ids {
        becomes(&client, id, "acked", 1).await;
    }
    assert_eq!(receiver.count(), 4);
}

#[tokio::test]
async fn the_answer_may_name_those_that_failed_and_when_they_come_again() {
    let (client, receiver) = ready().await;
    let topic = by_threes(&client, &receiver, json!({}), 300).await;
    client.post(&format!("/topics/{topic}/pause"), &json!({})).await.expect(200);
    let ids = published(&client, &topic, 3).await;
    let named = json!({"failed": [{"id": ids[0], "delay_ms": 0}, {"id": ids[2]},
        {"id": "019ab000-0000-8000-8000-000000000000"}], "more": 1});
    receiver.answer_next("/", [Reply::status(200).body(named.to_string())]);
    client.post(&format!("/topics/{topic}/resume"), &json!({})).await.expect(200);
    gone(&client, &ids[1]).await;
    let seen = becomes(&client, &ids[2], "delayed", 1).await;
    assert_eq!((&seen["last_status"], &seen["attempts"]), (&json!(200), &json!(1)), "{seen}");
    assert_eq!(text(&seen, "last_error"), "the answer names it among those that failed");
    assert!(wait_ms(&seen) > 250_000, "by the backoff: {seen}");
    gone(&client, &ids[0]).await;
    let carried: Vec<_> = receiver.wait_for(2).await.iter().map(messages).collect();
    assert_eq!((carried[0].len(), carried[1].len()), (3, 1));
    assert_eq!((&carried[1][0]["id"], &carried[1][0]["attempt"]), (&json!(ids[0]), &json!(2)));
}

#[tokio::test]
async fn without_names_all_are_done_or_all_have_failed() {
    let (client, receiver) = ready().await;
    let topic = by_threes(&client, &receiver, json!({}), 10_000).await;
    for (reply, error) in [
        (Reply::status(500), "answered 500"),
        (Reply::status(200).body(r#"{"failed": ["a"]}"#), "the answer's `failed` is no list"),
        (Reply::status(200).body(r#"{"failed": [{"id": 1}]}"#), "the answer's `failed` is no list"),
        (Reply::status(200).body(r#"{"failed": [{"#), "the answer's `failed` is no list"),
        (Reply::status(200).body("x".repeat(70_000)), "the answer was cut off"),
        (Reply::status(200).header("content-encoding", "gzip").body("x"), "the answer is encoded"),
        (Reply::status(200).body("\u{feff}{\"failed\": 1}"), "the answer's `failed` is no list"),
    ] {
        receiver.answer(reply);
        for id in published(&client, &topic, 3).await {
            let seen = becomes(&client, &id, "delayed", 1).await;
            assert!(text(&seen, "last_error").starts_with(error), "{seen}");
        }
    }
    for body in ["", "ok", "[]", "{}", r#" {"failed": []}"#, r#"{"failed": null}"#] {
        receiver.answer(Reply::status(200).body(body));
        for id in published(&client, &topic, 3).await {
            gone(&client, &id).await;
        }
    }
    receiver.answer(Reply::status(410));
    for id in published(&client, &topic, 3).await {
        becomes(&client, &id, "dead", 1).await;
    }
}

#[tokio::test]
async fn a_message_with_a_url_of_its_own_is_refused_and_an_older_one_is_sent_alone() {
    let (client, receiver) = ready().await;
    let url = receiver.url("/own");
    let push = json!({"url": receiver.url("/")});
    let topic = pushed_with(&client, "batch", push, json!({})).await;
    let own = json!({"payload": 1, "callback": {"url": url}});
    client.post(&format!("/topics/{topic}/pause"), &json!({})).await.expect(200);
    client.published(&topic, own.clone()).await;
    let plain = client.published(&topic, json!({"payload": 2})).await;
    let batch = json!({"push": {"url": receiver.url("/"), "batch": {}}});
    client.send_json("PATCH", &format!("/topics/{topic}"), &batch).await.expect(200);
    let shown = client.topic(&topic).await.expect(200).json();
    let default = json!({"max_messages": 100, "max_wait_ms": 1_000});
    assert_eq!(shown["config"]["push"]["batch"], default, "{shown}");

    client.publish(&topic, own.clone()).await.refused(422).field("callback");
    let all = [json!({"payload": 1}), own];
    let answer = client.publish_batch(&topic, &all).await;
    answer.refused(422).field("messages[1].callback");
    let change = json!({"callback": {"url": url}});
    let answer = client.send_json("PATCH", &format!("/messages/{plain}"), &change).await;
    answer.refused(422).field("callback");

    client.post(&format!("/topics/{topic}/resume"), &json!({})).await.expect(200);
    let alone = receiver.wait_at("/own").await;
    assert_eq!((&alone.body[..], alone.header("dueq-attempt")), (&b"1"[..], "1"));
    assert_eq!(messages(&receiver.wait_at("/").await)[0]["id"], plain);
}

#[tokio::test]
async fn a_batch_needs_a_url_and_callbacks_have_none() {
    let (client, receiver) = ready().await;
    let topic = topic("batch");
    let path = format!("/topics/{topic}");
    let push = json!({"push": {"batch": {}}});
    client.send_json("PUT", &path, &push).await.refused(422).field("push.batch");
    let refused = client.send_json("PATCH", "/topics/_callbacks", &push).await;
    refused.problem(403, "topic_reserved");
    let more = json!({"batch": {}});
    schedule(&client, &receiver.url("/"), more).await.refused(422).field("batch");
    let bad = json!({"push": {"url": receiver.url("/"), "batch": {"max_messages": 101}}});
    let refused = client.send_json("PUT", &path, &bad).await;
    refused.refused(422).field("push.batch.max_messages");
}

#[tokio::test]
async fn gathered_messages_go_back_when_the_topic_is_paused_and_when_it_is_not_pushed() {
    let (client, receiver) = ready().await;
    let topic = by_threes(&client, &receiver, json!({}), 1_000).await;
    let id = client.published(&topic, json!({"payload": 1})).await;
    becomes(&client, &id, "leased", 0).await;
    client.post(&format!("/topics/{topic}/pause"), &json!({})).await.expect(200);
    let seen = becomes(&client, &id, "ready", 0).await;
    assert_eq!((&seen["attempts"], called(&seen).len()), (&json!(0), 0), "{seen}");
    client.post(&format!("/topics/{topic}/resume"), &json!({})).await.expect(200);
    receiver.wait_for(1).await;
    gone(&client, &id).await;

    let id = client.published(&topic, json!({"payload": 2})).await;
    becomes(&client, &id, "leased", 0).await;
    let change = json!({"push": null});
    client.send_json("PATCH", &format!("/topics/{topic}"), &change).await.expect(200);
    becomes(&client, &id, "ready", 0).await;
    a_while(100).await;
    assert_eq!(receiver.count(), 1);
}
