//! `dueq publish` and `dueq callback`, which calls a URL later and retries until it answers 2xx. The arguments are
//! serialized as the API's fields; of the payload, JSON is sent as it was written, other text as a string, and other bytes
//! in base64.

use super::{
    api::path,
    context::Context,
    durations,
    failure::Failure,
    payload::{Options, Payload, WithPayload},
    view,
};
use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use dueq_model::CallMethod;
use dueq_store::is_default;
use serde::Serialize;
use std::path::PathBuf;

const EXAMPLES: &str = r#"Examples:
  dueq publish orders '{"order": 42}' --delay 30m
  dueq publish orders hello --at 2030-01-01T09:00:00Z --priority 9
  dueq publish orders '{"order": 42}' --delay 1h --key order/42 --on-duplicate replace
  dueq publish orders '{"order": 42}' --group customer-7
  echo '[1, 2]' | dueq publish orders -"#;

/// Arguments of `dueq publish`.
#[derive(Args, Serialize)]
#[command(after_help = EXAMPLES)]
pub struct Publish {
    /// The topic; created by its first message.
    #[serde(skip)]
    topic: String,
    /// JSON is sent as it is, other text as a string; `-` reads standard input.
    #[arg(allow_negative_numbers = true, required_unless_present = "file")]
    #[serde(skip)]
    payload: Option<String>,
    /// Read the payload from this file.
    #[arg(long, value_name = "PATH", conflicts_with = "payload")]
    #[serde(skip)]
    file: Option<PathBuf>,
    #[command(flatten)]
    #[serde(flatten)]
    options: Options,
    #[command(flatten)]
    #[serde(skip_serializing_if = "is_default")]
    callback: MessageCallback,
}

#[derive(Args, Default, PartialEq, Serialize)]
struct MessageCallback {
    /// In a pushed topic: send this message to this URL, not to the topic's.
    #[arg(long = "callback", value_name = "URL")]
    url: Option<String>,
}

impl Publish {
    pub async fn run(&self, cx: &mut Context<'_>) -> Result<(), Failure> {
        let payload = Payload::read(self.payload.as_deref(), self.file.as_deref())?;
        let body = WithPayload { payload, fields: self };
        let answer = cx.client.post(&path(&["topics", &self.topic, "messages"]), &body).await?;
        cx.show(&answer, view::message)
    }
}

/// Arguments of `dueq callback`.
#[derive(Args, Serialize)]
pub struct Callback {
    /// URL to call, such as https://example.com/hook.
    url: String,
    /// JSON is sent as it is, other text as a string; `-` reads standard input. Without a payload the body is empty.
    #[arg(allow_negative_numbers = true)]
    #[serde(skip)]
    payload: Option<String>,
    /// Read the payload from this file.
    #[arg(long, value_name = "PATH", conflicts_with = "payload")]
    #[serde(skip)]
    file: Option<PathBuf>,
    /// HTTP method, by default POST.
    #[arg(long, value_parser = method(), ignore_case = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<CallMethod>,
    /// How long one call may take, such as 15s.
    #[arg(long, value_name = "DURATION", value_parser = durations::parse)]
    #[serde(rename = "timeout_ms", skip_serializing_if = "Option::is_none")]
    timeout: Option<u64>,
    #[command(flatten)]
    #[serde(flatten)]
    options: Options,
}

/// Parses the name of a method, in upper or lower case.
fn method() -> impl TypedValueParser<Value = CallMethod> {
    PossibleValuesParser::new(CallMethod::ALL.map(|(word, _)| word)).try_map(|given| {
        let mut known = CallMethod::ALL.into_iter();
        let found = known.find(|(word, _)| word.eq_ignore_ascii_case(&given));
        found.map(|(_, method)| method).ok_or("not a method that callbacks can use")
    })
}

impl Callback {
    pub async fn run(&self, cx: &mut Context<'_>) -> Result<(), Failure> {
        let payload = Payload::read(self.payload.as_deref(), self.file.as_deref())?;
        let body = WithPayload { payload, fields: self };
        cx.show(&cx.client.post("/callbacks", &body).await?, view::message)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{CREATED, asked, unparsed};

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

    const URL: &str = "https://example.com/hook";

    #[tokio::test]
    async fn a_url_is_enough() {
        let sent = asked(&["callback", URL], CREATED).await;
        assert_eq!(sent.lines(), ("POST /callbacks", r#"{"url":"https://example.com/hook"}"#));
        assert_eq!(sent.shown, "id  1\n");
    }

    #[tokio::test]
    async fn a_payload_of_a_callback_is_json_or_else_a_string() {
        for (given, sent_as) in [
            (r#"{"z": 1.50}"#, r#"{"z": 1.50}"#),
            ("null", "null"),
            ("-5", "-5"),
            ("hello", r#""hello""#),
            ("", r#""""#),
        ] {
            let sent = asked(&["callback", URL, given, "--delay", "30m"], CREATED).await;
            let body = format!(r#"{{"payload":{sent_as},"url":"{URL}","delay_ms":1800000}}"#);
            assert_eq!(sent.body, body);
        }
    }

    #[tokio::test]
    async fn every_option_of_a_callback_has_its_field() {
        let words = "callback http://a/b 1 --at 2026-11-20T18:15:00Z --key k --on-duplicate reject --method put \
                     --timeout 1m --header b=c --header d= --priority 9 --max-attempts 3 --ttl 1h --idempotency-key i";
        let sent = asked(&words.split_whitespace().collect::<Vec<_>>(), CREATED).await;
        assert_eq!(
            sent.body,
            r#"{"payload":1,"url":"http://a/b","method":"PUT","timeout_ms":60000,"deliver_at":"2026-11-20T18:15:00Z","priority":9,"headers":{"b":"c","d":""},"ttl_ms":3600000,"max_attempts":3,"key":"k","on_duplicate":"reject","idempotency_key":"i"}"#
        );
    }

    #[test]
    fn contradictory_or_invalid_arguments_are_refused() {
        for more in [
            &["--method", "TRACE"][..],
            &["--timeout", "soon"],
            &["--header", "=c"],
            &["--delay", "1m", "--at", "2026-11-20T18:15:00Z"],
            &["1", "--file", "/dev/null"],
            &["1", "2"],
        ] {
            assert!(unparsed(&[&["callback", URL], more].concat()), "{more:?}");
        }
        assert!(unparsed(&["callback"]));
    }
}
