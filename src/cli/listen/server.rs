//! Receives calls, checks and shows them, and answers.

use super::{
    answers::Answers,
    secrets::{Secrets, Signature},
    show,
};
use crate::cli::client::durations::now;
use axum::{
    Router,
    body::{Body, to_bytes},
    extract::State,
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use std::{future::Future, io::Write as _, sync::Arc, time::Duration};
use tokio::{
    net::TcpListener,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

/// The largest body. Payloads of dueq are at most 1 MiB.
const MAX_BODY: usize = 16 * 1024 * 1024;
/// How long calls in flight may go on after Ctrl-C.
const DRAIN: Duration = Duration::from_secs(5);

/// What receives the calls.
pub struct Receiver {
    pub secrets: Secrets,
    pub answers: Answers,
    /// Set at the end: answers are delayed no longer.
    pub stopping: CancellationToken,
}

impl Receiver {
    /// Prints on standard output. Once nothing reads it any more, the command ends.
    pub fn say(&self, text: &str) {
        let mut out = anstream::stdout().lock();
        if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
            self.stopping.cancel();
        }
    }
}

async fn answer(
    State(receiver): State<Arc<Receiver>>,
    request: Request<Body>,
) -> (StatusCode, HeaderMap, String) {
    let (at, (head, body)) = (now(), request.into_parts());
    let (status, text, signature, payload) = match to_bytes(body, MAX_BODY).await {
        Ok(payload) => match receiver.secrets.check(&head.headers, &payload) {
            Signature::Wrong(reason) => {
                let text = format!("the signature is not accepted: {reason}\n");
                (StatusCode::UNAUTHORIZED, text, Signature::Wrong(reason), payload)
            }
            signature => {
                (receiver.answers.next(), receiver.answers.body.clone(), signature, payload)
            }
        },
        Err(error) => {
            let reason = format!("the body could not be read: {error}");
            let text = format!("{reason}\n");
            (StatusCode::BAD_REQUEST, text, Signature::Wrong(reason), Bytes::new())
        }
    };
    receiver.say(&show::call(&head, &payload, &signature, status, at));
    tokio::select! {
        () = sleep(receiver.answers.delay) => {}
        () = receiver.stopping.cancelled() => {}
    }
    let text_type = HeaderValue::from_static("text/plain; charset=utf-8");
    let mut headers = HeaderMap::from_iter([(header::CONTENT_TYPE, text_type)]);
    headers.extend(receiver.answers.headers.clone());
    (status, headers, text)
}

/// Serves until `stop`, or until nothing reads the output. Calls in flight are answered first.
pub async fn serve(listener: TcpListener, receiver: Arc<Receiver>, stop: impl Future<Output = ()>) {
    let stopping = receiver.stopping.clone();
    let router = Router::new().fallback(answer).with_state(receiver);
    let serving = axum::serve(listener, router)
        .with_graceful_shutdown(stopping.clone().cancelled_owned())
        .into_future();
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        _ = &mut serving => return,
        () = stop => stopping.cancel(),
        () = stopping.cancelled() => {}
    }
    let _ = timeout(DRAIN, serving).await;
}
