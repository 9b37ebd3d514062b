//! Configurations that cannot be: every setting with values beyond it, on putTopic and updateTopic.

use serde_json::{Value, json};

use super::NO_NUMBER;
use crate::facts::unprocessable;
use crate::harness::*;

/// No object.
const NO_OBJECT: &[&str] = &["1", "\"x\"", "true", "[]", "[{}]"];

/// No text of a closed list.
const NO_WORD: &[&str] = &["1", "true", "[]", "{}", "\"\"", "\"Reject\"", "\"none\"", "\"x\""];

/// `{"backoff": {"kind": "fixed", …}}` and the like: the text around a field's value.
const TOP: (&str, &str) = ("{", "}");
const EXPONENTIAL: (&str, &str) = ("{\"backoff\":{\"kind\":\"exponential\",", "}}");
const FIXED: (&str, &str) = ("{\"backoff\":{\"kind\":\"fixed\",", "}}");
const SCHEDULE: (&str, &str) = ("{\"backoff\":{\"kind\":\"schedule\",", "}}");
const RETENTION: (&str, &str) = ("{\"retention\":{", "}}");

/// Around it, the setting as `errors` names it, and values that it cannot have.
type Row = ((&'static str, &'static str), &'static str, &'static [&'static str]);

/// What every setting refuses. Its last part is its name in the body.
const TABLE: &[Row] = &[
    (TOP, "lease_ms", NO_NUMBER),
    (TOP, "lease_ms", &["0", "999", "43200001"]),
    (TOP, "max_attempts", NO_NUMBER),
    (TOP, "max_attempts", &["0", "1001"]),
    (TOP, "ttl_ms", NO_NUMBER),
    (TOP, "ttl_ms", &["0"]),
    (TOP, "max_payload_bytes", NO_NUMBER),
    (TOP, "max_payload_bytes", &["0", "1048577"]),
    (TOP, "max_messages", NO_NUMBER),
    (TOP, "max_messages", &["0"]),
    (TOP, "partitions", NO_NUMBER),
    (TOP, "partitions", &["0", "3", "6", "255", "257", "512"]),
    (TOP, "on_full", NO_WORD),
    (TOP, "idempotency_window_ms", NO_NUMBER),
    (TOP, "backoff", NO_OBJECT),
    (TOP, "retention", NO_OBJECT),
    (EXPONENTIAL, "backoff.base_ms", NO_NUMBER),
    (EXPONENTIAL, "backoff.max_ms", NO_NUMBER),
    (EXPONENTIAL, "backoff.factor", &["\"2\"", "-1", "-0.5", "0", "1e999", "true", "[]", "{}"]),
    (EXPONENTIAL, "backoff.jitter", &["\"0\"", "-0.1", "1.1", "2", "1e999", "true", "[]", "{}"]),
    (FIXED, "backoff.base_ms", NO_NUMBER),
    (SCHEDULE, "backoff.delays_ms", &["1", "\"x\"", "{}", "true", "[]"]),
    (RETENTION, "retention.acked_ms", NO_NUMBER),
    (RETENTION, "retention.acked_max", NO_NUMBER),
    (RETENTION, "retention.dead_ms", NO_NUMBER),
    (RETENTION, "retention.dead_max", NO_NUMBER),
];

/// A topic that must stay as it is.
struct Kept {
    client: Client,
    topic: String,
    seen: Value,
}

impl Kept {
    async fn new() -> Kept {
        let (client, topic) = (client().await, topic("bad"));
        client.new_topic(&topic, json!({"lease_ms": 2000, "max_messages": 7})).await;
        let seen = client.topic(&topic).await.expect(200).json();
        Kept { client, topic, seen }
    }

    /// PUT and PATCH of this text on it, and PUT on a topic that is not there: the answers.
    async fn send(&self, body: &str) -> Vec<Answer> {
        let json = [("content-type", "application/json")];
        let new = topic("bad");
        let mut answers = Vec::new();
        for (method, topic) in [("PUT", &self.topic), ("PATCH", &self.topic), ("PUT", &new)] {
            let path = format!("/topics/{topic}");
            let sent = Some(body.as_bytes().to_vec());
            let mut answer = self.client.send(method, &path, &json, sent).await;
            answer.request.push_str(&format!(" with {}", &body[..body.len().min(200)]));
            answers.push(answer);
        }
        self.client.topic(&new).await.problem(404, "topic_not_found");
        answers
    }

    async fn refuses(&self, body: &str, field: &str) {
        for answer in self.send(body).await {
            unprocessable(answer, field);
        }
    }

    /// Nothing of all that was done.
    async fn unchanged(&self) {
        assert_eq!(self.client.topic(&self.topic).await.expect(200).json(), self.seen);
    }
}

#[tokio::test]
async fn a_setting_of_the_wrong_type_or_range_is_422_and_named() {
    let kept = Kept::new().await;
    for ((before, after), field, values) in TABLE {
        let name = field.rsplit('.').next().unwrap();
        for value in *values {
            kept.refuses(&format!("{before}\"{name}\":{value}{after}"), field).await;
        }
    }
    kept.unchanged().await;
}

#[tokio::test]
async fn the_ends_of_every_range_are_accepted() {
    let (client, topic) = (client().await, topic("bad"));
    for config in [
        json!({"lease_ms": 1000}),
        json!({"lease_ms": 43_200_000}),
        json!({"max_attempts": 1}),
        json!({"max_attempts": 1000}),
        json!({"ttl_ms": 1}),
        json!({"ttl_ms": 315_360_000_000_i64}),
        json!({"max_payload_bytes": 1}),
        json!({"max_payload_bytes": 1_048_576}),
        json!({"max_messages": 1}),
        json!({"max_messages": 1_000_000_000}),
        json!({"on_full": "reject"}),
        json!({"on_full": "drop_oldest"}),
        json!({"idempotency_window_ms": 86_400_000}),
        json!({"retention": {"acked_ms": 0}}),
        json!({"retention": {"acked_ms": 86_400_000, "dead_ms": 1000, "dead_max": 1}}),
        json!({"backoff": {"kind": "exponential", "factor": 1, "jitter": 0}}),
        json!({"backoff": {"kind": "exponential", "factor": 10.5, "jitter": 1}}),
    ] {
        let answer = client.put_topic(&topic, config.clone()).await;
        assert!(answer.status < 300, "{config}: {answer}");
        let patched = client.update_topic(&topic, config.clone()).await.expect(200).json();
        assert_eq!(patched["config"], answer.json()["config"], "{config}");
    }
}

#[tokio::test]
async fn a_delay_of_a_schedule_is_422_and_named_with_its_place() {
    let kept = Kept::new().await;
    for value in NO_NUMBER {
        let body = format!("{{\"backoff\":{{\"kind\":\"schedule\",\"delays_ms\":[1,{value}]}}}}");
        kept.refuses(&body, "backoff.delays_ms[1]").await;
    }
    kept.refuses("{\"backoff\":{\"kind\":\"schedule\"}}", "backoff.delays_ms").await;
    kept.unchanged().await;
}

#[tokio::test]
async fn a_kind_of_backoff_that_nobody_knows_is_422_and_named() {
    let kept = Kept::new().await;
    for value in ["1", "true", "[]", "{}", "\"\"", "\"linear\"", "\"Fixed\"", "\"exponential \""] {
        kept.refuses(&format!("{{\"backoff\":{{\"kind\":{value}}}}}"), "backoff.kind").await;
    }
    kept.unchanged().await;
}

#[tokio::test]
async fn an_unknown_setting_is_422_and_named_at_every_level() {
    let kept = Kept::new().await;
    for (body, field) in [
        ("{\"nope\":1}", "nope"),
        ("{\"nope\":null}", "nope"),
        ("{\"lease\":1}", "lease"),
        ("{\"Lease_ms\":1000}", "Lease_ms"),
        ("{\"lease_ms \":1000}", "lease_ms "),
        ("{\"name\":\"x\"}", "name"),
        ("{\"revision\":1}", "revision"),
        ("{\"config\":{}}", "config"),
        ("{\"paused\":true}", "paused"),
        ("{\"counts\":{}}", "counts"),
        ("{\"retention\":{\"nope\":1}}", "retention.nope"),
        ("{\"retention\":{\"max\":null}}", "retention.max"),
        ("{\"backoff\":{\"kind\":\"exponential\",\"nope\":1}}", "backoff.nope"),
        ("{\"backoff\":{\"kind\":\"exponential\",\"delays_ms\":[1]}}", "backoff.delays_ms"),
        ("{\"backoff\":{\"kind\":\"fixed\",\"base_ms\":1,\"nope\":1}}", "backoff.nope"),
        ("{\"backoff\":{\"kind\":\"fixed\",\"base_ms\":1,\"factor\":2}}", "backoff.factor"),
        ("{\"backoff\":{\"kind\":\"schedule\",\"delays_ms\":[1],\"nope\":1}}", "backoff.nope"),
        ("{\"backoff\":{\"kind\":\"schedule\",\"delays_ms\":[1],\"max_ms\":2}}", "backoff.max_ms"),
    ] {
        kept.refuses(body, field).await;
    }
    kept.unchanged().await;
}

#[tokio::test]
async fn a_setting_that_comes_twice_is_422_and_named_at_every_level() {
    let kept = Kept::new().await;
    for (body, field) in [
        ("{\"lease_ms\":1000,\"lease_ms\":1000}", "lease_ms"),
        ("{\"lease_ms\":null,\"lease_ms\":1000}", "lease_ms"),
        ("{\"lease_ms\":1000,\"lease\\u005fms\":1000}", "lease_ms"),
        ("{\"retention\":{},\"retention\":{}}", "retention"),
        ("{\"retention\":{\"dead_max\":1,\"dead_max\":1}}", "retention.dead_max"),
        ("{\"backoff\":{\"kind\":\"fixed\",\"kind\":\"fixed\",\"base_ms\":1}}", "backoff.kind"),
        ("{\"backoff\":{\"kind\":\"fixed\",\"base_ms\":1,\"base_ms\":1}}", "backoff.base_ms"),
    ] {
        kept.refuses(body, field).await;
    }
    kept.unchanged().await;
}

#[tokio::test]
async fn a_bad_setting_beside_good_ones_changes_none_of_them() {
    let kept = Kept::new().await;
    kept.refuses("{\"lease_ms\":5000,\"max_attempts\":0}", "max_attempts").await;
    kept.refuses("{\"lease_ms\":5000,\"retention\":{\"dead_max\":-1}}", "retention.dead_max").await;
    kept.unchanged().await;
}

#[tokio::test]
async fn a_body_that_is_no_json_object_is_refused_as_everywhere() {
    let kept = Kept::new().await;
    for body in ["", " ", "{", "{}x", "{\"lease_ms\":}", "nul", "{'lease_ms':1000}", "{}{}"] {
        for answer in kept.send(body).await {
            answer.refused(400);
        }
    }
    for body in ["[]", "1", "\"x\"", "null", "true", "[{}]"] {
        for answer in kept.send(body).await {
            answer.refused(422);
        }
    }
    for kind in [None, Some("text/plain"), Some("text/json"), Some("application/x-yaml")] {
        for method in ["PUT", "PATCH"] {
            let headers: Vec<(&str, &str)> = kind.iter().map(|k| ("content-type", *k)).collect();
            let path = format!("/topics/{}", kept.topic);
            let body = Some(b"{\"lease_ms\":5000}".to_vec());
            kept.client.send(method, &path, &headers, body).await.refused(415);
        }
    }
    kept.unchanged().await;
}
