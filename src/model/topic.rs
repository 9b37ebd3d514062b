//! Topic names: part of URLs and of Redis keys, so their alphabet is narrow on purpose.

use std::{fmt, str::FromStr, sync::Arc};

const MAX_CHARS: usize = 128;
const CALLBACKS: &str = "_callbacks";
const PUSHED: &str = "_pushed";

/// A valid topic name: `[A-Za-z0-9][A-Za-z0-9._-]{0,127}` without `..`. Names that begin with `_` are dueq's own.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicName(Arc<str>);

/// The text is no topic name.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "a topic name must have 1 to 128 of the characters A-Z a-z 0-9 . _ -, begin with a letter or digit and not \
        contain `..`"
)]
pub struct InvalidTopicName;

/// One topic, or all whose names begin alike: a name, or the beginning of one and `*`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TopicPattern {
    /// The name, or its beginning.
    pub text: Box<str>,
    /// Is it a beginning?
    pub is_prefix: bool,
}

impl TopicPattern {
    /// Is the topic of this name one of those?
    pub fn has(&self, topic: &str) -> bool {
        if self.is_prefix { topic.starts_with(&*self.text) } else { topic == &*self.text }
    }
}

impl FromStr for TopicPattern {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let (name, is_prefix) = match text.strip_suffix('*') {
            Some(prefix) => (prefix, true),
            None => (text, false),
        };
        // What follows the prefix may be any character of a name.
        let is_name = TopicName::parse(name).is_ok() || (is_prefix && name.is_empty());
        let wrong = "must be a topic name, or the beginning of one and *";
        if is_name { Ok(Self { text: name.into(), is_prefix }) } else { Err(wrong) }
    }
}

impl fmt::Display for TopicPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.text, if self.is_prefix { "*" } else { "" })
    }
}

impl TopicName {
    /// Checks `text` against the rule for topic names.
    pub fn parse(text: &str) -> Result<Self, InvalidTopicName> {
        let bytes = text.as_bytes();
        let begins_well = bytes.first().is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
        let alphabet = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        if begins_well
            && bytes.len() <= MAX_CHARS
            && bytes.iter().all(alphabet)
            && !text.contains("..")
        {
            Ok(Self(text.into()))
        } else {
            Err(InvalidTopicName)
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// dueq's own topic of callbacks.
    pub fn callbacks() -> Self {
        Self(CALLBACKS.into())
    }

    /// No topic, but the name under which instances tell each other that there is a pushed one, or
    /// that other hosts are paused.
    pub fn pushed() -> Self {
        Self(PUSHED.into())
    }

    /// Is it the topic of callbacks?
    pub fn is_callbacks(&self) -> bool {
        &*self.0 == CALLBACKS
    }

    /// Is this one of dueq's own topics? Nobody publishes to them directly.
    pub fn is_reserved(&self) -> bool {
        self.0.starts_with('_')
    }
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl serde::Serialize for TopicName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> serde::Deserialize<'de> for TopicName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_contract_are_taken_and_others_are_not() {
        for good in ["a", "orders", "A.b_c-9", "_callbacks", &"x".repeat(128)] {
            assert!(TopicName::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            "a..b",
            "-a",
            ".a",
            "a b",
            "a/b",
            "{a}",
            "*",
            "é",
            "а",
            "a\0",
            &"x".repeat(129),
        ] {
            assert!(TopicName::parse(bad).is_err(), "{bad}");
        }
    }
}
