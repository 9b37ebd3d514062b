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
    /// What a consumer of several topics asks for; every field but `topics` may be left out.
    #[example = json!({"topics": ["urgent", "bulk"], "wait_ms": 20_000})]
    pub struct LeaseFromTopicsRequest {
        /// Names of topics, each once: the first that has a message wins. They need not exist.
        pub topics: List<TopicName, 1, MAX_TOPICS_LIMIT>,
        pub lease: Flat<LeaseRequest>,
    }
    check(fields) {
        let mut seen = HashSet::new();
        if !topics.iter().flat_map(|topics| &topics.0).all(|topic| seen.insert(topic)) {
            fields.refuse("topics", "names a topic more than once");
        }
    }
}

/// Lease from several topics.
///
/// As `leaseMessages`, from the first of `topics` that has a message: all messages of an answer come from one topic.
/// With `wait_ms` it waits for all of them at once. `acks` are done first.
#[utoipa::path(
    post, path = "/lease", operation_id = "leaseFromTopics", tag = "leases",
    request_body(content = LeaseFromTopicsRequest, description = "The topics, and what is wanted"),
    responses(
        (status = 200, description = "The messages, maybe none", body = LeaseResponse),
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
