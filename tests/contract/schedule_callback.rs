//! scheduleCallback: what it answers, and that every message route works on what it stores. Nothing here falls due.

use serde_json::{Value, json};

use crate::harness::*;

/// A callback for later, with more fields.
fn later(more: Value) -> Value {
    let mut body = json!({"url": "http://hooks.invalid/a", "delay_ms": 600_000});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// Schedules it: its id.
async fn scheduled(client: &Client, body: Value) -> String {
    client.post("/callbacks", &body).await.expect(201).text("id")
}

#[tokio::test]
async fn it_answers_as_a_publish_does() {
    let client = client().await;
    let answer = client.post("/callbacks", &later(json!({"payload": {"a": 1}}))).await.expect(201);
    let stored = answer.json();
    assert_eq!((&stored["topic"], &stored["state"]), (&json!("_callbacks"), &json!("delayed")));
    assert_eq!(stored["duplicate"], false);
    assert_eq!(answer.header("location"), format!("/messages/{}", text(&stored, "id")));
    let seen = client.get(text(&stored, "id")).await.expect(200).json();
    assert_eq!(seen["callback"], json!({"url": "http://hooks.invalid/a"}));
    assert_eq!((&seen["payload"], &seen["due_at"]), (&json!({"a": 1}), &stored["due_at"]));
}

#[tokio::test]
async fn the_payload_may_be_left_out() {
    let client = client().await;
    let id = scheduled(&client, later(json!({}))).await;
    let seen = client.get(&id).await.expect(200).json();
    assert_eq!(seen["payload_base64"], "");
    assert_eq!(seen["content_type"], "application/octet-stream");
    let id = scheduled(&client, later(json!({"payload": null}))).await;
    let seen = client.get(&id).await.expect(200);
    assert!(String::from_utf8_lossy(&seen.body).contains("\"payload\":null"), "{seen}");
    let bytes = json!({"payload_base64": "AA==", "content_type": "image/png"});
    let id = scheduled(&client, later(bytes)).await;
    assert_eq!(client.get(&id).await.expect(200).json()["content_type"], "image/png");
}

#[tokio::test]
async fn every_field_is_stored_and_shown_as_it_was_said() {
    let client = client().await;
    let key = topic("schedule");
    let more = json!({
        "method": "POST", "timeout_ms": 15_000, "priority": 7, "key": key, "ttl_ms": 60_000,
        "max_attempts": 3, "backoff": {"kind": "fixed", "base_ms": 5},
        "headers": {"Authorization": "secret", "x": "y"},
    });
    let id = scheduled(&client, later(more.clone())).await;
    let seen = client.get(&id).await.expect(200).json();
    let callback = json!({"url": "http://hooks.invalid/a", "method": "POST", "timeout_ms": 15_000});
    assert_eq!(seen["callback"], callback);
    for name in ["priority", "key", "ttl_ms", "max_attempts", "backoff"] {
        assert_eq!(seen[name], more[name], "{name}");
    }
    assert_eq!(seen["headers"], json!({"Authorization": "***", "x": "y"}));
}

#[tokio::test]
async fn a_key_is_there_by_its_name() {
    let client = client().await;
    let key = topic("schedule");
    let id = scheduled(&client, later(json!({"key": key}))).await;
    let again = client.post("/callbacks", &later(json!({"key": key}))).await.expect(200).json();
    assert_eq!((&again["id"], &again["duplicate"]), (&json!(id), &json!(true)));
    let other = json!({"key": key, "on_duplicate": "reject"});
    client.post("/callbacks", &later(other)).await.problem(409, "duplicate_key");
    let replace = later(json!({"key": key, "on_duplicate": "replace", "method": "PUT"}));
    client.post("/callbacks", &replace).await.expect(200);
    let seen = client.get_by_key("_callbacks", &key).await.expect(200).json();
    assert_eq!((&seen["id"], &seen["callback"]["method"]), (&json!(id), &json!("PUT")));
    let change = json!({"priority": 3});
    let changed = client.update_by_key("_callbacks", &key, change).await.expect(200).json();
    assert_eq!(changed["priority"], 3);
    client.delete_by_key("_callbacks", &key, "").await.expect(204);
    client.get(&id).await.problem(404, "message_not_found");
}

#[tokio::test]
async fn a_repeat_is_answered_with_the_first() {
    let client = client().await;
    let key = topic("schedule");
    let headers = [("content-type", "application/json"), ("idempotency-key", key.as_str())];
    let send = async |body: Value| {
        let body = Some(body.to_string().into_bytes());
        client.send("POST", "/callbacks", &headers, body).await
    };
    let first = send(later(json!({}))).await.expect(201).json();
    for same in [
        json!({}),
        json!({"idempotency_key": key}),
        json!({"method": "POST", "timeout_ms": 15_000, "payload_base64": "", "headers": {}}),
    ] {
        let again = send(later(same)).await.expect(200).json();
        assert_eq!((&again["id"], &again["duplicate"]), (&first["id"], &json!(true)));
    }
    for other in [
        json!({"method": "PUT"}),
        json!({"timeout_ms": 100}),
        json!({"url": "http://hooks.invalid/b"}),
        json!({"payload": null}),
    ] {
        send(later(other)).await.problem(422, "idempotency_key_reused");
    }
    send(later(json!({"idempotency_key": "another"}))).await.refused(422).field("idempotency_key");
}

#[tokio::test]
async fn a_callback_is_changed_and_deleted_by_its_id() {
    let client = client().await;
    let id = scheduled(&client, later(json!({"headers": {"cookie": "a"}}))).await;
    let change = json!({
        "callback": {"url": "http://hooks.invalid/b"}, "headers": {"cookie": "***"},
        "payload": 2, "delay_ms": 700_000,
    });
    let changed = client.update(&id, change).await.expect(200).json();
    assert_eq!(changed["callback"], json!({"url": "http://hooks.invalid/b"}));
    assert_eq!((&changed["headers"], &changed["payload"]), (&json!({"cookie": "***"}), &json!(2)));
    client.redrive(&id).await.problem(409, "message_not_dead");
    client.delete(&id).await.expect(204);
}

#[tokio::test]
async fn a_callback_cannot_lose_its_url() {
    let client = client().await;
    let id = scheduled(&client, later(json!({}))).await;
    let lost = client.update(&id, json!({"callback": null})).await;
    lost.problem(422, "callback_url_missing");
}

#[tokio::test]
async fn nobody_publishes_to_the_topic_of_callbacks_or_configures_it_whole() {
    let client = client().await;
    scheduled(&client, later(json!({}))).await;
    let message = json!({"payload": 1, "callback": {"url": "http://hooks.invalid/"}});
    client.publish("_callbacks", message).await.problem(403, "topic_reserved");
    client.put_topic("_callbacks", json!({})).await.problem(403, "topic_reserved");
    client.delete_topic("_callbacks", "?force=true").await.problem(403, "topic_reserved");
    client.topic("_callbacks").await.expect(200);
    client.list("_callbacks", "state=delayed").await.expect(200);
}
