//! One lane: it takes what waits in the inbox, sends it, and keeps its connection in order. A connection that broke, or
//! that leads to a replica by now, is thrown away and replaced.

use super::{
    super::{
        backend::{Link, discard},
        cluster::Redirect,
        outage,
        reply::{self, CallError, refusal},
        scripts::{self, Script},
        server_info::epoch_of,
    },
    fence::Held,
    node::Node,
    request::{Call, Exchange, group},
    round::{End, LANE_WAIT_MS, Round},
};
use crate::{model::Epoch, seeded};
use deadpool_redis::redis::{Pipeline, Value, aio::ConnectionLike};
use std::{
    collections::HashSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};
use tokio::time::{Instant, timeout, timeout_at};

/// How often a lane checks that its connection still leads to a primary, what time it is there, and in which epoch. Not
/// only one that is idle throughout: a replica answers reads too, and a connection may live through a failover.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// How often a lane of a node of a Cluster tries to connect while it has no connection.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(50);
/// After a connection that failed, requests that no lane has a connection for are refused at once for this long; twice as
/// long each time.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(640);
/// A stop waits this long for a connection.
const STOP_CONNECT_TIMEOUT: Duration = Duration::from_millis(250);
/// A call gets at least this part of the time-out, however long its requests have waited to be sent.
const LEAST_SHARE: u32 = 4;

/// A lane.
pub(super) struct Lane {
    node: Arc<Node>,
    link: Option<Link>,
    /// Only for what need not wait behind a busy topic.
    express: bool,
}

impl Lane {
    pub(super) fn new(node: Arc<Node>, link: Option<Link>, express: bool) -> Self {
        Self { node, link, express }
    }

    /// Serves the inbox until it is closed and empty.
    pub(super) async fn run(mut self) {
        let node = self.node.clone();
        let mut probe_at = self.next_probe();
        loop {
            match timeout_at(probe_at, node.inbox.wait(self.express)).await {
                Ok(true) => self.serve().await,
                Ok(false) => return,
                Err(_) => {}
            }
            if Instant::now() >= probe_at {
                self.probe().await;
                probe_at = self.next_probe();
            }
        }
    }

    /// When to look at the connection next. A node of a Cluster that is not there may have been replaced already.
    fn next_probe(&self) -> Instant {
        let soon = self.node.cluster.is_some() && self.link.is_none();
        Instant::now() + if soon { RECONNECT_INTERVAL } else { PROBE_INTERVAL }
    }

    async fn serve(&mut self) {
        // Whoever is ready to run now may have a request for this group.
        tokio::task::yield_now().await;
        let node = self.node.clone();
        let connected = self.connected().await;
        let mut taken = node.inbox.take(self.express);
        let jobs = std::mem::take(&mut taken.jobs);
        if !connected {
            for job in jobs {
                node.count(CallError::Unavailable);
                job.refuse();
            }
            return;
        }
        let waited = jobs.first().map(|job| job.came.since.elapsed()).unwrap_or_default();
        let limit = node.timeout.saturating_sub(waited).max(node.timeout / LEAST_SHARE);
        let calls = group(jobs);
        if let Some(mut link) = self.link.take() {
            if !calls.is_empty() && self.exchange(&mut link, calls, limit).await {
                discard(link.connection);
            } else {
                self.link = Some(link);
            }
        }
    }

    /// Sends `calls` and hands out the answers. Calls of scripts that Redis was told to forget did not run: they are sent
    /// again with the scripts' text. Returns whether the connection must not be used again.
    async fn exchange(&self, link: &mut Link, calls: Vec<Box<dyn Call>>, limit: Duration) -> bool {
        let node = &self.node;
        let (mut calls, mut demoted, link_at) = (calls, false, link.door);
        let mut elsewhere = Vec::new();
        for texts in [Texts::None, Texts::First, Texts::All] {
            let mut exchange = Exchange::new(node);
            let (sent, until) = (exchange.sent, Instant::now() + limit);
            let end = End::of(&calls, node);
            let sending = send(link, &calls, &end, texts, limit);
            let replies = tokio::select! {
                biased;
                replies = sending => replies,
                () = node.backend.moved_from(link_at) => Err("another server has taken over".to_owned()),
            };
            let answered = replies.map_err(|cause| {
                tracing::debug!(cause, calls = calls.len(), "answers of Redis were lost");
                node.backend.away(cause);
            });
            let Ok(Answered { epoch, replies, round }) = answered else {
                let bug = seeded::bug("unavailable after it was sent");
                let error = if bug { CallError::Unavailable } else { CallError::Unknown };
                for call in calls {
                    node.count(error);
                    hand_out(call, &mut exchange, Err(error));
                }
                if matches!(end, End::Round(..)) {
                    node.fence.leave_it();
                }
                self.trouble();
                return true;
            };
            node.backend.shared.metrics.redis_seconds.observe(sent.elapsed().as_secs_f64());
            if node.is_down() {
                // It is back: a lane without a connection need not wait until its pause is over, and refuse meanwhile.
                node.set_down(None);
            }
            exchange.epoch = epoch;
            let mut unknown = Vec::new();
            for (call, reply) in calls.into_iter().zip(replies) {
                match reply::code_of(&reply) {
                    Some("NOSCRIPT") if texts != Texts::All => unknown.push(call),
                    code => {
                        demoted |= code == Some("READONLY");
                        match node.cluster.as_ref().and_then(|_| Redirect::of(&reply, node)) {
                            Some(redirect) => elsewhere.push((redirect, call)),
                            None => hand_out(call, &mut exchange, self.result(reply)),
                        }
                    }
                }
            }
            node.inbox.put_back(exchange.again);
            if !exchange.held.is_empty() {
                let epoch = epoch.unwrap_or_default();
                let held = Held { epoch, door: link_at, until, answers: exchange.held };
                node.fence.settle(held, matches!(end, End::Round(..)), round.as_ref());
            }
            if unknown.is_empty() {
                break;
            }
            calls = unknown;
        }
        if !elsewhere.is_empty() {
            match node.cluster() {
                Some(cluster) => cluster.redirect(elsewhere),
                None => elsewhere.into_iter().for_each(|(_, call)| call.refuse()),
            }
        }
        demoted && !seeded::bug("lanes stay at a replica")
    }

    /// What a reply is to the requests of its call.
    fn result(&self, reply: Value) -> Result<Value, CallError> {
        let Value::ServerError(error) = reply else {
            self.node.backend.outage.answered(|| self.node.backend.address());
            return Ok(reply);
        };
        let refused = refusal(&error);
        if refused == CallError::Unavailable {
            self.node.backend.away(outage::cause(&error));
        }
        self.node.count(refused);
        Err(refused)
    }

    /// Is there a connection? Tries to open one, unless that failed a moment ago.
    async fn connected(&mut self) -> bool {
        if let Some(link) = self.link.take() {
            if self.node.backend.is_present(&link) {
                self.link = Some(link);
                return true;
            }
            // Another lane has met Redis anew, or it has moved: a connection from before leads nowhere, and a request must
            // not find that out.
            discard(link.connection);
        }
        let down = self.node.down();
        if down.is_some_and(|(until, _)| Instant::now() < until) {
            return false;
        }
        let connected = loop {
            tokio::select! {
                connected = self.node.backend.connect() => break connected,
                // A primary that hangs is left as soon as there is another.
                () = self.node.backend.moved_from(self.node.backend.moves_so_far()) => {}
                // A stop does not wait for a Redis that hangs.
                () = self.node.stopped_for(STOP_CONNECT_TIMEOUT) => return false,
            }
        };
        match connected {
            Ok(link) => {
                self.link = Some(link);
                self.node.set_down(None);
                true
            }
            Err(error) => {
                let pause = down.map_or(FIRST_PAUSE, |(_, pause)| LONGEST_PAUSE.min(pause * 2));
                self.node.backend.away(error.cause());
                self.node.set_down(Some((Instant::now() + pause, pause)));
                self.trouble();
                false
            }
        }
    }

    /// Another server may have taken over.
    fn trouble(&self) {
        if let Some(cluster) = self.node.cluster() {
            cluster.look();
        }
    }

    /// A connection that broke, or that leads to a replica by now, is replaced before a request meets it.
    async fn probe(&mut self) {
        if !self.connected().await {
            return;
        }
        let Some(mut link) = self.link.take() else { return };
        let (backend, door) = (&self.node.backend, link.door);
        let lives = tokio::select! {
            lives = backend.probe(&mut link) => lives,
            () = backend.moved_from(door) => false,
        };
        if lives {
            self.link = Some(link);
        } else {
            discard(link.connection);
        }
    }
}

/// Which calls carry the text of their script, where the others carry its digest.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Texts {
    None,
    /// The first of each script, which makes Redis know it again for the others.
    First,
    /// All: Redis was told to forget once more, or sent the first to another server.
    All,
}

/// What came back of a pipeline.
struct Answered {
    /// In which epoch it began, if that was asked.
    epoch: Option<Epoch>,
    replies: Vec<Value>,
    /// What replicas have, if that was asked and could be known.
    round: Option<Round>,
}

/// One pipeline there and back within `limit`. Errors: why its answers are lost.
async fn send(
    link: &mut Link,
    calls: &[Box<dyn Call>],
    end: &End,
    texts: Texts,
    limit: Duration,
) -> Result<Answered, String> {
    let mut pipeline = Pipeline::with_capacity(calls.len() + 4);
    let waits = !matches!(end, End::Nothing);
    if waits {
        pipeline.cmd("INFO").arg("replication");
    }
    let mut known = HashSet::new();
    let mut begin = |script: &'static Script| {
        script.call(match texts {
            Texts::None => false,
            Texts::First => known.insert(script.name),
            Texts::All => true,
        })
    };
    let mut asking = Vec::new();
    for call in calls {
        if call.is_asking() {
            asking.push(pipeline.len());
            pipeline.cmd("ASKING");
        }
        pipeline.add_command(call.command(link.epoch, &mut begin));
    }
    if let End::Round(wanted, key) = end {
        Round::ask(&mut pipeline, scripts::FENCE.call(false), key, *wanted, LANE_WAIT_MS);
    }
    let short = || "it left out answers".to_owned();
    let sent = link.connection.req_packed_commands(&pipeline, 0, pipeline.len());
    match timeout(limit, sent).await {
        Ok(Ok(mut replies)) => {
            let round = match end {
                End::Round(..) => {
                    let calls = replies.len().checked_sub(3).ok_or_else(short)?;
                    <[Value; 3]>::try_from(replies.split_off(calls)).ok()
                }
                _ => None,
            };
            for at in asking.into_iter().rev().filter(|at| *at < replies.len()).collect::<Vec<_>>()
            {
                replies.remove(at);
            }
            let info = (waits && !replies.is_empty()).then(|| replies.remove(0));
            let epoch =
                info.map(|info| epoch_of(reply::word(&info).unwrap_or_default(), "master_replid"));
            let round = round.and_then(|round| Round::read(&round).ok());
            let answered = Answered { epoch, replies, round };
            match answered.replies.len() == calls.len() {
                true => Ok(answered),
                false => Err(short()),
            }
        }
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(outage::SILENT.to_owned()),
    }
}

/// Hands out what came back. A reply that dueq falls over must not end the lane, which would leave requests waiting for
/// ever; those of this call are answered that their outcome is not known.
fn hand_out(call: Box<dyn Call>, exchange: &mut Exchange<'_>, result: Result<Value, CallError>) {
    if catch_unwind(AssertUnwindSafe(|| call.finish(exchange, result))).is_err() {
        tracing::error!("a bug: a reply from Redis could not be delivered");
    }
}
