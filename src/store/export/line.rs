//! The lines of a dump: JSON, one object a line, each with one field that names what it is. So `jq` and `grep` read a dump,
//! and a reader knows every line by itself.
//!
//! A dump begins with `dump` and ends with `end`. Between them are topics, settings of groups, hosts, schedules, and then the messages and
//! idempotency keys of one partition after another. Unknown fields are refused: a new one needs a new [`FORMAT`].

use super::message::Message;
use crate::types::is_default;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use dueq_model::{GroupLimits, Member, MessageId, Route, TopicName, TopicSettings};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The version of dumps that this dueq writes, and the highest that it reads.
pub const FORMAT: u32 = 2;

/// A line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// The first one.
    Dump(Header),
    /// A topic.
    Topic(Topic),
    /// A group with settings of its own.
    Group(Group),
    /// A host of callbacks that is paused.
    PausedHost(String),
    /// A schedule.
    Schedule(Schedule),
    /// A message.
    Message(Box<Message>),
    /// An idempotency key that still answers.
    IdempotencyKey(IdempotencyKey),
    /// The last one.
    End(End),
}

/// Where a dump comes from.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`FORMAT`].
    pub format: u32,
    /// Version of the schema of the data.
    pub schema: i64,
    /// The dueq that wrote it.
    pub dueq: String,
    /// Drawn for this dump.
    pub id: String,
    /// When it began, on Redis's clock.
    pub at: String,
    /// The Redis or the directory, without secrets.
    pub from: String,
    /// The number that was last drawn for an instance; ids carry it.
    pub instances: i64,
}

/// A topic.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// Its number, which is part of the ids of its messages.
    pub number: u32,
    /// Nothing is granted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub paused: bool,
    /// Its configuration as the registry has it; absent for the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Box<RawValue>>,
}

/// The settings of a group.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The topic.
    pub topic: String,
    /// Its name.
    pub group: String,
    /// Nothing of it is granted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub paused: bool,
    /// Its limits.
    #[serde(default, skip_serializing_if = "is_default")]
    pub limits: GroupLimits,
}

/// A schedule. Instants are ms, 0 for none.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Its name.
    pub name: String,
    /// What it publishes, and when, as Redis has it.
    pub definition: Box<RawValue>,
    /// It does not tick.
    pub paused: bool,
    /// Its next tick.
    pub next_ms: i64,
    /// When that tick was claimed.
    pub claimed_ms: i64,
    /// Its last tick.
    pub last_ms: i64,
    /// The message that was published then; `-` for none.
    pub last_id: String,
    /// Why none was published, or empty.
    pub last_error: String,
}

/// An idempotency key.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdempotencyKey {
    /// The topic.
    pub topic: String,
    /// The key.
    pub key: Content,
    /// Until when it answers, ms.
    pub until_ms: i64,
    /// What it answers: `fingerprint,state,due`, as Redis has it.
    pub answer: String,
    /// The message that it answers with.
    pub id: String,
}

impl Schedule {
    /// The topic of a schedule, and its line, from its state and its definition; `None` where they cannot be read.
    pub(super) fn of(name: &str, state: &str, definition: String) -> Option<(String, Self)> {
        #[derive(Deserialize)]
        struct Definition {
            topic: String,
        }
        let Definition { topic } = serde_json::from_str(&definition).ok()?;
        let mut words = state.splitn(7, ' ').skip(1);
        let mut number = || words.next()?.parse().ok();
        let (paused, next_ms) = (number()? == 1, number()?);
        let (claimed_ms, last_ms) = (number()?, number()?);
        let (last_id, last_error) = (words.next()?, words.next().unwrap_or_default());
        let (last_id, last_error) = (last_id.to_owned(), last_error.to_owned());
        let (name, definition) = (name.to_owned(), RawValue::from_string(definition).ok()?);
        let line =
            Self { name, definition, paused, next_ms, claimed_ms, last_ms, last_id, last_error };
        Some((topic, line))
    }
}

impl IdempotencyKey {
    /// The line of an entry `until,fingerprint,state,due,member`; `None` where it is damaged.
    pub(super) fn of(topic: &TopicName, route: Route, key: &[u8], entry: &[u8]) -> Option<Self> {
        let mut parts = entry.splitn(5, |byte| *byte == b',');
        let mut text = || std::str::from_utf8(parts.next()?).ok();
        let (until, answer) = (text()?, [text()?, text()?, text()?].join(","));
        let member: Member = parts.next()?.try_into().ok()?;
        let line = Self {
            topic: topic.to_string(),
            key: Content::of(key),
            until_ms: until.parse().ok()?,
            answer,
            id: MessageId::from_member(&member, route).to_string(),
        };
        line.check().is_ok().then_some(line)
    }

    /// Checks that Redis can keep it. Errors: the reason why not.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let is_instant = |at: i64| (0..1 << 53).contains(&at);
        let is_answer = match self.answer.split(',').collect::<Vec<_>>()[..] {
            [fingerprint, state, due] => {
                u64::from_str_radix(fingerprint, 16).is_ok()
                    && ["delayed", "ready", "blocked", "leased"].contains(&state)
                    && due.parse().is_ok_and(is_instant)
            }
            _ => false,
        };
        match is_answer && is_instant(self.until_ms) && self.key.bytes().is_some() {
            true => Ok(()),
            false => Err("its answer cannot be read"),
        }
    }
}

impl Topic {
    /// Its configuration. Errors: it cannot be read.
    pub(super) fn settings(&self, name: &TopicName) -> Result<TopicSettings, String> {
        match &self.settings {
            None => Ok(TopicSettings::default_of(name)),
            Some(json) => serde_json::from_str(json.get())
                .map_err(|error| format!("the settings of {name} cannot be read: {error}")),
        }
    }
}

/// How much a dump holds, so that one that was cut or edited is recognized.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// Topics.
    pub topics: u64,
    /// Groups with settings of their own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub groups: u64,
    /// Paused hosts.
    pub paused_hosts: u64,
    /// Schedules.
    pub schedules: u64,
    /// Messages.
    pub messages: u64,
    /// Idempotency keys.
    pub idempotency_keys: u64,
    /// Messages that could not be read, and were left out.
    pub damaged: u64,
    /// Topics that were in use meanwhile: their part of the dump is not of one instant.
    pub changed: Vec<String>,
    /// SHA-256 of all lines before this one, hex.
    pub sha256: String,
}

/// Bytes: as text where they are text without control characters, else in base64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// As text.
    Text(String),
    /// In base64.
    Base64(String),
}

impl Default for Content {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

impl Content {
    /// Writes these bytes.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let plain = |text: &&str| !text.chars().any(|c| c.is_control() && !"\n\r\t".contains(c));
        match std::str::from_utf8(bytes).ok().filter(plain) {
            Some(text) => Self::Text(text.to_owned()),
            None => Self::Base64(STANDARD.encode(bytes)),
        }
    }

    /// The bytes; `None` where this is no base64.
    pub(super) fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::Text(text) => Some(text.as_bytes().to_vec()),
            Self::Base64(text) => STANDARD.decode(text).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_as_they_were() {
        for bytes in [&b"{\"a\": \"\xc3\xa9\"}\n"[..], b"\0\x01", b"\xff", b"", b"a\x7fb"] {
            let content = Content::of(bytes);
            let line = serde_json::to_string(&content).unwrap();
            assert!(!line.contains('\n'));
            let content: Content = serde_json::from_str(&line).unwrap();
            assert_eq!(content.bytes().unwrap(), bytes);
        }
        assert_eq!(Content::Base64("*".to_owned()).bytes(), None);
    }
}
