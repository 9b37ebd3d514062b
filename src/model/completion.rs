//! What is published at the end of a message: a message of its own about what came of it, to a URL or in a topic.

use super::{Body, CallUrl, TopicName, Unknown};
use serde::{Deserialize, Serialize};

/// The header of a completion: the id of the message that it is about.
pub const COMPLETES_HEADER: &str = "dueq-completes";
/// The longest result that an ack takes, bytes of JSON.
pub const MAX_RESULT_BYTES: usize = 64 * 1024;

/// Where the end of a message is published: to a URL or in a topic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completion {
    /// The URL that is called, by `_callbacks`.
    #[serde(rename = "u", default, skip_serializing_if = "Option::is_none")]
    pub url: Option<CallUrl>,
    /// The topic.
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<TopicName>,
    /// The API key that asked for the call, by its name; empty for one without a name, and where there are no keys.
    #[serde(rename = "p", default, skip_serializing_if = "String::is_empty")]
    pub publisher: String,
    /// What a later version says of it.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Which ends of a message are published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Its ack.
    pub done: bool,
    /// Its death.
    pub dead: bool,
}

impl Ends {
    /// Those that this body names; of a completion none.
    pub fn of(body: &Body) -> Self {
        let named = |end: bool| end && body.completes.is_none();
        Self { done: named(body.on_done.is_some()), dead: named(body.on_dead.is_some()) }
    }

    /// Are there any?
    pub fn any(self) -> bool {
        self.done || self.dead
    }

    /// Reads the letters at the beginning of a text, as scripts keep them. Also returns what follows.
    pub fn read(text: &str) -> (Self, &str) {
        let (done, text) = text.strip_prefix('a').map_or((false, text), |rest| (true, rest));
        let (dead, text) = text.strip_prefix('d').map_or((false, text), |rest| (true, rest));
        (Self { done, dead }, text)
    }

    /// The letters.
    pub fn letters(self) -> &'static str {
        match (self.done, self.dead) {
            (false, false) => "",
            (true, false) => "a",
            (false, true) => "d",
            (true, true) => "ad",
        }
    }
}
