//! A minimal HTTP/1.1 client that suffices for dueq.
//!
//! The load shares the cores with the server that it measures, so its own CPU time lowers the figures. Requests are bytes
//! built in advance, a response is a status and a slice of the connection's buffer, and only what dueq sends is
//! understood: keep-alive and `content-length`.

use memchr::memmem;
use std::io;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// One keep-alive connection that carries one request at a time.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// The end of the response that the last `send` returned.
    answered: usize,
}

/// A whole response at the front of the buffer.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    body_start: usize,
    body_end: usize,
}

impl Connection {
    /// Wraps this stream, and registers it with the caller's runtime.
    pub fn over(stream: std::net::TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let stream = TcpStream::from_std(stream)?;
        Ok(Self { stream, buffer: Vec::with_capacity(4096), answered: 0 })
    }

    /// Sends a request and returns the response's status and body. The connection cannot be used after an error.
    pub async fn send(&mut self, request: &[u8]) -> io::Result<(u16, &[u8])> {
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
        Ok((head.status, &self.buffer[head.body_start..head.body_end]))
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
}
