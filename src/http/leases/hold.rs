//! What the holder of a lease can do, and the holder of many in one request: ack, nack, extend.

use super::lease::{HeldLease, LeaseAck};
use crate::prelude::*;
use dueq_model::{MAX_REASON_CHARS, MAX_RESULT_BYTES, MessageId, State as MessageState};
use dueq_store::{self as store, Ack, Extend, Extended, Nack, NackKind, Nacked, Settle};

request! {
    /// The lease to acknowledge.
    #[example = json!({"lease_token": "AAAAAZr2nVoBmi3FQ1YAAM0xJ8yfHqJv"})]
    pub struct AckRequest {
        /// The token of the lease.
        pub lease_token: LeaseToken,
        pub done: Flat<DoneFields>,
    }
}

request! {
    /// What came of a message.
    pub struct DoneFields {
        /// Any JSON value up to 64 KiB; null is the same as none. It is kept while the acknowledged message is, and published with
        /// its completion (`on_done`).
        pub result: AnyValue,
    }
    check(fields) {
        if result.as_ref().is_some_and(|it| it.0.as_ref().is_some_and(|it| it.len() > MAX_RESULT_BYTES)) {
            fields.refuse("result", format!("must be at most {MAX_RESULT_BYTES} bytes of JSON"));
        }
    }
}

impl From<DoneFields> for Ack {
    fn from(DoneFields { result }: DoneFields) -> Self {
        Self { result: result.0.filter(|it| &it[..] != b"null"), ..Self::default() }
    }
}

request! {
    /// The lease to give back, why, and when to try again.
    #[example = json!({"lease_token": "AAAAAZr2nVoBmi3FQ1YAAM0xJ8yfHqJv", "delay_ms": 10_000, "reason": "the shop is closed"})]
    pub struct NackRequest {
        /// The token of the lease.
        pub lease_token: LeaseToken,
        pub nack: Flat<NackFields>,
    }
}

request! {
    /// What becomes of a message that is given back.
    pub struct NackFields {
        /// Delay before the message is due again, ms. Default: by its backoff, or at once with `release`.
        pub delay_ms: Option<DelayMs>,
        /// Why it failed, up to 1024 characters. Stored with the message.
        pub reason: Option<Text<0, MAX_REASON_CHARS>>,
        /// The message is dead at once, whatever attempts are left. Not with `delay_ms` or `release`.
        pub dead: bool = false,
        /// The message was not worked on: the attempt does not count.
        pub release: bool = false,
    }
    check(fields) {
        if dead == Some(true) && release == Some(true) {
            fields.refuse("release", "cannot be given together with dead");
        }
        if dead == Some(true) && given(&delay_ms) {
            fields.refuse("delay_ms", "cannot be given together with dead");
        }
    }
}

impl From<NackFields> for store::NackRequest {
    fn from(NackFields { delay_ms, reason, dead, release }: NackFields) -> Self {
        let kind = match (dead, release) {
            (true, _) => NackKind::Dead,
            (_, true) => NackKind::Released,
            _ => NackKind::Failed,
        };
        let (delay_ms, reason) = (delay_ms.map(DelayMs::millis), reason.map(Text::into_string));
        Self { delay_ms, reason, kind, ..Self::default() }
    }
}

request! {
    /// The lease token and the new duration.
    #[example = json!({"lease_token": "AAAAAZr2nVoBmi3FQ1YAAM0xJ8yfHqJv", "lease_ms": 60_000})]
    pub struct ExtendRequest {
        /// The token of the lease.
        pub lease_token: LeaseToken,
        /// New duration, counted from now, ms. A lease never gets shorter, and never exceeds 12 h in total.
        pub lease_ms: LeaseMs,
    }
}

answer! {
    /// A message after its nack.
    pub struct NackedMessage {
        /// The message.
        id: MessageId,
        /// `delayed`, `ready`, `dead` if its attempts are used up, or `expired` if its time to live is over.
        state: MessageState,
        /// When it is due again, RFC 3339 in UTC with ms. Absent if dead or expired.
        due_at: Option<Instant>,
        /// Number of the attempt that ended.
        attempt: u32,
    }
}

answer! {
    /// A lease after its extension.
    pub struct ExtendedLease {
        /// The message.
        id: MessageId,
        /// Time left of the lease when this answer was sent, ms.
        lease_ms: i64,
        /// When the lease ends, RFC 3339 in UTC with ms.
        lease_expires_at: Instant,
    }
}

/// Acknowledge a message.
///
/// Ends the message's life. Repeating the ack with the same token is safe: 404 then means that the first ack succeeded.
/// If the topic keeps acknowledged messages, the answer is 204 again.
#[utoipa::path(
    post, path = "/messages/{id}/ack", tag = "leases", params(IdPath),
    request_body(content = AckRequest, description = "The lease token"),
    responses((status = 204, description = "The message is deleted or acknowledged"), LeaseProblems, RedisProblems),
)]
pub async fn ack_message(
    cx: Context,
    IdPath(id): IdPath,
    JsonBody(request, _): JsonBody<AckRequest>,
) -> Result<StatusCode, Problem> {
    let acked = cx.store.settle(id, &request.lease_token, Ack::from(request.done.0)).await;
    cx.of_message(&id, acked).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Give a lease back.
///
/// The message is due again after `delay_ms`, or after its backoff. It is dead if its attempts are used up, or at once
/// with `dead`. With `release` the message was not worked on, and the attempt does not count.
#[utoipa::path(
    post, path = "/messages/{id}/nack", tag = "leases", params(IdPath),
    request_body(content = NackRequest, description = "The lease token, and when to try again"),
    responses((status = 200, description = "The lease has ended", body = NackedMessage), LeaseProblems, RedisProblems),
)]
pub async fn nack_message(
    cx: Context,
    IdPath(id): IdPath,
    JsonBody(request, _): JsonBody<NackRequest>,
) -> Result<Response, Problem> {
    let nack = Nack::Asked(request.nack.0.into());
    let nacked = cx.store.settle(id, &request.lease_token, nack).await;
    let Nacked { state, due_at, attempt } = cx.of_message(&id, nacked).await?;
    Ok(json(&NackedMessage { id, state, due_at: due_at.map(Instant), attempt }))
}

/// Extend a lease.
///
/// The lease lasts `lease_ms` from now. It never gets shorter, and never exceeds 12 h in total.
#[utoipa::path(
    post, path = "/messages/{id}/extend", tag = "leases", params(IdPath),
    request_body(content = ExtendRequest, description = "The lease token and the new duration"),
    responses((status = 200, description = "The extended lease", body = ExtendedLease), LeaseProblems, RedisProblems),
)]
pub async fn extend_lease(
    cx: Context,
    IdPath(id): IdPath,
    JsonBody(request, _): JsonBody<ExtendRequest>,
) -> Result<Response, Problem> {
    let extend = Extend { lease_ms: request.lease_ms.get(), shortens: false };
    let extended = cx.store.settle(id, &request.lease_token, extend).await;
    let Extended { lease_ms, lease_expires_at } = cx.of_message(&id, extended).await?;
    Ok(json(&ExtendedLease { id, lease_ms, lease_expires_at: Instant(lease_expires_at) }))
}

/// Requests of many items, and their answers.
macro_rules! batches {
    ($($(#[doc = $doc:expr])* $Request:ident of $Item:ident $(or $other:literal)?, $Response:ident of $Result:ident;)*) => {$(
        request! {
            $(#[doc = $doc])*
            pub struct $Request {
                /// The messages, 1 to 1000.
                pub messages: Batch<$Item>,
            }
            $(also($other, "messages"))?
        }

        answer! {
            /// The result of a batch.
            pub struct $Response {
                /// One entry for each message of the request, in order.
                results: Vec<$Result>,
            }
        }
    )*};
}

batches! {
    /// Messages to acknowledge.
    AckBatchRequest of AckBatchItem or "acks", AckBatchResponse of AckResult;
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
        pub lease: Flat<HeldLease>,
        pub nack: Flat<NackFields>,
    }
}

request! {
    /// A lease to extend.
    pub struct ExtendBatchItem {
        pub lease: Flat<HeldLease>,
        /// New duration, counted from now, ms. A lease never gets shorter, and never exceeds 12 h in total.
        pub lease_ms: LeaseMs,
    }
}

answer! {
    /// The result of an ack.
    pub struct AckResult {
        /// The message.
        id: MessageId,
        /// `ok`, or the `code` that a single ack would get: `lease_lost`, `message_not_found`, `not_allowed`,
        /// `redis_unavailable`, `outcome_unknown`.
        #[example = "ok"]
        status: &'static str,
    }
}

answer! {
    /// The result of a nack.
    pub struct NackResult {
        /// The message.
        id: MessageId,
        /// `ok`, or the `code` that a single nack would get: `lease_lost`, `message_not_found`, `not_allowed`,
        /// `redis_unavailable`, `outcome_unknown`.
        #[example = "ok"]
        status: &'static str,
        /// `delayed`, `ready`, `dead` or `expired`; only for `ok`, like `due_at` and `attempt`.
        state: Option<MessageState>,
        /// When it is due again, RFC 3339 in UTC with ms. Absent if dead or expired.
        due_at: Option<Instant>,
        /// Number of the attempt that ended.
        attempt: Option<u32>,
    }
}

answer! {
    /// The result of an extend.
    pub struct ExtendResult {
        /// The message.
        id: MessageId,
        /// `ok`, or the `code` that a single extend would get: `lease_lost`, `message_not_found`, `not_allowed`,
        /// `redis_unavailable`, `outcome_unknown`.
        #[example = "ok"]
        status: &'static str,
        /// Time left of the lease when this answer was sent, ms. Only for `ok`, like `lease_expires_at`.
        lease_ms: Option<i64>,
        /// When the lease ends, RFC 3339 in UTC with ms; only for `ok`.
        lease_expires_at: Option<Instant>,
    }
}

/// Acknowledge messages.
///
/// Up to 1000, from any topic. `results` has one entry for each; none fails the others.
#[utoipa::path(
    post, path = "/messages/ack", tag = "leases",
    request_body(content = AckBatchRequest, description = "The messages and their lease tokens"),
    responses((status = 200, description = "The result for each", body = AckBatchResponse)),
)]
pub async fn ack_batch(
    cx: Context,
    trace: Trace,
    JsonBody(request, _): JsonBody<AckBatchRequest>,
) -> Answer {
    let acks = request.messages.0.into_iter().map(|it| it.ack.0.settled()).collect();
    let results = settle_batch(&cx, &trace, acks, |id, status, _| AckResult { id, status }).await;
    Ok(json(&AckBatchResponse { results }))
}

/// Carries out what the holders of these leases ask for, as far as the caller may.
pub async fn settle_all<W: Settle>(
    state: &AppState,
    caller: &Caller,
    all: Vec<(MessageId, String, W)>,
) -> Vec<Result<W::Outcome, Error>> {
    let settle = async |all: Vec<_>| state.store.settle_all(&all).await;
    caller.on_permitted(&state.store, all, |(id, ..)| *id, settle).await
}

/// Does it for a batch. The result of each item: its status and, where it is `ok`, what came of it.
async fn settle_batch<W: Settle, R>(
    cx: &Context,
    trace: &Trace,
    all: Vec<(MessageId, String, W)>,
    result: impl Fn(MessageId, &'static str, Option<W::Outcome>) -> R,
) -> Vec<R> {
    trace.counts(all.len());
    let ids: Vec<_> = all.iter().map(|(id, ..)| *id).collect();
    let outcomes = ids.into_iter().zip(settle_all(cx, &cx.caller, all).await);
    outcomes.map(|(id, outcome)| result(id, outcome_of(&outcome), outcome.ok())).collect()
}

/// Give leases back.
///
/// Up to 1000, from any topic, each as by `nackMessage`. `results` has one entry for each; none fails the others.
#[utoipa::path(
    post, path = "/messages/nack", tag = "leases",
    request_body(content = NackBatchRequest, description = "The leases, and when to try again"),
    responses((status = 200, description = "The result for each", body = NackBatchResponse)),
)]
pub async fn nack_batch(
    cx: Context,
    trace: Trace,
    JsonBody(request, _): JsonBody<NackBatchRequest>,
) -> Answer {
    let nack = |NackBatchItem { lease, nack }| lease.0.with(Nack::Asked(nack.0.into()));
    let nacks = request.messages.0.into_iter().map(nack).collect();
    let result = |id, status, nacked: Option<Nacked>| NackResult {
        id,
        status,
        state: nacked.as_ref().map(|nacked| nacked.state),
        due_at: nacked.as_ref().and_then(|nacked| nacked.due_at).map(Instant),
        attempt: nacked.map(|nacked| nacked.attempt),
    };
    let results = settle_batch(&cx, &trace, nacks, result).await;
    Ok(json(&NackBatchResponse { results }))
}

/// Extend leases.
///
/// Up to 1000, from any topic, each as by `extendLease`. `results` has one entry for each; none fails the others.
#[utoipa::path(
    post, path = "/messages/extend", tag = "leases",
    request_body(content = ExtendBatchRequest, description = "The leases and their new durations"),
    responses((status = 200, description = "The result for each", body = ExtendBatchResponse)),
)]
pub async fn extend_batch(
    cx: Context,
    trace: Trace,
    JsonBody(request, _): JsonBody<ExtendBatchRequest>,
) -> Answer {
    let extend = |ExtendBatchItem { lease, lease_ms }| {
        lease.0.with(Extend { lease_ms: lease_ms.get(), shortens: false })
    };
    let extends = request.messages.0.into_iter().map(extend).collect();
    let result = |id, status, lease: Option<Extended>| ExtendResult {
        id,
        status,
        lease_ms: lease.as_ref().map(|lease| lease.lease_ms),
        lease_expires_at: lease.map(|lease| Instant(lease.lease_expires_at)),
    };
    let results = settle_batch(&cx, &trace, extends, result).await;
    Ok(json(&ExtendBatchResponse { results }))
}
