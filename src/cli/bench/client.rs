//! The cheapest HTTP/1.1 client that is still correct towards one server.
//!
//! The generator runs on the same cores as what it measures, so each
//! microsecond it spends is missing from the figure. Requests are bytes built
//! beforehand, an answer is a status and a slice of the connection's own
//! buffer, and only what dueq sends is understood: keep-alive and
//! `content-length`.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// One keep-alive connection that carries one request at a time.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Where the answer that the last `send` gave out ends.
    answered: usize,
}

/// An answer as it lies in the connection's buffer.
#[derive(Debug)]
pub struct Answer<'a> {
    /// The HTTP status.
    pub status: u16,
    /// The body, empty where there was none.
    pub body: &'a [u8],
}

/// What the parser found at the front of the buffer.
#[derive(Debug, PartialEq, Eq)]
pub struct Head {
    status: u16,
    body_start: usize,
    body_end: usize,
}

impl Connection {
    /// Connects to `address` (`host:port`), with Nagle's delay switched off.
    pub async fn open(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(4096), answered: 0 })
    }

    /// Sends one request and waits for its whole answer. After an error the
    /// connection is of no further use.
    pub async fn send(&mut self, request: &[u8]) -> io::Result<Answer<'_>> {
        self.buffer.drain(..self.answered);
        self.answered = 0;
        self.stream.write_all(request).await?;
        let head = loop {
            if let Some(head) = parse(&self.buffer)? {
                break head;
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        self.answered = head.body_end;
        Ok(Answer { status: head.status, body: &self.buffer[head.body_start..head.body_end] })
    }
}

/// Finds one whole answer at the front of `bytes`; None while more must come.
///
/// # Errors
/// `InvalidData` for what is no HTTP/1.1 answer with a `content-length`.
pub fn parse(bytes: &[u8]) -> io::Result<Option<Head>> {
    let Some(end) = find(bytes, b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&bytes[..end]).map_err(|_| bad("head is not text"))?;
    let mut lines = head.split("\r\n");
    let status: u16 = lines
        .next()
        .and_then(|line| line.strip_prefix("HTTP/1.1 "))
        .and_then(|rest| rest.get(..3))
        .and_then(|code| code.parse().ok())
        .ok_or_else(|| bad("no HTTP/1.1 status line"))?;
    let mut length = None;
    for line in lines {
        let (name, value) = line.split_once(':').ok_or_else(|| bad("odd header"))?;
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.trim().parse().map_err(|_| bad("content-length"))?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(bad("a chunked answer"));
        }
    }
    // 204 has no body and needs no length; elsewhere a missing one would mean
    // reading to the end of the connection, which dueq never asks for.
    let length: usize = match length {
        Some(length) => length,
        None if status == 204 => 0,
        None => return Err(bad("no content-length")),
    };
    let body_start = end + 4;
    let body_end = body_start + length;
    Ok((bytes.len() >= body_end).then_some(Head { status, body_start, body_end }))
}

/// Where `needle` begins in `haystack`.
pub fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    let first = *needle.first()?;
    let mut from = 0;
    while let Some(step) = haystack[from..].iter().position(|byte| *byte == first) {
        from += step;
        if haystack[from..].starts_with(needle) {
            return Some(from);
        }
        from += 1;
    }
    None
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("bad answer: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    const ANSWER: &[u8] =
        b"HTTP/1.1 201 Created\r\nContent-Length: 5\r\nlocation: /messages/x\r\n\r\nhello";

    #[test]
    fn an_answer_is_found_only_when_it_is_whole() {
        for cut in 0..ANSWER.len() {
            assert_eq!(parse(&ANSWER[..cut]).unwrap(), None, "cut at {cut}");
        }
        let head = parse(ANSWER).unwrap().unwrap();
        assert_eq!(head.status, 201);
        assert_eq!(&ANSWER[head.body_start..head.body_end], b"hello");
    }

    #[test]
    fn a_204_needs_no_length() {
        let head = parse(b"HTTP/1.1 204 No Content\r\ndate: x\r\n\r\n").unwrap();
        assert_eq!(head.map(|h| (h.status, h.body_end - h.body_start)), Some((204, 0)));
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for answer in [
            &b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"[..],
            b"HTTP/1.1 200 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n",
            b"SSH-2.0-x\r\n\r\n",
        ] {
            assert!(parse(answer).is_err());
        }
    }

    #[test]
    fn a_needle_is_found_behind_false_starts() {
        assert_eq!(find(b"aab", b"ab"), Some(1));
        assert_eq!(find(b"aaa", b"ab"), None);
        assert_eq!(find(b"", b"ab"), None);
    }

    #[tokio::test]
    async fn answers_that_come_in_pieces_are_put_together() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            socket.set_nodelay(true).unwrap();
            for _ in 0..2 {
                let mut request = [0; 4];
                socket.read_exact(&mut request).await.unwrap();
                for piece in ANSWER.chunks(7) {
                    socket.write_all(piece).await.unwrap();
                    tokio::task::yield_now().await;
                }
            }
        });
        let mut connection = Connection::open(&address).await.unwrap();
        for _ in 0..2 {
            let answer = connection.send(b"ping").await.unwrap();
            assert_eq!((answer.status, answer.body), (201, &b"hello"[..]));
        }
        server.await.unwrap();
        assert!(connection.send(b"ping").await.is_err());
    }
}
