//! From a step to what goes over the wire: bodies, instants, headers.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::change::Patch;
use super::config::{Backoff, map};
use super::publish::{Sent, When};
use super::steps::{Change, Content, Due, Field, Policy, Publish};

/// The keys that steps name by number; they need every care in a path.
pub const KEYS: [&str; 4] = ["a", "a\0b", "c/d\u{1}\n\r\u{7f}", "é 1"];
pub const GROUPS: [&str; 3] = ["g", "g\0,h", "é,7.0"];
const IDEMPOTENCY_KEYS: [&str; 3] = ["once", "once\0again,\n\u{1f}\u{80}and", "0 1"];

/// A body under way: its fields in order.
#[derive(Default)]
pub struct Fields(Vec<String>);

impl Fields {
    pub fn put(&mut self, name: &str, value: &Value) {
        self.0.push(format!("\"{name}\":{value}"));
    }

    pub fn put_some(&mut self, name: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.put(name, &value.into());
        }
    }

    fn put_field(&mut self, name: &str, field: &Field<Value>) {
        match field {
            Field::Absent => {}
            Field::Null => self.put(name, &Value::Null),
            Field::Set(value) => self.put(name, value),
        }
    }

    pub fn text(&self) -> String {
        format!("{{{}}}", self.0.join(","))
    }
}

/// The fields of a content, as requests and answers have them, and how many bytes it is; `n` makes it
/// one of its own.
fn content(content: &Content, n: usize) -> (String, i64) {
    let (text, bytes) = match content {
        Content::Json(kind, pad) => {
            let pad = "x".repeat(usize::from(*pad));
            let json = match kind {
                0 => format!("{n}"),
                1 => format!("{{\"n\":{n},  \"pad\" : \"{pad}\",\"b\":1.50}}"),
                2 => format!("\"é\\u00e9 {n} {pad}\""),
                3 => format!("[{n}, null,-0, 1e-7,\"{pad}\"]"),
                4 => format!("{{\"n\":{n},\"n\":{{}}}}"),
                _ => "null".to_owned(),
            };
            (format!("\"payload\":{json}"), json.len())
        }
        Content::Bytes(size) => {
            let bytes = bytes(*size, n);
            let text = STANDARD.encode(&bytes);
            (format!("\"payload_base64\":\"{text}\",\"content_type\":\"text/x\""), bytes.len())
        }
    };
    (text, i64::try_from(bytes).unwrap_or(i64::MAX))
}

fn bytes(size: u8, n: usize) -> Vec<u8> {
    let text = format!("{n} {}", ".".repeat(usize::from(size)));
    text.into_bytes()
}

fn headers(kind: u8) -> BTreeMap<String, String> {
    let names = ["X-One", "two", "three"];
    let header = |n: u8| (names[usize::from(n)].to_owned(), format!("v{n}"));
    (0..kind.min(3)).map(header).collect()
}

/// When it is due, and the field that says so.
fn due(due: &Due, now: i64) -> (When, Option<(&'static str, Value)>) {
    match due {
        Due::Now => (When::Delay(0), None),
        Due::Delay(ms) => (When::Delay(*ms), Some(("delay_ms", json!(ms)))),
        Due::At(us, zone) => {
            let at = now * 1000 + us;
            let instant = chrono::DateTime::from_timestamp_micros(at).unwrap_or_default();
            let text = if *zone {
                let east = chrono::FixedOffset::east_opt(9000).expect("a zone");
                instant.with_timezone(&east).format("%Y-%m-%dT%H:%M:%S%.6f%:z").to_string()
            } else {
                instant.format("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
            };
            // Parts of a millisecond round up.
            (When::At((at + 999).div_euclid(1000)), Some(("deliver_at", json!(text))))
        }
    }
}

/// A publish in words; `n` makes its payload one of its own.
pub fn publish(step: &Publish, now: i64, n: usize) -> Sent {
    let mut fields = Fields::default();
    let (payload, bytes) = if step.raw {
        // The body is the payload; this is how it will be shown.
        let bytes = bytes(9, n);
        let text = STANDARD.encode(&bytes);
        let shown = format!("\"payload_base64\":\"{text}\",\"content_type\":\"text/x\"");
        (shown, i64::try_from(bytes.len()).unwrap_or(i64::MAX))
    } else {
        content(&step.content, n)
    };
    fields.0.push(payload.clone());
    let (when, said) = due(&step.due, now);
    if let Some((name, value)) = said {
        fields.put(name, &value);
    }
    if step.priority > 0 {
        fields.put("priority", &json!(step.priority));
    }
    fields.put_some("ttl_ms", step.ttl);
    fields.put_some("max_attempts", step.max_attempts);
    fields.put_some("backoff", step.backoff.as_ref().map(Backoff::json));
    let headers = headers(step.headers);
    if !headers.is_empty() {
        fields.put("headers", &json!(headers));
    }
    let key = step.key.as_ref().map(|key| {
        let words = ["", "return", "reject", "replace"];
        let on_duplicate = words[usize::from(key.on_duplicate % 4)];
        let name = KEYS[usize::from(key.name) % KEYS.len()];
        fields.put("key", &json!(name));
        if !on_duplicate.is_empty() {
            fields.put("on_duplicate", &json!(on_duplicate));
        }
        if key.until_granted {
            fields.put("key_until", &json!("granted"));
        }
        (name.to_owned(), on_duplicate, key.until_granted)
    });
    let policy = step.policy.as_ref();
    if let Some(policy) = policy {
        let (name, key, times) = match policy {
            Policy::Debounce(key, delay, most) => {
                ("debounce", key, json!({"delay_ms": delay, "max_wait_ms": most}))
            }
            Policy::Throttle(key, every) => ("throttle", key, json!({"every_ms": every})),
            Policy::Once(key, lasting) => ("once", key, json!({"for_ms": lasting})),
        };
        let mut value = times;
        value["key"] = json!(KEYS[usize::from(*key)]);
        fields.put(name, &value);
    }
    // A debounced message is one that is replaced, and that holds its key until granted.
    let (key, when) = match policy {
        Some(Policy::Debounce(name, delay, _)) => {
            (Some((KEYS[usize::from(*name)].to_owned(), "replace", true)), When::Delay(*delay))
        }
        _ => (key, when),
    };
    let group = step.group.map(|n| GROUPS[usize::from(n) % GROUPS.len()].to_owned());
    fields.put_some("group", group.clone());
    Sent {
        group,
        body: fields.text(),
        when,
        priority: step.priority,
        ttl: step.ttl,
        key,
        policy: step.policy.clone(),
        idem: step.idem.map(|(n, _)| IDEMPOTENCY_KEYS[usize::from(n) % 3].to_owned()),
        max_attempts: step.max_attempts,
        backoff: step.backoff.clone(),
        headers,
        payload,
        bytes,
    }
}

/// The query of a publishRaw, and its body.
pub fn raw(sent: &Sent, n: usize) -> (String, String) {
    let body: Value = serde_json::from_str(&sent.body).unwrap_or_default();
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in body.as_object().into_iter().flatten() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if !name.starts_with("payload") && name != "content_type" {
            query.append_pair(name, &value);
        }
    }
    (query.finish(), String::from_utf8_lossy(&bytes(9, n)).into_owned())
}

/// A change in words: its body, and what it means.
pub fn change(step: &Change, now: i64, n: usize) -> (String, Patch) {
    let mut fields = Fields::default();
    let when = step.due.as_ref().map(|step| {
        let (when, said) = due(step, now);
        let (name, value) = said.unwrap_or(("delay_ms", json!(0)));
        fields.put(name, &value);
        when
    });
    fields.put_some("priority", step.priority);
    let payload = step.content.as_ref().map(|step| content(step, n));
    if let Some((text, _)) = &payload {
        fields.0.push(text.clone());
    }
    let headers = step.headers.map(headers);
    fields.put_some("headers", headers.as_ref().map(|headers| json!(headers)));
    fields.put_field("ttl_ms", &map(&step.ttl, |ms| json!(ms)));
    fields.put_field("max_attempts", &map(&step.max_attempts, |most| json!(most)));
    fields.put_field("backoff", &map(&step.backoff, Backoff::json));
    let (ttl, max_attempts) = (step.ttl.clone(), step.max_attempts.clone());
    let (priority, backoff) = (step.priority, step.backoff.clone());
    (fields.text(), Patch { when, priority, payload, headers, ttl, max_attempts, backoff })
}
