//! publishBatch: many messages in one request.

use super::{
    AppState,
    extract::{NoQuery, Payload, PublicTopic},
    input::{Batch, request},
    message_fields::refuse_idempotency_header,
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
use serde_json::json;
use utoipa::ToSchema;

request! {
    /// Messages to publish.
    #[example = json!({"messages": [{"payload": 1}, {"payload": {"a": 2}, "delay_ms": 60_000}]})]
    pub struct PublishBatchRequest {
        /// The messages, 1 to 1000.
        pub messages: Batch<PublishRequest>,
    }
}

/// The result of a batch.
#[derive(Serialize, ToSchema)]
pub struct PublishBatchResponse<'a> {
    /// One entry for each message of the request, in order.
    results: Vec<PublishResult<'a>>,
}

/// The result of one publish.
#[derive(Serialize, ToSchema)]
pub struct PublishResult<'a> {
    /// `ok`, or the `code` that a single publish would get: `duplicate_key`, `message_leased`,
    /// `idempotency_key_reused`, `topic_full`, `redis_unavailable`, `outcome_unknown`.
    #[schema(value_type = String, example = "ok")]
    status: &'static str,
    /// The message, or the existing one that answers for it. Only for `ok`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = PublishedMessage, required = false)]
    message: Option<PublishedMessage<'a>>,
}

/// Publish messages.
///
/// Stores up to 1000 messages. Invalid input refuses all of them and names the field, such as `messages[17].delay_ms`.
/// Outcomes that depend on the queue are answered for each message.
#[utoipa::path(
    post, path = "/topics/{topic}/messages/batch", operation_id = "publishBatch", tag = "messages",
    params(super::extract::TopicPath),
    request_body(content = PublishBatchRequest, description = "The messages"),
    responses(
        (status = 200, description = "The result for each", body = PublishBatchResponse),
        CommonProblems, BodyProblems, PublishBatchProblems, RedisProblems,
    ),
)]
pub async fn publish_batch(
    State(state): State<AppState>,
    PublicTopic(topic): PublicTopic,
    _: NoQuery,
    payload: Payload,
) -> Result<Response, Problem> {
    let mut fields = payload.json()?;
    refuse_idempotency_header(&mut fields, &payload.headers);
    let PublishBatchRequest { messages } = fields.read()?;
    let messages: Vec<_> = messages.0.into_iter().map(PublishRequest::into_message).collect();
    for (i, message) in messages.iter().enumerate() {
        state.check_new_callback(&message.body, || format!("messages[{i}].callback"))?;
    }
    let outcomes = state.store.publish_batch(&topic, messages).await?;
    let result = |outcome| PublishResult {
        status: outcome_of(outcome),
        message: outcome.as_ref().ok().map(|published| PublishedMessage::of(&topic, published)),
    };
    let results = outcomes.iter().map(result).collect();
    Ok(super::json(&PublishBatchResponse { results }).into_response())
}
