//! What the tests read out of answers: the instant of a grant, and whether a topic's counters add up.

use serde_json::{Value, json};

use crate::harness::{Answer, Client, eventually, instant_ms, number, text};

/// When a message was granted, on Redis's clock: its lease's end less the lease asked for.
pub fn granted_ms(message: &Value, lease_ms: i64) -> i64 {
    instant_ms(text(message, "lease_expires_at")) - lease_ms
}

/// The ids of messages, in order.
pub fn ids(messages: &[Value]) -> Vec<String> {
    messages.iter().map(|message| text(message, "id").to_owned()).collect()
}

/// getTopic, checked for conservation (I9 of the guarantees): every published message is somewhere,
/// and every grant has ended or holds. What retention keeps as `acked` is in the total of that name.
pub async fn topic_in_balance(client: &Client, topic: &str) -> Value {
    let answer = client.topic(topic).await.expect(200);
    let seen = answer.json();
    let sum = |of: &str, names: &[&str]| -> i64 {
        names.iter().map(|name| number(&seen[of], name)).sum()
    };
    let places = sum("counts", &["delayed", "ready", "blocked", "leased", "dead"]);
    let ends = sum("totals", &["acked", "expired", "deleted", "purged"]);
    assert_eq!(number(&seen["totals"], "published"), places + ends, "messages: {answer}");
    let over = ["acked", "nacked", "released", "lease_expired", "deleted_leased", "returned"];
    let held = sum("counts", &["leased"]);
    assert_eq!(number(&seen["totals"], "granted"), sum("totals", &over) + held, "grants: {answer}");
    let within = |of: &str, part: &str, whole: &str| {
        let most = number(&seen["totals"], whole);
        assert!((0..=most).contains(&number(&seen[of], part)), "{of}.{part}: {answer}");
    };
    within("counts", "acked", "acked");
    let removed = sum("totals", &["deleted", "purged"]);
    assert!((0..=removed).contains(&number(&seen["totals"], "deleted_leased")), "{answer}");
    within("totals", "redriven", "dead");
    within("counts", "dead", "dead");
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

/// A message has died by its handler's own word, with attempts left: publish, lease, nack with `dead`.
pub async fn killed(client: &Client, topic: &str, message: Value) -> String {
    let id = client.published(topic, message).await;
    let held = client.lease_one(topic).await;
    assert_eq!(held["id"], id, "the message that is to die");
    let answer = client.nack_leased(&held, json!({"dead": true})).await.expect(200);
    assert_eq!(answer.text("state"), "dead", "{answer}");
    id
}

/// Waits until getMessage says this state.
pub async fn reaches(client: &Client, id: &str, state: &str) {
    let what = format!("{id} is {state}");
    eventually(&what, || async { (client.state(id).await == state).then_some(()) }).await;
}

/// Demands that there is no such message.
pub async fn gone(client: &Client, id: &str) {
    client.get(id).await.problem(404, "message_not_found");
}

/// Demands these counts and totals of getTopic, and conservation.
pub async fn counted(client: &Client, topic: &str, wanted: &[(&str, &str, i64)]) {
    let seen = topic_in_balance(client, topic).await;
    for (of, name, count) in wanted {
        assert_eq!(seen[of][name], *count, "{of}.{name}: {seen}");
    }
}

/// The `events` of a message.
pub async fn events(client: &Client, id: &str) -> Vec<Value> {
    let seen = client.get(id).await.expect(200).json();
    seen["events"].as_array().cloned().unwrap_or_default()
}

/// One field of each result, message or event, as text.
pub fn column(items: &[Value], name: &str) -> Vec<String> {
    items.iter().map(|item| item[name].as_str().unwrap_or("(none)").to_owned()).collect()
}

/// Demands 422 whose errors are all about this field or what is inside it.
#[track_caller]
pub fn unprocessable_within(answer: Answer, field: &str) -> Answer {
    let answer = answer.refused(422);
    let errors = answer.json()["errors"].as_array().cloned().unwrap_or_default();
    let within = |error: &Value| text(error, "field").starts_with(field);
    assert!(!errors.is_empty() && errors.iter().all(within), "not about {field}: {answer}");
    answer
}
