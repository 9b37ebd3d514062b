//! `dueq publish`: what is JSON is sent as it was written, other text as a string, and bytes that are no text in base64.

use super::{
    Ask, Out,
    client::{Client, path},
    durations,
    failure::Failure,
    view,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use clap::{Args, ValueEnum};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use std::{
    fs,
    io::{self, Read as _},
    path::PathBuf,
};

/// Arguments of `dueq publish`.
#[derive(Args, Clone, Debug)]
pub struct Publish {
    /// Where it goes; comes into being with its first message.
    topic: String,
    /// What parses as JSON is sent as that, other text as a string; `-` reads standard input.
    #[arg(allow_negative_numbers = true, required_unless_present = "file")]
    payload: Option<String>,
    /// Read the payload from this file.
    #[arg(long, value_name = "PATH", conflicts_with = "payload")]
    file: Option<PathBuf>,
    /// Due this long from now, such as 10m.
    #[arg(long, value_name = "DURATION", value_parser = durations::parse)]
    delay: Option<u64>,
    /// Due at this instant, such as 2026-11-20T18:15:00Z.
    #[arg(long, value_name = "INSTANT", value_parser = durations::instant, conflicts_with = "delay")]
    at: Option<String>,
    /// The message's own name in its topic, for one live message at a time.
    #[arg(long)]
    key: Option<String>,
    /// What to do where the key is taken: answer with the message there is, refuse, or give that one the new content.
    #[arg(long, value_enum, requires = "key")]
    on_duplicate: Option<OnDuplicate>,
    /// From 0 to 255; among messages that are due, higher goes first.
    #[arg(long, value_name = "N")]
    priority: Option<u64>,
    /// A header that goes with the message; can be repeated.
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// Not granted later than this after it fell due.
    #[arg(long, value_name = "DURATION", value_parser = durations::parse)]
    ttl: Option<u64>,
    /// Attempts before the message is dead.
    #[arg(long, value_name = "N")]
    max_attempts: Option<u64>,
    /// A second publish with this key answers as the first did.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

#[derive(Clone, Copy, Debug, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum OnDuplicate {
    Return,
    Reject,
    Replace,
}

#[derive(Serialize)]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deliver_at: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_duplicate: Option<OnDuplicate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<u64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty", serialize_with = "as_map")]
    headers: &'a [(String, String)],
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
}

impl Ask for Publish {
    async fn ask(&self, client: &Client, out: &mut Out<'_>) -> Result<(), Failure> {
        let answer =
            client.post(&path(&["topics", &self.topic, "messages"]), &self.body()?).await?;
        out.show(&answer, view::message)
    }
}

impl Publish {
    fn body(&self) -> Result<Body<'_>, Failure> {
        let (payload, payload_base64) = match self.read()? {
            Payload::Json(json) => (Some(json), None),
            Payload::Bytes(bytes) => (None, Some(STANDARD.encode(bytes))),
        };
        Ok(Body {
            payload,
            payload_base64,
            delay_ms: self.delay,
            deliver_at: self.at.as_deref(),
            key: self.key.as_deref(),
            on_duplicate: self.on_duplicate,
            priority: self.priority,
            headers: &self.headers,
            ttl_ms: self.ttl,
            max_attempts: self.max_attempts,
            idempotency_key: self.idempotency_key.as_deref(),
        })
    }

    fn read(&self) -> Result<Payload, Failure> {
        let unread =
            |from: &str, error: &io::Error| Failure::Usage(format!("cannot read {from}: {error}"));
        let bytes = match (&self.file, self.payload.as_deref()) {
            (Some(file), _) => {
                fs::read(file).map_err(|error| unread(&file.display().to_string(), &error))?
            }
            (None, Some("-")) => {
                let mut bytes = Vec::new();
                let read = io::stdin().read_to_end(&mut bytes);
                read.map_err(|error| unread("standard input", &error))?;
                bytes
            }
            (None, text) => text.unwrap_or_default().as_bytes().to_vec(),
        };
        Payload::of(bytes)
    }
}

/// What is to be sent.
enum Payload {
    Json(Box<RawValue>),
    Bytes(Vec<u8>),
}

impl Payload {
    fn of(bytes: Vec<u8>) -> Result<Self, Failure> {
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => return Ok(Self::Bytes(error.into_bytes())),
        };
        serde_json::from_str(&text)
            .or_else(|_| serde_json::value::to_raw_value(&text))
            .map(Self::Json)
            .map_err(|error| Failure::Usage(format!("this cannot be sent as JSON: {error}")))
    }
}

/// Names that are given twice stay so: the server refuses them, where a map here would drop one silently.
fn as_map<S: Serializer>(pairs: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}

fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("a header is written name=value".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{CREATED, asked};

    #[tokio::test]
    async fn json_is_sent_as_it_was_written() {
        for json in
            [r#"{"z": 1.50, "a":[1E400 ,null]}"#, "null", "-5", "\"a\"", "12345678901234567890123"]
        {
            let sent = asked(&["publish", "orders", json], CREATED).await;
            assert_eq!(
                sent.lines(),
                ("POST /topics/orders/messages", &*format!("{{\"payload\":{json}}}"))
            );
        }
    }

    #[tokio::test]
    async fn other_text_is_sent_as_a_string() {
        for (text, json) in [
            ("hello", r#""hello""#),
            ("", r#""""#),
            ("{a", r#""{a""#),
            ("1 2", r#""1 2""#),
            ("a\"b\n", r#""a\"b\n""#),
        ] {
            let sent = asked(&["publish", "orders", text], CREATED).await;
            assert_eq!(sent.body, format!("{{\"payload\":{json}}}"));
        }
    }

    #[tokio::test]
    async fn a_file_of_bytes_is_sent_in_base64() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [0xff, 0, 1]).unwrap();
        let sent =
            asked(&["publish", "orders", "--file", file.path().to_str().unwrap()], CREATED).await;
        assert_eq!(sent.body, r#"{"payload_base64":"/wAB"}"#);
    }

    #[tokio::test]
    async fn every_option_has_its_field() {
        let words = "publish a 1 --at 2026-11-20T18:15:00+01:00 --key k --on-duplicate replace --priority 9 \
                     --header b=c=d --header a= --ttl 1h --max-attempts 3 --idempotency-key i";
        let sent = asked(&words.split_whitespace().collect::<Vec<_>>(), CREATED).await;
        assert_eq!(
            sent.body,
            r#"{"payload":1,"deliver_at":"2026-11-20T18:15:00+01:00","key":"k","on_duplicate":"replace","priority":9,"headers":{"b":"c=d","a":""},"ttl_ms":3600000,"max_attempts":3,"idempotency_key":"i"}"#
        );
        let sent = asked(&["publish", "a", "1", "--delay", "1h30m"], CREATED).await;
        assert_eq!(sent.body, r#"{"payload":1,"delay_ms":5400000}"#);
    }
}
