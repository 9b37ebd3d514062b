//! One topic on one server, and what is done to it: the operations that the
//! parts of the bench put together.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use super::Fallible;
use super::load::{Measured, Work, drive};
use super::servers::{Mode, Server};
use super::wire::Held;
use super::work::{Ack, Lease, Publish, endless};

/// Connections that fill a topic outside of the timed parts.
const FILLERS: usize = 64;

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

    /// Publishes until at least `wanted` messages are ready.
    pub async fn fill(&mut self, wanted: u64) -> Fallible<()> {
        // The ceiling's answers come from nowhere: nothing can run out there.
        if self.mode == Mode::Ceiling || self.ready >= wanted {
            return Ok(());
        }
        self.put(wanted - self.ready, None).await?;
        self.ready = wanted;
        Ok(())
    }

    /// Publishes `count` messages at random delays; how many were.
    pub async fn fill_delayed(&mut self, count: u64, delays: (u64, u64)) -> Fallible<Measured> {
        self.put(count, Some(delays)).await
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

    async fn put(&self, count: u64, delays: Option<(u64, u64)>) -> Fallible<Measured> {
        let left = Arc::new(AtomicUsize::new(usize::try_from(count)?));
        let measured = self.send(FILLERS, FILL_LIMIT, &left, delays).await?;
        match measured.first_failure {
            Some(failure) => Err(format!("filling a topic: {failure}").into()),
            None => Ok(measured),
        }
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
