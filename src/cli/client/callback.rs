//! `dueq callback`: calls a URL later, and retries until it answers 2xx.

use super::{
    Out, Run,
    api::Client,
    durations,
    failure::Failure,
    payload::{Options, Payload},
    view,
};
use crate::model::CallMethod;
use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use serde::Serialize;
use std::path::PathBuf;

/// Arguments of `dueq callback`.
#[derive(Args, Clone, Debug)]
pub struct Callback {
    /// URL to call, such as https://example.com/hook.
    url: String,
    /// JSON is sent as it is, other text as a string; `-` reads standard input. Without a payload the body is empty.
    #[arg(allow_negative_numbers = true)]
    payload: Option<String>,
    /// Read the payload from this file.
    #[arg(long, value_name = "PATH", conflicts_with = "payload")]
    file: Option<PathBuf>,
    /// HTTP method, by default POST.
    #[arg(long, value_parser = method(), ignore_case = true)]
    method: Option<CallMethod>,
    /// How long one call may take, such as 15s.
    #[arg(long, value_name = "DURATION", value_parser = durations::parse)]
    timeout: Option<u64>,
    #[command(flatten)]
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

#[derive(Serialize)]
struct Body<'a> {
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<CallMethod>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
    #[serde(flatten)]
    payload: Option<Payload>,
    #[serde(flatten)]
    options: &'a Options,
}

impl Run for Callback {
    async fn run(&self, client: &Client, out: &mut Out<'_>) -> Result<(), Failure> {
        let body = Body {
            url: &self.url,
            method: self.method,
            timeout_ms: self.timeout,
            payload: Payload::read(self.payload.as_deref(), self.file.as_deref())?,
            options: &self.options,
        };
        out.show(&client.post("/callbacks", &body).await?, view::message)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{CREATED, asked, unparsed};

    const URL: &str = "https://example.com/hook";

    #[tokio::test]
    async fn a_url_is_enough() {
        let sent = asked(&["callback", URL], CREATED).await;
        assert_eq!(sent.lines(), ("POST /callbacks", r#"{"url":"https://example.com/hook"}"#));
        assert_eq!(sent.shown, "id  1\n");
    }

    #[tokio::test]
    async fn a_payload_is_json_or_else_a_string() {
        for (given, sent_as) in [
            (r#"{"z": 1.50}"#, r#"{"z": 1.50}"#),
            ("null", "null"),
            ("-5", "-5"),
            ("hello", r#""hello""#),
            ("", r#""""#),
        ] {
            let sent = asked(&["callback", URL, given, "--delay", "30m"], CREATED).await;
            let body = format!(r#"{{"url":"{URL}","payload":{sent_as},"delay_ms":1800000}}"#);
            assert_eq!(sent.body, body);
        }
    }

    #[tokio::test]
    async fn every_option_has_its_field() {
        let words = "callback http://a/b 1 --at 2026-11-20T18:15:00Z --key k --on-duplicate reject --method put \
                     --timeout 1m --header b=c --header d= --priority 9 --max-attempts 3 --ttl 1h --idempotency-key i";
        let sent = asked(&words.split_whitespace().collect::<Vec<_>>(), CREATED).await;
        assert_eq!(
            sent.body,
            r#"{"url":"http://a/b","method":"PUT","timeout_ms":60000,"payload":1,"deliver_at":"2026-11-20T18:15:00Z","priority":9,"headers":{"b":"c","d":""},"ttl_ms":3600000,"max_attempts":3,"key":"k","on_duplicate":"reject","idempotency_key":"i"}"#
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
