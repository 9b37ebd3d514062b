//! Generates the load: each connection sends its next request as soon as the last one is answered, for a given time.
//!
//! The connections are divided among threads with a runtime each, because a connection that never changes its thread
//! costs least. There are half as many threads as cores, because the server needs cores too.

use crate::{
    Fallible,
    client::{Address, Connection},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use tokio::{sync::oneshot, task::JoinSet};

/// The result of one request.
#[derive(Debug)]
pub enum Step {
    /// This many messages were handled.
    Done(u64),
    /// There was nothing to lease. The measurement ends, since the topic is empty.
    Empty,
    /// The response was wrong; the text describes it.
    Wrong(String),
}

/// The requests of one connection, and the check of their responses.
pub trait Work: Send + 'static {
    /// Writes the next request into `request`, which is empty. Returns false if there is none.
    fn next(&mut self, request: &mut Vec<u8>) -> bool;
    /// Checks the response.
    fn answer(&mut self, status: u16, body: &[u8]) -> Step;
}

/// The result of a measurement.
#[derive(Debug, Default)]
pub struct Measured {
    /// Messages handled.
    pub messages: u64,
    /// Requests that failed or got a wrong response.
    pub failed: u64,
    /// The first failure.
    pub first_failure: Option<String>,
    /// From the first request to the last response that counts.
    pub elapsed: Duration,
    pub latencies_us: Vec<u32>,
}

impl Measured {
    /// Messages per second; 0 if no time passed.
    pub fn rate(&self) -> f64 {
        match self.elapsed.as_secs_f64() {
            0.0 => 0.0,
            seconds => self.messages as f64 / seconds,
        }
    }

    fn add(&mut self, mut other: Measured) {
        self.messages += other.messages;
        self.failed += other.failed;
        self.first_failure = self.first_failure.take().or(other.first_failure);
        self.elapsed = self.elapsed.max(other.elapsed);
        self.latencies_us.append(&mut other.latencies_us);
    }
}

/// The percentile by nearest rank: the smallest value that `share` (0 to 1) of the values do not exceed; 0 if there are
/// none.
pub fn percentile(values: &mut [u32], share: f64) -> u32 {
    let rank = (share * values.len() as f64).ceil() as usize;
    match values.len() {
        0 => 0,
        len => *values.select_nth_unstable(rank.clamp(1, len) - 1).1,
    }
}

/// Stops the load when dropped.
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs the works concurrently against `address`, until each has finished or `limit` is over. A thread's clock starts once
/// all its connections are open. Returns the works with the results that they gathered.
///
/// # Errors
/// If a connection cannot be opened, or every request failed.
pub async fn drive<W: Work>(
    address: &Address,
    works: Vec<W>,
    limit: Duration,
) -> Fallible<(Measured, Vec<W>)> {
    let threads = thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2));
    let mut shares: Vec<Vec<W>> = (0..threads).map(|_| Vec::new()).collect();
    for (index, work) in works.into_iter().enumerate() {
        shares[index % threads].push(work);
    }
    let stop = Stop(Arc::default());
    let mut running = Vec::new();
    for share in shares {
        let (result, finished) = oneshot::channel();
        let (address, stop) = (address.clone(), Arc::clone(&stop.0));
        thread::spawn(move || result.send(run_share(&address, share, limit, stop)));
        running.push(finished);
    }
    let (mut total, mut works) = (Measured::default(), Vec::new());
    for finished in running {
        for (measured, work) in finished.await?? {
            total.add(measured);
            works.push(work);
        }
    }
    match &total.first_failure {
        Some(failure) if total.messages == 0 => Err(failure.clone().into()),
        _ => Ok((total, works)),
    }
}

/// Runs one thread's share of the connections.
fn run_share<W: Work>(
    address: &Address,
    share: Vec<W>,
    limit: Duration,
    stop: Arc<AtomicBool>,
) -> Fallible<Vec<(Measured, W)>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut opened = Vec::new();
        for work in share {
            opened.push((address.connect().await?, work));
        }
        let mut tasks = JoinSet::new();
        for (connection, work) in opened {
            tasks.spawn(one_connection(connection, work, limit, Arc::clone(&stop)));
        }
        Ok(tasks.join_all().await)
    })
}

async fn one_connection<W: Work>(
    mut connection: Connection,
    mut work: W,
    limit: Duration,
    stop: Arc<AtomicBool>,
) -> (Measured, W) {
    let mut measured = Measured::default();
    let mut request = Vec::with_capacity(1024);
    let start = Instant::now();
    let mut sent = start;
    while !stop.load(Ordering::Relaxed) {
        request.clear();
        if !work.next(&mut request) {
            break;
        }
        let step = match connection.send(&request).await {
            Ok((status, body)) => work.answer(status, body),
            Err(error) => {
                measured.failed += 1;
                measured.first_failure.get_or_insert(error.to_string());
                break;
            }
        };
        let now = Instant::now();
        // Responses after the limit do not count. They would favour many connections, whose last responses all arrive
        // at once. A connection's first response always counts, so that a slow server does not look like none.
        let late = now - start > limit;
        match step {
            Step::Done(messages) if !late || measured.latencies_us.is_empty() => {
                measured.messages += messages;
                measured.elapsed = now - start;
                let micros = (now - sent).as_micros();
                measured.latencies_us.push(u32::try_from(micros).unwrap_or(u32::MAX));
            }
            Step::Done(_) => {}
            Step::Empty => stop.store(true, Ordering::Relaxed),
            Step::Wrong(what) => {
                measured.failed += 1;
                measured.first_failure.get_or_insert(what);
            }
        }
        if late {
            break;
        }
        sent = now;
    }
    (measured, work)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_nearest_rank() {
        let mut values: Vec<u32> = (1..=100).rev().collect();
        for (share, value) in [(0.5, 50), (0.99, 99), (1.0, 100), (0.0, 1)] {
            assert_eq!(percentile(&mut values, share), value);
        }
        assert_eq!(percentile(&mut [], 0.99), 0);
    }
}
