//! The trace of a request: the guard begins and ends its span, and handlers that know more say it here.

use super::Operation;
use crate::{AppState, access::Caller, problem::ProblemBody};
use axum::{
    extract::{FromRequestParts, MatchedPath, Request},
    http::{Method, StatusCode, request::Parts},
};
use dueq_base::traces::{MAX_LINKS, RequestTrace, Span, Traces};
use dueq_model::{MessageId, TopicName, TraceContext};
use dueq_store::{Granted, NewMessage};
use std::{convert::Infallible, sync::Arc};

/// The trace of a request, if it has one.
#[derive(Clone)]
pub struct Trace(Option<Arc<RequestTrace>>);

impl FromRequestParts<AppState> for Trace {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Infallible> {
        // Where traces are off, not even the extensions are looked through.
        Ok(Self(state.traces.as_ref().and_then(|_| parts.extensions.get().cloned())))
    }
}

impl Trace {
    /// Messages that name no trace of their own are published in the request's. Those that do are linked to.
    pub fn publishes<'m>(&self, messages: impl IntoIterator<Item = &'m mut NewMessage>) {
        let Some(trace) = &self.0 else { return };
        let (mut links, mut count, mut bytes) = (Vec::new(), 0, 0);
        for message in messages {
            let body = &mut message.body;
            match body.trace {
                Some(own) => links.push(own),
                None => body.trace = trace.context(),
            }
            (count, bytes) = (count + 1, bytes + body.content.payload().len());
        }
        trace.with(|span| {
            span.has_size(bytes);
            if count > 1 {
                span.counts(count);
            }
            link(span, &links);
        });
    }

    /// The request is about this message.
    pub fn is_about_message(&self, id: &MessageId) {
        self.with(|span| span.is_about_message(id));
    }

    /// The request settles so many messages.
    pub fn counts(&self, messages: usize) {
        self.with(|span| span.counts(messages));
    }

    /// The request gets these messages of the topic.
    pub fn leases(&self, topic: &TopicName, messages: &[Granted]) {
        self.with(|span| {
            span.counts(messages.len());
            if messages.is_empty() {
                return;
            }
            span.is_about(topic);
            let links: Vec<_> = messages.iter().filter_map(|message| message.body.trace).collect();
            link(span, &links);
            if let [message] = messages {
                let claims = &message.claims;
                span.is_about_message(&message.id);
                span.has_size(message.body.content.payload().len());
                span.is_attempt(claims.attempt, claims.granted_at - message.due_at);
            }
        });
    }

    fn with(&self, say: impl FnOnce(&mut Span)) {
        if let Some(trace) = &self.0 {
            trace.with(say);
        }
    }
}

/// Links to the first of the contexts that are recorded.
fn link(span: &mut Span, contexts: &[TraceContext]) {
    let recorded = contexts.iter().filter(|context| context.is_sampled());
    recorded.take(MAX_LINKS).for_each(|context| span.links_to(context));
}

/// Begins the trace of a request that may pass. Strangers could have anything recorded, so only those who were let in have
/// one.
pub(crate) fn begin(traces: &Traces, operation: Operation, request: &mut Request) -> Option<Begun> {
    request.extensions().get::<Caller>()?;
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or(operation.path, MatchedPath::as_str);
    let method = method_of(request.method());
    let trace = Arc::new(traces.request(request.headers(), operation.name, method, route)?);
    let named = request.uri().path().trim_start_matches('/');
    // The path before it is that of `--public-url`.
    let word = |at: &str| named.split('/').skip_while(|word| *word != at).nth(1);
    if let Some(topic) = route.contains("/topics/{topic}").then(|| word("topics")).flatten()
        && let Ok(topic) = TopicName::parse(topic)
    {
        trace.with(|span| span.is_about(&topic));
    }
    let id = route.contains("/messages/{id}").then(|| word("messages")).flatten();
    let id = id.and_then(|id| MessageId::parse(id).ok());
    request.extensions_mut().insert(trace.clone());
    Some(Begun { trace, id })
}

/// A trace of a request that is answered later.
pub(crate) struct Begun {
    trace: Arc<RequestTrace>,
    /// The message that the path names.
    id: Option<MessageId>,
}

impl Begun {
    /// Says how the request was answered, and ends its span once the handler has let go of it too.
    pub fn end(self, state: &AppState, status: StatusCode, problem: Option<&ProblemBody>) {
        // The topic of an id is known by now, unless there is no such message.
        let topic = self.id.and_then(|id| state.store.known_topic_of(id));
        self.trace.with(|span| {
            self.id.iter().for_each(|id| span.is_about_message(id));
            topic.iter().for_each(|topic| span.is_about(topic));
            span.has_status(status.as_u16());
            if let Some(problem) = problem {
                span.fails(problem.code.as_str(), status.is_server_error());
            }
        });
    }
}

fn method_of(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        _ => "_OTHER",
    }
}
