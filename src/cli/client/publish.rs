//! `dueq publish`: JSON is sent as it was written, other text as a string, and other bytes in base64.

use super::{
    Out, Run,
    api::{Client, path},
    failure::Failure,
    payload::{Options, Payload},
    view,
};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

const EXAMPLES: &str = r#"Examples:
  dueq publish orders '{"order": 42}' --delay 30m
  dueq publish orders hello --at 2030-01-01T09:00:00Z --priority 9
  dueq publish orders '{"order": 42}' --delay 1h --key order/42 --on-duplicate replace
  dueq publish orders '{"order": 42}' --group customer-7
  echo '[1, 2]' | dueq publish orders -"#;

/// Arguments of `dueq publish`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Publish {
    /// The topic; created by its first message.
    topic: String,
    /// JSON is sent as it is, other text as a string; `-` reads standard input.
    #[arg(allow_negative_numbers = true, required_unless_present = "file")]
    payload: Option<String>,
    /// Read the payload from this file.
    #[arg(long, value_name = "PATH", conflicts_with = "payload")]
    file: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
    /// In a pushed topic: send this message to this URL, not to the topic's.
    #[arg(long, value_name = "URL")]
    callback: Option<String>,
}

#[derive(Serialize)]
struct Body<'a> {
    #[serde(flatten)]
    payload: Option<Payload>,
    #[serde(flatten)]
    options: &'a Options,
    #[serde(skip_serializing_if = "Option::is_none")]
    callback: Option<Callback<'a>>,
}

#[derive(Serialize)]
struct Callback<'a> {
    url: &'a str,
}

impl Run for Publish {
    async fn run(&self, client: &Client, out: &mut Out<'_>) -> Result<(), Failure> {
        let body = Body {
            payload: Payload::read(self.payload.as_deref(), self.file.as_deref())?,
            options: &self.options,
            callback: self.callback.as_deref().map(|url| Callback { url }),
        };
        let answer = client.post(&path(&["topics", &self.topic, "messages"]), &body).await?;
        out.show(&answer, view::message)
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
                     --header b=c=d --header a= --ttl 1h --max-attempts 3 --group g --idempotency-key i";
        let sent = asked(&words.split_whitespace().collect::<Vec<_>>(), CREATED).await;
        assert_eq!(
            sent.body,
            r#"{"payload":1,"deliver_at":"2026-11-20T18:15:00+01:00","priority":9,"headers":{"b":"c=d","a":""},"ttl_ms":3600000,"max_attempts":3,"key":"k","on_duplicate":"replace","group":"g","idempotency_key":"i"}"#
        );
        let sent = asked(&["publish", "a", "1", "--delay", "1h30m"], CREATED).await;
        assert_eq!(sent.body, r#"{"payload":1,"delay_ms":5400000}"#);
    }

    #[tokio::test]
    async fn a_message_names_its_own_callback() {
        let words = ["publish", "a", "1", "--callback", "https://example.com/hook"];
        let sent = asked(&words, CREATED).await;
        assert_eq!(sent.body, r#"{"payload":1,"callback":{"url":"https://example.com/hook"}}"#);
    }
}
