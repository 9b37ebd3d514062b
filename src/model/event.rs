//! What happened to a message, beyond its being published: written only when a lease ends without an ack, or somebody
//! changes the message, so that a message whose first attempt succeeds costs nothing.

use super::Millis;
use serde::Serialize;

/// Events kept of one message; older ones are dropped.
pub const MAX_EVENTS: usize = 20;

/// What happened.
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
    /// Somebody changed it.
    Updated,
    /// Its attempts were used up, or its consumer gave it up.
    Dead,
    /// It was made ready again after its death.
    Redriven,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, ms.
    pub at: Millis,
    /// What.
    pub kind: EventKind,
    /// Number of the grant that it is about.
    pub attempt: Option<u32>,
    /// What the consumer said.
    pub reason: Option<String>,
    /// The instant was worked out afterwards: nothing was written when it happened.
    pub estimated: bool,
}

impl Event {
    /// Reads the lines that `events.lua` wrote: `letter at attempt reason`, the attempt 0 for none, the reason in JSON; a
    /// grant's letter is `G` where its instant was worked out afterwards. Lines that cannot be read are left out.
    pub fn read_all(text: &str) -> Vec<Self> {
        text.lines().filter_map(Self::read).collect()
    }

    fn read(line: &str) -> Option<Self> {
        let mut parts = line.splitn(4, ' ');
        let letter = parts.next()?;
        let kind = match letter {
            "g" | "G" => EventKind::Granted,
            "n" => EventKind::Nacked,
            "r" => EventKind::Released,
            "x" => EventKind::LeaseExpired,
            "u" => EventKind::Updated,
            "d" => EventKind::Dead,
            "v" => EventKind::Redriven,
            _ => return None,
        };
        let at = parts.next()?.parse().ok()?;
        let attempt = parts.next()?.parse().ok().filter(|attempt| *attempt > 0);
        let reason = parts.next().and_then(|reason| serde_json::from_str(reason).ok());
        Some(Self { at, kind, attempt, reason, estimated: letter == "G" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_line_by_line() {
        let text = "g 1763700000123 1\nn 1763700000456 1 \"a b\\n\\\"c\"\nu 5 0\n? what\n";
        let event = |at, kind, attempt, reason: Option<&str>| Event {
            at,
            kind,
            attempt,
            reason: reason.map(str::to_owned),
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
