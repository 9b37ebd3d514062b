//! ackMessage, nackMessage, extendLease: what the holder of a lease can do.

use super::{
    AppState,
    extract::{IdPath, Payload, Query},
    lease::read_token,
    problem::{BodyProblems, CommonProblems, LeaseProblems, Problem, RedisProblems},
};
use crate::model::{
    LEASE_CAP_MS, MAX_DELAY_MS, MIN_LEASE_MS, MessageId, State as MessageState, format_instant,
};
use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;

/// Who acknowledges.
#[derive(ToSchema)]
#[schema(example = json!({"lease_token": "AAAAAZr2nVoBmi3FQ1YAAM0xJ8yfHqJv"}))]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub struct AckRequest {
    /// The token that the lease came with.
    #[schema(max_length = 64)]
    lease_token: String,
}

/// Who gives a lease back, and when the message is due again.
#[derive(ToSchema)]
#[schema(example = json!({"lease_token": "AAAAAZr2nVoBmi3FQ1YAAM0xJ8yfHqJv", "delay_ms": 10_000}))]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub struct NackRequest {
    /// The token that the lease came with.
    #[schema(max_length = 64)]
    lease_token: String,
    /// Due again after this many ms; otherwise as the backoff policy says.
    #[schema(minimum = 0, maximum = 315_360_000_000_i64)]
    delay_ms: Option<i64>,
}

/// Whose lease is to last how long from now.
#[derive(ToSchema)]
#[schema(example = json!({"lease_token": "AAAAAZr2nVoBmi3FQ1YAAM0xJ8yfHqJv", "lease_ms": 60_000}))]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub struct ExtendRequest {
    /// The token that the lease came with.
    #[schema(max_length = 64)]
    lease_token: String,
    /// That long from now, ms: never shorter than it was, never past 12 h from the grant.
    #[schema(minimum = 1000, maximum = 43_200_000)]
    lease_ms: i64,
}

/// Where a message is after its nack.
#[derive(Serialize, ToSchema)]
pub struct NackedMessage {
    /// The message.
    #[schema(value_type = String, format = Uuid)]
    id: MessageId,
    /// `delayed`, `ready`, or `dead` when its attempts are used up.
    state: MessageState,
    /// When it is due again; absent when dead.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = DateTime)]
    due_at: Option<String>,
    /// Number of the grant that ended.
    #[schema(value_type = i64, minimum = 1)]
    attempt: u32,
}

/// A lease after its extension.
#[derive(Serialize, ToSchema)]
pub struct ExtendedLease {
    /// The message.
    #[schema(value_type = String, format = Uuid)]
    id: MessageId,
    /// Time left, ms.
    lease_ms: i64,
    /// When the lease ends.
    #[schema(format = DateTime)]
    lease_expires_at: String,
}

/// Acknowledge a message.
///
/// The message is done and gone. For a client that repeats an ack, 404 means that the first was carried out.
#[utoipa::path(
    post, path = "/messages/{id}/ack", operation_id = "ackMessage", tag = "leases",
    params(("id" = String, Path, format = Uuid, description = "Id of the message")),
    request_body(content = AckRequest, description = "The lease's token"),
    responses(
        (status = 204, description = "The message is gone"),
        LeaseProblems, CommonProblems, BodyProblems, RedisProblems,
    ),
)]
pub async fn ack_message(
    State(state): State<AppState>,
    IdPath(id): IdPath,
    query: Query,
    payload: Payload,
) -> Result<StatusCode, Problem> {
    query.none()?;
    let mut fields = payload.json()?;
    let token = read_token(&mut fields);
    fields.finish()?;
    state.store.ack(id, &token.unwrap_or_default()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Give a lease back.
///
/// The message is due again after `delay_ms`, or as its backoff policy says; it is dead when its attempts are used up.
#[utoipa::path(
    post, path = "/messages/{id}/nack", operation_id = "nackMessage", tag = "leases",
    params(("id" = String, Path, format = Uuid, description = "Id of the message")),
    request_body(content = NackRequest, description = "The lease's token, and when to try again"),
    responses(
        (status = 200, description = "The lease has ended", body = NackedMessage),
        LeaseProblems, CommonProblems, BodyProblems, RedisProblems,
    ),
)]
pub async fn nack_message(
    State(state): State<AppState>,
    IdPath(id): IdPath,
    query: Query,
    payload: Payload,
) -> Result<Response, Problem> {
    query.none()?;
    let mut fields = payload.json()?;
    let token = read_token(&mut fields);
    let delay = fields.integer("delay_ms", 0..=MAX_DELAY_MS).map(|delay| delay as i64);
    fields.finish()?;
    let (nacked, attempt) = state.store.nack(id, &token.unwrap_or_default(), delay).await?;
    let due_at = nacked.due_at.map(format_instant);
    Ok(super::json(&NackedMessage { id, state: nacked.state, due_at, attempt }).into_response())
}

/// Make a lease longer.
///
/// That long from now, never shorter than it was, and never past 12 h from the grant.
#[utoipa::path(
    post, path = "/messages/{id}/extend", operation_id = "extendLease", tag = "leases",
    params(("id" = String, Path, format = Uuid, description = "Id of the message")),
    request_body(content = ExtendRequest, description = "The lease's token, and how long it is wanted"),
    responses(
        (status = 200, description = "The lease as it is now", body = ExtendedLease),
        LeaseProblems, CommonProblems, BodyProblems, RedisProblems,
    ),
)]
pub async fn extend_lease(
    State(state): State<AppState>,
    IdPath(id): IdPath,
    query: Query,
    payload: Payload,
) -> Result<Response, Problem> {
    query.none()?;
    let mut fields = payload.json()?;
    let token = read_token(&mut fields);
    let lease_ms = fields.integer("lease_ms", MIN_LEASE_MS..=LEASE_CAP_MS);
    let lease_ms = fields.required("lease_ms", lease_ms);
    fields.finish()?;
    let token = token.unwrap_or_default();
    let extended = state.store.extend(id, &token, lease_ms.unwrap_or(MIN_LEASE_MS)).await?;
    let lease_expires_at = format_instant(extended.lease_expires_at);
    let answer = ExtendedLease { id, lease_ms: extended.lease_ms, lease_expires_at };
    Ok(super::json(&answer).into_response())
}
