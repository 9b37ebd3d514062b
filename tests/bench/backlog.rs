//! What a large topic costs: a million delayed messages that are only there, and many that fall due at one instant.

use crate::{CONNECTIONS, ROUNDS, SECONDS, embedded, harness::*, rate, table::*};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Rates with a million delayed messages present, of those without.
pub async fn million(table: &mut Table) {
    const MESSAGES: usize = 1_000_000;
    let (dueq, server) = embedded().await;
    let words = format!("--only publish,loop --connections {CONNECTIONS} {server}");
    let mut before = Vec::new();
    for _ in 0..ROUNDS {
        before.push(dueq_bench(SECONDS, &words, &[]).await);
    }
    let client = dueq.client();
    let topic = topic("million");
    let messages: Vec<_> = (0..10_000)
        .map(|n| json!({"payload": "x".repeat(198), "delay_ms": 3_600_000 + n * 1_000}))
        .collect();
    for _ in 0..MESSAGES / messages.len() {
        client.fill(&topic, &messages).await;
    }
    let mut pairs = Vec::new();
    for before in before {
        pairs.push((dueq_bench(SECONDS, &words, &[]).await, before));
    }
    for (what, operation) in [("publish", "publish"), ("lease+ack", "loop: lease 1,")] {
        let rounds = pairs
            .iter()
            .map(|(after, before)| Some((rate(after, operation), rate(before, operation))));
        table.compare(
            &format!("{what}: with a million delayed / without"),
            Wanted::AtLeast(0.85),
            "per s",
            rounds,
        );
    }
}

/// Messages that fall due at one instant, drained by four consumers, and what that means for somebody else.
pub async fn burst(table: &mut Table) {
    const MESSAGES: usize = 200_000;
    let (dueq, server) = embedded().await;
    let words = format!("--only publish --connections 1 {server}");
    let alone = dueq_bench(SECONDS, &words, &[]).await.get("publish", 1, "p99_ms");
    let client = dueq.client();
    let topic = topic("burst");
    client.post(&format!("/topics/{topic}/pause"), &json!({})).await;
    let messages = vec![json!({"payload": "x".repeat(198)}); 10_000];
    for _ in 0..MESSAGES / messages.len() {
        client.fill(&topic, &messages).await;
    }
    client.post(&format!("/topics/{topic}/resume"), &json!({})).await;
    let begun = Instant::now();
    let consumers = (0..4).map(|_| tokio::spawn(drain(dueq.client(), topic.clone())));
    let consumers: Vec<_> = consumers.collect();
    let beside = dueq_bench(SECONDS, &words, &[]).await.get("publish", 1, "p99_ms");
    let mut drained = Duration::ZERO;
    for consumer in consumers {
        drained = drained.max(consumer.await.expect("a consumer") - begun);
    }
    let rate = MESSAGES as f64 / drained.as_secs_f64();
    table.figure(
        "a burst of 200,000, drained by four consumers",
        Wanted::Anything,
        "per s",
        [rate],
    );
    let rounds = [Some((beside, alone))].into_iter();
    table.compare("publish p99 of others: beside a burst / alone", Wanted::Anything, "ms", rounds);
}

/// Leases and acks by 100 until nothing is left; when the last message came.
async fn drain(client: Client, topic: String) -> Instant {
    let (mut acks, mut last) = (json!([]), Instant::now());
    loop {
        let want = json!({"max_messages": 100, "lease_ms": 60_000, "acks": acks});
        let leased = client.leased(&topic, want).await;
        if leased.is_empty() {
            return last;
        }
        last = Instant::now();
        let ack =
            |message: &Value| json!({"id": message["id"], "lease_token": message["lease_token"]});
        acks = leased.iter().map(ack).collect();
    }
}
