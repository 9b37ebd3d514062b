//! scheduleCallback: a message of dueq's own topic `_callbacks`, for whoever only wants a URL to be called later.

use super::{
    AppState,
    backoff::BackoffRequest,
    callback_fields::read_call,
    extract::{Payload, Query},
    fields::Fields,
    message_fields::{
        IdempotencyParams, read_content, read_idempotency_header, read_said, with_idempotency,
    },
    problem::{BodyProblems, CommonProblems, Problem, RedisProblems, problem_responses},
    publish::{KeyUntil, OnDuplicate, PublishedMessage, publish},
};
use crate::{
    model::{
        Body, CallMethod, Callback, Content, DEFAULT_CALL_TIMEOUT_MS, Millis, SigningSecret,
        TopicName,
    },
    store::NewMessage,
};
use axum::{extract::State, response::Response};
use bytes::Bytes;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A URL to call later, and what is sent to it. At most one of `payload` and `payload_base64`: without one the body is
/// empty. At most one of `delay_ms` and `deliver_at`.
#[derive(ToSchema)]
#[schema(example = json!({"url": "https://example.com/hooks/orders", "payload": {"order": 42}, "delay_ms": 1_800_000}))]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub struct ScheduleCallbackRequest {
    /// An absolute http or https URL without user and password, of a host that dueq may call.
    #[schema(format = "uri", max_length = 2048)]
    url: String,
    /// The method; POST unless given.
    method: Option<CallMethod>,
    /// How long the call may take, ms.
    #[schema(minimum = 100, maximum = 1_800_000, default = 15_000)]
    timeout_ms: Option<i64>,
    /// Headers whose values are never read back, beside `authorization` and `cookie`, at most 32.
    #[schema(max_items = 32)]
    secret_headers: Option<Vec<String>>,
    /// What the call is signed with, per Standard Webhooks: `whsec_` and 24 to 64 bytes in base64. Without it the server's
    /// secrets sign, if it has any. It is never read back.
    secret: Option<String>,
    /// Any JSON value; it is sent byte for byte as it came. At most 262144 bytes.
    #[schema(value_type = super::openapi::AnyJson, required = false)]
    payload: Option<()>,
    /// Bytes in place of `payload`, in standard base64 with padding.
    #[schema(content_encoding = "base64", example = "aGVsbG8=")]
    payload_base64: Option<String>,
    /// Media type of the bytes, `application/octet-stream` unless given; only with `payload_base64`.
    #[schema(max_length = 255)]
    content_type: Option<String>,
    /// Due this long after Redis takes it, ms; at once unless given.
    #[schema(minimum = 0, maximum = 315_360_000_000_i64)]
    delay_ms: Option<i64>,
    /// Due at this instant: RFC 3339 with any offset, up to the year 9999. In the past means now.
    #[schema(format = DateTime)]
    deliver_at: Option<String>,
    /// 0…255: among callbacks that are due higher goes first.
    #[schema(minimum = 0, maximum = 255, default = 0)]
    priority: Option<i64>,
    /// The callback's own name. It belongs to one live callback at a time.
    #[schema(min_length = 1, max_length = 255, example = "order-42")]
    key: Option<String>,
    /// What happens when a live callback has the key; `return` unless given. Only with `key`.
    on_duplicate: Option<OnDuplicate>,
    /// How long the key is held; `done` unless given. Only with `key`.
    key_until: Option<KeyUntil>,
    /// Makes the request safe to repeat: for ten minutes the first answer is repeated. The header `Idempotency-Key` is
    /// the same.
    #[schema(min_length = 1, max_length = 255)]
    idempotency_key: Option<String>,
    /// Never sent later than this after it first fell due, ms; for ever unless given.
    #[schema(minimum = 1, maximum = 315_360_000_000_i64)]
    ttl_ms: Option<i64>,
    /// Calls that count before it is dead.
    #[schema(minimum = 1, maximum = 1000, default = 10)]
    max_attempts: Option<i64>,
    /// How long it waits after a failed call.
    #[schema(value_type = Option<BackoffRequest>)]
    backoff: Option<()>,
    /// Up to 32 headers of 8 KiB together: names are HTTP tokens, values legal in HTTP. Not `host`, `content-length`,
    /// `content-type`, hop-by-hop ones, `webhook-*` and `dueq-*`.
    headers: Option<BTreeMap<String, String>>,
}

problem_responses! {
    /// What scheduling a callback can answer.
    CallbackProblems:
    409 "`duplicate_key`: another callback has the key; `message_leased`: it is being called, so it cannot be replaced",
    413 "`payload_too_large`: the payload is larger than 262144 bytes; `body_too_large`: the body is larger than the \
        server takes",
    422 "`invalid_input`: an unknown or repeated field or query parameter, or a value that is not allowed; \
        `callback_address_refused`: dueq may not call this address; \
        `idempotency_key_reused`: the key came with another callback before",
    507 "`topics_exhausted`: no more topics can be made in this Redis",
}

/// Have a URL called later.
///
/// Stores a message in dueq's own topic `_callbacks`, which dueq sends to `url` once it is due, and again after a failure.
/// Every message route works on its id. With `idempotency_key` it is safe to repeat.
#[utoipa::path(
    post, path = "/callbacks", operation_id = "scheduleCallback", tag = "callbacks",
    params(IdempotencyParams),
    request_body(content = ScheduleCallbackRequest, description = "The callback"),
    responses(
        (status = 201, description = "The callback is stored", body = PublishedMessage,
            headers(("Location" = String, description = "Where to look at it"))),
        (status = 200, description = "An existing callback answers for it", body = PublishedMessage,
            headers(("Location" = String, description = "Where to look at it"))),
        CommonProblems, BodyProblems, CallbackProblems, RedisProblems,
    ),
)]
pub async fn schedule_callback(
    State(state): State<AppState>,
    query: Query,
    payload: Payload,
) -> Result<Response, Problem> {
    query.none()?;
    let mut fields = payload.json()?;
    let key = read_idempotency_header(&mut fields, &payload.headers);
    let message = read(&mut fields, &payload.bytes, key);
    fields.finish()?;
    let url = message.body.callback.as_ref().map(|callback| &callback.url);
    state.check_url(url, || "url".to_owned())?;
    publish(&state, TopicName::callbacks(), message).await
}

/// Reads a callback as the message that it becomes.
pub(super) fn read(fields: &mut Fields<'_>, body: &Bytes, header: Option<String>) -> NewMessage {
    let said = read_call(fields, SigningSecret::parse);
    let content = read_content(fields, body).unwrap_or_else(Content::nothing);
    // In this topic the defaults are known, and a default that is said is the same request as one that is not.
    let plain = said.clone().map(|callback| Callback {
        method: callback.method.filter(|method| *method != CallMethod::default()),
        timeout_ms: callback.timeout_ms.filter(|ms| *ms != DEFAULT_CALL_TIMEOUT_MS as Millis),
        ..callback
    });
    let asked = Body { callback: plain, ..Body::new(content, BTreeMap::new()) };
    let message = read_said(fields, asked);
    let mut message = with_idempotency(message, fields, header);
    message.body.callback = said;
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &'static str) -> NewMessage {
        let body = Bytes::from_static(text.as_bytes());
        let mut fields = Fields::of_json(&body).unwrap();
        let message = read(&mut fields, &body, Some("k".to_owned()));
        assert!(fields.finish().is_ok(), "{text}");
        message
    }

    #[test]
    fn a_default_that_is_said_is_the_same_request() {
        let short = of(r#"{"url":"http://example.com/"}"#);
        let long = of(r#"{"url":"http://example.com/","method":"POST","timeout_ms":15000,
            "payload_base64":""}"#);
        assert_eq!(short.options, long.options);
        assert_ne!(short.body.callback, long.body.callback, "each is shown as it was said");
        let other = of(r#"{"url":"http://example.com/","method":"PUT"}"#);
        assert_ne!(short.options, other.options);
    }
}
