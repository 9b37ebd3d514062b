//! The arguments shared by the commands that publish: a payload, and the options that every message has.

use super::{durations, failure::Failure, warn};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use clap::{Args, ValueEnum};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use std::{
    fs,
    io::{self, Read as _},
    path::Path,
};

/// A payload; each variant is named after its field.
#[derive(Debug, Serialize)]
pub enum Payload {
    /// JSON as it was written.
    #[serde(rename = "payload")]
    Json(Box<RawValue>),
    /// Bytes that are not UTF-8, in base64.
    #[serde(rename = "payload_base64")]
    Bytes(String),
}

impl Payload {
    /// Reads the payload from a file, from standard input (`-`), or from the argument itself. Returns `None` without
    /// either.
    pub fn read(word: Option<&str>, file: Option<&Path>) -> Result<Option<Self>, Failure> {
        let unread =
            |from: &str, error: &io::Error| Failure::Usage(format!("cannot read {from}: {error}"));
        let bytes = match (file, word) {
            (Some(file), _) => {
                fs::read(file).map_err(|error| unread(&file.display().to_string(), &error))?
            }
            (None, Some("-")) => {
                let mut bytes = Vec::new();
                let read = io::stdin().read_to_end(&mut bytes);
                read.map_err(|error| unread("standard input", &error))?;
                bytes
            }
            (None, Some(text)) => {
                warn_of_broken_json(text);
                text.as_bytes().to_vec()
            }
            (None, None) => return Ok(None),
        };
        Self::of(bytes).map(Some)
    }

    fn of(bytes: Vec<u8>) -> Result<Self, Failure> {
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => return Ok(Self::Bytes(STANDARD.encode(error.into_bytes()))),
        };
        json_or_string(&text)
            .map(Self::Json)
            .map_err(|error| Failure::Usage(format!("this cannot be sent as JSON: {error}")))
    }
}

/// Warns of an argument that is meant as JSON but is none. The shell may have eaten its quotes.
fn warn_of_broken_json(text: &str) {
    if text.trim_start().starts_with(['{', '['])
        && let Err(error) = serde_json::from_str::<&RawValue>(text)
    {
        warn(&format!("the payload is not JSON ({error}), so it is sent as a string"));
    }
}

/// JSON as it was written, or other text as a JSON string.
pub(super) fn json_or_string(text: &str) -> serde_json::Result<Box<RawValue>> {
    serde_json::from_str(text).or_else(|_| serde_json::value::to_raw_value(text))
}

/// A body: the payload, and the other fields.
#[derive(Serialize)]
pub struct WithPayload<T> {
    #[serde(flatten)]
    pub payload: Option<Payload>,
    #[serde(flatten)]
    pub fields: T,
}

/// The options that can be changed after the publish, besides the payload; serialized as the API's fields.
#[derive(Args, Clone, Debug, Serialize)]
pub struct Changes {
    /// Due this long from now, such as 10m.
    #[arg(long, value_name = "DURATION", value_parser = durations::parse)]
    #[serde(rename = "delay_ms", skip_serializing_if = "Option::is_none")]
    delay: Option<u64>,
    /// Due at this instant, such as 2026-11-20T18:15:00Z.
    #[arg(long, value_name = "INSTANT", value_parser = durations::instant, conflicts_with = "delay")]
    #[serde(rename = "deliver_at", skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    /// Priority from 0 to 255; of the messages that are due, higher ones go first.
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<u64>,
    /// Header of the message, repeatable.
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    #[serde(skip_serializing_if = "<[_]>::is_empty", serialize_with = "as_map")]
    headers: Vec<(String, String)>,
    /// Time to live, counted from the due time.
    #[arg(long, value_name = "DURATION", value_parser = durations::parse)]
    #[serde(rename = "ttl_ms", skip_serializing_if = "Option::is_none")]
    pub(super) ttl: Option<u64>,
    /// Attempts before the message is dead.
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_attempts: Option<u64>,
}

/// The options of a new message besides its payload; serialized as the API's fields.
#[derive(Args, Clone, Debug, Serialize)]
pub struct Options {
    #[command(flatten)]
    #[serde(flatten)]
    changes: Changes,
    /// A name for the message in its topic; only one live message has it at a time.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// What to do if the key is taken: answer with the existing message, refuse, or replace its content.
    #[arg(long, value_enum, requires = "key")]
    #[serde(skip_serializing_if = "Option::is_none")]
    on_duplicate: Option<OnDuplicate>,
    /// A group, whose messages are leased in the order in which they were published.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    /// A repeated publish with this key gets the first answer.
    #[arg(long, value_name = "KEY")]
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<String>,
}

#[derive(Clone, Copy, Debug, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum OnDuplicate {
    Return,
    Reject,
    Replace,
}

/// Serializes pairs as a map and keeps duplicate names: the server refuses them, where a map would drop one silently.
pub(super) fn as_map<V: Serialize, S: Serializer>(
    pairs: &[(String, V)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}

/// Parses `name=value`.
pub fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("a header is written name=value".to_owned()),
    }
}
