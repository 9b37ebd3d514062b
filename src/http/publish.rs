//! publishMessage and publishRaw.

use super::{
    AppState,
    extract::{Payload, Query, TopicPath},
    fields::Fields,
    problem::{BodyProblems, CommonProblems, Problem, PublishProblems, RedisProblems},
};
use crate::model::{
    Body, Content, MAX_ATTEMPTS_LIMIT, MAX_DELAY_MS, MAX_PAYLOAD_BYTES, State as MessageState,
    TopicName, format_instant, parse_instant,
};
use crate::store::{Due, NewMessage, Published};
use axum::{
    extract::State,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde::Serialize;
use std::{borrow::Cow, collections::BTreeMap};
use utoipa::{IntoParams, ToSchema};

const MAX_HEADERS: usize = 32;
const MAX_HEADERS_BYTES: usize = 8 * 1024;
const MAX_CONTENT_TYPE: usize = 255;
const OCTETS: &str = "application/octet-stream";

/// A message to publish. Exactly one of `payload` and `payload_base64`; at most one of `delay_ms` and `deliver_at`.
#[derive(ToSchema)]
#[schema(example = json!({"payload": {"order": 42, "action": "close-if-unpaid"}, "delay_ms": 1_800_000}))]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub struct PublishRequest {
    /// Any JSON value; it is stored and returned byte for byte as sent. At most 262144 bytes.
    #[schema(value_type = super::openapi::AnyJson, required = false)]
    payload: Option<()>,
    /// Bytes in place of `payload`, in standard base64 with padding.
    #[schema(content_encoding = "base64", example = "aGVsbG8=")]
    payload_base64: Option<String>,
    /// Media type of the bytes; only with `payload_base64`.
    #[schema(max_length = 255, default = "application/octet-stream")]
    content_type: Option<String>,
    /// Due this long after Redis takes it, ms.
    #[schema(minimum = 0, maximum = 315_360_000_000_i64, default = 0)]
    delay_ms: Option<i64>,
    /// Due at this instant: RFC 3339 with any offset, up to the year 9999. In the past means now.
    #[schema(format = DateTime)]
    deliver_at: Option<String>,
    /// Among ready messages higher goes first.
    #[schema(minimum = 0, maximum = 255, default = 0)]
    priority: Option<i64>,
    /// Grants that count before the message is dead; the topic's otherwise.
    #[schema(minimum = 1, maximum = 1000)]
    max_attempts: Option<i64>,
    /// Up to 32 headers of 8 KiB together: names are HTTP tokens, values legal in HTTP. Returned with the lease.
    headers: Option<BTreeMap<String, String>>,
}

/// Query parameters of publishRaw; they mean what the fields of the same names mean in publishMessage.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code, reason = "describes the query; it is read field by field")]
pub struct PublishRawParams {
    /// Due this long after Redis takes it, ms.
    #[param(minimum = 0, maximum = 315_360_000_000_i64)]
    delay_ms: Option<i64>,
    /// Due at this instant (RFC 3339).
    #[param(format = DateTime)]
    deliver_at: Option<String>,
    /// Among ready messages higher goes first.
    #[param(minimum = 0, maximum = 255)]
    priority: Option<i64>,
    /// Grants that count before the message is dead.
    #[param(minimum = 1, maximum = 1000)]
    max_attempts: Option<i64>,
}

/// A message that was stored.
#[derive(Serialize, ToSchema)]
pub struct PublishedMessage {
    /// Its id, a UUID.
    #[schema(format = Uuid)]
    id: String,
    /// Its topic.
    #[schema(value_type = String, example = "orders")]
    topic: TopicName,
    /// `delayed` or `ready`.
    state: MessageState,
    /// When it falls due.
    #[schema(format = DateTime)]
    due_at: String,
    /// When it was published.
    #[schema(format = DateTime)]
    published_at: String,
    /// An existing message answers for this publish.
    duplicate: bool,
}

/// Publish a message.
///
/// Stores the message in the topic, which comes into being with its first message. It can be leased once it is due.
#[utoipa::path(
    post, path = "/topics/{topic}/messages", operation_id = "publishMessage", tag = "messages",
    params(super::extract::TopicParams),
    request_body(content = PublishRequest, description = "The message"),
    responses(
        (status = 201, description = "The message is stored", body = PublishedMessage,
            headers(("Location" = String, description = "Where to look at the message"))),
        CommonProblems, PublishProblems, BodyProblems, RedisProblems,
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
    let options = read_options(&mut fields);
    let headers = read_headers(&mut fields);
    let content = read_content(&mut fields, &payload.bytes);
    fields.finish()?;
    // An error was noted wherever there is no content, so it is there.
    let content = content.unwrap_or(Content::Json(Bytes::from_static(b"null")));
    publish(&state, topic, Body { content, headers }, options).await
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
        CommonProblems, PublishProblems, BodyProblems, RedisProblems,
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
    let options = read_options(&mut fields);
    fields.finish()?;
    let content = Content::Bytes { data: payload.bytes, content_type };
    publish(&state, topic, Body { content, headers: BTreeMap::new() }, options).await
}

/// A topic that users may publish to.
pub struct PublicTopic(pub TopicName);

impl axum::extract::FromRequestParts<AppState> for PublicTopic {
    type Rejection = Problem;

    async fn from_request_parts(
        parts: &mut axum::http::request::Parts,
        state: &AppState,
    ) -> Result<Self, Problem> {
        let TopicPath(topic) = TopicPath::from_request_parts(parts, state).await?;
        if topic.is_reserved() {
            let detail = "topics whose names begin with _ are dueq's own";
            return Err(Problem::new(StatusCode::FORBIDDEN, "topic_reserved", detail));
        }
        Ok(Self(topic))
    }
}

struct Options {
    due: Due,
    priority: u8,
    max_attempts: Option<u16>,
}

fn read_options(fields: &mut Fields<'_>) -> Options {
    let both = fields.has("delay_ms") && fields.has("deliver_at");
    let delay = fields.integer("delay_ms", 0..=MAX_DELAY_MS).unwrap_or(0);
    let mut due = Due::After(delay as i64);
    if let Some(text) = fields.string("deliver_at", 0..=64) {
        match parse_instant(&text) {
            Ok(instant) => due = Due::At(instant),
            Err(error) => fields.refuse("deliver_at", error.to_string()),
        }
    }
    if both {
        fields.refuse("deliver_at", "cannot be given together with delay_ms");
    }
    Options {
        due,
        priority: fields.integer("priority", 0..=255).unwrap_or(0) as u8,
        max_attempts: fields.integer("max_attempts", 1..=MAX_ATTEMPTS_LIMIT).map(|n| n as u16),
    }
}

fn read_headers(fields: &mut Fields<'_>) -> BTreeMap<String, String> {
    let headers = fields.string_map("headers").unwrap_or_default();
    let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if headers.len() > MAX_HEADERS || bytes > MAX_HEADERS_BYTES {
        fields.refuse("headers", "must be at most 32 headers of 8192 bytes together");
    }
    for (name, value) in headers.iter().take(MAX_HEADERS) {
        if HeaderName::from_bytes(name.as_bytes()).is_err() {
            fields.refuse(&format!("headers.{name}"), "is no HTTP header name");
        } else if HeaderValue::from_bytes(value.as_bytes()).is_err() {
            fields.refuse(&format!("headers.{name}"), "is no value for an HTTP header");
        }
    }
    headers
}

/// The payload as a slice of the request's body, so that it is not copied.
fn read_content(fields: &mut Fields<'_>, body: &Bytes) -> Option<Content> {
    let bytes = fields.has("payload_base64");
    let content_type = fields.string("content_type", 1..=MAX_CONTENT_TYPE);
    let base64 = fields.string("payload_base64", 0..=usize::MAX);
    if let Some(content_type) = &content_type
        && !is_media_type(content_type)
    {
        fields.refuse("content_type", "must be a media type such as image/png");
    }
    if content_type.is_some() && !bytes {
        fields.refuse("content_type", "can only be given with payload_base64");
    }
    let json = fields.raw("payload");
    match (json, base64) {
        (Some(json), None) if !bytes => Some(Content::Json(body.slice_ref(json.get().as_bytes()))),
        (None, Some(base64)) => match STANDARD.decode(base64.as_bytes()) {
            Ok(data) => {
                let content_type = content_type.unwrap_or(Cow::Borrowed(OCTETS)).into_owned();
                Some(Content::Bytes { data: data.into(), content_type })
            }
            Err(_) => {
                fields.refuse("payload_base64", "must be standard base64 with padding");
                None
            }
        },
        (Some(_), _) => {
            fields.refuse("payload_base64", "cannot be given together with payload");
            None
        }
        (None, None) => {
            if !bytes {
                fields.refuse("payload", "is required, or payload_base64 in its place");
            }
            None
        }
    }
}

/// `type/subtype`, maybe with parameters, in visible ASCII.
fn is_media_type(text: &str) -> bool {
    let (essence, _) = text.split_once(';').unwrap_or((text, ""));
    let is_token = |token: &str| HeaderName::from_bytes(token.as_bytes()).is_ok();
    text.len() <= MAX_CONTENT_TYPE
        && HeaderValue::from_str(text).is_ok()
        && essence
            .trim()
            .split_once('/')
            .is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype))
}

async fn publish(
    state: &AppState,
    topic: TopicName,
    body: Body,
    Options { due, priority, max_attempts }: Options,
) -> Result<Response, Problem> {
    let (Content::Json(payload) | Content::Bytes { data: payload, .. }) = &body.content;
    if payload.len() as u64 > MAX_PAYLOAD_BYTES {
        let detail = format!("the payload is larger than the topic's {MAX_PAYLOAD_BYTES} bytes");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", detail));
    }
    let message = NewMessage { body, due, priority, max_attempts };
    let Published { id, state: message_state, due_at } =
        state.store.publish(&topic, message).await?;
    let answer = PublishedMessage {
        id: id.to_string(),
        topic,
        state: message_state,
        due_at: format_instant(due_at),
        published_at: format_instant(id.published()),
        duplicate: false,
    };
    let location = [(header::LOCATION, format!("/messages/{id}"))];
    Ok((StatusCode::CREATED, location, super::json(&answer)).into_response())
}
