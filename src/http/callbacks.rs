//! scheduleCallback: a message of dueq's own topic `_callbacks`, for whoever only wants a URL to be called later.

use super::{
    AppState,
    callback_fields::CallbackRequest,
    extract::{NoQuery, Payload},
    input::{Flat, request},
    message_fields::{
        ContentFields, KeyFields, MessageFields, PolicyFields, PublishFields, new_message,
        refuse_own_headers, take_idempotency_header,
    },
    problem::{BodyProblems, CallbackProblems, CommonProblems, Problem, RedisProblems},
    publish::{PublishedMessage, publish},
};
use crate::{
    model::{CallMethod, Callback, DEFAULT_CALL_TIMEOUT_MS, Millis, TopicName},
    store::NewMessage,
};
use axum::{extract::State, response::Response};
use serde_json::json;

request! {
    /// A URL to call later, and what to send. At most one of `payload` and `payload_base64`; without either, the body
    /// is empty. At most one of `delay_ms` and `deliver_at`. The callback is a message in the topic `_callbacks`.
    #[example = json!({"url": "https://example.com/hooks/orders", "payload": {"order": 42}, "delay_ms": 1_800_000})]
    pub struct ScheduleCallbackRequest {
        pub call: Flat<CallbackRequest>,
        pub content: Flat<ContentFields>,
        pub key: Flat<KeyFields>,
        pub policy: Flat<PolicyFields>,
        pub publish: Flat<PublishFields>,
    }
    check(fields) {
        if let Some(content) = &content {
            refuse_own_headers(fields, content.headers.as_ref(), "");
        }
    }
}

impl ScheduleCallbackRequest {
    /// The message that the callback becomes.
    pub(super) fn into_message(self) -> NewMessage {
        let said = Callback::from(self.call.0);
        // In this topic the defaults are known, and a default that is said is the same request as one that is not.
        let plain = Callback {
            method: said.method.filter(|method| *method != CallMethod::default()),
            timeout_ms: said.timeout_ms.filter(|ms| *ms != DEFAULT_CALL_TIMEOUT_MS as Millis),
            ..said.clone()
        };
        let message = MessageFields { content: self.content, key: self.key, policy: self.policy };
        let mut message = new_message(message, Some(self.publish.0), Some(plain));
        message.body.callback = Some(said);
        message
    }
}

/// Have a URL called later.
///
/// Stores a message in dueq's own topic `_callbacks`. dueq sends it to `url` when it is due, and again after a failure.
/// Every message route works on its id. With `idempotency_key` the request is safe to repeat.
#[utoipa::path(
    post, path = "/callbacks", operation_id = "scheduleCallback", tag = "callbacks",
    params(super::extract::IdempotencyKey),
    request_body(content = ScheduleCallbackRequest, description = "The callback"),
    responses(
        (status = 201, description = "The callback is stored", body = PublishedMessage,
            headers(("Location" = String, description = "Path of the message"))),
        (status = 200, description = "An existing callback answers for the request", body = PublishedMessage,
            headers(("Location" = String, description = "Path of the message"))),
        CommonProblems, BodyProblems, CallbackProblems, RedisProblems,
    ),
)]
pub async fn schedule_callback(
    State(state): State<AppState>,
    _: NoQuery,
    payload: Payload,
) -> Result<Response, Problem> {
    let mut fields = payload.json()?;
    take_idempotency_header(&mut fields, &payload.headers);
    let message = fields.read::<ScheduleCallbackRequest>()?.into_message();
    state.check_new_callback(&message.body, String::new)?;
    publish(&state, TopicName::callbacks(), message).await
}

#[cfg(test)]
mod tests {
    use super::{super::input::Fields, *};
    use bytes::Bytes;

    fn of(text: &'static str) -> NewMessage {
        let body = Bytes::from_static(text.as_bytes());
        let request = Fields::of_json(&body).unwrap().read::<ScheduleCallbackRequest>();
        request.unwrap().into_message()
    }

    #[test]
    fn a_default_that_is_said_is_the_same_request() {
        let short = of(r#"{"url":"http://example.com/","idempotency_key":"k"}"#);
        let long = of(r#"{"url":"http://example.com/","method":"POST","timeout_ms":15000,
            "payload_base64":"","idempotency_key":"k"}"#);
        assert_eq!(short.options, long.options);
        assert_ne!(short.body.callback, long.body.callback, "each is shown as it was said");
        let other = of(r#"{"url":"http://example.com/","method":"PUT","idempotency_key":"k"}"#);
        assert_ne!(short.options, other.options);
    }
}
