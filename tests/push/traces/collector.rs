//! An OTLP receiver: a [`Receiver`] whose requests are decoded.

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue, any_value::Value},
    trace::v1::Span,
};
use prost::Message;

use crate::facts::caller;
use crate::harness::*;

/// Where spans arrive.
pub struct Collector {
    pub receiver: Receiver,
}

impl Collector {
    pub async fn start() -> Collector {
        Collector { receiver: Receiver::start().await }
    }

    /// An instance on this Redis that exports to it at once.
    pub fn on(&self, redis: &Redis) -> Launch {
        Dueq::calling(redis)
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", self.receiver.url(""))
            .env("OTEL_BSP_SCHEDULE_DELAY", "10")
    }

    /// An instance that exports to it, on the Redis that ordinary tests share.
    pub async fn instance(&self) -> Dueq {
        self.on(&caller().await.redis).start().await
    }

    /// Every export so far.
    fn exports(&self) -> Vec<ExportTraceServiceRequest> {
        let calls = self.receiver.calls_at("/v1/traces");
        let decode = |call: &Call| {
            assert_eq!(call.header("content-type"), "application/x-protobuf");
            ExportTraceServiceRequest::decode(&call.body[..]).expect("an export")
        };
        calls.iter().map(decode).collect()
    }

    /// Every span so far.
    pub fn spans(&self) -> Vec<Span> {
        let resources = self.exports().into_iter().flat_map(|export| export.resource_spans);
        let scopes = resources.flat_map(|resource| resource.scope_spans);
        scopes.flat_map(|scope| scope.spans).collect()
    }

    /// Waits for `n` spans of this name, and gives them in the order of their beginnings.
    pub async fn wait_for(&self, n: usize, name: &str) -> Vec<Span> {
        let mut spans = eventually(&format!("{n} spans {name}"), || async {
            let mut spans = self.spans();
            spans.retain(|span| span.name == name);
            (spans.len() >= n).then_some(spans)
        })
        .await;
        assert_eq!(spans.len(), n, "{name}: {spans:#?}");
        spans.sort_by_key(|span| span.start_time_unix_nano);
        spans
    }

    /// Waits for the one span of this name.
    pub async fn span(&self, name: &str) -> Span {
        self.wait_for(1, name).await.remove(0)
    }

    /// What the first export says of the service and of the scope.
    pub fn origin(&self) -> (Vec<KeyValue>, String) {
        let export = self.exports().remove(0);
        let resource = &export.resource_spans[0];
        let scope = resource.scope_spans[0].scope.clone().expect("a scope");
        let attributes = resource.resource.clone().expect("a resource").attributes;
        (attributes, format!("{} {}", scope.name, scope.version))
    }
}

/// An attribute as text, empty where there is none.
pub fn value(attributes: &[KeyValue], name: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == name);
    match found.and_then(|attribute| attribute.value.clone()?.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(other) => panic!("{name} is {other:?}"),
        None => String::new(),
    }
}

/// An attribute of a span.
pub fn of(span: &Span, name: &str) -> String {
    value(&span.attributes, name)
}

/// The `traceparent` of a span.
pub fn traceparent(span: &Span) -> String {
    format!("00-{}-{}-01", hex(&span.trace_id), hex(&span.span_id))
}

/// The `traceparent` of each span that it links to.
pub fn links(span: &Span) -> Vec<String> {
    let link = |(trace, span): (&[u8], &[u8])| format!("00-{}-{}-01", hex(trace), hex(span));
    span.links.iter().map(|it| link((&it.trace_id, &it.span_id))).collect()
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
