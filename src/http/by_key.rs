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

/// Look at the live message that has a key.
///
/// As `getMessage`, of the delayed, ready or leased message that has the key in its topic.
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

/// Change the live message that has a key.
///
/// As `updateMessage`, of the delayed or ready message that has the key in its topic.
#[utoipa::path(
    patch, path = "/topics/{topic}/keys/{key}", operation_id = "updateMessageByKey", tag = "messages",
    params(super::extract::KeyPath),
    request_body(content = UpdateMessageRequest, description = "What is to change"),
    responses(
        (status = 200, description = "The message as it is now", body = Message),
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

/// Delete the live message that has a key.
///
/// As `deleteMessage`, of the delayed, ready or leased message that has the key in its topic.
#[utoipa::path(
    delete, path = "/topics/{topic}/keys/{key}", operation_id = "deleteMessageByKey", tag = "messages",
    params(super::extract::KeyPath, DeleteParams),
    responses(
        (status = 204, description = "The message is gone"),
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
