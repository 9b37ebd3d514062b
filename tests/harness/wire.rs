//! HTTP/1.1 by hand, for what a proper client refuses to send: paths with control characters, a
//! hundred headers, half a request, a connection dropped in the middle of a long poll.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::answer::Answer;

/// What a connection is made of.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// A raw connection. Dropping it closes it at once.
pub struct Wire {
    stream: Box<dyn Stream>,
    pending: Vec<u8>,
}

impl Wire {
    /// Connects to `127.0.0.1:<port>`.
    pub async fn connect(addr: &str) -> Wire {
        let stream = TcpStream::connect(addr).await.expect("a connection");
        stream.set_nodelay(true).expect("nodelay");
        Wire::over(stream)
    }

    /// Speaks over this connection.
    pub fn over(stream: impl Stream + 'static) -> Wire {
        Wire { stream: Box::new(stream), pending: Vec::new() }
    }

    /// Connects by TLS, as to `localhost`; an error where the handshake fails.
    pub async fn tls(addr: &str, config: &Arc<ClientConfig>) -> std::io::Result<Wire> {
        let stream = TcpStream::connect(addr).await?;
        let name = ServerName::try_from("localhost").expect("a name");
        Ok(Wire::over(TlsConnector::from(config.clone()).connect(name, stream).await?))
    }

    /// One GET by TLS on a connection of its own.
    pub async fn get_tls(
        addr: &str,
        config: &Arc<ClientConfig>,
        path: &str,
    ) -> std::io::Result<Answer> {
        let mut wire = Wire::tls(addr, config).await?;
        wire.request(&format!("GET {path} HTTP/1.1\r\nhost: localhost"), b"").await;
        let answer = wire.answer(path, Duration::from_secs(10)).await;
        answer.ok_or_else(|| std::io::ErrorKind::UnexpectedEof.into())
    }

    /// Writes these bytes; false when the server has closed the connection.
    pub async fn write(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok() && self.stream.flush().await.is_ok()
    }

    /// Writes a request whose head is `head` (lines joined by CRLF, no final blank line) with this
    /// body.
    pub async fn request(&mut self, head: &str, body: &[u8]) -> bool {
        let mut bytes = format!("{head}\r\n\r\n").into_bytes();
        bytes.extend_from_slice(body);
        self.write(&bytes).await
    }

    /// Sends a long poll of 30 s on this topic, which can be dropped like a client that goes away.
    pub async fn long_poll(addr: &str, topic: &str) -> Wire {
        let mut wire = Wire::connect(addr).await;
        let body = b"{\"wait_ms\":30000}";
        let head = format!(
            "POST /topics/{topic}/lease HTTP/1.1\r\nhost: {addr}\r\ncontent-type: application/json\r\n\
             content-length: {}",
            body.len()
        );
        assert!(wire.request(&head, body).await);
        wire
    }

    /// Reads until the server closes or `limit` passes; true when it closed.
    pub async fn closes_within(&mut self, limit: Duration) -> bool {
        let mut sink = [0; 4096];
        timeout(limit, async {
            loop {
                match self.stream.read(&mut sink).await {
                    Ok(0) | Err(_) => return,
                    Ok(n) => self.pending.extend_from_slice(&sink[..n]),
                }
            }
        })
        .await
        .is_ok()
    }

    /// All that the server sends until it closes.
    ///
    /// # Panics
    /// When it does not close within `limit`.
    pub async fn rest(&mut self, limit: Duration) -> Vec<u8> {
        assert!(self.closes_within(limit).await, "open after {limit:?}");
        std::mem::take(&mut self.pending)
    }

    /// One answer with a `content-length` or a chunked body; nothing when the connection was closed
    /// without one.
    ///
    /// # Panics
    /// When neither comes within `limit`.
    pub async fn answer(&mut self, request: &str, limit: Duration) -> Option<Answer> {
        timeout(limit, self.read_answer(request))
            .await
            .unwrap_or_else(|_| panic!("{request}: no answer and no close in {limit:?}"))
    }

    async fn read_answer(&mut self, request: &str) -> Option<Answer> {
        let head_end = loop {
            if let Some(at) = find(&self.pending, b"\r\n\r\n") {
                break at;
            }
            self.more().await?;
        };
        let head = String::from_utf8_lossy(&self.pending[..head_end]).into_owned();
        self.pending.drain(..head_end + 4);
        let mut lines = head.lines();
        let status: u16 = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let mut headers = HeaderMap::new();
        for line in lines {
            let (name, value) = line.split_once(':').expect("a header line");
            headers.append(
                HeaderName::from_bytes(name.as_bytes()).expect("a header name"),
                HeaderValue::from_str(value.trim()).expect("a header value"),
            );
        }
        let body = if let Some(length) = headers.get("content-length") {
            let length: usize = length.to_str().ok()?.parse().ok()?;
            while self.pending.len() < length {
                self.more().await?;
            }
            self.pending.drain(..length).collect()
        } else if headers.contains_key("transfer-encoding") {
            self.read_chunks().await?
        } else {
            Vec::new()
        };
        Some(Answer::new(request.to_owned(), status, headers, body))
    }

    async fn read_chunks(&mut self) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line_end = loop {
                if let Some(at) = find(&self.pending, b"\r\n") {
                    break at;
                }
                self.more().await?;
            };
            let line = String::from_utf8_lossy(&self.pending[..line_end]).into_owned();
            let size = usize::from_str_radix(line.trim(), 16).expect("a chunk size");
            while self.pending.len() < line_end + 2 + size + 2 {
                self.more().await?;
            }
            let start = line_end + 2;
            body.extend_from_slice(&self.pending[start..start + size]);
            self.pending.drain(..start + size + 2);
            if size == 0 {
                return Some(body);
            }
        }
    }

    /// Reads some more bytes; nothing at the end of the stream.
    async fn more(&mut self) -> Option<()> {
        let mut buffer = [0; 8192];
        match self.stream.read(&mut buffer).await {
            Ok(0) | Err(_) => None,
            Ok(n) => {
                self.pending.extend_from_slice(&buffer[..n]);
                Some(())
            }
        }
    }
}

fn find(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    bytes.windows(pattern.len()).position(|w| w == pattern)
}
