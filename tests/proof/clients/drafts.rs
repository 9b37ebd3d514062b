//! What a publish says, before it is sent: a draft can be sent again, word for word.

use serde_json::json;

use crate::harness::instant;
use crate::proof::history::{Ms, OnDuplicate, Outcome, Publish};

/// What a publish says besides its payload.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub delay: Ms,
    /// Due at this instant, in place of a delay.
    pub at: Option<Ms>,
    pub priority: u8,
    pub max_attempts: Option<u32>,
    pub headers: bool,
    /// Bytes of padding in the payload.
    pub padding: usize,
    pub ttl: Option<Ms>,
    pub key: Option<String>,
    pub on_duplicate: OnDuplicate,
    pub key_until_granted: bool,
    pub idempotency_key: Option<String>,
    pub group: Option<String>,
}

impl Options {
    /// Due after this many ms.
    pub fn after(delay: Ms) -> Options {
        Options { delay, ..Options::default() }
    }

    /// With this key.
    pub fn key(key: impl Into<String>) -> Options {
        Options { key: Some(key.into()), ..Options::default() }
    }

    /// Of this group.
    pub fn group(group: impl Into<String>) -> Options {
        Options { group: Some(group.into()), ..Options::default() }
    }

    /// With this many attempts.
    pub fn attempts(max_attempts: u32) -> Options {
        Options { max_attempts: Some(max_attempts), ..Options::default() }
    }
}

/// A publish that can be sent, and sent again.
#[derive(Clone, Debug)]
pub struct Draft {
    /// As the record will say it; its outcome stands for nothing.
    pub publish: Publish,
    /// The object that is sent.
    pub(super) body: String,
    /// When it is due, if it says so.
    pub(super) at: Option<Ms>,
}

impl Draft {
    /// A publish of this payload.
    pub fn new(payload: String, options: Options) -> Draft {
        let Options { at, priority, max_attempts, headers, ttl, .. } = options;
        let delay = options.delay;
        let mut body = format!(r#"{{"payload":{payload},"priority":{priority}"#);
        let text = |text: &str| json!(text).to_string();
        let mut field = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                body += &format!(r#","{name}":{value}"#);
            }
        };
        let key = &options.key;
        field("delay_ms", at.is_none().then(|| delay.to_string()));
        field("deliver_at", at.map(|at| text(&instant(at))));
        field("max_attempts", max_attempts.map(|n| n.to_string()));
        field("ttl_ms", ttl.map(|n| n.to_string()));
        field("headers", headers.then(|| r#"{"X-Trace":"a"}"#.into()));
        field("key", key.as_deref().map(text));
        field("on_duplicate", key.as_ref().map(|_| text(options.on_duplicate.word())));
        let until_granted = key.is_some() && options.key_until_granted;
        field("key_until", until_granted.then(|| text("granted")));
        field("idempotency_key", options.idempotency_key.as_deref().map(text));
        field("group", options.group.as_deref().map(text));
        body.push('}');
        let publish = Publish {
            payload,
            delay,
            priority,
            max_attempts,
            ttl,
            key: options.key,
            on_duplicate: options.on_duplicate,
            key_until_granted: options.key_until_granted,
            idempotency_key: options.idempotency_key,
            group: options.group,
            outcome: Outcome::Never,
        };
        Draft { publish, body, at }
    }
}

/// Spelled as no serializer would, so that byte for byte means something.
const SPELLINGS: [&str; 5] =
    ["1.50", "-0", r#""\u00e9 é 🦀 \u0000""#, "18446744073709551616", r#"{"b":1, "a":[ ], "b":2}"#];

/// A payload that no other client makes, and this one makes once.
pub fn payload(client: u64, number: u64, padding: usize) -> String {
    let spelling = SPELLINGS[number as usize % SPELLINGS.len()];
    format!(r#"{{"u" :"{client}-{number}", "x":{spelling}, "pad":"{}"}}"#, "p".repeat(padding))
}

/// A control character, each in its turn: NUL, those below the space, DEL, those of Latin-1. Anyone who cuts a name off at one
/// takes it for another's, since names differ behind it.
pub fn control(number: u64) -> char {
    let controls = (0..0x20).chain(0x7f..0xa0);
    let mut all = controls.filter_map(char::from_u32).cycle();
    all.nth(number as usize % 65).unwrap_or_default()
}
