//! Every load has a topic whose messages are as long as they may be in every part, so that the watch over the time of
//! scripts sees all scripts with them under all faults.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::sleep;

use super::board::Board;
use crate::proof::actor::Actor;

/// The longest that a duration may be: ten years.
pub const LONGEST: i64 = 315_360_000_000;
/// Every priority that there is, above none.
pub const PRIORITIES: usize = 255;
/// Between two rounds, since the load is what matters.
const REST: Duration = Duration::from_secs(2);

/// A group or key of 255 characters of four bytes.
fn longest_name(n: usize) -> String {
    format!("{n:05}{}", "\u{1f600}".repeat(250))
}

/// What a topic of such messages is configured to.
pub fn config() -> Value {
    json!({
        "ttl_ms": LONGEST, "retention": {"acked_ms": 604_800_000}, "max_payload_bytes": 1_048_576,
    })
}

/// The same for one whose groups have a rate: their turns are planned again and again.
fn rated() -> Value {
    let mut config = config();
    config["group_concurrency"] = json!(64);
    config["group_rate_per_s"] = json!(1000);
    config
}

/// A message that is as long as it may be, its payload apart.
pub fn message(n: usize) -> Value {
    let delays: Vec<i64> = (0..100).map(|n| LONGEST - n).collect();
    let headers: Map<String, Value> =
        (0..32).map(|n| (format!("x-{n:02}"), json!("v".repeat(250)))).collect();
    json!({
        "payload": n, "group": longest_name(n), "key": longest_name(n), "priority": 1 + n % PRIORITIES,
        "ttl_ms": LONGEST - 1, "max_attempts": 2, "headers": headers,
        "backoff": {"kind": "schedule", "delays_ms": delays},
    })
}

/// One whose payload is, too.
pub fn largest(n: usize) -> Value {
    json!({"payload": "x".repeat(1_048_570), "group": longest_name(n)})
}

/// Makes a topic, and takes such messages through all states, round by round, every other one in a few groups with a rate. What
/// is refused or lost under faults is no matter here: it counts how long scripts take.
pub async fn client(mut actor: Actor, board: Arc<Board>) {
    let topic = format!("/topics/{}", actor.topic);
    let mut is_rated = false;
    while !board.over() {
        is_rated = !is_rated;
        let mut ask = async |method: &str, path: &str, body: Option<Value>| {
            let body = body.map(|body| body.to_string().into_bytes());
            actor.ask(method, path, body, None).await.ok().map(|answer| answer.body.clone())
        };
        let mut all: Vec<_> = (0..64).map(message).collect();
        if is_rated {
            let some = (0..all.len()).map(|n| longest_name(n % 4));
            all.iter_mut().zip(some).for_each(|(message, group)| message["group"] = json!(group));
        }
        ask("PUT", &topic, Some(if is_rated { rated() } else { config() })).await;
        ask("POST", &format!("{topic}/messages/batch"), Some(json!({"messages": all}))).await;
        ask("POST", &format!("{topic}/messages"), Some(largest(99))).await;
        let lease = json!({"max_messages": 1000, "max_bytes": 16_777_216});
        let leased = ask("POST", &format!("{topic}/lease"), Some(lease)).await.unwrap_or_default();
        let leased: Value = serde_json::from_slice(&leased).unwrap_or_default();
        let held = leased["messages"].as_array().into_iter().flatten();
        let held: Vec<_> =
            held.map(|it| json!({"id": it["id"], "lease_token": it["lease_token"]})).collect();
        let (dead, done) = held.split_at(held.len() / 2);
        let mut dead = dead.to_vec();
        dead.iter_mut().for_each(|nack| nack["dead"] = json!(true));
        for (verb, messages) in [("nack", &dead[..]), ("extend", done), ("ack", done)] {
            if !messages.is_empty() {
                ask("POST", &format!("/messages/{verb}"), Some(json!({"messages": messages})))
                    .await;
            }
        }
        ask("GET", &format!("{topic}/messages?state=acked&payload=true"), None).await;
        ask("POST", &format!("{topic}/redrive"), Some(json!({}))).await;
        ask("POST", &format!("{topic}/purge"), Some(json!({"states": ["ready"]}))).await;
        ask("DELETE", &format!("{topic}?force=true"), None).await;
        sleep(REST).await;
    }
}
