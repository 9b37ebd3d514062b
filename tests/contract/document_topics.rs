//! The document and the routes of the contract beside each other: every operation is there under its
//! name, and every answer of the topic routes has the shape that the document gives it.

use serde_json::{Value, json};

use crate::document::Document;
use crate::facts::dead_message;
use crate::harness::*;

/// Every route up to the schedules: method, path, operation, what it answers when all is well.
const OPERATIONS: &[(&str, &str, &str, &[&str])] = &[
    ("post", "/topics/{topic}/messages", "publishMessage", &["201", "200"]),
    ("post", "/topics/{topic}/messages/raw", "publishRaw", &["201", "200"]),
    ("post", "/topics/{topic}/messages/batch", "publishBatch", &["200"]),
    ("post", "/topics/{topic}/lease", "leaseMessages", &["200"]),
    ("post", "/lease", "leaseFromTopics", &["200"]),
    ("post", "/messages/{id}/ack", "ackMessage", &["204"]),
    ("post", "/messages/{id}/nack", "nackMessage", &["200"]),
    ("post", "/messages/{id}/extend", "extendLease", &["200"]),
    ("post", "/messages/ack", "ackBatch", &["200"]),
    ("post", "/messages/nack", "nackBatch", &["200"]),
    ("post", "/messages/extend", "extendBatch", &["200"]),
    ("get", "/messages/{id}", "getMessage", &["200"]),
    ("patch", "/messages/{id}", "updateMessage", &["200"]),
    ("delete", "/messages/{id}", "deleteMessage", &["204"]),
    ("post", "/messages/{id}/redrive", "redriveMessage", &["200"]),
    ("get", "/topics/{topic}/keys/{key}", "getMessageByKey", &["200"]),
    ("patch", "/topics/{topic}/keys/{key}", "updateMessageByKey", &["200"]),
    ("delete", "/topics/{topic}/keys/{key}", "deleteMessageByKey", &["204"]),
    ("get", "/topics", "listTopics", &["200"]),
    ("put", "/topics/{topic}", "putTopic", &["201", "200"]),
    ("patch", "/topics/{topic}", "updateTopic", &["200"]),
    ("get", "/topics/{topic}", "getTopic", &["200"]),
    ("delete", "/topics/{topic}", "deleteTopic", &["204"]),
    ("post", "/topics/{topic}/pause", "pauseTopic", &["200"]),
    ("post", "/topics/{topic}/resume", "resumeTopic", &["200"]),
    ("post", "/topics/{topic}/purge", "purgeTopic", &["200"]),
    ("get", "/topics/{topic}/messages", "listMessages", &["200"]),
    ("post", "/topics/{topic}/redrive", "redriveTopic", &["200"]),
    ("get", "/topics/{topic}/forecast", "forecastTopic", &["200"]),
    ("get", "/topics/{topic}/history", "getTopicHistory", &["200"]),
    ("get", "/topics/{topic}/push/secret", "getPushSecret", &["200"]),
    ("get", "/instances", "listInstances", &["200"]),
    ("get", "/keys", "listKeys", &["200"]),
    ("post", "/callbacks", "scheduleCallback", &["201", "200"]),
    ("get", "/callbacks/hosts", "listCallbackHosts", &["200"]),
    ("post", "/callbacks/hosts/{host}/pause", "pauseCallbackHost", &["200"]),
    ("post", "/callbacks/hosts/{host}/resume", "resumeCallbackHost", &["200"]),
    ("get", "/schedules", "listSchedules", &["200"]),
    ("put", "/schedules/{name}", "putSchedule", &["201", "200"]),
    ("get", "/schedules/{name}", "getSchedule", &["200"]),
    ("delete", "/schedules/{name}", "deleteSchedule", &["204"]),
    ("post", "/schedules/{name}/pause", "pauseSchedule", &["200"]),
    ("post", "/schedules/{name}/resume", "resumeSchedule", &["200"]),
    ("post", "/schedules/{name}/trigger", "triggerSchedule", &["200"]),
];

#[tokio::test]
async fn every_route_is_documented_under_its_name_with_what_it_answers() {
    let document = Document::read(&client().await).await;
    let mut wrong = Vec::new();
    for (method, path, id, statuses) in OPERATIONS {
        let operation = &document.0["paths"][path][method];
        if operation["operationId"] != *id {
            wrong.push(format!("{method} {path} is {}, not {id}", operation["operationId"]));
            continue;
        }
        let good: Vec<&String> = operation["responses"]
            .as_object()
            .unwrap()
            .keys()
            .filter(|status| status.starts_with('2'))
            .collect();
        if !statuses.iter().all(|status| good.iter().any(|g| g == status))
            || good.len() != statuses.len()
        {
            wrong.push(format!("{id} answers {good:?}, not {statuses:?}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[tokio::test]
async fn every_answer_of_a_topic_route_has_the_shape_of_the_document() {
    let (client, topic) = (client().await, topic("document"));
    let document = Document::read(&client).await;
    let config = json!({
        "lease_ms": 5000,
        "ttl_ms": 600_000,
        "max_messages": 4,
        "backoff": {"kind": "schedule", "delays_ms": [1000]},
        "retention": {"acked_ms": 600_000},
    });
    document.holds("putTopic", &client.put_topic(&topic, config).await.expect(201));
    document
        .holds("putTopic", &client.put_topic(&topic, json!({"max_messages": 4})).await.expect(200));
    document.holds("putTopic", &client.put_topic(&topic, json!({"lease_ms": 1})).await.expect(422));
    document.holds("putTopic", &client.put_topic("_own", json!({})).await.expect(403));
    let wrong = client.topic_if("PUT", &topic, Some("\"0\""), &json!({})).await.expect(412);
    document.holds("putTopic", &wrong);
    let wrong = client.topic_if("PATCH", &topic, Some("\"0\""), &json!({})).await.expect(412);
    document.holds("updateTopic", &wrong);
    let change = json!({
        "retention": {"acked_ms": 600_000}, "backoff": {"kind": "fixed", "base_ms": 1},
    });
    document.holds("updateTopic", &client.update_topic(&topic, change).await.expect(200));
    dead_message(&client, &topic).await;
    for message in [
        json!({"payload": 1}),
        json!({"payload": {"a": null}, "priority": 3, "headers": {"h": "v"}}),
        json!({"payload_base64": "AA==", "delay_ms": 60_000}),
        json!({"payload": "x", "key": "k", "ttl_ms": 60_000, "max_attempts": 3}),
    ] {
        client.published(&topic, message).await;
    }
    document
        .holds("publishMessage", &client.publish(&topic, json!({"payload": 1})).await.expect(429));
    client.ack_leased(&client.lease_one(&topic).await).await.expect(204);
    client.lease_one(&topic).await;
    document.holds("getTopic", &client.topic(&topic).await.expect(200));
    for state in ["ready", "delayed", "leased", "dead", "acked"] {
        for payload in [false, true] {
            let query = format!("state={state}&payload={payload}");
            let page = client.list(&topic, &query).await.expect(200);
            assert_eq!(page.json()["items"].as_array().unwrap().len(), 1, "{page}");
            document.holds("listMessages", &page);
        }
    }
    document.holds("listMessages", &client.list(&topic, "state=x").await.expect(422));
    document.holds("forecastTopic", &client.forecast(&topic, 60_000, 3).await.expect(200));
    document.holds("forecastTopic", &client.forecast(&topic, 0, 3).await.expect(422));
    document.holds("pauseTopic", &client.pause_topic(&topic).await.expect(200));
    let listed = client.get_path(&format!("/topics?prefix={topic}")).await.expect(200);
    document.holds("listTopics", &listed);
    document.holds("resumeTopic", &client.resume_topic(&topic).await.expect(200));
    document.holds("purgeTopic", &client.purge(&topic, &["ready"]).await.expect(200));
    document.holds("purgeTopic", &client.purge(&topic, &[]).await.expect(422));
    document.holds("deleteTopic", &client.delete_topic(&topic, "").await.expect(409));
    document.holds("deleteTopic", &client.delete_topic("_own", "").await.expect(403));
    document.holds("deleteTopic", &client.delete_topic(&topic, "?force=true").await.expect(204));
    for (id, answer) in [
        ("updateTopic", client.update_topic(&topic, json!({})).await),
        ("deleteTopic", client.delete_topic(&topic, "").await),
        ("pauseTopic", client.pause_topic(&topic).await),
        ("resumeTopic", client.resume_topic(&topic).await),
        ("purgeTopic", client.purge(&topic, &["dead"]).await),
        ("listMessages", client.list(&topic, "state=dead").await),
        ("forecastTopic", client.forecast(&topic, 1, 1).await),
    ] {
        document.holds(id, &answer.expect(404));
    }
}

#[tokio::test]
async fn the_examples_of_the_topic_routes_are_accepted() {
    let client = client().await;
    let document = Document::read(&client).await;
    for (id, method, tail) in
        [("putTopic", "PUT", ""), ("updateTopic", "PATCH", ""), ("purgeTopic", "POST", "/purge")]
    {
        let content = &document.operation(id)["requestBody"]["content"]["application/json"];
        let mut examples =
            vec![content["example"].clone(), document.request(id)["example"].clone()];
        examples.extend(document.request(id)["examples"].as_array().cloned().unwrap_or_default());
        examples.retain(|example| !example.is_null());
        assert!(!examples.is_empty(), "{id} has no example");
        for example in examples {
            let topic = topic("document");
            client.new_topic(&topic, json!({})).await;
            let body = Some(example.to_string().into_bytes());
            let kind = [("content-type", "application/json")];
            client.send(method, &format!("/topics/{topic}{tail}"), &kind, body).await.expect(200);
        }
    }
}

#[tokio::test]
async fn requests_of_the_topic_routes_are_closed_and_answers_open() {
    let document = Document::read(&client().await).await;
    for id in ["putTopic", "updateTopic", "purgeTopic"] {
        assert_eq!(document.request(id)["additionalProperties"], false, "the request of {id}");
    }
    for (_, _, id, statuses) in OPERATIONS {
        for status in *statuses {
            let response = document.resolve(&document.operation(id)["responses"][status]);
            for (_, content) in response["content"].as_object().into_iter().flatten() {
                let schema = document.resolve(&content["schema"]);
                assert_ne!(schema["additionalProperties"], false, "{id} {status}");
            }
        }
    }
}

/// The object schemas inside a request's body, and where each stands.
fn objects<'a>(
    document: &'a Document,
    schema: &'a Value,
    at: &str,
    found: &mut Vec<(String, &'a Value)>,
) {
    let schema = document.resolve(schema);
    for list in ["oneOf", "anyOf", "allOf"] {
        for choice in schema[list].as_array().into_iter().flatten() {
            objects(document, choice, at, found);
        }
    }
    if let Some(items) = schema.get("items") {
        objects(document, items, &format!("{at}[]"), found);
    }
    if let Some(properties) = schema["properties"].as_object() {
        found.push((at.to_owned(), schema));
        for (name, inner) in properties {
            objects(document, inner, &format!("{at}.{name}"), found);
        }
    }
}

#[tokio::test]
async fn requests_are_closed_at_every_level() {
    let document = Document::read(&client().await).await;
    let mut open = Vec::new();
    for (_, _, id, _) in OPERATIONS {
        let body = &document.operation(id)["requestBody"]["content"]["application/json"]["schema"];
        let mut found = Vec::new();
        objects(&document, body, id, &mut found);
        let more = found.iter().filter(|(_, schema)| schema["additionalProperties"] != false);
        open.extend(more.map(|(at, _)| at.clone()));
    }
    assert!(open.is_empty(), "open to unknown fields: {open:?}");
}

#[tokio::test]
async fn the_ranges_of_the_document_are_those_of_the_server() {
    let client = client().await;
    let document = Document::read(&client).await;
    let mut found = Vec::new();
    objects(&document, document.request("putTopic"), "", &mut found);
    let mut tried = 0;
    for (at, schema) in found {
        for (name, range) in schema["properties"].as_object().unwrap() {
            let (Some(least), Some(most)) = (range["minimum"].as_i64(), range["maximum"].as_i64())
            else {
                continue;
            };
            let parent = at.trim_start_matches('.');
            let field = format!("{at}.{name}").trim_start_matches('.').to_owned();
            for (value, good) in
                [(least, true), (most, true), (least - 1, false), (most + 1, false)]
            {
                let mut config = json!({name: value});
                if !parent.is_empty() {
                    config = json!({parent: config});
                }
                // Of a topic that is there, not everything can be changed.
                let answer = client.put_topic(&topic("document"), config).await;
                match good {
                    true => assert!(answer.status < 300, "{field} {value}: {answer}"),
                    false => drop(answer.refused(422).field(&field)),
                }
            }
            tried += 1;
        }
    }
    assert!(tried >= 11, "only {tried} settings have a range");
}
