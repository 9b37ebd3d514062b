//! A connection to Redis that says when it has ended, and whether a pipeline that failed had been sent: what was not written
//! did not run, and may be sent over another connection.

use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};
use deadpool_redis::redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, RedisConnectionInfo, RedisError,
    aio::{ConnectionLike, MultiplexedConnection},
    cmd,
};
use futures_util::{FutureExt, future::select_ok};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream, lookup_host},
};
use tokio_util::{io::InspectWriter, sync::CancellationToken, task::AbortOnDropHandle};

/// A connection. Dropping it closes it.
pub struct Connection {
    pub inner: MultiplexedConnection,
    /// The bytes that were written; nothing where they are not seen, below TLS.
    written: Option<Arc<AtomicU64>>,
    ended: CancellationToken,
    _driver: Option<AbortOnDropHandle<()>>,
}

/// Opens the connections of a pool. Lanes take them out of it for as long as they last.
pub struct Opener {
    pub client: Client,
    /// How long one may take to open.
    pub limit: Duration,
}

impl Manager for Opener {
    type Type = Connection;
    type Error = RedisError;

    async fn create(&self) -> Result<Connection, RedisError> {
        Connection::open(&self.client, self.limit).await
    }

    async fn recycle(&self, connection: &mut Connection, _: &Metrics) -> RecycleResult<RedisError> {
        match connection.has_ended() {
            true => Err(RecycleError::message("it has ended")),
            false => Ok(()),
        }
    }
}

impl Connection {
    /// Opens one; the pool bounds the time.
    async fn open(client: &Client, limit: Duration) -> Result<Self, RedisError> {
        let info = client.get_connection_info();
        let settings = info.redis_settings();
        match info.addr() {
            ConnectionAddr::Tcp(host, port) => {
                let found = lookup_host((host.as_str(), *port)).await?;
                let connecting: Vec<_> = found.map(|at| Box::pin(TcpStream::connect(at))).collect();
                if connecting.is_empty() {
                    return Err(io::Error::from(io::ErrorKind::NotFound).into());
                }
                let (stream, _) = select_ok(connecting).await?;
                stream.set_nodelay(true)?;
                Self::over(stream, settings).await
            }
            ConnectionAddr::Unix(path) => {
                Self::over(UnixStream::connect(path).await?, settings).await
            }
            _ => {
                // The lanes time their calls themselves: they must know what was sent when they give up.
                let config = AsyncConnectionConfig::new()
                    .set_connection_timeout(Some(limit))
                    .set_response_timeout(None);
                let inner = client.get_multiplexed_async_connection_with_config(&config).await?;
                Ok(Self { inner, written: None, ended: CancellationToken::new(), _driver: None })
            }
        }
    }

    async fn over<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        stream: S,
        settings: &RedisConnectionInfo,
    ) -> Result<Self, RedisError> {
        let (written, ended) = (Arc::<AtomicU64>::default(), CancellationToken::new());
        // The driver drops the stream when that has ended, and this with it.
        let (counted, guard) = (written.clone(), ended.clone().drop_guard());
        let stream = InspectWriter::new(stream, move |bytes: &[u8]| {
            let _ = &guard;
            counted.fetch_add(bytes.len() as u64, Ordering::Release);
        });
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let (inner, driver) =
            MultiplexedConnection::new_with_config(settings, stream, config).await?;
        let _driver = Some(AbortOnDropHandle::new(tokio::spawn(driver)));
        Ok(Self { inner, written: Some(written), ended, _driver })
    }

    /// Has it ended? Nothing can be sent over it then.
    pub fn has_ended(&mut self) -> bool {
        if self.written.is_some() {
            return self.ended.is_cancelled();
        }
        // A request that nobody waits for any more is not sent, and one over a connection that has ended fails at once.
        matches!(self.inner.req_packed_command(&cmd("PING")).now_or_never(), Some(Err(_)))
    }

    /// Comes back when it has ended; never below TLS.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// How many bytes were written so far, where that is known: as long as there are no more, what is sent has not left.
    pub fn written(&self) -> Option<u64> {
        self.written.as_ref().map(|written| written.load(Ordering::Acquire))
    }
}
