//! listCallbackHosts, pauseCallbackHost, resumeCallbackHost: whom dueq calls, how that goes, and a brake for each.

use crate::{prelude::*, request::cursor};
use dueq_store as store;

/// What tells the list of hosts from others.
const LIST: [&str; 1] = ["hosts"];

answer! {
    /// Calls by how they ended.
    pub struct CallOutcomes {
        /// Calls that the receiver answered with 2xx.
        delivered: i64,
        /// Calls that failed and are made again.
        failed: i64,
        /// Calls after which the message was dead.
        dead: i64,
    }
}

answer! {
    /// A host that dueq calls.
    pub struct CallbackHost {
        /// Name or address, and port.
        #[example = "example.com:443"]
        host: String,
        /// Whether no calls to it begin.
        paused: bool,
        /// Since when it is paused, RFC 3339 in UTC with ms.
        paused_at: Option<Instant>,
        /// Whether its calls fail, so that messages wait for it without an attempt but for probes.
        failing: bool,
        /// Since when it fails, RFC 3339 in UTC with ms.
        failing_since: Option<Instant>,
        /// When the next probe may begin, RFC 3339 in UTC with ms. Only while it fails.
        next_probe_at: Option<Instant>,
        /// Calls under way.
        in_flight: i64,
        /// Messages that are due and wait for a place, until the host is resumed, or until it answers again: those that the instances
        /// have looked at, at most 65,536 for each topic and instance; all while it fails.
        waiting: i64,
        /// Calls of the last five minutes.
        outcomes: CallOutcomes,
        /// Calls of the last hour.
        outcomes_hour: CallOutcomes,
        /// Calls that failed since the last one that was delivered.
        consecutive_failures: i64,
        /// How long half of the calls of the last five minutes took at most, ms, to within a factor of two.
        p50_ms: Option<i64>,
        /// How long 99 of 100 calls of the last five minutes took at most, ms, to within a factor of two.
        p99_ms: Option<i64>,
        /// How the last failed call failed.
        #[example = "answered 503"]
        last_error: Option<String>,
        /// When that was, RFC 3339 in UTC with ms.
        last_error_at: Option<Instant>,
        /// When a call was last delivered, RFC 3339 in UTC with ms.
        last_success_at: Option<Instant>,
    }
}

answer! {
    /// A page of hosts.
    pub struct CallbackHostList {
        /// The hosts, by name.
        items: Vec<CallbackHost>,
        /// Cursor for the next page. Absent on the last page.
        next_cursor: Option<String>,
    }
}

impl From<store::CallCounts> for CallOutcomes {
    fn from(counts: store::CallCounts) -> Self {
        let store::CallCounts { delivered, failed, dead } = counts;
        Self { delivered, failed, dead }
    }
}

impl From<store::HostReport> for CallbackHost {
    fn from(found: store::HostReport) -> Self {
        Self {
            paused: found.paused_at.is_some(),
            paused_at: found.paused_at.map(Instant),
            failing: found.failing.is_some(),
            failing_since: found.failing.map(|(since, _)| Instant(since)),
            next_probe_at: found.failing.map(|(_, probe_at)| Instant(probe_at)),
            in_flight: found.in_flight,
            waiting: found.waiting,
            outcomes: found.short.into(),
            outcomes_hour: found.hour.into(),
            consecutive_failures: found.failures,
            p50_ms: found.quantile(0.5),
            p99_ms: found.quantile(0.99),
            last_error: found.last_error,
            last_error_at: found.last_error_at.map(Instant),
            last_success_at: found.last_success_at.map(Instant),
            host: found.host,
        }
    }
}

/// List the hosts of callbacks.
///
/// Returns the hosts that were called in the last hour, that messages wait for, that are paused or that fail, in order of their names: the paused and
/// failing ones and the thousand with the most calls. The figures are those of all instances, some seconds old; an instance that stops takes its own
/// with it. A key that may not read all topics sees the hosts that those are sent to which it may read, and only their figures.
#[utoipa::path(
    get, path = "/callbacks/hosts", tag = "callbacks", params(PageParams),
    responses((status = 200, description = "A page of hosts, by name", body = CallbackHostList), RedisProblems),
)]
pub async fn list_callback_hosts(
    cx: Context,
    Query(PageParams { limit, cursor }): Query<PageParams>,
) -> Answer {
    let after: Option<String> = open_cursor(cursor, |cursor| cursor::open(&LIST, cursor))?;
    let mut hosts = cx.store.call_hosts(|topic| cx.caller.may_to_named(topic)).await?;
    if let Some(after) = after {
        hosts.retain(|host| host.host > after);
    }
    let limit = limit.get() as usize;
    let more = hosts.len() > limit;
    hosts.truncate(limit);
    let next_cursor = hosts.last().filter(|_| more).map(|last| cursor::seal(&LIST, &last.host));
    let items = hosts.into_iter().map(CallbackHost::from).collect();
    Ok(json(&CallbackHostList { items, next_cursor }))
}

/// Pause a host.
///
/// No call to the host begins until it is resumed, on any instance and in any topic, so this needs `operate` on all topics. Calls under way go on. Waiting costs no attempt; the
/// messages show as `delayed`. A host can be paused before it is ever called, and at most 1000 can be paused.
#[utoipa::path(
    post, path = "/callbacks/hosts/{host}/pause", tag = "callbacks", params(HostPath),
    responses((status = 200, description = "The host", body = CallbackHost), PauseHostProblems, RedisProblems),
)]
pub async fn pause_callback_host(cx: Context, HostPath(host): HostPath, _: NoBody) -> Answer {
    Ok(json(&CallbackHost::from(cx.store.set_host_paused(&host, true).await?)))
}

/// Resume a host.
///
/// Calls to the host begin again, also where it was failing. Resuming a host that is neither paused nor failing changes nothing.
#[utoipa::path(
    post, path = "/callbacks/hosts/{host}/resume", tag = "callbacks", params(HostPath),
    responses((status = 200, description = "The host", body = CallbackHost), ResumeHostProblems, RedisProblems),
)]
pub async fn resume_callback_host(cx: Context, HostPath(host): HostPath, _: NoBody) -> Answer {
    Ok(json(&CallbackHost::from(cx.store.set_host_paused(&host, false).await?)))
}
