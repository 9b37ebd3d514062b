//! Traces, as an OTLP receiver sees them.

mod calls;
mod collector;
mod exporter;

use opentelemetry_proto::tonic::trace::v1::{Span, span::SpanKind};
use serde_json::{Value, json};

use crate::facts::{caller, fixed};
use crate::harness::*;
use collector::{Collector, hex, links, of, traceparent, value};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// The `traceparent` of a client's span that is recorded.
fn client_span(n: u64) -> String {
    format!("00-{TRACE}-{n:016x}-01")
}

/// A POST within this trace.
async fn post_in(client: &Client, trace: &str, path: &str, body: Value) -> Answer {
    let headers = [("content-type", "application/json"), ("traceparent", trace)];
    client.send("POST", path, &headers, Some(body.to_string().into_bytes())).await
}

/// Publishes a message within this trace: its id.
async fn publish_in(client: &Client, trace: &str, topic: &str, body: Value) -> String {
    let path = format!("/topics/{topic}/messages");
    post_in(client, trace, &path, body).await.expect(201).text("id")
}

#[tokio::test]
async fn a_message_is_followed_from_publish_to_ack() {
    let collector = Collector::start().await;
    let dueq = collector.instance().await;
    let (client, topic) = (dueq.client(), topic("traced"));
    let id = publish_in(&client, &client_span(1), &topic, json!({"payload": [1]})).await;
    assert_eq!(client.get(&id).await.expect(200).text("traceparent"), client_span(1));
    let lease = format!("/topics/{topic}/lease");
    let leased = post_in(&client, &client_span(2), &lease, json!({})).await.expect(200);
    let message = leased.json()["messages"][0].clone();
    assert_eq!(text(&message, "traceparent"), client_span(1));
    let ack = json!({"lease_token": text(&message, "lease_token")});
    let path = format!("/messages/{id}/ack");
    post_in(&client, &client_span(3), &path, ack.clone()).await.expect(204);
    post_in(&client, &client_span(4), &path, ack).await.expect(404);

    let publish = collector.span(&format!("publish {topic}")).await;
    let lease = collector.span(&format!("lease {topic}")).await;
    let acks = collector.wait_for(2, &format!("ack {topic}")).await;
    for (n, span, name, kind) in [
        (1, &publish, "publish", "send"),
        (2, &lease, "lease", "receive"),
        (3, &acks[0], "ack", "settle"),
        (4, &acks[1], "ack", "settle"),
    ] {
        assert_eq!(span.kind, SpanKind::Server as i32);
        assert_eq!(hex(&span.trace_id), TRACE);
        assert_eq!(hex(&span.parent_span_id), format!("{n:016x}"));
        assert_eq!(of(span, "messaging.system"), "dueq");
        assert_eq!(of(span, "messaging.operation.name"), name);
        assert_eq!(of(span, "messaging.operation.type"), kind);
        assert_eq!(of(span, "messaging.destination.name"), topic);
        assert_eq!(of(span, "messaging.message.id"), id);
        assert_eq!(of(span, "http.request.method"), "POST");
    }
    assert_eq!(links(&lease), [client_span(1)]);
    assert_eq!(of(&lease, "messaging.batch.message_count"), "1");
    assert_eq!(of(&lease, "dueq.attempt"), "1");
    assert!(of(&lease, "dueq.lateness_ms").parse::<i64>().unwrap() >= 0);
    assert_eq!(of(&publish, "messaging.message.body.size"), "3");
    assert_eq!(of(&publish, "http.response.status_code"), "201");
    assert_eq!(of(&acks[0], "http.route"), "/messages/{id}/ack");
    assert_eq!(of(&acks[1], "error.type"), "message_not_found");
    let (service, scope) = collector.origin();
    assert_eq!(value(&service, "service.name"), "dueq");
    assert_eq!(scope, format!("dueq {}", env!("CARGO_PKG_VERSION")));
}

#[tokio::test]
async fn messages_of_a_batch_have_traces_of_their_own() {
    let collector = Collector::start().await;
    let dueq = collector.instance().await;
    let (client, topic) = (dueq.client(), topic("traced"));
    let mut messages: Vec<_> =
        (0..40).map(|n| json!({"payload": n, "traceparent": client_span(100 + n)})).collect();
    messages.push(json!({"payload": "the request's"}));
    messages.push(json!({"payload": "none", "traceparent": format!("00-{TRACE}-{:016x}-00", 9)}));
    let batch = format!("/topics/{topic}/messages/batch");
    post_in(&client, &client_span(1), &batch, json!({"messages": messages})).await.expect(200);
    let want = json!({"max_messages": 100});
    let lease = format!("/topics/{topic}/lease");
    let leased = post_in(&client, &client_span(2), &lease, want).await.expect(200);
    let leased = leased.json()["messages"].as_array().unwrap().clone();
    let traces: Vec<_> = leased.iter().map(|message| message["traceparent"].as_str()).collect();
    let own: Vec<_> = (0..40).map(|n| client_span(100 + n)).collect();
    let mut all: Vec<_> = own.iter().map(|trace| Some(trace.as_str())).collect();
    let request = client_span(1);
    all.extend([Some(request.as_str()), None]);
    assert_eq!(traces, all);
    for name in ["publish", "lease"] {
        let span = collector.span(&format!("{name} {topic}")).await;
        assert_eq!(of(&span, "messaging.batch.message_count"), "42");
        assert_eq!(links(&span), own[..32]);
    }
}

#[tokio::test]
async fn what_is_not_recorded_leaves_nothing() {
    let collector = Collector::start().await;
    let dueq = collector.instance().await;
    let (client, topic) = (dueq.client(), topic("untraced"));
    let unsampled = format!("00-{TRACE}-{:016x}-00", 1);
    for trace in [unsampled.as_str(), "nonsense", &client_span(1).to_uppercase(), ""] {
        let id = publish_in(&client, trace, &topic, json!({"payload": 1})).await;
        assert!(client.get(&id).await.expect(200).json().get("traceparent").is_none(), "{trace}");
    }
    let twice = [client_span(1), client_span(2)];
    let headers = twice.each_ref().map(|trace| ("traceparent", trace.as_str()));
    let headers = [&headers[..], &[("content-type", "application/json")]].concat();
    let path = format!("/topics/{topic}/messages");
    let id = client.send("POST", &path, &headers, Some(b"{\"payload\":1}".to_vec())).await;
    let id = id.expect(201).text("id");
    assert!(client.get(&id).await.expect(200).json().get("traceparent").is_none());
    let id = client.published(&topic, json!({"payload": 1})).await;
    assert!(client.get(&id).await.expect(200).json().get("traceparent").is_none());
    // The last is recorded, so whatever else were to come would have come by then.
    publish_in(&client, &client_span(3), &topic, json!({"payload": 1})).await;
    collector.span(&format!("publish {topic}")).await;
}

#[tokio::test]
async fn without_an_endpoint_the_header_is_passed_over() {
    let (client, topic) = (caller().await.dueq.client(), topic("off"));
    let id = publish_in(&client, &client_span(1), &topic, json!({"payload": 1})).await;
    assert!(client.get(&id).await.expect(200).json().get("traceparent").is_none());
    // What a message says for itself is kept.
    let message = json!({"payload": 1, "traceparent": client_span(2)});
    let id = client.published(&topic, message).await;
    assert_eq!(client.get(&id).await.expect(200).text("traceparent"), client_span(2));
}

#[tokio::test]
async fn a_new_content_has_a_new_trace_and_a_change_keeps_it() {
    let collector = Collector::start().await;
    let dueq = collector.instance().await;
    let (client, topic) = (dueq.client(), topic("replaced"));
    let body = json!({"payload": 1, "key": "k", "on_duplicate": "replace", "delay_ms": 60_000});
    let id = publish_in(&client, &client_span(1), &topic, body.clone()).await;
    let path = format!("/topics/{topic}/messages");
    post_in(&client, &client_span(2), &path, body.clone()).await.expect(200);
    assert_eq!(client.get(&id).await.expect(200).text("traceparent"), client_span(2));
    let change = json!({"payload": 2, "headers": {"x": "y"}});
    client.send_json("PATCH", &format!("/messages/{id}"), &change).await.expect(200);
    assert_eq!(client.get(&id).await.expect(200).text("traceparent"), client_span(2));
    client.publish(&topic, body).await.expect(200);
    assert!(client.get(&id).await.expect(200).json().get("traceparent").is_none());
}

#[tokio::test]
async fn a_repeat_in_another_trace_is_the_same_request() {
    let collector = Collector::start().await;
    let dueq = collector.instance().await;
    let (client, topic) = (dueq.client(), topic("repeated"));
    let path = format!("/topics/{topic}/messages");
    let body = |n| json!({"payload": 1, "idempotency_key": "a", "traceparent": client_span(n)});
    let id = publish_in(&client, &client_span(1), &topic, body(1)).await;
    let again = post_in(&client, &client_span(2), &path, body(2)).await.expect(200);
    assert_eq!(again.text("id"), id);
}

#[tokio::test]
async fn what_tells_of_a_death_is_in_the_messages_trace() {
    let collector = Collector::start().await;
    let dueq = collector.instance().await;
    let client = dueq.client();
    let (topic, dead) = (topic("dying"), topic("dead"));
    client.configure(&topic, json!({"dead_topic": dead, "backoff": fixed(1)})).await;
    publish_in(&client, &client_span(1), &topic, json!({"payload": 1})).await;
    let message = client.lease_one(&topic).await;
    client.nack_leased(&message, json!({"dead": true})).await.expect(200);
    let copy = client.lease_one(&dead).await;
    assert_eq!(text(&copy, "traceparent"), client_span(1));
    assert_eq!(text(&copy["payload"]["message"], "traceparent"), client_span(1));
}

#[tokio::test]
async fn a_sampler_begins_traces_also_for_ticks() {
    let collector = Collector::start().await;
    let redis = Redis::start().await;
    let dueq = collector.on(&redis).env("OTEL_TRACES_SAMPLER", "parentbased_always_on");
    let dueq = dueq.start().await;
    let client = dueq.client();
    let id = client.published("begun", json!({"payload": 1})).await;
    let span = collector.span("publish begun").await;
    assert!(span.parent_span_id.is_empty());
    assert_eq!(client.get(&id).await.expect(200).text("traceparent"), traceparent(&span));
    let schedule = json!({"every_ms": 1000, "topic": "ticks", "message": {"payload": 1}});
    client.send_json("PUT", "/schedules/often", &schedule).await.expect(201);
    let message = client.lease_one("ticks").await;
    let tick = eventually("the span of the tick", || async {
        let its_own = |span: &Span| traceparent(span) == text(&message, "traceparent");
        collector.spans().into_iter().find(its_own)
    })
    .await;
    assert_eq!((tick.name.as_str(), tick.kind), ("publish ticks", SpanKind::Producer as i32));
    assert_eq!(of(&tick, "dueq.schedule"), "often");
    // What is no operation on messages is named by its route.
    collector.span("PUT /schedules/{name}").await;
}
