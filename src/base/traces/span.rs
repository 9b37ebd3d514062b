//! A span that is open, and what may be said of it.

use super::names::{self, MessagingOperation};
use dueq_model::{MessageId, Millis, TopicName, TraceContext};
use opentelemetry::{
    KeyValue, Value,
    trace::{Span as _, SpanContext, SpanId, Status, TraceFlags, TraceId, TraceState},
};
use opentelemetry_sdk::trace::Span as SdkSpan;
use std::sync::{Mutex, PoisonError};

/// A span that ends when it is dropped.
#[derive(Debug)]
pub struct Span {
    span: SdkSpan,
    operation: Option<MessagingOperation>,
}

impl Span {
    /// The span, if it is recorded.
    pub(super) fn of(span: SdkSpan, operation: Option<MessagingOperation>) -> Option<Self> {
        span.is_recording().then_some(Self { span, operation })
    }

    /// Notes an attribute.
    pub fn note(&mut self, name: &'static str, value: impl Into<Value>) {
        self.span.set_attribute(KeyValue::new(name, value));
    }

    /// It is about messages of this topic.
    pub fn is_about(&mut self, topic: &TopicName) {
        if let Some(MessagingOperation { name, .. }) = self.operation {
            self.span.update_name(format!("{name} {topic}"));
        }
        self.note(names::DESTINATION, topic.to_string());
    }

    /// It is about this message.
    pub fn is_about_message(&mut self, id: &MessageId) {
        self.note(names::MESSAGE_ID, id.to_string());
    }

    /// It is about so many messages.
    pub fn counts(&mut self, messages: usize) {
        self.note(names::MESSAGE_COUNT, messages as i64);
    }

    /// The message's payload has so many bytes.
    pub fn has_size(&mut self, bytes: usize) {
        self.note(names::BODY_SIZE, bytes as i64);
    }

    /// Which attempt it is, and how long after the message was due.
    pub fn is_attempt(&mut self, attempt: u32, lateness_ms: Millis) {
        self.note(names::ATTEMPT, i64::from(attempt));
        self.note(names::LATENESS_MS, lateness_ms.max(0));
    }

    /// It has to do with this other span.
    pub fn links_to(&mut self, context: &TraceContext) {
        self.span.add_link(remote(context), Vec::new());
    }

    /// The status of the HTTP answer.
    pub fn has_status(&mut self, status: u16) {
        self.note(names::HTTP_STATUS, i64::from(status));
    }

    /// What went wrong, by a word, and whether by the fault of the side that the span is of.
    pub fn fails(&mut self, error: impl Into<String>, at_fault: bool) {
        self.note(names::ERROR_TYPE, error.into());
        if at_fault {
            self.span.set_status(Status::error(""));
        }
    }

    /// For others to belong to or link to.
    pub fn context(&self) -> TraceContext {
        let context = self.span.span_context();
        TraceContext {
            trace: context.trace_id().to_bytes(),
            span: context.span_id().to_bytes(),
            flags: context.trace_flags().to_u8(),
        }
    }
}

/// A span of another process.
pub(super) fn remote(context: &TraceContext) -> SpanContext {
    SpanContext::new(
        TraceId::from_bytes(context.trace),
        SpanId::from_bytes(context.span),
        TraceFlags::new(context.flags),
        true,
        TraceState::NONE,
    )
}

/// A request that is traced.
#[derive(Debug)]
pub struct RequestTrace {
    /// The client's span.
    client: Option<TraceContext>,
    span: Mutex<Option<Span>>,
}

impl RequestTrace {
    /// `None` where neither the client's trace nor the request's is recorded.
    pub(super) fn new(client: Option<TraceContext>, span: Option<Span>) -> Option<Self> {
        let client = client.filter(TraceContext::is_sampled);
        let is_traced = client.is_some() || span.is_some();
        is_traced.then(|| Self { client, span: Mutex::new(span) })
    }

    /// What messages of the request are published in: the client's span or, where the trace begins here, the request's own.
    pub fn context(&self) -> Option<TraceContext> {
        self.client.or_else(|| self.with(|span| span.context()))
    }

    /// Has something said of the request's span, if it has one.
    pub fn with<T>(&self, say: impl FnOnce(&mut Span) -> T) -> Option<T> {
        self.span.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(say)
    }
}
