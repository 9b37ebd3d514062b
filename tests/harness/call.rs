//! A request as a [`Receiver`](super::Receiver) gets it, what it is told to answer, and the HTTP/1.1
//! of both.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

/// A request that arrived.
#[derive(Clone, Debug)]
pub struct Call {
    /// The method.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The headers, in order and spelled as they came.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// When its head had arrived.
    pub at: Instant,
    /// The same on the machine's clock, which Redis shares here, in ms since 1970.
    pub at_ms: i64,
}

impl Call {
    /// A header by its name in any case, or the empty string.
    pub fn header(&self, name: &str) -> &str {
        self.find(name).unwrap_or("")
    }

    /// Whether there is such a header.
    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    fn find(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// How many headers have this name.
    pub fn count(&self, name: &str) -> usize {
        self.headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name)).count()
    }

    /// `webhook-id`.
    pub fn id(&self) -> &str {
        self.header("webhook-id")
    }

    /// `dueq-attempt`.
    pub fn attempt(&self) -> i64 {
        self.header("dueq-attempt").parse().unwrap_or_else(|_| panic!("no attempt: {self:?}"))
    }

    /// The headers as a map, for verifiers.
    pub fn header_map(&self) -> HeaderMap {
        let pair = |(name, value): &(String, String)| {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a header name");
            (name, HeaderValue::from_str(value).expect("a header value"))
        };
        self.headers.iter().map(pair).collect()
    }
}

/// What the receiver does with a request.
#[derive(Clone, Debug)]
pub struct Reply {
    pub(super) delay: Duration,
    pub(super) gate: Option<watch::Receiver<bool>>,
    pub(super) kind: Kind,
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// How an answer is written, if at all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Whole,
    Never,
    Drop,
    Half,
    Trickle(usize, Duration),
    Bytes(Ending),
}

/// What comes after the bytes of a [`Reply::bytes`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ending {
    /// The next request is read.
    Keep,
    /// The connection is closed.
    Close,
    /// Nothing more, ever.
    Hang,
    /// One `x` every 20 ms, without end.
    Trickle,
}

impl Reply {
    /// An answer of this status without a body.
    pub fn status(status: u16) -> Reply {
        let kind = Kind::Whole;
        let (headers, body) = (Vec::new(), Vec::new());
        Reply { status, headers, body, delay: Duration::ZERO, gate: None, kind }
    }

    /// No answer; the connection stays open.
    pub fn never() -> Reply {
        Reply { kind: Kind::Never, ..Reply::status(200) }
    }

    /// No answer: the connection is closed once the request has been read.
    pub fn dropped() -> Reply {
        Reply { kind: Kind::Drop, ..Reply::status(200) }
    }

    /// The beginning of an answer, and then the connection is closed.
    pub fn half_a_head() -> Reply {
        Reply { kind: Kind::Half, ..Reply::status(200) }
    }

    /// These bytes, whether they are HTTP or not.
    pub fn bytes(bytes: impl Into<Vec<u8>>, then: Ending) -> Reply {
        Reply { kind: Kind::Bytes(then), ..Reply::status(200).body(bytes) }
    }

    /// With this header.
    pub fn header(mut self, name: &str, value: &str) -> Reply {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With this body.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Reply {
        self.body = body.into();
        self
    }

    /// So long after the request.
    pub fn after(mut self, delay: Duration) -> Reply {
        self.delay = delay;
        self
    }

    /// Not before this is true.
    pub fn once(mut self, gate: &watch::Sender<bool>) -> Reply {
        self.gate = Some(gate.subscribe());
        self
    }

    /// The head at once, the body in chunks of so many bytes with a pause before each.
    pub fn trickle(mut self, bytes: usize, pause: Duration) -> Reply {
        self.kind = Kind::Trickle(bytes, pause);
        self
    }
}

/// The next request of a connection; `read` holds what was read beyond the one before. Nothing when
/// the other side closed.
pub(super) async fn request(stream: &mut TcpStream, read: &mut Vec<u8>) -> Option<Call> {
    let head_end = until(stream, read, b"\r\n\r\n").await?;
    let (at, now) = (Instant::now(), SystemTime::now().duration_since(UNIX_EPOCH).ok()?);
    let head: Vec<u8> = read.drain(..head_end + 4).collect();
    let head = String::from_utf8_lossy(&head[..head_end]).into_owned();
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let header = |line: &str| {
        let (name, value) = line.split_once(':').expect("a header line");
        (name.to_owned(), value.trim().to_owned())
    };
    let headers = lines.map(header).collect();
    let at_ms = i64::try_from(now.as_millis()).ok()?;
    let mut call = Call { method, path, headers, body: Vec::new(), at, at_ms };
    if call.header("transfer-encoding").eq_ignore_ascii_case("chunked") {
        loop {
            let end = until(stream, read, b"\r\n").await?;
            let line: Vec<u8> = read.drain(..end + 2).collect();
            let size = String::from_utf8_lossy(&line[..end]).into_owned();
            let size = usize::from_str_radix(&size, 16).expect("a chunk's size");
            let mut chunk = exactly(stream, read, size + 2).await?;
            chunk.truncate(size);
            call.body.extend(chunk);
            if size == 0 {
                break;
            }
        }
    } else if call.has("content-length") {
        let length = call.header("content-length").parse().expect("a content-length");
        call.body = exactly(stream, read, length).await?;
    }
    Some(call)
}

/// Where the pattern begins, once it has been read.
async fn until(stream: &mut TcpStream, read: &mut Vec<u8>, pattern: &[u8]) -> Option<usize> {
    loop {
        if let Some(at) = read.windows(pattern.len()).position(|window| window == pattern) {
            return Some(at);
        }
        more(stream, read).await?;
    }
}

/// So many bytes.
async fn exactly(stream: &mut TcpStream, read: &mut Vec<u8>, length: usize) -> Option<Vec<u8>> {
    while read.len() < length {
        more(stream, read).await?;
    }
    Some(read.drain(..length).collect())
}

async fn more(stream: &mut TcpStream, read: &mut Vec<u8>) -> Option<()> {
    match stream.read_buf(read).await {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(()),
    }
}

/// Writes an answer; nothing when the other side closed.
pub(super) async fn answer(stream: &mut TcpStream, reply: &Reply) -> Option<()> {
    if let Kind::Bytes(then) = reply.kind {
        stream.write_all(&reply.body).await.ok()?;
        if then == Ending::Trickle {
            loop {
                tokio::time::sleep(Duration::from_millis(20)).await;
                stream.write_all(b"x").await.ok()?;
            }
        }
        return (then != Ending::Close).then_some(());
    }
    let mut head = format!("HTTP/1.1 {} As-told\r\n", reply.status);
    if reply.kind == Kind::Half {
        stream.write_all(head.as_bytes()).await.ok()?;
        return None;
    }
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let Kind::Trickle(bytes, pause) = reply.kind else {
        let length = reply.body.len();
        if reply.status != 204 {
            head.push_str(&format!("content-length: {length}\r\n"));
        }
        let whole = [head.as_bytes(), b"\r\n", &reply.body].concat();
        return stream.write_all(&whole).await.ok();
    };
    head.push_str("transfer-encoding: chunked\r\n\r\n");
    stream.write_all(head.as_bytes()).await.ok()?;
    for chunk in reply.body.chunks(bytes) {
        tokio::time::sleep(pause).await;
        let size = format!("{:x}\r\n", chunk.len());
        let whole = [size.as_bytes(), chunk, b"\r\n"].concat();
        stream.write_all(&whole).await.ok()?;
    }
    stream.write_all(b"0\r\n\r\n").await.ok()
}
