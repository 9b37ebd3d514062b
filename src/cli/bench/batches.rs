//! What the connections publish beyond one plain message a request: batches of
//! a hundred, and messages that set every field that costs something.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::client::find;
use super::load::{Step, Work};
use super::wire::{payload, post, write_post, wrong};
use super::work::take;

/// Messages a request.
pub const BATCH: usize = 100;

/// Publishes the same batch again and again.
#[derive(Debug)]
pub struct Batches {
    request: Vec<u8>,
    /// How many messages are left to publish, shared by the connections.
    left: Arc<AtomicUsize>,
}

impl Batches {
    /// Batches for `topic`, due at the instant `deliver_at` or at once, of
    /// `left` messages in all, rounded down to whole batches.
    pub fn new(host: &str, topic: &str, deliver_at: Option<&str>, left: &Arc<AtomicUsize>) -> Self {
        let due = deliver_at.map(|at| format!(r#","deliver_at":"{at}""#)).unwrap_or_default();
        let message = format!(r#"{{"payload":{}{due}}}"#, payload());
        let body = format!(r#"{{"messages":[{}]}}"#, vec![message; BATCH].join(","));
        let request = post(&format!("/topics/{topic}/messages/batch"), host, body.as_bytes());
        Self { request, left: Arc::clone(left) }
    }
}

impl Work for Batches {
    fn next(&mut self, request: &mut Vec<u8>) -> bool {
        let more = take(&self.left, BATCH);
        if more {
            request.extend_from_slice(&self.request);
        }
        more
    }

    fn answer(&mut self, status: u16, body: &[u8]) -> Step {
        match stored(body) {
            BATCH if status == 200 => Step::Done(BATCH as u64),
            _ => wrong("publish by batch", status, body),
        }
    }
}

/// How many messages of a batch the answer calls stored.
pub fn stored(mut body: &[u8]) -> usize {
    const OK: &[u8] = br#"{"status":"ok""#;
    let mut count = 0;
    while let Some(at) = find(body, OK) {
        body = &body[at + OK.len()..];
        count += 1;
    }
    count
}

/// Publishes messages that set key, TTL, priority and headers, no key twice.
#[derive(Debug)]
pub struct Rich {
    path: String,
    host: String,
    payload: String,
    /// What no other connection of this run has.
    connection: u64,
    sent: u64,
    body: Vec<u8>,
}

impl Rich {
    /// Messages for `topic`.
    pub fn new(host: &str, topic: &str) -> Self {
        static CONNECTIONS: AtomicU64 = AtomicU64::new(0);
        Self {
            path: format!("/topics/{topic}/messages"),
            host: host.to_owned(),
            payload: payload(),
            connection: CONNECTIONS.fetch_add(1, Ordering::Relaxed),
            sent: 0,
            body: Vec::new(),
        }
    }
}

impl Work for Rich {
    fn next(&mut self, request: &mut Vec<u8>) -> bool {
        self.sent += 1;
        self.body.clear();
        let _ = write!(
            self.body,
            r#"{{"payload":{},"key":"order-{}-{}","ttl_ms":86400000,"priority":{},"headers":{{"x-tenant":"c-81723","x-trace":"4bf92f3577b34da6"}}}}"#,
            self.payload,
            self.connection,
            self.sent,
            1 + self.sent % 9,
        );
        write_post(request, &self.path, &self.host, &self.body);
        true
    }

    fn answer(&mut self, status: u16, body: &[u8]) -> Step {
        match status {
            201 => Step::Done(1),
            _ => wrong("publish with all fields", status, body),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn body(work: &mut impl Work) -> Option<Value> {
        let mut request = Vec::new();
        if !work.next(&mut request) {
            return None;
        }
        let at = find(&request, b"\r\n\r\n").unwrap();
        Some(serde_json::from_slice(&request[at + 4..]).unwrap())
    }

    #[test]
    fn batches_stop_when_less_than_one_is_left() {
        let left = Arc::new(AtomicUsize::new(2 * BATCH + 1));
        let mut work = Batches::new("h:1", "t", Some("2026-11-20T18:15:00.123Z"), &left);
        let messages = body(&mut work).unwrap()["messages"].take();
        assert_eq!(messages.as_array().unwrap().len(), BATCH);
        assert_eq!(messages[BATCH - 1]["deliver_at"], "2026-11-20T18:15:00.123Z");
        assert!(body(&mut work).is_some() && body(&mut work).is_none());
    }

    #[test]
    fn a_batch_counts_only_when_all_of_it_was_stored() {
        let mut work = Batches::new("h:1", "t", None, &Arc::new(AtomicUsize::new(0)));
        let answer = |count| {
            format!(
                r#"{{"results":[{}]}}"#,
                vec![r#"{"status":"ok","message":{}}"#; count].join(",")
            )
        };
        assert!(matches!(work.answer(200, answer(BATCH).as_bytes()), Step::Done(100)));
        assert!(matches!(work.answer(200, answer(BATCH - 1).as_bytes()), Step::Wrong(_)));
    }

    #[test]
    fn no_key_comes_twice() {
        let (mut first, mut second) = (Rich::new("h:1", "t"), Rich::new("h:1", "t"));
        let mut keys: Vec<Value> = [body(&mut first), body(&mut first), body(&mut second)]
            .into_iter()
            .map(|body| body.unwrap()["key"].take())
            .collect();
        keys.sort_by_key(Value::to_string);
        keys.dedup();
        assert_eq!(keys.len(), 3);
    }
}
