//! Replies of scripts, decoded in one place. A script answers in words and numbers; anything else is a defect, logged
//! here and answered as an internal error.

use super::{backend::Backend, partition::Partition, registry::Topic};
use bytes::Bytes;
use deadpool_redis::redis::{ServerError, Value};
use dueq_model::{MEMBER_BYTES, Member, Millis, error::Error};
use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
    time::Instant,
};

/// Why a call to Redis gave no answer to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The partition belongs to another topic than the caller believes: the registry must be read again.
    Stale,
    /// Never sent, or refused before it ran.
    Unavailable,
    /// Sent, and no answer was read.
    Unknown,
    /// Not looked at, since the call had enough to do with those before it: it goes into the next call.
    Again,
    /// An answer that makes no sense.
    Internal,
}

impl CallError {
    /// The metric's label.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Stale => "stale",
            Self::Unavailable => "unavailable",
            Self::Unknown => "unknown",
            Self::Again => "again",
            Self::Internal => "internal",
        }
    }
}

impl From<CallError> for Error {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Unavailable => Self::RedisUnavailable,
            CallError::Unknown => Self::OutcomeUnknown,
            // Read again and still stale: the topic is deleted and created again and again; nothing was done.
            CallError::Stale | CallError::Again => Self::RedisUnavailable,
            CallError::Internal => Self::Internal,
        }
    }
}

/// The code of an error reply: its first word. Where a command inside of a script was refused, Redis 6.2 wraps that
/// command's error, once for what the script returns and twice for what it raises:
/// `-@user_script: 52: -OOM …` and `-ERR Error running script (call to f_<sha>): @user_script:52: @user_script: 52: -OOM …`.
pub fn code(error: &ServerError) -> &str {
    let details = error.details().unwrap_or_default();
    let wrapped = match error.code() {
        "@user_script:" => Some(details),
        "ERR" => raised(details),
        _ => None,
    };
    wrapped.and_then(code_at_line).unwrap_or(error.code())
}

/// The code of a reply that is an error.
pub fn code_of(reply: &Value) -> Option<&str> {
    if let Value::ServerError(error) = reply { Some(code(error)) } else { None }
}

/// The value within the outer of the two wraps.
fn raised(details: &str) -> Option<&str> {
    let rest = details.strip_prefix("Error running script (call to f_")?;
    let (sha, rest) = rest.split_at_checked(40)?;
    let (line, rest) = rest.strip_prefix("): @user_script:")?.split_once(": ")?;
    let sound = is_all(sha, u8::is_ascii_hexdigit) && is_all(line, u8::is_ascii_digit);
    rest.strip_prefix("@user_script: ").filter(|_| sound)
}

/// The code in `52: -OOM …`.
fn code_at_line(text: &str) -> Option<&str> {
    let (line, error) = text.split_once(": -")?;
    let code = error.split(' ').next()?;
    (is_all(line, u8::is_ascii_digit) && is_all(code, u8::is_ascii_uppercase)).then_some(code)
}

fn is_all(text: &str, kind: fn(&u8) -> bool) -> bool {
    !text.is_empty() && text.as_bytes().iter().all(kind)
}

/// What an error reply means for the call. Decided by its code; texts differ between servers.
pub fn refusal(error: &ServerError) -> CallError {
    match code(error) {
        // Redis says these before a command runs, or a script's first write is refused with them (and no script of
        // dueq writes before what can be refused).
        "OOM" | "MISCONF" | "READONLY" | "LOADING" | "BUSY" | "MASTERDOWN" | "NOREPLICAS"
        | "CLUSTERDOWN" | "TRYAGAIN" | "MOVED" | "ASK" | "NOAUTH" | "NOPERM" | "NOSCRIPT" => {
            CallError::Unavailable
        }
        _ => {
            tracing::error!(%error, "a call to Redis failed");
            CallError::Unknown
        }
    }
}

/// An array reply, taken apart from the front.
pub struct Fields(std::vec::IntoIter<Value>);

/// Several values in one text, with spaces between them: each item of an array costs Redis's client more than all else that is
/// done with it. A member may contain any byte, but has a fixed length.
pub struct Packed {
    text: Bytes,
    /// Where the next one begins.
    at: usize,
}

/// Logs a reply that makes no sense.
pub fn malformed(what: &Value) -> CallError {
    tracing::error!(reply = ?what, "a reply of Redis cannot be read");
    CallError::Internal
}

/// The reply's text, for one-word replies.
pub fn word(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        Value::Okay => Some("OK"),
        _ => None,
    }
}

/// A whole number.
pub fn int(value: Value) -> Result<i64, CallError> {
    match value {
        Value::Int(number) => Ok(number),
        // Scores come as text; they are whole and below 2^53.
        Value::BulkString(ref bytes) => std::str::from_utf8(bytes)
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| malformed(&value)),
        _ => Err(malformed(&value)),
    }
}

/// A byte string.
pub fn bytes(value: Value) -> Result<Bytes, CallError> {
    match value {
        Value::BulkString(bytes) => Ok(bytes.into()),
        other => Err(malformed(&other)),
    }
}

impl Fields {
    /// The items of an array; `Stale` where a script said so.
    pub fn of(value: Value) -> Result<Self, CallError> {
        match value {
            Value::Array(values) => Ok(Self(values.into_iter())),
            other if word(&other) == Some("STALE") => Err(CallError::Stale),
            other => Err(malformed(&other)),
        }
    }

    /// No items: what a script left out.
    pub fn none() -> Self {
        Self(Vec::new().into_iter())
    }

    /// The next item.
    pub fn value(&mut self) -> Result<Value, CallError> {
        self.0.next().ok_or_else(|| malformed(&Value::Nil))
    }

    /// The next item, a whole number.
    pub fn int(&mut self) -> Result<i64, CallError> {
        int(self.value()?)
    }

    /// The next item, any bytes.
    pub fn bytes(&mut self) -> Result<Bytes, CallError> {
        bytes(self.value()?)
    }

    /// The next item, a message's.
    pub fn member(&mut self) -> Result<Member, CallError> {
        self.bytes()?[..].try_into().map_err(|_| CallError::Internal)
    }

    /// An instant; scripts write 0 for none.
    pub fn instant(&mut self) -> Result<Option<Millis>, CallError> {
        Ok(Some(self.int()?).filter(|at| *at > 0))
    }

    /// The next item, a text.
    pub fn text(&mut self) -> Result<String, CallError> {
        let bytes = self.bytes()?;
        String::from_utf8(bytes.to_vec()).map_err(|_| malformed(&Value::Nil))
    }

    /// The cursor that a page of a scan begins with; `None` behind the last page.
    pub fn cursor(&mut self) -> Result<Option<String>, CallError> {
        Ok(Some(self.text()?).filter(|cursor| cursor != "0"))
    }

    /// The next item, several values.
    pub fn packed(&mut self) -> Result<Packed, CallError> {
        Ok(Packed { text: self.bytes()?, at: 0 })
    }

    /// The next item, a list.
    pub fn fields(&mut self) -> Result<Self, CallError> {
        Self::of(self.value()?)
    }

    /// What is left: each a text, none where there is nothing, or an error where it is no text.
    pub fn words(self) -> Vec<Result<Option<String>, CallError>> {
        let text = |value: Value| match &value {
            Value::Nil => Ok(None),
            value => word(value).map(|word| Some(word.to_owned())).ok_or(CallError::Internal),
        };
        self.0.map(text).collect()
    }

    /// How many items are left.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none is left.
    pub fn is_empty(&self) -> bool {
        self.0.len() == 0
    }
}

impl Packed {
    /// No values: what a script left out.
    pub fn none() -> Self {
        Self { text: Bytes::new(), at: 0 }
    }

    /// The next value, a message's member.
    pub fn member(&mut self) -> Result<Member, CallError> {
        match self.rest().split_first_chunk::<MEMBER_BYTES>() {
            Some((&member, [] | [b' ', ..])) => {
                self.at += MEMBER_BYTES + 1;
                Ok(member)
            }
            _ => Err(malformed(&Value::BulkString(self.rest().to_vec()))),
        }
    }

    /// The next value, a whole number. The others can be read even if it is none.
    pub fn int(&mut self) -> Result<i64, CallError> {
        let rest = self.rest();
        let length = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
        let digits = &rest[..length];
        let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
        let number = number.ok_or_else(|| malformed(&Value::BulkString(digits.to_vec())));
        self.at += length + 1;
        number
    }

    /// Whether none is left.
    pub fn is_empty(&self) -> bool {
        self.rest().is_empty()
    }

    fn rest(&self) -> &[u8] {
        self.text.get(self.at..).unwrap_or_default()
    }
}

/// What a script answered to a call for a partition, and what its reader needs besides.
pub struct Reply<'a> {
    /// Which partition.
    pub partition: &'a Partition,
    /// Its server.
    pub backend: &'a Backend,
    /// Consumers who wait for the topic must be woken.
    pub wake: bool,
    /// When the call was sent.
    sent: Instant,
    /// The reply where it is no array, else nil.
    pub whole: Value,
    fields: Fields,
}

impl<'a> Reply<'a> {
    /// Errors: `Stale` where the script said so.
    pub fn new(
        partition: &'a Partition,
        backend: &'a Backend,
        sent: Instant,
        value: Value,
    ) -> Result<Self, CallError> {
        let (whole, fields) = match value {
            Value::Array(_) => (Value::Nil, Fields::of(value)?),
            whole if word(&whole) == Some("STALE") => return Err(CallError::Stale),
            whole => (whole, Fields::none()),
        };
        Ok(Self { partition, backend, wake: false, sent, whole, fields })
    }

    /// The reply of a script that answers in one word; `None` for an array.
    pub fn word(&self) -> Option<&str> {
        word(&self.whole)
    }

    /// Accepts this word alone.
    pub fn expect(&self, expected: &str) -> Result<(), CallError> {
        if self.word() == Some(expected) { Ok(()) } else { Err(malformed(&self.whole)) }
    }

    /// The partition's topic.
    pub fn topic(&self) -> &'a Arc<Topic> {
        &self.partition.topic
    }

    /// Reads what nearly every script begins its reply with: Redis's time.
    pub fn now(&mut self) -> Result<Millis, CallError> {
        let now = self.int()?;
        self.backend.clock.observe(now, self.sent);
        Ok(now)
    }

    /// Reads what every script that makes messages due begins its reply with: Redis's time, and whether consumers of
    /// the topic must be woken. Returns the time.
    pub fn now_and_wake(&mut self) -> Result<Millis, CallError> {
        let now = self.now()?;
        self.wake = self.int()? == 1;
        Ok(now)
    }
}

impl Deref for Reply<'_> {
    type Target = Fields;

    fn deref(&self) -> &Fields {
        &self.fields
    }
}

impl DerefMut for Reply<'_> {
    fn deref_mut(&mut self) -> &mut Fields {
        &mut self.fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadpool_redis::redis::parse_redis_value;

    fn error(line: &str) -> ServerError {
        match parse_redis_value(format!("-{line}\r\n").as_bytes()) {
            Ok(Value::ServerError(error)) => error,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn packed(text: &[u8]) -> Packed {
        Packed { text: Bytes::copy_from_slice(text), at: 0 }
    }

    #[test]
    fn members_contain_any_byte_and_numbers_are_exact() {
        let members: Vec<Member> = (0..=255).map(|byte| [byte; MEMBER_BYTES]).collect();
        let due = |at: usize| 1_700_000_000_000 + at as Millis;
        let pair = |(at, member): (usize, &Member)| {
            [&member[..], b" ", due(at).to_string().as_bytes()].concat()
        };
        let pairs: Vec<_> = members.iter().enumerate().map(pair).collect();
        let mut packed = packed(&pairs.join(&b' '));
        for (at, member) in members.iter().enumerate() {
            assert!(!packed.is_empty());
            assert_eq!((packed.member(), packed.int()), (Ok(*member), Ok(due(at))));
        }
        assert!(packed.is_empty());
        assert_eq!(
            (packed.member(), packed.int()),
            (Err(CallError::Internal), Err(CallError::Internal))
        );
    }

    #[test]
    fn a_number_that_is_none_leaves_the_others_as_they_are() {
        for (text, number) in [
            ("0", Some(0)),
            ("-5", Some(-5)),
            ("9007199254740993", Some((1 << 53) + 1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("1e+300", None),
            ("1700000000000.5", None),
            ("inf", None),
            ("-nan", None),
            ("", None),
        ] {
            let text = format!("mmmmmmmmmm1 {text} mmmmmmmmmm2 1700000000002");
            let mut packed = packed(text.as_bytes());
            assert_eq!(packed.member().as_ref(), Ok(b"mmmmmmmmmm1"), "{text}");
            assert_eq!(packed.int().ok(), number, "{text}");
            assert_eq!(packed.member().as_ref(), Ok(b"mmmmmmmmmm2"), "{text}");
            assert_eq!(packed.int(), Ok(1_700_000_000_002), "{text}");
        }
    }

    #[test]
    fn a_member_of_another_length_is_taken_for_none() {
        for member in ["", "short", "longer_than_a_member"] {
            let text = format!("{member} 1700000000001 mmmmmmmmmmm 1700000000002");
            assert_eq!(packed(text.as_bytes()).member(), Err(CallError::Internal), "{member}");
        }
    }

    fn raised_by_6_2(inner: &str) -> String {
        let sha = "08be99c76f7a10d96dc9ea23ee73a858e02d5ce8";
        format!("ERR Error running script (call to f_{sha}): @user_script:52: {inner}")
    }

    #[test]
    fn a_refusal_is_known_in_the_words_of_every_version() {
        let full = "OOM command not allowed when used memory > 'maxmemory'.";
        let replica = "READONLY You can't write against a read only replica.";
        for (text, code_of_it) in [(full, "OOM"), (replica, "READONLY")] {
            for line in [
                text.to_owned(),
                format!(
                    "{text} script: 08be99c76f7a10d96dc9ea23ee73a858e02d5ce8, on @user_script:1."
                ),
                format!("@user_script: 52: -{text}"),
                raised_by_6_2(&format!("@user_script: 52: -{text}")),
            ] {
                assert_eq!(code(&error(&line)), code_of_it, "{line}");
                assert_eq!(refusal(&error(&line)), CallError::Unavailable, "{line}");
            }
        }
    }

    #[test]
    fn what_only_looks_like_a_refusal_is_none() {
        for line in [
            raised_by_6_2("WRONGTYPE Operation against a key holding the wrong kind of value"),
            raised_by_6_2("@user_script: 1: Unknown Redis command called from Lua script"),
            raised_by_6_2("user_script:1: -OOM command"),
            "ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -OOM x"
                .into(),
            "ERR unknown command 'x', with args beginning with: '-OOM'".into(),
            "@user_script: x: -OOM command".into(),
            "@user_script: 1: -oom command".into(),
            "@user_script:".into(),
        ] {
            assert_eq!(refusal(&error(&line)), CallError::Unknown, "{line}");
        }
    }
}
