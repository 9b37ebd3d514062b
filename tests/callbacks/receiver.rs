//! A receiver of calls that answers bytes as it is told, and counts who came. It reads requests with a length only.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A running receiver.
pub struct Receiver {
    /// Where it listens.
    pub address: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    connections: AtomicUsize,
    closed: AtomicUsize,
    /// Heads and bodies of the requests.
    requests: Mutex<Vec<(String, Vec<u8>)>>,
}

/// What is written after a request; then the connection is kept, held in silence, or closed.
#[derive(Clone, Debug)]
pub enum Answer {
    /// These bytes, and the next request is read.
    Keep(Vec<u8>),
    /// These bytes, and the connection is closed.
    Close(Vec<u8>),
    /// These bytes, and nothing more ever.
    Hang(Vec<u8>),
    /// These bytes, then one `x` every 20 ms without end.
    Trickle(Vec<u8>),
}

impl Answer {
    /// A whole answer with its length.
    pub fn of(status: u16, headers: &str, body: &str) -> Self {
        let length = body.len();
        let head = format!("HTTP/1.1 {status} Said\r\ncontent-length: {length}\r\n{headers}\r\n");
        Self::Keep((head + body).into_bytes())
    }
}

impl Receiver {
    /// One at this address (port 0: a free one) that gives the answer for each request's number, from 0.
    pub async fn at(
        address: &str,
        answer: impl Fn(usize) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let task = tokio::spawn(serve(listener, Arc::clone(&state), Arc::new(answer)));
        Self { address, state, task }
    }

    /// One on loopback with one answer for everybody.
    pub async fn always(answer: Answer) -> Self {
        Self::at("127.0.0.1:0", move |_| answer.clone()).await
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// How many connections it took.
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// How many of them are over.
    pub fn closed(&self) -> usize {
        self.state.closed.load(Ordering::SeqCst)
    }

    /// What came: heads and bodies.
    pub fn requests(&self) -> Vec<(String, Vec<u8>)> {
        self.state.requests.lock().unwrap().clone()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Answers = dyn Fn(usize) -> Answer + Send + Sync;

async fn serve(listener: TcpListener, state: Arc<State>, answers: Arc<Answers>) {
    while let Ok((stream, _)) = listener.accept().await {
        state.connections.fetch_add(1, Ordering::SeqCst);
        let (state, answers) = (Arc::clone(&state), Arc::clone(&answers));
        tokio::spawn(async move {
            converse(stream, &state, &*answers).await;
            state.closed.fetch_add(1, Ordering::SeqCst);
        });
    }
}

async fn converse(mut stream: TcpStream, state: &State, answers: &Answers) -> Option<()> {
    let mut read = Vec::new();
    loop {
        let head = loop {
            if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            more(&mut stream, &mut read).await?;
        };
        let text = String::from_utf8_lossy(&read[..head]).into_owned();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |length| length.parse().unwrap());
        while read.len() < head + length {
            more(&mut stream, &mut read).await?;
        }
        let body = read[head..head + length].to_vec();
        read.drain(..head + length);
        let number = {
            let mut requests = state.requests.lock().unwrap();
            requests.push((text, body));
            requests.len() - 1
        };
        match answers(number) {
            Answer::Keep(bytes) => stream.write_all(&bytes).await.ok()?,
            Answer::Close(bytes) => return stream.write_all(&bytes).await.ok(),
            Answer::Hang(bytes) => {
                stream.write_all(&bytes).await.ok()?;
                loop {
                    more(&mut stream, &mut read).await?;
                }
            }
            Answer::Trickle(bytes) => {
                stream.write_all(&bytes).await.ok()?;
                loop {
                    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                    stream.write_all(b"x").await.ok()?;
                }
            }
        }
    }
}

/// Reads on; nothing at the end of the connection.
async fn more(stream: &mut TcpStream, read: &mut Vec<u8>) -> Option<()> {
    let size = stream.read_buf(read).await.ok()?;
    (size > 0).then_some(())
}
