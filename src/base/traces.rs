//! Traces, exported by OTLP over HTTP. Off until `OTEL_EXPORTER_OTLP_ENDPOINT` is set; then nothing here exists, and no
//! request is looked at for a `traceparent`.
//!
//! A span is begun for a request by the HTTP guard, for a callback by its dispatcher, for a tick by the loop of schedules.
//! Sampling is the client's: without a sampler of its own (`OTEL_TRACES_SAMPLER`), dueq records what belongs or links to a
//! trace that is recorded, and begins none.

mod export;
pub mod names;
mod span;

pub use export::Exporting;
pub use span::{RequestTrace, Span};

use crate::metrics::Metrics;
use clap::ValueEnum;
use dueq_model::{ScheduleName, TopicName, TraceContext};
use export::Client;
use http::HeaderMap;
use names::MessagingOperation;
use opentelemetry::{
    Context, InstrumentationScope, Key, KeyValue,
    trace::{
        Link, SpanKind, TraceContextExt as _, TraceId, TraceState, Tracer as _, TracerProvider as _,
    },
};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig as _};
use opentelemetry_sdk::{
    Resource,
    trace::{
        Config, Sampler, SamplingDecision, SamplingResult, SdkTracer, SdkTracerProvider,
        ShouldSample, SpanExporter as _,
    },
};
use span::remote;
use std::{env, sync::Arc};

/// The header that carries a trace.
pub const TRACEPARENT: &str = "traceparent";
/// Links of one span.
pub const MAX_LINKS: usize = 32;

/// How the trace of a callback is related to that of its publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CallTrace {
    /// A trace of its own, with a link.
    Link,
    /// The same trace.
    Parent,
}

/// The exporter cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("traces cannot be exported: {0}")]
pub struct TracesError(String);

/// Begins spans.
#[derive(Clone, Debug)]
pub struct Traces {
    tracer: SdkTracer,
    calls: CallTrace,
    /// A sampler may begin traces here.
    begins: bool,
}

impl Traces {
    /// Traces as the variables of OpenTelemetry say, and the task that exports them; `None` where they are off. Within a Tokio
    /// runtime.
    ///
    /// Errors: the variables are wrong, or TLS cannot be set up.
    pub fn start(
        calls: CallTrace,
        metrics: &Arc<Metrics>,
    ) -> Result<Option<(Self, Exporting)>, TracesError> {
        let said = |name: &str| env::var(name).ok().filter(|value| !value.trim().is_empty());
        let is = |name: &str, word: &str| {
            said(name).is_some_and(|value| value.trim().eq_ignore_ascii_case(word))
        };
        let has_endpoint = said(opentelemetry_otlp::OTEL_EXPORTER_OTLP_ENDPOINT)
            .or(said(opentelemetry_otlp::OTEL_EXPORTER_OTLP_TRACES_ENDPOINT))
            .is_some();
        let is_off = is("OTEL_SDK_DISABLED", "true")
            || is("OTEL_TRACES_EXPORTER", "none")
            || is("OTEL_TRACES_SAMPLER", "always_off");
        if !has_endpoint || is_off {
            return Ok(None);
        }
        let client = Client::new().map_err(|error| TracesError(error.to_string()))?;
        let exporter = SpanExporter::builder().with_http().with_http_client(client).build();
        let mut exporter = exporter.map_err(|error| TracesError(error.to_string()))?;
        let resource = resource();
        exporter.set_resource(&resource);
        let (queue, exporting) = Exporting::start(exporter, metrics);
        let begins = said("OTEL_TRACES_SAMPLER").is_some();
        let sampler: Box<dyn ShouldSample> = match begins {
            true => Config::default().sampler,
            false => Box::new(Sampler::ParentBased(Box::new(Sampler::AlwaysOff))),
        };
        let provider = SdkTracerProvider::builder()
            .with_resource(resource)
            .with_sampler(Linked(sampler))
            .with_max_links_per_span(MAX_LINKS as u32)
            .with_span_processor(queue)
            .build();
        let scope = InstrumentationScope::builder("dueq")
            .with_version(env!("CARGO_PKG_VERSION"))
            .with_schema_url(names::SCHEMA_URL)
            .build();
        let tracer = provider.tracer_with_scope(scope);
        Ok(Some((Self { tracer, calls, begins }, exporting)))
    }

    /// Begins the span of a request, if it is traced. `operation` is its operationId.
    pub fn request(
        &self,
        headers: &HeaderMap,
        operation: &str,
        method: &'static str,
        route: &str,
    ) -> Option<RequestTrace> {
        let client = client_of(headers);
        if client.is_none() && !self.begins {
            return None;
        }
        let operation = names::messaging(operation);
        let name = match operation {
            Some(MessagingOperation { name, .. }) => name.to_owned(),
            None => format!("{method} {route}"),
        };
        let mut attributes = attributes_of(operation);
        attributes.push(KeyValue::new(names::HTTP_METHOD, method));
        attributes.push(KeyValue::new(names::HTTP_ROUTE, route.to_owned()));
        let builder = self.tracer.span_builder(name).with_kind(SpanKind::Server);
        let builder = builder.with_attributes(attributes);
        let span = self.tracer.build_with_context(builder, &parent(client.as_ref()));
        RequestTrace::new(client, Span::of(span, operation))
    }

    /// Begins the span of a callback's attempt, if it is traced. `publish` is what the message was published in.
    pub fn call(&self, publish: Option<&TraceContext>, topic: &TopicName) -> Option<Span> {
        if publish.is_none() && !self.begins {
            return None;
        }
        let (parent_of, links) = match self.calls {
            CallTrace::Parent => (publish, Vec::new()),
            CallTrace::Link => {
                (None, publish.map(|it| Link::with_context(remote(it))).into_iter().collect())
            }
        };
        let name = format!("{} {topic}", names::CALL.name);
        let builder = self.tracer.span_builder(name).with_kind(SpanKind::Client).with_links(links);
        let builder = builder.with_attributes(attributes_of(Some(names::CALL)));
        let span = self.tracer.build_with_context(builder, &parent(parent_of));
        let mut span = Span::of(span, Some(names::CALL))?;
        span.note(names::DESTINATION, topic.to_string());
        Some(span)
    }

    /// Begins the trace of a schedule's tick, if a sampler wants it.
    pub fn tick(&self, schedule: &ScheduleName, topic: &TopicName) -> Option<Span> {
        if !self.begins {
            return None;
        }
        let builder = self.tracer.span_builder(names::PUBLISH.name).with_kind(SpanKind::Producer);
        let builder = builder.with_attributes(attributes_of(Some(names::PUBLISH)));
        let span = self.tracer.build_with_context(builder, &Context::new());
        let mut span = Span::of(span, Some(names::PUBLISH))?;
        span.is_about(topic);
        span.note(names::SCHEDULE, schedule.to_string());
        Some(span)
    }
}

fn attributes_of(operation: Option<MessagingOperation>) -> Vec<KeyValue> {
    let mut attributes = Vec::with_capacity(12);
    if let Some(MessagingOperation { name, kind }) = operation {
        attributes.push(KeyValue::new(names::SYSTEM, "dueq"));
        attributes.push(KeyValue::new(names::OPERATION_NAME, name));
        attributes.push(KeyValue::new(names::OPERATION_TYPE, kind));
    }
    attributes
}

/// What a new span belongs to.
fn parent(context: Option<&TraceContext>) -> Context {
    let none = Context::new();
    context.map_or_else(|| none.clone(), |context| none.with_remote_span_context(remote(context)))
}

/// The client's span. Several headers, or one that is malformed, say nothing, as the standard wants it.
fn client_of(headers: &HeaderMap) -> Option<TraceContext> {
    let mut values = headers.get_all(TRACEPARENT).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then(|| TraceContext::parse(value)).flatten()
}

/// What the spans are of: `dueq`, unless a variable names it.
fn resource() -> Resource {
    let builder = || {
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        Resource::builder().with_attribute(version)
    };
    let found = builder().build();
    let name = found.get(&Key::from_static_str("service.name"));
    match name.is_none_or(|name| name.as_str().starts_with("unknown_service")) {
        true => builder().with_service_name("dueq").build(),
        false => found,
    }
}

/// A sampler that also records a trace that begins with a link to one that is recorded: a callback's.
#[derive(Clone, Debug)]
struct Linked(Box<dyn ShouldSample>);

impl ShouldSample for Linked {
    fn should_sample(
        &self,
        parent: Option<&Context>,
        trace_id: TraceId,
        name: &str,
        kind: &SpanKind,
        attributes: &[KeyValue],
        links: &[Link],
    ) -> SamplingResult {
        if links.iter().any(|link| link.span_context.is_sampled()) {
            return SamplingResult {
                decision: SamplingDecision::RecordAndSample,
                attributes: Vec::new(),
                trace_state: TraceState::default(),
            };
        }
        self.0.should_sample(parent, trace_id, name, kind, attributes, links)
    }
}
