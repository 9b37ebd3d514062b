//! Bodies that are refused, each with the field that is wrong; none of them grants or acks anything.

use super::*;
use crate::facts::unprocessable;

/// 422 naming this field, for each of these values of `topics`.
async fn refused(client: &Client, values: &[Value], field: &str) {
    for value in values {
        let answer = client.post("/lease", &json!({"topics": value})).await;
        unprocessable(answer, field);
    }
}

#[tokio::test]
async fn topics_are_wanted_as_an_array_of_1_to_32_different_names() {
    let client = client().await;
    unprocessable(client.post("/lease", &json!({})).await, "topics");
    unprocessable(client.post("/lease", &json!({"wait_ms": 1})).await, "topics");
    let wrong = [json!(null), json!("a"), json!(1), json!(true), json!({"a": "b"}), json!([])];
    refused(&client, &wrong, "topics").await;
    let many: Vec<_> = (0..33).map(|n| format!("t{n}")).collect();
    refused(&client, &[json!(many)], "topics").await;
    refused(&client, &[json!(["a", "b", "a"]), json!(["a", "a"])], "topics").await;
    client.post("/lease", &json!({"topics": many[..32]})).await.expect(200);
    client.post("/lease", &json!({"topics": ["a", "A"]})).await.expect(200);
}

#[tokio::test]
async fn a_bad_name_is_422_and_told_by_its_place() {
    let client = client().await;
    let long = "x".repeat(129);
    let bad = ["", "..", "a..b", "-a", ".a", "a b", "a/b", "{a}", "*", "é", "а", "a\0", &long];
    for name in bad.map(Value::from).into_iter().chain([json!(1), json!(null), json!(["a"])]) {
        refused(&client, &[json!(["a", "b", "c", name])], "topics[3]").await;
        refused(&client, &[json!([name])], "topics[0]").await;
    }
    let answer = client.post("/lease", &json!({"topics": ["a", "..", "*"]})).await.refused(422);
    let errors = answer.json()["errors"].as_array().unwrap().len();
    assert_eq!(errors, 2, "each of them, and nothing else: {answer}");
}

#[tokio::test]
async fn the_other_fields_are_as_strict_as_those_of_lease_messages() {
    let (client, topic) = (client().await, topic("several"));
    client.published(&topic, json!({"payload": 1})).await;
    let held = client.lease_one(&topic).await;
    client.published(&topic, json!({"payload": 2})).await;
    let ack = json!({"id": held["id"], "lease_token": held["lease_token"]});
    for (field, value, named) in [
        ("max_messages", json!(0), "max_messages"),
        ("max_messages", json!(1001), "max_messages"),
        ("max_bytes", json!("1"), "max_bytes"),
        ("lease_ms", json!(999), "lease_ms"),
        ("wait_ms", json!(60_001), "wait_ms"),
        ("wait_ms", json!(1.5), "wait_ms"),
        ("acks", json!({}), "acks"),
        ("acks", json!([ack, 1]), "acks[1]"),
        ("acks", json!([ack, {"id": "x", "lease_token": "x"}]), "acks[1].id"),
        ("topic", json!("a"), "topic"),
        ("max_message", json!(1), "max_message"),
    ] {
        let mut body = json!({"topics": [topic], "acks": [ack]});
        body[field] = value;
        unprocessable(client.post("/lease", &body).await, named);
    }
    let body = json!({"topics": [topic]});
    unprocessable(client.post("/lease?wait_ms=1", &body).await, "wait_ms");
    let twice = format!("{{\"topics\":[\"{topic}\"],\"topics\":[\"{topic}\"]}}");
    unprocessable(client.post_text("/lease", &twice).await, "topics");
    for text in ["", "{", "[1", "{\"topics\":[\"a\"}", "{} x"] {
        client.post_text("/lease", text).await.refused(400);
    }
    for text in ["[]", "1", "null", "\"x\""] {
        client.post_text("/lease", text).await.refused(422);
    }
    let bytes = body.to_string().into_bytes();
    for kind in [None, Some("text/plain")] {
        client.post_bytes("/lease", kind, bytes.clone()).await.refused(415);
    }
    client.get_path("/lease").await.refused(405);
    assert_eq!(client.total(&topic, "granted").await, 1, "nothing was granted");
    client.ack_leased(&held).await.expect(204);
    let nulls = json!({"topics": [topic], "wait_ms": null, "acks": null, "lease_ms": null});
    client.post("/lease", &nulls).await.expect(200);
}
