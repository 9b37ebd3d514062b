//! Requests as bytes, and what the next request needs out of an answer.
//!
//! Answers are searched for two strings instead of being parsed as JSON: the
//! generator is to cost less than what it measures.

use std::io::Write;

use super::client::find;
use super::load::Step;

/// Bytes of every payload; the figures of the README and of the design are
/// for this size.
pub const PAYLOAD_BYTES: usize = 200;

/// The longest lease the contract allows, ms: nothing that a measurement
/// leaves behind comes back while another runs.
pub const LONG_LEASE_MS: u64 = 43_200_000;

/// A lease that a consumer holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The message's id.
    pub id: String,
    /// The token that acks it.
    pub token: String,
}

/// A whole request with a JSON body.
pub fn post(path: &str, host: &str, body: &[u8]) -> Vec<u8> {
    let mut request = Vec::with_capacity(160 + body.len());
    write_post(&mut request, path, host, body);
    request
}

/// The same, behind what `request` holds already.
pub fn write_post(request: &mut Vec<u8>, path: &str, host: &str, body: &[u8]) {
    request.extend_from_slice(b"POST ");
    request.extend_from_slice(path.as_bytes());
    request.extend_from_slice(b" HTTP/1.1\r\nhost: ");
    request.extend_from_slice(host.as_bytes());
    request.extend_from_slice(b"\r\ncontent-type: application/json\r\ncontent-length: ");
    // Writing to a Vec cannot fail.
    let _ = write!(request, "{}\r\n\r\n", body.len());
    request.extend_from_slice(body);
}

/// A JSON object of exactly `PAYLOAD_BYTES` bytes, like a small order event.
pub fn payload() -> String {
    let open = r#"{"order":1234567,"customer":"c-81723","total_cents":4599,"note":""#;
    let filler = "x".repeat(PAYLOAD_BYTES - open.len() - 2);
    format!("{open}{filler}\"}}")
}

/// Collects the id and the token of every leased message of an answer.
///
/// The id is the last one before its token, wherever the answer's list of acks
/// (whose items have ids, too) stands.
pub fn leases(body: &[u8], held: &mut Vec<Held>) {
    const TOKEN: &[u8] = br#""lease_token":""#;
    const ID: &[u8] = br#""id":""#;
    let mut rest = body;
    while let Some(at) = find(rest, TOKEN) {
        let (before, after) = (&rest[..at], &rest[at + TOKEN.len()..]);
        let id = before
            .windows(ID.len())
            .rposition(|window| window == ID)
            .map(|at| until_quote(&before[at + ID.len()..]));
        let token = until_quote(after);
        if let Some(id) = id {
            held.push(Held {
                id: String::from_utf8_lossy(id).into_owned(),
                token: String::from_utf8_lossy(token).into_owned(),
            });
        }
        rest = &after[token.len()..];
    }
}

fn until_quote(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == b'"');
    &bytes[..end.unwrap_or(bytes.len())]
}

/// The complaint about an answer, with the beginning of its body.
pub fn wrong(what: &str, status: u16, body: &[u8]) -> Step {
    let start = String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned();
    Step::Wrong(format!("{what} was answered {status}: {start}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_json_of_the_size_that_is_claimed() {
        let payload = payload();
        assert_eq!(payload.len(), PAYLOAD_BYTES);
        assert!(serde_json::from_str::<serde_json::Value>(&payload).is_ok());
    }

    #[test]
    fn leases_are_found_on_either_side_of_the_acks() {
        let messages = r#""messages":[{"id":"a","payload":{},"lease_token":"1"},{"id":"b","lease_token":"2"}]"#;
        let acks = r#""acks":[{"id":"z","status":"ok"}]"#;
        for body in [format!("{{{messages},{acks}}}"), format!("{{{acks},{messages}}}")] {
            let mut held = Vec::new();
            leases(body.as_bytes(), &mut held);
            let pairs: Vec<_> = held.iter().map(|h| (&*h.id, &*h.token)).collect();
            assert_eq!(pairs, [("a", "1"), ("b", "2")]);
        }
    }
}
