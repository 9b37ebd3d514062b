//! Accepting connections: with the limits that axum's own loop does not set, and an end that comes in time.

use axum::Router;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use std::{future::Future, time::Duration};
use tokio::net::{TcpListener, TcpStream};

/// A request's head must be there this long after the connection is ready for it; then the connection is closed.
const HEAD_TIMEOUT: Duration = Duration::from_secs(25);
/// What hyper may buffer of a head: above the limit that the guard answers in words.
const HEAD_BUFFER: usize = 128 * 1024;
const HEAD_FIELDS: usize = 512;
/// After an accept that failed, for lack of file descriptors say.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves `router` until `stop`, then finishes the requests under way, for at most `drain`.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    stop: impl Future<Output = ()>,
    drain: Duration,
) {
    let connections = GracefulShutdown::new();
    tokio::pin!(stop);
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => connect(stream, router.clone(), &connections),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            () = &mut stop => break,
        }
    }
    drop(listener);
    let open = connections.count();
    if tokio::time::timeout(drain, connections.shutdown()).await.is_err() {
        tracing::warn!(open, "requests were still under way when the time to drain was over");
    }
}

fn connect(stream: TcpStream, router: Router, connections: &GracefulShutdown) {
    // Answers are small and awaited: they must not wait for more to send.
    let _ = stream.set_nodelay(true);
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BUFFER)
        .max_headers(HEAD_FIELDS);
    let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let connection = connections.watch(connection);
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection ended");
        }
    });
}
