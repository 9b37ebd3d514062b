//! The short way: plain requests of hot operations and of SQS's are read from the connection and answered without hyper, whose general way
//! costs a fifth of such a request and keeps two buffers of 8 KiB for each connection that waits. It takes only what leaves no
//! doubt: a short POST of HTTP/1.1 with one Content-Length and headers of a closed list, that arrives at once. With anything else the
//! connection goes on with hyper, for good, and hyper reads the bytes as they came. Either way a request is answered alike;
//! without this folder all would be answered by hyper.

#[cfg(test)]
#[path = "../../../../tests/fuzz/http/short.rs"]
mod fuzz;
mod head;
mod response;

use super::{Front, HEAD_TIMEOUT, activity::Activity, close_after, stream::Stream};
use axum::http::{HeaderMap, Method, header};
use bytes::Bytes;
use http_body_util::BodyExt;
use std::{
    future::{Future, poll_fn},
    io,
    mem::MaybeUninit,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf},
    time::{Sleep, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

/// A request has no more bytes, and no more are read at once: strangers can have as many kept for each of their connections.
const MAX_REQUEST: usize = 8 * 1024;
/// A body that is not there with its head comes in a few more reads, and soon.
const BODY_READS: usize = 4;
const BODY_WAIT: Duration = Duration::from_secs(1);
/// Answers up to this size are written together with their head.
const SMALL: usize = 16 * 1024;

/// How the short way ends.
pub(super) enum End {
    /// With the connection.
    Closed,
    /// With a request that is hyper's to read, from these bytes on.
    Hyper(Bytes),
}

/// Serves requests of a connection for as long as they are plain. Errors: the connection broke.
pub(super) async fn serve(
    stream: &mut Stream,
    front: &Front,
    activity: &Arc<Activity>,
    stopping: &CancellationToken,
    is_outdated: &impl Fn() -> bool,
) -> io::Result<End> {
    let mut idle = pin!(sleep(HEAD_TIMEOUT));
    let mut read = Bytes::new();
    loop {
        if read.is_empty() {
            // Whoever stops the server closes those that wait already.
            if stopping.is_cancelled() {
                stream.shutdown().await?;
                return Ok(End::Closed);
            }
            match next(stream, activity, idle.as_mut()).await? {
                Some(bytes) => read = bytes,
                None => return Ok(End::Closed),
            }
        }
        let find = |path: &str, headers: &HeaderMap| front.api.find(&Method::POST, path, headers);
        let Some(head) = head::parse(&read, &front.public_url, find) else {
            return Ok(End::Hyper(read));
        };
        // From here on a stop of the server waits for it.
        activity.request_started(head.length > 0);
        let end = head.body + head.length;
        if read.len() < end {
            activity.mark_idle();
            if !rest(stream, &mut read, end).await {
                return Ok(End::Hyper(read));
            }
            activity.mark_busy();
        }
        let body = read.slice(head.body..end);
        read = read.slice(end..);
        let mut request = head.request.map(|()| body.into());
        request.extensions_mut().insert(activity.clone());
        request.extensions_mut().insert(front.peer);
        let mut answer = {
            let mut answering = pin!(front.api.run(head.hot, request));
            // The client may leave meanwhile, and may have left by the time that there is an answer: what is granted then goes back.
            poll_fn(|cx| {
                let answer = answering.as_mut().poll(cx);
                match Pin::new(&mut *stream).poll_flush(cx) {
                    Poll::Ready(Err(left)) => Poll::Ready(Err(left)),
                    _ => answer.map(Ok),
                }
            })
            .await?
        };
        if is_outdated() || stopping.is_cancelled() {
            close_after(&mut answer);
        }
        activity.response_ready();
        let (parts, body) = answer.into_parts();
        // No body of ours fails.
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let closes = parts.headers.get(header::CONNECTION).is_some_and(|value| value == "close");
        let mut out = response::head(&parts, body.len());
        if body.len() <= SMALL {
            out.extend_from_slice(&body);
            stream.write_all(&out).await?;
        } else {
            stream.write_all(&out).await?;
            stream.write_all(&body).await?;
        }
        drop((out, body));
        stream.flush().await?;
        if closes {
            stream.shutdown().await?;
            return Ok(End::Closed);
        }
    }
}

/// What the client sends next; `None` once it has sent nothing for long, or has left.
async fn next(
    stream: &mut Stream,
    activity: &Activity,
    mut idle: Pin<&mut Sleep>,
) -> io::Result<Option<Bytes>> {
    poll_fn(|cx| {
        if let Poll::Ready(read) = poll_read(stream, cx) {
            return Poll::Ready(read);
        }
        // One timer serves all requests: it looks how long the client has kept quiet.
        while idle.as_mut().poll(cx).is_ready() {
            let quiet = Duration::from_millis(activity.idle_ms().unwrap_or_default());
            match HEAD_TIMEOUT.checked_sub(quiet).filter(|left| !left.is_zero()) {
                Some(left) => idle.as_mut().reset(tokio::time::Instant::now() + left),
                None => return Poll::Ready(Ok(None)),
            }
        }
        Poll::Pending
    })
    .await
}

/// Reads what is there, and keeps only as much memory as that takes.
fn poll_read(stream: &mut Stream, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
    let mut space = [MaybeUninit::uninit(); MAX_REQUEST];
    let mut space = ReadBuf::uninit(&mut space);
    Pin::new(stream).poll_read(cx, &mut space).map_ok(|()| match space.filled() {
        [] => None,
        bytes => Some(Bytes::copy_from_slice(bytes)),
    })
}

/// Reads on until there are so many bytes. False if they do not come soon.
async fn rest(stream: &mut Stream, read: &mut Bytes, end: usize) -> bool {
    for _ in 0..BODY_READS {
        let more = timeout(BODY_WAIT, poll_fn(|cx| poll_read(stream, cx))).await;
        let Ok(Ok(Some(more))) = more else { return false };
        *read = [&read[..], &more].concat().into();
        if read.len() >= end {
            return true;
        }
    }
    false
}
