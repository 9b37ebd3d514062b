//! The OpenAPI document on callbacks and pushed topics: every answer as it comes is one that the document describes.

use serde_json::json;

use crate::document::Document;
use crate::harness::*;

#[tokio::test]
async fn every_answer_about_callbacks_has_the_shape_of_the_document() {
    let (client, topic) = (client().await, topic("document"));
    let document = Document::read(&client).await;
    let holds = |operation: &str, answer: Answer| document.holds(operation, &answer);
    let push = json!({
        "url": "http://a.invalid/", "method": "PUT", "headers": {"cookie": "a"}, "rate_per_s": 1.5,
        "secrets": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
    });
    let config = json!({"push": push, "dead_topic": "document-dead"});
    holds("putTopic", client.put_topic(&topic, config).await.expect(201));
    holds("getTopic", client.topic(&topic).await.expect(200));
    holds("updateTopic", client.update_topic(&topic, json!({"push": {}})).await.expect(200));
    let unknown = json!({"push": {"headers": {"cookie": "***"}}});
    holds("updateTopic", client.update_topic(&topic, unknown).await.expect(422));
    let callback = json!({"url": "http://b.invalid/", "method": "GET", "timeout_ms": 100});
    let message = json!({"payload": 1, "delay_ms": 600_000, "callback": callback});
    let published = client.publish(&topic, message).await.expect(201);
    let id = published.text("id");
    holds("getMessage", client.get(&id).await.expect(200));
    let other = json!({"callback": {"url": "http://c.invalid/"}});
    holds("updateMessage", client.update(&id, other).await.expect(200));
    let listed = client.list(&topic, "state=delayed&payload=true").await.expect(200);
    holds("listMessages", listed);
    holds("leaseMessages", client.lease("_callbacks", json!({})).await.expect(409));
    let several = client.post("/lease", &json!({"topics": ["_callbacks"]})).await.expect(409);
    holds("leaseFromTopics", several);
    let later = json!({"url": "http://a.invalid/", "delay_ms": 600_000, "key": topic});
    holds("scheduleCallback", client.post("/callbacks", &later).await.expect(201));
    holds("scheduleCallback", client.post("/callbacks", &later).await.expect(200));
    holds("scheduleCallback", client.post("/callbacks", &json!({})).await.expect(422));
    let mut taken = later;
    taken["on_duplicate"] = json!("reject");
    holds("scheduleCallback", client.post("/callbacks", &taken).await.expect(409));
    let change = json!({"callback": {"url": "http://c.invalid/", "method": "PUT"}});
    let changed = client.update_by_key("_callbacks", &topic, change).await.expect(200);
    holds("updateMessageByKey", changed);
}

#[tokio::test]
async fn every_answer_says_which_codes_of_callbacks_it_can_have() {
    let document = Document::read(&client().await).await;
    for (operation, status, codes) in [
        ("publishMessage", "422", &["callback_url_missing", "topic_not_pushed"][..]),
        ("publishMessage", "422", &["callback_address_refused", "idempotency_key_reused"]),
        ("publishMessage", "403", &["topic_reserved", "host_not_allowed"]),
        ("publishRaw", "422", &["callback_url_missing"]),
        ("publishBatch", "422", &["callback_url_missing", "callback_address_refused"]),
        ("updateMessage", "422", &["callback_url_missing", "callback_address_refused"]),
        ("updateMessageByKey", "422", &["callback_url_missing", "topic_not_pushed"]),
        ("scheduleCallback", "422", &["callback_address_refused", "idempotency_key_reused"]),
        ("putTopic", "422", &["callback_address_refused"]),
        ("putTopic", "403", &["topic_reserved", "host_not_allowed"]),
        ("updateTopic", "422", &["callback_address_refused"]),
        ("deleteTopic", "403", &["topic_reserved", "host_not_allowed"]),
        ("leaseMessages", "409", &["topic_is_pushed"]),
        ("leaseFromTopics", "409", &["topic_is_pushed"]),
    ] {
        let response = &document.operation(operation)["responses"][status];
        let told = document.resolve(response)["description"].as_str().unwrap();
        for code in codes {
            assert!(told.contains(code), "{operation} {status} says nothing of {code}: {told}");
        }
    }
}

#[tokio::test]
async fn the_example_of_a_callback_is_accepted() {
    let client = client().await;
    let document = Document::read(&client).await;
    let example = document.request("scheduleCallback")["example"].clone();
    assert!(example["delay_ms"].as_i64() > Some(60_000), "{example}");
    client.post("/callbacks", &example).await.expect(201);
}
