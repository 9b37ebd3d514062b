//! Bad input, on every operation of the document: each refusal is a problem that names the field, and nothing changes.
//!
//! `declared` makes wrong values of every field and parameter from its schema, `forms` has those of texts with a form of their
//! own, `rules` the fields that need or exclude each other, and `json` what is wrong with any body.

mod declared;
mod flood;
mod forms;
mod json;
mod noise;
mod paths;
mod rules;

use futures_util::{StreamExt, stream};
use serde_json::{Map, Value, json};

use crate::harness::*;

/// An operation on a ground, with the shortest body that it would accept.
struct Place {
    id: String,
    method: String,
    path: String,
    /// The operation as the document has it.
    operation: Value,
    /// `{}` where the document has no body; nothing where JSON is not read.
    good: Option<Value>,
}

impl Place {
    /// May the body be left out?
    fn needs_no_body(&self) -> bool {
        self.operation["requestBody"]["required"] != true
    }
}

/// A request that must be refused with 422, and the field that `errors` must name.
struct Wrong<'a> {
    place: &'a Place,
    query: String,
    body: String,
    field: String,
}

/// A topic with a leased message and a delayed one of the key `k`, and all operations on them.
struct Ground {
    client: Client,
    document: &'static Document,
    topic: String,
    /// The name of a topic and of a schedule that are not there.
    absent: String,
    held: Value,
    delayed: String,
    seen: Vec<Value>,
}

impl Ground {
    async fn new() -> Ground {
        let (client, mine) = (client().await, topic("bad"));
        client.new_topic(&mine, json!({"lease_ms": 2000, "max_messages": 1_000_000})).await;
        client.published(&mine, json!({"payload": 1})).await;
        let held = client.lease_one_with(&mine, json!({"lease_ms": 600_000})).await;
        let message = json!({"payload": 1, "delay_ms": 600_000, "key": "k"});
        let delayed = client.published(&mine, message).await;
        let document = Document::committed();
        let absent = topic("bad-absent");
        let mut ground =
            Ground { client, document, topic: mine, absent, held, delayed, seen: Vec::new() };
        ground.seen = ground.look().await;
        ground
    }

    /// The topic and its messages.
    async fn look(&self) -> Vec<Value> {
        let mut seen = vec![self.client.topic(&self.topic).await.expect(200).json()];
        for id in [text(&self.held, "id"), &self.delayed] {
            seen.push(self.client.get(id).await.expect(200).json());
        }
        seen
    }

    /// Demands that nothing has changed or come into being.
    async fn unchanged(&self) {
        assert_eq!(self.look().await, self.seen);
        self.client.topic(&self.absent).await.problem(404, "topic_not_found");
        let schedule = format!("/schedules/{}", self.absent);
        self.client.get_path(&schedule).await.problem(404, "schedule_not_found");
        self.client.ack_leased(&self.held).await.expect(204);
    }

    /// Every operation of the document, and putTopic on a topic that is not there.
    fn places(&self) -> Vec<Place> {
        let mut places = Vec::new();
        for (path, item) in self.document.0["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let id = text(operation, "operationId").to_owned();
                let of_lease = ["ackMessage", "nackMessage", "extendLease"].contains(&id.as_str());
                let message = if of_lease { text(&self.held, "id") } else { &self.delayed };
                let filled = path.replace("{topic}", &self.topic).replace("{id}", message);
                let filled = filled.replace("{name}", &self.absent).replace("{key}", "k");
                let path = filled.replace("{group}", "g").replace("{host}", "a.invalid:80");
                let content = &operation["requestBody"]["content"];
                let good = match content.get("application/json") {
                    Some(_) => Some(self.good("", self.document.request(&id))),
                    None => (content.is_null() && method == "post").then(|| json!({})),
                };
                let method = method.to_uppercase();
                places.push(Place { id, method, path, operation: operation.clone(), good });
            }
        }
        let put = places.iter().find(|place| place.id == "putTopic").unwrap();
        let path = format!("/topics/{}", self.absent);
        places.push(Place {
            id: put.id.clone(),
            method: put.method.clone(),
            path,
            operation: put.operation.clone(),
            good: put.good.clone(),
        });
        places
    }

    /// Those that read JSON.
    fn with_json(&self) -> Vec<Place> {
        self.places().into_iter().filter(|place| place.good.is_some()).collect()
    }

    /// Those that take messages in and out.
    fn taking_messages(&self) -> Vec<Place> {
        let ids = "publishMessage leaseMessages ackMessage nackMessage extendLease publishBatch ackBatch nackBatch extendBatch";
        let mut places = self.places();
        places.retain(|place| ids.split(' ').any(|id| id == place.id));
        places
    }

    /// A schema itself: not a reference to it, and not the choice between it and null.
    fn schema<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let found = self.document.resolve(schema);
        found["oneOf"].get(0).map_or(found, |choice| self.document.resolve(choice))
    }

    /// A value that a field may have: by its name, or the least that its schema allows.
    fn good(&self, name: &str, schema: &Value) -> Value {
        let schema = self.schema(schema);
        match name {
            "id" | "lease_token" => return self.held[name].clone(),
            "ids" if schema["type"] == "string" => return self.held["id"].clone(),
            "topic" | "topics" if schema["type"] != "array" => return json!(self.topic),
            "payload" => return json!(1),
            "url" => return json!("http://a.invalid/"),
            "secrets" if schema["type"] == "string" => {
                return json!("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
            }
            "backoff" => return json!({"kind": "exponential"}),
            _ => {}
        }
        let is = |kind: &str| schema["type"] == kind || schema["type"][0] == kind;
        if is("object") {
            let mut object = Map::new();
            let properties = schema["properties"].as_object();
            let required = schema["required"].as_array().into_iter().flatten();
            let mut names: Vec<&str> = required.map(|name| name.as_str().unwrap()).collect();
            // What no schema says: a message has a payload, and a schedule its ticks, its topic and its message.
            names.extend(["payload", "every_ms", "topic", "message"]);
            for name in names {
                if let Some(schema) = properties.and_then(|it| it.get(name)) {
                    object.insert(name.to_owned(), self.good(name, schema));
                }
            }
            return Value::Object(object);
        }
        match schema["enum"].get(0) {
            Some(word) => word.clone(),
            None if is("array") => json!([self.good(name, &schema["items"])]),
            None if schema["minimum"].is_number() => schema["minimum"].clone(),
            None if is("boolean") => json!(false),
            None => json!("x"),
        }
    }

    /// Sends all of these and demands their refusals; those that were answered otherwise are shown together.
    async fn refuses(&self, wrong: Vec<Wrong<'_>>) {
        assert!(!wrong.is_empty());
        let sent = stream::iter(&wrong).map(async |wrong| {
            let answer = self.send(wrong.place, &wrong.query, &wrong.body).await;
            let errors = answer.json()["errors"].as_array().cloned().unwrap_or_default();
            let named = errors.iter().any(|error| {
                let rest = text(error, "field").strip_prefix(&wrong.field);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
            });
            let brief: String = wrong.body.chars().take(200).collect();
            (answer.status != 422 || !named)
                .then(|| format!("not {:?} with {brief}: {answer}", wrong.field))
        });
        let found: Vec<_> = sent.buffer_unordered(8).filter_map(async |it| it).collect().await;
        assert!(found.is_empty(), "{} of {}:\n{}", found.len(), wrong.len(), found.join("\n"));
        self.unchanged().await;
    }

    /// Sends a body to a place as JSON, or nothing where it is empty.
    async fn send(&self, place: &Place, query: &str, body: &str) -> Answer {
        let kind: &[(&str, &str)] = match place.good {
            Some(_) if !body.is_empty() => &[("content-type", "application/json")],
            _ => &[],
        };
        let path = format!("{}{query}", place.path);
        let body = (!body.is_empty()).then(|| body.as_bytes().to_vec());
        self.client.send(&place.method, &path, kind, body).await
    }
}
