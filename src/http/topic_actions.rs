//! pauseTopic, resumeTopic, purgeTopic, redriveTopic, forecastTopic: what is done with a topic's messages as a whole.

use super::{
    prelude::*,
    topics::{Topic, answer_with_topic},
};
use crate::model::{DEFAULT_REDRIVE, MAX_BUCKETS, MAX_REDRIVE, State as MessageState};
use std::collections::HashSet;

request! {
    /// What to purge.
    #[example = json!({"states": ["ready", "delayed"]})]
    pub struct PurgeRequest {
        /// Remove the messages in these states, each named once. Leased messages stay.
        pub states: List<PurgedState, 1, 4>,
    }
    check(fields) {
        let mut seen = HashSet::new();
        if !states.iter().flat_map(|states| &states.0).all(|state| seen.insert(state)) {
            fields.refuse("states", "names a state more than once");
        }
    }
}

answer! {
    /// The result of a purge.
    pub struct PurgeResponse {
        /// Messages removed.
        purged: i64,
        /// Messages left in the named states.
        remaining: i64,
    }
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

answer! {
    /// The result of a redrive.
    pub struct RedriveResponse {
        /// Messages redriven.
        redriven: i64,
        /// Dead messages left.
        remaining: i64,
    }
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

answer! {
    /// How many messages fall due, by time.
    pub struct Forecast {
        /// The buckets in order. The first begins now.
        buckets: Vec<ForecastBucket>,
    }
}

answer! {
    /// A span of time.
    pub struct ForecastBucket {
        /// When it begins, RFC 3339 in UTC with ms.
        from_at: Instant,
        /// Messages that fall due in it.
        count: i64,
    }
}

/// Pause a topic.
///
/// Stops leasing on every instance at once. Publishing and acknowledging go on.
#[utoipa::path(
    post, path = "/topics/{topic}/pause", tag = "topics", params(TopicPath),
    responses(
        (status = 200, description = "The topic", body = Topic,
            headers(("ETag" = String, description = "The revision of its configuration"))),
        TopicProblems, RedisProblems,
    ),
)]
pub async fn pause_topic(
    State(state): State<AppState>,
    TopicPath(name): TopicPath,
    _: OptionalJsonBody<Nothing>,
) -> Result<Response, Problem> {
    state.store.pause_topic(&name).await?;
    answer_with_topic(&state, &name, Error::after_change).await
}

/// Resume a topic.
///
/// Leasing goes on, on every instance. Resuming a topic that is not paused changes nothing.
#[utoipa::path(
    post, path = "/topics/{topic}/resume", tag = "topics", params(TopicPath),
    responses(
        (status = 200, description = "The topic", body = Topic,
            headers(("ETag" = String, description = "The revision of its configuration"))),
        TopicProblems, RedisProblems,
    ),
)]
pub async fn resume_topic(
    State(state): State<AppState>,
    TopicPath(name): TopicPath,
    _: OptionalJsonBody<Nothing>,
) -> Result<Response, Problem> {
    state.store.resume_topic(&name).await?;
    answer_with_topic(&state, &name, Error::after_change).await
}

/// Purge a topic.
///
/// Removes the messages in the named states. Leased messages stay.
#[utoipa::path(
    post, path = "/topics/{topic}/purge", tag = "topics", params(TopicPath),
    request_body(content = PurgeRequest, description = "The states to purge"),
    responses(
        (status = 200, description = "How many messages were removed, and how many are left", body = PurgeResponse),
        TopicProblems, RedisProblems,
    ),
)]
pub async fn purge_topic(
    State(state): State<AppState>,
    TopicPath(name): TopicPath,
    caller: Caller,
    JsonBody(request, _): JsonBody<PurgeRequest>,
) -> Result<Response, Problem> {
    let states: Vec<_> = request.states.0.into_iter().map(MessageState::from).collect();
    let purged = state.store.purge_topic(&name, &states).await?;
    caller.changed(purged.purged);
    let answer = PurgeResponse { purged: purged.purged, remaining: purged.remaining };
    Ok(json(&answer))
}

/// Redrive dead messages.
///
/// Those dead longest come first. They are ready at once, or spread over a time, with as many attempts as new messages.
/// A dead message whose key belongs to a live message stays. Repeat the request while some remain.
#[utoipa::path(
    post, path = "/topics/{topic}/redrive", tag = "topics", params(TopicPath),
    request_body(content = RedriveRequest, description = "How many, and over how long"),
    responses(
        (status = 200, description = "How many messages were redriven, and how many are left", body = RedriveResponse),
        TopicProblems, RedisProblems,
    ),
)]
pub async fn redrive_topic(
    State(state): State<AppState>,
    TopicPath(name): TopicPath,
    caller: Caller,
    JsonBody(request, _): OptionalJsonBody<RedriveRequest>,
) -> Result<Response, Problem> {
    let RedriveRequest { max_messages, spread_ms } = request;
    let redrive = state.store.redrive_topic(&name, max_messages.get(), spread_ms.millis());
    let redriven = redrive.await?;
    caller.changed(redriven.redriven);
    let answer = RedriveResponse { redriven: redriven.redriven, remaining: redriven.remaining };
    Ok(json(&answer))
}

/// Forecast what falls due.
///
/// Counts the messages that fall due in each coming bucket of time. The first bucket begins now.
#[utoipa::path(
    get, path = "/topics/{topic}/forecast", tag = "topics", params(TopicPath, ForecastParams),
    responses(
        (status = 200, description = "How many messages fall due in each bucket", body = Forecast),
        TopicProblems, RedisProblems,
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
    Ok(json(&Forecast { buckets }))
}
