//! A client's connection as hyper reads and writes it, by TLS or not, with two limits that hyper does not set: a connection whose client
//! does not read its response is closed, and reads are short, so that the connection's buffer stays small.

use super::{
    activity::Activity,
    budget::{Budget, HeadHold, overloaded},
    handshake::{Transport, tcp, tcp_mut},
};
use crate::{json_line, problem::Problem};
use axum::http::StatusCode;
use bytes::Bytes;
use dueq_base::files::random_name;
use futures_util::FutureExt;
use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, Interest, ReadBuf, Take},
    net::TcpStream,
    time::{Sleep, sleep},
};

/// A connection is closed if its client reads less than [`MIN_WRITTEN`] of a response in this time.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
const MIN_WRITTEN: usize = 64 * 1024;
/// Progress is recorded each time the client has sent or read this many bytes.
const PROGRESS: usize = 8 * 1024;
/// After a refusal, the rest of the request is read for this long. Closing at once would reset the connection, and the
/// client might never see the response (RFC 9112, 9.6).
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);
/// hyper begins with a buffer of 8 KiB and doubles it, up to its limit for heads, whenever a read fills it. Reads of this
/// size never do.
const MAX_READ: u64 = 8 * 1024 - 1;
/// Where the client has sent more than hyper takes, the end of that is looked for this often.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// A client's connection.
pub(crate) struct Stream {
    transport: Take<Transport>,
    /// What is to be read once more.
    unread: Bytes,
    activity: Arc<Activity>,
    /// Bytes read and written since progress was last recorded.
    moved: usize,
    /// The bytes of the request's head so far, while it arrives, and what the budget counts of it. The first read is the
    /// connection's own, and bounded with it.
    head: usize,
    /// How many requests came before it.
    requests: u64,
    budget: Arc<Budget>,
    hold: Option<HeadHold>,
    /// There was no room for the head.
    refused: bool,
    /// Set while the client does not read.
    stalled: Option<StalledWrite>,
    /// Set while the client may still send the rest of a refused request.
    lingering: Option<Pin<Box<Sleep>>>,
    departure: Departure,
}

struct StalledWrite {
    deadline: Pin<Box<Sleep>>,
    written: usize,
}

impl Stream {
    /// Wraps a connection.
    pub fn new(transport: Transport, activity: Arc<Activity>, budget: Arc<Budget>) -> Self {
        // Responses are small and awaited, so they must not be delayed until there is more to send.
        let _ = tcp(&transport).set_nodelay(true);
        Self {
            transport: transport.take(MAX_READ),
            unread: Bytes::new(),
            activity,
            moved: 0,
            head: 0,
            requests: 0,
            budget,
            hold: None,
            refused: false,
            stalled: None,
            lingering: None,
            departure: Departure::default(),
        }
    }

    /// Has these bytes read once more.
    pub fn unread(&mut self, bytes: Bytes) {
        self.unread = bytes;
    }

    fn record_progress(&mut self, bytes: usize) {
        self.moved += bytes;
        if self.moved >= PROGRESS {
            self.moved = 0;
            self.activity.made_progress();
        }
    }

    /// Counts a head longer than one read until the next one begins: hyper keeps it as long as the request. Where the budget has
    /// no room for it, it becomes one that hyper refuses.
    fn count_head(&mut self, before: usize, buf: &mut ReadBuf<'_>) {
        if !self.activity.awaits_head() {
            return;
        }
        let requests = self.activity.requests();
        if self.requests != requests {
            (self.requests, self.head, self.hold) = (requests, 0, None);
        }
        self.head += buf.filled().len() - before;
        if self.head <= MAX_READ as usize {
            return;
        }
        let hold = self.hold.get_or_insert_with(|| HeadHold::new(&self.budget));
        // The buffer doubles.
        if !hold.grow_to(2 * self.head, &self.activity) {
            self.refused = true;
            // No place of a head may have the first of these bytes, and at the others hyper looks at it.
            buf.set_filled(before);
            buf.put_slice(&b"\0\n\n"[..buf.remaining().min(3)]);
        }
    }

    /// Applies the time-out to something that waits for the client to read.
    fn check_stalled<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        let stalled = self.stalled.get_or_insert_with(|| StalledWrite {
            deadline: Box::pin(sleep(WRITE_TIMEOUT)),
            written: 0,
        });
        ready!(stalled.deadline.as_mut().poll(cx));
        // The kernel discards its send buffer too.
        let _ = tcp(self.transport.get_ref()).set_zero_linger();
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Applies the time-out to the result of a write.
    fn check_write(
        &mut self,
        written: Poll<io::Result<usize>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Pending => return self.check_stalled(cx),
            Poll::Ready(Ok(bytes)) => {
                if let Some(stalled) = &mut self.stalled {
                    stalled.written += bytes;
                    if stalled.written >= MIN_WRITTEN {
                        self.stalled = None;
                    }
                }
                self.record_progress(*bytes);
            }
            Poll::Ready(Err(_)) => {}
        }
        written
    }
}

/// What a client gets in place of an answer that hyper makes itself, since the request's head is no HTTP; `None` for the
/// answers of routes, which have a type or the request's id. `is_overload`: there was no room for the head.
fn refusal_for(head: &[u8], is_overload: bool) -> Option<Vec<u8>> {
    if head.len() >= 256 || !head.starts_with(b"HTTP/1.1 4") || !head.ends_with(b"\r\n\r\n") {
        return None;
    }
    let rest = std::str::from_utf8(head).ok()?;
    if rest.contains("content-type:") || rest.contains("x-request-id:") {
        return None;
    }
    let status = StatusCode::from_bytes(head.get(9..12)?).ok()?;
    let (status, problem, retry) = match is_overload {
        true => (StatusCode::SERVICE_UNAVAILABLE, overloaded(), "retry-after: 1\r\n"),
        false => (status, Problem::of_status(status), ""),
    };
    let id = random_name().ok()?;
    let body = problem.body(&id);
    let code = body.code.clone();
    let body = json_line(&body).ok()?;
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\nx-request-id: {id}\r\n\
            link: </guide/errors/{code}>; rel=help\r\nx-content-type-options: nosniff\r\ncross-origin-resource-policy: same-origin\r\nx-frame-options: DENY\r\n\
            {retry}connection: close\r\n\r\n",
        body.len()
    );
    Some([head.into_bytes(), body].concat())
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.departure.reads();
        if !self.unread.is_empty() {
            let length = self.unread.len().min(buf.remaining());
            buf.put_slice(&self.unread.split_to(length));
            return Poll::Ready(Ok(()));
        }
        self.transport.set_limit(MAX_READ);
        let before = buf.filled().len();
        let read = Pin::new(&mut self.transport).poll_read(cx, buf);
        let bytes = buf.filled().len() - before;
        self.record_progress(bytes);
        self.count_head(before, buf);
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        // It fits into the send buffer, as nothing else is in it.
        let written = match refusal_for(bytes, self.refused) {
            Some(refusal) => {
                Pin::new(self.transport.get_mut()).poll_write(cx, &refusal).map_ok(|_| bytes.len())
            }
            None => Pin::new(self.transport.get_mut()).poll_write(cx, bytes),
        };
        self.check_write(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let [head] = parts {
            return self.poll_write(cx, head);
        }
        let written = Pin::new(self.transport.get_mut()).poll_write_vectored(cx, parts);
        self.check_write(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.transport.get_ref().is_write_vectored()
    }

    /// hyper flushes once it has written all its output, and whenever it polls a connection whose response is not ready.
    /// With TLS the rest of what was encrypted has to be written first, for which the client has as long as for a write.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        match Pin::new(this.transport.get_mut()).poll_flush(cx) {
            Poll::Pending => return this.check_stalled(cx),
            Poll::Ready(flushed) => flushed?,
        }
        this.stalled = None;
        this.activity.flushed();
        if this.departure.poll(tcp(this.transport.get_ref()), cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(self.transport.get_mut()).poll_shutdown(cx) {
            Poll::Pending => return self.check_stalled(cx),
            Poll::Ready(shut) => shut?,
        }
        if self.lingering.is_none() && !self.refused && !self.activity.body_unread(LINGER_TIMEOUT) {
            return Poll::Ready(Ok(()));
        }
        let end = self.lingering.get_or_insert_with(|| Box::pin(sleep(LINGER_TIMEOUT)));
        if end.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        loop {
            let mut bytes = [0; MAX_READ as usize];
            let mut bytes = ReadBuf::new(&mut bytes);
            // What is discarded need not be decrypted.
            let tcp = tcp_mut(self.transport.get_mut());
            let read = ready!(Pin::new(tcp).poll_read(cx, &mut bytes));
            if read.is_err() || bytes.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

/// Notices that a client has gone. hyper does so itself as long as it has used up all that the client sent; a line break or a
/// further request behind the one that is being answered keeps it from looking, and what is granted then goes nowhere.
#[derive(Default)]
struct Departure {
    /// While there is more that hyper does not take.
    again: Option<Pin<Box<Sleep>>>,
}

impl Departure {
    /// hyper takes what the client sent, and sees its end itself.
    fn reads(&mut self) {
        self.again = None;
    }

    /// Ready once the client has gone.
    fn poll(&mut self, tcp: &TcpStream, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let mut next = [0];
            match ready!(tcp.poll_peek(cx, &mut ReadBuf::new(&mut next))) {
                Ok(0) | Err(_) => return Poll::Ready(()),
                Ok(_) => {}
            }
            let again = self.again.get_or_insert_with(|| Box::pin(sleep(LOOK_EVERY)));
            ready!(again.as_mut().poll(cx));
            self.again = None;
            let ready = tcp.ready(Interest::READABLE).now_or_never();
            if matches!(ready, Some(Ok(ready)) if ready.is_read_closed()) {
                return Poll::Ready(());
            }
        }
    }
}
