//! What the OpenAPI document says of requests: its examples are accepted, and they are closed to unknown fields. That every
//! answer has the shape that the document gives it is checked of all answers, by the client of the tests.

use serde_json::{Value, json};

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
    ("put", "/topics/{topic}/groups/{group}", "putGroup", &["200"]),
    ("delete", "/topics/{topic}/groups/{group}", "deleteGroup", &["204"]),
    ("post", "/topics/{topic}/groups/{group}/pause", "pauseGroup", &["200"]),
    ("post", "/topics/{topic}/groups/{group}/resume", "resumeGroup", &["200"]),
    ("post", "/topics/{topic}/pause", "pauseTopic", &["200"]),
    ("post", "/topics/{topic}/resume", "resumeTopic", &["200"]),
    ("post", "/topics/{topic}/purge", "purgeTopic", &["200"]),
    ("get", "/topics/{topic}/messages", "listMessages", &["200"]),
    ("post", "/topics/{topic}/redrive", "redriveTopic", &["200"]),
    ("get", "/topics/{topic}/forecast", "forecastTopic", &["200"]),
    ("get", "/topics/{topic}/history", "getTopicHistory", &["200"]),
    ("get", "/topics/{topic}/push/secret", "getPushSecret", &["200"]),
    ("get", "/callbacks/public-key", "getCallbackPublicKey", &["200"]),
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

#[test]
fn every_route_is_documented_under_its_name_with_what_it_answers() {
    let document = Document::committed();
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
async fn the_examples_of_the_document_are_accepted() {
    let (client, document) = (client().await, Document::committed());
    let mut tried = 0;
    for (method, path, operation) in document.operations() {
        let id = text(operation, "operationId");
        let content = &operation["requestBody"]["content"]["application/json"];
        if content.is_null() || id == "createSession" {
            continue; // its example is a key that nobody has
        }
        let mut example = content["example"].clone();
        if example.is_null() {
            example = document.request(id)["example"].clone();
        }
        if example.is_null() {
            continue;
        }
        tried += 1;
        if example.get("wait_ms").is_some() {
            example["wait_ms"] = json!(1);
        }
        let (topic, name) = (topic("document"), topic("document"));
        client.new_topic(&topic, json!({})).await;
        let message = client.published(&topic, json!({"payload": 1, "key": "k"})).await;
        let path = path.replace("{topic}", &topic).replace("{id}", &message);
        let path = path.replace("{key}", "k").replace("{name}", &name);
        let answer = client.send_json(&method.to_uppercase(), &path, &example).await;
        // Its token holds no lease here.
        let of_lease = ["ackMessage", "nackMessage", "extendLease"].contains(&id);
        let accepted = answer.status < 300 || of_lease && answer.status == 409;
        assert!(accepted, "{id} refuses its example {example}: {answer}");
    }
    assert!(tried >= 15, "only {tried} operations have an example");
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

#[test]
fn requests_are_closed_at_every_level_and_answers_are_open_to_more_fields() {
    let document = Document::committed();
    for (_, _, operation) in document.operations() {
        let id = text(operation, "operationId");
        let body = &operation["requestBody"]["content"]["application/json"]["schema"];
        let mut found = Vec::new();
        objects(document, body, id, &mut found);
        for (at, schema) in found {
            assert_eq!(schema["additionalProperties"], false, "{at} is open to unknown fields");
        }
        for (status, response) in operation["responses"].as_object().unwrap() {
            let content = document.resolve(response)["content"].as_object();
            for (_, content) in content.into_iter().flatten() {
                let schema = document.resolve(&content["schema"]);
                assert_ne!(schema["additionalProperties"], false, "{id} {status}");
            }
        }
    }
}

#[test]
fn every_answer_says_which_codes_of_callbacks_it_can_have() {
    let document = Document::committed();
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
