//! pauseTopic, resumeTopic, purgeTopic, redriveTopic, forecastTopic: what is done with a topic's messages as a whole.

use super::{
    AppState,
    extract::{Payload, Query, TopicPath},
    instant::Instant,
    problem::{BodyProblems, CommonProblems, Problem, RedisProblems, TopicProblems},
    topics::{Topic, answer_with_topic},
};
use crate::{
    error::Error,
    model::{
        DEFAULT_REDRIVE, MAX_BUCKETS, MAX_DELAY_MS, MAX_REDRIVE, Millis, State as MessageState,
    },
};
use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};

/// What is to be purged.
#[derive(ToSchema)]
#[schema(example = json!({"states": ["ready", "delayed"]}))]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub struct PurgeRequest {
    /// Messages in these states go, each named once; leased ones stay.
    #[schema(min_items = 1, max_items = 3)]
    states: Vec<PurgedState>,
}

/// A state that can be purged: `ready`, due; `delayed`, not due yet; `dead`, its attempts used up.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(dead_code, reason = "describes the field; it is read as a word")]
pub enum PurgedState {
    /// Due.
    Ready,
    /// Not due yet.
    Delayed,
    /// Their attempts are used up.
    Dead,
}

const PURGED: [(&str, MessageState); 3] = [
    ("ready", MessageState::Ready),
    ("delayed", MessageState::Delayed),
    ("dead", MessageState::Dead),
];

/// What a purge did.
#[derive(Serialize, ToSchema)]
pub struct PurgeResponse {
    /// Messages that are gone.
    purged: i64,
    /// Messages left in the states that were named.
    remaining: i64,
}

/// How dead messages are made to live again; every field may be left out.
#[derive(ToSchema)]
#[schema(example = json!({"max_messages": 1000, "spread_ms": 60_000}))]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub struct RedriveRequest {
    /// Up to this many, the longest dead first.
    #[schema(minimum = 1, maximum = 1_000_000, default = 10_000)]
    max_messages: Option<i64>,
    /// Due evenly over this time from now, ms; 0: all at once.
    #[schema(minimum = 0, maximum = 315_360_000_000_i64, default = 0)]
    spread_ms: Option<i64>,
}

/// What a redrive did.
#[derive(Serialize, ToSchema)]
pub struct RedriveResponse {
    /// Messages that live again.
    redriven: i64,
    /// Dead ones left.
    remaining: i64,
}

/// Query parameters of forecastTopic.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code, reason = "describes the query; it is read field by field")]
pub struct ForecastParams {
    /// How long a bucket is, ms.
    #[param(minimum = 1, maximum = 315_360_000_000_i64, example = 60_000)]
    bucket_ms: i64,
    /// How many buckets, 1…1000.
    #[param(minimum = 1, maximum = 1000, example = 60)]
    buckets: i64,
}

/// How many messages fall due when.
#[derive(Serialize, ToSchema)]
pub struct Forecast {
    /// The coming buckets one after another, the first beginning now.
    buckets: Vec<ForecastBucket>,
}

/// A stretch of time.
#[derive(Serialize, ToSchema)]
pub struct ForecastBucket {
    /// When it begins, RFC 3339 in UTC with ms.
    #[schema(value_type = String, format = DateTime)]
    from_at: Instant,
    /// Messages that fall due in it.
    count: i64,
}

/// Pause a topic.
///
/// No grants on any instance from now on; publishing and acknowledging go on.
#[utoipa::path(
    post, path = "/topics/{topic}/pause", operation_id = "pauseTopic", tag = "topics",
    params(super::extract::TopicParams),
    responses(
        (status = 200, description = "The topic", body = Topic,
            headers(("ETag" = String, description = "The revision of its configuration"))),
        TopicProblems, CommonProblems, BodyProblems, RedisProblems,
    ),
)]
pub async fn pause_topic(
    State(state): State<AppState>,
    TopicPath(name): TopicPath,
    query: Query,
    payload: Payload,
) -> Result<Response, Problem> {
    query.none()?;
    payload.json_or_none()?.finish()?;
    state.store.pause_topic(&name).await?;
    answer_with_topic(&state, &name, Error::after_change).await
}

/// Resume a topic.
///
/// Grants go on, on every instance. Resuming one that is not paused changes nothing.
#[utoipa::path(
    post, path = "/topics/{topic}/resume", operation_id = "resumeTopic", tag = "topics",
    params(super::extract::TopicParams),
    responses(
        (status = 200, description = "The topic", body = Topic,
            headers(("ETag" = String, description = "The revision of its configuration"))),
        TopicProblems, CommonProblems, BodyProblems, RedisProblems,
    ),
)]
pub async fn resume_topic(
    State(state): State<AppState>,
    TopicPath(name): TopicPath,
    query: Query,
    payload: Payload,
) -> Result<Response, Problem> {
    query.none()?;
    payload.json_or_none()?.finish()?;
    state.store.resume_topic(&name).await?;
    answer_with_topic(&state, &name, Error::after_change).await
}

/// Purge a topic.
///
/// Removes its messages in the states named; leased ones stay.
#[utoipa::path(
    post, path = "/topics/{topic}/purge", operation_id = "purgeTopic", tag = "topics",
    params(super::extract::TopicParams),
    request_body(content = PurgeRequest, description = "What is to be purged"),
    responses(
        (status = 200, description = "What is gone and what is left", body = PurgeResponse),
        TopicProblems, CommonProblems, BodyProblems, RedisProblems,
    ),
)]
pub async fn purge_topic(
    State(state): State<AppState>,
    TopicPath(name): TopicPath,
    query: Query,
    payload: Payload,
) -> Result<Response, Problem> {
    query.none()?;
    let mut fields = payload.json()?;
    let states = fields.choices("states", &PURGED);
    let states = fields.required("states", states).unwrap_or_default();
    fields.finish()?;
    let purged = state.store.purge_topic(&name, &states).await?;
    let answer = PurgeResponse { purged: purged.purged, remaining: purged.remaining };
    Ok(super::json(&answer).into_response())
}

/// Make dead messages live again.
///
/// The longest dead first, ready at once or spread over some time, each with as many attempts as a new one. Those whose
/// key a live message has stay. Repeat it while some remain.
#[utoipa::path(
    post, path = "/topics/{topic}/redrive", operation_id = "redriveTopic", tag = "topics",
    params(super::extract::TopicParams),
    request_body(content = RedriveRequest, description = "How many, and over which time"),
    responses(
        (status = 200, description = "What lives again and what is left", body = RedriveResponse),
        TopicProblems, CommonProblems, BodyProblems, RedisProblems,
    ),
)]
pub async fn redrive_topic(
    State(state): State<AppState>,
    TopicPath(name): TopicPath,
    query: Query,
    payload: Payload,
) -> Result<Response, Problem> {
    query.none()?;
    let mut fields = payload.json_or_none()?;
    let most = fields.integer("max_messages", 1..=MAX_REDRIVE).unwrap_or(DEFAULT_REDRIVE);
    let spread_ms = fields.integer("spread_ms", 0..=MAX_DELAY_MS).unwrap_or(0) as Millis;
    fields.finish()?;
    let redriven = state.store.redrive_topic(&name, most, spread_ms).await?;
    let answer = RedriveResponse { redriven: redriven.redriven, remaining: redriven.remaining };
    Ok(super::json(&answer).into_response())
}

/// Look at what falls due.
///
/// How many messages fall due in each of the coming stretches of time, the first beginning now.
#[utoipa::path(
    get, path = "/topics/{topic}/forecast", operation_id = "forecastTopic", tag = "topics",
    params(super::extract::TopicParams, ForecastParams),
    responses(
        (status = 200, description = "How many messages fall due in each bucket", body = Forecast),
        TopicProblems, CommonProblems, RedisProblems,
    ),
)]
pub async fn forecast_topic(
    State(state): State<AppState>,
    TopicPath(name): TopicPath,
    query: Query,
) -> Result<Response, Problem> {
    let mut fields = query.fields();
    let bucket_ms = fields.integer("bucket_ms", 1..=MAX_DELAY_MS);
    let bucket_ms = fields.required("bucket_ms", bucket_ms).unwrap_or(1) as Millis;
    let buckets = fields.integer("buckets", 1..=MAX_BUCKETS);
    let buckets = fields.required("buckets", buckets).unwrap_or(1);
    fields.finish()?;
    let (first_at, counts) = state.store.forecast_topic(&name, bucket_ms, buckets).await?;
    let bucket = |(i, count)| ForecastBucket { from_at: Instant(first_at + bucket_ms * i), count };
    let buckets = (0..).zip(counts).map(bucket).collect();
    Ok(super::json(&Forecast { buckets }).into_response())
}
