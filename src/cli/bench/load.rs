//! The load generator: some connections, each sending its next request as
//! soon as the last one is answered, for a given time.
//!
//! What is sent and how an answer is judged is a `Work`, one for each
//! connection; the works come back afterwards with what they have gathered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::client::Connection;
use super::stats::Samples;
use super::{Failure, Fallible};

/// What an answer came to.
#[derive(Debug)]
pub enum Step {
    /// This many messages were handled.
    Done(u64),
    /// There was nothing to take: the whole measurement ends here, since what
    /// follows would be measured on an empty topic.
    Empty,
    /// An answer that should not have come; the text says which.
    Wrong(String),
}

/// One connection's work.
pub trait Work: Send + 'static {
    /// Puts the next request into `request` (which is empty); false: no more.
    fn next(&mut self, request: &mut Vec<u8>) -> bool;
    /// Judges its answer.
    fn answer(&mut self, status: u16, body: &[u8]) -> Step;
}

/// What a measurement gave.
#[derive(Debug, Default, Clone)]
pub struct Measured {
    /// Messages handled.
    pub done: u64,
    /// Requests that were answered otherwise than wanted.
    pub failed: u64,
    /// The first of these.
    pub first_failure: Option<String>,
    /// From the first request to the last answer that counts.
    pub elapsed: Duration,
    /// Request latencies, µs.
    pub latencies: Samples,
}

impl Measured {
    /// Messages a second; 0 where no time passed.
    pub fn rate(&self) -> f64 {
        match self.elapsed.as_secs_f64() {
            0.0 => 0.0,
            seconds => self.done as f64 / seconds,
        }
    }

    fn add(&mut self, other: Measured) {
        self.done += other.done;
        self.failed += other.failed;
        self.first_failure = self.first_failure.take().or(other.first_failure);
        self.elapsed = self.elapsed.max(other.elapsed);
        self.latencies.merge(other.latencies);
    }
}

/// Runs the works side by side against `address` until each has no more to do
/// or `limit` is over. Connections are opened before the clock starts.
///
/// # Errors
/// When a connection cannot be opened, or every request failed.
pub async fn drive<W: Work>(
    address: &str,
    works: Vec<W>,
    limit: Duration,
) -> Fallible<(Measured, Vec<W>)> {
    let stop = Arc::new(AtomicBool::new(false));
    let start_line = Arc::new(Barrier::new(works.len()));
    let mut connections = Vec::with_capacity(works.len());
    for _ in &works {
        connections.push(Connection::open(address).await?);
    }
    let mut tasks = JoinSet::new();
    for (work, connection) in works.into_iter().zip(connections) {
        let (stop, start_line) = (Arc::clone(&stop), Arc::clone(&start_line));
        tasks.spawn(async move {
            start_line.wait().await;
            one_connection(connection, work, limit, &stop).await
        });
    }
    let (mut total, mut works) = (Measured::default(), Vec::new());
    while let Some(joined) = tasks.join_next().await {
        let (measured, work) = joined?;
        total.add(measured);
        works.push(work);
    }
    match &total.first_failure {
        Some(failure) if total.done == 0 => Err(Failure::from(failure.as_str())),
        _ => Ok((total, works)),
    }
}

async fn one_connection<W: Work>(
    mut connection: Connection,
    mut work: W,
    limit: Duration,
    stop: &AtomicBool,
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
            Ok(answer) => work.answer(answer.status, answer.body),
            Err(error) => {
                measured.failed += 1;
                measured.first_failure.get_or_insert(error.to_string());
                break;
            }
        };
        let now = Instant::now();
        // What is answered after the time is over belongs to nobody: counting
        // it would favour many connections, whose last answers come in a heap.
        let late = now - start > limit;
        match step {
            Step::Done(messages) if !late => {
                measured.done += messages;
                measured.elapsed = now - start;
                let micros = (now - sent).as_micros();
                measured.latencies.push(u32::try_from(micros).unwrap_or(u32::MAX));
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
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// Sends `left` requests and wants 200.
    #[derive(Debug)]
    struct Countdown {
        left: u32,
    }

    impl Work for Countdown {
        fn next(&mut self, request: &mut Vec<u8>) -> bool {
            request.extend_from_slice(b"ping");
            let more = self.left > 0;
            self.left = self.left.saturating_sub(1);
            more
        }
        fn answer(&mut self, status: u16, body: &[u8]) -> Step {
            match (status, body) {
                (200, b"ok") => Step::Done(1),
                (200, _) => Step::Empty,
                _ => Step::Wrong(format!("status {status}")),
            }
        }
    }

    /// A server that answers every four bytes with `answer`.
    async fn answering(answer: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut request = [0; 4];
                    while socket.read_exact(&mut request).await.is_ok() {
                        socket.write_all(answer.as_bytes()).await.unwrap();
                    }
                });
            }
        });
        address
    }

    fn works(connections: usize, left: u32) -> Vec<Countdown> {
        (0..connections).map(|_| Countdown { left }).collect()
    }

    #[tokio::test]
    async fn every_answer_is_counted_and_timed() {
        let address = answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
        let (measured, works) =
            drive(&address, works(4, 25), Duration::from_secs(20)).await.unwrap();
        assert_eq!((measured.done, measured.failed, works.len()), (100, 0, 4));
        assert_eq!(measured.latencies.len(), 100);
        assert!(measured.rate() > 0.0);
    }

    #[tokio::test]
    async fn the_time_limit_ends_it() {
        let address = answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
        let limit = Duration::from_millis(60);
        let (measured, _) = drive(&address, works(2, u32::MAX), limit).await.unwrap();
        assert!(measured.done > 0 && measured.elapsed <= limit);
    }

    #[tokio::test]
    async fn an_empty_topic_ends_it_for_all() {
        let address = answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        let (measured, _) =
            drive(&address, works(3, u32::MAX), Duration::from_secs(20)).await.unwrap();
        assert_eq!((measured.done, measured.rate()), (0, 0.0));
    }

    #[tokio::test]
    async fn a_server_that_refuses_everything_is_an_error() {
        let address = answering("HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n").await;
        let error = drive(&address, works(2, 3), Duration::from_secs(20)).await.unwrap_err();
        assert!(error.to_string().contains("503"));
    }
}
