//! pauseTopic, resumeTopic, forecastTopic: a topic as a whole.

use super::{Topic, answer_with_topic};
use crate::prelude::*;
use dueq_model::MAX_BUCKETS;

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
pub async fn pause_topic(cx: Context, TopicPath(name): TopicPath, _: NoBody) -> Answer {
    cx.store.pause_topic(&name).await?;
    answer_with_topic(&cx, &name, Error::after_change).await
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
pub async fn resume_topic(cx: Context, TopicPath(name): TopicPath, _: NoBody) -> Answer {
    cx.store.resume_topic(&name).await?;
    answer_with_topic(&cx, &name, Error::after_change).await
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
    cx: Context,
    TopicPath(name): TopicPath,
    Query(ForecastParams { bucket_ms, buckets }): Query<ForecastParams>,
) -> Answer {
    let (bucket_ms, buckets) = (bucket_ms.millis(), buckets.get());
    let (first_at, counts) = cx.store.forecast_topic(&name, bucket_ms, buckets).await?;
    let bucket = |(i, count)| ForecastBucket { from_at: Instant(first_at + bucket_ms * i), count };
    let buckets = (0..).zip(counts).map(bucket).collect();
    Ok(json(&Forecast { buckets }))
}
