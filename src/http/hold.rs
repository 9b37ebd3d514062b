//! ackMessage, nackMessage, extendLease: what the holder of a lease can do.

use super::{
    AppState,
    extract::{IdPath, JsonBody, NoQuery},
    input::{DelayMs, Flat, LeaseMs, LeaseToken, Text, given, request},
    instant::Instant,
    problem::{BodyProblems, CommonProblems, LeaseProblems, Problem, RedisProblems},
};
use crate::model::{MAX_REASON_CHARS, MessageId, State as MessageState};
use crate::store::{self, NackKind, Nacked};
use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

request! {
    /// The lease to acknowledge.
    #[example = json!({"lease_token": "AAAAAZr2nVoBmi3FQ1YAAM0xJ8yfHqJv"})]
    pub struct AckRequest {
        /// The token of the lease.
        pub lease_token: LeaseToken,
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
        let delay_ms = delay_ms.map(DelayMs::millis);
        let reason = reason.map(Text::into_string);
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

/// A message after its nack.
#[derive(Serialize, ToSchema)]
pub struct NackedMessage {
    /// The message.
    #[schema(value_type = String, format = Uuid)]
    id: MessageId,
    /// `delayed`, `ready`, `dead` if its attempts are used up, or `expired` if its time to live is over.
    state: MessageState,
    /// When it is due again, RFC 3339 in UTC with ms. Absent if dead or expired.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    due_at: Option<Instant>,
    /// Number of the attempt that ended.
    #[schema(value_type = i64, minimum = 1)]
    attempt: u32,
}

/// A lease after its extension.
#[derive(Serialize, ToSchema)]
pub struct ExtendedLease {
    /// The message.
    #[schema(value_type = String, format = Uuid)]
    id: MessageId,
    /// Time left of the lease when this answer was sent, ms.
    lease_ms: i64,
    /// When the lease ends, RFC 3339 in UTC with ms.
    #[schema(value_type = String, format = DateTime)]
    lease_expires_at: Instant,
}

/// Acknowledge a message.
///
/// Ends the message's life. Repeating the ack with the same token is safe: 404 then means that the first ack succeeded.
/// If the topic keeps acknowledged messages, the answer is 204 again.
#[utoipa::path(
    post, path = "/messages/{id}/ack", operation_id = "ackMessage", tag = "leases",
    params(super::extract::IdPath),
    request_body(content = AckRequest, description = "The lease token"),
    responses(
        (status = 204, description = "The message is deleted or acknowledged"),
        LeaseProblems, CommonProblems, BodyProblems, RedisProblems,
    ),
)]
pub async fn ack_message(
    State(state): State<AppState>,
    IdPath(id): IdPath,
    _: NoQuery,
    JsonBody(request, _): JsonBody<AckRequest>,
) -> Result<StatusCode, Problem> {
    state.store.ack(id, &request.lease_token).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Give a lease back.
///
/// The message is due again after `delay_ms`, or after its backoff. It is dead if its attempts are used up, or at once
/// with `dead`. With `release` the message was not worked on, and the attempt does not count.
#[utoipa::path(
    post, path = "/messages/{id}/nack", operation_id = "nackMessage", tag = "leases",
    params(super::extract::IdPath),
    request_body(content = NackRequest, description = "The lease token, and when to try again"),
    responses(
        (status = 200, description = "The lease has ended", body = NackedMessage),
        LeaseProblems, CommonProblems, BodyProblems, RedisProblems,
    ),
)]
pub async fn nack_message(
    State(state): State<AppState>,
    IdPath(id): IdPath,
    _: NoQuery,
    JsonBody(request, _): JsonBody<NackRequest>,
) -> Result<Response, Problem> {
    let nacked = state.store.nack(id, &request.lease_token, request.nack.0.into()).await?;
    let Nacked { state, due_at, attempt } = nacked;
    let answer = NackedMessage { id, state, due_at: due_at.map(Instant), attempt };
    Ok(super::json(&answer).into_response())
}

/// Extend a lease.
///
/// The lease lasts `lease_ms` from now. It never gets shorter, and never exceeds 12 h in total.
#[utoipa::path(
    post, path = "/messages/{id}/extend", operation_id = "extendLease", tag = "leases",
    params(super::extract::IdPath),
    request_body(content = ExtendRequest, description = "The lease token and the new duration"),
    responses(
        (status = 200, description = "The extended lease", body = ExtendedLease),
        LeaseProblems, CommonProblems, BodyProblems, RedisProblems,
    ),
)]
pub async fn extend_lease(
    State(state): State<AppState>,
    IdPath(id): IdPath,
    _: NoQuery,
    JsonBody(request, _): JsonBody<ExtendRequest>,
) -> Result<Response, Problem> {
    let extended = state.store.extend(id, &request.lease_token, request.lease_ms.get()).await?;
    let lease_expires_at = Instant(extended.lease_expires_at);
    let answer = ExtendedLease { id, lease_ms: extended.lease_ms, lease_expires_at };
    Ok(super::json(&answer).into_response())
}

#[cfg(test)]
mod tests {
    use super::{super::input::Fields, *};
    use bytes::Bytes;

    /// What is wrong with a nack, or what it becomes.
    fn read(text: &str) -> (Option<store::NackRequest>, Vec<String>) {
        let body = Bytes::copy_from_slice(text.as_bytes());
        match Fields::of_json(&body).unwrap().read::<NackFields>() {
            Ok(nack) => (Some(nack.into()), vec![]),
            Err(problem) => {
                (None, problem.body("").errors.into_iter().map(|error| error.field).collect())
            }
        }
    }

    #[test]
    fn a_nack_says_how_the_lease_ends() {
        let request = |kind, delay_ms, reason: Option<&str>| {
            let reason = reason.map(str::to_owned);
            (Some(store::NackRequest { kind, delay_ms, reason, ..Default::default() }), vec![])
        };
        assert_eq!(read("{}"), request(NackKind::Failed, None, None));
        let text = r#"{"dead":true,"reason":"no","delay_ms":null}"#;
        assert_eq!(read(text), request(NackKind::Dead, None, Some("no")));
        let text = r#"{"release":true,"dead":false,"delay_ms":5}"#;
        assert_eq!(read(text), request(NackKind::Released, Some(5), None));
    }

    #[test]
    fn a_nack_that_contradicts_itself_is_refused() {
        assert_eq!(read(r#"{"dead":true,"release":true}"#).1, ["release"]);
        assert_eq!(read(r#"{"dead":true,"delay_ms":0}"#).1, ["delay_ms"]);
        let long = format!("{{\"reason\":\"{}\"}}", "é".repeat(1_025));
        assert_eq!(read(&long).1, ["reason"]);
        let fits = format!("{{\"reason\":\"{}\"}}", "é".repeat(1_024));
        assert!(read(&fits).1.is_empty());
    }
}
