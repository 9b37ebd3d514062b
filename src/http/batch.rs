//! publishBatch: many messages in one request.

use super::{
    AppState,
    extract::{Payload, PublicTopic, Query},
    message_fields::{read_message, refuse_idempotency_header},
    problem::{
        BodyProblems, CommonProblems, Problem, PublishBatchProblems, RedisProblems, outcome_of,
    },
    publish::{PublishRequest, PublishedMessage},
};
use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;

/// Messages to publish.
#[derive(ToSchema)]
#[schema(example = json!({"messages": [{"payload": 1}, {"payload": {"a": 2}, "delay_ms": 60_000}]}))]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub struct PublishBatchRequest {
    /// The messages, 1 to 1000.
    #[schema(min_items = 1, max_items = 1000)]
    messages: Vec<PublishRequest>,
}

/// What became of the messages of a batch.
#[derive(Serialize, ToSchema)]
pub struct PublishBatchResponse<'a> {
    /// One entry for each message of the request, in order.
    results: Vec<PublishResult<'a>>,
}

/// What became of one message of a batch.
#[derive(Serialize, ToSchema)]
pub struct PublishResult<'a> {
    /// `ok`, or the `code` that a publish of its own would have had: `duplicate_key`, `message_leased`,
    /// `idempotency_key_reused`, `topic_full`, `redis_unavailable`, `outcome_unknown`.
    #[schema(value_type = String, example = "ok")]
    status: &'static str,
    /// The message, or the one that answers for it; only for `ok`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = PublishedMessage, required = false)]
    message: Option<PublishedMessage<'a>>,
}

/// Publish messages.
///
/// Stores up to 1000 messages. Invalid input refuses them all and names the message and its field, as in
/// `messages[17].delay_ms`; what only the queue knows is answered for each.
#[utoipa::path(
    post, path = "/topics/{topic}/messages/batch", operation_id = "publishBatch", tag = "messages",
    params(super::extract::TopicParams),
    request_body(content = PublishBatchRequest, description = "The messages"),
    responses(
        (status = 200, description = "What became of each", body = PublishBatchResponse),
        CommonProblems, BodyProblems, PublishBatchProblems, RedisProblems,
    ),
)]
pub async fn publish_batch(
    State(state): State<AppState>,
    PublicTopic(topic): PublicTopic,
    query: Query,
    payload: Payload,
) -> Result<Response, Problem> {
    query.none()?;
    let mut fields = payload.json()?;
    refuse_idempotency_header(&mut fields, &payload.headers);
    let messages = fields.batch(|fields| Some(read_message(fields, &payload.bytes, None)));
    fields.finish()?;
    for (i, message) in messages.iter().enumerate() {
        let url = message.body.callback.as_ref().map(|callback| &callback.url);
        state.check_url(url, || format!("messages[{i}].callback.url"))?;
    }
    let outcomes = state.store.publish_batch(&topic, messages).await?;
    let result = |outcome| PublishResult {
        status: outcome_of(outcome),
        message: outcome.as_ref().ok().map(|published| PublishedMessage::of(&topic, published)),
    };
    let results = outcomes.iter().map(result).collect();
    Ok(super::json(&PublishBatchResponse { results }).into_response())
}
