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
use crate::{seeded, store::MessageRef};
use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};

request! {
    /// Query parameters of routes that delete.
    pub struct DeleteParams {
        /// Also delete a leased message, or a topic with messages.
        pub force: bool = false,
    }
}

/// Get a message.
///
/// Returns the message in any state, with its payload and its last 20 events.
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
    let (topic, found) = state.store.get(&MessageRef::Id(id)).await?;
    Ok(super::json(&Message::whole(&topic, &found)?).into_response())
}

/// Delete a message.
///
/// Works in any state except leased. A leased message belongs to its holder until the lease ends, unless `force` is
/// true.
#[utoipa::path(
    delete, path = "/messages/{id}", operation_id = "deleteMessage", tag = "messages",
    params(super::extract::IdPath, DeleteParams),
    responses(
        (status = 204, description = "The message is deleted or acknowledged"),
        MessageProblems, DeleteProblems, CommonProblems, RedisProblems,
    ),
)]
pub async fn delete_message(
    State(state): State<AppState>,
    IdPath(id): IdPath,
    Query(DeleteParams { force }): Query<DeleteParams>,
) -> Result<StatusCode, Problem> {
    state.store.delete(&MessageRef::Id(id), force).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Redrive a dead message.
///
/// The message is ready at once, with as many attempts as a new one. Its attempt numbers continue.
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
