//! What happened to a message, beyond its being published: written only when a lease ends without an ack or the
//! message is changed, so that a message whose first attempt succeeds costs nothing.

use super::{MAX_REASON_CHARS, Millis};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, collections::BTreeMap};

/// Events kept of one message; older ones are dropped.
pub const MAX_EVENTS: usize = 20;

/// What happened to a message. `published`; `granted`: a consumer leased it; `nacked`: its consumer gave it back as
/// failed; `released`: its consumer gave it back without working on it; `lease_expired`: its lease ended; `updated`: it
/// was changed; `dead`: its attempts were used up, or its consumer gave up; `redriven`: it was made ready again;
/// `called`: dueq sent it to its URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// It was published.
    Published,
    /// A consumer got it.
    Granted,
    /// Its consumer gave it back as failed.
    Nacked,
    /// Its consumer gave it back unworked.
    Released,
    /// Its lease ended by itself.
    LeaseExpired,
    /// It was changed.
    Updated,
    /// Its attempts were used up, or its consumer gave it up.
    Dead,
    /// It was made ready again after its death.
    Redriven,
    /// dueq sent it to its URL.
    Called,
}

/// How a call ended: with a status and the beginning of the answer, or with an error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallReport {
    /// The HTTP status of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// From the first step of the call to its end, ms.
    pub duration_ms: Millis,
    /// The beginning of the answer's body as text: the first KiB, or as much as the topic keeps of one that delivered; `None`
    /// where it was empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Headers of an answer that delivered, those that say what it is; names in lower case.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The request had headers that are secrets, which the answer may repeat.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secret: bool,
}

impl CallReport {
    /// How the call failed, if it did.
    pub fn failure(&self) -> Option<Cow<'_, str>> {
        let refused = self.status.filter(|status| !(200..300).contains(status));
        let status = || refused.map(|status| Cow::Owned(format!("answered {status}")));
        self.error.as_deref().map(Cow::Borrowed).or_else(status)
    }
}

/// Why the message whose events are written here failed last: the reason of the last nack that gave one, or how the last call
/// failed; cut to the length of a reason. Reads no more lines than it must, from the end.
pub fn last_error(written: &str) -> Option<String> {
    let mut events = written.lines().rev().filter_map(Event::read);
    let said = events.find_map(|event| match event.kind {
        EventKind::Nacked | EventKind::Released => event.reason,
        EventKind::Called => event.call.as_ref().and_then(CallReport::failure).map(Cow::into_owned),
        _ => None,
    });
    said.map(|said| said.chars().take(MAX_REASON_CHARS).collect())
}

/// The status that the last call of the message whose events are written here was answered with; `None` if it had no answer.
pub fn last_status(written: &str) -> Option<u16> {
    let call = written.lines().rev().find(|line| line.starts_with("c "))?;
    Event::read(call)?.call?.status
}

/// The line that keeps the result that an ack gave, JSON, among a message's events. It shows as none.
pub fn result_line(at: Millis, result: &str) -> String {
    // Outside of texts, JSON means the same with any white space.
    format!("A {at} 0 {}\n", result.replace(['\n', '\r'], " "))
}

/// The result among the events that are written here, JSON.
pub fn stored_result(written: &str) -> Option<&str> {
    let line = written.lines().rev().find(|line| line.starts_with("A "))?;
    line.splitn(4, ' ').nth(3)
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, ms.
    pub at: Millis,
    /// What.
    pub kind: EventKind,
    /// Number of the attempt that it is about.
    pub attempt: Option<u32>,
    /// What the consumer said.
    pub reason: Option<String>,
    /// How the call ended, for `called`.
    pub call: Option<CallReport>,
    /// The instant was worked out afterwards: nothing was written when it happened.
    pub estimated: bool,
}

impl Event {
    /// Reads the lines that `event` in `includes/message.lua` wrote: `letter at attempt reason`, the attempt 0 for none, the reason (for a call
    /// its report) in JSON; a grant's letter is `G` where its instant was worked out afterwards, an update's is `U` where it changed the due time. Lines that cannot be read are left out.
    pub fn read_all(text: &str) -> Vec<Self> {
        text.lines().filter_map(Self::read).collect()
    }

    pub(super) fn read(line: &str) -> Option<Self> {
        let mut parts = line.splitn(4, ' ');
        let letter = parts.next()?;
        let kind = match letter {
            "g" | "G" => EventKind::Granted,
            "n" => EventKind::Nacked,
            "r" => EventKind::Released,
            "x" => EventKind::LeaseExpired,
            "u" | "U" => EventKind::Updated,
            "d" => EventKind::Dead,
            "v" => EventKind::Redriven,
            "c" => EventKind::Called,
            _ => return None,
        };
        let at = parts.next()?.parse().ok()?;
        let attempt = parts.next()?.parse().ok().filter(|attempt| *attempt > 0);
        let said = parts.next();
        let call = said.filter(|_| kind == EventKind::Called);
        let call = call.and_then(|call| serde_json::from_str(call).ok());
        let reason = said.and_then(|reason| serde_json::from_str(reason).ok());
        Some(Self { at, kind, attempt, reason, call, estimated: letter == "G" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_read_with_its_report() {
        let text = "c 5 2 {\"status\":500,\"duration_ms\":12,\"answer\":\"no\"}\n";
        let report = CallReport {
            status: Some(500),
            duration_ms: 12,
            answer: Some("no".to_owned()),
            ..CallReport::default()
        };
        let events = Event::read_all(text);
        assert_eq!((events[0].kind, &events[0].call), (EventKind::Called, &Some(report)));
        assert_eq!(events[0].reason, None);
    }

    #[test]
    fn only_a_failed_call_is_an_error() {
        for (line, error) in [
            ("c 5 2 {\"status\":500,\"duration_ms\":12,\"answer\":\"no\"}\n", Some("answered 500")),
            ("c 5 2 {\"error\":\"timeout\",\"duration_ms\":100}\n", Some("timeout")),
            ("c 5 2 {\"status\":204,\"duration_ms\":1}\n", None),
            ("n 5 1 \"first\"\nr 6 2 \"second\"\nn 7 3\nd 7 3\n", Some("second")),
            ("x 5 1\nu 5 0\n", None),
            ("", None),
        ] {
            assert_eq!(last_error(line).as_deref(), error, "{line}");
        }
        let long = format!("c 5 2 {{\"error\":\"{}\",\"duration_ms\":1}}\n", "é".repeat(2_000));
        assert_eq!(last_error(&long), Some("é".repeat(1_024)));
    }

    #[test]
    fn events_are_read_line_by_line() {
        let text = "g 1763700000123 1\nn 1763700000456 1 \"a b\\n\\\"c\"\nu 5 0\n? what\n";
        let event = |at, kind, attempt, reason: Option<&str>| Event {
            at,
            kind,
            attempt,
            reason: reason.map(str::to_owned),
            call: None,
            estimated: false,
        };
        assert_eq!(
            Event::read_all(text),
            [
                event(1_763_700_000_123, EventKind::Granted, Some(1), None),
                event(1_763_700_000_456, EventKind::Nacked, Some(1), Some("a b\n\"c")),
                event(5, EventKind::Updated, None, None),
            ]
        );
    }
}
