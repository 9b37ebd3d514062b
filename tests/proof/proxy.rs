//! What lies between dueq and Redis, to be disturbed: a TCP proxy that loses, delays and cuts
//! answers, while requests reach Redis; that lets so many calls of scripts through and no more; or that changes what is said.
//!
//! TCP loses no bytes of a connection that goes on: so a connection of which an answer was lost
//! stays silent and is closed once answers pass again.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU16, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};

use crate::harness::{Redis, free_port};

/// Texts, and what is written over them.
pub type Texts = &'static [(String, String)];

/// What happens to the answers of Redis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// They pass.
    Pass,
    /// They are lost.
    Swallow,
    /// Over a connection that subscribes nothing comes any more, for good, and it stays open; the others pass.
    DeafSubscriptions,
    /// They come so much later.
    Delay(Duration),
    /// Of whatever is answered next on a connection one half comes, then the connection is closed.
    CutInTheMiddle,
    /// After so many bytes of answers a connection is closed.
    CutAfter(usize),
    /// Nobody listens; the connections that are there go on.
    Refuse,
    /// A connection that the server closes stays open towards the client.
    KeepOpen,
    /// Wherever the first of two texts is in an answer, the second is written over it and what follows it.
    Overwrite(Texts),
    /// The same in requests.
    OverwriteRequests(Texts),
}

/// How often something was done to answers: reads of a socket, which may hold several answers.
#[derive(Default)]
struct Done {
    swallowed: AtomicU64,
    delayed: AtomicU64,
    cut: AtomicU64,
}

/// A proxy of one Redis (or of dueq), or of whichever it leads to by now, as a name or an address does; it ends on drop.
pub struct Proxy {
    port: u16,
    server: Arc<AtomicU16>,
    mode: watch::Sender<Mode>,
    /// How many more calls of scripts reach Redis, on all connections.
    calls: Arc<AtomicI64>,
    /// Whether the one that is too many reaches it too, and everything after it.
    one_lost: Arc<AtomicBool>,
    done: Arc<Done>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// In front of this Redis, letting everything pass.
    pub async fn of(redis: &Redis) -> Proxy {
        Self::to(redis.port()).await
    }

    /// In front of the server at this port of 127.0.0.1, letting everything pass.
    pub async fn to(server: u16) -> Proxy {
        let (mode, modes) = watch::channel(Mode::Pass);
        let done = Arc::<Done>::default();
        let port = free_port();
        let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("the proxy's port");
        let server = Arc::new(AtomicU16::new(server));
        let calls = Arc::new(AtomicI64::new(i64::MAX));
        let one_lost = Arc::<AtomicBool>::default();
        let with = ((calls.clone(), one_lost.clone()), done.clone());
        let task = tokio::spawn(listen(listener, modes, server.clone(), with));
        Proxy { port, server, mode, calls, one_lost, done, task }
    }

    /// Its URL, as `--redis-url` takes it.
    pub fn url(&self) -> String {
        format!("redis://{}/", self.address())
    }

    /// Its host and port.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// New connections lead to this Redis from now on; those that are there go on.
    pub fn lead_to(&self, redis: &Redis) {
        self.server.store(redis.port(), Ordering::Relaxed);
    }

    /// From now on answers are treated so.
    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// So many calls of scripts reach Redis from now on; who sends the next one is cut off before it, as if its process had
    /// died there.
    pub fn cut_after_calls(&self, calls: i64) {
        self.one_lost.store(false, Ordering::Relaxed);
        self.calls.store(calls, Ordering::Relaxed);
    }

    /// After so many calls of scripts from now on anyone who sends the next one is cut off behind it: Redis runs it, and the
    /// answer is lost.
    pub fn lose_answer_after_calls(&self, calls: i64) {
        self.one_lost.store(true, Ordering::Relaxed);
        self.calls.store(calls, Ordering::Relaxed);
    }

    /// Has a client been cut off?
    pub fn has_cut(&self) -> bool {
        self.calls.load(Ordering::Relaxed) < 0
    }

    /// Any number of calls reaches Redis again. Returns whether a client was cut off since.
    pub fn mend(&self) -> bool {
        self.calls.swap(i64::MAX, Ordering::Relaxed) < 0
    }

    /// How many answers were lost.
    pub fn swallowed(&self) -> u64 {
        self.done.swallowed.load(Ordering::Relaxed)
    }

    /// How many answers were late.
    pub fn delayed(&self) -> u64 {
        self.done.delayed.load(Ordering::Relaxed)
    }

    /// How many answers were cut.
    pub fn cut(&self) -> u64 {
        self.done.cut.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn listen(
    first: TcpListener,
    mut modes: watch::Receiver<Mode>,
    server: Arc<AtomicU16>,
    (calls, done): ((Arc<AtomicI64>, Arc<AtomicBool>), Arc<Done>),
) {
    let address = first.local_addr().expect("its address");
    let mut listener = Some(first);
    let mut connections = JoinSet::new();
    loop {
        let accepted = match &listener {
            Some(listening) => tokio::select! {
                accepted = listening.accept() => accepted.ok(),
                _ = modes.wait_for(|mode| *mode == Mode::Refuse) => {
                    listener = None;
                    None
                }
            },
            None => {
                if modes.wait_for(|mode| *mode != Mode::Refuse).await.is_err() {
                    return;
                }
                listener = TcpListener::bind(address).await.ok();
                if listener.is_none() {
                    sleep(Duration::from_millis(10)).await;
                }
                None
            }
        };
        if let Some((client, _)) = accepted {
            let server = server.load(Ordering::Relaxed);
            connections.spawn(carry(client, server, modes.clone(), calls.clone(), done.clone()));
        }
        while connections.try_join_next().is_some() {}
    }
}

/// One connection, until either side closes it.
async fn carry(
    client: TcpStream,
    server: u16,
    modes: watch::Receiver<Mode>,
    (calls, one_lost): (Arc<AtomicI64>, Arc<AtomicBool>),
    done: Arc<Done>,
) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (requests, to_client) = client.into_split();
    let (answers, to_server) = server.into_split();
    let (subscribes, for_requests) = (AtomicBool::new(false), modes.clone());
    tokio::select! {
        () = pass_on(requests, to_server, &subscribes, &for_requests, (&calls, &one_lost)) => {}
        () = hand_back(answers, to_client, modes, &done, &subscribes) => {}
    }
}

/// Passes requests on until one is too many, and notes when one is a subscription.
async fn pass_on(
    mut requests: OwnedReadHalf,
    mut to_server: OwnedWriteHalf,
    subscribes: &AtomicBool,
    modes: &watch::Receiver<Mode>,
    (calls, one_lost): (&AtomicI64, &AtomicBool),
) {
    let (mut buffer, word) = (vec![0; 64 * 1024], b"SUBSCRIBE");
    while let Ok(read @ 1..) = requests.read(&mut buffer).await {
        if buffer[..read].windows(word.len()).any(|bytes| bytes == word) {
            subscribes.store(true, Ordering::Relaxed);
        }
        if let Mode::OverwriteRequests(texts) = *modes.borrow() {
            overwrite(texts, &mut buffer[..read]);
        }
        let one_lost = one_lost.load(Ordering::Relaxed);
        let mut pass = passing(&buffer[..read], calls, one_lost);
        let cut = pass < read;
        if one_lost {
            pass = read;
        }
        if to_server.write_all(&buffer[..pass]).await.is_err() || cut {
            return;
        }
    }
}

/// Writes over what passes.
fn overwrite(texts: Texts, bytes: &mut [u8]) {
    for (find, put) in texts {
        for at in 0..(bytes.len() + 1).saturating_sub(find.len().max(put.len())) {
            if bytes[at..].starts_with(find.as_bytes()) {
                bytes[at..at + put.len()].copy_from_slice(put.as_bytes());
            }
        }
    }
}

/// How many bytes of these requests may pass: all before the first call of a script that is too many. If only `one` is,
/// those after it may pass again.
fn passing(requests: &[u8], calls: &AtomicI64, one: bool) -> usize {
    if calls.load(Ordering::Relaxed) == i64::MAX {
        return requests.len();
    }
    let call: [&[u8]; 2] = [b"$4\r\nEVAL\r\n", b"$7\r\nEVALSHA\r\n"];
    for at in 0..requests.len() {
        let is_call = call.iter().any(|word| requests[at..].starts_with(word));
        let left = if is_call { calls.fetch_sub(1, Ordering::Relaxed) } else { 1 };
        if left == 0 || left < 0 && !one {
            // Before it stands how many words it has.
            return requests[..at].iter().rposition(|byte| *byte == b'*').unwrap_or(0);
        }
    }
    requests.len()
}

/// Hands the answers of one connection back until one is cut, or the server closes.
async fn hand_back(
    mut answers: OwnedReadHalf,
    to_client: OwnedWriteHalf,
    mut modes: watch::Receiver<Mode>,
    done: &Done,
    subscribes: &AtomicBool,
) {
    let (queue, late) = mpsc::unbounded_channel();
    let disturb = async move {
        let (mut buffer, mut silent, mut mute, mut passed) = (vec![0; 64 * 1024], false, false, 0);
        loop {
            let read = tokio::select! {
                read = answers.read(&mut buffer) => read.unwrap_or(0),
                _ = modes.wait_for(|mode| silent && !mute && *mode != Mode::Swallow) => return,
            };
            let (mut keep, mut delay, mut last) = (read, Duration::ZERO, read == 0);
            let mode = *modes.borrow();
            mute |= mode == Mode::DeafSubscriptions && subscribes.load(Ordering::Relaxed);
            silent |= mute;
            match mode {
                _ if mute => keep = 0,
                Mode::KeepOpen if read == 0 => pending().await,
                Mode::Pass | Mode::Refuse | Mode::DeafSubscriptions | Mode::KeepOpen => {}
                Mode::OverwriteRequests(_) => {}
                Mode::Overwrite(texts) => overwrite(texts, &mut buffer[..read]),
                Mode::Swallow => (keep, silent) = (0, true),
                Mode::Delay(by) => delay = by,
                Mode::CutInTheMiddle => (keep, last) = (read / 2, true),
                Mode::CutAfter(most) => {
                    keep = read.min(most.saturating_sub(passed));
                    last = last || keep < read;
                    passed += keep;
                }
            }
            if !matches!(mode, Mode::CutAfter(_)) {
                passed = 0;
            }
            let count = |counter: &AtomicU64, is: bool| {
                counter.fetch_add(u64::from(is && read > 0), Ordering::Relaxed);
            };
            count(&done.swallowed, silent);
            count(&done.delayed, matches!(mode, Mode::Delay(_)));
            count(&done.cut, keep < read && !silent);
            if silent && read == 0 {
                return;
            }
            let _ = queue.send((Instant::now() + delay, buffer[..keep].to_vec()));
            if last {
                return;
            }
        }
    };
    tokio::join!(disturb, write(to_client, late));
}

/// Writes each answer when it is its time, in order.
async fn write(
    mut to_client: OwnedWriteHalf,
    mut late: mpsc::UnboundedReceiver<(Instant, Vec<u8>)>,
) {
    while let Some((when, bytes)) = late.recv().await {
        sleep_until(when).await;
        if to_client.write_all(&bytes).await.is_err() {
            return;
        }
    }
}
