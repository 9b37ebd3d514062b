//! The way of a request to its handler. Operations that come by the thousand are found by method and path before the router,
//! whose search and boxed layers cost them as much as their own work.

use crate::{
    AppState, callbacks,
    guard::{self, Operation},
    leases, messages, service,
    sqs::{self, query},
};
use axum::{
    Router,
    body::Body,
    extract::Request,
    handler::Handler,
    http::{HeaderMap, Method, Response, StatusCode},
    response::IntoResponse,
};
use futures_util::{
    FutureExt,
    future::{BoxFuture, Either},
};
use std::{convert::Infallible, panic::AssertUnwindSafe, sync::Arc};
use tower::ServiceExt;

/// Calls a handler.
type Run = fn(Request, AppState) -> BoxFuture<'static, Response<Body>>;

/// Operations by their ids. Where they are and what they need is what the document says of them.
const HOT: [(&str, Run); 13] = [
    ("publishMessage", |request, state| messages::publish::publish_message.call(request, state)),
    ("publishRaw", |request, state| messages::publish::publish_raw.call(request, state)),
    ("publishBatch", |request, state| messages::publish::publish_batch.call(request, state)),
    ("scheduleCallback", |request, state| callbacks::schedule_callback.call(request, state)),
    ("leaseMessages", |request, state| leases::lease::lease_messages.call(request, state)),
    ("leaseFromTopics", |request, state| leases::lease::lease_from_topics.call(request, state)),
    ("ackMessage", |request, state| leases::hold::ack_message.call(request, state)),
    ("nackMessage", |request, state| leases::hold::nack_message.call(request, state)),
    ("extendLease", |request, state| leases::hold::extend_lease.call(request, state)),
    ("ackBatch", |request, state| leases::hold::ack_batch.call(request, state)),
    ("nackBatch", |request, state| leases::hold::nack_batch.call(request, state)),
    ("extendBatch", |request, state| leases::hold::extend_batch.call(request, state)),
    ("getHealth", |request, state| service::get_health.call(request, state)),
];

/// All routes, and the limits and checks around them. Cheap to clone.
#[derive(Clone)]
pub struct Api {
    state: AppState,
    hot: Arc<[Hot]>,
    router: Router,
}

/// An operation that is found without the router.
#[derive(Clone)]
pub(crate) struct Hot {
    method: Method,
    operation: Operation,
    /// How its paths end: most of the others end otherwise, which is soon seen.
    end: &'static str,
    run: Run,
}

impl Hot {
    /// Those of SQS's requests, at this route.
    fn of_sqs(path: &'static str, headers: &HeaderMap) -> Self {
        let operation = Operation { path, ..sqs::operation(headers) };
        let run: Run = |request, state| sqs::serve.call(request, state);
        Self { method: Method::POST, operation, end: "", run }
    }
}

impl Api {
    /// The API of these routes, each with the guard around it.
    pub(crate) fn new(state: AppState, router: Router) -> Self {
        let find = |(name, run)| {
            let mut all = state.operations.values().flatten();
            let (method, operation) = all.find(|(_, operation)| operation.name == name)?;
            let end = operation.path.rsplit('}').next().unwrap_or_default();
            Some(Hot { method: method.clone(), operation: *operation, end, run })
        };
        let hot = HOT.into_iter().filter_map(find).collect();
        Self { state, hot, router }
    }

    /// The operation, where a request goes to its handler without the router.
    pub(crate) fn find(&self, method: &Method, path: &str, headers: &HeaderMap) -> Option<Hot> {
        if headers.contains_key(sqs::TARGET) {
            // Whose such a request is elsewhere the router knows.
            let route = sqs::ROUTES.iter().find(|route| matches(route, path))?;
            return (*method == Method::POST).then(|| Hot::of_sqs(route, headers));
        }
        let is = |hot: &&Hot| {
            hot.method == *method && path.ends_with(hot.end) && matches(hot.operation.path, path)
        };
        self.hot.iter().find(is).cloned()
    }

    /// Answers a request.
    pub fn answer(&self, request: Request) -> impl Future<Output = Response<Body>> + Send {
        match self.find(request.method(), request.uri().path(), request.headers()) {
            Some(hot) => Either::Left(self.run(hot, request)),
            None if query::has(&request, self.state.access.is_open()) => {
                let api = self.clone();
                Either::Right(async move { api.answer_query(request).await }.boxed())
            }
            None => Either::Right(self.route(request).boxed()),
        }
    }

    fn route(&self, request: Request) -> impl Future<Output = Response<Body>> + Send + use<> {
        let routed = self.router.clone().oneshot(request);
        routed.map(|answer: Result<_, Infallible>| answer.unwrap_or_else(|never| match never {}))
    }

    /// Answers a request in SQS's query protocol.
    async fn answer_query(&self, mut request: Request) -> Response<Body> {
        let (action, read) = query::translate(&self.state, &mut request).await;
        let response = match read {
            Ok(()) => self.route(request).await,
            Err(problem) => {
                let operation = sqs::operation(request.headers());
                let refuse = |_| async { problem.into_response() };
                guard::guard(&self.state, operation, request, refuse).await
            }
        };
        query::to_xml(response, action)
    }

    /// Answers a request for this operation.
    pub(crate) fn run(
        &self,
        hot: Hot,
        request: Request,
    ) -> impl Future<Output = Response<Body>> + Send + use<'_> {
        let handler = hot.run;
        let run = move |request| {
            let answer = handler(request, self.state.clone());
            AssertUnwindSafe(answer).catch_unwind().map(|answer| {
                answer.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
            })
        };
        guard::guard(&self.state, hot.operation, request, run)
    }
}

/// Is it a path of this route? A segment in braces stands for any that is not empty.
fn matches(route: &str, path: &str) -> bool {
    // Bytes are split faster than characters, and these are short.
    let split = |text| <[u8]>::split(text, |byte| *byte == b'/');
    let mut segments = split(path.as_bytes());
    let fits = split(route.as_bytes()).all(|wanted| match segments.next() {
        Some(segment) if wanted.starts_with(b"{") => !segment.is_empty(),
        segment => segment == Some(wanted),
    });
    fits && segments.next().is_none()
}
