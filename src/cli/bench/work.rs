//! What the connections send: the same request again and again, the consumer's loop, acks.
//!
//! Requests are made of bytes that are ready beforehand wherever that is possible, and answers are searched for two
//! strings instead of being parsed as JSON: the load is to cost less than what it measures.

use super::load::{Step, Work};
use memchr::memmem;
use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Bytes of every payload.
const PAYLOAD_BYTES: usize = 200;

/// The longest lease there is, ms: nothing that a measurement leaves behind comes back while another runs.
const LONG_LEASE_MS: u64 = 43_200_000;

/// A server as a request's head names it.
#[derive(Debug, Clone)]
pub struct Target {
    /// Every header that does not depend on the body.
    headers: String,
}

impl Target {
    /// The server at `address`, with its API key if it wants one.
    pub fn new(address: &str, key: Option<&str>) -> Self {
        let key = key.map(|key| format!("authorization: Bearer {key}\r\n")).unwrap_or_default();
        Self { headers: format!("host: {address}\r\n{key}") }
    }

    /// A request without a body.
    pub fn request(&self, method: &str, path: &str) -> Vec<u8> {
        format!("{method} {path} HTTP/1.1\r\n{}\r\n", self.headers).into_bytes()
    }

    /// Adds a request with a JSON body to what `request` holds.
    pub fn post(&self, request: &mut Vec<u8>, path: &str, body: &[u8]) {
        // Writing to a Vec cannot fail.
        let _ = write!(
            request,
            "POST {path} HTTP/1.1\r\n{}content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.headers,
            body.len()
        );
        request.extend_from_slice(body);
    }
}

/// A JSON object of exactly `PAYLOAD_BYTES` bytes, like a small order event.
pub fn payload() -> String {
    let open = r#"{"order":1234567,"customer":"c-81723","total_cents":4599,"note":""#;
    let filler = "x".repeat(PAYLOAD_BYTES - open.len() - 2);
    format!("{open}{filler}\"}}")
}

/// The same request again and again.
#[derive(Debug, Clone)]
pub struct Fixed {
    request: Arc<Vec<u8>>,
    /// How it must be answered, and what part of the body counts the messages, if that is more than one.
    status: u16,
    messages: usize,
    /// How many are left to send, shared by the connections; `None`: until the time is over.
    left: Option<Arc<AtomicUsize>>,
}

impl Fixed {
    fn new(request: Vec<u8>, status: u16, messages: usize) -> Self {
        Self { request: Arc::new(request), status, messages, left: None }
    }

    /// Asks whether the server lives.
    pub fn healthz(target: &Target) -> Self {
        Self::new(target.request("GET", "/healthz"), 200, 1)
    }

    /// Publishes a message that is due at once.
    pub fn publish(target: &Target, topic: &str) -> Self {
        let body = format!(r#"{{"payload":{}}}"#, payload());
        let mut request = Vec::new();
        target.post(&mut request, &format!("/topics/{topic}/messages"), body.as_bytes());
        Self::new(request, 201, 1)
    }

    /// Publishes `messages` of them.
    pub fn publish_batch(target: &Target, topic: &str, messages: usize) -> Self {
        let message = format!(r#"{{"payload":{}}}"#, payload());
        let body = format!(r#"{{"messages":[{}]}}"#, vec![message; messages].join(","));
        let mut request = Vec::new();
        target.post(&mut request, &format!("/topics/{topic}/messages/batch"), body.as_bytes());
        Self::new(request, 200, messages)
    }

    /// The same, `count` times in all.
    pub fn at_most(self, count: usize) -> Self {
        Self { left: Some(Arc::new(AtomicUsize::new(count))), ..self }
    }
}

impl Work for Fixed {
    fn next(&mut self, request: &mut Vec<u8>) -> bool {
        let take = |left: &AtomicUsize| {
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok()
        };
        let more = self.left.as_deref().is_none_or(take);
        if more {
            request.extend_from_slice(&self.request);
        }
        more
    }

    fn answer(&mut self, status: u16, body: &[u8]) -> Step {
        let stored = || memmem::find_iter(body, br#"{"status":"ok""#).count();
        if status == self.status && (self.messages == 1 || stored() == self.messages) {
            Step::Done(self.messages as u64)
        } else {
            wrong(status, body)
        }
    }
}

/// A lease that a consumer holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    id: String,
    token: String,
}

/// Leases; in a consumer's loop the same request acks what the last answer brought, otherwise the leases are kept.
#[derive(Debug, Clone)]
pub struct Lease {
    target: Target,
    path: String,
    max_messages: usize,
    acks: bool,
    /// What is leased and not acked.
    pub held: Vec<Held>,
}

impl Lease {
    /// `max_messages` a request; with `acks` those before are acked.
    pub fn new(target: &Target, topic: &str, max_messages: usize, acks: bool) -> Self {
        let path = format!("/topics/{topic}/lease");
        Self { target: target.clone(), path, max_messages, acks, held: Vec::new() }
    }
}

impl Work for Lease {
    fn next(&mut self, request: &mut Vec<u8>) -> bool {
        let mut body = format!(
            r#"{{"max_messages":{},"lease_ms":{LONG_LEASE_MS},"acks":["#,
            self.max_messages
        );
        if self.acks {
            for Held { id, token } in self.held.drain(..) {
                body += &format!(r#"{{"id":"{id}","lease_token":"{token}"}},"#);
            }
        }
        let body = body.trim_end_matches(',').to_owned() + "]}";
        self.target.post(request, &self.path, body.as_bytes());
        true
    }

    fn answer(&mut self, status: u16, body: &[u8]) -> Step {
        if status != 200 || memmem::find(body, br#""status":"lease_lost""#).is_some() {
            return wrong(status, body);
        }
        let before = self.held.len();
        leases(body, &mut self.held);
        match self.held.len() - before {
            0 => Step::Empty,
            leased => Step::Done(leased as u64),
        }
    }
}

/// Collects id and token of every leased message of an answer. The id is the last one before its token: the items of the
/// list of acks have ids, too.
fn leases(body: &[u8], held: &mut Vec<Held>) {
    const ID: &[u8] = br#""id":""#;
    const TOKEN: &[u8] = br#""lease_token":""#;
    let text = |from: usize| {
        let end = memchr::memchr(b'"', &body[from..]).map_or(body.len(), |length| from + length);
        String::from_utf8_lossy(&body[from..end]).into_owned()
    };
    for at in memmem::find_iter(body, TOKEN) {
        if let Some(id) = memmem::rfind(&body[..at], ID) {
            held.push(Held { id: text(id + ID.len()), token: text(at + TOKEN.len()) });
        }
    }
}

/// Acks what was leased before, each message by a request of its own.
#[derive(Debug)]
pub struct Ack {
    requests: std::vec::IntoIter<Vec<u8>>,
}

impl Ack {
    /// One work for each of so many connections, which share the leases out.
    pub fn share(target: &Target, held: &[Held], connections: usize) -> Vec<Self> {
        let request = |Held { id, token }: &Held| {
            let body = format!(r#"{{"lease_token":"{token}"}}"#);
            let mut request = Vec::new();
            target.post(&mut request, &format!("/messages/{id}/ack"), body.as_bytes());
            request
        };
        let every = |first: usize| held.iter().skip(first).step_by(connections);
        (0..connections)
            .map(|first| every(first).map(request).collect::<Vec<_>>())
            .map(|requests| Self { requests: requests.into_iter() })
            .collect()
    }
}

impl Work for Ack {
    fn next(&mut self, request: &mut Vec<u8>) -> bool {
        let next = self.requests.next();
        request.extend(next.iter().flatten());
        next.is_some()
    }

    fn answer(&mut self, status: u16, body: &[u8]) -> Step {
        match status {
            204 => Step::Done(1),
            _ => wrong(status, body),
        }
    }
}

/// The complaint about an answer, with the beginning of its body.
pub fn wrong(status: u16, body: &[u8]) -> Step {
    let start = String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned();
    Step::Wrong(format!("the answer was {status}: {start}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(work: &mut impl Work) -> Option<String> {
        let mut request = Vec::new();
        work.next(&mut request).then(|| String::from_utf8(request).unwrap())
    }

    #[test]
    fn a_payload_is_json_of_its_size() {
        assert_eq!(payload().len(), PAYLOAD_BYTES);
        assert!(serde_json::from_str::<serde_json::Value>(&payload()).is_ok());
    }

    #[test]
    fn the_loop_acks_what_it_was_given() {
        let mut work = Lease::new(&Target::new("h:1", Some("k")), "t", 1, true);
        assert!(sent(&mut work).unwrap().ends_with(r#""acks":[]}"#));
        let answer = br#"{"messages":[{"id":"a","lease_token":"1"}],"acks":[{"id":"z"}]}"#;
        assert!(matches!(work.answer(200, answer), Step::Done(1)));
        let request = sent(&mut work).unwrap();
        assert!(request.ends_with(r#""acks":[{"id":"a","lease_token":"1"}]}"#));
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())));
        assert!(head.contains("host: h:1\r\nauthorization: Bearer k"));
        assert!(matches!(work.answer(200, br#"{"messages":[]}"#), Step::Empty));
        assert!(matches!(work.answer(503, b""), Step::Wrong(_)));
    }

    #[test]
    fn connections_share_what_is_left() {
        let target = Target::new("h:1", None);
        let mut first = Fixed::publish_batch(&target, "t", 2).at_most(3);
        let mut second = first.clone();
        assert!(sent(&mut first).is_some() && sent(&mut second).is_some());
        assert!(sent(&mut first).is_some() && sent(&mut second).is_none());
    }

    #[test]
    fn a_batch_counts_only_when_all_of_it_was_stored() {
        let mut work = Fixed::publish_batch(&Target::new("h:1", None), "t", 2);
        let one = r#"{"status":"ok"}"#;
        assert!(matches!(work.answer(200, format!("[{one},{one}]").as_bytes()), Step::Done(2)));
        assert!(matches!(work.answer(200, format!("[{one}]").as_bytes()), Step::Wrong(_)));
    }

    #[test]
    fn every_lease_is_acked_once() {
        let held = |id: &str| Held { id: id.into(), token: "t".into() };
        let held = [held("a"), held("b"), held("c")];
        let works = Ack::share(&Target::new("h:1", None), &held, 2);
        let sent =
            works.into_iter().flat_map(|mut work| std::iter::from_fn(move || sent(&mut work)));
        let paths: Vec<String> = sent.map(|request| request[..19].to_owned()).collect();
        assert_eq!(paths, ["POST /messages/a/ac", "POST /messages/c/ac", "POST /messages/b/ac"]);
    }
}
