//! getMessage, deleteMessage, redriveMessage.

use super::{
    AppState,
    extract::{IdPath, Payload, Query},
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
use utoipa::IntoParams;

/// Query parameters of routes that delete.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code, reason = "describes the query; it is read by `read_force`")]
pub struct DeleteParams {
    /// Also what would otherwise be refused: a leased message, or a topic with messages in it.
    #[param(default = false)]
    force: Option<bool>,
}

/// Reads `force`. Errors: 422 where it is neither true nor false, or something else is there.
pub(super) fn read_force(query: &Query) -> Result<bool, Problem> {
    let mut fields = query.fields();
    let force = fields.boolean("force").unwrap_or(false);
    fields.finish()?;
    Ok(force)
}

/// Look at a message.
///
/// All of it as it stands, with its payload and its last 20 events, whatever its state.
#[utoipa::path(
    get, path = "/messages/{id}", operation_id = "getMessage", tag = "messages",
    params(("id" = String, Path, format = Uuid, description = "Id of the message, a UUID")),
    responses(
        (status = 200, description = "The message", body = Message),
        MessageProblems, CommonProblems, RedisProblems,
    ),
)]
pub async fn get_message(
    State(state): State<AppState>,
    IdPath(id): IdPath,
    query: Query,
) -> Result<Response, Problem> {
    query.none()?;
    seeded::keep();
    let (topic, found) = state.store.get(&Which::Id(id)).await?;
    Ok(super::json(&Message::whole(&topic, &found)?).into_response())
}

/// Delete a message.
///
/// From any state but leased: a leased message is its holder's until the lease ends, unless `force` is true.
#[utoipa::path(
    delete, path = "/messages/{id}", operation_id = "deleteMessage", tag = "messages",
    params(("id" = String, Path, format = Uuid, description = "Id of the message, a UUID"), DeleteParams),
    responses(
        (status = 204, description = "The message is gone"),
        MessageProblems, DeleteProblems, CommonProblems, RedisProblems,
    ),
)]
pub async fn delete_message(
    State(state): State<AppState>,
    IdPath(id): IdPath,
    query: Query,
) -> Result<StatusCode, Problem> {
    let force = read_force(&query)?;
    state.store.delete(&Which::Id(id), force).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Make a dead message live again.
///
/// It is ready at once, with as many attempts as a new one; its attempt numbers go on.
#[utoipa::path(
    post, path = "/messages/{id}/redrive", operation_id = "redriveMessage", tag = "messages",
    params(("id" = String, Path, format = Uuid, description = "Id of the message, a UUID")),
    responses(
        (status = 200, description = "The message", body = Message),
        MessageProblems, RedriveProblems, CommonProblems, BodyProblems, RedisProblems,
    ),
)]
pub async fn redrive_message(
    State(state): State<AppState>,
    IdPath(id): IdPath,
    query: Query,
    payload: Payload,
) -> Result<Response, Problem> {
    query.none()?;
    payload.json_or_none()?.finish()?;
    let (topic, found) = state.store.redrive_message(id).await?;
    Ok(super::json(&Message::whole(&topic, &found)?).into_response())
}
