//! The span of a callback's attempt. The receiver gets its context, so that spans of the receiver belong to it. The URL is not among
//! its attributes, since many URLs are secrets: only the host is.

use super::{CallOutcome, request::CallRequest};
use dueq_base::traces::{Span, TRACEPARENT, Traces, names};
use dueq_model::TopicName;
use dueq_store::Granted;
use http::{HeaderName, HeaderValue};

/// The span of an attempt, which ends when it is dropped.
pub(super) struct CallSpan(Span);

impl CallSpan {
    /// Begins the span, if the attempt is traced, and adds its context to the request.
    pub fn begin(
        traces: &Traces,
        topic: &TopicName,
        granted: &Granted,
        request: &mut CallRequest,
    ) -> Option<Self> {
        let mut span = traces.call(granted.body.trace.as_ref(), topic)?;
        span.is_about_message(&granted.id);
        span.has_size(request.body.len());
        span.is_attempt(granted.claims.attempt, request.now - granted.due_at);
        span.note(names::HTTP_METHOD, request.method.as_str());
        if let Ok(url) = request.url.url() {
            span.note(names::SERVER_ADDRESS, url.host_str().unwrap_or_default().to_owned());
            span.note(names::SERVER_PORT, i64::from(url.port_or_known_default().unwrap_or(0)));
        }
        // It is ASCII, and replaces one among the publisher's headers.
        if let Ok(context) = HeaderValue::try_from(span.context().to_string()) {
            request.headers.insert(HeaderName::from_static(TRACEPARENT), context);
        }
        Some(Self(span))
    }

    /// Says what came of it; nothing where it was not sent.
    pub fn end(mut self, outcome: Option<&CallOutcome>) {
        let Self(span) = &mut self;
        let Some(CallOutcome { report, .. }) = outcome else {
            return span.fails("cancelled", true);
        };
        match report.status {
            Some(status) => {
                span.has_status(status);
                if !(200..300).contains(&status) {
                    span.fails(status.to_string(), true);
                }
            }
            None => span.fails("no_answer", true),
        }
    }
}
