//! Callbacks: what is told of each attempt, and to the receiver.

use opentelemetry_proto::tonic::trace::v1::{span::SpanKind, status::StatusCode};
use serde_json::json;

use super::collector::{Collector, hex, links, of, traceparent};
use super::{TRACE, client_span, publish_in};
use crate::facts::{fixed, gone, pushed_with};
use crate::harness::*;

#[tokio::test]
async fn each_attempt_is_a_trace_with_a_link_to_the_publish() {
    let (collector, receiver) = (Collector::start().await, Receiver::start().await);
    let redis = Redis::start().await;
    let dueq = collector.on(&redis).start().await;
    let client = dueq.client();
    receiver.answer_next("/", [Reply::status(500), Reply::dropped()]);
    let more = json!({"backoff": fixed(20)});
    let topic = pushed_with(&client, "called", json!({"url": receiver.url("/")}), more).await;
    let message = json!({"payload": [1], "headers": {"traceparent": "the publisher's"}});
    let id = publish_in(&client, &client_span(1), &topic, message).await;
    gone(&client, &id).await;
    let spans = collector.wait_for(3, &format!("call {topic}")).await;
    let calls = receiver.calls();
    for (n, (span, call)) in spans.iter().zip(&calls).enumerate() {
        assert_eq!(span.kind, SpanKind::Client as i32);
        assert_ne!(hex(&span.trace_id), TRACE);
        assert!(span.parent_span_id.is_empty());
        assert_eq!(links(span), [client_span(1)]);
        assert_eq!(call.header("traceparent"), traceparent(span));
        assert_eq!(call.count("traceparent"), 1);
        assert_eq!(of(span, "messaging.operation.name"), "call");
        assert_eq!(of(span, "messaging.operation.type"), "process");
        assert_eq!(of(span, "messaging.message.id"), id);
        assert_eq!(of(span, "dueq.attempt"), (n + 1).to_string());
        assert_eq!(of(span, "http.request.method"), "POST");
        assert_eq!(of(span, "server.address"), receiver.addr().ip().to_string());
        assert_eq!(of(span, "server.port"), receiver.addr().port().to_string());
    }
    let status = |n: usize| of(&spans[n], "http.response.status_code");
    assert_eq!([status(0), status(1), status(2)], ["500", "", "200"]);
    let error = |n: usize| of(&spans[n], "error.type");
    assert_eq!([error(0), error(1), error(2)], ["500", "no_answer", ""]);
    let failed =
        |n: usize| spans[n].status.as_ref().is_some_and(|it| it.code == StatusCode::Error as i32);
    assert_eq!([failed(0), failed(1), failed(2)], [true, true, false]);
    assert_ne!(spans[0].trace_id, spans[1].trace_id);
}

#[tokio::test]
async fn an_attempt_can_belong_to_the_trace_of_the_publish() {
    let (collector, receiver) = (Collector::start().await, Receiver::start().await);
    let redis = Redis::start().await;
    let dueq = collector.on(&redis).args(["--trace-context", "parent"]).start().await;
    let client = dueq.client();
    let path = "/callbacks";
    let body = json!({"url": receiver.url("/"), "payload": 1});
    super::post_in(&client, &client_span(1), path, body.clone()).await.expect(201);
    let call = receiver.wait_for(1).await.remove(0);
    let span = collector.span("call _callbacks").await;
    assert_eq!(hex(&span.trace_id), TRACE);
    assert_eq!(hex(&span.parent_span_id), format!("{:016x}", 1));
    assert!(span.links.is_empty());
    assert_eq!(call.header("traceparent"), traceparent(&span));
    // A callback that nobody traces has no span, and its receiver is told of none.
    client.post(path, &body).await.expect(201);
    let call = receiver.wait_for(2).await.remove(1);
    assert!(!call.has("traceparent"));
}
