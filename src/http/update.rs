//! updateMessage: a message changed in place.

use super::{
    AppState,
    callback_fields::CallbackRequest,
    extract::{IdPath, JsonBody, NoQuery},
    input::{Changes, DurationMs, Resettable, request},
    message::Message,
    message_fields::{ContentFields, DueFields, PolicyFields, refuse_own_headers},
    problem::{
        BodyProblems, CommonProblems, MessageProblems, Problem, RedisProblems, UpdateProblems,
    },
};
use crate::{
    model::{Backoff, Callback},
    store::{MessageRef, MessageUpdate},
};
use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use serde_json::json;

request! {
    /// The changes to a message. Absent fields stay. At most one of `payload` and `payload_base64`, and at most one of
    /// `delay_ms` and `deliver_at`. Headers replace all existing ones. Null resets `ttl_ms`, `max_attempts`, `backoff`
    /// and `callback` to the topic's.
    #[example = json!({"delay_ms": 0, "priority": 9})]
    pub struct UpdateMessageRequest {
        pub content: Changes<ContentFields>,
        pub due: Changes<DueFields>,
        pub policy: Changes<PolicyFields>,
        /// Where dueq sends the message. Only in a pushed topic. A new origin needs the values of the message's secret
        /// headers again.
        pub callback: Resettable<CallbackRequest>,
    }
    check(fields) {
        if matches!(callback, None | Some(Resettable(Some(Some(_))))) {
            let headers = content.as_ref().and_then(|content| content.headers.as_ref());
            refuse_own_headers(fields, headers, "");
        }
    }
}

impl UpdateMessageRequest {
    pub(super) fn into_update(self) -> MessageUpdate {
        let (mut content, policy) = (self.content.0, self.policy.0);
        MessageUpdate {
            due: self.due.due(),
            priority: policy.priority.map(|priority| priority.get() as u8),
            content: content.take_content(),
            headers: content.headers.map(|headers| headers.0),
            callback: self.callback.map(Callback::from),
            ttl_ms: policy.life.0.ttl_ms.map(DurationMs::millis),
            max_attempts: policy.life.0.max_attempts.map(|attempts| attempts.get() as u16),
            backoff: content.backoff.map(Backoff::from),
        }
    }
}

/// Change a message.
///
/// Changes a delayed or ready message in place: its due time, priority or content. It keeps its id. A dead message
/// takes everything except a due time, for its redrive.
#[utoipa::path(
    patch, path = "/messages/{id}", operation_id = "updateMessage", tag = "messages",
    params(super::extract::IdPath),
    request_body(content = UpdateMessageRequest, description = "The changes"),
    responses(
        (status = 200, description = "The changed message", body = Message),
        MessageProblems, CommonProblems, BodyProblems, UpdateProblems, RedisProblems,
    ),
)]
pub async fn update_message(
    State(state): State<AppState>,
    IdPath(id): IdPath,
    _: NoQuery,
    JsonBody(request, _): JsonBody<UpdateMessageRequest>,
) -> Result<Response, Problem> {
    update(&state, MessageRef::Id(id), request).await
}

/// Changes the message that `which` names.
pub(super) async fn update(
    state: &AppState,
    which: MessageRef,
    request: UpdateMessageRequest,
) -> Result<Response, Problem> {
    let update = request.into_update();
    let url = update.callback.as_ref().and_then(|callback| Some(&callback.as_ref()?.url));
    state.check_url(url, || "callback.url".to_owned())?;
    let (topic, found) = state.store.update(&which, update).await?;
    Ok(super::json(&Message::whole(&topic, &found)?).into_response())
}

#[cfg(test)]
mod tests {
    use super::{super::input::Fields, *};
    use crate::{
        model::{Backoff, Content},
        store::Due,
    };
    use bytes::Bytes;
    use std::collections::BTreeMap;

    fn read(text: &'static str) -> Result<MessageUpdate, Vec<String>> {
        let body = Bytes::from_static(text.as_bytes());
        let request = Fields::of_json(&body).unwrap().read::<UpdateMessageRequest>();
        let named = |problem: Problem| problem.body("").errors.into_iter().map(|e| e.field);
        request.map(UpdateMessageRequest::into_update).map_err(|problem| named(problem).collect())
    }

    #[test]
    fn absent_stays_and_null_is_the_topics() {
        let none = read("{}").unwrap();
        assert!(none.due.is_none() && none.content.is_none() && none.headers.is_none());
        assert!(none.ttl_ms.is_none() && none.max_attempts.is_none() && none.backoff.is_none());
        let reset = read(
            r#"{"ttl_ms":null,"max_attempts":null,"backoff":null,"callback":null,"payload":null}"#,
        )
        .unwrap();
        assert_eq!((reset.ttl_ms, reset.max_attempts), (Some(None), Some(None)));
        assert_eq!((reset.backoff, reset.callback), (Some(None), Some(None)));
        assert_eq!(reset.content, Some(Content::Json(Bytes::from_static(b"null"))));
        let text =
            r#"{"delay_ms":0,"priority":7,"headers":{},"ttl_ms":5,"max_attempts":3,"backoff":{}}"#;
        let all = read(text).unwrap();
        assert_eq!((all.due, all.priority), (Some(Due::After(0)), Some(7)));
        assert_eq!((all.headers, all.ttl_ms), (Some(BTreeMap::new()), Some(Some(5))));
        assert_eq!(
            (all.max_attempts, all.backoff),
            (Some(Some(3)), Some(Some(Backoff::default())))
        );
    }

    #[test]
    fn other_nulls_and_contradictions_are_refused() {
        for (text, field) in [
            (r#"{"delay_ms":null}"#, "delay_ms"),
            (r#"{"priority":null}"#, "priority"),
            (r#"{"headers":null}"#, "headers"),
            (r#"{"payload_base64":null}"#, "payload_base64"),
            (r#"{"content_type":"a/b"}"#, "content_type"),
            (r#"{"payload":1,"payload_base64":""}"#, "payload_base64"),
            (r#"{"delay_ms":1,"deliver_at":"2026-01-01T00:00:00Z"}"#, "deliver_at"),
            (r#"{"key":"a"}"#, "key"),
            (r#"{"callback":{}}"#, "callback.url"),
            (r#"{"callback":{"url":"http://a.test/"},"headers":{"te":"x"}}"#, "headers.te"),
            (r#"{"ttl_ms":0}"#, "ttl_ms"),
        ] {
            assert_eq!(read(text).map(drop), Err(vec![field.to_owned()]), "{text}");
        }
    }
}
