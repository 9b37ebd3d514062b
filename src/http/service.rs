//! Health, readiness, metrics and the OpenAPI document, for operators and tools.

use super::{
    AppState,
    extract::NoQuery,
    openapi::OpenapiDocument,
    problem::{Code, CommonProblems, Problem, ReadinessProblems},
};
use crate::{error::Error, store::Store};
use axum::{
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use utoipa::ToSchema;

/// How long a health check of Redis answers further requests.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The latest health check of Redis, and when it was made.
#[derive(Default)]
pub(super) struct HealthCheck(Mutex<Option<(Instant, RedisHealth)>>);

/// The warnings about a Redis that can serve, or the reason why it cannot.
type RedisHealth = Result<Vec<&'static str>, String>;

impl HealthCheck {
    /// Returns the health of Redis, at most a second old. Concurrent requests wait for the same check.
    async fn health(&self, store: &Store) -> RedisHealth {
        let mut latest = self.0.lock().await;
        match &*latest {
            Some((at, health)) if at.elapsed() < CHECK_INTERVAL => health.clone(),
            _ => {
                let health = store.health().await;
                *latest = Some((Instant::now(), health.clone()));
                health
            }
        }
    }
}

/// The server is well.
#[derive(Serialize, ToSchema)]
pub struct Health {
    /// Always `ok`.
    #[schema(example = "ok")]
    status: &'static str,
    /// What dueq cannot guarantee on this Redis, in words. Absent if there is nothing to warn about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false, value_type = Vec<String>)]
    warnings: Vec<&'static str>,
}

impl Health {
    fn answer(warnings: Vec<&'static str>) -> Response {
        super::json(&Self { status: "ok", warnings }).into_response()
    }
}

/// Check that the process is alive.
///
/// Needs no key and does not ask Redis.
#[utoipa::path(
    get, path = "/healthz", operation_id = "getHealth", tag = "service", security(()),
    responses((status = 200, description = "The process is alive", body = Health), CommonProblems),
)]
pub async fn get_health(_: NoQuery) -> Result<Response, Problem> {
    Ok(Health::answer(Vec::new()))
}

/// Check that the server is ready.
///
/// Ready means that Redis answers, is not loading, can be written to and never evicts, that every part of dueq runs,
/// and that dueq is not stopping. The state of Redis is at most a second old. `warnings` say what Redis hides. Needs no
/// key.
#[utoipa::path(
    get, path = "/readyz", operation_id = "getReadiness", tag = "service", security(()),
    responses(
        (status = 200, description = "The server is ready", body = Health),
        ReadinessProblems,
        CommonProblems,
    ),
)]
pub async fn get_readiness(State(state): State<AppState>, _: NoQuery) -> Result<Response, Problem> {
    let not_ready = |reason: String| Problem::new(Code::NotReady, reason);
    if *state.stopping.borrow() {
        return Err(not_ready("dueq is stopping".to_owned()));
    }
    if let Some(part) = state.metrics.background.broken() {
        return Err(not_ready(format!("a part of dueq failed and is restarting: {part}")));
    }
    Ok(Health::answer(state.redis_health.health(&state.store).await.map_err(not_ready)?))
}

/// Metrics for Prometheus.
///
/// In the OpenMetrics 1.0 text format. Times are in seconds.
#[utoipa::path(
    get, path = "/metrics", operation_id = "getMetrics", tag = "service",
    responses(
        (status = 200, description = "The metrics of this instance", body = String,
            content_type = "application/openmetrics-text"),
        CommonProblems,
    ),
)]
pub async fn get_metrics(State(state): State<AppState>, _: NoQuery) -> Result<Response, Problem> {
    let text = state.metrics.render().map_err(|_| Error::Internal)?;
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, content_type)], text).into_response())
}

/// This document.
///
/// OpenAPI 3.1. The same as `openapi/openapi.json` in the repository.
#[utoipa::path(
    get, path = "/openapi.json", operation_id = "getOpenapi", tag = "service",
    responses(
        (status = 200, description = "The OpenAPI 3.1 document", body = OpenapiDocument),
        CommonProblems,
    ),
)]
pub async fn get_openapi(State(state): State<AppState>, _: NoQuery) -> Result<Response, Problem> {
    Ok(document(&state.documents.v3_1))
}

/// This document as OpenAPI 3.0.
///
/// For generators that cannot read 3.1. The same as `openapi/openapi-3.0.json` in the repository.
#[utoipa::path(
    get, path = "/openapi-3.0.json", operation_id = "getOpenapi30", tag = "service",
    responses(
        (status = 200, description = "The OpenAPI 3.0 document", body = OpenapiDocument),
        CommonProblems,
    ),
)]
pub async fn get_openapi_3_0(
    State(state): State<AppState>,
    _: NoQuery,
) -> Result<Response, Problem> {
    Ok(document(&state.documents.v3_0))
}

fn document(text: &str) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text.to_owned()).into_response()
}
