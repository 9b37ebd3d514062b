//! updateMessage: a message changed in place.

use super::{
    AppState,
    backoff::{BackoffRequest, read_backoff},
    callback_fields::{CallbackRequest, read_new_callback, refuse_own_headers},
    extract::{IdPath, Payload, Query},
    fields::Fields,
    message::Message,
    message_fields::{
        read_content, read_due, read_headers, read_max_attempts, read_priority, read_ttl,
    },
    problem::{
        BodyProblems, CommonProblems, MessageProblems, Problem, RedisProblems, UpdateProblems,
    },
};
use crate::store::{MessageUpdate, Which};
use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// What is to change of a message; what is absent stays. At most one of `payload` and `payload_base64`, and of
/// `delay_ms` and `deliver_at`.
#[derive(ToSchema)]
#[schema(example = json!({"delay_ms": 0, "priority": 9}))]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub struct UpdateMessageRequest {
    /// Due this long from now, ms; 0: at once.
    #[schema(nullable = false, minimum = 0, maximum = 315_360_000_000_i64)]
    delay_ms: Option<i64>,
    /// Due at this instant: RFC 3339 with any offset, up to the year 9999. In the past means now.
    #[schema(nullable = false, format = DateTime)]
    deliver_at: Option<String>,
    /// 0…255: among ready messages higher goes first.
    #[schema(nullable = false, minimum = 0, maximum = 255)]
    priority: Option<i64>,
    /// Any JSON value, null included. At most the topic's `max_payload_bytes`.
    #[schema(value_type = super::openapi::AnyJson, required = false)]
    payload: Option<()>,
    /// Bytes in place of `payload`, in standard base64 with padding.
    #[schema(nullable = false, content_encoding = "base64")]
    payload_base64: Option<String>,
    /// Media type of the bytes; only with `payload_base64`.
    #[schema(nullable = false, max_length = 255)]
    content_type: Option<String>,
    /// New headers in place of all that it had. `***` as the value of a secret one keeps what is stored, as long as the
    /// message goes to the same origin.
    #[schema(nullable = false)]
    headers: Option<BTreeMap<String, String>>,
    /// Never granted later than this after it fell due, ms; null: the topic's.
    #[schema(minimum = 1, maximum = 315_360_000_000_i64)]
    ttl_ms: Option<i64>,
    /// Grants that count before it is dead; null: the topic's.
    #[schema(minimum = 1, maximum = 1000)]
    max_attempts: Option<i64>,
    /// How long it waits after a failure; null: the topic's.
    #[schema(value_type = Option<BackoffRequest>)]
    backoff: Option<()>,
    /// Where dueq sends it, only in a pushed topic; null: the topic's `push.url`. Another origin needs the values of the
    /// message's secret headers anew.
    #[schema(value_type = Option<CallbackRequest>)]
    callback: Option<()>,
}

/// Change a message.
///
/// A delayed or ready message is changed in place and keeps its id: due at another time, or now, with another priority
/// or content. A dead one takes all but a due time, for its redrive.
#[utoipa::path(
    patch, path = "/messages/{id}", operation_id = "updateMessage", tag = "messages",
    params(("id" = String, Path, format = Uuid, description = "Id of the message, a UUID")),
    request_body(content = UpdateMessageRequest, description = "What is to change"),
    responses(
        (status = 200, description = "The message as it is now", body = Message),
        MessageProblems, CommonProblems, BodyProblems, UpdateProblems, RedisProblems,
    ),
)]
pub async fn update_message(
    State(state): State<AppState>,
    IdPath(id): IdPath,
    query: Query,
    payload: Payload,
) -> Result<Response, Problem> {
    update(&state, Which::Id(id), &query, &payload).await
}

/// Changes the message that `which` names.
pub(super) async fn update(
    state: &AppState,
    which: Which,
    query: &Query,
    payload: &Payload,
) -> Result<Response, Problem> {
    query.none()?;
    let mut fields = payload.json()?;
    let update = read_update(&mut fields, &payload.bytes);
    fields.finish()?;
    let url = update.callback.as_ref().and_then(|callback| Some(&callback.as_ref()?.url));
    state.check_url(url, || "callback.url".to_owned())?;
    let (topic, found) = state.store.update(&which, update).await?;
    Ok(super::json(&Message::whole(&topic, &found)?).into_response())
}

/// Reads what is to change.
pub(super) fn read_update(fields: &mut Fields<'_>, body: &Bytes) -> MessageUpdate {
    fields.no_nulls(&[
        "delay_ms",
        "deliver_at",
        "priority",
        "payload_base64",
        "content_type",
        "headers",
    ]);
    let callback = fields.or_null("callback", read_new_callback);
    let headers = read_headers(fields);
    if let (Some(Some(_)), Some(headers)) = (&callback, &headers) {
        refuse_own_headers(fields, headers);
    }
    MessageUpdate {
        callback,
        due: read_due(fields),
        priority: read_priority(fields),
        content: read_content(fields, body),
        headers,
        ttl_ms: fields.or_null("ttl_ms", read_ttl),
        max_attempts: fields.or_null("max_attempts", read_max_attempts),
        backoff: fields.or_null("backoff", read_backoff),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::{Backoff, Content},
        store::Due,
    };

    fn read(text: &'static str) -> Result<MessageUpdate, Vec<String>> {
        let body = Bytes::from_static(text.as_bytes());
        let mut fields = Fields::of_json(&body).unwrap();
        let update = read_update(&mut fields, &body);
        let named = |problem: Problem| problem.body("").errors.into_iter().map(|e| e.field);
        fields.finish().map_err(|problem| named(problem).collect::<Vec<_>>())?;
        Ok(update)
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
