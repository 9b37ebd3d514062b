//! Fields that are known, with values that they cannot have.

use serde_json::{Value, json};

use super::{Ground, NO_NUMBER, with, with_field};
use crate::facts::unprocessable;
use crate::harness::*;

/// Wrong values of a whole number in a range.
fn wrong_numbers(least: i64, most: i64) -> Vec<String> {
    let beyond = [least - 1, most + 1].map(|number| number.to_string());
    NO_NUMBER.iter().map(|text| (*text).to_owned()).chain(beyond).collect()
}

#[tokio::test]
async fn a_number_of_the_wrong_type_or_range_is_422_and_named() {
    let ground = Ground::new().await;
    let delay = 315_360_000_000;
    for (name, field, least, most) in [
        ("publish", "delay_ms", 0, delay),
        ("publish", "priority", 0, 255),
        ("publish", "max_attempts", 1, 1000),
        ("lease", "max_messages", 1, 1000),
        ("lease", "max_bytes", 1, 16_777_216),
        ("lease", "lease_ms", 1000, 43_200_000),
        ("lease", "wait_ms", 0, 60_000),
        ("nack", "delay_ms", 0, delay),
        ("extend", "lease_ms", 1000, 43_200_000),
    ] {
        let route = ground.routes.iter().find(|route| route.name == name).unwrap();
        for value in wrong_numbers(least, most) {
            let body = with_field(&route.good, field, &value);
            unprocessable(ground.post(route, &body).await, field);
        }
    }
    ground.unchanged().await;
}

#[tokio::test]
async fn a_value_of_the_wrong_type_or_form_is_422_and_named() {
    let ground = Ground::new().await;
    let text: &[&str] = &["1", "true", "[]", "{}", "1.5"];
    let tables: &[(&str, &str, &[&str])] = &[
        ("publish", "deliver_at", text),
        ("publish", "content_type", text),
        ("publish", "headers", &["1", "\"x\"", "[]", "true", "{\"a\":1}", "{\"a\":[\"b\"]}"]),
        ("publish", "headers", &["{\"a\":{}}", "{\"a\":true}", "{\"\":\"x\"}", "{\"a b\":\"x\"}"]),
        ("publish", "headers", &["{\"a:\":\"x\"}", "{\"é\":\"x\"}", "{\"a\":\"x\\ny\"}"]),
        (
            "publish",
            "headers",
            &["{\"a\":\"x\\r\\nb: c\"}", "{\"a\":\"\\u0000\"}", "{\"a\\n\":\"\"}"],
        ),
        ("publish", "deliver_at", &["\"tomorrow\"", "\"\"", "\"2026-01-01\"", "\"1763662500\""]),
        ("publish", "deliver_at", &["\"2026-01-01T00:00:00\"", "\"2026-13-01T00:00:00Z\""]),
        ("publish", "deliver_at", &["\"10000-01-01T00:00:00Z\"", "\"2026-01-01T24:00:01Z\""]),
        ("publish", "deliver_at", &["\"+12026-01-01T00:00:00Z\"", "\"2026-02-30T00:00:00Z\""]),
        ("lease", "acks", &["1", "\"x\"", "{}", "true"]),
        ("ack", "lease_token", text),
        ("nack", "lease_token", text),
        ("extend", "lease_token", text),
    ];
    for (name, field, values) in tables {
        let route = ground.routes.iter().find(|route| route.name == *name).unwrap();
        for value in *values {
            let body = with_field(&route.good, field, value);
            let answer = ground.post(route, &body).await.refused(422);
            let named = answer.json()["errors"].to_string();
            assert!(named.contains(&format!("\"field\":\"{field}")), "{answer}");
        }
    }
    for missing in ["lease_token", "lease_ms"] {
        let extend = &ground.routes[4];
        let mut body = extend.good.clone();
        body.as_object_mut().unwrap().remove(missing);
        unprocessable(ground.post(extend, &body.to_string()).await, missing);
    }
    ground.unchanged().await;
}

#[tokio::test]
async fn a_message_has_exactly_one_payload() {
    let ground = Ground::new().await;
    let publish = &ground.routes[0];
    for body in [
        "{}",
        "{\"delay_ms\":1}",
        "{\"payload_base64\":null}",
        "{\"payload\":1,\"payload_base64\":\"AA==\"}",
        "{\"payload\":null,\"payload_base64\":\"AA==\"}",
    ] {
        let answer = ground.post(publish, body).await.refused(422);
        let named = answer.json()["errors"].to_string();
        assert!(named.contains("\"field\":\"payload"), "{answer}");
    }
    unprocessable(
        ground.post(publish, "{\"payload\":1,\"content_type\":\"text/plain\"}").await,
        "content_type",
    );
    for bad in
        ["\"%%%%\"", "\"A\"", "\"AA=A\"", "\"AA==AA==\"", "\"A A=\"", "\"AA==\\n\"", "\"é\"", "7"]
    {
        let body = format!("{{\"payload_base64\":{bad}}}");
        unprocessable(ground.post(publish, &body).await, "payload_base64");
    }
    for bad in ["\"\"", "\"text\"", "\"a/b\\r\\nx: y\"", "\"a/b\\u0000\"", "\"é/b\""] {
        let body = format!("{{\"payload_base64\":\"AA==\",\"content_type\":{bad}}}");
        unprocessable(ground.post(publish, &body).await, "content_type");
    }
    ground.unchanged().await;
}

#[tokio::test]
async fn delay_ms_and_deliver_at_exclude_each_other() {
    let ground = Ground::new().await;
    let publish = &ground.routes[0];
    let more = "\"delay_ms\":0,\"deliver_at\":\"2100-01-01T00:00:00Z\"";
    let answer = ground.post(publish, &with(&publish.good, more)).await.refused(422);
    let fields = answer.json()["errors"].to_string();
    assert!(fields.contains("delay_ms") || fields.contains("deliver_at"), "{answer}");
    ground.unchanged().await;
}

#[tokio::test]
async fn an_ack_inside_a_lease_request_is_as_strict() {
    let ground = Ground::new().await;
    let (id, token) = (&ground.held["id"], &ground.held["lease_token"]);
    let good = json!({"id": id, "lease_token": token});
    let with_id = |value: Value| json!({"id": value, "lease_token": token});
    for (ack, field) in [
        (json!(1), "acks[1]"),
        (json!(null), "acks[1]"),
        (json!([]), "acks[1]"),
        (json!("x"), "acks[1]"),
        (json!({"id": id}), "acks[1].lease_token"),
        (json!({"lease_token": token}), "acks[1].id"),
        (with_id(json!("no-uuid")), "acks[1].id"),
        (with_id(json!("")), "acks[1].id"),
        (with_id(json!(7)), "acks[1].id"),
        (with_id(json!(null)), "acks[1].id"),
        (json!({"id": id, "lease_token": 7}), "acks[1].lease_token"),
        (json!({"id": id, "lease_token": token, "x": 1}), "acks[1].x"),
    ] {
        let body = json!({"acks": [good, ack]});
        let answer = ground.post(&ground.routes[1], &body.to_string()).await;
        unprocessable(answer, field); // and the good one beside it was not done: see `unchanged`
    }
    let many = json!({"acks": vec![with_id(json!(unknown_id())); 1001]});
    unprocessable(ground.post(&ground.routes[1], &many.to_string()).await, "acks");
    ground.unchanged().await;
}

#[tokio::test]
async fn several_mistakes_are_told_at_once_or_one_by_one_but_each_with_its_field() {
    let ground = Ground::new().await;
    let body = "{\"payload\":1,\"delay_ms\":-1,\"priority\":256,\"max_attempts\":0}";
    let answer = ground.post(&ground.routes[0], body).await.refused(422);
    let errors = answer.json()["errors"].as_array().cloned().unwrap_or_default();
    let known = ["delay_ms", "priority", "max_attempts"];
    assert!(!errors.is_empty(), "{answer}");
    assert!(errors.iter().all(|error| known.contains(&text(error, "field"))), "{answer}");
    ground.unchanged().await;
}
