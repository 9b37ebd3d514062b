//! One lane: it takes what waits in the inbox, sends it, and keeps its connection in order. A connection that broke, or
//! that leads to a replica by now, is thrown away and replaced.

use super::{
    super::backend::{Link, discard},
    Lanes,
    request::group,
};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, timeout_at};

/// How often a lane checks that its connection still leads to a primary, what time it is there, and in which epoch. Not
/// only one that is idle throughout: a replica answers reads too, and a connection may live through a failover.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
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
    lanes: Arc<Lanes>,
    link: Option<Link>,
    /// Only for what need not wait behind a busy topic.
    express: bool,
}

impl Lane {
    pub(super) fn new(lanes: Arc<Lanes>, link: Option<Link>, express: bool) -> Self {
        Self { lanes, link, express }
    }

    /// Serves the inbox until it is closed and empty.
    pub(super) async fn run(mut self) {
        let lanes = self.lanes.clone();
        let mut probe_at = Instant::now() + PROBE_INTERVAL;
        loop {
            match timeout_at(probe_at, lanes.inbox.wait(self.express)).await {
                Ok(true) => self.serve().await,
                Ok(false) => return,
                Err(_) => {}
            }
            if Instant::now() >= probe_at {
                self.probe().await;
                probe_at = Instant::now() + PROBE_INTERVAL;
            }
        }
    }

    async fn serve(&mut self) {
        // Whoever is ready to run now may have a request for this group.
        tokio::task::yield_now().await;
        let lanes = self.lanes.clone();
        let connected = self.connected().await;
        let mut taken = lanes.inbox.take(self.express);
        let jobs = std::mem::take(&mut taken.jobs);
        if !connected {
            lanes.count_refused(jobs.len());
            jobs.into_iter().for_each(|job| job.refuse());
            return;
        }
        let waited = jobs.first().map(|job| job.since.elapsed()).unwrap_or_default();
        let limit = lanes.timeout.saturating_sub(waited).max(lanes.timeout / LEAST_SHARE);
        let calls = group(jobs);
        if let Some(mut link) = self.link.take() {
            if !calls.is_empty() && lanes.exchange(&mut link, calls, limit).await {
                discard(link.connection);
            } else {
                self.link = Some(link);
            }
        }
    }

    /// Is there a connection? Tries to open one, unless that failed a moment ago.
    async fn connected(&mut self) -> bool {
        if let Some(link) = self.link.take() {
            let present = self.lanes.backend.service();
            if present.is_none_or(|service| service.server.epoch == link.epoch) {
                self.link = Some(link);
                return true;
            }
            // Another lane has met Redis anew: a connection from before leads nowhere, and a request must not find that out.
            discard(link.connection);
        }
        let down = self.lanes.down();
        if down.is_some_and(|(until, _)| Instant::now() < until) {
            return false;
        }
        let connected = tokio::select! {
            connected = self.lanes.backend.connect() => connected,
            // A stop does not wait for a Redis that hangs.
            () = self.lanes.stopped_for(STOP_CONNECT_TIMEOUT) => return false,
        };
        match connected {
            Ok(link) => {
                self.link = Some(link);
                self.lanes.set_down(None);
                true
            }
            Err(error) => {
                let pause = down.map_or(FIRST_PAUSE, |(_, pause)| LONGEST_PAUSE.min(pause * 2));
                tracing::warn!(%error, pause_ms = pause.as_millis() as u64, "no connection to Redis");
                self.lanes.set_down(Some((Instant::now() + pause, pause)));
                false
            }
        }
    }

    /// A connection that broke, or that leads to a replica by now, is replaced before a request meets it.
    async fn probe(&mut self) {
        if !self.connected().await {
            return;
        }
        let Some(mut link) = self.link.take() else { return };
        if self.lanes.backend.probe(&mut link).await {
            self.link = Some(link);
        } else {
            discard(link.connection);
        }
    }
}
