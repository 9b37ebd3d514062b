//! getMessage and deleteMessage.

use super::{
    AppState,
    extract::{IdPath, Query},
    problem::{CommonProblems, MessageProblems, Problem, ProblemBody, RedisProblems},
};
use crate::{
    error::Error,
    model::{Content, MessageId, State as MessageState, TopicName, format_instant},
};
use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A message as it stands.
#[derive(Serialize, ToSchema)]
pub struct Message<'a> {
    /// Its id.
    #[schema(value_type = String, format = Uuid)]
    id: MessageId,
    /// Its topic.
    #[schema(value_type = String, example = "orders")]
    topic: &'a TopicName,
    /// Where it is in its life.
    state: MessageState,
    /// The payload byte for byte as it was sent, if it is JSON.
    #[schema(value_type = super::openapi::AnyJson, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
    /// The payload in base64, if it is bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, content_encoding = "base64")]
    payload_base64: Option<String>,
    /// Media type of the bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    content_type: Option<&'a str>,
    /// The publisher's headers.
    headers: &'a BTreeMap<String, String>,
    /// 0…255.
    #[schema(minimum = 0, maximum = 255)]
    priority: u8,
    /// Grants so far.
    attempts: i64,
    /// Counted grants that are left.
    attempts_left: i64,
    /// When it was published.
    #[schema(format = DateTime)]
    published_at: String,
    /// When it falls or fell due; for `delayed` and `ready`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = DateTime)]
    due_at: Option<String>,
    /// When its lease ends; for `leased`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = DateTime)]
    lease_expires_at: Option<String>,
}

/// A payload as answers show it.
pub(super) struct RenderedContent<'a> {
    pub payload: Option<&'a RawValue>,
    pub payload_base64: Option<String>,
    pub content_type: Option<&'a str>,
}

impl<'a> RenderedContent<'a> {
    /// Errors: where what is stored as JSON is none, which is a defect.
    pub fn of(content: &'a Content) -> Result<Self, Problem> {
        match content {
            Content::Json(json) => {
                let payload = serde_json::from_slice(json).map_err(|_| Error::Internal)?;
                Ok(Self { payload: Some(payload), payload_base64: None, content_type: None })
            }
            Content::Bytes { data, content_type } => Ok(Self {
                payload: None,
                payload_base64: Some(STANDARD.encode(data)),
                content_type: Some(content_type),
            }),
        }
    }
}

/// Look at a message.
#[utoipa::path(
    get, path = "/messages/{id}", operation_id = "getMessage", tag = "messages",
    params(("id" = String, Path, format = Uuid, description = "Id of the message")),
    responses(
        (status = 200, description = "The message", body = Message),
        MessageProblems,
        CommonProblems, RedisProblems,
    ),
)]
pub async fn get_message(
    State(state): State<AppState>,
    IdPath(id): IdPath,
    query: Query,
) -> Result<Response, Problem> {
    query.none()?;
    let (topic, found) = state.store.get(id).await?;
    let content = RenderedContent::of(&found.body.content)?;
    let due = matches!(found.state, MessageState::Delayed | MessageState::Ready);
    let leased = found.state == MessageState::Leased;
    let message = Message {
        id,
        topic: &topic.name,
        state: found.state,
        payload: content.payload,
        payload_base64: content.payload_base64,
        content_type: content.content_type,
        headers: &found.body.headers,
        priority: found.priority,
        attempts: found.attempts,
        attempts_left: found.attempts_left,
        published_at: format_instant(id.published()),
        due_at: due.then(|| format_instant(found.at)),
        lease_expires_at: leased.then(|| format_instant(found.at)),
    };
    Ok(super::json(&message).into_response())
}

/// Delete a message.
///
/// From any state but leased: a leased message is its holder's until the lease ends.
#[utoipa::path(
    delete, path = "/messages/{id}", operation_id = "deleteMessage", tag = "messages",
    params(("id" = String, Path, format = Uuid, description = "Id of the message")),
    responses(
        (status = 204, description = "The message is gone"),
        MessageProblems,
        (status = 409, description = "`message_leased`: somebody holds it", body = ProblemBody,
            content_type = "application/problem+json"),
        CommonProblems, RedisProblems,
    ),
)]
pub async fn delete_message(
    State(state): State<AppState>,
    IdPath(id): IdPath,
    query: Query,
) -> Result<StatusCode, Problem> {
    query.none()?;
    state.store.delete(id).await?;
    Ok(StatusCode::NO_CONTENT)
}
