//! The beginning of a connection: with TLS the handshake, within bounds. Whoever speaks plain HTTP to a port with TLS is
//! recognized by the first byte, and is told so.

use rustls::ServerConfig;
use std::{io, sync::Arc, time::Duration};
use tokio::{net::TcpStream, sync::watch, time::timeout};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::either::Either;

/// A connection is closed if its handshake takes longer.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The first byte of a client that speaks TLS (RFC 8446, 5.1).
const HANDSHAKE: u8 = 22;
/// How much of a response is encrypted ahead of what the system takes, so that the progress of the client can be seen, and
/// no budget counts those bytes.
const WRITE_BUFFER: usize = 16 * 1024;

/// A connection that can carry requests.
pub(super) type Transport = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// The TLS configuration of the listener, if it has a certificate. It changes when certificates are read again.
pub type TlsConfig = watch::Receiver<Option<Arc<ServerConfig>>>;

/// An accepted connection.
pub(super) struct Accepted {
    pub transport: Transport,
    /// The client speaks plain HTTP although it should speak TLS.
    pub lacks_tls: bool,
}

/// Makes what was accepted a connection that can carry requests.
///
/// Errors: the handshake failed or took too long.
pub(super) async fn accept(tcp: TcpStream, tls: TlsConfig) -> io::Result<Accepted> {
    // Certificates that were read again count from the next connection on.
    let Some(tls) = tls.borrow().clone() else {
        return Ok(Accepted { transport: Either::Left(tcp), lacks_tls: false });
    };
    // The answers of a handshake are awaited, too.
    let _ = tcp.set_nodelay(true);
    let handshake = async {
        let mut first = [0];
        if tcp.peek(&mut first).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if first[0] != HANDSHAKE {
            return Ok(Accepted { transport: Either::Left(tcp), lacks_tls: true });
        }
        let acceptor = TlsAcceptor::from(tls);
        let limit = |session: &mut rustls::ServerConnection| {
            session.set_buffer_limit(Some(WRITE_BUFFER));
        };
        let stream = acceptor.accept_with(tcp, limit).await?;
        Ok(Accepted { transport: Either::Right(Box::new(stream)), lacks_tls: false })
    };
    timeout(HANDSHAKE_TIMEOUT, handshake).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()))
}

/// The TCP connection below.
pub(super) fn tcp(transport: &Transport) -> &TcpStream {
    match transport {
        Either::Left(tcp) => tcp,
        Either::Right(tls) => tls.get_ref().0,
    }
}

/// The TCP connection below, to read and write past TLS.
pub(super) fn tcp_mut(transport: &mut Transport) -> &mut TcpStream {
    match transport {
        Either::Left(tcp) => tcp,
        Either::Right(tls) => tls.get_mut().0,
    }
}
