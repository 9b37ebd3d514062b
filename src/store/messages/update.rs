//! update: changes a message in place.

use crate::{
    Store,
    batch::{Command, Request},
    message::read_changed,
    partition::Partition,
    registry::Topic,
    reply::{CallError, Reply, malformed},
    scripts,
    types::{IfAbsent, MessageRef, MessageSnapshot, MessageUpdate},
};
use bytes::Bytes;
use dueq_model::{MessageId, Origin, error::Error};
use std::sync::Arc;

/// What an update came to.
pub enum Updated {
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
            let body = match update.body.is_nothing() {
                true => None,
                false => Some(self.new_body(message, &update).await?),
            };
            let change = |partition: &Partition| change(partition, message, &update, body.clone());
            match self.on(message, change).await? {
                (it, Updated::Done(mut snapshot)) => {
                    // The update is done, whether it is known what the message waits for or not.
                    let _ = self.explain(&it.topic, [&mut *snapshot]).await;
                    return Ok((it.topic, *snapshot));
                }
                (_, Updated::Refused(error)) => return Err(error),
                (_, Updated::Changed) => {}
            }
        }
        // Others change it all the time; this change was never carried out.
        Err(Error::RedisUnavailable)
    }

    /// The body as the update wants it: payload and headers lie in one.
    async fn new_body(
        &self,
        message: &MessageRef,
        update: &MessageUpdate,
    ) -> Result<NewBody, Error> {
        let (topic, found) = self.get(message).await?;
        let seen = found.body.ok_or(Error::Internal)?;
        let change = &update.body;
        let mut body = change.applied_to(&seen);
        let is_new = change.content.is_some() || change.callback.is_some();
        let comes_back = |origin: &Origin| origin.topic.is_callbacks();
        let is_owned = topic.name.is_callbacks() || body.origin.as_ref().is_some_and(comes_back);
        if is_new && is_owned && !update.by.is_empty() {
            body.publisher = Some(update.by.clone());
        }
        // What another key asks for is not signed with a secret of this one, nor sent in its name.
        let is_another = !body.is_by_publisher_of(&seen);
        if is_another {
            let its = body.callback.iter_mut().filter(|_| change.callback.is_none());
            let before = body.own.iter_mut().filter_map(|own| own.callback.as_mut());
            for callback in its.chain(before) {
                (callback.secret, callback.auth) = (None, None);
            }
        }
        if change.content.is_some() {
            let size = body.content.payload().len() as i64;
            self.topic_for(&topic.name, size, IfAbsent::Create(None)).await?;
        }
        if change.callback.is_some() || change.headers.is_some() || is_another {
            topic.keep_secrets(&mut body, &seen, change.headers.as_ref())?;
            topic.takes(&body)?;
        }
        Ok(NewBody { of: found.id, seen: found.written, body: body.encode() })
    }
}

/// A body that was made from the one that a message had.
#[derive(Clone)]
struct NewBody {
    /// The message. Its key may be another's by the time that this is written.
    of: MessageId,
    /// What was written of its events then.
    seen: String,
    /// The body, encoded.
    body: Bytes,
}

fn change(
    partition: &Partition,
    message: &MessageRef,
    update: &MessageUpdate,
    new: Option<NewBody>,
) -> Request<Updated> {
    let MessageUpdate { due, priority, ttl_ms, max_attempts, backoff, .. } = update;
    let due = due.map(|due| due.to_script()).unwrap_or_default();
    let priority = priority.map(|priority| priority.to_string()).unwrap_or_default();
    let backoff = backoff.as_ref().map(|own| own.as_ref().map(|policy| policy.to_script()));
    let (of, seen, body) = match new {
        Some(NewBody { of, seen, body }) => (of.member().to_vec(), seen, Some(body)),
        None => Default::default(),
    };
    let change =
        Command::on(&scripts::UPDATE, partition).arg(message.arguments()).arg((due, priority));
    let change = change.arg((setting(ttl_ms), setting(max_attempts), setting(&backoff)));
    let change = change.arg((body.as_deref().unwrap_or_default(), of, seen));
    change.read(partition, move |reply| read_updated(reply, body.as_ref()))
}

pub(crate) fn read_updated(
    reply: &mut Reply<'_>,
    body: Option<&Bytes>,
) -> Result<Updated, CallError> {
    Ok(match reply.word() {
        Some("NONE") => Updated::Refused(Error::MessageNotFound),
        Some("LEASED") => Updated::Refused(Error::MessageLeased),
        Some("DEAD") => Updated::Refused(Error::MessageDead),
        Some("ACKED") => Updated::Refused(Error::MessageAcked),
        Some("CHANGED") => Updated::Changed,
        Some(_) => return Err(malformed(&reply.whole)),
        None => {
            let (snapshot, now) = read_changed(reply, body)?;
            let died = reply.int()?;
            reply.partition.saw_deaths(died, now);
            Updated::Done(Box::new(snapshot))
        }
    })
}

/// A setting of an update: as it is, the topic's, or its own.
fn setting<T: ToString>(value: &Option<Option<T>>) -> String {
    match value {
        None => "-".to_owned(),
        Some(None) => String::new(),
        Some(Some(value)) => value.to_string(),
    }
}
