//! What every test binary needs: private Redis servers, real `dueq` processes, an HTTP client that
//! checks what holds of every answer, and a few helpers for waiting.
//!
//! Tests drive the real binary over its socket, because that is what a user has: nothing here looks
//! into the crate. Each test works on topics of its own ([`topic`]), so that all of them can share
//! one server ([`client`]) and run side by side; a test that kills or pauses something starts
//! servers of its own. Whatever is started is ended on drop, and, however the test process ends, by
//! the watchdog of [`process`].

#![allow(dead_code, unused_imports, clippy::unwrap_used, clippy::expect_used)]

mod answer;
mod bench;
mod call;
mod certs;
mod client;
mod cluster;
mod document;
mod dueq;
mod partitions;
mod process;
mod ready;
mod receiver;
mod redis;
mod sentinel;
mod topics;
mod turns;
mod watch;
mod wire;

pub use self::answer::Answer;
pub use self::bench::{BenchRows, dueq_bench};
pub use self::call::{Call, Ending, Reply};
pub use self::certs::{Authority, Identity, replace};
pub use self::client::{Client, number, text};
pub use self::cluster::{Cluster, ClusterOptions, Move, ask, moves_atomically, slot, slot_of};
pub use self::document::Document;
pub use self::dueq::{Dueq, Finished, Launch, SEEDED, Seeded, binary, is_fault};
pub use self::partitions::{partition_of, partitions_of, slot_of_partition, tag_of_partition};
pub use self::process::{Process, children, cpu_hundredths, fifo, lives, temp_dir, text_of};
pub use self::receiver::Receiver;
pub use self::redis::{Redis, RedisOptions, free_port, is_redis_6, server};
pub use self::sentinel::{Group, Sentinels, follow, pair};
pub use self::topics::etag;
pub use self::turns::{mostly_waits, turn, turns};
pub use self::watch::{Script, Sights, memory_kib, watched};
pub use self::wire::Wire;

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::OnceCell;

/// The server that ordinary tests share: one Redis and one dueq per test binary.
pub struct Shared {
    /// The Redis behind it; never flush, pause or kill it.
    pub redis: Redis,
    /// The instance that serves it; never stop it.
    pub dueq: Dueq,
}

/// A machine that runs many tests may be away for longer than the default.
const PATIENT: [&str; 2] = ["--redis-timeout-ms", "10000"];

/// The shared server, started by whoever asks first, ended with the test process.
pub async fn shared() -> &'static Shared {
    static SHARED: OnceCell<Shared> = OnceCell::const_new();
    turn().await;
    SHARED
        .get_or_init(|| async {
            let redis = Redis::start().await;
            let dueq = Dueq::on(&redis).args(PATIENT).start().await;
            Shared { redis, dueq }
        })
        .await
}

/// A client of the shared server. Each test takes its own: connections belong to its runtime.
pub async fn client() -> Client {
    shared().await.dueq.client()
}

/// An instance of the test's own on the shared Redis.
pub async fn instance() -> Dueq {
    let mut dueq = Dueq::on(&shared().await.redis).args(PATIENT).start().await;
    dueq.shares = true;
    dueq
}

/// A Redis and an instance of the test's own, and its client.
pub async fn alone() -> (Redis, Dueq, Client) {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    let client = dueq.client();
    (redis, dueq, client)
}

/// Waits until exactly `n` long polls wait in the instance of this client, which nobody else uses.
pub async fn waiters(client: &Client, n: u32) {
    let line = format!("dueq_waiters {n}");
    eventually(&line, || async {
        let metrics = client.get_path("/metrics").await.expect(200);
        String::from_utf8_lossy(&metrics.body).lines().any(|l| l == line).then_some(())
    })
    .await;
}

/// Waits until requests are answered from Redis again: `/readyz` alone may be a second old.
pub async fn works_again(client: &Client) {
    eventually("it works again", || async {
        let listed = client.get_path("/topics?limit=1").await.status == 200;
        (listed && client.get_path("/readyz").await.status == 200).then_some(())
    })
    .await;
}

/// A topic name that nobody else uses: `name-<process>-<n>`.
pub fn topic(name: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{name}-{}-{n}", std::process::id())
}

/// A message id that no server gave out: a random UUID, valid in syntax.
pub fn unknown_id() -> String {
    let mut bits: u128 = rand::random();
    bits = bits & !(0xf << 76) | (0x4 << 76); // version 4
    bits = bits & !(0x3 << 62) | (0x2 << 62); // the RFC 9562 variant
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Who is woken is granted a message within a second; a machine that is busy with other tests is given more. What relies on
/// the slow fallback takes up to thirty.
pub const WOKEN: Duration = Duration::from_secs(6);

/// Polls until `probe` gives something, every 10 ms, for at most 30 s.
///
/// # Panics
/// When it never does, naming `what` was waited for.
pub async fn eventually<T, F, Fut>(what: &str, mut probe: F) -> T
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Option<T>>,
{
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(found) = probe().await {
            return found;
        }
        assert!(Instant::now() < end, "30 s passed without: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Milliseconds since 1970 of an instant as the API writes it, which is one form only:
/// `2026-11-20T18:15:00.123Z`.
///
/// # Panics
/// On any other form.
pub fn instant_ms(text: &str) -> i64 {
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(shape, "0000-00-00T00:00:00.000Z", "{text:?} is no UTC instant with milliseconds");
    chrono::DateTime::parse_from_rfc3339(text)
        .unwrap_or_else(|error| panic!("{text:?}: {error}"))
        .timestamp_millis()
}

/// The instant as the API writes it.
pub fn instant(ms: i64) -> String {
    chrono::DateTime::from_timestamp_millis(ms)
        .expect("an instant that chrono knows")
        .format("%Y-%m-%dT%H:%M:%S%.3fZ")
        .to_string()
}

impl Redis {
    /// Redis's clock in milliseconds, rounded up at least, as delays and leases count.
    pub async fn time_up_ms(&self) -> i64 {
        self.time_ms().await + 1
    }
}

/// The path of a message by its key, whatever the key holds.
pub fn by_key(topic: &str, key: &str) -> String {
    format!("/topics/{topic}/keys/{}", encoded(key))
}

/// A text as it stands in a path or a query.
pub fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}
