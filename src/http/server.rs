//! Accepts connections, with limits and a bounded graceful stop that axum's own loop does not have.

use super::{
    connections::{Activity, Connections},
    stream::Stream,
};
use axum::{
    Router,
    extract::{FromRequestParts, Request},
    http::request::Parts,
};
use hyper::body::{Body, Incoming};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
    service::TowerToHyperService,
};
use std::{
    convert::Infallible,
    error::Error,
    future::Future,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    runtime::Handle,
};

/// The connection is closed if a request's head has not arrived this long after the connection became ready for it.
const HEAD_TIMEOUT: Duration = Duration::from_secs(25);
/// hyper's buffer for a head. It exceeds the limits of the guard, which answers with a problem.
const HEAD_BUFFER: usize = 128 * 1024;
const MAX_HEAD_FIELDS: usize = 512;
/// The pause after a failed accept, for example for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The minimum interval between warnings about connections.
const WARN_INTERVAL: Duration = Duration::from_secs(1);

/// The system's send buffer per connection; Linux doubles it. By default it grows to 4 MB: then the reading progress of
/// the client could not be seen, and no budget counts those bytes.
const SEND_BUFFER: u32 = 128 * 1024;
/// The maximum number of connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// Whose connection a request came by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub IpAddr);

impl<S: Sync> FromRequestParts<S> for Peer {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::in_extensions(&parts.extensions))
    }
}

impl Peer {
    fn in_extensions(extensions: &http::Extensions) -> Self {
        extensions.get().copied().unwrap_or(Self(Ipv4Addr::UNSPECIFIED.into()))
    }
}

/// The address that a request came from.
pub(super) fn peer_of<T>(request: &http::Request<T>) -> IpAddr {
    Peer::in_extensions(request.extensions()).0
}

/// Listens on this address. Errors: those of the system.
pub fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restart must not wait for old connections that are still closing.
    socket.set_reuseaddr(true)?;
    // Accepted connections inherit it.
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)
}

/// Serves `router` on at most `max_connections` until `stop`, then finishes the requests in flight, for at most `drain`.
/// A new connection goes to the thread that serves the fewest, and stays there: moving requests between threads costs more
/// than it gains.
pub async fn serve(
    listener: TcpListener,
    threads: &[Handle],
    router: Router,
    max_connections: usize,
    stop: impl Future<Output = ()>,
    drain: Duration,
) {
    let graceful = GracefulShutdown::new();
    let connections = Connections::new(threads, max_connections);
    let accepting = async {
        let mut warned: Option<Instant> = None;
        let mut may_warn = || {
            let may = warned.is_none_or(|at| at.elapsed() >= WARN_INTERVAL);
            if may {
                warned = Some(Instant::now());
            }
            may
        };
        loop {
            // The stream is deregistered from this thread's runtime, so that the serving thread's runtime can poll it.
            let accepted = listener.accept().await;
            match accepted.and_then(|(stream, peer)| Ok((stream.into_std()?, peer))) {
                Ok((stream, peer)) => {
                    if connections.are_full() {
                        if may_warn() {
                            tracing::warn!(max_connections, "the limit of connections is reached");
                        }
                        connections.wait_for_slot().await;
                    }
                    let (router, watcher) = (router.clone(), graceful.watcher());
                    connections.spawn(async move |activity| {
                        if let Err(error) = connection(
                            stream,
                            Peer(peer.ip().to_canonical()),
                            router,
                            activity,
                            watcher,
                        )
                        .await
                        {
                            tracing::debug!(%error, "a connection ended");
                        }
                    });
                }
                Err(error) => {
                    if may_warn() {
                        tracing::warn!(%error, "a connection could not be accepted");
                    }
                    connections.evict();
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
    peer: Peer,
    router: Router,
    activity: Arc<Activity>,
    watcher: Watcher,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BUFFER)
        .max_headers(MAX_HEAD_FIELDS);
    let stream = TokioIo::new(Stream::new(TcpStream::from_std(stream)?, activity.clone()));
    let router = TowerToHyperService::new(router);
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        activity.request_started(!request.body().is_end_stream());
        request.extensions_mut().insert(activity.clone());
        request.extensions_mut().insert(peer);
        let response = hyper::service::Service::call(&router, request);
        let activity = activity.clone();
        async move {
            let response = response.await;
            activity.response_ready();
            response
        }
    });
    Ok(watcher.watch(http.serve_connection(stream, service)).await?)
}
