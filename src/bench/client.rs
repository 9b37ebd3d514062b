//! A minimal HTTP/1.1 client that suffices for dueq, by TLS or not.
//!
//! The load shares the cores with the server that it measures, so its own CPU time lowers the figures. Requests are bytes
//! built in advance, a response is a status and a slice of the connection's buffer, and only what dueq sends is
//! understood: keep-alive and `content-length`.

use crate::Fallible;
use dueq_base::remote::{TlsArgs, server_url, unreachable};
use http::uri::Authority;
use memchr::memmem;
use rustls::{ClientConfig, pki_types::ServerName};
use std::{io, sync::Arc};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::either::Either;

/// The trace of all that is traced.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// Where a server is, and how it is spoken to.
#[derive(Clone)]
pub struct Address {
    /// Scheme, host and port.
    url: String,
    /// `host:port`.
    pub host: String,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    /// Which requests of a connection carry a sampled `traceparent`: every so many; 0: none.
    trace_every: usize,
}

impl Address {
    /// That of the server at `url`.
    ///
    /// # Errors
    /// If the URL is not of the form `[http[s]://]host[:port]`, or the arguments are wrong.
    pub fn of(url: &str, tls: &TlsArgs) -> Fallible<Self> {
        let wrong = "--server must be http://host:port, https://host:port or host:port";
        let url = server_url(url)?;
        let (scheme, rest) = url.split_once("://").ok_or(wrong)?;
        let authority: Authority = rest.parse().map_err(|_| wrong)?;
        let (is_https, name) = (scheme == "https", authority.host());
        let port = authority.port_u16().unwrap_or(if is_https { 443 } else { 80 });
        let config = tls.config(&url)?;
        let given = tls.name()?;
        let bare = name.trim_start_matches('[').trim_end_matches(']').to_owned();
        let tls = match (is_https, given) {
            (false, _) => None,
            (true, Some(given)) => Some((Arc::new(config), given)),
            (true, None) => Some((Arc::new(config), ServerName::try_from(bare)?)),
        };
        Ok(Self { host: format!("{name}:{port}"), tls, url, trace_every: 0 })
    }

    /// The same, of whose requests every so many are traced.
    pub fn tracing(self, trace_every: usize) -> Self {
        Self { trace_every, ..self }
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// If it cannot be opened; the message names the server.
    pub async fn connect(&self) -> Fallible<Connection> {
        let stream = TcpStream::connect(&self.host).await;
        let stream = stream.map_err(|error| format!("{}: {error}", self.host))?;
        stream.set_nodelay(true)?;
        let stream = match &self.tls {
            None => Either::Left(stream),
            Some((config, name)) => {
                let connector = TlsConnector::from(config.clone());
                let stream = connector.connect(name.clone(), stream).await;
                Either::Right(Box::new(stream.map_err(|error| self.reason(&error))?))
            }
        };
        let (buffer, trace_every) = (Vec::with_capacity(4096), self.trace_every);
        Ok(Connection { stream, buffer, answered: 0, sent: 0, trace_every })
    }

    /// Why a connection failed, and what to do where that is known.
    pub fn reason(&self, error: &io::Error) -> String {
        unreachable(&self.url, error)
    }
}

/// One keep-alive connection that carries one request at a time.
pub struct Connection {
    stream: Either<TcpStream, Box<TlsStream<TcpStream>>>,
    buffer: Vec<u8>,
    /// The end of the response that the last `send` returned.
    answered: usize,
    /// Requests so far.
    sent: usize,
    trace_every: usize,
}

/// A whole response at the front of the buffer.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    body_start: usize,
    body_end: usize,
}

impl Connection {
    /// Sends a request and returns the response's status and body. The connection cannot be used after an error.
    pub async fn send(&mut self, request: &[u8]) -> io::Result<(u16, &[u8])> {
        self.buffer.drain(..self.answered);
        self.answered = 0;
        self.sent += 1;
        match memmem::find(request, b"\r\n").filter(|_| self.is_traced()) {
            Some(end) => {
                let trace = format!("\r\ntraceparent: 00-{TRACE}-{:016x}-01", self.sent);
                let (line, rest) = request.split_at(end);
                self.stream.write_all(&[line, trace.as_bytes(), rest].concat()).await?;
            }
            None => self.stream.write_all(request).await?,
        }
        // TLS may hold back the end of it.
        self.stream.flush().await?;
        let head = loop {
            if let Some(head) = parse(&self.buffer)? {
                break head;
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        self.answered = head.body_end;
        Ok((head.status, &self.buffer[head.body_start..head.body_end]))
    }

    fn is_traced(&self) -> bool {
        self.trace_every > 0 && self.sent.is_multiple_of(self.trace_every)
    }
}

/// Finds a whole response at the front of `bytes`; `None` if it is incomplete.
fn parse(bytes: &[u8]) -> io::Result<Option<Head>> {
    let Some(end) = memmem::find(bytes, b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&bytes[..end]).map_err(|_| bad("the head is not text"))?;
    let mut lines = head.split("\r\n");
    let status_line = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 "));
    let status: u16 = status_line
        .and_then(|rest| rest.get(..3)?.parse().ok())
        .ok_or_else(|| bad("no HTTP/1.1 status line"))?;
    let mut lengths = lines.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>())
    });
    let length = match lengths.next() {
        Some(length) => length.map_err(|_| bad("content-length"))?,
        // A 204 has no body, so it needs no length.
        None if status == 204 => 0,
        None => return Err(bad("no content-length")),
    };
    let body_start = end + 4;
    let body_end = body_start + length;
    Ok((bytes.len() >= body_end).then_some(Head { status, body_start, body_end }))
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("bad answer: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_found_only_when_it_is_complete() {
        let answer = b"HTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\nhello";
        for cut in 0..answer.len() {
            assert_eq!(parse(&answer[..cut]).unwrap(), None, "cut at {cut}");
        }
        let head = parse(answer).unwrap().unwrap();
        assert_eq!((head.status, &answer[head.body_start..head.body_end]), (201, &b"hello"[..]));
        assert!(parse(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
    }

    #[test]
    fn a_server_url_becomes_an_address() {
        #[derive(clap::Parser)]
        struct Args {
            #[command(flatten)]
            tls: TlsArgs,
        }
        let Args { tls } = clap::Parser::parse_from(["bench", "--server-name", "dueq"]);
        let of =
            |url: &str| Address::of(url, &tls).map(|address| (address.host, address.tls.is_some()));
        assert_eq!(of("http://127.0.0.1:8080/").unwrap(), ("127.0.0.1:8080".to_owned(), false));
        for url in ["http://queue", "queue:80", "queue"] {
            assert_eq!(of(url).unwrap(), ("queue:80".to_owned(), false));
        }
        for url in ["http://queue/path", "ftp://queue", "http://", "", "queue:99999"] {
            assert!(of(url).is_err(), "{url}");
        }
    }
}
