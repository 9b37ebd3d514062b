//! Health, readiness, metrics and the OpenAPI document, for operators and tools.

pub(crate) mod instances;
pub(crate) mod scrape;

use crate::{openapi::OpenapiDocument, prelude::*};
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use dueq_store::Store;
use scrape::Scrape;
use std::time::{self, Duration};
use tokio::sync::Mutex;

/// How long a health check of Redis answers further requests.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The format of metrics that is preferred.
const OPENMETRICS: &str = "application/openmetrics-text";

/// The latest health check of Redis, and when it was made.
#[derive(Default)]
pub(crate) struct HealthCheck(Mutex<Option<(time::Instant, RedisHealth)>>);

/// The warnings about a Redis that can serve, or the reason why it cannot.
type RedisHealth = Result<Vec<String>, String>;

impl HealthCheck {
    /// Returns the health of Redis, at most a second old. Concurrent requests wait for the same check.
    async fn health(&self, store: &Store) -> RedisHealth {
        let mut latest = self.0.lock().await;
        match &*latest {
            // A connection that was lost meanwhile is not ready for the next request.
            Some((at, health))
                if at.elapsed() < CHECK_INTERVAL && (health.is_err() || store.is_whole().await) =>
            {
                health.clone()
            }
            _ => {
                let health = store.health().await;
                *latest = Some((time::Instant::now(), health.clone()));
                health
            }
        }
    }
}

answer! {
    /// The server is well.
    pub struct Health {
        /// Always `ok`.
        #[example = "ok"]
        status: &'static str,
        /// In words: what dueq cannot guarantee on this Redis, which certificate expires within 7 days, and whether the
        /// key file cannot be used or the time zone database is old. Absent if there is nothing to warn about.
        warnings: Option<Vec<String>>,
        /// The time zone database by which schedules tick. In `/readyz` only.
        tzdata: Option<Tzdata>,
    }
}

answer! {
    /// The time zone database by which schedules tick.
    pub struct Tzdata {
        /// Its version; `unknown` if it does not say so.
        #[example = "2026f"]
        version: String,
        /// `bundled`, or the directory that it is read from.
        #[example = "/usr/share/zoneinfo"]
        source: String,
    }
}

impl Health {
    fn answer(warnings: Vec<String>, tzdata: Option<Tzdata>) -> Response {
        let warnings = Some(warnings).filter(|warnings| !warnings.is_empty());
        json(&Self { status: "ok", warnings, tzdata })
    }
}

/// Check that the process is alive.
///
/// Needs no key and does not ask Redis.
#[utoipa::path(
    get, path = "/healthz", tag = "service", security(()),
    responses((status = 200, description = "The process is alive", body = Health), ),
)]
pub async fn get_health(_: NoQuery) -> Result<Response, Problem> {
    Ok(Health::answer(Vec::new(), None))
}

/// Check that the server is ready.
///
/// Ready means that Redis answers, is not loading, can be written to and never evicts, that every part of dueq runs,
/// and that dueq is not stopping. The state of Redis is at most a second old. `warnings` say what Redis hides and what it
/// may lose, which certificate expires within 7 days, and whether the key file cannot be used. Needs no key.
#[utoipa::path(
    get, path = "/readyz", tag = "service", security(()),
    responses(
        (status = 200, description = "The server is ready", body = Health),
        ReadinessProblems,
            ),
)]
pub async fn get_readiness(State(state): State<AppState>, _: NoQuery) -> Result<Response, Problem> {
    let not_ready = |reason: String| Problem::new(Code::NotReady, reason);
    let mut warnings = readiness(&state).await.map_err(not_ready)?;
    warnings.extend(state.metrics.certificates.warnings());
    warnings.extend(state.access.warning());
    let zones = state.store.zones();
    warnings.extend(zones.warning(state.store.now()));
    let (version, source) = zones.named();
    Ok(Health::answer(warnings, Some(Tzdata { version, source })))
}

/// Whether the server is ready.
pub(crate) async fn readiness(state: &AppState) -> RedisHealth {
    if *state.stopping.borrow() {
        return Err("dueq is stopping".to_owned());
    }
    if let Some(part) = state.metrics.background.broken() {
        return Err(format!("a part of dueq failed and is restarting: {part}"));
    }
    state.redis_health.health(&state.store).await
}

/// Metrics for Prometheus.
///
/// In the OpenMetrics 1.0 text format, or in the older format 0.0.4 if `Accept` names `text/plain` and not OpenMetrics.
/// Times are in seconds. Gauges of topics and of Redis are at most 5 seconds old.
#[utoipa::path(
    get, path = "/metrics", tag = "service",
    responses(
        (status = 200, description = "The metrics of this instance", body = String,
            content_type = "application/openmetrics-text"),
            ),
)]
pub async fn get_metrics(
    State(state): State<AppState>,
    headers: HeaderMap,
    _: NoQuery,
) -> Result<Response, Problem> {
    Scrape::look(&state).await;
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let accept = accept.collect::<Vec<_>>().join(",").to_ascii_lowercase();
    let classic = accept.contains("text/plain") && !accept.contains(OPENMETRICS);
    let (text, content_type) = match classic {
        true => (state.metrics.render_classic(), "text/plain; version=0.0.4; charset=utf-8"),
        false => {
            (state.metrics.render(), "application/openmetrics-text; version=1.0.0; charset=utf-8")
        }
    };
    let text = text.map_err(|_| Error::Internal)?;
    Ok(([(header::CONTENT_TYPE, content_type)], text).into_response())
}

/// This document.
///
/// OpenAPI 3.1. The same as `openapi/openapi.json` in the repository.
#[utoipa::path(
    get, path = "/openapi.json", tag = "service",
    responses((status = 200, description = "The OpenAPI 3.1 document", body = OpenapiDocument)),
)]
pub async fn get_openapi(State(state): State<AppState>, _: NoQuery) -> Result<Response, Problem> {
    Ok(document(&state.documents.v3_1))
}

/// This document as OpenAPI 3.0.
///
/// For generators that cannot read 3.1. The same as `openapi/openapi-3.0.json` in the repository.
#[utoipa::path(
    get, path = "/openapi-3.0.json", tag = "service",
    responses((status = 200, description = "The OpenAPI 3.0 document", body = OpenapiDocument)),
)]
pub async fn get_openapi_3_0(
    State(state): State<AppState>,
    _: NoQuery,
) -> Result<Response, Problem> {
    Ok(document(&state.documents.v3_0))
}

fn document(text: &Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text.clone()).into_response()
}
