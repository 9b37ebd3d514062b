//! The fields of a message, wherever one is described: alone, in a batch, in a query.

use serde_json::{Value, json};

use crate::facts::unprocessable_within;
use crate::harness::*;

/// Wrong values of each field, as JSON text, and where they are wrong if not in the field itself.
fn table() -> Vec<(&'static str, &'static str)> {
    let mut table = Vec::new();
    let mut rows = |field: &'static str, values: &[&'static str]| {
        table.extend(values.iter().map(|value| (field, *value)));
    };
    let no_text = ["1", "true", "[]", "{}", "1.5", "[\"k\"]"];
    for field in ["key", "idempotency_key"] {
        rows(field, &no_text);
        rows(field, &["\"\""]);
    }
    for (field, near) in [
        ("on_duplicate", ["\"Return\"", "\"\"", "\"keep\"", "\"replace \"", "\"done\""]),
        ("key_until", ["\"Done\"", "\"\"", "\"acked\"", "\" granted\"", "\"return\""]),
    ] {
        rows(field, &no_text);
        rows(field, &near);
    }
    rows(
        "ttl_ms",
        &["0", "-1", "1.5", "\"5\"", "true", "[]", "{}", "\"\"", "1e999", "1e30", "1e-1"],
    );
    rows("ttl_ms", &["9223372036854775808", "18446744073709551616", "-9223372036854775809"]);
    rows("backoff", &["1", "\"fixed\"", "[]", "true", "[{\"kind\":\"fixed\",\"base_ms\":1}]"]);
    rows("backoff", BACKOFFS);
    table
}

/// Policies that nobody could mean.
const BACKOFFS: &[&str] = &[
    "{\"kind\":\"none\"}",
    "{\"kind\":\"Fixed\",\"base_ms\":1}",
    "{\"kind\":1}",
    "{\"kind\":\"fixed\"}",
    "{\"kind\":\"fixed\",\"base_ms\":-1}",
    "{\"kind\":\"fixed\",\"base_ms\":1.5}",
    "{\"kind\":\"fixed\",\"base_ms\":\"1\"}",
    "{\"kind\":\"fixed\",\"base_ms\":1e30}",
    "{\"kind\":\"fixed\",\"base_ms\":1,\"base_ms\":1}",
    "{\"kind\":\"fixed\",\"base_ms\":1,\"factor\":2}",
    "{\"kind\":\"fixed\",\"base_ms\":1,\"delays_ms\":[1]}",
    "{\"kind\":\"fixed\",\"base_ms\":1,\"nope\":1}",
    "{\"kind\":\"schedule\"}",
    "{\"kind\":\"schedule\",\"delays_ms\":[]}",
    "{\"kind\":\"schedule\",\"delays_ms\":1}",
    "{\"kind\":\"schedule\",\"delays_ms\":[-1]}",
    "{\"kind\":\"schedule\",\"delays_ms\":[1,\"2\"]}",
    "{\"kind\":\"schedule\",\"delays_ms\":[1,null]}",
    "{\"kind\":\"schedule\",\"delays_ms\":[1.5]}",
    "{\"kind\":\"schedule\",\"delays_ms\":[1e30]}",
    "{\"kind\":\"schedule\",\"delays_ms\":[1],\"base_ms\":1}",
    "{\"kind\":\"exponential\",\"base_ms\":-1}",
    "{\"kind\":\"exponential\",\"base_ms\":\"1\"}",
    "{\"kind\":\"exponential\",\"factor\":-1}",
    "{\"kind\":\"exponential\",\"factor\":\"2\"}",
    "{\"kind\":\"exponential\",\"factor\":1e999}",
    "{\"kind\":\"exponential\",\"max_ms\":-1}",
    "{\"kind\":\"exponential\",\"max_ms\":1e30}",
    "{\"kind\":\"exponential\",\"jitter\":-0.1}",
    "{\"kind\":\"exponential\",\"jitter\":1.1}",
    "{\"kind\":\"exponential\",\"jitter\":\"0\"}",
    "{\"kind\":\"exponential\",\"jitter\":[0]}",
    "{\"kind\":\"exponential\",\"delays_ms\":[1]}",
    "{\"kind\":\"exponential\",\"delay_ms\":1}",
];

#[tokio::test]
async fn a_wrong_value_is_422_and_named_alone_and_in_a_batch() {
    let (client, topic) = (client().await, topic("bad"));
    let single = format!("/topics/{topic}/messages");
    let batch = format!("{single}/batch");
    let long = |unit: &str| format!("\"{}\"", unit.repeat(256));
    let mut rows: Vec<(&str, String)> =
        table().into_iter().map(|(field, value)| (field, value.to_owned())).collect();
    for field in ["key", "idempotency_key"] {
        rows.extend([(field, long("x")), (field, long("😀"))]);
    }
    for (field, value) in rows {
        let message = format!("{{\"payload\":1,\"{field}\":{value}}}");
        let mut answer = client.post_text(&single, &message).await;
        answer.request.push_str(&format!(" with {message}"));
        unprocessable_within(answer, field);
        let body = format!("{{\"messages\":[{{\"payload\":0}},{message}]}}");
        let mut answer = client.post_text(&batch, &body).await;
        answer.request.push_str(&format!(" with {message}"));
        unprocessable_within(answer, &format!("messages[1].{field}"));
    }
    client.topic(&topic).await.problem(404, "topic_not_found");
}

#[tokio::test]
async fn what_speaks_of_a_key_wants_one() {
    let (client, topic) = (client().await, topic("bad"));
    for (field, value) in
        [("on_duplicate", "reject"), ("on_duplicate", "replace"), ("key_until", "granted")]
    {
        let message = json!({"payload": 1, field: value});
        unprocessable_within(client.publish(&topic, message.clone()).await, field);
        let answer = client.publish_batch(&topic, &[message]).await;
        unprocessable_within(answer, &format!("messages[0].{field}"));
        let query = format!("?{field}={value}");
        unprocessable_within(client.publish_raw(&topic, &query, None, b"x").await, field);
    }
    client.topic(&topic).await.problem(404, "topic_not_found");
}

#[tokio::test]
async fn null_counts_as_absent_in_every_field() {
    let (client, topic) = (client().await, topic("bad"));
    let nulls = json!({
        "payload": 1, "key": null, "on_duplicate": null, "key_until": null,
        "idempotency_key": null, "ttl_ms": null, "backoff": null, "max_attempts": null,
    });
    let exponential = json!({
        "payload": 1,
        "backoff": {"kind": "exponential", "base_ms": null, "factor": null, "max_ms": null,
                    "jitter": null},
    });
    for message in [&nulls, &exponential] {
        client.publish(&topic, message.clone()).await.expect(201);
    }
    let results = client.published_batch(&topic, &[nulls, exponential]).await;
    assert!(results.iter().all(|result| result["status"] == "ok"), "{results:?}");
}

#[tokio::test]
async fn a_wrong_query_parameter_is_422_and_named() {
    let (client, topic) = (client().await, topic("bad"));
    let long = "x".repeat(256);
    for (query, field) in [
        ("key=", "key"),
        (&format!("key={long}"), "key"),
        ("key=a&key=a", "key"),
        ("on_duplicate=", "on_duplicate"),
        ("on_duplicate=keep", "on_duplicate"),
        ("key=a&on_duplicate=REJECT", "on_duplicate"),
        ("key_until=", "key_until"),
        ("key_until=acked", "key_until"),
        ("idempotency_key=", "idempotency_key"),
        (&format!("idempotency_key={long}"), "idempotency_key"),
        ("ttl_ms=0", "ttl_ms"),
        ("ttl_ms=-1", "ttl_ms"),
        ("ttl_ms=1.5", "ttl_ms"),
        ("ttl_ms=", "ttl_ms"),
        ("ttl_ms=ten", "ttl_ms"),
        ("ttl_ms=99999999999999999999", "ttl_ms"),
        ("Key=a", "Key"),
        ("idempotency-key=a", "idempotency-key"),
    ] {
        let answer = client.publish_raw(&topic, &format!("?{query}"), None, b"x").await;
        unprocessable_within(answer, field);
    }
    client.topic(&topic).await.problem(404, "topic_not_found");
}

#[tokio::test]
async fn every_mistake_of_a_batch_is_told_with_its_place() {
    let (client, topic) = (client().await, topic("bad"));
    let mut messages = vec![json!({"payload": 1}); 20];
    messages[3] = json!({"payload": 1, "priority": 256});
    messages[17] = json!({"payload": 1, "delay_ms": -1});
    let answer = client.publish_batch(&topic, &messages).await.refused(422);
    let errors = answer.json()["errors"].as_array().cloned().unwrap_or_default();
    assert!(!errors.is_empty(), "{answer}");
    let known = ["messages[3].priority", "messages[17].delay_ms"];
    assert!(errors.iter().all(|error| known.contains(&text(error, "field"))), "{answer}");
    messages[3] = json!({"payload": 1});
    client.publish_batch(&topic, &messages).await.refused(422).field("messages[17].delay_ms");
    client.topic(&topic).await.problem(404, "topic_not_found");
}

#[tokio::test]
async fn a_thousand_bad_messages_get_a_short_answer() {
    let (client, topic) = (client().await, topic("bad"));
    let messages = vec![json!({"payload": 1, "priority": 256, "nope": 1, "ttl_ms": 0}); 1000];
    let answer = client.publish_batch(&topic, &messages).await.refused(422);
    assert!(answer.body.len() < 64 * 1024, "{} bytes", answer.body.len());
    let none: Vec<Value> = Vec::new();
    client.publish_batch(&topic, &none).await.refused(422).field("messages");
}
