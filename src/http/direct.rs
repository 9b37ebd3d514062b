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
    http::{Method, Response, StatusCode},
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
pub(crate) struct Hot {
    method: Method,
    operation: Operation,
    run: Run,
}

impl Api {
    /// The API of these routes, each with the guard around it.
    pub(crate) fn new(state: AppState, router: Router) -> Self {
        let find = |(name, run)| {
            let mut all = state.operations.values().flatten();
            let (method, operation) = all.find(|(_, operation)| operation.name == name)?;
            Some(Hot { method: method.clone(), operation: *operation, run })
        };
        let hot = HOT.into_iter().filter_map(find).collect();
        Self { state, hot, router }
    }

    /// The operation, where a request goes to its handler without the router.
    pub(crate) fn find(&self, method: &Method, path: &str) -> Option<&Hot> {
        self.hot.iter().find(|hot| hot.method == *method && matches(hot.operation.path, path))
    }

    /// Answers a request.
    pub fn answer(&self, request: Request) -> impl Future<Output = Response<Body>> + Send {
        let hot = self.find(request.method(), request.uri().path());
        // The router knows whose such a request is.
        match hot.filter(|_| !request.headers().contains_key(sqs::TARGET)) {
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
        hot: &Hot,
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
