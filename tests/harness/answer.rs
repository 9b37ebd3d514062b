//! An answer of the server, and what a test may demand of it.

use std::collections::BTreeMap;
use std::fmt;

use reqwest::header::HeaderMap;
use serde_json::Value;
use serde_json::value::RawValue;

use super::client::{number, text};
use super::instant_ms;

/// A whole answer.
#[derive(Clone)]
pub struct Answer {
    /// What was asked: method and path.
    pub request: String,
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body's bytes.
    pub body: Vec<u8>,
}

impl Answer {
    /// An answer that was read.
    pub fn new(request: String, status: u16, headers: HeaderMap, body: impl AsRef<[u8]>) -> Answer {
        let body = body.as_ref().to_vec();
        Answer { request, status, headers, body }
    }

    /// What holds of every answer: never 500, a request id, errors as problems, a newline at the end,
    /// no null but a payload's, and every `…_at` an instant. What was published comes back as it was.
    pub fn check(self) -> Answer {
        assert_ne!(self.status, 500, "500 is never right: {self}");
        assert!(self.headers.contains_key("x-request-id"), "no x-request-id: {self}");
        if self.body.is_empty() {
            assert!(
                self.status < 400 || self.request.starts_with("HEAD"),
                "an error without a problem: {self}"
            );
            return self;
        }
        let kind = self.header("content-type");
        if self.status == 200 && self.request.ends_with("/payload") {
            return self;
        }
        // Clients of SQS take what AWS sends, which has none, and has errors of another form.
        if kind.contains("amz-json") || kind == "text/xml" {
            return self;
        }
        if kind.contains("json") || kind.contains("text") && !self.request.contains(" /docs/") {
            assert!(self.body.ends_with(b"\n"), "no newline at the end: {self}");
        }
        if self.status >= 400 {
            self.check_problem();
        } else if self.header("content-type").starts_with("application/json")
            && !self.request.ends_with("/openapi.json")
            && !self.request.ends_with("/openapi-3.0.json")
        {
            self.check_values(&self.json());
        }
        self
    }

    fn check_problem(&self) {
        assert_eq!(
            self.header("content-type"),
            "application/problem+json",
            "an error is a problem: {self}"
        );
        let problem = self.json();
        assert_eq!(problem["status"], self.status, "its status: {self}");
        for name in ["type", "title", "detail", "code", "request_id"] {
            assert!(!self.text(name).is_empty(), "{name} is empty: {self}");
        }
        assert_eq!(self.text("request_id"), self.header("x-request-id"), "one request id: {self}");
        let code = self.text("code");
        assert!(
            code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'),
            "a code is snake_case: {self}"
        );
        for error in problem["errors"].as_array().into_iter().flatten() {
            for name in ["field", "reason"] {
                assert!(!text(error, name).is_empty(), "no {name}: {self}");
            }
        }
        if let Some(first) = problem["errors"].get(0) {
            let names = format!("{}: {}", text(first, "field"), text(first, "reason"));
            assert!(self.text("detail").starts_with(&names), "not the first field: {self}");
        }
    }

    fn check_values(&self, value: &Value) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    if name == "payload" {
                        continue; // the user's own
                    }
                    assert!(!value.is_null(), "{name} is null: {self}");
                    if name.ends_with("_at") && name != "headers" {
                        instant_ms(value.as_str().unwrap_or_else(|| panic!("{name}: {self}")));
                    }
                    if name != "headers" {
                        self.check_values(value);
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.check_values(item)),
            _ => {}
        }
    }

    /// Demands this status, and for 204 an empty body.
    #[track_caller]
    pub fn expect(self, status: u16) -> Answer {
        assert_eq!(self.status, status, "{self}");
        if status == 204 {
            assert!(self.body.is_empty(), "204 has no body: {self}");
        }
        self
    }

    /// Demands a problem of this status and code.
    #[track_caller]
    pub fn problem(self, status: u16, code: &str) -> Answer {
        assert_eq!(self.status, status, "wanted {status} {code}: {self}");
        self.check_problem();
        assert_eq!(self.text("code"), code, "{self}");
        let help = format!("/guide/errors/{code}>; rel=help");
        assert!(self.header("link").ends_with(&help), "{self}");
        self
    }

    /// Demands a problem of this status, whatever its code.
    #[track_caller]
    pub fn refused(self, status: u16) -> Answer {
        assert_eq!(self.status, status, "wanted {status}: {self}");
        self.check_problem();
        self
    }

    /// Demands that `errors` names this field.
    #[track_caller]
    pub fn field(self, field: &str) -> Answer {
        let fields: Vec<String> = self.json()["errors"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|error| text(error, "field").to_owned())
            .collect();
        assert!(fields.iter().any(|f| f == field), "errors name {fields:?}, not {field:?}: {self}");
        self
    }

    /// The body as JSON. What a `Value` cannot hold, such as the number 1E400, is its text instead.
    #[track_caller]
    pub fn json(&self) -> Value {
        match serde_json::from_slice::<&RawValue>(&self.body) {
            Ok(body) => value_of(body),
            Err(error) => panic!("{error}: {self}"),
        }
    }

    /// A text field of the body's object.
    #[track_caller]
    pub fn text(&self, name: &str) -> String {
        text(&self.json(), name).to_owned()
    }

    /// A whole number of the body's object.
    #[track_caller]
    pub fn number(&self, name: &str) -> i64 {
        number(&self.json(), name)
    }

    /// An instant of the body's object, in milliseconds.
    #[track_caller]
    pub fn instant(&self, name: &str) -> i64 {
        instant_ms(&self.text(name))
    }

    /// A header, or the empty string.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
    }
}

fn value_of(raw: &RawValue) -> Value {
    let text = raw.get();
    if let Ok(value) = serde_json::from_str(text) {
        return value;
    }
    let object: Result<BTreeMap<String, &RawValue>, _> = serde_json::from_str(text);
    if let Ok(object) = object {
        return object.into_iter().map(|(name, value)| (name, value_of(value))).collect();
    }
    match serde_json::from_str::<Vec<&RawValue>>(text) {
        Ok(items) => items.into_iter().map(value_of).collect(),
        Err(_) => Value::from(text),
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} was answered {} {:?}\n{}",
            self.request,
            self.status,
            self.headers,
            String::from_utf8_lossy(&self.body[..self.body.len().min(4000)])
        )
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
