//! Accepting connections: with the limits that axum's own loop does not set, and an end that comes in time.

use super::{
    connections::{Connections, Life},
    stream::Stream,
};
use axum::{Router, extract::Request};
use hyper::body::{Body, Incoming};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
    service::TowerToHyperService,
};
use std::{
    error::Error,
    future::Future,
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    runtime::Handle,
};

/// A request's head must be there this long after the connection is ready for it; then the connection is closed.
const HEAD_TIMEOUT: Duration = Duration::from_secs(25);
/// What hyper may buffer of a head: above the limit that the guard answers in words.
const HEAD_BUFFER: usize = 128 * 1024;
const HEAD_FIELDS: usize = 512;
/// After an accept that failed, for lack of file descriptors say.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// What goes wrong for every connection is logged for some.
const WARN_EVERY: Duration = Duration::from_secs(1);

/// What the system may hold of an answer that its client has not taken yet; Linux doubles it. Left to itself it takes 4 MB
/// in: it could not be seen that the client reads, and no budget counts it.
const SEND_BUFFER: u32 = 128 * 1024;
/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// Listens on this address. Errors: the system's.
pub fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // As a restart must not wait for connections of before that are still closing.
    socket.set_reuseaddr(true)?;
    // Connections that are accepted inherit it.
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)
}

/// Serves `router` on at most so many connections until `stop`, then finishes the requests under way, for at most `drain`.
/// The `threads` take turns at new connections. A connection stays where it begins: a request that moves between threads
/// costs more than it gains.
pub async fn serve(
    listener: TcpListener,
    threads: &[Handle],
    router: Router,
    most: usize,
    stop: impl Future<Output = ()>,
    drain: Duration,
) {
    let graceful = GracefulShutdown::new();
    let connections = Connections::new(most);
    let accepting = async {
        let mut warned: Option<Instant> = None;
        let mut may_warn = || {
            let may = warned.is_none_or(|at| at.elapsed() >= WARN_EVERY);
            if may {
                warned = Some(Instant::now());
            }
            may
        };
        for thread in threads.iter().cycle() {
            // The thread that serves a connection is to hear of it, and so it leaves this one.
            match listener.accept().await.and_then(|(stream, _)| stream.into_std()) {
                Ok(stream) => {
                    if connections.are_full() {
                        if may_warn() {
                            tracing::warn!(most, "the limit of connections is reached");
                        }
                        connections.place().await;
                    }
                    let (router, watcher) = (router.clone(), graceful.watcher());
                    connections.spawn(thread, async |life| {
                        if let Err(error) = connection(stream, router, life, watcher).await {
                            tracing::debug!(%error, "a connection ended");
                        }
                    });
                }
                Err(error) => {
                    if may_warn() {
                        tracing::warn!(%error, "a connection could not be accepted");
                    }
                    connections.make_room();
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    };
    tokio::select! {
        () = accepting => {}
        () = stop => {}
    }
    drop(listener);
    let open = graceful.count();
    if tokio::time::timeout(drain, graceful.shutdown()).await.is_err() {
        tracing::warn!(open, "requests were still in flight when the drain time-out ended");
    }
}

async fn connection(
    stream: std::net::TcpStream,
    router: Router,
    life: Arc<Life>,
    watcher: Watcher,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BUFFER)
        .max_headers(HEAD_FIELDS);
    let stream = TokioIo::new(Stream::new(TcpStream::from_std(stream)?, life.clone()));
    let router = TowerToHyperService::new(router);
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        life.begins(!request.body().is_end_stream());
        request.extensions_mut().insert(life.clone());
        let answer = hyper::service::Service::call(&router, request);
        let life = life.clone();
        async move {
            let answer = answer.await;
            life.answers();
            answer
        }
    });
    Ok(watcher.watch(http.serve_connection(stream, service)).await?)
}
