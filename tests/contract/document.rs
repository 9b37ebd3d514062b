//! What the OpenAPI document says, held against what the server does: its examples are accepted, and
//! every answer has the shape that the document gives it.

use serde_json::{Value, json};

use crate::facts::dead_message;
use crate::harness::*;

/// The document as it was read.
pub struct Document(pub Value);

impl Document {
    pub async fn read(client: &Client) -> Document {
        Document(client.get_path("/openapi.json").await.expect(200).json())
    }

    /// An operation by its id.
    pub fn operation(&self, id: &str) -> &Value {
        let paths = self.0["paths"].as_object().unwrap().values();
        let mut operations = paths.flat_map(|path| path.as_object().unwrap().values());
        operations
            .find(|operation| operation["operationId"] == id)
            .unwrap_or_else(|| panic!("no {id}"))
    }

    /// What a `$ref` stands for.
    pub fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        match schema["$ref"].as_str() {
            Some(reference) => {
                let found = self.0.pointer(reference.trim_start_matches('#'));
                self.resolve(found.unwrap_or_else(|| panic!("no {reference}")))
            }
            None => schema,
        }
    }

    /// The schema of a request's body.
    pub fn request(&self, id: &str) -> &Value {
        let body = &self.operation(id)["requestBody"]["content"]["application/json"]["schema"];
        self.resolve(body["oneOf"].get(0).unwrap_or(body)) // the other choice is null
    }

    /// An answer of the operation must be documented, status and shape.
    pub fn holds(&self, id: &str, answer: &Answer) {
        let response = self.resolve(&self.operation(id)["responses"][answer.status.to_string()]);
        assert!(!response.is_null(), "{id} may not answer {answer}");
        if answer.body.is_empty() {
            assert!(response.get("content").is_none(), "{id} without a body: {answer}");
            return;
        }
        let kind = answer.header("content-type").split(';').next().unwrap().to_owned();
        let schema = &response["content"][&kind]["schema"];
        assert!(!schema.is_null(), "{id} {}: {kind} is not documented", answer.status);
        self.fits(&answer.json(), schema, &format!("{id} {}", answer.status));
    }

    /// The part of JSON Schema that the document uses, strict about what it does not name.
    fn fits(&self, value: &Value, schema: &Value, at: &str) {
        let schema = self.resolve(schema);
        if let Some(choices) = schema["oneOf"].as_array().or(schema["anyOf"].as_array()) {
            let choice = choices.iter().find(|choice| self.could_be(value, self.resolve(choice)));
            let choice = choice.unwrap_or_else(|| panic!("{at}: {value} fits none of {choices:?}"));
            return self.fits(value, choice, at);
        }
        assert!(self.type_fits(value, schema), "{at}: {value} is no {schema}");
        if let Some(allowed) = schema["enum"].as_array() {
            assert!(allowed.contains(value), "{at}: {value} is none of {allowed:?}");
        }
        for name in schema["required"].as_array().into_iter().flatten() {
            let name = name.as_str().unwrap();
            assert!(value.get(name).is_some(), "{at}: no {name} in {value}");
        }
        for (name, inner) in value.as_object().into_iter().flatten() {
            let at = format!("{at}.{name}");
            match (schema["properties"].get(name), schema.get("additionalProperties")) {
                (Some(schema), _) => self.fits(inner, schema, &at),
                (None, Some(schema)) if schema.is_object() => self.fits(inner, schema, &at),
                (None, _) => {
                    assert!(schema.get("properties").is_none(), "{at} is not documented");
                }
            }
        }
        for inner in value.as_array().into_iter().flatten() {
            self.fits(inner, &schema["items"], &format!("{at}[]"));
        }
    }

    /// Whether this is the choice that is meant: by its type, and an object by what it must have and
    /// by the words that its fields may say, such as its `kind`.
    fn could_be(&self, value: &Value, choice: &Value) -> bool {
        let says = |(name, schema): (&String, &Value)| {
            let words = self.resolve(schema)["enum"].as_array();
            value.get(name).zip(words).is_none_or(|(word, words)| words.contains(word))
        };
        self.type_fits(value, choice)
            && choice["required"]
                .as_array()
                .into_iter()
                .flatten()
                .all(|name| value.get(name.as_str().unwrap()).is_some())
            && choice["properties"].as_object().into_iter().flatten().all(says)
    }

    fn type_fits(&self, value: &Value, schema: &Value) -> bool {
        let is = |kind: &str| match kind {
            "null" => value.is_null(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "string" => value.is_string(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            other => panic!("what is {other}?"),
        };
        match &schema["type"] {
            Value::Null => true,
            Value::String(kind) => is(kind),
            Value::Array(kinds) => kinds.iter().any(|kind| is(kind.as_str().unwrap())),
            other => panic!("what is {other}?"),
        }
    }
}

#[tokio::test]
async fn every_answer_has_the_shape_that_the_document_gives_it() {
    let (client, topic) = (client().await, topic("document"));
    let document = Document::read(&client).await;
    let message = json!({"payload": {"a": [null]}, "headers": {"x": "y"}, "priority": 1});
    let answer = client.publish(&topic, message).await.expect(201);
    document.holds("publishMessage", &answer);
    let id = answer.text("id");
    let raw = client.publish_raw(&topic, "?delay_ms=60000", Some("text/plain"), b"x").await;
    document.holds("publishRaw", &raw.clone().expect(201));
    for id in [&id, &raw.text("id")] {
        document.holds("getMessage", &client.get(id).await.expect(200));
    }
    let ack = json!([{"id": unknown_id(), "lease_token": "x"}]);
    let lease = client.lease(&topic, json!({"acks": ack})).await.expect(200);
    document.holds("leaseMessages", &lease);
    let held = &lease.json()["messages"][0];
    document.holds("getMessage", &client.get(&id).await.expect(200));
    document.holds("extendLease", &client.extend_leased(held, 60_000).await.expect(200));
    document.holds("deleteMessage", &client.delete(&id).await.expect(409));
    document
        .holds("nackMessage", &client.nack_leased(held, json!({"delay_ms": 0})).await.expect(200));
    for answer in [client.ack_leased(held).await.expect(409), client.ack(&unknown_id(), "x").await]
    {
        document.holds("ackMessage", &answer);
    }
    document
        .holds("ackMessage", &client.ack_leased(&client.lease_one(&topic).await).await.expect(204));
    let dead = dead_message(&client, &topic).await;
    document.holds("getMessage", &client.get(&dead).await.expect(200));
    document.holds("getTopic", &client.topic(&topic).await.expect(200));
    document.holds("deleteMessage", &client.delete(&dead).await.expect(204));
    document.holds("getMessage", &client.get(&dead).await.expect(404));
    document.holds("getTopic", &client.topic("no-such-topic").await.expect(404));
    document.holds("listTopics", &client.get_path("/topics?limit=1").await.expect(200));
    document.holds("listTopics", &client.get_path("/topics?limit=0").await.expect(422));
    document.holds("publishMessage", &client.publish("_own", json!({})).await.expect(403));
    document.holds("publishMessage", &client.publish(&topic, json!({})).await.expect(422));
    document.holds("publishMessage", &client.publish("a..b", json!({})).await.expect(400));
    let path = format!("/topics/{topic}/messages");
    document
        .holds("publishMessage", &client.post_bytes(&path, None, b"{}".to_vec()).await.expect(415));
    let large = client.publish(&topic, json!({"payload": "x".repeat(300_000)})).await;
    document.holds("publishMessage", &large.expect(413));
}

#[tokio::test]
async fn the_examples_of_the_document_are_accepted() {
    let (client, topic) = (client().await, topic("document"));
    let document = Document::read(&client).await;
    for (operation, tail) in [("publishMessage", "messages"), ("leaseMessages", "lease")] {
        let content = &document.operation(operation)["requestBody"]["content"]["application/json"];
        let schema = document.request(operation);
        let mut examples = vec![content["example"].clone(), schema["example"].clone()];
        examples.extend(schema["examples"].as_array().cloned().unwrap_or_default());
        let named = content["examples"].as_object().into_iter().flatten();
        examples.extend(named.map(|(_, example)| document.resolve(example)["value"].clone()));
        examples.retain(|example| !example.is_null());
        assert!(!examples.is_empty(), "{operation} has no example");
        for mut example in examples {
            if example.get("wait_ms").is_some() {
                example["wait_ms"] = json!(1);
            }
            let answer = client.post(&format!("/topics/{topic}/{tail}"), &example).await;
            assert!(answer.status < 300, "{operation} refuses its example {example}: {answer}");
        }
    }
}

#[tokio::test]
async fn requests_are_closed_and_answers_are_open_to_more_fields() {
    let document = Document::read(&client().await).await;
    for id in ["publishMessage", "leaseMessages", "ackMessage", "nackMessage", "extendLease"] {
        assert_eq!(document.request(id)["additionalProperties"], false, "the request of {id}");
    }
    let ids =
        ["publishMessage", "leaseMessages", "nackMessage", "extendLease", "getMessage", "getTopic"];
    for id in ids {
        for (status, response) in document.operation(id)["responses"].as_object().unwrap() {
            for (_, content) in
                document.resolve(response)["content"].as_object().into_iter().flatten()
            {
                let schema = document.resolve(&content["schema"]);
                assert_ne!(schema["additionalProperties"], false, "{id} {status}");
            }
        }
    }
}
