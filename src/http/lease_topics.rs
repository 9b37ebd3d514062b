//! leaseFromTopics: a consumer of several topics, the first that has something before the others.

use super::{
    AppState,
    extract::{Payload, Query},
    fields::Fields,
    lease::{Asked, LeaseAck, LeaseResponse, PushedProblems, serve},
    problem::{BodyProblems, CommonProblems, Problem, RedisProblems},
};
use crate::model::{MAX_TOPICS_LIMIT, TopicName};
use axum::{body::Body, extract::State, http::Response};
use std::collections::HashSet;
use utoipa::ToSchema;

/// What a consumer of several topics asks for; every field but `topics` may be left out.
#[derive(ToSchema)]
#[schema(example = json!({"topics": ["urgent", "bulk"], "wait_ms": 20_000}))]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub struct LeaseFromTopicsRequest {
    /// Names of topics, each once: the first that has a message wins. They need not exist.
    #[schema(min_items = 1, max_items = 32)]
    topics: Vec<String>,
    /// Up to this many messages, 1…1000, all from one topic.
    #[schema(minimum = 1, maximum = 1000, default = 1)]
    max_messages: Option<i64>,
    /// Up to this many bytes of payload together, but never less than one message.
    #[schema(minimum = 1, maximum = 16_777_216, default = 4_194_304)]
    max_bytes: Option<i64>,
    /// How long the holder has, ms, from 1 s to 12 h; the topic's `lease_ms` otherwise.
    #[schema(minimum = 1000, maximum = 43_200_000)]
    lease_ms: Option<i64>,
    /// Long poll: how long to wait for a message, ms, up to a minute. Keep it 5 s below every time-out on the way.
    #[schema(minimum = 0, maximum = 60_000, default = 0)]
    wait_ms: Option<i64>,
    /// Messages to acknowledge first, of whatever topics. None of them fails the request.
    #[schema(max_items = 1000)]
    acks: Option<Vec<LeaseAck>>,
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
    query: Query,
    payload: Payload,
) -> Result<Response<Body>, Problem> {
    query.none()?;
    let mut fields = payload.json()?;
    let topics = read_topics(&mut fields);
    let asked = Asked::read(&mut fields);
    fields.finish()?;
    serve(&state, &topics, asked, payload).await
}

/// The names; what is wrong with them is noted in `fields`.
pub(super) fn read_topics(fields: &mut Fields<'_>) -> Vec<TopicName> {
    let topics = fields.strings("topics", 1..=MAX_TOPICS_LIMIT, |text| {
        TopicName::parse(text).map_err(|error| error.to_string())
    });
    let topics = fields.required("topics", topics).unwrap_or_default();
    let mut seen = HashSet::new();
    if !topics.iter().all(|topic| seen.insert(topic)) {
        fields.refuse("topics", "names a topic more than once");
    }
    topics
}
