//! What a publish asked for, as one number: a repeated publish with the same idempotency key must ask for the same.
//! Requests are compared as they were understood: the order of members, white space, escapes and the spelling of numbers
//! make no difference, and what is said explicitly is the same as the default.
//!
//! Every instance and every version must come to the same number for as long as an idempotency key answers, so what is
//! hashed is spelled out here rather than derived from types.

use super::syntax::{Text, end_of_string};
use crate::model::{CallMethod, Content, OCTETS};
use crate::store::{Due, KeyUntil, NewMessage, OnDuplicate};
use siphasher::sip::SipHasher13;
use std::{borrow::Cow, hash::Hasher};

/// The fingerprint of all that a message says, its idempotency key apart.
pub(super) fn fingerprint(message: &NewMessage) -> u64 {
    let mut sum = Sum::new(b'm');
    match &message.body.content {
        Content::Json(json) => {
            sum.number(0);
            sum.number(Walk { text: json, at: 0 }.value());
        }
        content @ Content::Bytes { data, .. } => {
            sum.number(1);
            sum.text(data);
            sum.text(content.content_type().unwrap_or(OCTETS).as_bytes());
        }
    }
    sum.number(message.body.headers.len() as u64);
    for (name, value) in &message.body.headers {
        sum.text(name.as_bytes());
        sum.text(value.as_bytes());
    }
    let (kind, due) = match message.due {
        Due::After(delay) => (0, delay),
        Due::At(instant) => (1, instant),
    };
    sum.number(kind);
    sum.number(due as u64);
    let options = &message.options;
    sum.number(options.priority.into());
    sum.optional(options.max_attempts.map(u64::from));
    sum.optional(options.ttl_ms.map(|ttl| ttl as u64));
    let backoff = options.backoff.as_ref().map(|backoff| backoff.to_script());
    sum.text(backoff.unwrap_or_default().as_bytes());
    if let Some(key) = &options.key {
        sum.text(key.name.as_bytes());
        sum.number(match key.on_duplicate {
            OnDuplicate::Return => 0,
            OnDuplicate::Reject => 1,
            OnDuplicate::Replace => 2,
        });
        sum.number(match key.until {
            KeyUntil::Done => 0,
            KeyUntil::Granted => 1,
        });
    }
    if let Some(callback) = &message.body.callback {
        // No text of a key is as long as this says, so that a callback is never taken for one.
        sum.number(u64::MAX);
        sum.text(callback.url.as_str().as_bytes());
        sum.text(callback.method.map_or("", CallMethod::as_str).as_bytes());
        sum.optional(callback.timeout_ms.map(|timeout| timeout as u64));
        // What older versions did not know counts only where it is said.
        for name in &callback.secret_headers {
            sum.text(name.to_ascii_lowercase().as_bytes());
        }
        if let Some(secret) = &callback.secret {
            sum.number(u64::MAX - 1);
            sum.text(secret.reveal().as_bytes());
        }
    }
    sum.finish()
}

/// SipHash-1-3 over parts whose bounds and kinds are part of what is hashed. The key is no secret: who makes two
/// requests collide only fools himself.
struct Sum(SipHasher13);

impl Sum {
    fn new(kind: u8) -> Self {
        let mut hasher = SipHasher13::new();
        hasher.write(&[kind]);
        Self(hasher)
    }

    fn number(&mut self, number: u64) {
        self.0.write(&number.to_le_bytes());
    }

    fn optional(&mut self, number: Option<u64>) {
        self.number(number.is_some().into());
        self.number(number.unwrap_or(0));
    }

    fn text(&mut self, text: &[u8]) {
        self.number(text.len() as u64);
        self.0.write(text);
    }

    fn finish(self) -> u64 {
        self.0.finish()
    }
}

/// What stands after the last byte; no JSON has it.
const END: u8 = 0;

/// A walk over JSON that is known to be well-formed and nested within bounds: each value becomes a number.
struct Walk<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    fn peek(&mut self) -> u8 {
        while self.text.get(self.at).is_some_and(|byte| b" \t\r\n".contains(byte)) {
            self.at += 1;
        }
        self.text.get(self.at).copied().unwrap_or(END)
    }

    /// The byte that is next, white space apart.
    fn next(&mut self) -> u8 {
        let byte = self.peek();
        self.at += 1;
        byte
    }

    fn value(&mut self) -> u64 {
        match self.peek() {
            b'{' => self.object(),
            b'[' => self.array(),
            b'"' => {
                let mut sum = Sum::new(b'"');
                sum.text(&self.string());
                sum.finish()
            }
            _ => scalar(self.bare()),
        }
    }

    fn object(&mut self) -> u64 {
        let mut members = Vec::new();
        self.next();
        while !matches!(self.peek(), b'}' | END) {
            let name = self.string();
            self.next();
            members.push((name, self.value()));
            self.skip_comma();
        }
        self.next();
        // Stable: of equal names the order matters.
        members.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut sum = Sum::new(b'{');
        for (name, value) in members {
            sum.text(&name);
            sum.number(value);
        }
        sum.finish()
    }

    fn array(&mut self) -> u64 {
        let mut sum = Sum::new(b'[');
        self.next();
        while !matches!(self.peek(), b']' | END) {
            sum.number(self.value());
            self.skip_comma();
        }
        self.next();
        sum.finish()
    }

    fn skip_comma(&mut self) {
        if self.peek() == b',' {
            self.next();
        }
    }

    /// A string, decoded; one that has no decoded form (a lone surrogate) as it is written.
    fn string(&mut self) -> Cow<'a, [u8]> {
        self.peek();
        let start = self.at;
        self.at = end_of_string(self.text, start + 1);
        let written = self.text.get(start..self.at).unwrap_or_default();
        let escaped = written.contains(&b'\\');
        if escaped && let Ok(Text(text)) = serde_json::from_slice(written) {
            return Cow::Owned(text.into_owned().into_bytes());
        }
        Cow::Borrowed(written.get(1..written.len().max(2) - 1).unwrap_or_default())
    }

    /// A number, true, false or null.
    fn bare(&mut self) -> &'a [u8] {
        let start = self.at;
        while self.text.get(self.at).is_some_and(|byte| !b",]} \t\r\n".contains(byte)) {
            self.at += 1;
        }
        self.text.get(start..self.at).unwrap_or_default()
    }
}

/// Numbers by their value: integers exactly, others as doubles, and what is too large for one by its spelling.
fn scalar(text: &[u8]) -> u64 {
    /// Up to here a double says exactly which integer it is.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let spelled = std::str::from_utf8(text).unwrap_or_default();
    let is_number = spelled.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    let integer = spelled.parse::<i128>().ok();
    let double = spelled.parse::<f64>().ok().filter(|double| is_number && double.is_finite());
    let whole = double.filter(|double| double.fract() == 0.0 && double.abs() <= EXACT);
    let mut sum = Sum::new(b'0');
    match (integer.or(whole.map(|double| double as i128)), double) {
        (Some(integer), _) => sum.text(&integer.to_le_bytes()),
        (None, Some(double)) => sum.number(double.to_bits()),
        (None, None) => sum.text(text),
    }
    sum.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Backoff, Body, CallUrl, Callback, SigningSecret};
    use crate::store::{MessageKey, MessageOptions};
    use bytes::Bytes;

    fn json(text: &str) -> NewMessage {
        let content = Content::Json(Bytes::copy_from_slice(text.as_bytes()));
        NewMessage {
            body: Body::new(content, Default::default()),
            due: Due::After(0),
            options: MessageOptions::default(),
        }
    }

    fn of(text: &str) -> u64 {
        fingerprint(&json(text))
    }

    #[test]
    fn payloads_that_say_the_same_are_the_same() {
        for (a, b) in [
            (r#"{"a":1,"b":[true,null]}"#, "{ \"b\" : [ true , null ] ,\n \"a\" : 1.0 }"),
            (r#"{"\u0061":"\u00e9\n"}"#, "{\"a\":\"é\\u000a\"}"),
            ("[1e2, -0, 0.5]", "[100,0,5e-1]"),
            (
                "12345678901234567890123456789012345678901",
                "12345678901234567890123456789012345678901.0",
            ),
            ("{}", " { } "),
            ("[]", "[ ]"),
            (r#"{"a":{"x":1,"y":2}}"#, r#"{"a":{"y":2,"x":1}}"#),
        ] {
            assert_eq!(of(a), of(b), "{a} {b}");
        }
    }

    #[test]
    fn payloads_that_say_other_things_are_others() {
        let all = [
            "{}",
            "[]",
            "null",
            "true",
            "false",
            "0",
            "\"\"",
            "\"0\"",
            "\"null\"",
            "[0]",
            "[[]]",
            "[[],[]]",
            "[[[]]]",
            "[1,2]",
            "[2,1]",
            "[12]",
            "{\"a\":1}",
            "{\"a\":2}",
            "{\"b\":1}",
            "{\"a\":1,\"a\":2}",
            "{\"a\":2,\"a\":1}",
            "9007199254740992",
            "9007199254740993",
            "1e400",
            "1e401",
            "0.1",
            "0.2",
            "\"a\\\"\"",
            "\"a\\\\\"",
            "[\"a\",\"b\"]",
            "[\"ab\"]",
            "[{\"a\":1},{}]",
            "[{},{\"a\":1}]",
            "\"\\ud800\"",
            "-1",
            "1",
        ];
        for (i, a) in all.iter().enumerate() {
            for b in &all[..i] {
                assert_ne!(of(a), of(b), "{a} {b}");
            }
        }
    }

    #[test]
    fn everything_but_the_idempotency_key_counts() {
        let plain = json("1");
        let change = |change: &dyn Fn(&mut NewMessage)| {
            let mut message = plain.clone();
            change(&mut message);
            fingerprint(&message)
        };
        let key = |on_duplicate, until| Some(MessageKey { name: "k".into(), on_duplicate, until });
        let url = |text| CallUrl::parse(text).unwrap();
        let call = |method, timeout_ms| {
            Some(Callback { method, timeout_ms, ..Callback::to(url("http://example.com/")) })
        };
        let bytes = |data: &'static [u8], content_type: &str| Content::Bytes {
            data: Bytes::from_static(data),
            content_type: content_type.into(),
        };
        let all = [
            fingerprint(&plain),
            change(&|m| m.due = Due::After(1)),
            change(&|m| m.due = Due::At(1)),
            change(&|m| m.options.priority = 1),
            change(&|m| m.options.max_attempts = Some(1)),
            change(&|m| m.options.ttl_ms = Some(1)),
            change(&|m| m.options.backoff = Some(Backoff::default())),
            change(&|m| m.options.key = key(OnDuplicate::Return, KeyUntil::Done)),
            change(&|m| m.options.key = key(OnDuplicate::Reject, KeyUntil::Done)),
            change(&|m| m.options.key = key(OnDuplicate::Return, KeyUntil::Granted)),
            change(&|m| drop(m.body.headers.insert("a".into(), "b".into()))),
            change(&|m| m.body.content = bytes(b"1", "text/plain")),
            change(&|m| m.body.content = bytes(b"1", "text/html")),
            change(&|m| m.body.callback = call(None, None)),
            change(&|m| m.body.callback = call(Some(CallMethod::Post), None)),
            change(&|m| m.body.callback = call(None, Some(100))),
            change(&|m| {
                let callback = Callback::to(url("http://example.com/"));
                let secret_headers = vec!["x-a".to_owned()];
                m.body.callback = Some(Callback { secret_headers, ..callback });
            }),
            change(&|m| {
                let callback = Callback::to(url("http://example.com/"));
                let secret = SigningSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").ok();
                m.body.callback = Some(Callback { secret, ..callback });
            }),
            change(&|m| {
                m.body.callback = call(None, None);
                m.options.key = key(OnDuplicate::Return, KeyUntil::Done);
            }),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(!all[..i].contains(a), "{i}");
        }
    }

    #[test]
    fn the_number_stays_the_same_from_version_to_version() {
        assert_eq!(of(r#"{"a":[1,"x"]}"#), 6_150_317_524_817_582_876);
    }
}
