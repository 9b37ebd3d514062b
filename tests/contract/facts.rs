//! What the tests read out of answers: the instant of a grant, and whether a topic's counters add up.

use serde_json::{Value, json};

use crate::harness::{Answer, Client, instant_ms, number, text};

/// When a message was granted, on Redis's clock: its lease's end less the lease asked for.
pub fn granted_ms(message: &Value, lease_ms: i64) -> i64 {
    instant_ms(text(message, "lease_expires_at")) - lease_ms
}

/// The ids of messages, in order.
pub fn ids(messages: &[Value]) -> Vec<String> {
    messages.iter().map(|message| text(message, "id").to_owned()).collect()
}

/// getTopic, checked for conservation (I9 of the guarantees): every published message is somewhere,
/// and every grant has ended or holds.
pub async fn topic_in_balance(client: &Client, topic: &str) -> Value {
    let answer = client.topic(topic).await.expect(200);
    let seen = answer.json();
    let sum = |of: &str, names: &[&str]| -> i64 {
        names.iter().map(|name| seen[of][*name].as_i64().unwrap_or(0)).sum()
    };
    let places = sum("counts", &["delayed", "ready", "leased", "dead", "acked"]);
    let ends = sum("totals", &["acked", "expired", "deleted", "purged"]);
    assert_eq!(number(&seen["totals"], "published"), places + ends, "messages: {answer}");
    let over = ["acked", "nacked", "released", "lease_expired", "deleted_leased", "returned"];
    let held = sum("counts", &["leased"]);
    assert_eq!(number(&seen["totals"], "granted"), sum("totals", &over) + held, "grants: {answer}");
    seen
}

/// Nacks with `delay_ms` 0 and leases again until this many grants have failed.
pub async fn fail_attempts(client: &Client, topic: &str, times: i64) {
    for _ in 0..times {
        let message = client.lease_one(topic).await;
        client.nack_leased(&message, json!({"delay_ms": 0})).await.expect(200);
    }
}

/// Publishes a message that has died at its first failure: its id.
pub async fn dead_message(client: &Client, topic: &str) -> String {
    let id = client.published(topic, json!({"payload": "doomed", "max_attempts": 1})).await;
    let message = client.lease_one(topic).await;
    let answer = client.nack_leased(&message, json!({})).await.expect(200);
    assert_eq!(answer.text("state"), "dead");
    id
}

/// Demands 422 naming this field, which may stand inside a longer path (`acks[0].id`).
#[track_caller]
pub fn unprocessable(answer: Answer, field: &str) -> Answer {
    let answer = answer.refused(422);
    if field.is_empty() { answer } else { answer.field(field) }
}
