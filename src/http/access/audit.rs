//! The audit log: who changed what, and who was turned away. A record is one line of JSON in a file of its own, or a line of
//! the log with the target `audit`. It says nothing secret: no keys, no payloads.

mod refusals;
mod writer;

use super::{Need, Verb, caller::Caller};
use crate::{
    problem::ProblemBody,
    server::proxies::{Claims, peer_of},
};
use axum::{
    extract::Request,
    http::{HeaderValue, StatusCode, Uri},
};
use dueq_model::{Instant, TopicName};
use percent_encoding::{CONTROLS, utf8_percent_encode};
use prometheus_client::metrics::counter::Counter;
use refusals::Who;
use serde::Serialize;
use std::{
    borrow::Cow,
    io,
    net::IpAddr,
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicI64, Ordering},
        mpsc::{SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, SystemTime},
};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{sleep, timeout},
};
use writer::{Output, Shared, Writer, append};

/// Records that wait to be written.
const MAX_QUEUE: usize = 8192;
/// What is queued when dueq stops has so long to be written.
const CLOSE_TIME: Duration = Duration::from_secs(2);
/// Characters of a path or a detail, which strangers can make long.
const MAX_CHARS: usize = 256;

/// Takes records for the thread that writes them.
#[derive(Debug)]
pub struct AuditLog {
    queue: SyncSender<Option<String>>,
    shared: Arc<Shared>,
    /// Only records of the log, which without keys would tell of nobody, can be off.
    writer: Option<JoinHandle<()>>,
}

impl AuditLog {
    /// One in this file, or else in the log, if there are keys. Records that are `lost` are counted.
    ///
    /// Errors: the file cannot be opened.
    pub fn open(path: Option<&Path>, has_keys: bool, lost: Counter) -> io::Result<Self> {
        let output = match path {
            Some(path) => Some(Output::File(path.to_owned(), append(path)?)),
            None => has_keys.then_some(Output::Log),
        };
        Self::with(output, lost)
    }

    fn with(output: Option<Output>, lost: Counter) -> io::Result<Self> {
        let shared = Arc::new(Shared::new(lost));
        let (queue, queued) = sync_channel(MAX_QUEUE);
        let start = |output| {
            let writer = Writer::new(output, shared.clone());
            thread::Builder::new().name("audit".to_owned()).spawn(move || writer.run(&queued))
        };
        let writer = output.map(start).transpose()?;
        Ok(Self { queue, shared, writer })
    }

    fn is_on(&self) -> bool {
        self.writer.is_some()
    }

    /// Where to note the effect of an operation that needs this, if it is kept whatever comes of it, or may be.
    pub fn facts(&self, need: Need) -> Option<Arc<Facts>> {
        let is_change = is_change(need);
        let may_be = self.is_on() && (is_change || need.verb() == Some(Verb::Publish));
        may_be.then(|| Arc::new(Facts::new(is_change)))
    }

    /// Has the file opened again on every SIGHUP, for those who rotate it. Does not end.
    pub async fn follow_hangups(self: Arc<Self>) {
        let Ok(mut hangups) = signal(SignalKind::hangup()) else {
            return std::future::pending().await;
        };
        while hangups.recv().await.is_some() {
            self.shared.reopens.store(true, Ordering::Relaxed);
            self.wake();
        }
    }

    /// Has everything written that is queued, as far as that takes no longer than 2 s. Later records are lost.
    pub async fn close(&self) {
        let Some(writer) = &self.writer else { return };
        self.shared.ends.store(true, Ordering::Relaxed);
        self.wake();
        let ended = async {
            while !writer.is_finished() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        if timeout(CLOSE_TIME, ended).await.is_err() {
            tracing::error!("the audit log hangs: what was queued is lost");
        }
    }

    /// With a full queue, it is awake.
    fn wake(&self) {
        let _ = self.queue.try_send(None);
    }

    /// Queues a record. Never waits: it is lost if the queue is full.
    fn write(&self, record: &Record<'_>) {
        let Ok(line) = serde_json::to_string(record) else { return };
        if self.queue.try_send(Some(line)).is_err() {
            self.shared.lose();
        }
    }
}

#[derive(Serialize)]
struct Record<'a> {
    at: Instant,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    peer: IpAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    claims: Option<Claims>,
    operation: &'a str,
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<&'a TopicName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from_topic: Option<&'a TopicName>,
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
    claims: Option<Claims>,
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
        log.is_on().then(|| Self {
            log: log.clone(),
            need,
            peer: peer_of(request),
            claims: request.extensions().get().copied(),
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
        let is_refused = match status {
            Some(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => true,
            // Not that of a key that publishes too much.
            _ => problem.is_some_and(|problem| problem.code == "too_many_attempts"),
        };
        let facts = self.caller.as_ref().and_then(Caller::facts);
        let is_change = is_change(self.need)
            || facts.is_some_and(|facts| facts.is_change.load(Ordering::Relaxed));
        if !is_refused && !is_change {
            return;
        }
        let outcome = match (status, problem) {
            (None, _) => "unanswered",
            (_, Some(problem)) => &problem.code,
            _ => "ok",
        };
        let at = now();
        let key = || self.caller.as_ref().map(|caller| Who::Key(caller.name().to_owned()));
        if let Some(status) = status.filter(|_| is_refused)
            && let who = key().unwrap_or(Who::Peer(self.peer))
            && !self.log.shared.refusals.has_own(who, status, outcome, at)
        {
            return;
        }
        let count = facts.map(|facts| facts.count.load(Ordering::Relaxed));
        self.log.write(&Record {
            at,
            key: self.caller.as_ref().map(Caller::name),
            peer: self.peer,
            claims: self.claims,
            operation: self.operation,
            path: cut(&plain(self.uri.path())),
            topic: facts.and_then(|facts| facts.topic.get()),
            from_topic: facts.and_then(|facts| facts.from_topic.get()),
            count: count.filter(|count| *count >= 0 && outcome == "ok"),
            outcome,
            detail: problem.filter(|_| is_refused).map(|problem| cut(&problem.detail)),
            request_id: self.request_id.to_str().unwrap_or_default(),
        });
    }
}

/// What a handler finds out of its request's effect.
#[derive(Debug)]
pub struct Facts {
    topic: OnceLock<TopicName>,
    /// Where a schedule published before.
    from_topic: OnceLock<TopicName>,
    /// -1: not counted.
    count: AtomicI64,
    /// Others than this are kept only if they are refused.
    is_change: AtomicBool,
}

impl Facts {
    /// Nothing yet, of an operation that is a change or not.
    fn new(is_change: bool) -> Self {
        let (topic, from_topic) = (OnceLock::new(), OnceLock::new());
        Self { topic, from_topic, count: AtomicI64::new(-1), is_change: is_change.into() }
    }

    /// The topic is this one. If another was named before, it is the one that a schedule leaves.
    pub fn is_about(&self, topic: &TopicName) {
        if self.topic.get_or_init(|| topic.clone()) != topic {
            let _ = self.from_topic.set(topic.clone());
        }
    }

    /// It changes messages, though its operation need not.
    pub fn is_change(&self) {
        self.is_change.store(true, Ordering::Relaxed);
    }

    /// So many messages were changed.
    pub fn count(&self, messages: i64) {
        self.count.store(messages, Ordering::Relaxed);
    }
}

fn is_change(need: Need) -> bool {
    need == Need::Login || matches!(need.verb(), Some(Verb::Operate | Verb::Configure))
}

/// A path in which every character shows as itself on any terminal.
fn plain(path: &str) -> Cow<'_, str> {
    utf8_percent_encode(path, CONTROLS).into()
}

/// The beginning of a text.
fn cut(text: &str) -> &str {
    text.char_indices().nth(MAX_CHARS).map_or(text, |(end, _)| &text[..end])
}

/// On this machine's clock: a record may be about what has not come to Redis.
fn now() -> Instant {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Instant(i64::try_from(now.as_millis()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs::File, io::BufRead, os::fd::OwnedFd, path::PathBuf, time};

    #[test]
    fn a_path_shows_as_it_is_on_any_terminal() {
        assert_eq!(plain("/a/b%20c\u{202e}\u{9b}\n"), "/a/b%20c%E2%80%AE%C2%9B%0A");
    }

    #[tokio::test]
    async fn a_log_that_hangs_holds_up_nobody_and_no_record_is_lost_untold() {
        let (reader, pipe) = io::pipe().unwrap();
        let file = File::from(OwnedFd::from(pipe));
        let lost = Counter::default();
        let log = AuditLog::with(Some(Output::File(PathBuf::new(), file)), lost.clone()).unwrap();
        let path = "/x".repeat(40_000);
        let record = Record {
            at: now(),
            key: None,
            peer: [192, 0, 2, 1].into(),
            claims: None,
            operation: "getTopic",
            path: cut(&path),
            topic: None,
            from_topic: None,
            count: None,
            outcome: "ok",
            detail: None,
            request_id: "id",
        };
        let begun = time::Instant::now();
        for _ in 0..20_000 {
            log.write(&record);
        }
        assert!(lost.get() > 10_000, "nobody reads it: {}", lost.get());
        log.close().await;
        let took = begun.elapsed();
        assert!(took > CLOSE_TIME && took < CLOSE_TIME * 3, "{took:?}");
        // It goes on.
        let (mut kept, mut told) = (0, 0);
        for line in io::BufReader::new(reader).lines() {
            let line: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
            match line["lost"].as_u64() {
                Some(lost) => told += lost,
                None => {
                    assert_eq!(line["path"].as_str().unwrap().len(), MAX_CHARS);
                    kept += 1;
                }
            }
        }
        assert_eq!((told, kept + told), (lost.get(), 20_000));
    }
}
