//! What the tests of callbacks share: a server that may call receivers, short ways to send something
//! to be called, and to see what became of it.

use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::harness::*;

/// The server that ordinary tests share: it may call receivers. Never stop it.
pub async fn caller() -> &'static Shared {
    static CALLER: OnceCell<Shared> = OnceCell::const_new();
    CALLER
        .get_or_init(|| async {
            let redis = Redis::start().await;
            let dueq = Dueq::calling(&redis).start().await;
            Shared { redis, dueq }
        })
        .await
}

/// A client of that server and a receiver of the test's own.
pub async fn ready() -> (Client, Receiver) {
    (caller().await.dueq.client(), Receiver::start().await)
}

/// Redis of a test's own with one instance.
pub async fn alone(args: &[&str]) -> (Redis, Dueq) {
    let redis = Redis::start().await;
    let dueq = Dueq::calling(&redis).args(args).start().await;
    (redis, dueq)
}

/// An object with the fields of another added, which win.
pub fn with(mut object: Value, more: Value) -> Value {
    for (name, value) in more.as_object().expect("an object") {
        object[name] = value.clone();
    }
    object
}

/// scheduleCallback.
pub async fn schedule(client: &Client, url: &str, more: Value) -> Answer {
    client.post("/callbacks", &with(json!({"url": url}), more)).await
}

/// scheduleCallback that must succeed: the id.
pub async fn scheduled(client: &Client, url: &str, more: Value) -> String {
    schedule(client, url, more).await.expect(201).text("id")
}

/// A pushed topic with a name of its own, and further fields of `push`.
pub async fn pushed(client: &Client, name: &str, push: Value) -> String {
    pushed_with(client, name, push, json!({})).await
}

/// The same with further fields of the configuration.
pub async fn pushed_with(client: &Client, name: &str, push: Value, more: Value) -> String {
    let topic = topic(name);
    client.new_topic(&topic, with(json!({"push": push}), more)).await;
    topic
}

/// The backoff policy that waits so long after each failure.
pub fn fixed(base_ms: i64) -> Value {
    json!({"kind": "fixed", "base_ms": base_ms})
}

/// A policy under which a message stays where its first failure put it.
pub fn patient() -> Value {
    fixed(600_000)
}

/// Waits until the message is acked: not there any more, or kept to be looked at.
pub async fn gone(client: &Client, id: &str) {
    eventually("the message gone", || async {
        let seen = client.get(id).await;
        (seen.status == 404 || seen.expect(200).json()["state"] == "acked").then_some(())
    })
    .await;
}

/// Waits until the message is in this state and has been called as often: getMessage.
pub async fn becomes(client: &Client, id: &str, state: &str, calls: usize) -> Value {
    let what = format!("{id} {state} after {calls} calls");
    eventually(&what, || async {
        let answer = client.get(id).await;
        let seen = if answer.status == 404 { return None } else { answer.expect(200).json() };
        (seen["state"] == state && called(&seen).len() == calls).then_some(seen)
    })
    .await
}

/// The `called` events of a message as getMessage shows it.
pub fn called(message: &Value) -> Vec<Value> {
    let events = message["events"].as_array().expect("events");
    events.iter().filter(|event| event["kind"] == "called").cloned().collect()
}

/// From the last call's event to the due time, ms.
pub fn wait_ms(message: &Value) -> i64 {
    let calls = called(message);
    instant_ms(text(message, "due_at")) - instant_ms(text(calls.last().expect("a call"), "at"))
}

/// Checks that a message which has just been seen waits for `ms` after its last call.
pub async fn waits(message: &Value, ms: i64) {
    waits_within(message, ms, ms).await;
}

/// The same: no less than `least` from the beginning of the call on, and no more than `most` from now on, since how late the
/// answer to the call was noted is up to the machine.
pub async fn waits_within(message: &Value, least: i64, most: i64) {
    let left = instant_ms(text(message, "due_at")) - caller().await.redis.time_up_ms().await;
    assert!(left <= most, "{left} ms are left of {most}: {message}");
    let waited = wait_ms(message);
    assert!(waited >= least - 100, "{waited} ms of {least}: {message}");
}

/// Waits until so many messages are acknowledged, as long as it gets on.
pub async fn acked(client: &Client, topic: &str, n: i64) {
    let mut so_far = 0;
    while so_far < n {
        so_far = eventually("more acked", || async {
            Some(client.total(topic, "acked").await).filter(|now| *now > so_far)
        })
        .await;
    }
    assert_eq!(so_far, n);
}

/// Waits a while in which something must not happen.
pub async fn a_while(ms: u64) {
    tokio::time::sleep(std::time::Duration::from_millis(ms)).await;
}
