//! Why messages died: the newest dead ones of a topic by their last error, in which whatever tells one message from another
//! (numbers, UUIDs, hexadecimal digits) is masked.

use super::list::{ListSome, MAX_SCANNED};
use crate::{
    error::Error,
    model::{MessageId, Millis, State, TopicName},
    store::{Store, partition::Partition},
};
use futures_util::future::try_join_all;
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};
use uuid::Uuid;

/// Messages of one call.
const CALL_MESSAGES: u64 = 256;
/// Reasons of an answer.
const MAX_REASONS: usize = 200;
/// How long a request looks.
const MAX_TIME: Duration = Duration::from_secs(2);
/// Characters of a UUID.
const UUID: usize = 36;
/// Hexadecimal digits that are masked, at least, if they have a digit among them.
const HEX: usize = 6;

/// A reason and the dead messages that have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// Their last error, masked; `None` where none was given.
    pub reason: Option<String>,
    /// The one that died last.
    pub example: MessageId,
    /// How many they are.
    pub count: u64,
    /// When the first of them died.
    pub first_at: Millis,
    /// When the last did.
    pub last_at: Millis,
}

impl Store {
    /// The most frequent reasons of the newest dead messages, and how many messages were looked at. The partitions of a topic
    /// have equal shares of these.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn dead_reasons(&self, name: &TopicName) -> Result<(Vec<Reason>, u64), Error> {
        if self.sweep_all(name).await?.is_empty() {
            return Err(Error::TopicNotFound);
        }
        let topic = self.registry.find(name).await?.ok_or(Error::TopicNotFound)?;
        let share = MAX_SCANNED.div_ceil(topic.partitions.len() as u64);
        let parts = try_join_all(topic.all().map(|it| self.reasons_of(it, share))).await?;
        let (mut all, mut scanned) = (HashMap::<_, Reason>::new(), 0);
        for (reasons, some) in parts {
            scanned += some;
            for (reason, found) in reasons {
                all.entry(reason).and_modify(|known| known.add(&found)).or_insert(found);
            }
        }
        let mut all: Vec<_> = all.into_values().collect();
        all.sort_by(|a, b| (b.count, b.last_at, &a.reason).cmp(&(a.count, a.last_at, &b.reason)));
        all.truncate(MAX_REASONS);
        Ok((all, scanned))
    }

    async fn reasons_of(
        &self,
        partition: Partition,
        newest: u64,
    ) -> Result<(HashMap<Option<String>, Reason>, u64), Error> {
        let (mut reasons, mut scanned) = (HashMap::<_, Reason>::new(), 0);
        let (begun, mut after, mut more) = (Instant::now(), None, true);
        while more && scanned < newest && begun.elapsed() < MAX_TIME {
            let limit = CALL_MESSAGES.min(newest - scanned);
            let list = ListSome {
                state: State::Dead,
                limit,
                after,
                newest: Some(newest),
                body_bytes: None,
            };
            let some = self.list_some(&partition.name(), list).await?;
            scanned += some.items.len() as u64;
            more = some.more && !some.items.is_empty();
            after = some.items.last().map(|item| item.cursor.clone());
            for dead in some.items.into_iter().map(|item| item.message) {
                let reason = dead.last_error.as_deref().map(masked);
                let (first_at, last_at) = (dead.at, dead.at);
                let found = Reason {
                    reason: reason.clone(),
                    example: dead.id,
                    count: 1,
                    first_at,
                    last_at,
                };
                reasons.entry(reason).and_modify(|known| known.add(&found)).or_insert(found);
            }
        }
        Ok((reasons, scanned))
    }
}

impl Reason {
    fn add(&mut self, other: &Self) {
        if other.last_at >= self.last_at {
            self.example = other.example;
        }
        self.count += other.count;
        self.first_at = self.first_at.min(other.first_at);
        self.last_at = self.last_at.max(other.last_at);
    }
}

/// The text with `*` for numbers, UUIDs and hexadecimal digits: so it also is what a search for `error` takes.
fn masked(text: &str) -> String {
    // The status that ended a call is no number of something.
    if text.strip_prefix("answered ").is_some_and(|status| status.len() == 3) {
        return text.to_owned();
    }
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric()).len();
        let uuid = rest.get(..UUID).is_some_and(|text| Uuid::try_parse(text).is_ok());
        let length = if uuid { UUID } else { word.max(first.len_utf8()) };
        let (taken, left) = rest.split_at(length);
        if uuid || is_hex(taken) {
            masked.push('*');
        } else {
            push_without_digits(taken, &mut masked);
        }
        rest = left;
    }
    // A decimal number and an address are one thing each.
    for joint in ["*.*", "*:*"] {
        while masked.contains(joint) {
            masked = masked.replace(joint, "*");
        }
    }
    masked
}

fn is_hex(word: &str) -> bool {
    let (digits, word) = (word.strip_prefix("0x"), word);
    let hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let has_digit = |text: &str| text.bytes().any(|byte| byte.is_ascii_digit());
    digits.is_some_and(hex) || (hex(word) && has_digit(word) && word.len() >= HEX)
}

fn push_without_digits(word: &str, masked: &mut String) {
    for char in word.chars() {
        match char.is_ascii_digit() {
            true if masked.ends_with('*') => {}
            true => masked.push('*'),
            false => masked.push(char),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_message_to_message_is_masked() {
        for (text, reason) in [
            ("timeout after 30 s", "timeout after * s"),
            ("timeout after 2.5s", "timeout after *s"),
            ("answered 500", "answered 500"),
            ("answered 5000", "answered *"),
            ("no order 9f8e7d6c", "no order *"),
            ("no order 123e4567-e89b-12d3-a456-426614174000!", "no order *!"),
            ("at 0xDEADbeef", "at *"),
            ("10.0.0.1:8080 refused", "* refused"),
            ("order-42 of shop7", "order-* of shop*"),
            ("decade cafe", "decade cafe"),
            ("größe 5 – nein", "größe * – nein"),
            ("", ""),
        ] {
            assert_eq!(masked(text), reason);
        }
    }
}
