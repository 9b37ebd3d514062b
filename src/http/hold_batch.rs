//! ackBatch, nackBatch, extendBatch: what the holder of many leases can do in one request.

use super::{
    AppState,
    extract::{JsonBody, NoQuery},
    hold::NackFields,
    input::{Batch, Flat, LeaseMs, request},
    instant::Instant,
    lease::LeaseAck,
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
    ($($(#[doc = $doc:expr])* $request:ident of $item:ident, $response:ident of $result:ident;)*) => {$(
        request! {
            $(#[doc = $doc])*
            pub struct $request {
                /// The messages, 1 to 1000.
                pub messages: Batch<$item>,
            }
        }

        /// The result of a batch.
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
    /// Leases to extend.
    ExtendBatchRequest of ExtendBatchItem, ExtendBatchResponse of ExtendResult;
}

request! {
    /// A message to acknowledge.
    pub struct AckBatchItem {
        pub ack: Flat<LeaseAck>,
    }
}

request! {
    /// A lease to give back.
    pub struct NackBatchItem {
        pub ack: Flat<LeaseAck>,
        pub nack: Flat<NackFields>,
    }
}

request! {
    /// A lease to extend.
    pub struct ExtendBatchItem {
        pub ack: Flat<LeaseAck>,
        /// New duration, counted from now, ms. A lease never gets shorter, and never exceeds 12 h in total.
        pub lease_ms: LeaseMs,
    }
}

/// The result of an ack.
#[derive(Serialize, ToSchema)]
pub struct AckResult {
    /// The message.
    #[schema(value_type = String, format = Uuid)]
    id: MessageId,
    /// `ok`, or the `code` that a single ack would get: `lease_lost`, `message_not_found`, `redis_unavailable`,
    /// `outcome_unknown`.
    #[schema(value_type = String, example = "ok")]
    status: &'static str,
}

/// The result of a nack.
#[derive(Serialize, ToSchema)]
pub struct NackResult {
    /// The message.
    #[schema(value_type = String, format = Uuid)]
    id: MessageId,
    /// `ok`, or the `code` that a single nack would get: `lease_lost`, `message_not_found`, `redis_unavailable`,
    /// `outcome_unknown`.
    #[schema(value_type = String, example = "ok")]
    status: &'static str,
    /// `delayed`, `ready`, `dead` or `expired`; only for `ok`, like `due_at` and `attempt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = MessageState, required = false)]
    state: Option<MessageState>,
    /// When it is due again, RFC 3339 in UTC with ms. Absent if dead or expired.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    due_at: Option<Instant>,
    /// Number of the attempt that ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, minimum = 1, required = false)]
    attempt: Option<u32>,
}

/// The result of an extend.
#[derive(Serialize, ToSchema)]
pub struct ExtendResult {
    /// The message.
    #[schema(value_type = String, format = Uuid)]
    id: MessageId,
    /// `ok`, or the `code` that a single extend would get: `lease_lost`, `message_not_found`, `redis_unavailable`,
    /// `outcome_unknown`.
    #[schema(value_type = String, example = "ok")]
    status: &'static str,
    /// Time left of the lease when this answer was sent, ms. Only for `ok`, like `lease_expires_at`.
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
/// Up to 1000, from any topic. `results` has one entry for each; none fails the others.
#[utoipa::path(
    post, path = "/messages/ack", operation_id = "ackBatch", tag = "leases",
    request_body(content = AckBatchRequest, description = "The messages and their lease tokens"),
    responses(
        (status = 200, description = "The result for each", body = AckBatchResponse),
        CommonProblems, BodyProblems,
    ),
)]
pub async fn ack_batch(
    State(state): State<AppState>,
    _: NoQuery,
    JsonBody(request, _): JsonBody<AckBatchRequest>,
) -> Result<Response, Problem> {
    let pairs = request.messages.0.into_iter().map(|item| item.ack.0.into_pair());
    let acks: Vec<_> = pairs.collect();
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
/// Up to 1000, from any topic, each as by `nackMessage`. `results` has one entry for each; none fails the others.
#[utoipa::path(
    post, path = "/messages/nack", operation_id = "nackBatch", tag = "leases",
    request_body(content = NackBatchRequest, description = "The leases, and when to try again"),
    responses(
        (status = 200, description = "The result for each", body = NackBatchResponse),
        CommonProblems, BodyProblems,
    ),
)]
pub async fn nack_batch(
    State(state): State<AppState>,
    _: NoQuery,
    JsonBody(request, _): JsonBody<NackBatchRequest>,
) -> Result<Response, Problem> {
    let nack = |NackBatchItem { ack, nack }| {
        let (id, token) = ack.0.into_pair();
        (id, token, nack.0.into())
    };
    let nacks: Vec<_> = request.messages.0.into_iter().map(nack).collect();
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

/// Extend leases.
///
/// Up to 1000, from any topic, each as by `extendLease`. `results` has one entry for each; none fails the others.
#[utoipa::path(
    post, path = "/messages/extend", operation_id = "extendBatch", tag = "leases",
    request_body(content = ExtendBatchRequest, description = "The leases and their new durations"),
    responses(
        (status = 200, description = "The result for each", body = ExtendBatchResponse),
        CommonProblems, BodyProblems,
    ),
)]
pub async fn extend_batch(
    State(state): State<AppState>,
    _: NoQuery,
    JsonBody(request, _): JsonBody<ExtendBatchRequest>,
) -> Result<Response, Problem> {
    let extend = |ExtendBatchItem { ack, lease_ms }| {
        let (id, token) = ack.0.into_pair();
        (id, token, lease_ms.get())
    };
    let extends: Vec<_> = request.messages.0.into_iter().map(extend).collect();
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
