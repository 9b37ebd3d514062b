//! A call as text: when it came, what it is, whether its signature is right, and its payload. What strangers sent cannot
//! command the terminal.

use super::{json, secrets::Signature};
use crate::cli::client::{
    durations::rough,
    table::{clean, cut, fields},
};
use anstyle::{AnsiColor, Style};
use dueq_model::{Millis, format_instant, is_credential, parse_instant};
use http::{HeaderMap, StatusCode, request};

/// The most that is shown of a payload: lines, and characters of a line; bytes of one that is no text.
const MAX_LINES: usize = 200;
const MAX_LINE_CHARS: usize = 2_000;
const MAX_BINARY: usize = 512;

/// Headers that are shown by name elsewhere, or that say nothing about the call.
const NOT_SHOWN: [&str; 12] = [
    "accept",
    "connection",
    "content-length",
    "dueq-attempt",
    "dueq-due-at",
    "dueq-signature",
    "dueq-topic",
    "host",
    "transfer-encoding",
    "webhook-id",
    "webhook-signature",
    "webhook-timestamp",
];

/// Formats a call that came at the instant `at` and is answered with `status`.
pub fn call(
    head: &request::Parts,
    payload: &[u8],
    signature: &Signature,
    status: StatusCode,
    at: Millis,
) -> String {
    let bold = Style::new().bold();
    let answered = if status.is_success() { AnsiColor::Green } else { AnsiColor::Red }.on_default();
    let target = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut text = format!(
        "\n{}  {bold}{} {}{bold:#} → {answered}{}{answered:#}\n",
        format_instant(at),
        clean(head.method.as_str()),
        clean(target),
        status.as_u16()
    );
    let value = |name| text_of(&head.headers, name);
    let rows = [
        ("topic", value("dueq-topic")),
        ("id", value("webhook-id")),
        ("attempt", value("dueq-attempt")),
        ("due", due(&value("dueq-due-at"), at)),
    ];
    let rows = rows.into_iter().map(|(name, value)| (name.to_owned(), value));
    let known = head.headers.keys().filter(|name| !NOT_SHOWN.contains(&name.as_str()));
    let others = known.map(|name| (name.to_string(), text_of(&head.headers, name.as_str())));
    let signature = match signature {
        Signature::Valid => "valid".to_owned(),
        Signature::Unchecked => "not checked: there is no secret".to_owned(),
        Signature::Wrong(reason) => format!("not accepted: {reason}"),
    };
    let signature = [("signature".to_owned(), signature)];
    let body = fields(rows.chain(others).chain(signature)) + &shown(payload);
    for line in body.lines() {
        text.push_str(&format!("  {line}\n"));
    }
    text
}

/// A header's values. Those that let one log in are not shown.
fn text_of(headers: &HeaderMap, name: &str) -> String {
    let values = headers.get_all(name).iter();
    let values = values.map(|value| match is_credential(name) {
        true => format!("*** ({} bytes)", value.len()),
        false => String::from_utf8_lossy(value.as_bytes()).into_owned(),
    });
    values.collect::<Vec<_>>().join(", ")
}

/// A due time, and how long after it the call came.
fn due(instant: &str, at: Millis) -> String {
    match parse_instant(instant).map(|due| at - due) {
        Ok(late @ 0..) => format!("{instant} ({} late)", rough(late)),
        Ok(early) => format!("{instant} ({} early by this machine's clock)", rough(-early)),
        Err(_) => instant.to_owned(),
    }
}

/// A payload: JSON indented, other text line by line, other bytes escaped.
fn shown(payload: &[u8]) -> String {
    let Ok(text) = str::from_utf8(payload) else {
        let start = &payload[..payload.len().min(MAX_BINARY)];
        let more = if payload.len() > MAX_BINARY { "…" } else { "" };
        return format!("{}{more} ({} bytes)", start.escape_ascii(), payload.len());
    };
    if let Some(json) = json::pretty(text) {
        return first_lines(json.lines().map(str::to_owned));
    }
    first_lines(text.lines().map(|line| clean(&cut(line, MAX_LINE_CHARS))))
}

fn first_lines(lines: impl Iterator<Item = String>) -> String {
    let mut lines = lines.peekable();
    let mut shown: Vec<String> = lines.by_ref().take(MAX_LINES).collect();
    if lines.peek().is_some() {
        shown.push(format!("… {} more lines", lines.count()));
    }
    shown.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    const AT: Millis = 1_763_700_000_123;

    fn plain(headers: &[(&str, &[u8])], payload: &[u8], signature: &Signature) -> String {
        let mut request = Request::post("/close?a=%1b");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        let text = call(&head, payload, signature, StatusCode::NO_CONTENT, AT);
        anstream::adapter::strip_str(&text).to_string()
    }

    #[test]
    fn a_call_is_shown_with_its_topic_attempt_and_lateness() {
        let headers: [(&str, &[u8]); 7] = [
            ("dueq-topic", b"_callbacks"),
            ("webhook-id", b"01a1"),
            ("dueq-attempt", b"2"),
            ("dueq-due-at", b"2025-11-21T04:40:00.120Z"),
            ("host", b"127.0.0.1:9123"),
            ("x-tenant", b"42"),
            ("authorization", b"Bearer sesame"),
        ];
        let shown = plain(&headers, b"{\"order\":42}", &Signature::Valid);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(
            lines,
            [
                "",
                "2025-11-21T04:40:00.123Z  POST /close?a=%1b → 204",
                "  topic          _callbacks",
                "  id             01a1",
                "  attempt        2",
                "  due            2025-11-21T04:40:00.120Z (3ms late)",
                "  x-tenant       42",
                "  authorization  *** (13 bytes)",
                "  signature      valid",
                "  {",
                "    \"order\": 42",
                "  }",
            ]
        );
    }

    #[test]
    fn hostile_bytes_are_escaped() {
        let headers: [(&str, &[u8]); 2] = [("x-a", b"\x9b2J\xff"), ("dueq-due-at", b"\xc2\x9b2J")];
        let payloads: [(&[u8], &str); 4] = [
            (b"a\x1b[2J\r\nb\x07", "  a\\u{1b}[2J\n  b\\u{7}\n"),
            (b"\xff\x1b[2J", "  \\xff\\x1b[2J (5 bytes)\n"),
            ("{\"\u{202e}\": 1}".as_bytes(), "\"\\u202e\": 1"),
            ("\u{2028}x".as_bytes(), "\\u{2028}x"),
        ];
        for (payload, part) in payloads {
            let shown = plain(&headers, payload, &Signature::Wrong("\u{1b}c".to_owned()));
            assert!(shown.contains(part), "{part}: {shown}");
            assert!(
                !shown.contains(['\u{1b}', '\u{9b}', '\u{7}', '\u{202e}', '\u{2028}']),
                "{shown:?}"
            );
        }
    }

    #[test]
    fn large_payloads_are_cut() {
        let lines = plain(&[], "x\n".repeat(1_000).as_bytes(), &Signature::Unchecked);
        assert!(lines.ends_with("… 800 more lines\n"), "{lines}");
        let line = plain(&[], "x".repeat(1_000_000).as_bytes(), &Signature::Unchecked);
        assert!(line.len() < 3_000 && line.ends_with("…\n"), "{}", line.len());
        let bytes = plain(&[], &[0xff; 1_000_000], &Signature::Unchecked);
        assert!(bytes.len() < 3_000 && bytes.ends_with("… (1000000 bytes)\n"), "{}", bytes.len());
    }
}
