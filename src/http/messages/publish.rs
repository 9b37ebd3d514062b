//! publishMessage, publishRaw, publishBatch.

use super::completion::{EndFields, make_topics, own_completions, topics_of};
use crate::{callbacks::CallbackRequest, prelude::*, request::extract::is_text};
use axum::{extract::RawQuery, http::header};
use bytes::Bytes;
use dueq_model::{Callback, MessageId, OCTETS, State as MessageState, TopicName};
use dueq_store::{IfAbsent, NewMessage, Published};

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
        pub ends: Flat<EndFields>,
    }
    check(fields) {
        check_policies(fields, key.as_ref(), publish.as_ref());
        if let Some(content) = &content {
            require_content(fields, content);
            if given(&callback) {
                refuse_own_headers(fields, content.headers.as_ref(), "");
            }
        }
    }
}

impl PublishRequest {
    pub fn into_message(self) -> NewMessage {
        let callback = self.callback.map(Callback::from);
        let Self { content, key, policy, ends, .. } = self;
        let message = MessageFields { content, key, policy, ends: ends.0 };
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
    pub fn into_message(self, payload: Bytes, media_type: MediaType) -> NewMessage {
        let content = Flat(ContentFields::bytes(payload, media_type));
        let policy = Flat(PolicyFields { priority: self.priority, life: self.life });
        let ends = EndFields { on_done: None, on_dead: None };
        let message = MessageFields { content, key: self.key, policy, ends };
        let (due, idempotency_key) = (self.due, self.idempotency_key);
        let (debounce, throttle, once, traceparent) = (None, None, None, None);
        let publish = PublishFields { due, debounce, throttle, once, idempotency_key, traceparent };
        new_message(message, Some(publish), None)
    }
}

answer! {
    /// A published message, or the existing one that answers for it.
    pub struct PublishedMessage<'a> {
        /// Its id.
        id: MessageId,
        /// Its topic.
        #[example = "orders"]
        topic: &'a TopicName,
        /// `delayed`, `ready` or `blocked`; for a duplicate, its current state, which may be `leased` and for a repeated
        /// `idempotency_key` also `dead`, `acked` or `gone`.
        state: MessageState,
        /// When it is due, RFC 3339 in UTC with ms; for a repeated `idempotency_key`, when it was due at first. Absent
        /// if it was leased then.
        due_at: Option<Instant>,
        /// When it was published, RFC 3339 in UTC with ms.
        published_at: Instant,
        /// True if an existing message answers for this publish and nothing was stored.
        duplicate: bool,
    }
}

impl<'a> PublishedMessage<'a> {
    /// What the store says, as the client sees it.
    pub fn of(topic: &'a TopicName, published: &Published) -> Self {
        let Published { id, state, due_at, duplicate, .. } = *published;
        let (due_at, published_at) = (due_at.map(Instant), Instant(id.published()));
        Self { id, topic, state, due_at, published_at, duplicate }
    }
}

/// Publish a message.
///
/// Stores the message in the topic. A topic is created by its first message. The message can be leased when it is due.
/// With `idempotency_key` the publish is safe to repeat.
#[utoipa::path(
    post, path = "/topics/{topic}/messages", tag = "messages", params(TopicPath, IdempotencyKey),
    request_body(content = PublishRequest, description = "The message"),
    responses(
        (status = 201, description = "The message is stored", body = PublishedMessage,
            headers(("Location" = String, description = "Path of the message; its URL if the server has a public one"))),
        (status = 200, description = "An existing message answers for the request", body = PublishedMessage,
            headers(("Location" = String, description = "Path of the message; its URL if the server has a public one"))),
        PublishProblems, RedisProblems,
    ),
)]
pub async fn publish_message(
    State(state): State<AppState>,
    PublicTopic(topic): PublicTopic,
    caller: Caller,
    trace: Trace,
    _: NoQuery,
    payload: Payload,
) -> Result<Response, Problem> {
    let message = payload.read::<PublishRequest>(take_idempotency_header)?.into_message();
    state.check_new_callback(&message.body, || "callback".to_owned())?;
    state.check_completions(&message.body, String::new)?;
    publish(&state, &caller, &trace, topic, message).await
}

/// Publish a raw body.
///
/// The request's body is the payload, whatever its media type. It is leased as `payload_base64` with its
/// `content_type`. Useful for curl, and for webhooks that cannot send an envelope.
#[utoipa::path(
    post, path = "/topics/{topic}/messages/raw", tag = "messages", params(TopicPath, PublishRawParams),
    request_body(content = crate::openapi::Octets, content_type = "application/octet-stream",
        description = "The payload, of any media type"),
    responses(
        (status = 201, description = "The message is stored", body = PublishedMessage,
            headers(("Location" = String, description = "Path of the message; its URL if the server has a public one"))),
        (status = 200, description = "An existing message answers for the request", body = PublishedMessage,
            headers(("Location" = String, description = "Path of the message; its URL if the server has a public one"))),
        PublishProblems, RedisProblems,
    ),
)]
pub async fn publish_raw(
    State(state): State<AppState>,
    PublicTopic(topic): PublicTopic,
    caller: Caller,
    trace: Trace,
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
    let query = query.as_deref().unwrap_or_default();
    if !is_text(query.as_bytes()) {
        let detail = "the decoded query is not valid UTF-8";
        return Err(Problem::new(Code::MalformedPath, detail));
    }
    let query = decoded(query);
    let mut fields = Fields::of_query(&query);
    take_idempotency_header(&mut fields, &payload.headers);
    let params = fields.read::<PublishRawParams>()?;
    let message = params.into_message(payload.bytes, media_type);
    publish(&state, &caller, &trace, topic, message).await
}

/// May the caller publish these to the topic? What may replace another's message changes it, and is kept in the audit log.
///
/// Errors: `NotAllowed`.
pub fn check_replace<'a>(
    caller: &Caller,
    topic: &TopicName,
    messages: impl IntoIterator<Item = &'a NewMessage>,
) -> Result<(), Error> {
    let replaces = messages.into_iter().any(|message| message.options.may_replace());
    if replaces { caller.check_change(topic) } else { Ok(()) }
}

/// Publishes a message, and answers with what became of it.
pub async fn publish(
    state: &AppState,
    caller: &Caller,
    trace: &Trace,
    topic: TopicName,
    mut message: NewMessage,
) -> Result<Response, Problem> {
    trace.publishes([&mut message]);
    check_replace(caller, &topic, [&message])?;
    own_completions(caller, [&mut message])?;
    if caller.maker().is_some() {
        Box::pin(make_topics(&state.store, caller, topics_of(std::slice::from_ref(&message))))
            .await?;
    }
    let _taken = caller.spend(&state.store, &topic, std::slice::from_ref(&message)).await?;
    let absent = IfAbsent::Create(caller.maker());
    let published = state.store.publish(&topic, message, absent).await?;
    caller.changed(published.replaced.into());
    trace.is_about_message(&published.id);
    let status = if published.duplicate { StatusCode::OK } else { StatusCode::CREATED };
    let location = [(header::LOCATION, format!("/messages/{}", published.id))];
    let answer = json(&PublishedMessage::of(&topic, &published));
    Ok((status, location, answer).into_response())
}

request! {
    /// Messages to publish.
    #[example = json!({"messages": [{"payload": 1}, {"payload": {"a": 2}, "delay_ms": 60_000}]})]
    pub struct PublishBatchRequest {
        /// The messages, 1 to 1000.
        pub messages: Batch<PublishRequest>,
    }
}

answer! {
    /// The result of a batch.
    pub struct PublishBatchResponse<'a> {
        /// One entry for each message of the request, in order.
        results: Vec<PublishResult<'a>>,
    }
}

answer! {
    /// The result of one publish.
    pub struct PublishResult<'a> {
        /// `ok`, or the `code` that a single publish would get: `duplicate_key`, `message_leased`,
        /// `idempotency_key_reused`, `group_changed`, `topic_full`, `redis_unavailable`, `outcome_unknown`.
        #[example = "ok"]
        status: &'static str,
        /// The message, or the existing one that answers for it. Only for `ok`.
        message: Option<PublishedMessage<'a>>,
    }
}

/// Publish messages.
///
/// Stores up to 1000 messages. Invalid input refuses all of them and names the field, such as `messages[17].delay_ms`.
/// Outcomes that depend on the queue are answered for each message.
#[utoipa::path(
    post, path = "/topics/{topic}/messages/batch", tag = "messages", params(TopicPath),
    request_body(content = PublishBatchRequest, description = "The messages"),
    responses(
        (status = 200, description = "The result for each", body = PublishBatchResponse),
        PublishBatchProblems, RedisProblems,
    ),
)]
pub async fn publish_batch(
    State(state): State<AppState>,
    PublicTopic(topic): PublicTopic,
    caller: Caller,
    trace: Trace,
    _: NoQuery,
    payload: Payload,
) -> Result<Response, Problem> {
    let PublishBatchRequest { messages } = payload.read(refuse_idempotency_header)?;
    let mut messages: Vec<_> = messages.0.into_iter().map(PublishRequest::into_message).collect();
    for (i, message) in messages.iter().enumerate() {
        state.check_new_callback(&message.body, || format!("messages[{i}].callback"))?;
        state.check_completions(&message.body, || format!("messages[{i}]."))?;
    }
    trace.publishes(&mut messages);
    check_replace(&caller, &topic, &messages)?;
    own_completions(&caller, &mut messages)?;
    make_topics(&state.store, &caller, topics_of(&messages)).await?;
    let _taken = caller.spend(&state.store, &topic, &messages).await?;
    let absent = IfAbsent::Create(caller.maker());
    let outcomes = state.store.publish_batch(&topic, messages, absent).await?;
    caller.changed(outcomes.iter().flatten().filter(|published| published.replaced).count() as i64);
    let result = |outcome| PublishResult {
        status: outcome_of(outcome),
        message: outcome.as_ref().ok().map(|published| PublishedMessage::of(&topic, published)),
    };
    let results = outcomes.iter().map(result).collect();
    Ok(json(&PublishBatchResponse { results }))
}
