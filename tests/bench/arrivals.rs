//! What it costs to come from elsewhere: a million messages that are dumped and loaded, and a message that is sent as to SQS
//! beside a publish.

use crate::{
    ROUNDS,
    harness::*,
    search::{count_long_calls, long_calls},
    table::*,
    wrk,
};
use serde_json::json;
use std::time::{Duration, Instant};

const MESSAGES: usize = 1_000_000;
const LIMIT: Duration = Duration::from_secs(900);

/// A million messages, dumped from one Redis and loaded into another.
pub async fn moving(table: &mut Table) {
    let [from, to] = [Redis::start().await, Redis::start().await];
    let dueq = Dueq::on(&from).start().await;
    let (client, topic) = (dueq.client(), topic("moving"));
    client.new_topic(&topic, json!({})).await;
    for thousand in 0..MESSAGES / 1000 {
        let message = |n: usize| json!({"payload": {"order": 1000 * thousand + n, "note": "x".repeat(150)}, "delay_ms": 86_400_000});
        client.fill(&topic, &(0..1000).map(message).collect::<Vec<_>>()).await;
    }
    count_long_calls(&from).await;
    count_long_calls(&to).await;
    let file = temp_dir("dump").join("queue.ndjson").display().to_string();
    let mut took = async |words: &[&str], what: &str, wanted| {
        let begun = Instant::now();
        let finished = Launch::command(words).limit(LIMIT).finish().await;
        assert_eq!(finished.code, 0, "{finished:?}");
        table.figure(
            &format!("a million messages: {what}"),
            wanted,
            "s",
            [begun.elapsed().as_secs_f64()],
        );
    };
    let (source, target) = (from.url(), to.url());
    took(&["dump", "--redis-url", &source, "-o", &file], "dumped", Wanted::AtMost(60.0)).await;
    took(&["load", &file, "--redis-url", &target], "loaded", Wanted::AtMost(120.0)).await;
    let long = long_calls(&from).await + long_calls(&to).await;
    // Each payload is compared with the dump's.
    let verify = ["load", &file, "--redis-url", &target, "--verify", "--dry-run"];
    took(&verify, "verified", Wanted::Anything).await;
    took(&["audit", "--redis-url", &target], "audited, clean", Wanted::Anything).await;
    let what = "a million messages: calls of Redis above 5 ms, waits for a core included";
    table.figure(what, Wanted::Between(0.0, 0.0), "calls", [long]);
}

/// SendMessage at `/sqs` beside a publish, both by wrk.
pub async fn sqs(table: &mut Table) {
    let dueq = Dueq::embedded(&temp_dir("data")).start().await;
    let queue = json!({"QueueName": "orders"}).to_string();
    let (kind, action) = ("content-type", "x-amz-target");
    let create = [(kind, "application/x-amz-json-1.0"), (action, "AmazonSQS.CreateQueue")];
    let body = queue.into_bytes();
    let made = dueq.client().send("POST", "/sqs", &create, Some(body)).await.expect(200).json();
    let text = "x".repeat(200);
    let send = json!({"QueueUrl": made["QueueUrl"], "MessageBody": text, "DelaySeconds": 3600});
    let publish = json!({"payload": text, "delay_ms": 3_600_000});
    let (send, publish) = (send.to_string(), publish.to_string());
    let as_send = [create[0], (action, "AmazonSQS.SendMessage")];
    let json = [(kind, "application/json")];
    let rounds = (1..=ROUNDS).map(|round| {
        eprintln!("round {round} of {ROUNDS}");
        let sent = wrk(&dueq, "/sqs", &as_send, Some(&send))?;
        Some((sent, wrk(&dueq, "/topics/native/messages", &json, Some(&publish))?))
    });
    table.compare("SendMessage / publish, both by wrk", Wanted::AtLeast(0.6), "per s", rounds);
}
