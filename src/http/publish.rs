//! publishMessage and publishRaw.

use super::{
    AppState,
    callback_fields::CallbackRequest,
    extract::{NoQuery, Payload, PublicTopic, decoded},
    input::{Fields, Flat, Key, MediaType, given, request},
    instant::Instant,
    message_fields::{
        ContentFields, DueFields, KeyFields, LifeFields, MessageFields, PolicyFields, Priority,
        PublishFields, new_message, refuse_own_headers, require_content, take_idempotency_header,
    },
    problem::{BodyProblems, Code, CommonProblems, Problem, PublishProblems, RedisProblems},
};
use crate::model::{Callback, MessageId, OCTETS, State as MessageState, TopicName};
use crate::store::{NewMessage, Published};
use axum::{
    extract::{RawQuery, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

request! {
    /// A message to publish. Exactly one of `payload` and `payload_base64`; at most one of `delay_ms` and `deliver_at`.
    #[example = json!({"payload": {"order": 42, "action": "close-if-unpaid"}, "delay_ms": 1_800_000})]
    pub struct PublishRequest {
        pub content: Flat<ContentFields>,
        pub key: Flat<KeyFields>,
        pub policy: Flat<PolicyFields>,
        pub publish: Flat<PublishFields>,
        /// Where dueq sends the message. Default: the topic's `push.url`. Only in a pushed topic, and required if that
        /// has no URL.
        pub callback: Option<CallbackRequest>,
    }
    check(fields) {
        if let Some(content) = &content {
            require_content(fields, content);
            if given(&callback) {
                refuse_own_headers(fields, content.headers.as_ref(), "");
            }
        }
    }
}

impl PublishRequest {
    pub(super) fn into_message(self) -> NewMessage {
        let callback = self.callback.map(Callback::from);
        let message = MessageFields { content: self.content, key: self.key, policy: self.policy };
        new_message(message, Some(self.publish.0), callback)
    }
}

request! {
    /// Query parameters of publishRaw; they mean what the fields of the same names mean in publishMessage.
    pub struct PublishRawParams {
        pub due: Flat<DueFields>,
        /// 0 to 255. Among ready messages, higher goes first. Default: 0.
        pub priority: Option<Priority>,
        pub key: Flat<KeyFields>,
        /// Makes the request safe to repeat: during the topic's `idempotency_window_ms`, a repeat gets the first
        /// answer. The header `Idempotency-Key` does the same.
        pub idempotency_key: Option<Key>,
        pub life: Flat<LifeFields>,
    }
}

impl PublishRawParams {
    pub(super) fn into_message(self, payload: Bytes, media_type: MediaType) -> NewMessage {
        let content = Flat(ContentFields::bytes(payload, media_type));
        let policy = Flat(PolicyFields { priority: self.priority, life: self.life });
        let message = MessageFields { content, key: self.key, policy };
        let publish = PublishFields { due: self.due, idempotency_key: self.idempotency_key };
        new_message(message, Some(publish), None)
    }
}

/// A published message, or the existing one that answers for it.
#[derive(Serialize, ToSchema)]
pub struct PublishedMessage<'a> {
    /// Its id.
    #[schema(value_type = String, format = Uuid)]
    id: MessageId,
    /// Its topic.
    #[schema(value_type = String, example = "orders")]
    topic: &'a TopicName,
    /// `delayed` or `ready`; for a duplicate, its current state.
    state: MessageState,
    /// When it is due, RFC 3339 in UTC with ms. Absent while leased.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, nullable = false, required = false)]
    due_at: Option<Instant>,
    /// When it was published, RFC 3339 in UTC with ms.
    #[schema(value_type = String, format = DateTime)]
    published_at: Instant,
    /// True if an existing message answers for this publish and nothing was stored.
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
/// Stores the message in the topic. A topic is created by its first message. The message can be leased when it is due.
/// With `idempotency_key` the publish is safe to repeat.
#[utoipa::path(
    post, path = "/topics/{topic}/messages", operation_id = "publishMessage", tag = "messages",
    params(super::extract::TopicPath, super::extract::IdempotencyKey),
    request_body(content = PublishRequest, description = "The message"),
    responses(
        (status = 201, description = "The message is stored", body = PublishedMessage,
            headers(("Location" = String, description = "Path of the message"))),
        (status = 200, description = "An existing message answers for the request", body = PublishedMessage,
            headers(("Location" = String, description = "Path of the message"))),
        CommonProblems, BodyProblems, PublishProblems, RedisProblems,
    ),
)]
pub async fn publish_message(
    State(state): State<AppState>,
    PublicTopic(topic): PublicTopic,
    _: NoQuery,
    payload: Payload,
) -> Result<Response, Problem> {
    let mut fields = payload.json()?;
    take_idempotency_header(&mut fields, &payload.headers);
    let message = fields.read::<PublishRequest>()?.into_message();
    state.check_new_callback(&message.body, || "callback".to_owned())?;
    publish(&state, topic, message).await
}

/// Publish a raw body.
///
/// The request's body is the payload, whatever its media type. It is leased as `payload_base64` with its
/// `content_type`. Useful for curl, and for webhooks that cannot send an envelope.
#[utoipa::path(
    post, path = "/topics/{topic}/messages/raw", operation_id = "publishRaw", tag = "messages",
    params(super::extract::TopicPath, PublishRawParams),
    request_body(content = super::openapi::Octets, content_type = "application/octet-stream",
        description = "The payload, of any media type"),
    responses(
        (status = 201, description = "The message is stored", body = PublishedMessage,
            headers(("Location" = String, description = "Path of the message"))),
        (status = 200, description = "An existing message answers for the request", body = PublishedMessage,
            headers(("Location" = String, description = "Path of the message"))),
        CommonProblems, BodyProblems, PublishProblems, RedisProblems,
    ),
)]
pub async fn publish_raw(
    State(state): State<AppState>,
    PublicTopic(topic): PublicTopic,
    RawQuery(query): RawQuery,
    payload: Payload,
) -> Result<Response, Problem> {
    let media_type = match payload.headers.get(header::CONTENT_TYPE) {
        None => OCTETS,
        Some(value) => value.to_str().unwrap_or_default(),
    };
    let media_type = MediaType::parse(media_type).ok_or_else(|| {
        let detail = "the content-type is not a media type of at most 255 characters";
        Problem::new(Code::UnsupportedMediaType, detail)
    })?;
    let query = decoded(query.as_deref().unwrap_or_default());
    let mut fields = Fields::of_query(&query);
    take_idempotency_header(&mut fields, &payload.headers);
    let params = fields.read::<PublishRawParams>()?;
    publish(&state, topic, params.into_message(payload.bytes, media_type)).await
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
