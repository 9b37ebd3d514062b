//! What a receive of SQS was granted, by the ID of its attempt: asked again with it, it gets the same messages, as long as it still
//! holds all of them.

use super::{
    extend::Extend,
    grants::{Granted, Grants},
};
use crate::{Store, batch::Command, reply::word, types::MessageRef};
use dueq_model::{MessageId, Millis, State, TopicName, error::Error};

/// How long an attempt can be repeated, at most: 5 minutes in ms.
const ATTEMPT_MS: Millis = 300_000;

impl Store {
    fn attempt_key(&self, name: &TopicName, attempt: &str) -> String {
        format!("{}:{name}:{attempt}", self.lanes.shared.keys.received)
    }

    /// Notes what an attempt was granted.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn note_attempt(
        &self,
        name: &TopicName,
        attempt: &str,
        grants: &Grants,
    ) -> Result<(), Error> {
        let held = |it: &Granted| format!("{} {}", it.id, self.token(&it.id, &it.claims));
        let held: Vec<_> = grants.messages().iter().map(held).collect();
        let note = Command::new("SET").arg(self.attempt_key(name, attempt));
        // No longer than one of them is held.
        let last = grants.messages().iter().map(|it| it.lease_expires_at).max().unwrap_or(0);
        let keep_ms = (last - self.now()).clamp(1, ATTEMPT_MS);
        self.lanes.command(note.arg((held.join("\n"), "PX", keep_ms))).await?;
        Ok(())
    }

    /// What this attempt was granted before, leased for so long from now on; `None` if it got nothing, or does not hold all of it any
    /// more.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn repeat_attempt(
        &self,
        name: &TopicName,
        attempt: &str,
        lease_ms: Option<u64>,
    ) -> Result<Option<Grants>, Error> {
        let Some(topic) = self.known_topic(name).await? else { return Ok(None) };
        let lease_ms = lease_ms.unwrap_or(topic.settings.lease_ms as u64);
        let find = Command::new("GET").arg(self.attempt_key(name, attempt));
        let found = self.lanes.command(find).await?;
        // Not one of them is extended unless all are there.
        let (mut held, text) = (Vec::new(), word(&found).unwrap_or_default());
        for (id, token) in text.lines().filter_map(|line| line.split_once(' ')) {
            let Ok(id) = MessageId::parse(id) else { return Ok(None) };
            match self.get(&MessageRef::Id(id)).await {
                Ok((_, message)) if message.state == State::Leased => {
                    held.push((id, token, message));
                }
                Ok(_) | Err(Error::MessageNotFound) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        let mut grants = Grants::default();
        for (id, token, message) in held {
            let Some(claims) = self.claims_of(&id, token) else { return Ok(None) };
            let extend = Extend { lease_ms, shortens: true };
            let extended = match self.settle_claimed(id, claims, extend).await {
                Err(Error::LeaseLost | Error::MessageNotFound) => return Ok(None),
                extended => extended?,
            };
            let Some(body) = message.body else { return Ok(None) };
            grants.messages.push(Granted {
                id,
                due_at: message.at,
                claims,
                attempts_left: message.attempts_left,
                payload_bytes: body.content.payload().len() as u64,
                body,
                priority: message.options.priority,
                frees_key: false,
                key: message.key,
                group: message.options.group,
                lease_expires_at: extended.lease_expires_at,
            });
        }
        Ok((!grants.messages.is_empty()).then_some(grants))
    }
}
