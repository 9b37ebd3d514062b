//! What a message keeps of the topic that it died in, while it is elsewhere as a dead letter in its own form.

use super::{Callback, Completion, MessageId, Millis, TopicName, Unknown};
use serde::{Deserialize, Serialize};

/// The message that moved here when it died.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Its first id.
    #[serde(rename = "i")]
    pub id: MessageId,
    /// The topic that it died in last.
    #[serde(rename = "t")]
    pub topic: TopicName,
    /// Grants until then.
    #[serde(rename = "n")]
    pub attempts: i64,
}

/// What a message said for itself where it died, and says again once it is back there. Meanwhile it has no effect and is shown
/// nowhere: there are secrets in it. It is a member of the body apart from [`Origin`], so that a dueq that does not know it keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Own {
    /// Where dueq sent it.
    #[serde(rename = "u", default, skip_serializing_if = "Option::is_none")]
    pub callback: Option<Callback>,
    /// Where its ack was to be published, unless the topic said so.
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    pub on_done: Option<Box<Completion>>,
    /// Where its death was published, unless the topic said so.
    #[serde(rename = "x", default, skip_serializing_if = "Option::is_none")]
    pub on_dead: Option<Box<Completion>>,
    /// Its limit of counted grants.
    #[serde(rename = "m", default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u16>,
    /// Its TTL, ms.
    #[serde(rename = "l", default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<Millis>,
    /// Its backoff, as scripts have it.
    #[serde(rename = "b", default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<String>,
    /// What a later version keeps.
    #[serde(flatten)]
    pub unknown: Unknown,
}
