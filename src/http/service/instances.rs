//! listInstances: who serves this queue.

use crate::prelude::*;
use dueq_store as store;

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
        let store::Instance { id, version, started_at, seen_at, load, tzdata } = found;
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
pub async fn list_instances(
    State(state): State<AppState>,
    _: NoQuery,
) -> Result<Response, Problem> {
    let items = state.store.instances().await?.into_iter().map(DueqInstance::from).collect();
    Ok(json(&InstanceList { items }))
}
