//! The exporter: what it does where spans are not taken, and when dueq stops.

use std::time::{Duration, Instant};

use serde_json::json;

use super::collector::Collector;
use super::{client_span, post_in, publish_in};
use crate::facts::caller;
use crate::harness::*;

/// A counter of /metrics.
async fn counter(client: &Client, name: &str) -> u64 {
    let metrics = client.get_path("/metrics").await.expect(200);
    let text = String::from_utf8_lossy(&metrics.body).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
}

/// Publishes traced messages, all of which must be taken without waiting for whoever takes the spans.
async fn publish_many(client: &Client, messages: u64) {
    let topic = topic("exported");
    let began = Instant::now();
    for n in 1..=messages {
        publish_in(client, &client_span(n), &topic, json!({"payload": n})).await;
    }
    // One that waited for the exporter would wait for ten seconds.
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
}

#[tokio::test]
async fn spans_that_are_refused_are_dropped_and_counted() {
    for reply in [Reply::status(500), Reply::dropped()] {
        let collector = Collector::start().await;
        collector.receiver.answer(reply);
        let dueq = collector.instance().await;
        let client = dueq.client();
        publish_many(&client, 20).await;
        eventually("20 dropped spans", || async {
            (counter(&client, "dueq_trace_spans_dropped_total").await == 20).then_some(())
        })
        .await;
        let line = "could not be exported";
        assert_eq!(dueq.log().matches(line).count(), 1, "it is said once: {}", dueq.log());
        // When spans are taken again, they arrive.
        collector.receiver.answer(Reply::status(200));
        publish_many(&client, 1).await;
        eventually("an exported span", || async {
            (counter(&client, "dueq_trace_spans_exported_total").await == 1).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_queue_that_is_full_drops_and_a_stop_does_not_wait_for_it() {
    let collector = Collector::start().await;
    collector.receiver.answer(Reply::never());
    let dueq = collector.on(&caller().await.redis).args(["--drain-timeout-ms", "1000"]);
    let dueq = dueq.env("OTEL_BSP_MAX_QUEUE_SIZE", "8").env("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4");
    let mut dueq = dueq.start().await;
    let client = dueq.client();
    publish_many(&client, 40).await;
    // Four are on their way, eight wait.
    assert!(counter(&client, "dueq_trace_spans_dropped_total").await >= 28);
    let began = Instant::now();
    assert_eq!(dueq.term().await, 0, "{}", dueq.log());
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[tokio::test]
async fn spans_that_wait_are_sent_before_it_ends() {
    let collector = Collector::start().await;
    let dueq = collector.on(&caller().await.redis).env("OTEL_BSP_SCHEDULE_DELAY", "600000");
    let mut dueq = dueq.start().await;
    publish_many(&dueq.client(), 3).await;
    assert_eq!(dueq.term().await, 0, "{}", dueq.log());
    assert_eq!(collector.spans().len(), 3);
}

#[tokio::test]
async fn whoever_is_not_let_in_has_nothing_recorded() {
    let collector = Collector::start().await;
    let dueq = collector.on(&caller().await.redis).args(["--api-key", "sesame"]).start().await;
    let path = "/topics/strangers/messages";
    post_in(&dueq.client(), &client_span(1), path, json!({"payload": 1})).await.expect(401);
    let topic = topic("known");
    let client = dueq.client().with_key("sesame");
    publish_in(&client, &client_span(2), &topic, json!({"payload": 1})).await;
    collector.span(&format!("publish {topic}")).await;
    assert_eq!(collector.spans().len(), 1);
}

#[tokio::test]
async fn an_endpoint_that_is_no_url_is_refused_at_start() {
    let launch = Dueq::on(&caller().await.redis).env("OTEL_EXPORTER_OTLP_ENDPOINT", "not a url");
    let finished = launch.finish().await;
    assert_eq!(finished.code, 2, "{finished:?}");
    assert!(finished.stderr.contains("traces cannot be exported"), "{finished:?}");
}
