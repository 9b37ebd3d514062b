//! What an operator can graph of the calls.

use serde_json::json;

use crate::facts::{becomes, fixed, gone, pushed_with, ready, scheduled};
use crate::harness::*;

/// The lines of /metrics about callbacks of this topic.
async fn lines(client: &Client, topic: &str) -> Vec<String> {
    let metrics = client.get_path("/metrics").await.expect(200);
    let label = format!("topic=\"{topic}\"");
    let text = String::from_utf8_lossy(&metrics.body).into_owned();
    let about = |line: &&str| line.starts_with("dueq_callback") && line.contains(&label);
    text.lines().filter(about).map(str::to_owned).collect()
}

/// The sum of the numbers of these lines.
fn sum(lines: &[String]) -> f64 {
    lines.iter().map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

#[tokio::test]
async fn calls_are_counted_by_topic_and_outcome() {
    let (client, receiver) = ready().await;
    receiver.answer_next("/", [Reply::status(500), Reply::dropped()]);
    let push = json!({"url": receiver.url("/")});
    let topic = pushed_with(&client, "metrics", push, json!({"backoff": fixed(50)})).await;
    let id = client.published(&topic, json!({"payload": 1})).await;
    gone(&client, &id).await;
    let seen = lines(&client, &topic).await;
    let is_count = |line: &String| line.contains("outcome=") && line.contains("_total{");
    let counts: Vec<String> = seen.iter().filter(|line| is_count(line)).cloned().collect();
    assert!(sum(&counts) >= 3.0, "three calls: {seen:#?}");
    let called = counts.iter().filter(|line| !line.ends_with(" 0"));
    assert!(called.count() >= 2, "of more than one outcome: {seen:#?}");
    for part in ["duration", "in_flight", "late"] {
        assert!(seen.iter().any(|line| line.contains(part)), "no {part}: {seen:#?}");
    }
}

#[tokio::test]
async fn calls_under_way_are_shown() {
    let (client, receiver) = ready().await;
    receiver.answer(Reply::never());
    let push = json!({"url": receiver.url("/"), "timeout_ms": 1500});
    let more = json!({"max_attempts": 1});
    let topic = pushed_with(&client, "metrics", push, more).await;
    let id = client.published(&topic, json!({"payload": 1})).await;
    receiver.wait_for(1).await;
    let in_flight = async |wanted: f64| {
        eventually("the gauge", || async {
            let mut seen = lines(&client, &topic).await;
            seen.retain(|line| line.contains("in_flight"));
            (sum(&seen) == wanted).then_some(())
        })
        .await;
    };
    in_flight(1.0).await;
    becomes(&client, &id, "dead", 1).await;
    in_flight(0.0).await;
    // It could have been made again, but for the attempts.
    eventually("it counts as dead", || async {
        let seen = lines(&client, &topic).await;
        let dead = |line: &String| line.contains("outcome=\"dead\"") && line.ends_with(" 1");
        seen.iter().any(dead).then_some(())
    })
    .await;
}

#[tokio::test]
async fn dueqs_own_topic_is_counted_too() {
    let (client, receiver) = ready().await;
    let id = scheduled(&client, &receiver.url("/"), json!({})).await;
    gone(&client, &id).await;
    assert!(!lines(&client, "_callbacks").await.is_empty());
}
