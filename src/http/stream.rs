//! A client's connection as hyper reads and writes it, with two limits that hyper does not set: a connection whose client
//! does not read its response is closed, and reads are short, so that the connection's buffer stays small.

use super::{connections::Activity, departure::Departure};
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf, Take},
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

/// A client's connection.
pub(super) struct Stream {
    tcp: Take<TcpStream>,
    activity: Arc<Activity>,
    /// Bytes read and written since progress was last recorded.
    moved: usize,
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
    /// Wraps an accepted connection.
    pub fn new(tcp: TcpStream, activity: Arc<Activity>) -> Self {
        // Responses are small and awaited, so they must not be delayed until there is more to send.
        let _ = tcp.set_nodelay(true);
        Self {
            tcp: tcp.take(MAX_READ),
            activity,
            moved: 0,
            stalled: None,
            lingering: None,
            departure: Departure::default(),
        }
    }

    fn record_progress(&mut self, bytes: usize) {
        self.moved += bytes;
        if self.moved >= PROGRESS {
            self.moved = 0;
            self.activity.made_progress();
        }
    }

    /// Applies the time-out to the result of a write.
    fn check_write(
        &mut self,
        written: Poll<io::Result<usize>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Pending => {
                let stalled = self.stalled.get_or_insert_with(|| StalledWrite {
                    deadline: Box::pin(sleep(WRITE_TIMEOUT)),
                    written: 0,
                });
                if stalled.deadline.as_mut().poll(cx).is_ready() {
                    // The kernel discards its send buffer too.
                    let _ = self.tcp.get_ref().set_zero_linger();
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
            }
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

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.departure.reads();
        self.tcp.set_limit(MAX_READ);
        let before = buf.filled().len();
        let read = Pin::new(&mut self.tcp).poll_read(cx, buf);
        self.record_progress(buf.filled().len() - before);
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(self.tcp.get_mut()).poll_write(cx, bytes);
        self.check_write(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(self.tcp.get_mut()).poll_write_vectored(cx, parts);
        self.check_write(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.get_ref().is_write_vectored()
    }

    /// hyper flushes once it has written all its output, and whenever it polls a connection whose response is not ready.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stalled = None;
        self.activity.flushed();
        let this = &mut *self;
        if this.departure.poll(this.tcp.get_ref(), cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Pin::new(this.tcp.get_mut()).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(self.tcp.get_mut()).poll_shutdown(cx))?;
        if self.lingering.is_none() && !self.activity.body_unread(LINGER_TIMEOUT) {
            return Poll::Ready(Ok(()));
        }
        let end = self.lingering.get_or_insert_with(|| Box::pin(sleep(LINGER_TIMEOUT)));
        if end.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        loop {
            let mut bytes = [0; MAX_READ as usize];
            let mut bytes = ReadBuf::new(&mut bytes);
            let read = ready!(Pin::new(self.tcp.get_mut()).poll_read(cx, &mut bytes));
            if read.is_err() || bytes.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}
