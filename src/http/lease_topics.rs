//! leaseFromTopics: a consumer of several topics, the first that has something before the others.

use super::{
    AppState,
    extract::{JsonBody, NoQuery},
    input::{Flat, List, request},
    lease::{LeaseRequest, LeaseResponse, serve},
    problem::{BodyProblems, CommonProblems, Problem, PushedProblems, RedisProblems},
};
use crate::model::{MAX_TOPICS_LIMIT, TopicName};
use axum::{body::Body, extract::State, http::Response};
use serde_json::json;
use std::collections::HashSet;

request! {
    /// A lease request for several topics. Only `topics` is required.
    #[example = json!({"topics": ["urgent", "bulk"], "wait_ms": 20_000})]
    pub struct LeaseFromTopicsRequest {
        /// Topic names, without repeats. The first topic that has a message wins. The topics need not exist.
        pub topics: List<TopicName, 1, MAX_TOPICS_LIMIT>,
        pub lease: Flat<LeaseRequest>,
    }
    check(fields) {
        let mut seen = HashSet::new();
        if !topics.iter().flat_map(|topics| &topics.0).all(|topic| seen.insert(topic)) {
            fields.refuse("topics", "contains a topic more than once");
        }
    }
}

/// Lease from several topics.
///
/// Like `leaseMessages`, from the first of `topics` that has a message. All messages of an answer come from one topic.
/// With `wait_ms` the request waits for all topics at once. `acks` are done first.
#[utoipa::path(
    post, path = "/lease", operation_id = "leaseFromTopics", tag = "leases",
    request_body(content = LeaseFromTopicsRequest, description = "The topics and the options"),
    responses(
        (status = 200, description = "The messages, or none", body = LeaseResponse),
        CommonProblems, BodyProblems, PushedProblems, RedisProblems,
    ),
)]
pub async fn lease_from_topics(
    State(state): State<AppState>,
    _: NoQuery,
    JsonBody(request, payload): JsonBody<LeaseFromTopicsRequest>,
) -> Result<Response<Body>, Problem> {
    serve(&state, &request.topics.0, request.lease.0, payload).await
}
