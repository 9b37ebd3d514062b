//! A connection that knows what was heard over it, and breaks where the other side goes on without end. A call over one
//! that was kept since the call before, and that ends without a byte, met a receiver that had closed it in between: that
//! says nothing about the message.

use hyper_util::{
    client::legacy::connect::{Connected, Connection},
    rt::TokioIo,
};
use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that the other side may send after the last that was written to it: more than the head of an answer and what is
/// read of its body. Interim answers (`100 Continue`), which are dropped as they come, end with it.
const MOST_BYTES: usize = 262_144;

/// What was heard over a connection. Clones speak of the same one.
#[derive(Clone, Debug, Default)]
pub(super) struct Heard(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    read: AtomicU64,
    /// Of these, what belongs to answers that have come to their end.
    answered: AtomicU64,
}

impl Heard {
    /// An answer has come to its end.
    pub fn answered(&self) {
        self.0.answered.store(self.0.read.load(Relaxed), Relaxed);
    }

    /// There were answers, and nothing since.
    pub fn nothing_since(&self) -> bool {
        let answered = self.0.answered.load(Relaxed);
        answered > 0 && answered == self.0.read.load(Relaxed)
    }
}

/// A connection and what was heard over it.
pub(super) struct Wire<S> {
    stream: TokioIo<S>,
    heard: Heard,
    /// Bytes read since something was written.
    unasked: usize,
}

impl<S> Wire<S> {
    /// For hyper, which `stream` is made for as well: only Tokio's traits tell how much was read.
    pub fn of(stream: S) -> TokioIo<Self> {
        TokioIo::new(Self { stream: TokioIo::new(stream), heard: Heard::default(), unasked: 0 })
    }
}

impl<S: Connection> Connection for Wire<S> {
    fn connected(&self) -> Connected {
        self.stream.inner().connected().extra(self.heard.clone())
    }
}

impl<S> AsyncRead for Wire<S>
where
    TokioIo<S>: AsyncRead + Unpin,
{
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let read = buffer.filled().len() - before;
        self.heard.0.read.fetch_add(read as u64, Relaxed);
        self.unasked += read;
        if self.unasked > MOST_BYTES {
            return Poll::Ready(Err(io::Error::other("the answer is too long")));
        }
        polled
    }
}

impl<S> AsyncWrite for Wire<S>
where
    TokioIo<S>: AsyncWrite + Unpin,
{
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes));
        self.unasked = 0;
        Poll::Ready(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, buffers));
        self.unasked = 0;
        Poll::Ready(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
