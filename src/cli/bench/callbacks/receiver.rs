//! Who is called: a receiver that notes when each call came and answers at once, and a host that accepts and never
//! answers. Both share the machine with what they measure, so they understand no more of HTTP than dueq sends, and each
//! has a thread of its own, so that it does not wait for the rest of the bench.

use std::future::Future;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::cli::bench::Fallible;
use crate::cli::bench::client::find;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// A call as it came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// When, µs since 1970 by this machine's clock, which is Redis's too.
    pub at_us: i64,
    /// The number that its payload carries.
    pub number: u64,
    /// The due time that its payload carries, ms since 1970.
    pub due_ms: i64,
}

impl Arrival {
    /// From the due time to the arrival, µs; negative: early.
    pub fn late_us(&self) -> i64 {
        self.at_us - self.due_ms * 1_000
    }
}

/// A listener with a thread that serves it; both end when this is dropped, and every connection with them.
#[derive(Debug)]
struct Host {
    address: SocketAddr,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    fn start<F, S>(ip: &str, serve: S) -> Fallible<Self>
    where
        F: Future<Output = ()>,
        S: FnOnce(TcpListener) -> F + Send + 'static,
    {
        let listener = StdListener::bind((ip, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (end, ended) = oneshot::channel();
        let serve = move || {
            runtime.block_on(async {
                let Ok(listener) = TcpListener::from_std(listener) else { return };
                tokio::select! {
                    () = serve(listener) => {}
                    _ = ended => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("called".to_owned()).spawn(serve)?;
        Ok(Self { address, end: Some(end), thread: Some(thread) })
    }

    fn url(&self) -> String {
        format!("http://{}/call", self.address)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.end.take());
        // It ends at its next turn.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A receiver that answers every call with 200.
#[derive(Debug)]
pub struct Receiver {
    host: Host,
    arrivals: Arc<Mutex<Vec<Arrival>>>,
}

impl Receiver {
    /// Starts one on a free port of 127.0.0.1.
    pub fn start() -> Fallible<Self> {
        let arrivals = Arc::default();
        let noted = Arc::clone(&arrivals);
        let host = Host::start("127.0.0.1", move |listener| async move {
            while let Ok((stream, _)) = listener.accept().await {
                let noted = Arc::clone(&noted);
                // A call that is not understood ends its connection, and is missing in the figures.
                tokio::spawn(async move { answer_all(stream, &noted).await.ok() });
            }
        })?;
        Ok(Self { host, arrivals })
    }

    /// What to call.
    pub fn url(&self) -> String {
        self.host.url()
    }

    /// What has come so far, in the order in which it came.
    pub fn arrivals(&self) -> Vec<Arrival> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until `count` calls have come, or `limit` is over; how many have.
    pub async fn wait(&self, count: usize, limit: Duration) -> usize {
        let end = Instant::now() + limit;
        loop {
            let come = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner).len();
            if come >= count || Instant::now() > end {
                return come;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn answer_all(mut stream: TcpStream, noted: &Mutex<Vec<Arrival>>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(4_096);
    loop {
        while let Some((body_start, end)) = whole(&buffer) {
            let body = &buffer[body_start..end];
            let arrival = Arrival {
                at_us: chrono::Utc::now().timestamp_micros(),
                number: number_after(body, b"\"n\":").unwrap_or(0),
                due_ms: number_after(body, b"\"due\":").unwrap_or(0).cast_signed(),
            };
            noted.lock().unwrap_or_else(PoisonError::into_inner).push(arrival);
            buffer.drain(..end);
            stream.write_all(ANSWER).await?;
        }
        if stream.read_buf(&mut buffer).await? == 0 {
            return Ok(());
        }
    }
}

/// Where the body of the request at the front of `bytes` begins and ends, once all of it is there.
fn whole(bytes: &[u8]) -> Option<(usize, usize)> {
    const LENGTH: &[u8] = b"content-length:";
    let head = find(bytes, b"\r\n\r\n")?;
    let mut lines = bytes[..head].split(|byte| *byte == b'\n');
    let length = lines.find_map(|line| {
        let named = line.get(..LENGTH.len()).is_some_and(|name| name.eq_ignore_ascii_case(LENGTH));
        let value = line.get(LENGTH.len()..).filter(|_| named)?;
        std::str::from_utf8(value).ok()?.trim().parse().ok()
    });
    let end = head + 4 + length.unwrap_or(0);
    (bytes.len() >= end).then_some((head + 4, end))
}

fn number_after(bytes: &[u8], name: &[u8]) -> Option<u64> {
    let digits = &bytes[find(bytes, name)? + name.len()..];
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |number: u64, digit| number.wrapping_mul(10) + u64::from(digit - b'0')))
}

/// A host that accepts every connection and never says a word.
#[derive(Debug)]
pub struct Silent {
    host: Host,
    accepted: Arc<AtomicUsize>,
}

impl Silent {
    /// Starts one on a free port of 127.0.0.2, which is another host than the receiver's.
    pub fn start() -> Fallible<Self> {
        let accepted = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&accepted);
        let host = Host::start("127.0.0.2", move |listener| async move {
            let mut held = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                held.push(stream);
                counted.store(held.len(), Ordering::Relaxed);
            }
        })?;
        Ok(Self { host, accepted })
    }

    /// What to call.
    pub fn url(&self) -> String {
        self.host.url()
    }

    /// Connections that it has accepted, all of which it still holds.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: &[u8] =
        b"POST /call HTTP/1.1\r\nhost: a\r\nContent-Length: 23\r\n\r\n{\"n\":17,\"due\":12345678}";

    #[test]
    fn a_call_is_noted_only_when_it_is_whole() {
        for cut in 0..CALL.len() {
            assert_eq!(whole(&CALL[..cut]), None, "cut at {cut}");
        }
        assert_eq!(whole(CALL), Some((CALL.len() - 23, CALL.len())));
        assert_eq!(whole(b"GET / HTTP/1.1\r\n\r\nGET"), Some((18, 18)));
    }

    #[tokio::test]
    async fn calls_are_answered_and_noted_with_what_they_carry() {
        let receiver = Receiver::start().unwrap();
        let mut stream = TcpStream::connect(receiver.host.address).await.unwrap();
        for come in 1..=2 {
            stream.write_all(CALL).await.unwrap();
            let mut answer = vec![0; ANSWER.len()];
            stream.read_exact(&mut answer).await.unwrap();
            assert_eq!(answer, ANSWER);
            assert_eq!(receiver.wait(come, Duration::from_secs(10)).await, come);
        }
        let arrival = receiver.arrivals()[1];
        assert_eq!((arrival.number, arrival.due_ms), (17, 12_345_678));
        assert_eq!(arrival.late_us(), arrival.at_us - 12_345_678_000);
    }

    #[tokio::test]
    async fn a_silent_host_counts_and_closes_what_it_holds() {
        let silent = Silent::start().unwrap();
        let mut stream = TcpStream::connect(silent.host.address).await.unwrap();
        while silent.accepted() < 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(silent);
        assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0);
    }
}
