//! HTTP as nobody writes it: requests over a bare connection, several on one, spoilt in their lines, headers, lengths,
//! chunks and bodies, cut anywhere. Each connection is answered or closed, never by a 500, and nothing of it stays.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::rss_kib;
use crate::harness::{Dueq, Redis};

/// Connections at a time.
const CONNECTIONS: u64 = 8;
/// One that says it has no more to send is answered or closed within this.
const SOON: Duration = Duration::from_secs(35);
/// One that says nothing more at all: the longest of dueq's own limits and the longest wait, and some.
const PATIENT: Duration = Duration::from_secs(120);
/// What memory may grow by after the beginning, KiB: topics and connections come and go.
const GROWTH_KIB: u64 = 64 * 1024;

/// What a run saw.
#[derive(Debug)]
pub struct WireReport {
    pub seed: u64,
    pub connections: u64,
    pub answers: u64,
    /// Resident memory of dueq after the first tenth of the time, and the most after that, KiB.
    pub rss_before: u64,
    pub rss_peak: u64,
}

/// Pieces that mean something to some parser on the way.
const PIECES: &[&str] = &[
    "\r\n",
    "\n",
    "\r",
    "\r\n\r\n",
    "\0",
    " ",
    "\t",
    ":",
    ",",
    ";",
    "0\r\n\r\n",
    "ffffffffffffffff\r\n",
    "-1",
    "+1",
    "/",
    "//",
    "/../",
    "%",
    "%00",
    "%2e%2e/",
    "%ff",
    "%7B",
    "?",
    "&",
    "#",
    "*",
    "HTTP/1.1",
    "HTTP/2.0",
    "GET ",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "Host: evil.com\r\n",
    "Host: localhost\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: 18446744073709551616\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: gzip, chunked\r\n",
    "Connection: close\r\n",
    "Connection: upgrade\r\nUpgrade: h2c\r\n",
    "Expect: 100-continue\r\n",
    "Authorization: Bearer x\r\n",
    "If-Match: *\r\n",
    "x-request-id: a b\r\n",
    "\u{feff}",
    "\u{1f980}",
    "{",
    "}",
    "[[[[[[[[",
    "\"",
    "\\u0000",
    "\\ud800",
    "null",
    "1e999",
    "-0",
    "9223372036854775808",
];

/// Requests that are right, each a line, headers besides the host, and a JSON body.
const GOOD: &[(&str, &str, &str)] = &[
    (
        "POST /topics/wire/messages",
        "",
        r#"{"payload":{"a":[1,"x"]},"headers":{"x":"y"},"priority":3}"#,
    ),
    (
        "POST /topics/wire/messages",
        "Idempotency-Key: one\r\n",
        r#"{"payload":1,"key":"k","on_duplicate":"replace"}"#,
    ),
    ("POST /topics/wire/messages/raw?delay_ms=5&key=a%2Fb", "", "any bytes"),
    (
        "POST /topics/wire/messages/batch",
        "",
        r#"{"messages":[{"payload":1},{"payload":2,"ttl_ms":5,"throttle":{"key":"k","every_ms":9}}]}"#,
    ),
    ("POST /topics/wire/lease", "", r#"{"max_messages":5,"wait_ms":20,"lease_ms":1000}"#),
    (
        "POST /lease",
        "",
        r#"{"topics":["wire","other"],"acks":[{"id":"019ab000-0000-8000-8000-000000000000","lease_token":"x"}]}"#,
    ),
    (
        "POST /messages/019ab000-0000-8000-8000-000000000000/ack",
        "",
        r#"{"lease_token":"AAAAAZr2nVoBmi3FQ1YAAM0xJ8yfHqJv"}"#,
    ),
    (
        "POST /messages/nack",
        "",
        r#"{"messages":[{"id":"019ab000-0000-8000-8000-000000000000","lease_token":"x","delay_ms":1}]}"#,
    ),
    ("PATCH /topics/wire/keys/k", "", r#"{"payload":null,"backoff":{"kind":"fixed","base_ms":1}}"#),
    (
        "PUT /topics/wire",
        "If-Match: \"1\", *\r\n",
        r#"{"retention":{"acked_ms":1000},"max_attempts":2}"#,
    ),
    ("POST /topics/wire/purge", "", r#"{"states":["ready","delayed","dead"]}"#),
    ("POST /callbacks", "", r#"{"url":"https://a.example/x","delay_ms":600000}"#),
    ("PUT /schedules/wire", "", r#"{"every_ms":3600000,"topic":"wire","message":{"payload":1}}"#),
    ("GET /topics/wire/messages?state=ready&payload=true&limit=10", "", ""),
    ("GET /topics/wire/forecast?bucket_ms=1000&buckets=10", "", ""),
    ("GET /topics?prefix=w", "Origin: http://localhost:3000\r\n", ""),
    ("DELETE /topics/wire/keys/%6b?force=true", "", ""),
    ("GET /metrics", "Accept-Encoding: gzip\r\n", ""),
    ("HEAD /healthz", "", ""),
    ("OPTIONS *", "", ""),
    ("GET http://localhost/readyz", "", ""),
];

/// One request, its body with a length, in chunks, or with an expectation.
fn request(random: &mut StdRng) -> Vec<u8> {
    let (line, headers, body) = *GOOD.choose(random).expect("requests");
    let version = if random.random_range(0..20) == 0 { "HTTP/1.0" } else { "HTTP/1.1" };
    let head = format!("{line} {version}\r\nHost: localhost\r\n{headers}");
    if body.is_empty() {
        return format!("{head}\r\n").into_bytes();
    }
    let head = format!("{head}Content-Type: application/json\r\n");
    let length = body.len();
    match random.random_range(0..4) {
        0 => {
            let (a, b) = body.split_at(random.random_range(0..length));
            let chunk = |part: &str| match part.len() {
                0 => String::new(),
                n => format!("{n:x};ext=\"1\"\r\n{part}\r\n"),
            };
            let chunks = format!("{}{}0\r\nTrailer: x\r\n\r\n", chunk(a), chunk(b));
            format!("{head}Transfer-Encoding: chunked\r\n\r\n{chunks}").into_bytes()
        }
        1 => format!("{head}Expect: 100-continue\r\nContent-Length: {length}\r\n\r\n{body}")
            .into_bytes(),
        _ => format!("{head}Content-Length: {length}\r\n\r\n{body}").into_bytes(),
    }
}

/// One to four requests one after another, spoilt up to four times: a piece put in, bytes overwritten, cut out or
/// doubled, the end cut off, many headers or a long line put in.
fn bytes(random: &mut StdRng) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..random.random_range(1..5)).flat_map(|_| request(random)).collect();
    for _ in 0..random.random_range(0..5) {
        let at = random.random_range(0..=bytes.len());
        let end = (at + random.random_range(0..12)).min(bytes.len());
        match random.random_range(0..12) {
            0..5 => drop(bytes.splice(at..at, PIECES.choose(random).expect("pieces").bytes())),
            5..7 => bytes[at..end].iter_mut().for_each(|byte| *byte = random.random()),
            7 => drop(bytes.drain(at..end)),
            8 => {
                let again = bytes[at..(at + random.random_range(0..200)).min(bytes.len())].to_vec();
                drop(bytes.splice(at..at, again));
            }
            9 => bytes.truncate(at),
            10 => {
                let many = "x: y\r\n".repeat(random.random_range(90..4_000));
                drop(bytes.splice(at..at, many.into_bytes()));
            }
            _ => drop(bytes.splice(at..at, vec![b'a'; random.random_range(1..200_000)])),
        }
    }
    bytes
}

/// The statuses of all answers in these bytes.
fn statuses(answers: &[u8]) -> Vec<u16> {
    let begin = b"HTTP/1.1 ";
    let starts = answers.windows(begin.len()).enumerate().filter(|(_, part)| part == begin);
    let status = |(at, _): (usize, &[u8])| {
        std::str::from_utf8(answers.get(at + 9..at + 12)?).ok()?.parse().ok()
    };
    starts.filter_map(status).collect()
}

/// Sends these bytes in some pieces and reads until the server closes. Returns how many answers came.
async fn connection(addr: &str, sent: &[u8], random: &mut StdRng, patient: bool) -> u64 {
    let Ok(mut stream) = TcpStream::connect(addr).await else {
        panic!("dueq takes no more connections");
    };
    let (mut read, mut write) = stream.split();
    let (rest, limit) = (random.random_range(0..=sent.len()), if patient { PATIENT } else { SOON });
    let gone = !patient && random.random_range(0..10) == 0;
    let writing = async {
        // A server that has refused the head need not take the rest.
        let _ = write.write_all(&sent[..rest]).await;
        tokio::task::yield_now().await;
        let _ = write.write_all(&sent[rest..]).await;
        if !patient && !gone {
            let _ = write.shutdown().await;
        }
    };
    let reading = async {
        let (mut answers, mut buffer) = (Vec::new(), [0; 16_384]);
        while let Ok(count @ 1..) = read.read(&mut buffer).await {
            answers.extend_from_slice(&buffer[..count]);
        }
        answers
    };
    if gone {
        // It leaves without a word, wherever the server is with it.
        let _ = timeout(Duration::from_secs(5), writing).await;
        return 0;
    }
    let shown = || sent[..sent.len().min(2_000)].escape_ascii().to_string();
    let both = async { tokio::join!(writing, reading).1 };
    let answers = timeout(limit, both).await;
    let answers = answers.unwrap_or_else(|_| panic!("neither answered nor closed: {}", shown()));
    let statuses = statuses(&answers);
    let bad = statuses.iter().any(|status| *status >= 500);
    assert!(!bad, "{statuses:?} to {}\n{}", shown(), String::from_utf8_lossy(&answers));
    statuses.len() as u64
}

/// Sends spoilt requests for so many seconds, by a plan that the seed makes.
///
/// # Panics
/// On a panic of dueq, an answer of the 500s, a connection that is neither answered nor closed, or memory that grows by
/// more than 64 MiB after the first tenth of the time.
pub async fn wire(seconds: u64, seed: Option<u64>) -> WireReport {
    let seed = seed.unwrap_or_else(rand::random);
    println!("fuzz_wire: seed {seed}");
    let redis = Redis::start().await;
    let mut dueq = Dueq::on(&redis).args(["--no-dispatch"]).start().await;
    let (connections, answers) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let failed = Arc::new(AtomicBool::new(false));
    let began = Instant::now();
    let end = began + Duration::from_secs(seconds);
    let mut tasks = Vec::new();
    for n in 0..CONNECTIONS {
        let (connections, answers, failed) = (connections.clone(), answers.clone(), failed.clone());
        let addr = dueq.addr().to_owned();
        // One of them waits for what the server does by itself, where there is time for that.
        let patient = n == 0 && seconds > PATIENT.as_secs();
        tasks.push(tokio::spawn(async move {
            let mut random = StdRng::seed_from_u64(seed.wrapping_add(n));
            while Instant::now() < end && !failed.load(Ordering::Relaxed) {
                let sent = bytes(&mut random);
                answers.fetch_add(
                    connection(&addr, &sent, &mut random, patient).await,
                    Ordering::Relaxed,
                );
                connections.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    let (mut rss_before, mut rss_peak) = (0, 0);
    while Instant::now() < end && !tasks.iter().any(|task| task.is_finished()) {
        sleep(Duration::from_millis(100)).await;
        let rss = rss_kib(dueq.pid());
        if began.elapsed() < Duration::from_secs(seconds) / 10 {
            rss_before = rss_before.max(rss);
        } else {
            rss_peak = rss_peak.max(rss);
        }
    }
    for task in tasks {
        let ended = task.await;
        if ended.is_err() {
            failed.store(true, Ordering::Relaxed);
        }
        ended.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    let client = dueq.client();
    client.get_path("/readyz").await.expect(200);
    assert!(dueq.process.ended().is_none(), "{}", dueq.log());
    assert!(!dueq.log().contains("panicked"), "seed {seed}: {}", dueq.log());
    let report = WireReport {
        seed,
        connections: connections.load(Ordering::Relaxed),
        answers: answers.load(Ordering::Relaxed),
        rss_before,
        rss_peak,
    };
    assert!(rss_peak <= rss_before + GROWTH_KIB, "{report:?}");
    report
}
