//! Nothing comes early: a thousand random delays, read on Redis's clock.

use std::collections::HashMap;
use std::time::Duration;

use deadpool_redis::redis;
use futures_util::StreamExt;
use rand::Rng;
use serde_json::json;

use crate::facts::granted_ms;
use crate::harness::*;

const MESSAGES: usize = 1000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_thousand_random_delays_none_is_early_and_none_a_second_late() {
    let (client, topic) = (client().await, topic("early"));
    let server = &shared().await.redis;
    let start = server.time_ms().await;
    let publishing = {
        let (client, topic) = (client.clone(), topic.clone());
        tokio::spawn(async move {
            futures_util::stream::iter(0..MESSAGES)
                .map(|n| {
                    let (client, topic) = (client.clone(), topic.clone());
                    let delay: i64 = rand::rng().random_range(0..3000);
                    let priority = if n % 3 == 0 { n % 256 } else { 0 };
                    async move {
                        let message =
                            json!({"payload": n, "delay_ms": delay, "priority": priority});
                        let answer = client.publish(&topic, message).await.expect(201);
                        assert!(answer.instant("due_at") >= start + delay, "{answer}");
                        (answer.text("id"), answer.instant("due_at"))
                    }
                })
                .buffer_unordered(32)
                .collect::<HashMap<_, _>>()
                .await
        })
    };
    let mut granted = HashMap::new();
    let end = std::time::Instant::now() + Duration::from_secs(20);
    let mut connection = server.connection().await;
    while granted.len() < MESSAGES && std::time::Instant::now() < end {
        // What falls due while nobody asks is not late.
        let (seconds, micros): (i64, i64) =
            redis::cmd("TIME").query_async(&mut connection).await.unwrap();
        let asked = seconds * 1000 + micros / 1000;
        let want = json!({"max_messages": 50, "wait_ms": 2000, "lease_ms": 60_000});
        for message in client.leased(&topic, want).await {
            let at = granted_ms(&message, 60_000);
            let due = instant_ms(text(&message, "due_at"));
            assert!(at >= due, "granted {} ms early: {message}", due - at);
            let late = at - due.max(asked);
            assert!(late < 1000, "granted {late} ms late: {message}");
            let twice = granted.insert(text(&message, "id").to_owned(), due);
            assert!(twice.is_none(), "granted twice: {message}");
        }
    }
    let published = publishing.await.unwrap();
    assert_eq!(granted, published, "each once, and due as its publish was told");
}
