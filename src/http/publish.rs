//! publishMessage and publishRaw.

use super::{
    AppState,
    backoff::BackoffRequest,
    callback_fields::CallbackRequest,
    extract::{Payload, PublicTopic, Query},
    instant::Instant,
    message_fields::{is_media_type, read_idempotency_header, read_message, read_raw_message},
    problem::{BodyProblems, CommonProblems, Problem, PublishProblems, RedisProblems},
};
use crate::model::{Content, MessageId, OCTETS, State as MessageState, TopicName};
use crate::store::{NewMessage, Published};
use axum::{
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};

/// A message to publish. Exactly one of `payload` and `payload_base64`; at most one of `delay_ms` and `deliver_at`.
#[derive(ToSchema)]
#[schema(example = json!({"payload": {"order": 42, "action": "close-if-unpaid"}, "delay_ms": 1_800_000}))]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub struct PublishRequest {
    /// Any JSON value, null included; it is stored and returned byte for byte as sent. At most the topic's
    /// `max_payload_bytes` (262144 unless configured).
    #[schema(value_type = super::openapi::AnyJson, required = false)]
    payload: Option<()>,
    /// Bytes in place of `payload`, in standard base64 with padding.
    #[schema(content_encoding = "base64", example = "aGVsbG8=")]
    payload_base64: Option<String>,
    /// Media type of the bytes, `application/octet-stream` unless given; only with `payload_base64`.
    #[schema(max_length = 255)]
    content_type: Option<String>,
    /// Due this long after Redis takes it, ms, up to ten years; at once unless given.
    #[schema(minimum = 0, maximum = 315_360_000_000_i64)]
    delay_ms: Option<i64>,
    /// Due at this instant: RFC 3339 with any offset, up to the year 9999. In the past means now.
    #[schema(format = DateTime)]
    deliver_at: Option<String>,
    /// 0…255: among ready messages higher goes first.
    #[schema(minimum = 0, maximum = 255, default = 0)]
    priority: Option<i64>,
    /// The message's own name in its topic, 1 to 255 characters. It belongs to one live message (delayed, ready or leased)
    /// at a time.
    #[schema(min_length = 1, max_length = 255, example = "order-42")]
    key: Option<String>,
    /// What happens when a live message has the key; `return` unless given. Only with `key`.
    on_duplicate: Option<OnDuplicate>,
    /// How long the key is held; `done` unless given. Only with `key`.
    key_until: Option<KeyUntil>,
    /// Makes the publish safe to repeat: for the topic's `idempotency_window_ms` the first answer is repeated. The header
    /// `Idempotency-Key` is the same.
    #[schema(min_length = 1, max_length = 255)]
    idempotency_key: Option<String>,
    /// Never granted later than this after it first fell due, ms; the topic's otherwise.
    #[schema(minimum = 1, maximum = 315_360_000_000_i64)]
    ttl_ms: Option<i64>,
    /// Grants that count before the message is dead; the topic's otherwise.
    #[schema(minimum = 1, maximum = 1000)]
    max_attempts: Option<i64>,
    /// How long it waits after a failure; the topic's otherwise.
    #[schema(value_type = Option<BackoffRequest>)]
    backoff: Option<()>,
    /// Up to 32 headers of 8 KiB together: names are HTTP tokens, values legal in HTTP. Returned with the lease, or sent
    /// with the callback: there not `host`, `content-length`, `content-type`, hop-by-hop ones, `webhook-*` and `dueq-*`.
    headers: Option<BTreeMap<String, String>>,
    /// Where dueq sends it; the topic's `push.url` otherwise. Only in a pushed topic, and needed where that has none.
    #[schema(value_type = Option<CallbackRequest>)]
    callback: Option<()>,
}

/// What a publish does when a live message has its key. `return`: the message that has it answers, with `duplicate` true.
/// `reject`: the publish is refused (409 `duplicate_key`). `replace`: a delayed or ready message gets the new content,
/// options and due time in place and keeps its id; a leased one is left alone (409 `message_leased`).
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(dead_code, reason = "describes the field; it is read as a word")]
pub enum OnDuplicate {
    /// The message that has it answers.
    Return,
    /// The publish is refused.
    Reject,
    /// The message that has it is replaced in place.
    Replace,
}

/// How long a message holds its key. `done`: until it is acked, dead, expired, deleted or purged. `granted`: until its
/// first grant, so that what comes while its handler runs is not lost.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(dead_code, reason = "describes the field; it is read as a word")]
pub enum KeyUntil {
    /// Until it is acked, dead, expired, deleted or purged.
    Done,
    /// Until its first grant.
    Granted,
}

/// Query parameters of publishRaw; they mean what the fields of the same names mean in publishMessage.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code, reason = "describes the query; it is read field by field")]
pub struct PublishRawParams {
    /// Due this long after Redis takes it, ms; at once unless given. Not with `deliver_at`.
    #[param(minimum = 0, maximum = 315_360_000_000_i64)]
    delay_ms: Option<i64>,
    /// Due at this instant: RFC 3339 with any offset, up to the year 9999. In the past means now.
    #[param(format = DateTime)]
    deliver_at: Option<String>,
    /// 0…255, 0 unless given: among ready messages higher goes first.
    #[param(minimum = 0, maximum = 255)]
    priority: Option<i64>,
    /// The message's own name in its topic, 1 to 255 characters. It belongs to one live message (delayed, ready or leased)
    /// at a time.
    #[param(min_length = 1, max_length = 255)]
    key: Option<String>,
    /// What happens when a live message has the key; `return` unless given. Only with `key`.
    on_duplicate: Option<OnDuplicate>,
    /// How long the key is held; `done` unless given. Only with `key`.
    key_until: Option<KeyUntil>,
    /// Makes the publish safe to repeat: for the topic's `idempotency_window_ms` the first answer is repeated. The header
    /// `Idempotency-Key` is the same.
    #[param(min_length = 1, max_length = 255)]
    idempotency_key: Option<String>,
    /// Never granted later than this after it first fell due, ms; the topic's otherwise.
    #[param(minimum = 1, maximum = 315_360_000_000_i64)]
    ttl_ms: Option<i64>,
    /// Grants that count before the message is dead; the topic's otherwise.
    #[param(minimum = 1, maximum = 1000)]
    max_attempts: Option<i64>,
}

/// A message that was stored, or that answers for one.
#[derive(Serialize, ToSchema)]
pub struct PublishedMessage<'a> {
    /// Its id.
    #[schema(value_type = String, format = Uuid)]
    id: MessageId,
    /// Its topic.
    #[schema(value_type = String, example = "orders")]
    topic: &'a TopicName,
    /// `delayed` or `ready`; for a duplicate the state that it is in now.
    state: MessageState,
    /// When it falls due, RFC 3339 in UTC with ms; absent while leased.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, nullable = false, required = false)]
    due_at: Option<Instant>,
    /// When it was published, RFC 3339 in UTC with ms.
    #[schema(value_type = String, format = DateTime)]
    published_at: Instant,
    /// True where an existing message answers for this publish, and nothing was stored.
    duplicate: bool,
}

impl<'a> PublishedMessage<'a> {
    /// What the store says, as the client sees it.
    pub(super) fn of(topic: &'a TopicName, published: &Published) -> Self {
        let Published { id, state, due_at, duplicate } = *published;
        let (due_at, published_at) = (due_at.map(Instant), Instant(id.published()));
        Self { id, topic, state, due_at, published_at, duplicate }
    }
}

/// Publish a message.
///
/// Stores the message in the topic, which comes into being with its first message. It can be leased once it is due.
/// With `idempotency_key` it is safe to repeat.
#[utoipa::path(
    post, path = "/topics/{topic}/messages", operation_id = "publishMessage", tag = "messages",
    params(super::extract::TopicParams, super::message_fields::IdempotencyParams),
    request_body(content = PublishRequest, description = "The message"),
    responses(
        (status = 201, description = "The message is stored", body = PublishedMessage,
            headers(("Location" = String, description = "Where to look at the message"))),
        (status = 200, description = "An existing message answers for it", body = PublishedMessage,
            headers(("Location" = String, description = "Where to look at the message"))),
        CommonProblems, BodyProblems, PublishProblems, RedisProblems,
    ),
)]
pub async fn publish_message(
    State(state): State<AppState>,
    PublicTopic(topic): PublicTopic,
    query: Query,
    payload: Payload,
) -> Result<Response, Problem> {
    query.none()?;
    let mut fields = payload.json()?;
    let key = read_idempotency_header(&mut fields, &payload.headers);
    let message = read_message(&mut fields, &payload.bytes, key);
    fields.finish()?;
    let url = message.body.callback.as_ref().map(|callback| &callback.url);
    state.check_url(url, || "callback.url".to_owned())?;
    publish(&state, topic, message).await
}

/// Publish the body itself.
///
/// The request's body is the payload, whatever its media type; it is leased as `payload_base64` with its
/// `content_type`. For curl, and for webhooks that cannot be told to send an envelope.
#[utoipa::path(
    post, path = "/topics/{topic}/messages/raw", operation_id = "publishRaw", tag = "messages",
    params(super::extract::TopicParams, PublishRawParams),
    request_body(content = super::openapi::Octets, content_type = "application/octet-stream",
        description = "The payload, of any media type"),
    responses(
        (status = 201, description = "The message is stored", body = PublishedMessage,
            headers(("Location" = String, description = "Where to look at the message"))),
        (status = 200, description = "An existing message answers for it", body = PublishedMessage,
            headers(("Location" = String, description = "Where to look at the message"))),
        CommonProblems, BodyProblems, PublishProblems, RedisProblems,
    ),
)]
pub async fn publish_raw(
    State(state): State<AppState>,
    PublicTopic(topic): PublicTopic,
    query: Query,
    payload: Payload,
) -> Result<Response, Problem> {
    let content_type = match payload.headers.get(header::CONTENT_TYPE) {
        None => OCTETS.to_owned(),
        Some(value) => value
            .to_str()
            .ok()
            .filter(|text| is_media_type(text))
            .map(str::to_owned)
            .ok_or_else(|| {
                let detail = "the content-type is no media type of at most 255 characters";
                Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", detail)
            })?,
    };
    let mut fields = query.fields();
    let key = read_idempotency_header(&mut fields, &payload.headers);
    let content = Content::Bytes { data: payload.bytes, content_type };
    let message = read_raw_message(&mut fields, content, key);
    fields.finish()?;
    publish(&state, topic, message).await
}

/// Publishes a message, and answers with what became of it.
pub(super) async fn publish(
    state: &AppState,
    topic: TopicName,
    message: NewMessage,
) -> Result<Response, Problem> {
    let published = state.store.publish(&topic, message).await?;
    let status = if published.duplicate { StatusCode::OK } else { StatusCode::CREATED };
    let location = [(header::LOCATION, format!("/messages/{}", published.id))];
    let answer = super::json(&PublishedMessage::of(&topic, &published));
    Ok((status, location, answer).into_response())
}
