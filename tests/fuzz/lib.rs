//! Input as strangers send it, and data as damage leaves it, for the tests of every reader: a reader reads it or refuses
//! it. It never panics and it comes to an end. The readers of `dueq-model` are tested here through its public API. Those of
//! the other crates are not public, so each crate includes its part of this folder as a test module.
//!
//! Each property is tried 256 times; `PROPTEST_CASES` says how often instead.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[cfg(test)]
mod model;

use bytes::Bytes;
use dueq_model::{
    Backoff, Body, CallMethod, CallUrl, Callback, Completion, Content, MAX_DELAY_MS, MAX_SCHEDULE,
    Millis, Retry, TopicName,
};
use proptest::{collection::vec, prelude::*, sample::Index, sample::select};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// How properties are tried. What fails is printed, not kept in a file.
pub fn cases() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

/// The same for what is slow: a share of the cases.
pub fn fewer_cases(share: u32) -> ProptestConfig {
    let all = cases();
    ProptestConfig { cases: (all.cases / share).max(16), ..all }
}

/// Reading what a client wrote, about a kilobyte of it, takes less.
const PARSE: Duration = Duration::from_millis(1);
/// How much longer things may take without optimization.
const SLOW: u32 = if cfg!(debug_assertions) { 20 } else { 1 };

/// What this returns, if it takes less than `limit`: the best of three, since the machine may be busy.
pub fn within<T>(limit: Duration, what: impl Fn() -> T) -> T {
    let mut fastest = Duration::MAX;
    for _ in 0..3 {
        let began = Instant::now();
        let value = what();
        fastest = fastest.min(began.elapsed());
        if fastest < limit * SLOW {
            return value;
        }
    }
    panic!("took {fastest:?}");
}

/// The same for a reader of what a client wrote: requests wait while it runs.
pub fn soon<T>(read: impl Fn() -> T) -> T {
    within(PARSE, read)
}

/// Pieces that mean something to some reader on the way.
const PIECES: [&str; 40] = [
    "",
    "\0",
    "\r\n",
    "\t",
    " ",
    "\"",
    "\\",
    "\\u0000",
    "\\ud800",
    "\\ud83d\\ude00",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    ";",
    "-",
    "+",
    ".",
    "..",
    "%",
    "%00",
    "%2e%2e",
    "%ff",
    "&",
    "=",
    "*",
    "***",
    "null",
    "true",
    "0",
    "-0",
    "1e999",
    "9223372036854775808",
    "\u{feff}",
    "\u{202e}",
    "\u{1f980}",
    "e\u{301}",
    "\u{7f}",
];

/// A way to spoil what was right.
#[derive(Clone, Debug)]
enum Spoil {
    Flip(Index, u8),
    Insert(Index, Vec<u8>),
    Cut(Index, usize),
    Double(Index, usize),
    End(Index),
}

fn spoil() -> impl Strategy<Value = Spoil> {
    let at = any::<Index>;
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, bits)| Spoil::Flip(at, bits)),
        (at(), piece()).prop_map(|(at, piece)| Spoil::Insert(at, piece.into_bytes())),
        (at(), vec(any::<u8>(), 1..4)).prop_map(|(at, bytes)| Spoil::Insert(at, bytes)),
        (at(), 1..40_usize).prop_map(|(at, length)| Spoil::Cut(at, length)),
        (at(), 1..80_usize).prop_map(|(at, length)| Spoil::Double(at, length)),
        at().prop_map(Spoil::End),
    ]
}

impl Spoil {
    fn apply(self, bytes: &mut Vec<u8>) {
        let place = |at: Index, bytes: &Vec<u8>| at.index(bytes.len() + 1);
        let part = |at, length: usize, bytes: &Vec<u8>| {
            let at = place(at, bytes);
            at..(at + length).min(bytes.len())
        };
        match self {
            Self::Flip(at, bits) => {
                let at = place(at, bytes);
                bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= bits);
            }
            Self::Insert(at, piece) => {
                let at = place(at, bytes);
                drop(bytes.splice(at..at, piece));
            }
            Self::Cut(at, length) => drop(bytes.drain(part(at, length, bytes))),
            Self::Double(at, length) => {
                let part = part(at, length, bytes);
                let again = bytes[part.clone()].to_vec();
                drop(bytes.splice(part.start..part.start, again));
            }
            Self::End(at) => bytes.truncate(place(at, bytes)),
        }
    }
}

/// What `good` gives, spoilt in none to four ways.
pub fn spoilt<T: Into<Vec<u8>>>(good: impl Strategy<Value = T>) -> impl Strategy<Value = Vec<u8>> {
    (good, vec(spoil(), 0..5)).prop_map(|(good, spoils)| {
        let mut bytes = good.into();
        spoils.into_iter().for_each(|spoil| spoil.apply(&mut bytes));
        bytes
    })
}

/// The same as text; what is no UTF-8 is replaced.
pub fn spoilt_text<T: Into<Vec<u8>>>(
    good: impl Strategy<Value = T>,
) -> impl Strategy<Value = String> {
    spoilt(good).prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// A piece that means something to some reader.
pub fn piece() -> impl Strategy<Value = String> {
    select(&PIECES[..]).prop_map(str::to_owned)
}

/// Text of any kind: plain words, strange characters, pieces of syntax.
pub fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Z0-9._-]{0,12}",
        any::<String>(),
        vec(piece(), 0..6).prop_map(|pieces| pieces.concat()),
        (piece(), 0..600_usize).prop_map(|(piece, times)| piece.repeat(times)),
    ]
}

/// A whole number, mostly one at an edge or an instant of these years.
pub fn number() -> impl Strategy<Value = i64> {
    let edges = [0, 1, -1, 1_000, i64::MIN, i64::MAX, 1 << 48, 1 << 53, 315_360_000_000];
    prop_oneof![
        select(edges.to_vec()),
        any::<i64>(),
        0..100_000_i64,
        now(),
        (select(edges.to_vec()), -3..4_i64).prop_map(|(edge, by)| edge.saturating_add(by)),
    ]
}

/// An instant of these years, ms.
pub fn now() -> impl Strategy<Value = Millis> {
    1_700_000_000_000..2_500_000_000_000_i64
}

/// Headers as they may be stored.
pub fn headers() -> impl Strategy<Value = BTreeMap<String, String>> {
    let name = prop_oneof![
        "[a-zA-Z][a-zA-Z0-9-]{0,12}",
        select(vec!["authorization", "Authorization", "COOKIE", "cookie"]).prop_map(str::to_owned),
    ];
    let value = prop_oneof!["[ -~]{0,30}", "[\u{a0}-\u{ff}\t ]{0,10}", Just("***".to_owned())];
    proptest::collection::btree_map(name, value, 0..6)
}

/// A URL that can be called.
pub fn url() -> impl Strategy<Value = CallUrl> {
    let host =
        prop_oneof!["[a-z]{1,8}\\.example", "8\\.8\\.[0-9]\\.[0-9]", Just("[2600::1]".to_owned())];
    (host, "(/[a-z0-9]{0,6}){0,3}", "(\\?[a-z=&%]{0,8})?")
        .prop_map(|(host, path, query)| format!("https://{host}{path}{query}"))
        .prop_filter_map("no URL", |text| CallUrl::parse(&text).ok())
}

/// A message's own callback.
pub fn callback() -> impl Strategy<Value = Callback> {
    let method = prop::option::of(select(CallMethod::ALL.map(|(_, method)| method).to_vec()));
    let causes = || vec(select(vec!["429", "5xx", "timeout"]).prop_map(str::to_owned), 0..3);
    let lists = (prop::option::of(causes()), causes());
    let retry = lists.prop_map(|(on, never)| Retry { on, never, ..Retry::default() });
    let parts = (prop::option::of(100..1_800_000_i64), prop::option::of(retry));
    (url(), method, parts).prop_map(|(url, method, (timeout_ms, retry))| Callback {
        method,
        timeout_ms,
        connect_timeout_ms: timeout_ms,
        retry,
        ..Callback::to(url)
    })
}

/// A message's body as a publish may store it. Boxed: a debug build has the trees of all parts of what it makes on its stack.
pub fn body() -> BoxedStrategy<Body> {
    let bytes = || vec(any::<u8>(), 0..60).prop_map(Bytes::from);
    let content = prop_oneof![
        select(vec!["null", "{\"a\":[1,2]}", "-0", "\"\\u0000\""])
            .prop_map(|json| Content::Json(Bytes::from_static(json.as_bytes()))),
        (bytes(), "[a-z]{1,5}/[a-z]{1,5}(; [ -~]{0,9})?")
            .prop_map(|(data, content_type)| Content::Bytes { data, content_type }),
        Just(Content::nothing()),
    ];
    let whole =
        (content, headers(), prop::option::of(callback()), any::<bool>(), completion().boxed());
    let body = |(content, headers, callback, dead_letter, on_done)| Body {
        callback,
        dead_letter,
        on_done,
        ..Body::new(content, headers)
    };
    whole.prop_map(body).boxed()
}

/// Where an end is published, as it is stored.
pub fn completion() -> impl Strategy<Value = Option<Box<Completion>>> {
    prop::option::of((prop::option::of(url()), ".{0,9}").prop_map(|(url, publisher)| {
        let topic = url.is_none().then(TopicName::callbacks);
        Box::new(Completion { url, topic, publisher, ..Completion::default() })
    }))
}

/// Any policy that a request may name.
pub fn backoff() -> impl Strategy<Value = Backoff> {
    let delay = || 0..=MAX_DELAY_MS as Millis;
    prop_oneof![
        delay().prop_map(|base_ms| Backoff::Fixed { base_ms }),
        vec(delay(), 1..=MAX_SCHEDULE).prop_map(|delays_ms| Backoff::Schedule { delays_ms }),
        (delay(), 1.0..=100.0, delay(), 0.0..=1.0).prop_map(|(base_ms, factor, max_ms, jitter)| {
            Backoff::Exponential { base_ms, factor, max_ms, jitter }
        }),
    ]
}
