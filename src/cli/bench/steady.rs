//! A light publisher at a constant rate, for what the load beside it does to
//! everybody else: unlike the works of `load`, it does not send faster because
//! it was answered, nor less because it had to wait. It has a thread of its own,
//! so that it does not wait for what the generator of that load computes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::Fallible;
use super::client::Connection;
use super::servers::Server;
use super::wire::{payload, post};

const CONNECTIONS: u32 = 10;

/// Messages a second, of all connections together.
pub const PER_S: u32 = 500;

/// When a message was sent, and how long its answer took, µs.
pub type Latency = (Instant, u32);

/// The publisher while it runs; it ends by itself when this is dropped.
#[derive(Debug)]
pub struct Steady {
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<Fallible<Vec<Latency>>>>,
}

impl Steady {
    /// Begins to publish on `topic`.
    pub fn start(server: &Server, topic: &str) -> Fallible<Self> {
        let (address, topic) = (server.address.clone(), topic.to_owned());
        let done = Arc::new(AtomicBool::new(false));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let until = Arc::clone(&done);
        let thread = std::thread::Builder::new()
            .name("steady".to_owned())
            .spawn(move || runtime.block_on(publish_all(&address, &topic, &until)))?;
        Ok(Self { done, thread: Some(thread) })
    }

    /// Ends it; all that was sent, in no order.
    pub fn stop(mut self) -> Fallible<Vec<Latency>> {
        self.done.store(true, Ordering::Relaxed);
        // It looks every few milliseconds.
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(latencies)) => latencies,
            _ => Err("the steady publisher broke down".into()),
        }
    }
}

impl Drop for Steady {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
    }
}

async fn publish_all(address: &str, topic: &str, done: &Arc<AtomicBool>) -> Fallible<Vec<Latency>> {
    let body = format!(r#"{{"payload":{}}}"#, payload());
    let request = post(&format!("/topics/{topic}/messages"), address, body.as_bytes());
    let period = Duration::from_secs(1) * CONNECTIONS / PER_S;
    let mut tasks = JoinSet::new();
    for turn in 0..CONNECTIONS {
        let connection = Connection::open(address).await?;
        let start = tokio::time::Instant::now() + period * turn / CONNECTIONS;
        let ticks = tokio::time::interval_at(start, period);
        tasks.spawn(publish(connection, request.clone(), ticks, Arc::clone(done)));
    }
    let each = tasks.join_all().await.into_iter().collect::<Fallible<Vec<_>>>()?;
    Ok(each.concat())
}

async fn publish(
    mut connection: Connection,
    request: Vec<u8>,
    mut ticks: tokio::time::Interval,
    done: Arc<AtomicBool>,
) -> Fallible<Vec<Latency>> {
    let period = ticks.period();
    let mut latencies = Vec::new();
    while !done.load(Ordering::Relaxed) {
        let planned = ticks.tick().await.into_std();
        let sent = Instant::now();
        let answer = connection.send(&request).await?;
        if answer.status != 201 {
            return Err(format!("a steady publish was answered {}", answer.status).into());
        }
        // One that had to wait for the answer before it is late, and that counts. Less than a
        // period is only the timer, whose grain is a millisecond.
        let behind = sent.saturating_duration_since(planned);
        let waited = if behind >= period { behind } else { Duration::ZERO };
        let micros = (sent.elapsed() + waited).as_micros();
        latencies.push((sent, u32::try_from(micros).unwrap_or(u32::MAX)));
    }
    Ok(latencies)
}
