//! ackBatch, nackBatch, extendBatch: what the holder of many leases can do in one request.

use super::{
    AppState,
    extract::{Payload, Query},
    hold::{read_lease_ms, read_nack},
    instant::Instant,
    lease::read_ack,
    problem::{BodyProblems, CommonProblems, Problem, outcome_of},
};
use crate::model::{MessageId, State as MessageState};
use crate::store::{Extended, Nacked};
use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;

macro_rules! batches {
    ($($(#[$doc:meta])* $request:ident of $item:ident, $response:ident of $result:ident;)*) => {$(
        $(#[$doc])*
        #[derive(ToSchema)]
        #[serde(deny_unknown_fields)]
        #[allow(dead_code, reason = "describes the body; it is read field by field")]
        pub struct $request {
            /// The messages, 1 to 1000.
            #[schema(min_items = 1, max_items = 1000)]
            messages: Vec<$item>,
        }

        /// What became of the messages of a batch.
        #[derive(Serialize, ToSchema)]
        pub struct $response {
            /// One entry for each message of the request, in order.
            results: Vec<$result>,
        }
    )*};
}

batches! {
    /// Messages to acknowledge.
    AckBatchRequest of AckBatchItem, AckBatchResponse of AckResult;
    /// Leases to give back.
    NackBatchRequest of NackBatchItem, NackBatchResponse of NackResult;
    /// Leases to make longer.
    ExtendBatchRequest of ExtendBatchItem, ExtendBatchResponse of ExtendResult;
}

/// A message to acknowledge.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub struct AckBatchItem {
    /// The message.
    #[schema(format = Uuid)]
    id: String,
    /// The token that its lease came with.
    #[schema(max_length = 64)]
    lease_token: String,
}

/// A lease to give back.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub struct NackBatchItem {
    /// The message.
    #[schema(format = Uuid)]
    id: String,
    /// The token that its lease came with.
    #[schema(max_length = 64)]
    lease_token: String,
    /// Due again after this many ms; otherwise as the backoff policy says, or at once with `release`.
    #[schema(minimum = 0, maximum = 315_360_000_000_i64)]
    delay_ms: Option<i64>,
    /// Why, up to 1024 characters; it is kept with the message.
    #[schema(max_length = 1024)]
    reason: Option<String>,
    /// The message is dead at once; not with `delay_ms` or `release`.
    #[schema(default = false)]
    dead: Option<bool>,
    /// It is given back unworked: the attempt does not count.
    #[schema(default = false)]
    release: Option<bool>,
}

/// A lease to make longer.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub struct ExtendBatchItem {
    /// The message.
    #[schema(format = Uuid)]
    id: String,
    /// The token that its lease came with.
    #[schema(max_length = 64)]
    lease_token: String,
    /// That long from now, ms: never shorter than it was, never past 12 h from the grant.
    #[schema(minimum = 1000, maximum = 43_200_000)]
    lease_ms: i64,
}

/// What became of an ack.
#[derive(Serialize, ToSchema)]
pub struct AckResult {
    /// The message.
    #[schema(value_type = String, format = Uuid)]
    id: MessageId,
    /// `ok`, or the `code` that an ack of its own would have had: `lease_lost`, `message_not_found`, `redis_unavailable`,
    /// `outcome_unknown`.
    #[schema(value_type = String, example = "ok")]
    status: &'static str,
}

/// What became of a nack.
#[derive(Serialize, ToSchema)]
pub struct NackResult {
    /// The message.
    #[schema(value_type = String, format = Uuid)]
    id: MessageId,
    /// `ok`, or the `code` that a nack of its own would have had: `lease_lost`, `message_not_found`, `redis_unavailable`,
    /// `outcome_unknown`.
    #[schema(value_type = String, example = "ok")]
    status: &'static str,
    /// `delayed`, `ready`, `dead` or `expired`; only for `ok`, like `due_at` and `attempt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = MessageState, required = false)]
    state: Option<MessageState>,
    /// When it is due again, RFC 3339 in UTC with ms; absent when dead or expired.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    due_at: Option<Instant>,
    /// Number of the grant that ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, minimum = 1, required = false)]
    attempt: Option<u32>,
}

/// What became of an extension.
#[derive(Serialize, ToSchema)]
pub struct ExtendResult {
    /// The message.
    #[schema(value_type = String, format = Uuid)]
    id: MessageId,
    /// `ok`, or the `code` that an extension of its own would have had: `lease_lost`, `message_not_found`, `redis_unavailable`,
    /// `outcome_unknown`.
    #[schema(value_type = String, example = "ok")]
    status: &'static str,
    /// Time left of the lease when this was answered, ms; only for `ok`, like `lease_expires_at`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    lease_ms: Option<i64>,
    /// When the lease ends, RFC 3339 in UTC with ms; only for `ok`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    lease_expires_at: Option<Instant>,
}

/// Acknowledge messages.
///
/// Up to 1000, of whatever topics. What becomes of each is answered in `results`, and none fails the others.
#[utoipa::path(
    post, path = "/messages/ack", operation_id = "ackBatch", tag = "leases",
    request_body(content = AckBatchRequest, description = "The messages and their leases' tokens"),
    responses(
        (status = 200, description = "What became of each", body = AckBatchResponse),
        CommonProblems, BodyProblems,
    ),
)]
pub async fn ack_batch(
    State(state): State<AppState>,
    query: Query,
    payload: Payload,
) -> Result<Response, Problem> {
    query.none()?;
    let mut fields = payload.json()?;
    let acks = fields.batch(read_ack);
    fields.finish()?;
    let outcomes = state.store.ack_batch(&acks).await;
    let result = |((id, _), outcome): (&(MessageId, String), _)| AckResult {
        id: *id,
        status: outcome_of(outcome),
    };
    let results = acks.iter().zip(&outcomes).map(result).collect();
    Ok(super::json(&AckBatchResponse { results }).into_response())
}

/// Give leases back.
///
/// Up to 1000, of whatever topics, each as `nackMessage` would. What becomes of each is answered in `results`, and none
/// fails the others.
#[utoipa::path(
    post, path = "/messages/nack", operation_id = "nackBatch", tag = "leases",
    request_body(content = NackBatchRequest, description = "The leases, and what becomes of the messages"),
    responses(
        (status = 200, description = "What became of each", body = NackBatchResponse),
        CommonProblems, BodyProblems,
    ),
)]
pub async fn nack_batch(
    State(state): State<AppState>,
    query: Query,
    payload: Payload,
) -> Result<Response, Problem> {
    query.none()?;
    let mut fields = payload.json()?;
    let nacks = fields.batch(|fields| {
        let (holder, request) = (read_ack(fields), read_nack(fields));
        holder.map(|(id, token)| (id, token, request))
    });
    fields.finish()?;
    let ids: Vec<_> = nacks.iter().map(|(id, ..)| *id).collect();
    let outcomes = state.store.nack_batch(nacks).await;
    let result = |(id, outcome): (_, &Result<Nacked, _>)| {
        let nacked = outcome.as_ref().ok();
        NackResult {
            id,
            status: outcome_of(outcome),
            state: nacked.map(|nacked| nacked.state),
            due_at: nacked.and_then(|nacked| nacked.due_at).map(Instant),
            attempt: nacked.map(|nacked| nacked.attempt),
        }
    };
    let results = ids.into_iter().zip(&outcomes).map(result).collect();
    Ok(super::json(&NackBatchResponse { results }).into_response())
}

/// Make leases longer.
///
/// Up to 1000, of whatever topics, each as `extendLease` would. What becomes of each is answered in `results`, and none
/// fails the others.
#[utoipa::path(
    post, path = "/messages/extend", operation_id = "extendBatch", tag = "leases",
    request_body(content = ExtendBatchRequest, description = "The leases, and how long each is wanted"),
    responses(
        (status = 200, description = "What became of each", body = ExtendBatchResponse),
        CommonProblems, BodyProblems,
    ),
)]
pub async fn extend_batch(
    State(state): State<AppState>,
    query: Query,
    payload: Payload,
) -> Result<Response, Problem> {
    query.none()?;
    let mut fields = payload.json()?;
    let extends = fields.batch(|fields| {
        let (holder, lease_ms) = (read_ack(fields), read_lease_ms(fields));
        holder.zip(lease_ms).map(|((id, token), lease_ms)| (id, token, lease_ms))
    });
    fields.finish()?;
    let ids: Vec<_> = extends.iter().map(|(id, ..)| *id).collect();
    let outcomes = state.store.extend_batch(extends).await;
    let result = |(id, outcome): (_, &Result<Extended, _>)| {
        let lease = outcome.as_ref().ok();
        ExtendResult {
            id,
            status: outcome_of(outcome),
            lease_ms: lease.map(|lease| lease.lease_ms),
            lease_expires_at: lease.map(|lease| Instant(lease.lease_expires_at)),
        }
    };
    let results = ids.into_iter().zip(&outcomes).map(result).collect();
    Ok(super::json(&ExtendBatchResponse { results }).into_response())
}
