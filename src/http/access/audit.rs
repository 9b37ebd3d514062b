//! The audit log: who changed what, and who was turned away. A record is one line of JSON in a file of its own, or a line of
//! the log with the target `audit`. It says nothing secret: no keys, no payloads.

use super::{Need, Verb, caller::Caller};
use crate::{
    http::{problem::ProblemBody, proxies::peer_of},
    model::{Instant, TopicName},
};
use axum::{
    extract::Request,
    http::{HeaderValue, StatusCode, Uri},
};
use serde::Serialize;
use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    net::IpAddr,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::SystemTime,
};
use tokio::signal::unix::{SignalKind, signal};

/// Where records go.
#[derive(Debug)]
pub struct AuditLog {
    path: Option<PathBuf>,
    file: Mutex<Option<File>>,
    /// Only records of the log, which without keys would tell of nobody, can be off.
    is_on: bool,
    failed: AtomicBool,
}

impl AuditLog {
    /// One in this file, or else in the log, if there are keys. Errors: the file cannot be opened.
    pub fn open(path: Option<&Path>, has_keys: bool) -> io::Result<Self> {
        let file = path.map(append).transpose()?;
        let is_on = file.is_some() || has_keys;
        let path = path.map(Path::to_owned);
        Ok(Self { path, file: Mutex::new(file), is_on, failed: AtomicBool::new(false) })
    }

    /// Is an operation that needs this kept whatever comes of it?
    pub fn records(&self, need: Need) -> bool {
        self.is_on && is_change(need)
    }

    /// Opens the file anew on every SIGHUP, as who moves it away expects. Does not end.
    pub async fn follow_hangups(self: Arc<Self>) {
        let (Some(path), Ok(mut hangups)) = (&self.path, signal(SignalKind::hangup())) else {
            return std::future::pending().await;
        };
        while hangups.recv().await.is_some() {
            match append(path) {
                Ok(file) => *self.lock() = Some(file),
                Err(error) => {
                    tracing::error!(%error, "{} cannot be opened again; the old file is written on", path.display());
                }
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<File>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, record: &Record<'_>) {
        let Ok(mut line) = serde_json::to_string(record) else { return };
        if self.path.is_none() {
            tracing::info!(target: "audit", "{line}");
            return;
        }
        line.push('\n');
        // One write, so that lines of several processes do not mix.
        let written = self.lock().as_mut().map_or(Ok(()), |file| file.write_all(line.as_bytes()));
        let had_failed = self.failed.swap(written.is_err(), Ordering::Relaxed);
        if let Err(error) = written
            && !had_failed
        {
            tracing::error!(%error, "the audit log cannot be written");
        }
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// What is known of a request's effect by whoever handles it.
#[derive(Debug)]
pub struct Facts {
    topic: OnceLock<TopicName>,
    /// -1: not counted.
    count: AtomicI64,
}

impl Default for Facts {
    fn default() -> Self {
        Self { topic: OnceLock::new(), count: AtomicI64::new(-1) }
    }
}

impl Facts {
    /// The topic is this one.
    pub fn is_about(&self, topic: &TopicName) {
        let _ = self.topic.set(topic.clone());
    }

    /// So many messages were changed.
    pub fn count(&self, messages: i64) {
        self.count.store(messages, Ordering::Relaxed);
    }
}

#[derive(Serialize)]
struct Record<'a> {
    at: Instant,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    peer: IpAddr,
    operation: &'a str,
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<&'a TopicName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<i64>,
    /// `ok`, the `code` of the refusal, or `unanswered`, where the client left first.
    outcome: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
    request_id: &'a str,
}

/// A request under way. It is recorded when this is dropped: even if its client leaves before the answer, it may have had an
/// effect.
pub struct Entry {
    log: Arc<AuditLog>,
    need: Need,
    peer: IpAddr,
    operation: &'static str,
    uri: Uri,
    request_id: HeaderValue,
    caller: Option<Caller>,
    /// Its status, and what it says of a refusal.
    answer: Option<(StatusCode, Option<ProblemBody>)>,
}

impl Entry {
    /// Of a request that needs this, under the id; `None` where nothing is recorded.
    pub fn new(
        log: &Arc<AuditLog>,
        (operation, need): (&'static str, Need),
        request: &Request,
        request_id: &HeaderValue,
    ) -> Option<Self> {
        log.is_on.then(|| Self {
            log: log.clone(),
            need,
            peer: peer_of(request),
            operation,
            uri: request.uri().clone(),
            request_id: request_id.clone(),
            caller: None,
            answer: None,
        })
    }

    /// Notes who sent it.
    pub fn is_by(&mut self, caller: &Caller) {
        self.caller = Some(caller.clone());
    }

    /// Notes how it was answered.
    pub fn answered(&mut self, status: StatusCode, problem: Option<ProblemBody>) {
        self.answer = Some((status, problem));
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let (status, problem) = self
            .answer
            .as_ref()
            .map_or((None, None), |(status, problem)| (Some(*status), problem.as_ref()));
        let is_refused = matches!(status, Some(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN));
        if !is_refused && !is_change(self.need) {
            return;
        }
        let outcome = match (status, problem) {
            (None, _) => "unanswered",
            (_, Some(problem)) => &problem.code,
            _ => "ok",
        };
        let facts = self.caller.as_ref().and_then(Caller::facts);
        let count = facts.map(|facts| facts.count.load(Ordering::Relaxed));
        self.log.write(&Record {
            at: Instant(now()),
            key: self.caller.as_ref().map(Caller::name),
            peer: self.peer,
            operation: self.operation,
            path: self.uri.path(),
            topic: facts.and_then(|facts| facts.topic.get()),
            count: count.filter(|count| *count >= 0 && outcome == "ok"),
            outcome,
            detail: problem.filter(|_| is_refused).map(|problem| &*problem.detail),
            request_id: self.request_id.to_str().unwrap_or_default(),
        });
    }
}

fn is_change(need: Need) -> bool {
    matches!(need.verb(), Some(Verb::Operate | Verb::Configure))
}

/// ms since 1970 on this machine's clock: a record may be about what has not come to Redis.
fn now() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or_default()
}
