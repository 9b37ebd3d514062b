//! Accepts calls, checks and shows them, and answers.

use super::{
    answers::Answers,
    secrets::{Secrets, Signature},
    show,
};
use crate::cli::client::durations::now;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use std::{
    convert::Infallible, future::Future, io::Write as _, pin::pin, sync::Arc, time::Duration,
};
use tokio::{
    net::TcpListener,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

/// The largest body. Payloads of dueq are at most 1 MiB.
const MAX_BODY: usize = 16 * 1024 * 1024;
/// How long calls in flight may go on after Ctrl-C.
const DRAIN: Duration = Duration::from_secs(5);
/// Pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What receives the calls.
pub struct Receiver {
    secrets: Secrets,
    answers: Answers,
    /// Set at the end: answers are delayed no longer.
    stopping: CancellationToken,
}

impl Receiver {
    pub fn new(secrets: Secrets, answers: Answers) -> Arc<Self> {
        Arc::new(Self { secrets, answers, stopping: CancellationToken::new() })
    }

    /// What is checked, for the first line.
    pub fn checks(&self) -> String {
        self.secrets.about()
    }

    /// Prints on standard output. Nobody reads it any more: it ends.
    pub fn say(&self, text: &str) {
        let mut out = anstream::stdout().lock();
        if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
            self.stopping.cancel();
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let at = now();
        let (head, body) = request.into_parts();
        let (status, text, signature, payload) = match Limited::new(body, MAX_BODY).collect().await
        {
            Ok(body) => {
                let payload = body.to_bytes();
                match self.secrets.check(&head.headers, &payload) {
                    Signature::Wrong(reason) => {
                        let text = format!("the signature is not accepted: {reason}\n");
                        (StatusCode::UNAUTHORIZED, text, Signature::Wrong(reason), payload)
                    }
                    signature => {
                        (self.answers.next(), self.answers.body.clone(), signature, payload)
                    }
                }
            }
            Err(error) => {
                let reason = format!("the body could not be read: {error}");
                let text = format!("{reason}\n");
                (StatusCode::BAD_REQUEST, text, Signature::Wrong(reason), Bytes::new())
            }
        };
        self.say(&show::call(&head, &payload, &signature, status, at));
        tokio::select! {
            () = sleep(self.answers.delay) => {}
            () = self.stopping.cancelled() => {}
        }
        let body = if head.method == Method::HEAD { String::new() } else { text };
        let mut response = Response::new(Full::from(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        headers.extend(self.answers.headers.clone());
        response
    }
}

/// Serves until `stop`, or until nobody reads what is printed. Calls in flight are answered first.
pub async fn serve(listener: TcpListener, receiver: Arc<Receiver>, stop: impl Future<Output = ()>) {
    let (graceful, mut stop) = (GracefulShutdown::new(), pin!(stop));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = receiver.stopping.cancelled() => break,
            () = &mut stop => break,
        };
        let Ok((stream, _)) = accepted else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let receiver = receiver.clone();
        let service = service_fn(move |request| {
            let receiver = receiver.clone();
            async move { Ok::<_, Infallible>(receiver.answer(request).await) }
        });
        let mut http = http1::Builder::new();
        let connection =
            http.timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service);
        let connection = graceful.watch(connection);
        // A connection that fails is its client's affair.
        tokio::spawn(async move { drop(connection.await) });
    }
    drop(listener);
    receiver.stopping.cancel();
    let _ = timeout(DRAIN, graceful.shutdown()).await;
}
