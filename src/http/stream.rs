//! A client's connection as hyper reads and writes it, with two bounds that hyper does not set: a client that does not
//! read its answer is given up, and reads are short, so that a connection's buffer stays small however much is sent.

use super::{connections::Life, departure::Departure};
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

/// A client that takes none of its answer for so long is given up…
const UNREAD_TIMEOUT: Duration = Duration::from_secs(30);
/// …and so is one that takes less than this of it in that time.
const ENOUGH: usize = 64 * 1024;
/// Of a client that sends or takes so much, it is noted that it does.
const PROGRESS: usize = 8 * 1024;
/// What a client still sends that was refused is read for so long: closed at once, the connection would be reset, and the
/// client might never see the answer (RFC 9112, 9.6).
const LINGER: Duration = Duration::from_secs(2);
/// hyper begins with a buffer of 8 KiB and doubles it, up to what a head may have, whenever a read has filled it: so none
/// does.
const READ: u64 = 8 * 1024 - 1;

/// The connection.
pub(super) struct Stream {
    tcp: Take<TcpStream>,
    life: Arc<Life>,
    /// Bytes read and written since progress was noted last.
    moved: usize,
    /// While the client does not read.
    unread: Option<Unread>,
    /// While the client may still send what was refused.
    lingering: Option<Pin<Box<Sleep>>>,
    departure: Departure,
}

struct Unread {
    deadline: Pin<Box<Sleep>>,
    taken: usize,
}

impl Stream {
    /// Over a connection that was accepted.
    pub fn new(tcp: TcpStream, life: Arc<Life>) -> Self {
        // Answers are small and awaited: they must not wait for more to send.
        let _ = tcp.set_nodelay(true);
        Self {
            tcp: tcp.take(READ),
            life,
            moved: 0,
            unread: None,
            lingering: None,
            departure: Departure::default(),
        }
    }

    fn moves(&mut self, bytes: usize) {
        self.moved += bytes;
        if self.moved >= PROGRESS {
            self.moved = 0;
            self.life.progresses();
        }
    }

    fn watch(
        &mut self,
        written: Poll<io::Result<usize>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Pending => {
                let unread = self.unread.get_or_insert_with(|| Unread {
                    deadline: Box::pin(sleep(UNREAD_TIMEOUT)),
                    taken: 0,
                });
                if unread.deadline.as_mut().poll(cx).is_ready() {
                    // What the kernel still holds for this client goes too.
                    let _ = self.tcp.get_ref().set_zero_linger();
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
            }
            Poll::Ready(Ok(bytes)) => {
                if let Some(unread) = &mut self.unread {
                    unread.taken += bytes;
                    if unread.taken >= ENOUGH {
                        self.unread = None;
                    }
                }
                self.moves(*bytes);
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
        self.tcp.set_limit(READ);
        let before = buf.filled().len();
        let read = Pin::new(&mut self.tcp).poll_read(cx, buf);
        self.moves(buf.filled().len() - before);
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
        self.watch(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(self.tcp.get_mut()).poll_write_vectored(cx, parts);
        self.watch(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.get_ref().is_write_vectored()
    }

    /// hyper flushes once it has written all that it has, and whenever it looks after a connection whose answer is not ready.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.unread = None;
        self.life.wrote_all();
        let this = &mut *self;
        if this.departure.poll(this.tcp.get_ref(), cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Pin::new(this.tcp.get_mut()).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(self.tcp.get_mut()).poll_shutdown(cx))?;
        if self.lingering.is_none() && !self.life.owes_body(LINGER) {
            return Poll::Ready(Ok(()));
        }
        let end = self.lingering.get_or_insert_with(|| Box::pin(sleep(LINGER)));
        if end.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        loop {
            let mut bytes = [0; READ as usize];
            let mut bytes = ReadBuf::new(&mut bytes);
            let read = ready!(Pin::new(self.tcp.get_mut()).poll_read(cx, &mut bytes));
            if read.is_err() || bytes.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}
