//! getMessage, deleteMessage, redriveMessage.

use super::{
    AppState,
    extract::{IdPath, NoQuery, Nothing, OptionalJsonBody, Query},
    input::request,
    message::Message,
    problem::{
        BodyProblems, CommonProblems, DeleteProblems, MessageProblems, Problem, RedisProblems,
        RedriveProblems,
    },
};
use crate::{seeded, store::Which};
use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};

request! {
    /// Query parameters of routes that delete.
    pub struct DeleteParams {
        /// Also what would otherwise be refused: a leased message, or a topic with messages in it.
        pub force: bool = false,
    }
}

/// Look at a message.
///
/// All of it as it stands, with its payload and its last 20 events, whatever its state.
#[utoipa::path(
    get, path = "/messages/{id}", operation_id = "getMessage", tag = "messages",
    params(super::extract::IdPath),
    responses(
        (status = 200, description = "The message", body = Message),
        MessageProblems, CommonProblems, RedisProblems,
    ),
)]
pub async fn get_message(
    State(state): State<AppState>,
    IdPath(id): IdPath,
    _: NoQuery,
) -> Result<Response, Problem> {
    seeded::keep();
    let (topic, found) = state.store.get(&Which::Id(id)).await?;
    Ok(super::json(&Message::whole(&topic, &found)?).into_response())
}

/// Delete a message.
///
/// From any state but leased: a leased message is its holder's until the lease ends, unless `force` is true.
#[utoipa::path(
    delete, path = "/messages/{id}", operation_id = "deleteMessage", tag = "messages",
    params(super::extract::IdPath, DeleteParams),
    responses(
        (status = 204, description = "The message is gone"),
        MessageProblems, DeleteProblems, CommonProblems, RedisProblems,
    ),
)]
pub async fn delete_message(
    State(state): State<AppState>,
    IdPath(id): IdPath,
    Query(DeleteParams { force }): Query<DeleteParams>,
) -> Result<StatusCode, Problem> {
    state.store.delete(&Which::Id(id), force).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Make a dead message live again.
///
/// It is ready at once, with as many attempts as a new one; its attempt numbers go on.
#[utoipa::path(
    post, path = "/messages/{id}/redrive", operation_id = "redriveMessage", tag = "messages",
    params(super::extract::IdPath),
    responses(
        (status = 200, description = "The message", body = Message),
        MessageProblems, RedriveProblems, CommonProblems, BodyProblems, RedisProblems,
    ),
)]
pub async fn redrive_message(
    State(state): State<AppState>,
    IdPath(id): IdPath,
    _: NoQuery,
    _: OptionalJsonBody<Nothing>,
) -> Result<Response, Problem> {
    let (topic, found) = state.store.redrive_message(id).await?;
    Ok(super::json(&Message::whole(&topic, &found)?).into_response())
}
