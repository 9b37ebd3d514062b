//! The OpenAPI document on keys, batches, changes and redrives: every answer as it comes is one that
//! the document describes.

use serde_json::{Value, json};

use crate::document::Document;
use crate::facts::killed;
use crate::harness::*;

#[tokio::test]
async fn every_answer_about_keys_and_changes_has_the_shape_of_the_document() {
    let (client, topic) = (client().await, topic("document"));
    let document = Document::read(&client).await;
    let message = json!({
        "payload": 1, "key": "a/b", "ttl_ms": 600_000, "max_attempts": 5, "idempotency_key": "r",
        "backoff": {"kind": "fixed", "base_ms": 0}, "key_until": "done", "headers": {"x": "y"},
    });
    let holds = |operation: &str, answer: Answer| document.holds(operation, &answer);
    holds("publishMessage", client.publish(&topic, message.clone()).await.expect(201));
    holds("publishMessage", client.publish(&topic, message.clone()).await.expect(200));
    let mut other = message.clone();
    other["payload"] = json!(2);
    holds("publishMessage", client.publish(&topic, other.clone()).await.expect(422));
    other["idempotency_key"] = json!("r2");
    other["on_duplicate"] = json!("reject");
    holds("publishMessage", client.publish(&topic, other.clone()).await.expect(409));
    let raw = client.publish_raw(&topic, "?key=raw&delay_ms=60000", None, b"x").await;
    holds("publishRaw", raw.expect(201));
    let raw = client.publish_raw(&topic, "?key=raw&on_duplicate=reject", None, b"x").await;
    holds("publishRaw", raw.expect(409));
    holds("getMessageByKey", client.get_by_key(&topic, "a/b").await.expect(200));
    holds("getMessageByKey", client.get_by_key(&topic, "none").await.expect(404));
    let change = json!({"priority": 2, "backoff": null, "headers": {"z": ""}});
    holds(
        "updateMessageByKey",
        client.update_by_key(&topic, "a/b", change.clone()).await.expect(200),
    );
    holds(
        "updateMessageByKey",
        client.update_by_key(&topic, "none", change.clone()).await.expect(404),
    );
    let held = client.lease_one(&topic).await;
    let id = text(&held, "id");
    holds("getMessage", client.get(id).await.expect(200));
    holds("updateMessage", client.update(id, change.clone()).await.expect(409));
    holds("redriveMessage", client.redrive(id).await.expect(409));
    holds("deleteMessageByKey", client.delete_by_key(&topic, "a/b", "").await.expect(409));
    let more = json!({"release": true, "reason": "why"});
    holds("nackMessage", client.nack_leased(&held, more).await.expect(200));
    holds("getMessage", client.get(id).await.expect(200));
    holds("updateMessage", client.update(id, change.clone()).await.expect(200));
    holds("updateMessage", client.update(id, json!({"nope": 1})).await.expect(422));
    holds("updateMessage", client.update(&unknown_id(), change).await.expect(404));
    holds("deleteMessageByKey", client.delete_by_key(&topic, "a/b", "").await.expect(204));
    holds("deleteMessageByKey", client.delete_by_key(&topic, "a/b", "").await.expect(404));
}

#[tokio::test]
async fn every_answer_about_batches_and_redrives_has_the_shape_of_the_document() {
    let (client, topic) = (client().await, topic("document"));
    let document = Document::read(&client).await;
    let holds = |operation: &str, answer: Answer| document.holds(operation, &answer);
    let batch = [
        json!({"payload": 1, "key": "k"}),
        json!({"payload": 1, "key": "k", "on_duplicate": "reject"}),
        json!({"payload": 1}),
        json!({"payload": 1}),
    ];
    holds("publishBatch", client.publish_batch(&topic, &batch).await.expect(200));
    holds("publishBatch", client.publish_batch(&topic, &[]).await.expect(422));
    let want = json!({"max_messages": 3});
    let mut items: Vec<Value> = client
        .leased(&topic, want)
        .await
        .iter()
        .map(|held| json!({"id": held["id"], "lease_token": held["lease_token"], "lease_ms": 60_000}))
        .collect();
    items.push(json!({"id": unknown_id(), "lease_token": "x", "lease_ms": 60_000}));
    holds("extendBatch", client.hold_batch("extend", &items).await.expect(200));
    for item in &mut items {
        item.as_object_mut().unwrap().remove("lease_ms");
    }
    holds("ackBatch", client.hold_batch("ack", &items[2..]).await.expect(200));
    holds("ackBatch", client.hold_batch("ack", &[]).await.expect(422));
    items[0]["dead"] = json!(true);
    items[1]["delay_ms"] = json!(0);
    holds("nackBatch", client.hold_batch("nack", &items).await.expect(200));
    holds("redriveTopic", client.redrive_topic(&topic, json!({})).await.expect(200));
    let nowhere = client.redrive_topic("no-such-topic", json!({})).await.expect(404);
    holds("redriveTopic", nowhere);
    let dead = killed(&client, &topic, json!({"payload": 1, "priority": 9})).await;
    holds("getMessage", client.get(&dead).await.expect(200));
    holds("updateMessage", client.update(&dead, json!({"delay_ms": 0})).await.expect(409));
    holds("redriveMessage", client.redrive(&dead).await.expect(200));
    holds("redriveMessage", client.redrive(&unknown_id()).await.expect(404));
    holds("deleteMessage", client.delete_by_force(&dead).await.expect(204));
    holds("getTopic", client.topic(&topic).await.expect(200));
}

#[tokio::test]
async fn the_examples_of_batches_and_changes_are_accepted() {
    let (client, topic) = (client().await, topic("document"));
    let document = Document::read(&client).await;
    for (operation, status) in [
        ("publishBatch", 200),
        ("ackBatch", 200),
        ("nackBatch", 200),
        ("extendBatch", 200),
        ("updateMessage", 200),
        ("nackMessage", 409),
        ("extendLease", 409),
        ("redriveTopic", 200),
    ] {
        let content = &document.operation(operation)["requestBody"]["content"]["application/json"];
        let schema = document.request(operation);
        let mut examples = vec![content["example"].clone(), schema["example"].clone()];
        examples.extend(schema["examples"].as_array().cloned().unwrap_or_default());
        examples.retain(|example| !example.is_null());
        for example in examples {
            let id = client.published(&topic, json!({"payload": 1})).await;
            let (method, path) = match operation {
                "publishBatch" => ("POST", format!("/topics/{topic}/messages/batch")),
                "updateMessage" => ("PATCH", format!("/messages/{id}")),
                "redriveTopic" => ("POST", format!("/topics/{topic}/redrive")),
                "nackMessage" => ("POST", format!("/messages/{id}/nack")),
                "extendLease" => ("POST", format!("/messages/{id}/extend")),
                verb => ("POST", format!("/messages/{}", verb.trim_end_matches("Batch"))),
            };
            let answer = client.send_json(method, &path, &example).await;
            assert_eq!(
                answer.status, status,
                "{operation} refuses its example {example}: {answer}"
            );
        }
    }
}

#[tokio::test]
async fn every_request_is_closed_to_unknown_fields() {
    let document = Document::read(&client().await).await;
    for id in [
        "publishBatch",
        "ackBatch",
        "nackBatch",
        "extendBatch",
        "updateMessage",
        "updateMessageByKey",
        "redriveTopic",
    ] {
        assert_eq!(document.request(id)["additionalProperties"], false, "the request of {id}");
    }
}
