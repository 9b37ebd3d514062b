//! Why a message is not being worked on, by the fields of it that say so.

use super::{CallReport, Event, EventKind, MAX_REASON_CHARS, MessageId, Millis};
use std::borrow::Cow;

/// The place that a call of dueq lacks. `host`: its host has as many calls under way as it may. `address`: so have all hosts at its
/// address. `total`: so has the topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallPlace {
    /// One of its host's.
    Host,
    /// One of its address's.
    Address,
    /// One of its topic's.
    Total,
}

impl CallPlace {
    const WORDS: [(&str, Self); 3] =
        [("host", Self::Host), ("address", Self::Address), ("total", Self::Total)];

    /// The word that scripts use; `paused` where the host is paused, so that no place would help.
    pub fn word(this: Option<Self>) -> &'static str {
        this.map_or("paused", |place| Self::WORDS[place as usize].0)
    }
}

/// Why a message is not being worked on now: the first of these that holds. Instants in ms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitingFor {
    /// A consumer has it, until then.
    Lease(Millis),
    /// Its topic is paused.
    TopicPaused,
    /// It failed, and waits until then; with this error if one was given.
    Backoff(Millis, Option<String>),
    /// It is not due until then.
    Due(Millis),
    /// Calls to this host are paused.
    HostPaused(String),
    /// Its group is paused.
    GroupPaused,
    /// Messages of its group are ahead: the first of them, and how many.
    Group(MessageId, i64),
    /// The topic has as many messages leased as it may: so many.
    Limit(i64),
    /// The rate of its group or its topic has no turn before this.
    Rate(Millis),
    /// Calls to this host fail, and the next probe may begin then.
    HostFailing(String, Millis),
    /// Its call has no such place.
    NoPlace(CallPlace),
    /// Nothing but a consumer.
    Consumer,
}

/// When a message was due that was put off until `due`, and which place its call lacked (`None`: its host was paused), by
/// the stored text of its events.
pub fn put_off(written: &str, due: Millis) -> Option<(Millis, Option<CallPlace>)> {
    let line = written.lines().rev().find_map(|line| line.strip_prefix("p "))?;
    let mut words = line.split(' ');
    if words.next()?.parse() != Ok(due) {
        return None;
    }
    let (since, word) = (words.next()?.parse().ok()?, words.next()?);
    Some((since, CallPlace::WORDS.iter().find(|(known, _)| *known == word).map(|it| it.1)))
}

/// If the last thing that happened to a message is that it failed: with which error, by the stored text of its events.
pub fn last_failure(written: &str) -> Option<Option<String>> {
    let is_kept = |line: &&str| !line.starts_with("u ") && !line.starts_with("p ");
    let event = written.lines().rev().find(is_kept).and_then(Event::read)?;
    let error = match event.kind {
        EventKind::Nacked => event.reason,
        EventKind::Called => event.call.as_ref().and_then(CallReport::failure).map(Cow::into_owned),
        _ => return None,
    };
    Some(error.map(|error| error.chars().take(MAX_REASON_CHARS).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_was_put_off_is_due_since_before() {
        let written = "n 3 1\np 90 7 address\nu 95 0\n";
        assert_eq!(put_off(written, 90), Some((7, Some(CallPlace::Address))));
        assert_eq!(put_off("p 90 7 paused\n", 90), Some((7, None)));
        assert_eq!((put_off(written, 91), put_off("n 90 7 \"host\"\n", 90)), (None, None));
        for place in [CallPlace::Host, CallPlace::Address, CallPlace::Total] {
            let line = format!("p 5 1 {}\n", CallPlace::word(Some(place)));
            assert_eq!(put_off(&line, 5), Some((1, Some(place))));
        }
    }

    #[test]
    fn only_what_failed_last_backs_off() {
        for (written, failure) in [
            ("n 5 1 \"no\"\n", Some(Some("no"))),
            ("n 5 1 \"no\"\nn 6 2\nu 7 0\np 9 8 host\n", Some(None)),
            ("c 5 2 {\"status\":500,\"duration_ms\":12}\n", Some(Some("answered 500"))),
            ("n 5 1 \"no\"\nU 7 0\n", None),
            ("n 5 1\nr 6 2\n", None),
            ("n 5 1\nd 5 1\nv 7 0\n", None),
            ("", None),
        ] {
            let failure = failure.map(|error| error.map(str::to_owned));
            assert_eq!(last_failure(written), failure, "{written}");
        }
    }
}
