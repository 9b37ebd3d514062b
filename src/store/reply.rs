//! Replies of scripts, decoded in one place. A script answers in words and numbers; anything else is a defect, logged
//! here and answered as an internal error.

use bytes::Bytes;
use deadpool_redis::redis::{ServerError, Value};

/// Why a call to Redis gave no answer to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallError {
    /// The partition belongs to another topic than the caller believes: the registry must be read again.
    Stale,
    /// Never sent, or refused before it ran.
    Unavailable,
    /// Sent, and no answer was read.
    Unknown,
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
            Self::Internal => "internal",
        }
    }
}

/// What an error reply means for the call. Decided by its code, the first word; texts differ between servers.
pub(crate) fn refusal(error: &ServerError) -> CallError {
    match error.code() {
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
pub(crate) struct Fields(std::vec::IntoIter<Value>);

/// Logs a reply that makes no sense.
pub(crate) fn malformed(what: &Value) -> CallError {
    tracing::error!(reply = ?what, "a reply of Redis cannot be read");
    CallError::Internal
}

/// The reply's text, for one-word replies.
pub(crate) fn word(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        Value::Okay => Some("OK"),
        _ => None,
    }
}

/// A whole number.
pub(crate) fn int(value: Value) -> Result<i64, CallError> {
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
pub(crate) fn bytes(value: Value) -> Result<Bytes, CallError> {
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

    pub fn value(&mut self) -> Result<Value, CallError> {
        self.0.next().ok_or_else(|| malformed(&Value::Nil))
    }

    pub fn int(&mut self) -> Result<i64, CallError> {
        int(self.value()?)
    }

    pub fn bytes(&mut self) -> Result<Bytes, CallError> {
        bytes(self.value()?)
    }

    pub fn text(&mut self) -> Result<String, CallError> {
        let bytes = self.bytes()?;
        String::from_utf8(bytes.to_vec()).map_err(|_| malformed(&Value::Nil))
    }

    pub fn fields(&mut self) -> Result<Self, CallError> {
        Self::of(self.value()?)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.len() == 0
    }
}
