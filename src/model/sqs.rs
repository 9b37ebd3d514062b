//! What only clients of SQS know of a topic and of a message: it has no meaning to dueq, and comes back as it was given.

use super::Millis;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Grants of a message before it is dead in a queue without a redrive policy: more than it ever gets.
pub const SQS_UNLIMITED_ATTEMPTS: i64 = 1_000_000_000;

/// A queue of SQS, beyond what is its topic's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SqsQueue {
    /// Attributes that are no settings of the topic.
    pub attributes: BTreeMap<String, String>,
    /// Its tags.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// When it was created.
    pub created_at: Millis,
}

/// A message of SQS, beyond its body and those of its attributes that are headers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SqsParts {
    /// Attributes by name.
    #[serde(rename = "a", skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, SqsAttribute>,
    /// `AWSTraceHeader`.
    #[serde(rename = "x", skip_serializing_if = "Option::is_none")]
    pub trace_header: Option<String>,
    /// `MessageGroupId` in a standard queue whose groups take no turns: it orders nothing there.
    #[serde(rename = "g", skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// `MessageDeduplicationId`.
    #[serde(rename = "d", skip_serializing_if = "Option::is_none")]
    pub deduplication_id: Option<String>,
}

/// An attribute of a message of SQS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SqsAttribute {
    /// `String`, `Number` or `Binary`, and a label after a dot.
    #[serde(rename = "t")]
    pub kind: String,
    /// The text, or bytes in base64.
    #[serde(rename = "v")]
    pub value: String,
}

impl SqsAttribute {
    /// Is the value bytes in base64?
    pub fn is_binary(&self) -> bool {
        self.kind == "Binary" || self.kind.starts_with("Binary.")
    }
}
