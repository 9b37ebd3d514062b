//! An HTTP server for dueq to call: it records every request and answers as it was told. By hand on
//! a socket, because a proper server neither drops a connection instead of answering nor shows the
//! headers in the order in which they came.
//!
//! Each receiver has a loopback address of its own, since dueq counts calls per host: so tests that
//! share a server do not wait for each other's places.

use std::collections::{HashMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use super::call::{Call, Ending, Kind, Reply, answer, request};
use super::eventually;

#[derive(Default)]
struct State {
    calls: Vec<Call>,
    usual: Option<Reply>,
    by_path: HashMap<String, Reply>,
    next: HashMap<String, VecDeque<Reply>>,
    accepted: usize,
    connections: usize,
    under_way: usize,
    most_under_way: usize,
}

impl State {
    fn reply(&mut self, path: &str) -> Reply {
        if let Some(reply) = self.next.get_mut(path).and_then(VecDeque::pop_front) {
            return reply;
        }
        let usual = self.by_path.get(path).or(self.usual.as_ref());
        usual.cloned().unwrap_or_else(|| Reply::status(200))
    }
}

/// A receiver that runs. It answers 200 until told otherwise, and ends on drop.
pub struct Receiver {
    addr: SocketAddr,
    state: Arc<Mutex<State>>,
    task: Option<JoinHandle<()>>,
}

impl Receiver {
    /// One on a free port of a loopback address that no other receiver has.
    pub async fn start() -> Receiver {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        // Test processes run side by side: 127.<two bytes of the process>.<one of the receiver>.
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let last = 1 + u8::try_from(n % 250).expect("below 250");
        Receiver::at(SocketAddr::from((Ipv4Addr::new(127, high | 1, low, last), 0))).await
    }

    /// One at this address; port 0 is a free one.
    pub async fn at(addr: SocketAddr) -> Receiver {
        let mut receiver = Receiver { addr, state: Arc::default(), task: None };
        receiver.listen().await;
        receiver
    }

    /// Its address.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The URL of a path of it.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    /// From now on this is the answer wherever nothing else was said.
    pub fn answer(&self, reply: Reply) {
        self.state().usual = Some(reply);
    }

    /// From now on this is the answer at this path.
    pub fn answer_at(&self, path: &str, reply: Reply) {
        self.state().by_path.insert(path.to_owned(), reply);
    }

    /// These are the next answers at this path, before the usual ones.
    pub fn answer_next(&self, path: &str, replies: impl IntoIterator<Item = Reply>) {
        self.state().next.entry(path.to_owned()).or_default().extend(replies);
    }

    /// Every request so far, in the order of arrival.
    pub fn calls(&self) -> Vec<Call> {
        self.state().calls.clone()
    }

    /// How many there were.
    pub fn count(&self) -> usize {
        self.state().calls.len()
    }

    /// Those at this path.
    pub fn calls_at(&self, path: &str) -> Vec<Call> {
        self.state().calls.iter().filter(|call| call.path == path).cloned().collect()
    }

    /// Connections that were ever opened.
    pub fn accepted(&self) -> usize {
        self.state().accepted
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.state().connections
    }

    /// Requests that have arrived and are not answered.
    pub fn under_way(&self) -> usize {
        self.state().under_way
    }

    /// The most that there were of these at once.
    pub fn most_under_way(&self) -> usize {
        self.state().most_under_way
    }

    /// Waits for so many requests in all.
    pub async fn wait_for(&self, n: usize) -> Vec<Call> {
        let what = format!("{n} calls of {}", self.addr);
        self.wait_until(&what, |calls| (calls.len() >= n).then(|| calls.to_vec())).await
    }

    /// Waits for the first request at this path.
    pub async fn wait_at(&self, path: &str) -> Call {
        let what = format!("a call of {path}");
        self.wait_until(&what, |calls| calls.iter().find(|call| call.path == path).cloned()).await
    }

    /// Waits until what has come gives something.
    pub async fn wait_until<T>(&self, what: &str, found: impl Fn(&[Call]) -> Option<T>) -> T {
        eventually(what, || async { found(&self.state().calls) }).await
    }

    /// Closes the port and every connection.
    pub async fn stop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
            let _ = task.await;
        }
    }

    /// Listens again at the same address.
    pub async fn start_again(&mut self) {
        self.stop().await;
        self.listen().await;
    }

    async fn listen(&mut self) {
        let listener = TcpListener::bind(self.addr).await.expect("a loopback address");
        self.addr = listener.local_addr().expect("its address");
        self.task = Some(tokio::spawn(serve(listener, self.state.clone())));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the receiver's state")
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

async fn serve(listener: TcpListener, state: Arc<Mutex<State>>) {
    let mut connections = JoinSet::new(); // aborted with this task
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let _ = stream.set_nodelay(true);
        connections.spawn(connection(stream, state.clone()));
        while connections.try_join_next().is_some() {}
    }
}

/// Counts while it lives.
struct Counted(Arc<Mutex<State>>, fn(&mut State) -> &mut usize);

impl Counted {
    fn new(state: &Arc<Mutex<State>>, which: fn(&mut State) -> &mut usize) -> Counted {
        *which(&mut state.lock().expect("the receiver's state")) += 1;
        Counted(state.clone(), which)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Ok(mut state) = self.0.lock() {
            *(self.1)(&mut state) -= 1;
        }
    }
}

/// Request after request until either side closes.
async fn connection(mut stream: TcpStream, state: Arc<Mutex<State>>) {
    let _open = Counted::new(&state, |state| &mut state.connections);
    state.lock().expect("the receiver's state").accepted += 1;
    let mut read = Vec::new();
    while let Some(call) = request(&mut stream, &mut read).await {
        let _under_way = Counted::new(&state, |state| &mut state.under_way);
        let reply = {
            let mut state = state.lock().expect("the receiver's state");
            state.most_under_way = state.most_under_way.max(state.under_way);
            let reply = state.reply(&call.path);
            state.calls.push(call);
            reply
        };
        let due = async {
            tokio::time::sleep(reply.delay).await;
            if let Some(mut gate) = reply.gate.clone() {
                let _ = gate.wait_for(|open| *open).await;
            }
        };
        tokio::select! {
            () = gone(&stream) => return,
            () = due => {}
        }
        match reply.kind {
            Kind::Never => return gone(&stream).await,
            Kind::Drop => return,
            _ if answer(&mut stream, &reply).await.is_none() => return,
            Kind::Bytes(Ending::Hang) => return gone(&stream).await,
            _ => {}
        }
    }
}

/// Ends when the other side has closed.
async fn gone(stream: &TcpStream) {
    if matches!(stream.peek(&mut [0]).await, Ok(1)) {
        std::future::pending::<()>().await; // a next request waits; its sender is there
    }
}
