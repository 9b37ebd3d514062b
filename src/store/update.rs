//! update: changes a message in place.

use super::{
    Store,
    batch::{CallContext, SingleOp},
    get::read_snapshot,
    registry::Topic,
    reply::{CallError, Fields, malformed, required_word},
    scripts::{self, Script},
    types::{MessageRef, MessageSnapshot, MessageUpdate},
};
use crate::{
    error::Error,
    model::{Body, Millis},
};
use bytes::Bytes;
use deadpool_redis::redis::{Cmd, Value};
use std::sync::Arc;

pub(crate) struct Update {
    pub message: MessageRef,
    pub update: MessageUpdate,
    /// The new body, encoded, and what was written of the message's events when it was made.
    pub body: Option<(String, Bytes)>,
}

/// What an update came to.
pub(crate) enum Updated {
    Done(Box<MessageSnapshot>),
    Refused(Error),
    /// The message was changed since it was read.
    Changed,
}

impl Store {
    /// Changes a message in place that waits or is dead.
    ///
    /// Errors: `MessageNotFound`, `TopicNotFound` for a key, `MessageLeased`, `MessageDead` for a due time,
    /// `MessageAcked`, `PayloadTooLarge`, `CallbackUrlMissing`, `TopicNotPushed`, `NothingMasked`, `SecretRequired`,
    /// `HeadersTooLarge`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn update(
        &self,
        message: &MessageRef,
        update: MessageUpdate,
    ) -> Result<(Arc<Topic>, MessageSnapshot), Error> {
        let mut retry = self.stale_retry();
        while retry.next().await {
            let body = match (&update.content, &update.headers, &update.callback) {
                (None, None, None) => None,
                _ => Some(self.new_body(message, &update).await?),
            };
            let change = || {
                let (message, update, body) = (message.clone(), update.clone(), body.clone());
                Update { message, update, body }
            };
            match self.on_ref(message, change).await? {
                (topic, Updated::Done(snapshot)) => return Ok((topic, *snapshot)),
                (_, Updated::Refused(error)) => return Err(error),
                (_, Updated::Changed) => {}
            }
        }
        // Somebody else changes it all the time; this change was never carried out.
        Err(Error::RedisUnavailable)
    }

    /// The events of the message as it is, and its body as the update wants it: payload and headers lie in one.
    async fn new_body(
        &self,
        message: &MessageRef,
        update: &MessageUpdate,
    ) -> Result<(String, Bytes), Error> {
        let (topic, found) = self.get(message).await?;
        let seen = found.body.ok_or(Error::Internal)?;
        let mut body = Body {
            content: update.content.clone().unwrap_or_else(|| seen.content.clone()),
            callback: update.callback.clone().unwrap_or_else(|| seen.callback.clone()),
            ..seen.clone()
        };
        if update.content.is_some() {
            self.topic_for(&topic.name, body.content.payload().len() as i64).await?;
        }
        if update.callback.is_some() || update.headers.is_some() {
            topic.keep_secrets(&mut body, &seen, update.headers.as_ref())?;
            topic.takes(&body)?;
        }
        Ok((found.written, body.encode()))
    }
}

impl SingleOp for Update {
    type Output = Updated;

    fn script() -> &'static Script {
        &scripts::UPDATE
    }

    fn write(&self, topic: &Topic, command: &mut Cmd) {
        topic.keys.write_all(command);
        command.arg(&topic.word);
        self.message.write(command);
        let MessageUpdate { due, priority, ttl_ms, max_attempts, backoff, .. } = &self.update;
        command.arg(due.map(|due| due.to_script()).unwrap_or_default());
        command.arg(priority.map(|priority| priority.to_string()).unwrap_or_default());
        command.arg(setting(ttl_ms)).arg(setting(max_attempts));
        let backoff = backoff.as_ref().map(|own| own.as_ref().map(|policy| policy.to_script()));
        command.arg(setting(&backoff));
        match &self.body {
            Some((events, body)) => command.arg(&body[..]).arg(events),
            None => command.arg("").arg(""),
        };
    }

    fn read(
        &self,
        topic: &Arc<Topic>,
        context: &mut CallContext<'_>,
        reply: Value,
    ) -> Result<Updated, CallError> {
        if !matches!(reply, Value::Array(_)) {
            return Ok(match required_word(&reply)? {
                "NONE" => Updated::Refused(Error::MessageNotFound),
                "LEASED" => Updated::Refused(Error::MessageLeased),
                "DEAD" => Updated::Refused(Error::MessageDead),
                "ACKED" => Updated::Refused(Error::MessageAcked),
                "CHANGED" => Updated::Changed,
                _ => return Err(malformed(&reply)),
            });
        }
        let body = self.body.as_ref().map(|(_, body)| body);
        let (snapshot, mut rest, now) = read_changed(topic, context, reply, body)?;
        topic.saw_deaths(rest.int()?, now);
        Ok(Updated::Done(Box::new(snapshot)))
    }
}

/// A setting of an update: as it is, the topic's, or its own.
fn setting<T: ToString>(value: &Option<Option<T>>) -> String {
    match value {
        None => "-".to_owned(),
        Some(None) => String::new(),
        Some(Some(value)) => value.to_string(),
    }
}

/// A changed message: now, wake, snapshot. Also returns what comes after, and now.
pub(super) fn read_changed(
    topic: &Arc<Topic>,
    context: &mut CallContext<'_>,
    reply: Value,
    body: Option<&Bytes>,
) -> Result<(MessageSnapshot, Fields, Millis), CallError> {
    let mut fields = Fields::of(reply)?;
    let now = context.read_wake(topic, &mut fields)?;
    let snapshot = read_snapshot(topic, &mut fields.fields()?, body)?;
    topic.sweep_by(now, snapshot.expires_at);
    Ok((snapshot, fields, now))
}
