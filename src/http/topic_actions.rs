//! pauseTopic, resumeTopic, purgeTopic, redriveTopic, forecastTopic: what is done with a topic's messages as a whole.

use super::{
    AppState,
    extract::{JsonBody, NoQuery, Nothing, OptionalJsonBody, Query, TopicPath},
    input::{Bounded, DelayMs, DurationMs, List, request, words},
    instant::Instant,
    problem::{BodyProblems, CommonProblems, Problem, RedisProblems, TopicProblems},
    topics::{Topic, answer_with_topic},
};
use crate::{
    error::Error,
    model::{DEFAULT_REDRIVE, MAX_BUCKETS, MAX_REDRIVE, State as MessageState},
};
use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::HashSet;
use utoipa::ToSchema;

request! {
    /// What to purge.
    #[example = json!({"states": ["ready", "delayed"]})]
    pub struct PurgeRequest {
        /// Remove the messages in these states, each named once. Leased messages stay.
        pub states: List<PurgedState, 1, 3>,
    }
    check(fields) {
        let mut seen = HashSet::new();
        if !states.iter().flat_map(|states| &states.0).all(|state| seen.insert(state)) {
            fields.refuse("states", "names a state more than once");
        }
    }
}

/// A state to purge. `ready`: due. `delayed`: not due yet. `dead`: attempts used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PurgedState {
    /// Due.
    Ready,
    /// Not due yet.
    Delayed,
    /// Their attempts are used up.
    Dead,
}

words!(PurgedState);

impl From<PurgedState> for MessageState {
    fn from(state: PurgedState) -> Self {
        match state {
            PurgedState::Ready => Self::Ready,
            PurgedState::Delayed => Self::Delayed,
            PurgedState::Dead => Self::Dead,
        }
    }
}

/// The result of a purge.
#[derive(Serialize, ToSchema)]
pub struct PurgeResponse {
    /// Messages removed.
    purged: i64,
    /// Messages left in the named states.
    remaining: i64,
}

request! {
    /// How to redrive dead messages. Every field is optional.
    #[example = json!({"max_messages": 1000, "spread_ms": 60_000})]
    pub struct RedriveRequest {
        /// Redrive up to this many messages, those dead longest first.
        pub max_messages: Bounded<1, MAX_REDRIVE> = Bounded::new(DEFAULT_REDRIVE),
        /// Spread their due times evenly over this time, ms.
        pub spread_ms: DelayMs = Bounded::new(0),
    }
}

/// The result of a redrive.
#[derive(Serialize, ToSchema)]
pub struct RedriveResponse {
    /// Messages redriven.
    redriven: i64,
    /// Dead messages left.
    remaining: i64,
}

request! {
    /// Query parameters of forecastTopic.
    pub struct ForecastParams {
        /// Length of a bucket, ms.
        #[example = 60_000]
        pub bucket_ms: DurationMs,
        /// Number of buckets, 1 to 1000.
        #[example = 60]
        pub buckets: Bounded<1, MAX_BUCKETS>,
    }
}

/// How many messages fall due, by time.
#[derive(Serialize, ToSchema)]
pub struct Forecast {
    /// The buckets in order. The first begins now.
    buckets: Vec<ForecastBucket>,
}

/// A span of time.
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
/// Stops leasing on every instance at once. Publishing and acknowledging go on.
#[utoipa::path(
    post, path = "/topics/{topic}/pause", operation_id = "pauseTopic", tag = "topics",
    params(super::extract::TopicPath),
    responses(
        (status = 200, description = "The topic", body = Topic,
            headers(("ETag" = String, description = "The revision of its configuration"))),
        TopicProblems, CommonProblems, BodyProblems, RedisProblems,
    ),
)]
pub async fn pause_topic(
    State(state): State<AppState>,
    TopicPath(name): TopicPath,
    _: NoQuery,
    _: OptionalJsonBody<Nothing>,
) -> Result<Response, Problem> {
    state.store.pause_topic(&name).await?;
    answer_with_topic(&state, &name, Error::after_change).await
}

/// Resume a topic.
///
/// Leasing goes on, on every instance. Resuming a topic that is not paused changes nothing.
#[utoipa::path(
    post, path = "/topics/{topic}/resume", operation_id = "resumeTopic", tag = "topics",
    params(super::extract::TopicPath),
    responses(
        (status = 200, description = "The topic", body = Topic,
            headers(("ETag" = String, description = "The revision of its configuration"))),
        TopicProblems, CommonProblems, BodyProblems, RedisProblems,
    ),
)]
pub async fn resume_topic(
    State(state): State<AppState>,
    TopicPath(name): TopicPath,
    _: NoQuery,
    _: OptionalJsonBody<Nothing>,
) -> Result<Response, Problem> {
    state.store.resume_topic(&name).await?;
    answer_with_topic(&state, &name, Error::after_change).await
}

/// Purge a topic.
///
/// Removes the messages in the named states. Leased messages stay.
#[utoipa::path(
    post, path = "/topics/{topic}/purge", operation_id = "purgeTopic", tag = "topics",
    params(super::extract::TopicPath),
    request_body(content = PurgeRequest, description = "The states to purge"),
    responses(
        (status = 200, description = "How many messages were removed, and how many are left", body = PurgeResponse),
        TopicProblems, CommonProblems, BodyProblems, RedisProblems,
    ),
)]
pub async fn purge_topic(
    State(state): State<AppState>,
    TopicPath(name): TopicPath,
    _: NoQuery,
    JsonBody(request, _): JsonBody<PurgeRequest>,
) -> Result<Response, Problem> {
    let states: Vec<_> = request.states.0.into_iter().map(MessageState::from).collect();
    let purged = state.store.purge_topic(&name, &states).await?;
    let answer = PurgeResponse { purged: purged.purged, remaining: purged.remaining };
    Ok(super::json(&answer).into_response())
}

/// Redrive dead messages.
///
/// Those dead longest come first. They are ready at once, or spread over a time, with as many attempts as new messages.
/// A dead message whose key belongs to a live message stays. Repeat the request while some remain.
#[utoipa::path(
    post, path = "/topics/{topic}/redrive", operation_id = "redriveTopic", tag = "topics",
    params(super::extract::TopicPath),
    request_body(content = RedriveRequest, description = "How many, and over how long"),
    responses(
        (status = 200, description = "How many messages were redriven, and how many are left", body = RedriveResponse),
        TopicProblems, CommonProblems, BodyProblems, RedisProblems,
    ),
)]
pub async fn redrive_topic(
    State(state): State<AppState>,
    TopicPath(name): TopicPath,
    _: NoQuery,
    OptionalJsonBody(request, _): OptionalJsonBody<RedriveRequest>,
) -> Result<Response, Problem> {
    let RedriveRequest { max_messages, spread_ms } = request;
    let redrive = state.store.redrive_topic(&name, max_messages.get(), spread_ms.millis());
    let redriven = redrive.await?;
    let answer = RedriveResponse { redriven: redriven.redriven, remaining: redriven.remaining };
    Ok(super::json(&answer).into_response())
}

/// Forecast what falls due.
///
/// Counts the messages that fall due in each coming bucket of time. The first bucket begins now.
#[utoipa::path(
    get, path = "/topics/{topic}/forecast", operation_id = "forecastTopic", tag = "topics",
    params(super::extract::TopicPath, ForecastParams),
    responses(
        (status = 200, description = "How many messages fall due in each bucket", body = Forecast),
        TopicProblems, CommonProblems, RedisProblems,
    ),
)]
pub async fn forecast_topic(
    State(state): State<AppState>,
    TopicPath(name): TopicPath,
    Query(ForecastParams { bucket_ms, buckets }): Query<ForecastParams>,
) -> Result<Response, Problem> {
    let (bucket_ms, buckets) = (bucket_ms.millis(), buckets.get());
    let (first_at, counts) = state.store.forecast_topic(&name, bucket_ms, buckets).await?;
    let bucket = |(i, count)| ForecastBucket { from_at: Instant(first_at + bucket_ms * i), count };
    let buckets = (0..).zip(counts).map(bucket).collect();
    Ok(super::json(&Forecast { buckets }).into_response())
}
