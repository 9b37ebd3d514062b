//! Health, readiness, metrics, instances and the OpenAPI document, for operators and tools. However often these are asked for,
//! Redis is asked once a second.

use crate::{
    openapi::{OpenapiDocument, Version},
    prelude::*,
};
use axum::{
    extract::Request,
    http::{HeaderMap, header},
};
use bytes::Bytes;
use dueq_base::metrics::{Contents, RedisGauges, RedisMemory};
use dueq_store as store;
use std::{
    sync::Arc,
    time::{self, Duration},
};
use tokio::{sync::Mutex, time::timeout};

/// How long an answer of Redis about its health and its memory is shown.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long the counts of topics and schedules are shown.
const CONTENTS_INTERVAL: Duration = Duration::from_secs(5);
/// How long a scrape waits for the readiness.
const READY_TIME: Duration = Duration::from_secs(1);

/// The format of metrics that is preferred.
const OPENMETRICS: &str = "application/openmetrics-text";

/// The warnings about a Redis that can serve, or the reason why it cannot.
type RedisHealth = Result<Vec<String>, String>;

/// The latest answers of Redis.
#[derive(Default)]
pub(crate) struct Checks {
    health: Latest<RedisHealth>,
    memory: Latest<Result<Option<RedisMemory>, Error>>,
    contents: Latest<Option<Arc<Contents>>>,
}

/// An answer, and when it was given.
struct Latest<T>(Mutex<Option<(time::Instant, T)>>);

impl<T> Default for Latest<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T: Clone> Latest<T> {
    /// The latest answer if it is recent and still valid, or else a new one, for which all concurrent requests wait.
    async fn get(
        &self,
        interval: Duration,
        is_valid: impl AsyncFnOnce(&T) -> bool,
        look: impl Future<Output = T>,
    ) -> T {
        let mut latest = self.0.lock().await;
        match &*latest {
            Some((at, found)) if at.elapsed() < interval && is_valid(found).await => found.clone(),
            _ => {
                let found = look.await;
                *latest = Some((time::Instant::now(), found.clone()));
                found
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
/// may lose, which certificate expires within 7 days, and whether the key file cannot be used. Needs no key; with one, a
/// refusal also says the address of the Redis that is away, and for how long it has been.
#[utoipa::path(
    get, path = "/readyz", tag = "service", security(()),
    responses(
        (status = 200, description = "The server is ready", body = Health),
        ReadinessProblems,
            ),
)]
pub async fn get_readiness(
    State(state): State<AppState>,
    _: NoQuery,
    request: Request,
) -> Result<Response, Problem> {
    // Strangers do not learn where Redis is.
    let is_stranger = state.access.known(&request).is_none();
    let not_ready = |mut reason: String| {
        let away = state.store.away();
        if !away.is_empty() && !is_stranger {
            reason.push_str(&format!(" ({away})"));
        }
        Problem::new(Code::NotReady, reason)
    };
    let mut warnings = readiness(&state).await.map_err(not_ready)?;
    warnings.extend(state.metrics.certificates.warnings());
    warnings.extend(state.access.warning());
    let zones = state.store.zones();
    warnings.extend(zones.warning(state.store.now()));
    let (version, source) = zones.named();
    Ok(Health::answer(warnings, Some(Tzdata { version, source })))
}

/// Whether the server is ready.
async fn readiness(state: &AppState) -> RedisHealth {
    if *state.stopping.borrow() {
        return Err("dueq is stopping".to_owned());
    }
    if let Some(part) = state.metrics.background.broken() {
        return Err(format!("a part of dueq failed and is restarting: {part}"));
    }
    // A connection that was lost meanwhile is not ready for the next request.
    let is_whole = async |health: &RedisHealth| health.is_err() || state.store.is_whole().await;
    state.checks.health.get(CHECK_INTERVAL, is_whole, state.store.health()).await
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
    look_at_redis(&state).await;
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

/// Notes for the metrics what Redis says. A Redis that does not answer delays no scrape for long.
async fn look_at_redis(state: &AppState) {
    let Checks { memory, contents, .. } = &state.checks;
    let ready = timeout(READY_TIME, readiness(state));
    let memory = memory.get(CHECK_INTERVAL, async |_| true, state.store.redis_memory());
    let (ready, memory) = tokio::join!(ready, memory);
    let look = async {
        match state.store.contents().await {
            Ok(contents) => Some(Arc::new(contents)),
            Err(error) => {
                tracing::debug!(%error, "topics could not be counted for metrics");
                None
            }
        }
    };
    let up = memory.is_ok();
    let contents = match up {
        true => contents.get(CONTENTS_INTERVAL, async |_| true, look).await,
        false => None,
    };
    let (ready, memory) = (matches!(ready, Ok(Ok(_))), memory.ok().flatten());
    state.metrics.saw_redis(RedisGauges { ready, up, memory, contents });
}

/// This document.
///
/// OpenAPI 3.1. The same as `openapi/openapi.json` in the repository.
#[utoipa::path(
    get, path = "/openapi.json", tag = "service",
    responses((status = 200, description = "The OpenAPI 3.1 document", body = OpenapiDocument)),
)]
pub async fn get_openapi(State(state): State<AppState>, _: NoQuery) -> Result<Response, Problem> {
    document(&state, Version::V3_1)
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
    document(&state, Version::V3_0)
}

fn document(state: &AppState, version: Version) -> Result<Response, Problem> {
    let made = || crate::document(version, state.public_url.base()).map(Bytes::from);
    match state.documents[version as usize].get_or_init(made) {
        Ok(text) => {
            Ok(([(header::CONTENT_TYPE, "application/json")], text.clone()).into_response())
        }
        Err(error) => {
            tracing::error!(%error, "the OpenAPI document could not be serialized");
            Err(Problem::of_status(StatusCode::INTERNAL_SERVER_ERROR))
        }
    }
}

answer! {
    /// An instance of dueq.
    pub struct DueqInstance {
        /// Its id, drawn at its start.
        #[example = "9f86d081884c7d65"]
        id: String,
        /// The version of dueq that it runs.
        #[example = "0.1.0"]
        version: String,
        /// When it was started, RFC 3339 in UTC with ms.
        started_at: Instant,
        /// When it last said that it runs, RFC 3339 in UTC with ms. It does so every 10 s, with the numbers below. An instance
        /// of an older version says none.
        seen_at: Instant,
        /// Connections to Redis that its requests go through.
        lanes: Option<i64>,
        /// Long polls that wait.
        waiters: Option<i64>,
        /// Resident memory of its process, bytes.
        memory_bytes: Option<i64>,
        /// How far the clock of its machine is ahead of Redis's, ms; negative if it is behind. Too high by the time that an
        /// answer of Redis takes.
        clock_offset_ms: Option<i64>,
        /// The version of its time zone database. The instances with the newest decide when schedules tick.
        #[example = "2026f"]
        tzdata: Option<String>,
        /// The name of its machine, or of its container.
        #[example = "dueq-7d9f-x2x"]
        host: Option<String>,
        /// The number of its process there.
        pid: Option<i64>,
    }
}

answer! {
    /// The instances of dueq.
    pub struct InstanceList {
        /// The instances, in the order in which they started.
        items: Vec<DueqInstance>,
    }
}

impl From<store::Instance> for DueqInstance {
    fn from(found: store::Instance) -> Self {
        let store::Instance { id, version, started_at, seen_at, load, tzdata, host, pid } = found;
        let store::Load { lanes, waiters, memory_bytes, clock_offset_ms } = load;
        let (started_at, seen_at) = (Instant(started_at), Instant(seen_at));
        Self {
            id,
            version,
            started_at,
            seen_at,
            lanes,
            waiters,
            memory_bytes,
            clock_offset_ms,
            tzdata,
            host,
            pid,
        }
    }
}

/// List instances.
///
/// Returns the instances of dueq that share this Redis and its key prefix, at most 1000. An instance that stops leaves the list at once;
/// one that dies is listed for another minute.
#[utoipa::path(
    get, path = "/instances", tag = "service",
    responses((status = 200, description = "The instances", body = InstanceList), RedisProblems),
)]
pub async fn list_instances(cx: Context, _: NoQuery) -> Answer {
    let items = cx.store.instances().await?.into_iter().map(DueqInstance::from).collect();
    Ok(json(&InstanceList { items }))
}
