//! Accepts connections, with limits and a bounded graceful stop that axum's own loop does not have.

pub(crate) mod activity;
pub(crate) mod budget;
pub(crate) mod connections;
pub(crate) mod handshake;
pub(crate) mod proxies;
mod short;
mod stream;

use crate::{
    Api,
    guard::public_url::PublicUrl,
    problem::{Code, Problem},
};
use activity::Activity;
use axum::{
    body::Body,
    extract::Request,
    http::{HeaderValue, Response, header},
};
use budget::Budget;
use connections::Connections;
use handshake::{Accepted, Handshakes};
use hyper::body::{Body as _, Incoming};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
};
use prometheus_client::metrics::gauge::Gauge;
use proxies::{Peer, TrustedProxies};
use std::{
    convert::Infallible,
    error::Error,
    future::Future,
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};
use stream::Stream;
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    runtime::Handle,
};
use tokio_util::{either::Either, sync::CancellationToken};

/// The connection is closed if a request's head has not arrived this long after the connection became ready for it.
const HEAD_TIMEOUT: Duration = Duration::from_secs(25);
/// hyper's buffer for a head. It exceeds the limits of the guard, which answers with a problem; but strangers can fill it.
const HEAD_BUFFER: usize = 32 * 1024;
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

/// What is served, and within which bounds.
pub struct Service {
    /// The routes, and what is around them.
    pub api: Api,
    /// Makes connections speak TLS, or else they are plain HTTP.
    pub tls: Option<Handshakes>,
    /// The URL whose path is taken off requests.
    pub public_url: PublicUrl,
    /// The limit on open connections.
    pub max_connections: usize,
    /// The bytes that requests may hold.
    pub budget: Arc<Budget>,
    /// Whose connections count for their clients.
    pub proxies: Arc<TrustedProxies>,
    /// Shows how many are open.
    pub open_connections: Gauge,
    /// How long requests in flight may go on once the server stops.
    pub drain: Duration,
}

/// Serves until `stop`, then finishes the requests in flight. A new connection goes to the thread that serves the fewest,
/// and stays there: moving requests between threads costs more than it gains.
pub async fn serve(
    listener: TcpListener,
    threads: &[Handle],
    service: Service,
    stop: impl Future<Output = ()>,
) {
    let Service { api, tls, public_url, max_connections, open_connections, drain, .. } = service;
    let (budget, proxies) = (service.budget, service.proxies);
    let public_url = Arc::new(public_url);
    let stopping = CancellationToken::new();
    let graceful = GracefulShutdown::new();
    let connections = Connections::new(threads, max_connections, open_connections);
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
                            tracing::warn!(
                                max_connections,
                                "the limit of connections, or of handshakes, is reached"
                            );
                        }
                        connections.wait_for_slot().await;
                    }
                    let (api, watcher) = (api.clone(), graceful.watcher());
                    let (tls, stopping) = (tls.clone(), stopping.clone());
                    let (peer, budget) = (peer.ip(), budget.clone());
                    let front =
                        Front { api, public_url: public_url.clone(), peer: Peer(peer), budget };
                    let source = (!proxies.trust(peer.to_canonical())).then_some(peer);
                    connections.spawn(source, async move |activity| {
                        // A handshake does not delay the stop.
                        let accepted = tokio::select! {
                            accepted = accept(stream, tls, &activity) => accepted,
                            () = stopping.cancelled() => return,
                        };
                        let served = match accepted {
                            Ok(accepted) => {
                                connection(accepted, front, activity, watcher, stopping).await
                            }
                            Err(error) => Err(error.into()),
                        };
                        if let Err(error) = served {
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
    stopping.cancel();
    connections.close_idle();
    let open = graceful.count();
    if tokio::time::timeout(drain, graceful.shutdown()).await.is_err() {
        tracing::warn!(open, "requests were still in flight when the drain time-out ended");
    }
}

/// What requests of a connection go through.
struct Front {
    api: Api,
    public_url: Arc<PublicUrl>,
    peer: Peer,
    budget: Arc<Budget>,
}

async fn accept(
    stream: std::net::TcpStream,
    tls: Option<Handshakes>,
    activity: &Activity,
) -> io::Result<Accepted> {
    let accepted = match tls {
        Some(tls) => tls.accept(stream).await?,
        None => {
            let transport = Either::Left(TcpStream::from_std(stream)?);
            Accepted { transport, lacks_tls: false, certificates: None }
        }
    };
    activity.accepted();
    Ok(accepted)
}

async fn connection(
    Accepted { transport, lacks_tls, certificates }: Accepted,
    front: Front,
    activity: Arc<Activity>,
    watcher: Watcher,
    stopping: CancellationToken,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut stream = Stream::new(transport, activity.clone(), front.budget.clone());
    // Whose certificate was withdrawn does not stay for long.
    let is_outdated =
        move || certificates.as_ref().is_some_and(|it| it.has_changed().is_ok_and(|is| is));
    if !lacks_tls {
        let served = short::serve(&mut stream, &front, &activity, &stopping, &is_outdated).await?;
        match served {
            short::End::Closed => return Ok(()),
            short::End::Hyper(read) => stream.unread(read),
        }
    }
    activity.goes_on_with_hyper();
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BUFFER)
        .max_headers(MAX_HEAD_FIELDS);
    let Front { api, public_url, peer, .. } = front;
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        activity.request_started(!request.body().is_end_stream());
        request.extensions_mut().insert(activity.clone());
        request.extensions_mut().insert(peer);
        public_url.strip(request.uri_mut());
        let (api, activity, is_outdated) = (api.clone(), activity.clone(), is_outdated.clone());
        async move {
            let mut response = match lacks_tls {
                true => no_tls(),
                false => api.answer(request.map(Body::new)).await,
            };
            if is_outdated() {
                close_after(&mut response);
            }
            activity.response_ready();
            Ok::<_, Infallible>(response)
        }
    });
    // Few connections come here, and the others have no room for it.
    let served = watcher.watch(http.serve_connection(TokioIo::new(stream), service));
    Ok(Box::pin(served).await?)
}

/// Has the connection closed after this response.
fn close_after(response: &mut Response<Body>) {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
}

/// Answers a client that speaks plain HTTP to a port with TLS.
fn no_tls() -> Response<Body> {
    let problem = Problem::new(Code::Refused, "this port speaks TLS: use https://");
    let body = crate::json_line(&problem.body("-")).unwrap_or_default();
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = Code::Refused.status();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    close_after(&mut response);
    response
}
