//! One topic on one server, and what is done to it: the operations that the
//! parts of the bench put together.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use super::Fallible;
use super::batches::{BATCH, Batches, Rich};
use super::load::{Measured, Work, drive};
use super::servers::{Mode, Server};
use super::wire::Held;
use super::work::{Ack, Lease, Publish, endless};

/// Connections that fill a topic outside of the timed parts.
const FILLERS: usize = 64;
/// The same where they publish by batches.
const BATCH_FILLERS: usize = 8;

/// Nobody waits longer for a topic to be filled.
const FILL_LIMIT: Duration = Duration::from_secs(900);

/// A topic on a server, with what is known to be in it.
#[derive(Debug)]
pub struct Site<'a> {
    server: &'a Server,
    mode: Mode,
    topic: String,
    /// Messages that are ready, at least.
    ready: u64,
    held: Vec<Held>,
}

impl<'a> Site<'a> {
    /// A topic that does not exist yet, on a server in `mode`.
    pub fn new(server: &'a Server, mode: Mode, topic: String) -> Self {
        Self { server, mode, topic, ready: 0, held: Vec::new() }
    }

    /// Its name.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// How its server reaches Redis.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Publishes messages that are due at once.
    pub async fn publish(&mut self, connections: usize, limit: Duration) -> Fallible<Measured> {
        let measured = self.send(connections, limit, &endless(), None).await?;
        self.ready += measured.done;
        Ok(measured)
    }

    /// Publishes messages at random delays of `delays.0`…`delays.1` ms.
    pub async fn publish_delayed(
        &mut self,
        connections: usize,
        limit: Duration,
        delays: (u64, u64),
    ) -> Fallible<Measured> {
        self.send(connections, limit, &endless(), Some(delays)).await
    }

    /// Publishes by batches; what counts is messages, in the rate.
    pub async fn publish_batches(&self, connections: usize, limit: Duration) -> Fallible<Measured> {
        let work = |_| Batches::new(&self.server.address, &self.topic, None, &endless());
        Ok(self.drive((0..connections).map(work).collect(), limit).await?.0)
    }

    /// Publishes messages that set key, TTL, priority and headers.
    pub async fn publish_rich(&self, connections: usize, limit: Duration) -> Fallible<Measured> {
        let work = |_| Rich::new(&self.server.address, &self.topic);
        Ok(self.drive((0..connections).map(work).collect(), limit).await?.0)
    }

    /// Deletes the topic with all that is in it, and waits until that is done;
    /// the next message makes it anew.
    pub async fn clear(&mut self) -> Fallible<()> {
        self.ready = 0;
        self.held.clear();
        // The ceiling stores nothing.
        if self.mode == Mode::Ceiling {
            return Ok(());
        }
        let path = format!("/topics/{}?force=true", self.topic);
        let host = &self.server.address;
        let request = format!("DELETE {path} HTTP/1.1\r\nhost: {host}\r\n\r\n");
        match self.server.once(request.as_bytes()).await? {
            (204 | 404, _) => self.settle().await,
            (status, body) => Err(format!("deleting a topic was answered {status}: {body}").into()),
        }
    }

    /// Waits until Redis has freed what was deleted and rewritten its log, so
    /// that the next measurement does not share the cores with that.
    async fn settle(&self) -> Fallible<()> {
        let Some(redis) = self.server.redis().await? else {
            return Ok(());
        };
        // A rewrite is scheduled by a task that runs ten times a second.
        for _ in 0..200 {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let facts = redis.facts().await?;
            if !facts.rewriting && !facts.freeing {
                break;
            }
        }
        Ok(())
    }

    /// Publishes until at least `wanted` messages are ready.
    pub async fn fill(&mut self, wanted: u64) -> Fallible<()> {
        // The ceiling's answers come from nowhere: nothing can run out there.
        if self.mode == Mode::Ceiling || self.ready >= wanted {
            return Ok(());
        }
        let count = (wanted - self.ready).next_multiple_of(BATCH as u64);
        let left = Arc::new(AtomicUsize::new(usize::try_from(count)?));
        let work = |_| Batches::new(&self.server.address, &self.topic, None, &left);
        let works = (0..BATCH_FILLERS).map(work).collect();
        let (measured, _) = self.drive(works, FILL_LIMIT).await?;
        if let Some(failure) = measured.first_failure {
            return Err(format!("filling a topic: {failure}").into());
        }
        self.ready += count;
        Ok(())
    }

    /// Publishes `count` messages at random delays; how many were.
    pub async fn fill_delayed(&mut self, count: u64, delays: (u64, u64)) -> Fallible<Measured> {
        let left = Arc::new(AtomicUsize::new(usize::try_from(count)?));
        let measured = self.send(FILLERS, FILL_LIMIT, &left, Some(delays)).await?;
        match measured.first_failure {
            Some(failure) => Err(format!("filling a topic: {failure}").into()),
            None => Ok(measured),
        }
    }

    /// Leases `max_messages` a request, and keeps the leases for `ack`.
    pub async fn lease(&mut self, connections: usize, limit: Duration) -> Fallible<Measured> {
        self.take(connections, limit, 1, false).await
    }

    /// Acks what `lease` has kept, until there is no more.
    pub async fn ack(&mut self, connections: usize, limit: Duration) -> Fallible<Measured> {
        let held = std::mem::take(&mut self.held);
        let works = Ack::share(&self.server.address, &held, connections);
        Ok(self.drive(works, limit).await?.0)
    }

    /// The consumer's loop: leases `max_messages` and acks those before.
    pub async fn consume(
        &mut self,
        connections: usize,
        limit: Duration,
        max_messages: usize,
    ) -> Fallible<Measured> {
        self.take(connections, limit, max_messages, true).await
    }

    async fn send(
        &self,
        connections: usize,
        limit: Duration,
        left: &Arc<AtomicUsize>,
        delays: Option<(u64, u64)>,
    ) -> Fallible<Measured> {
        let work = |seed| {
            let work = Publish::new(&self.server.address, &self.topic, left);
            match delays {
                Some((from, to)) => work.delayed(from, to, seed),
                None => work,
            }
        };
        let works = (1..=connections as u64).map(work).collect();
        Ok(self.drive(works, limit).await?.0)
    }

    async fn take(
        &mut self,
        connections: usize,
        limit: Duration,
        max_messages: usize,
        acks: bool,
    ) -> Fallible<Measured> {
        let work = |_| Lease::new(&self.server.address, &self.topic, max_messages, acks);
        let (measured, works) = self.drive((0..connections).map(work).collect(), limit).await?;
        // The answers that came too late to be counted took messages as well.
        let late = (connections * max_messages) as u64;
        self.ready = self.ready.saturating_sub(measured.done + late);
        if !acks {
            self.held.extend(works.into_iter().flat_map(|work| work.held));
        }
        Ok(measured)
    }

    async fn drive<W: Work>(&self, works: Vec<W>, limit: Duration) -> Fallible<(Measured, Vec<W>)> {
        drive(&self.server.address, works, limit)
            .await
            .map_err(|failure| format!("{} ({}): {failure}", self.topic, self.mode.name()).into())
    }
}
