//! One lane: it takes what waits in the inbox, sends it, and keeps its connection in order. A connection that ended, or
//! that leads to a replica by now, is replaced at once, before a request needs it. What could not be written is sent over
//! another one.

use super::{
    super::{
        backend::Link,
        cluster::Redirect,
        outage,
        reply::{self, CallError, refusal},
    },
    fence::Held,
    node::Node,
    request::{Call, Exchange, Job, group},
    round::End,
    sending::{Answered, Lost, Texts, send},
};
use deadpool_redis::redis::Value;
use std::{
    future::pending,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::Arc,
    time::Duration,
};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

/// How often a lane checks that its connection still leads to a primary, what time it is there, and in which epoch. Not
/// only one that is idle throughout: a replica answers reads too, and a connection may live through a failover.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// How often a lane tries to connect while it has no connection.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(50);
/// After a connection that failed, no lane tries again for this long; twice as long each time. Requests wait for that
/// while the pause is short, and are refused at once when it is longer.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const SHORT_PAUSE: Duration = Duration::from_millis(80);
const LONGEST_PAUSE: Duration = Duration::from_millis(640);
/// A node of a Cluster that has not answered for this long counts as down: others may take what is for any of them, and
/// another may have taken over.
const SLOW: Duration = Duration::from_millis(350);
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
        match &mut self.link {
            Some(link) => link.seat = node.seat(),
            None => probe_at = Instant::now(),
        }
        loop {
            let ended = async {
                match &self.link {
                    Some(link) => link.connection.ended().await,
                    None => pending().await,
                }
            };
            tokio::select! {
                waits = timeout_at(probe_at, node.inbox.wait(self.express)) => match waits {
                    Ok(true) => self.serve().await,
                    Ok(false) => return,
                    Err(_) => {}
                },
                () = ended => probe_at = Instant::now(),
            }
            if Instant::now() >= probe_at {
                self.probe().await;
                probe_at = self.next_probe();
            }
        }
    }

    /// When to look at the connection next.
    fn next_probe(&self) -> Instant {
        Instant::now() + if self.link.is_none() { RECONNECT_INTERVAL } else { PROBE_INTERVAL }
    }

    async fn serve(&mut self) {
        let node = self.node.clone();
        node.inbox.gather().await;
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
        if let Some(mut link) = self.link.take()
            && (calls.is_empty() || !self.exchange(&mut link, calls, limit).await)
        {
            self.link = Some(link);
        }
    }

    /// Sends `calls` and hands out the answers. Calls of scripts that Redis has forgotten did not run: they are sent
    /// again with the scripts' text. Returns whether the connection must not be used again.
    async fn exchange(&self, link: &mut Link, calls: Vec<Box<dyn Call>>, limit: Duration) -> bool {
        let node = &self.node;
        let (mut calls, mut leave, link_at) = (calls, false, link.endpoint);
        let mut elsewhere = Vec::new();
        for texts in [Texts::None, Texts::First, Texts::All] {
            let mut exchange = Exchange::new(node);
            let (sent, until) = (exchange.sent, Instant::now() + limit);
            let end = End::of(&calls, node);
            let sending = self.within_reason(send(link, &calls, &end, texts, limit));
            let replies = tokio::select! {
                biased;
                replies = sending => replies,
                () = node.backend.moved_from(link_at) => {
                    Err(Lost::Sent("another server has taken over".to_owned()))
                }
            };
            let Answered { epoch, replies, round } = match replies {
                Ok(answered) => answered,
                Err(lost) => {
                    if let Lost::Sent(cause) = lost {
                        tracing::debug!(cause, calls = calls.len(), "answers of Redis were lost");
                        node.backend.away(cause);
                        for call in calls {
                            node.count(CallError::Unknown);
                            hand_out(call, &mut exchange, Err(CallError::Unknown));
                        }
                    } else {
                        self.send_again(calls.into_iter().flat_map(|call| call.into_jobs()));
                    }
                    if matches!(end, End::Round(..)) {
                        node.fence.leave_it();
                    }
                    self.trouble();
                    leave = true;
                    break;
                }
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
                        leave |= code == Some("READONLY");
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
                let held = Held { epoch, endpoint: link_at, until, answers: exchange.held };
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
        leave
    }

    /// Puts requests in again that have not left, to be sent over another connection.
    fn send_again(&self, jobs: impl Iterator<Item = Job>) {
        let in_time = |job: &Job| job.came.since.elapsed() < self.node.timeout;
        let (jobs, late): (Vec<_>, Vec<_>) = jobs.partition(in_time);
        late.into_iter().for_each(Job::refuse);
        let retired = self.node.inbox.put_first(jobs);
        match self.node.cluster() {
            Some(cluster) => cluster.send(retired),
            None => retired.into_iter().for_each(Job::refuse),
        }
    }

    /// An answer of the node, which counts as down once that takes long.
    async fn within_reason<T>(&self, answer: impl Future<Output = T>) -> T {
        let mut answer = pin!(answer);
        if self.node.cluster.is_some() {
            if let Ok(answer) = timeout(SLOW, &mut answer).await {
                return answer;
            }
            self.node.doubt();
            self.trouble();
        }
        answer.await
    }

    /// What a reply is to the requests of its call.
    fn result(&self, reply: Value) -> Result<Value, CallError> {
        let Value::ServerError(error) = reply else { return Ok(reply) };
        let refused = refusal(&error);
        if refused == CallError::Unavailable {
            self.node.backend.away(outage::cause(&error));
        }
        self.node.count(refused);
        Err(refused)
    }

    /// Is there a connection? Tries to open one, unless that failed a moment ago.
    async fn connected(&mut self) -> bool {
        // If another lane has met Redis again, or it has moved, a connection from before leads nowhere, and a request must not
        // find that out.
        let backend = &self.node.backend;
        self.link = self.link.take_if(|it| backend.is_present(it) && !it.connection.has_ended());
        if self.link.is_some() {
            return true;
        }
        let down = self.node.down();
        if let Some((until, pause)) = down.filter(|(until, _)| Instant::now() < *until) {
            if pause > SHORT_PAUSE {
                return false;
            }
            sleep_until(until).await;
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
                self.link = Some(Link { seat: self.node.seat(), ..link });
                self.node.set_down(None);
                true
            }
            Err(error) => {
                let pause = down.map_or(FIRST_PAUSE, |(_, pause)| {
                    (pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE)
                });
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
        let (backend, endpoint) = (&self.node.backend, link.endpoint);
        let lives = tokio::select! {
            lives = self.within_reason(backend.probe(&mut link, || self.node.fence_key(0))) => lives,
            () = backend.moved_from(endpoint) => false,
        };
        if lives {
            self.link = Some(link);
            if self.node.is_down() {
                self.node.set_down(None);
            }
        }
    }
}

/// Hands out what came back. A reply that dueq falls over must not end the lane, which would leave requests waiting for
/// ever; those of this call are answered that their outcome is not known.
fn hand_out(call: Box<dyn Call>, exchange: &mut Exchange<'_>, result: Result<Value, CallError>) {
    if catch_unwind(AssertUnwindSafe(|| call.finish(exchange, result))).is_err() {
        tracing::error!("a bug: a reply from Redis could not be delivered");
    }
}
