//! The beginning of a connection with TLS: the handshake, within bounds, and on a thread that serves no requests. It costs
//! a hundred times what a request does, and strangers may begin as many as they like. A client that speaks plain HTTP to a port
//! with TLS is recognized by the first byte and gets an answer that says so.

use rustls::{ServerConfig, ServerConnection};
use std::{
    io::{self, ErrorKind},
    os::fd::AsFd,
    sync::Arc,
    time::Duration,
};
use tokio::{net::TcpStream, runtime::Handle, sync::watch, time::timeout};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::{either::Either, task::AbortOnDropHandle};

/// A connection is closed if its handshake takes longer.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The first byte of a client that speaks TLS (RFC 8446, 5.1).
const HANDSHAKE: u8 = 22;
/// How much of a response is encrypted ahead of what the system takes, so that the progress of the client can be seen, and
/// no budget counts those bytes.
const WRITE_BUFFER: usize = 16 * 1024;

/// A connection that can carry requests.
pub(crate) type Transport = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// The TLS configuration of the listener, if it has a certificate. It changes when certificates are read again.
pub type TlsConfig = watch::Receiver<Option<Arc<ServerConfig>>>;

/// A connection after its beginning.
pub(crate) struct Accepted {
    pub transport: Transport,
    /// The client speaks plain HTTP although it should speak TLS.
    pub lacks_tls: bool,
    /// Changes once other certificates are in force than for this connection.
    pub certificates: Option<TlsConfig>,
}

/// Makes what was accepted a connection that can carry requests.
#[derive(Clone)]
pub struct Handshakes {
    thread: Handle,
    config: TlsConfig,
}

impl Handshakes {
    /// By this configuration, on this thread.
    pub fn new(thread: Handle, config: TlsConfig) -> Self {
        Self { thread, config }
    }

    /// Returns the connection, which belongs to the caller's thread.
    ///
    /// Errors: the handshake failed or took too long.
    pub(crate) async fn accept(&self, tcp: std::net::TcpStream) -> io::Result<Accepted> {
        let mut config = self.config.clone();
        // Certificates that were read again count from the next connection on.
        let tls = config.borrow_and_update().clone();
        let shaken =
            async { shake_hands(TcpStream::from_std(tcp)?, tls.ok_or(ErrorKind::Other)?).await };
        let shaken = self.thread.spawn(timeout(HANDSHAKE_TIMEOUT, shaken));
        let shaken = AbortOnDropHandle::new(shaken).await?;
        let mut transport = shaken.unwrap_or(Err(ErrorKind::TimedOut.into()))?;
        // From here on, this thread polls the connection.
        let tcp = tcp_mut(&mut transport);
        *tcp = TcpStream::from_std(tcp.as_fd().try_clone_to_owned()?.into())?;
        let lacks_tls = matches!(transport, Either::Left(_));
        Ok(Accepted { transport, lacks_tls, certificates: Some(config) })
    }
}

/// Plain HTTP is left as it is.
async fn shake_hands(tcp: TcpStream, tls: Arc<ServerConfig>) -> io::Result<Transport> {
    // The answers of a handshake are awaited, too.
    let _ = tcp.set_nodelay(true);
    let mut first = [0];
    if tcp.peek(&mut first).await? == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    if first[0] != HANDSHAKE {
        return Ok(Either::Left(tcp));
    }
    let limit = |session: &mut ServerConnection| session.set_buffer_limit(Some(WRITE_BUFFER));
    let stream = TlsAcceptor::from(tls).accept_with(tcp, limit).await?;
    Ok(Either::Right(Box::new(stream)))
}

/// The TCP connection below.
pub(crate) fn tcp(transport: &Transport) -> &TcpStream {
    match transport {
        Either::Left(tcp) => tcp,
        Either::Right(tls) => tls.get_ref().0,
    }
}

/// The TCP connection below, to read and write past TLS.
pub(crate) fn tcp_mut(transport: &mut Transport) -> &mut TcpStream {
    match transport {
        Either::Left(tcp) => tcp,
        Either::Right(tls) => tls.get_mut().0,
    }
}
