//! The requests that connections send: prepared ones, or those of a consumer loop.

use crate::{
    LEASE_MS,
    load::{Step, Work},
};
use serde::Deserialize;
use std::{
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// The headers that every request to a server has.
#[derive(Clone)]
pub struct Target {
    headers: String,
}

impl Target {
    /// The server at `address`, with its API key if it requires one.
    pub fn new(address: &str, key: Option<&str>) -> Self {
        let key = key.map(|key| format!("authorization: Bearer {key}\r\n")).unwrap_or_default();
        Self { headers: format!("host: {address}\r\n{key}") }
    }

    /// A request with a JSON body, which may be empty.
    pub fn request(&self, method: &str, path: &str, body: &str) -> Vec<u8> {
        let about = match body.len() {
            0 => String::new(),
            length => format!("content-type: application/json\r\ncontent-length: {length}\r\n"),
        };
        format!("{method} {path} HTTP/1.1\r\n{}{about}\r\n{body}", self.headers).into_bytes()
    }
}

/// The body of a publish with a payload of 200 bytes; `more` is empty or more fields, as `,"deliver_at":…`.
pub fn message(more: &str) -> String {
    let filler = "x".repeat(133);
    format!(
        r#"{{"payload":{{"order":1234567,"customer":"c-81723","total_cents":4599,"note":"{filler}"}}{more}}}"#
    )
}

/// Requests built in advance, shared by the connections.
#[derive(Clone)]
pub struct Requests {
    requests: Arc<Vec<Vec<u8>>>,
    /// How many were sent, and how many to send in total; after the last, the first is sent again.
    sent: Arc<AtomicUsize>,
    count: usize,
    /// The status of a good response, and the number of its messages.
    status: u16,
    messages: u64,
}

impl Requests {
    /// Sends these requests in turn, `count` in all, as far as the time suffices.
    pub fn new(requests: Vec<Vec<u8>>, count: usize, status: u16, messages: u64) -> Self {
        Self { requests: Arc::new(requests), sent: Arc::default(), count, status, messages }
    }
}

impl Work for Requests {
    fn next(&mut self, request: &mut Vec<u8>) -> bool {
        let index = self.sent.fetch_add(1, Ordering::Relaxed);
        let more = index < self.count;
        if more {
            request.extend_from_slice(&self.requests[index % self.requests.len()]);
        }
        more
    }

    fn answer(&mut self, status: u16, body: &[u8]) -> Step {
        let stored = || memchr::memmem::find_iter(body, br#"{"status":"ok""#).count() as u64;
        if status == self.status && (self.messages == 1 || stored() == self.messages) {
            Step::Done(self.messages)
        } else {
            wrong(status, body)
        }
    }
}

/// The fields of a lease response that the bench uses.
#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    messages: Vec<Leased<'a>>,
    #[serde(borrow, default)]
    acks: Vec<Acked<'a>>,
}

#[derive(Deserialize)]
struct Leased<'a> {
    id: &'a str,
    lease_token: &'a str,
    due_at: &'a str,
    lease_expires_at: &'a str,
}

#[derive(Deserialize)]
struct Acked<'a> {
    status: &'a str,
}

impl Leased<'_> {
    /// Milliseconds from the due time to the lease; negative if early. Both instants come from Redis's clock, so the
    /// bench's own clock does not matter. `None` if an instant cannot be read.
    fn late_ms(&self) -> Option<i64> {
        let millis =
            |text| Some(chrono::DateTime::parse_from_rfc3339(text).ok()?.timestamp_millis());
        Some(millis(self.lease_expires_at)? - LEASE_MS - millis(self.due_at)?)
    }
}

/// Leases messages. In a consumer loop, each request acks the messages of the last response.
#[derive(Clone)]
pub struct Lease {
    pub target: Target,
    pub path: String,
    pub max_messages: usize,
    /// Whether the next request acks.
    pub acks: bool,
    /// How long a request waits for a message. If it waits, the lateness of messages is recorded.
    pub wait_ms: u64,
    /// The number of messages left, if known; shared by the connections.
    pub left: Option<Arc<AtomicUsize>>,
    /// Ids and tokens of messages that are leased and not acked.
    pub held: Vec<(String, String)>,
    pub late_ms: Vec<i64>,
}

impl Work for Lease {
    fn next(&mut self, request: &mut Vec<u8>) -> bool {
        let is_over = self.left.as_ref().is_some_and(|left| left.load(Ordering::Relaxed) == 0);
        if is_over && self.held.is_empty() {
            return false;
        }
        let Self { max_messages, wait_ms, .. } = self;
        let mut body = format!(
            r#"{{"max_messages":{max_messages},"lease_ms":{LEASE_MS},"wait_ms":{wait_ms},"acks":["#
        );
        if self.acks {
            for (index, (id, token)) in self.held.drain(..).enumerate() {
                let comma = if index == 0 { "" } else { "," };
                // Writing to a String cannot fail.
                let _ = write!(body, r#"{comma}{{"id":"{id}","lease_token":"{token}"}}"#);
            }
        }
        body += "]}";
        request.extend(self.target.request("POST", &self.path, &body));
        true
    }

    fn answer(&mut self, status: u16, body: &[u8]) -> Step {
        let answer = match serde_json::from_slice::<Answer<'_>>(body) {
            Ok(answer) if status == 200 => answer,
            _ => return wrong(status, body),
        };
        if answer.acks.iter().any(|ack| ack.status != "ok") {
            return wrong(status, body);
        }
        for leased in &answer.messages {
            self.held.push((leased.id.to_owned(), leased.lease_token.to_owned()));
            if self.wait_ms > 0 {
                self.late_ms.extend(leased.late_ms());
            }
        }
        let taken = answer.messages.len();
        if let Some(left) = &self.left {
            left.fetch_sub(taken, Ordering::Relaxed);
        }
        match taken {
            0 if self.wait_ms == 0 => Step::Empty,
            taken => Step::Done(taken as u64),
        }
    }
}

/// Describes a wrong response, with the beginning of its body.
fn wrong(status: u16, body: &[u8]) -> Step {
    let start = String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned();
    Step::Wrong(format!("the answer was {status}: {start}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_has_200_bytes() {
        assert_eq!(message("").len() - r#"{"payload":}"#.len(), 200);
    }

    #[test]
    fn lateness_is_the_lease_less_the_due_time() {
        let late_ms = |due_at| {
            let lease_expires_at = "2026-11-20T18:16:00.123Z";
            Leased { id: "a", lease_token: "t", due_at, lease_expires_at }.late_ms()
        };
        assert_eq!(late_ms("2026-11-20T06:16:00.120Z"), Some(3));
        assert_eq!(late_ms("2026-11-20T06:16:00.125Z"), Some(-2));
        assert_eq!(late_ms("soon"), None);
    }
}
