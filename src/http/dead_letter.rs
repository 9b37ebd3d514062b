//! What is published to a topic's `dead_topic`: its message is shown as getMessage shows it, so it is written here, for
//! whoever publishes it.

use super::{instant::Instant, message::Message};
use crate::{
    error::Error,
    model::Millis,
    store::{MessageSnapshot, Topic},
};
use serde::Serialize;

/// The payload that tells of a death.
#[derive(Serialize)]
struct DeadLetter<'a> {
    /// The message as it stands.
    message: Message<'a>,
    /// When it died.
    died_at: Instant,
}

/// The payload that tells of a message's death, JSON.
///
/// Errors: `Internal` where the message cannot be shown.
pub fn dead_letter(
    topic: &Topic,
    found: &MessageSnapshot,
    died_at: Millis,
) -> Result<Vec<u8>, Error> {
    let message = Message::whole(topic, found).map_err(|_| Error::Internal)?;
    let letter = DeadLetter { message, died_at: Instant(died_at) };
    serde_json::to_vec(&letter).map_err(|_| Error::Internal)
}
