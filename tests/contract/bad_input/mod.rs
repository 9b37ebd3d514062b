//! The bad-input table of the guarantees, every row on every route that it concerns. Each refusal is
//! a problem that names the field, and changes nothing.

use serde_json::{Value, json};

use crate::harness::*;

/// No whole number of 0…2^63−1, whatever the range.
const NO_NUMBER: &[&str] = &[
    "\"5\"",
    "1.5",
    "1e999",
    "-1e999",
    "-1",
    "true",
    "[]",
    "{}",
    "\"\"",
    "[5]",
    "1e-1",
    "1e30",
    "9223372036854775808",
    "18446744073709551616",
    "-9223372036854775809",
];

mod batches;
mod callbacks;
mod configuration;
mod flood;
mod json;
mod message_fields;
mod noise;
mod paths;
mod topic_routes;
mod values;

/// A route that takes JSON, with the shortest body that it would accept.
struct Route {
    name: &'static str,
    path: String,
    good: Value,
}

/// The routes on a fresh topic with one leased message, and that message.
struct Ground {
    client: Client,
    topic: String,
    held: Value,
    routes: Vec<Route>,
}

impl Ground {
    async fn new() -> Ground {
        let (client, topic) = (client().await, topic("bad"));
        client.published(&topic, json!({"payload": 1})).await;
        let held = client.lease_one_with(&topic, json!({"lease_ms": 600_000})).await;
        let id = text(&held, "id");
        let token = &held["lease_token"];
        let route = |name, path, good| Route { name, path, good };
        let of_message =
            |name: &'static str, good| route(name, format!("/messages/{id}/{name}"), good);
        let batch = |name, path, item: Value| route(name, path, json!({"messages": [item]}));
        let item = json!({"id": id, "lease_token": token});
        let routes = vec![
            route("publish", format!("/topics/{topic}/messages"), json!({"payload": 1})),
            route("lease", format!("/topics/{topic}/lease"), json!({"max_messages": 1})),
            of_message("ack", json!({"lease_token": token})),
            of_message("nack", json!({"lease_token": token})),
            of_message("extend", json!({"lease_token": token, "lease_ms": 60_000})),
            batch("publishBatch", format!("/topics/{topic}/messages/batch"), json!({"payload": 1})),
            batch("ackBatch", "/messages/ack".into(), item.clone()),
            batch("nackBatch", "/messages/nack".into(), item.clone()),
            batch("extendBatch", "/messages/extend".into(), {
                let mut item = item;
                item["lease_ms"] = json!(60_000);
                item
            }),
        ];
        Ground { client, topic, held, routes }
    }

    /// Posts this text to a route; what comes back is shown with it.
    async fn post(&self, route: &Route, body: &str) -> Answer {
        let mut answer = self.client.post_text(&route.path, body).await;
        answer.request.push_str(&format!(" with {}", &body[..body.len().min(200)]));
        answer
    }

    /// Nothing was published, granted, or done to the leased message.
    async fn unchanged(&self) {
        let seen = self.client.topic(&self.topic).await.expect(200).json();
        assert_eq!(seen["totals"]["published"], 1);
        assert_eq!(seen["totals"]["granted"], 1);
        let message = self.client.get(text(&self.held, "id")).await.expect(200).json();
        assert_eq!(message["lease_expires_at"], self.held["lease_expires_at"]);
        self.client.ack_leased(&self.held).await.expect(204);
    }
}

/// `good` with further members appended as text, so that it may break the rules of JSON.
fn with(good: &Value, more: &str) -> String {
    let text = good.to_string();
    format!("{},{more}}}", &text[..text.len() - 1])
}

/// `good` with this field's value replaced by (or added as) this text.
fn with_field(good: &Value, field: &str, value: &str) -> String {
    let mut rest = good.as_object().unwrap().clone();
    rest.remove(field);
    let rest = Value::Object(rest).to_string();
    let comma = if rest == "{}" { "" } else { "," };
    format!("{}{comma}\"{field}\":{value}}}", &rest[..rest.len() - 1])
}
