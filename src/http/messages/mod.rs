//! What is done with one message, by its id or by its key: getMessage, getMessagePayload, updateMessage, deleteMessage,
//! redriveMessage.

pub(crate) mod by_ids;
pub(crate) mod completion;
pub(crate) mod fields;
pub(crate) mod fingerprint;
pub(crate) mod publish;
pub(crate) mod search;
pub(crate) mod view;
pub(crate) mod wait;

use crate::{
    callbacks::CallbackRequest, messages::view::Message, prelude::*, server::activity::Activity,
};
use axum::{
    Extension,
    http::{HeaderValue, header},
};
use dueq_model::{BodyChange, Callback, Content, MAX_WAIT_MS, OCTETS};
use dueq_store::{MessageRef, MessageUpdate, Topic};
use std::{sync::Arc, time::Duration};

request! {
    /// Query parameters of routes that delete.
    pub struct DeleteParams {
        /// Also delete a leased message, or a topic with messages.
        pub force: bool = false,
    }
}

request! {
    /// Query parameters of getMessage.
    pub struct GetMessageParams {
        /// Wait until the message is acknowledged, dead or gone, for so long at most, ms, up to a minute. Keep it 5 s below every
        /// timeout on the way.
        pub wait_ms: Bounded<0, MAX_WAIT_MS> = Bounded::new(0),
    }
}

/// Get a message.
///
/// Returns the message in any state, with its payload and its last 20 events. With `wait_ms` the request waits until the message
/// has ended: it is acknowledged, dead or gone. After that time it returns what the message is then. 404 says `topic` and
/// `published_at`, of the id, if the topic exists.
#[utoipa::path(
    get, path = "/messages/{id}", tag = "messages", params(IdPath, GetMessageParams),
    responses((status = 200, description = "The message", body = Message), MessageProblems, RedisProblems),
)]
pub async fn get_message(
    cx: Context,
    IdPath(id): IdPath,
    Query(GetMessageParams { wait_ms }): Query<GetMessageParams>,
    activity: Option<Extension<Arc<Activity>>>,
) -> Answer {
    let activity = activity.map(|Extension(activity)| activity);
    let wait = Duration::from_millis(wait_ms.get());
    let is_cut = !wait.is_zero() && Box::pin(wait::until_ended(&cx, id, activity, wait)).await?;
    let got = cx.store.get(&MessageRef::Id(id)).await;
    let close = (header::CONNECTION, HeaderValue::from_static("close"));
    match cx.of_message(&id, got).await {
        Ok((topic, found)) => {
            let mut response =
                json(&Message::whole(&topic, &found, sees_answers(&cx.caller, &topic)));
            response.headers_mut().extend(is_cut.then_some(close));
            Ok(response)
        }
        Err(problem) if is_cut => Err(problem.header(close.0, close.1)),
        Err(problem) => Err(problem),
    }
}

/// Get a message's payload.
///
/// The bytes as they were published, in any state, as a file to download: a browser shows nothing of it and runs nothing in it.
/// A program that parses `payload` from JSON may change numbers and names; this is exact.
#[utoipa::path(
    get, path = "/messages/{id}/payload", tag = "messages", params(IdPath),
    responses(
        (status = 200, description = "The payload", body = crate::openapi::Octets,
            content_type = "application/octet-stream"),
        MessageProblems, RedisProblems,
    ),
)]
pub async fn get_message_payload(cx: Context, IdPath(id): IdPath, _: NoQuery) -> Answer {
    let got = cx.store.get(&MessageRef::Id(id)).await;
    let (_, found) = cx.of_message(&id, got).await?;
    let content = found.body.ok_or(Error::Internal)?.content;
    let extension = if let Content::Json(_) = &content { "json" } else { "bin" };
    let headers = [
        (header::CONTENT_TYPE, OCTETS),
        (header::CONTENT_DISPOSITION, &format!("attachment; filename=\"{id}.{extension}\"")),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, content.payload().clone()).into_response())
}

/// Delete a message.
///
/// Works in any state except leased. A leased message belongs to its holder until the lease ends, unless `force` is
/// true.
#[utoipa::path(
    delete, path = "/messages/{id}", tag = "messages", params(IdPath, DeleteParams),
    responses(
        (status = 204, description = "The message is deleted or acknowledged"),
        MessageProblems, DeleteProblems, RedisProblems,
    ),
)]
pub async fn delete_message(
    cx: Context,
    IdPath(id): IdPath,
    Query(DeleteParams { force }): Query<DeleteParams>,
) -> Result<StatusCode, Problem> {
    let deleted = cx.store.delete(&MessageRef::Id(id), force).await;
    cx.of_message(&id, deleted).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Redrive a dead message.
///
/// The message is ready at once, with as many attempts as a new one. Its attempt numbers continue. In a topic that holds
/// `max_messages` it stays dead.
#[utoipa::path(
    post, path = "/messages/{id}/redrive", tag = "messages", params(IdPath),
    responses(
        (status = 200, description = "The message", body = Message),
        MessageProblems, RedriveProblems, RedisProblems,
    ),
)]
pub async fn redrive_message(cx: Context, IdPath(id): IdPath, _: NoBody) -> Answer {
    let redriven = cx.store.redrive_message(id).await;
    let (topic, found) = cx.of_message(&id, redriven).await?;
    Ok(json(&Message::whole(&topic, &found, sees_answers(&cx.caller, &topic))))
}

/// Get the live message with a key.
///
/// Like `getMessage`, for the delayed, ready or leased message with this key in the topic.
#[utoipa::path(
    get, path = "/topics/{topic}/keys/{key}", tag = "messages", params(KeyPath),
    responses((status = 200, description = "The message", body = Message), KeyProblems, RedisProblems),
)]
pub async fn get_message_by_key(cx: Context, KeyPath(which): KeyPath, _: NoQuery) -> Answer {
    let (topic, found) = cx.store.get(&which).await?;
    Ok(json(&Message::whole(&topic, &found, sees_answers(&cx.caller, &topic))))
}

/// Change the live message with a key.
///
/// Like `updateMessage`, for the delayed or ready message with this key in the topic.
#[utoipa::path(
    patch, path = "/topics/{topic}/keys/{key}", tag = "messages", params(KeyPath),
    request_body(content = UpdateMessageRequest, description = "The changes"),
    responses(
        (status = 200, description = "The changed message", body = Message),
        KeyProblems, UpdateProblems, RedisProblems,
    ),
)]
pub async fn update_message_by_key(
    cx: Context,
    KeyPath(which): KeyPath,
    JsonBody(request, _): JsonBody<UpdateMessageRequest>,
) -> Answer {
    update(&cx, which, request).await
}

/// Delete the live message with a key.
///
/// Like `deleteMessage`, for the delayed, ready or leased message with this key in the topic.
#[utoipa::path(
    delete, path = "/topics/{topic}/keys/{key}", tag = "messages", params(KeyPath, DeleteParams),
    responses(
        (status = 204, description = "The message is deleted or acknowledged"),
        KeyProblems, DeleteProblems, RedisProblems,
    ),
)]
pub async fn delete_message_by_key(
    cx: Context,
    KeyPath(which): KeyPath,
    Query(DeleteParams { force }): Query<DeleteParams>,
) -> Result<StatusCode, Problem> {
    cx.store.delete(&which, force).await?;
    Ok(StatusCode::NO_CONTENT)
}

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
    pub fn into_update(self) -> MessageUpdate {
        let (mut content, policy) = (self.content.0, self.policy.0);
        MessageUpdate {
            due: self.due.due(),
            priority: policy.priority.map(Into::into),
            body: BodyChange {
                content: content.take_content(),
                headers: content.headers.map(|headers| headers.0),
                callback: self.callback.map(Callback::from),
            },
            ttl_ms: policy.life.0.ttl_ms.map(Into::into),
            max_attempts: policy.life.0.max_attempts.map(Into::into),
            backoff: content.backoff.map(Into::into),
            by: String::new(),
        }
    }
}

/// Change a message.
///
/// Changes a delayed or ready message in place: its due time, priority or content. It keeps its id. A dead message
/// takes everything except a due time, for its redrive.
#[utoipa::path(
    patch, path = "/messages/{id}", tag = "messages", params(IdPath),
    request_body(content = UpdateMessageRequest, description = "The changes"),
    responses(
        (status = 200, description = "The changed message", body = Message),
        MessageProblems, UpdateProblems, RedisProblems,
    ),
)]
pub async fn update_message(
    cx: Context,
    IdPath(id): IdPath,
    JsonBody(request, _): JsonBody<UpdateMessageRequest>,
) -> Answer {
    update(&cx, MessageRef::Id(id), request).await
}

/// Changes the message that `which` names.
async fn update(cx: &Context, which: MessageRef, request: UpdateMessageRequest) -> Answer {
    let update = MessageUpdate { by: cx.caller.owner().to_owned(), ..request.into_update() };
    cx.check_callback(update.body.callback.as_ref().and_then(Option::as_ref), "callback")?;
    let updated = cx.store.update(&which, update).await;
    let (topic, found) = match &which {
        MessageRef::Id(id) => cx.of_message(id, updated).await?,
        MessageRef::Key(..) => updated?,
    };
    Ok(json(&Message::whole(&topic, &found, sees_answers(&cx.caller, &topic))))
}

/// May the caller see what receivers answered to requests that carried secrets of this topic, which they may have repeated?
fn sees_answers(caller: &Caller, topic: &Topic) -> bool {
    caller.check_verb(Verb::Configure, &topic.name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::Fields;
    use bytes::Bytes;
    use dueq_model::{Backoff, Content};
    use dueq_store::Due;
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
        assert!(none.due.is_none() && none.body.is_nothing());
        assert!(none.ttl_ms.is_none() && none.max_attempts.is_none() && none.backoff.is_none());
        let reset = read(
            r#"{"ttl_ms":null,"max_attempts":null,"backoff":null,"callback":null,"payload":null}"#,
        )
        .unwrap();
        assert_eq!((reset.ttl_ms, reset.max_attempts), (Some(None), Some(None)));
        assert_eq!((reset.backoff, reset.body.callback), (Some(None), Some(None)));
        assert_eq!(reset.body.content, Some(Content::Json(Bytes::from_static(b"null"))));
        let text =
            r#"{"delay_ms":0,"priority":7,"headers":{},"ttl_ms":5,"max_attempts":3,"backoff":{}}"#;
        let all = read(text).unwrap();
        assert_eq!((all.due, all.priority), (Some(Due::After(0)), Some(7)));
        assert_eq!((all.body.headers, all.ttl_ms), (Some(BTreeMap::new()), Some(Some(5))));
        assert_eq!(
            (all.max_attempts, all.backoff),
            (Some(Some(3)), Some(Some(Backoff::default())))
        );
    }
}
