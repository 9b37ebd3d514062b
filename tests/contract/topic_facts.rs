//! What the tests of whole topics ask again and again: numbers of getTopic, waited for or demanded at
//! once, and conservation at every look.

use std::time::Duration;

use serde_json::Value;

use crate::facts::topic_in_balance;
use crate::harness::{Client, eventually, instant_ms, number, shared, text};

/// Waits until a topic's `counts` and `totals` have these numbers, and demands at every look that
/// they are conserved: what getTopic shows then. `want` is such as `{"counts": {"dead": 1}}`.
pub async fn topic_becomes(client: &Client, topic: &str, want: Value) -> Value {
    eventually(&format!("{topic} has {want}"), || async {
        let seen = topic_in_balance(client, topic).await;
        let has = |of: &str| {
            let want = want[of].as_object();
            want.into_iter().flatten().all(|(name, number)| &seen[of][name] == number)
        };
        (has("counts") && has("totals")).then_some(seen)
    })
    .await
}

/// The same for what must already be so.
pub async fn topic_has(client: &Client, topic: &str, want: Value) -> Value {
    let seen = topic_in_balance(client, topic).await;
    for of in ["counts", "totals"] {
        for (name, number) in want[of].as_object().into_iter().flatten() {
            assert_eq!(&seen[of][name], number, "{of}.{name}: {seen}");
        }
    }
    seen
}

/// Sleeps until this lease has ended on Redis's clock; nobody looks at the topic meanwhile.
pub async fn lease_over(message: &Value) {
    let end = instant_ms(text(message, "lease_expires_at"));
    let left = end + 20 - shared().await.redis.time_ms().await;
    tokio::time::sleep(Duration::from_millis(left.max(0) as u64)).await;
}

/// Fails the only attempt of each of so many new messages: their ids, oldest dead first.
pub async fn dead_messages(client: &Client, topic: &str, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(crate::facts::dead_message(client, topic).await);
        tokio::time::sleep(Duration::from_millis(2)).await; // each dies at an instant of its own
    }
    ids
}

/// So many messages that are alike.
pub fn alike(count: usize, message: Value) -> Vec<Value> {
    vec![message; count]
}

/// A number of getTopic's `counts`, those of live messages together.
pub async fn live(client: &Client, topic: &str) -> i64 {
    let seen = topic_in_balance(client, topic).await;
    ["delayed", "ready", "leased"].iter().map(|state| number(&seen["counts"], state)).sum()
}

/// Publishes through whichever instance comes next, all at once: how many were taken. The others
/// must have found the topic full.
pub async fn rush(clients: &[Client], topic: &str, count: usize, message: &Value) -> usize {
    let sends = (0..count).map(|n| clients[n % clients.len()].publish(topic, message.clone()));
    let mut taken = 0;
    for answer in futures_util::future::join_all(sends).await {
        match answer.status {
            201 => taken += 1,
            _ => drop(full(answer)),
        }
    }
    taken
}

/// Demands 429 with the seconds after which it may be tried again.
#[track_caller]
pub fn full(answer: crate::harness::Answer) -> crate::harness::Answer {
    let answer = answer.problem(429, "topic_full");
    let seconds: Option<u64> = answer.header("retry-after").parse().ok();
    assert!(seconds.is_some(), "Retry-After: {answer}");
    answer
}
