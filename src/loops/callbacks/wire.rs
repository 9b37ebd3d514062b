//! A connection that counts what it reads, and fails if the receiver sends without end. The count tells why a call on a
//! reused connection ended without a byte: the receiver had closed the connection before the call, so the failure says
//! nothing about the message.

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

/// Maximum number of bytes that the receiver may send after the last write. It is more than the head of an answer and what
/// is read of its body. It also bounds interim answers (`100 Continue`), which hyper drops as they arrive.
const MAX_ANSWER_BYTES: usize = 262_144;

/// What was read from a connection. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadCounter(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    read: AtomicU64,
    /// The value of `read` when the last answer was complete.
    answered: AtomicU64,
}

impl ReadCounter {
    /// Records that an answer is complete.
    pub fn answered(&self) {
        self.0.answered.store(self.0.read.load(Relaxed), Relaxed);
    }

    /// Returns whether there was an answer, and nothing was read after it.
    pub fn nothing_since(&self) -> bool {
        let answered = self.0.answered.load(Relaxed);
        answered > 0 && answered == self.0.read.load(Relaxed)
    }
}

/// A connection that counts what it reads.
pub(super) struct Wire<S> {
    stream: TokioIo<S>,
    heard: ReadCounter,
    /// Bytes read since the last write.
    read_since_write: usize,
}

impl<S> Wire<S> {
    /// Wraps a stream for hyper. Within, it uses Tokio's traits, since only they tell how much was read.
    pub fn of(stream: S) -> TokioIo<Self> {
        TokioIo::new(Self {
            stream: TokioIo::new(stream),
            heard: ReadCounter::default(),
            read_since_write: 0,
        })
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
        self.read_since_write += read;
        if self.read_since_write > MAX_ANSWER_BYTES {
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
        self.read_since_write = 0;
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
        self.read_since_write = 0;
        Poll::Ready(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
