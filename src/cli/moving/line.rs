//! The lines of a dump: JSON, one object a line, each with one field that names what it is. So `jq` and `grep` read a dump,
//! and a reader knows every line by itself.
//!
//! A dump begins with `dump` and ends with `end`. Between them are topics, hosts, schedules, and then the messages and
//! idempotency keys of one partition after another. Unknown fields are refused: whatever adds one counts up [`FORMAT`].

use super::message::Message;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use dueq_store::is_default;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The version of dumps that this dueq writes, and the highest that it reads.
pub const FORMAT: u32 = 1;

/// A line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// The first one.
    Dump(Header),
    /// A topic.
    Topic(Topic),
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
    /// When somebody claimed that tick.
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

impl IdempotencyKey {
    /// Whether Redis can keep it. Errors: what is wrong with it.
    pub fn check(&self) -> Result<(), &'static str> {
        let is_hex =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_instant = |at: i64| (0..1 << 53).contains(&at);
        let is_answer = match self.answer.split(',').collect::<Vec<_>>()[..] {
            [fingerprint, state, due] => {
                is_hex(fingerprint)
                    && ["delayed", "ready", "blocked", "leased"].contains(&state)
                    && due.parse().is_ok_and(is_instant)
            }
            _ => false,
        };
        if !is_answer || !is_instant(self.until_ms) {
            return Err("what it answers cannot be read");
        }
        self.key.bytes().map(|_| ()).ok_or("it is not base64")
    }
}

/// What a dump holds, so that one that was cut or edited is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// Topics.
    pub topics: u64,
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
    /// Topics in which something happened meanwhile: what the dump says of them is not of one instant.
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
    pub fn of(bytes: &[u8]) -> Self {
        let plain = |text: &&str| !text.chars().any(|c| c.is_control() && !"\n\r\t".contains(c));
        match std::str::from_utf8(bytes).ok().filter(plain) {
            Some(text) => Self::Text(text.to_owned()),
            None => Self::Base64(STANDARD.encode(bytes)),
        }
    }

    /// The bytes; `None` where this is no base64.
    pub fn bytes(&self) -> Option<Vec<u8>> {
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
