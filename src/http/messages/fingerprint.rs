//! What a publish asked for, as one number: a repeated publish with the same idempotency key must ask for the same.
//! Requests are compared as they were understood: the order of members, white space, escapes and the spelling of numbers
//! make no difference, and what is said explicitly is the same as the default.
//!
//! Every instance and every version must come to the same number for as long as an idempotency key answers, so what is
//! hashed is spelled out here rather than derived from types.

use crate::input::json::{Text, end_of_string};
use dueq_model::{
    Auth, AuthKind, Body, CallMethod, CallUrl, Completion, Content, OCTETS, Retry, TopicName,
};
use dueq_store::{Due, KeyUntil, NewMessage, OnDuplicate};
use siphasher::sip::SipHasher13;
use std::{borrow::Cow, hash::Hasher};

/// The fingerprint of all that a message says, its idempotency key apart.
pub(crate) fn fingerprint(message: &NewMessage) -> u64 {
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
    if let Some(group) = &options.group {
        // Nor is any as long as this.
        sum.number(u64::MAX - 1);
        sum.text(group.as_bytes());
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
        if let Some(limit) = callback.connect_timeout_ms {
            sum.number(u64::MAX - 2);
            sum.number(limit as u64);
        }
        if let Some(Retry { on, never, .. }) = &callback.retry {
            sum.number(u64::MAX - 3);
            sum.optional(on.as_ref().map(|on| on.len() as u64));
            for list in on.iter().chain([never]) {
                // Their order says nothing.
                let mut causes: Vec<_> = list.iter().collect();
                causes.sort_unstable();
                causes.into_iter().for_each(|cause| sum.text(cause.as_bytes()));
            }
        }
        if let Some(auth) = &callback.auth {
            let Auth { kind, name, secret, token_url, scope, audience, .. } = &**auth;
            sum.number(u64::MAX - 4);
            sum.number(match kind {
                AuthKind::Basic => 0,
                AuthKind::Oauth2 => 1,
            });
            for text in [
                Some(name.as_str()),
                Some(secret.reveal()),
                token_url.as_ref().map(CallUrl::as_str),
                scope.as_deref(),
                audience.as_deref(),
            ] {
                sum.number(text.is_some().into());
                sum.text(text.unwrap_or_default().as_bytes());
            }
        }
        if let Some(name) = &callback.client_cert {
            sum.number(u64::MAX - 5);
            sum.text(name.as_bytes());
        }
        if let Some(secret) = &callback.secret {
            sum.number(u64::MAX - 1);
            sum.text(secret.reveal().as_bytes());
        }
    }
    let Body { on_done, on_dead, .. } = &message.body;
    for (mark, completion) in [(u64::MAX - 6, on_done), (u64::MAX - 7, on_dead)] {
        let Some(Completion { url, topic, .. }) = completion.as_deref() else { continue };
        sum.number(mark);
        sum.text(url.as_ref().map_or("", CallUrl::as_str).as_bytes());
        sum.text(topic.as_ref().map_or("", TopicName::as_str).as_bytes());
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

/// The byte after the last one; no JSON has it.
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
mod tests;
