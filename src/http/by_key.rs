//! getMessageByKey, updateMessageByKey, deleteMessageByKey: the same as by id, for whoever kept no id.

use super::{
    AppState,
    extract::{JsonBody, KeyPath, NoQuery, Query},
    message::Message,
    messages::DeleteParams,
    problem::{
        BodyProblems, CommonProblems, DeleteProblems, KeyProblems, Problem, RedisProblems,
        UpdateProblems,
    },
    update::{UpdateMessageRequest, update},
};
use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};

/// Get the live message with a key.
///
/// Like `getMessage`, for the delayed, ready or leased message with this key in the topic.
#[utoipa::path(
    get, path = "/topics/{topic}/keys/{key}", operation_id = "getMessageByKey", tag = "messages",
    params(super::extract::KeyPath),
    responses(
        (status = 200, description = "The message", body = Message),
        KeyProblems, CommonProblems, RedisProblems,
    ),
)]
pub async fn get_message_by_key(
    State(state): State<AppState>,
    KeyPath(which): KeyPath,
    _: NoQuery,
) -> Result<Response, Problem> {
    let (topic, found) = state.store.get(&which).await?;
    Ok(super::json(&Message::whole(&topic, &found)?).into_response())
}

/// Change the live message with a key.
///
/// Like `updateMessage`, for the delayed or ready message with this key in the topic.
#[utoipa::path(
    patch, path = "/topics/{topic}/keys/{key}", operation_id = "updateMessageByKey", tag = "messages",
    params(super::extract::KeyPath),
    request_body(content = UpdateMessageRequest, description = "The changes"),
    responses(
        (status = 200, description = "The changed message", body = Message),
        KeyProblems, CommonProblems, BodyProblems, UpdateProblems, RedisProblems,
    ),
)]
pub async fn update_message_by_key(
    State(state): State<AppState>,
    KeyPath(which): KeyPath,
    _: NoQuery,
    JsonBody(request, _): JsonBody<UpdateMessageRequest>,
) -> Result<Response, Problem> {
    update(&state, which, request).await
}

/// Delete the live message with a key.
///
/// Like `deleteMessage`, for the delayed, ready or leased message with this key in the topic.
#[utoipa::path(
    delete, path = "/topics/{topic}/keys/{key}", operation_id = "deleteMessageByKey", tag = "messages",
    params(super::extract::KeyPath, DeleteParams),
    responses(
        (status = 204, description = "The message is deleted or acknowledged"),
        KeyProblems, DeleteProblems, CommonProblems, RedisProblems,
    ),
)]
pub async fn delete_message_by_key(
    State(state): State<AppState>,
    KeyPath(which): KeyPath,
    Query(DeleteParams { force }): Query<DeleteParams>,
) -> Result<StatusCode, Problem> {
    state.store.delete(&which, force).await?;
    Ok(StatusCode::NO_CONTENT)
}
