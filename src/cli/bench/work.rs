//! What the connections do: publish, lease, ack, and the consumer's loop.
//!
//! Requests are put together from bytes made beforehand wherever that is
//! possible: the generator is to cost less than what it measures.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::client::find;
use super::load::{Step, Work};
use super::wire::{Held, LONG_LEASE_MS, leases, payload, post, write_post, wrong};

/// Publishes the same payload again and again.
#[derive(Debug)]
pub struct Publish {
    path: String,
    host: String,
    fixed: Vec<u8>,
    /// Delays between these, ms, drawn anew for each message; None: at once.
    delays: Option<(u64, u64)>,
    random: u64,
    /// How many are left to publish, shared by the connections.
    left: Arc<AtomicUsize>,
}

impl Publish {
    /// Messages for `topic`, at most `left` by all that share the counter.
    pub fn new(host: &str, topic: &str, left: &Arc<AtomicUsize>) -> Self {
        let path = format!("/topics/{topic}/messages");
        let body = format!(r#"{{"payload":{}}}"#, payload());
        Self {
            fixed: post(&path, host, body.as_bytes()),
            path,
            host: host.to_owned(),
            delays: None,
            random: 0,
            left: Arc::clone(left),
        }
    }

    /// The same at random delays of `from`…`to` ms; `seed` differs between
    /// connections so that they do not all draw the same.
    pub fn delayed(mut self, from: u64, to: u64, seed: u64) -> Self {
        self.delays = Some((from, to));
        self.random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        self
    }
}

/// A counter without an end, for works that only the clock stops.
pub fn endless() -> Arc<AtomicUsize> {
    Arc::new(AtomicUsize::new(usize::MAX))
}

/// Takes `count` from a shared counter; false when so many are not left.
pub fn take(left: &AtomicUsize, count: usize) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(count)).is_ok()
}

/// The next number of a xorshift generator: enough for spreading delays.
pub fn xorshift(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

impl Work for Publish {
    fn next(&mut self, request: &mut Vec<u8>) -> bool {
        if !take(&self.left, 1) {
            return false;
        }
        match self.delays {
            None => request.extend_from_slice(&self.fixed),
            Some((from, to)) => {
                let delay = from + xorshift(&mut self.random) % (to - from).max(1);
                let body = format!(r#"{{"payload":{},"delay_ms":{delay}}}"#, payload());
                write_post(request, &self.path, &self.host, body.as_bytes());
            }
        }
        true
    }

    fn answer(&mut self, status: u16, body: &[u8]) -> Step {
        match status {
            201 => Step::Done(1),
            _ => wrong("publish", status, body),
        }
    }
}

/// Leases, and in the same request acks what the last answer brought if it is
/// a consumer's loop; otherwise keeps what it got.
#[derive(Debug)]
pub struct Lease {
    path: String,
    host: String,
    max_messages: usize,
    acks: bool,
    body: Vec<u8>,
    /// What is leased and not acked.
    pub held: Vec<Held>,
}

impl Lease {
    /// `max_messages` a request; with `acks` the ones before are acked.
    pub fn new(host: &str, topic: &str, max_messages: usize, acks: bool) -> Self {
        Self {
            path: format!("/topics/{topic}/lease"),
            host: host.to_owned(),
            max_messages,
            acks,
            body: Vec::new(),
            held: Vec::new(),
        }
    }
}

impl Work for Lease {
    fn next(&mut self, request: &mut Vec<u8>) -> bool {
        self.body.clear();
        let _ = write!(
            self.body,
            r#"{{"max_messages":{},"lease_ms":{LONG_LEASE_MS}"#,
            self.max_messages
        );
        if self.acks {
            self.body.extend_from_slice(br#","acks":["#);
            for (index, Held { id, token }) in self.held.drain(..).enumerate() {
                let comma = if index == 0 { "" } else { "," };
                let _ = write!(self.body, r#"{comma}{{"id":"{id}","lease_token":"{token}"}}"#);
            }
            self.body.push(b']');
        }
        self.body.push(b'}');
        write_post(request, &self.path, &self.host, &self.body);
        true
    }

    fn answer(&mut self, status: u16, body: &[u8]) -> Step {
        if status != 200 {
            return wrong("lease", status, body);
        }
        if find(body, br#""status":"lease_lost""#).is_some() {
            return wrong("ack in a lease", status, body);
        }
        let before = self.held.len();
        leases(body, &mut self.held);
        match self.held.len() - before {
            0 => Step::Empty,
            leased => Step::Done(leased as u64),
        }
    }
}

/// Acks what was leased before, each message by a request of its own.
#[derive(Debug)]
pub struct Ack {
    requests: Arc<Vec<Vec<u8>>>,
    next: Arc<AtomicUsize>,
}

impl Ack {
    /// As many works as there are `connections`, sharing the leases.
    pub fn share(host: &str, held: &[Held], connections: usize) -> Vec<Self> {
        let build = |Held { id, token }: &Held| {
            let body = format!(r#"{{"lease_token":"{token}"}}"#);
            post(&format!("/messages/{id}/ack"), host, body.as_bytes())
        };
        let requests = Arc::new(held.iter().map(build).collect::<Vec<_>>());
        let next = Arc::new(AtomicUsize::new(0));
        let one = |_| Self { requests: Arc::clone(&requests), next: Arc::clone(&next) };
        (0..connections).map(one).collect()
    }
}

impl Work for Ack {
    fn next(&mut self, request: &mut Vec<u8>) -> bool {
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        match self.requests.get(index) {
            Some(bytes) => {
                request.extend_from_slice(bytes);
                true
            }
            None => false,
        }
    }

    fn answer(&mut self, status: u16, body: &[u8]) -> Step {
        match status {
            204 => Step::Done(1),
            _ => wrong("ack", status, body),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_acks_what_it_was_given() {
        let mut work = Lease::new("h:1", "t", 1, true);
        let mut request = Vec::new();
        assert!(work.next(&mut request));
        assert!(request.ends_with(br#""acks":[]}"#));
        let step = work.answer(200, br#"{"messages":[{"id":"a","lease_token":"1"}]}"#);
        assert!(matches!(step, Step::Done(1)));
        request.clear();
        work.next(&mut request);
        let text = String::from_utf8(request).unwrap();
        assert!(text.ends_with(r#""acks":[{"id":"a","lease_token":"1"}]}"#));
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())));
        assert!(matches!(work.answer(200, br#"{"messages":[]}"#), Step::Empty));
        assert!(matches!(work.answer(503, b""), Step::Wrong(_)));
    }

    #[test]
    fn works_share_what_is_left() {
        let left = Arc::new(AtomicUsize::new(3));
        let mut first = Publish::new("h:1", "t", &left);
        let mut second = Publish::new("h:1", "t", &left).delayed(10, 20, 1);
        let mut request = Vec::new();
        assert!(first.next(&mut request) && second.next(&mut request));
        assert!(first.next(&mut request) && !second.next(&mut request));
        assert!(String::from_utf8(request).unwrap().contains(r#""delay_ms":1"#));
    }

    #[test]
    fn every_lease_is_acked_once() {
        let held = |id: &str| Held { id: id.into(), token: "t".into() };
        let mut works = Ack::share("h:1", &[held("a"), held("b")], 2);
        let mut request = Vec::new();
        assert!(works[0].next(&mut request) && works[1].next(&mut request));
        assert!(!works[0].next(&mut request));
        let text = String::from_utf8(request).unwrap();
        assert!(text.contains("POST /messages/a/ack ") && text.contains("/messages/b/ack "));
    }
}
