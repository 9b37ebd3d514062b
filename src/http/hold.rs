//! ackMessage, nackMessage, extendLease: what the holder of a lease can do.

use super::{
    AppState,
    extract::{IdPath, Payload, Query},
    fields::Fields,
    instant::Instant,
    lease::read_token,
    problem::{BodyProblems, CommonProblems, LeaseProblems, Problem, RedisProblems},
};
use crate::model::{
    LEASE_CAP_MS, MAX_DELAY_MS, MAX_REASON_CHARS, MIN_LEASE_MS, MessageId, Millis,
    State as MessageState,
};
use crate::store::{self, NackKind, Nacked};
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

/// Who gives a lease back, why, and what becomes of the message.
#[derive(ToSchema)]
#[schema(example = json!({"lease_token": "AAAAAZr2nVoBmi3FQ1YAAM0xJ8yfHqJv", "delay_ms": 10_000, "reason": "the shop is closed"}))]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub struct NackRequest {
    /// The token that the lease came with.
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
    /// `delayed`, `ready`, `dead` when its attempts are used up, or `expired` when its time is over.
    state: MessageState,
    /// When it is due again, RFC 3339 in UTC with ms; absent when dead or expired.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    due_at: Option<Instant>,
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
    /// Time left of the lease when this was answered, ms.
    lease_ms: i64,
    /// When the lease ends, RFC 3339 in UTC with ms.
    #[schema(value_type = String, format = DateTime)]
    lease_expires_at: Instant,
}

/// Reads what a nack says, its token apart.
pub(super) fn read_nack(fields: &mut Fields<'_>) -> store::NackRequest {
    let delay_ms = fields.integer("delay_ms", 0..=MAX_DELAY_MS).map(|delay| delay as Millis);
    let reason = fields.string("reason", 0..=MAX_REASON_CHARS).map(|reason| reason.into_owned());
    let dead = fields.boolean("dead").unwrap_or(false);
    let release = fields.boolean("release").unwrap_or(false);
    if dead && release {
        fields.refuse("release", "cannot be given together with dead");
    }
    if dead && delay_ms.is_some() {
        fields.refuse("delay_ms", "cannot be given together with dead");
    }
    let kind = match (dead, release) {
        (true, _) => NackKind::Dead,
        (_, true) => NackKind::Released,
        _ => NackKind::Failed,
    };
    store::NackRequest { delay_ms, reason, kind, ..Default::default() }
}

/// Reads how long a lease is wanted.
pub(super) fn read_lease_ms(fields: &mut Fields<'_>) -> Option<u64> {
    let lease_ms = fields.integer("lease_ms", MIN_LEASE_MS..=LEASE_CAP_MS);
    fields.required("lease_ms", lease_ms)
}

/// Acknowledge a message.
///
/// The message is done and gone. Repeating it with the same token is safe: 404 means then that the first ack was carried
/// out; where the topic keeps acknowledged messages it is 204 again.
#[utoipa::path(
    post, path = "/messages/{id}/ack", operation_id = "ackMessage", tag = "leases",
    params(("id" = String, Path, format = Uuid, description = "Id of the message, a UUID")),
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
/// The message is due again after `delay_ms`, or as its backoff policy says; it is dead when its attempts are used up,
/// or at once with `dead`. With `release` it is given back unworked, and the attempt does not count.
#[utoipa::path(
    post, path = "/messages/{id}/nack", operation_id = "nackMessage", tag = "leases",
    params(("id" = String, Path, format = Uuid, description = "Id of the message, a UUID")),
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
    let request = read_nack(&mut fields);
    fields.finish()?;
    let nacked = state.store.nack(id, &token.unwrap_or_default(), request).await?;
    let Nacked { state, due_at, attempt } = nacked;
    let answer = NackedMessage { id, state, due_at: due_at.map(Instant), attempt };
    Ok(super::json(&answer).into_response())
}

/// Make a lease longer.
///
/// It lasts `lease_ms` from now, never shorter than it was, and never past 12 h from the grant.
#[utoipa::path(
    post, path = "/messages/{id}/extend", operation_id = "extendLease", tag = "leases",
    params(("id" = String, Path, format = Uuid, description = "Id of the message, a UUID")),
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
    let lease_ms = read_lease_ms(&mut fields).unwrap_or(MIN_LEASE_MS);
    fields.finish()?;
    let extended = state.store.extend(id, &token.unwrap_or_default(), lease_ms).await?;
    let lease_expires_at = Instant(extended.lease_expires_at);
    let answer = ExtendedLease { id, lease_ms: extended.lease_ms, lease_expires_at };
    Ok(super::json(&answer).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (store::NackRequest, Vec<String>) {
        let mut fields = Fields::of_json(text.as_bytes()).unwrap();
        let request = read_nack(&mut fields);
        let errors = fields.finish().err().map(|problem| problem.body("").errors);
        (request, errors.into_iter().flatten().map(|error| error.field).collect())
    }

    #[test]
    fn a_nack_says_how_the_lease_ends() {
        let request = |kind, delay_ms, reason: Option<&str>| {
            let reason = reason.map(str::to_owned);
            (store::NackRequest { kind, delay_ms, reason, ..Default::default() }, vec![])
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
