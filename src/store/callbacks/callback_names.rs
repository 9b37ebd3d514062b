//! The names in callbacks: keys and groups. All API keys share the topic `_callbacks`, but each has names of its own there: what it
//! calls `order/42` or `customer-7` is none of the others' business. Those of keys without a name, which may do everything, are stored
//! as they are, as all were before. A group is named by its own name wherever the key that asks is its publisher; a key that may do
//! everything names the publisher as well.

use crate::{
    Store,
    extra::Extra,
    partition::Partition,
    types::{Idempotency, MessageRef, MessageSnapshot, NewMessage},
};
use dueq_model::{TopicName, error::Error};

/// Begins a name that belongs to an API key, and separates it from that key's name.
const MARK: char = '\0';

fn own(publisher: &str, name: &str) -> String {
    format!("{MARK}{publisher}{MARK}{name}")
}

fn is_own(publisher: &str, name: &str) -> bool {
    !publisher.is_empty() || name.starts_with(MARK)
}

/// What a group of callbacks is stored as that the API key of this name calls so.
pub fn callback_group(publisher: &str, group: String) -> String {
    if is_own(publisher, &group) { own(publisher, &group) } else { group }
}

/// Whose a stored name of callbacks is, and what they call it.
pub(crate) fn parts(stored: &str) -> (&str, &str) {
    let own = stored.strip_prefix(MARK).and_then(|rest| rest.split_once(MARK));
    own.unwrap_or(("", stored))
}

/// What a message says, with its names as its publisher gave them.
pub(crate) fn shown(topic: &TopicName, mut extra: Extra) -> Extra {
    if topic.is_callbacks() {
        for name in extra.key.iter_mut().chain(&mut extra.options.group) {
            *name = parts(name).1.to_owned();
        }
    }
    extra
}

/// Was it published by this API key, or before that was noted?
fn may_be_of(found: &MessageSnapshot, publisher: &str) -> bool {
    let by = found.body.as_ref().and_then(|body| body.publisher.as_deref());
    by.is_none_or(|by| by == publisher)
}

impl Store {
    /// What the callback is stored under that the API key of this name calls by `key`. One from before keys had names of their own
    /// goes on to answer for all of them.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn callback_key(&self, publisher: &str, key: String) -> Result<String, Error> {
        if !is_own(publisher, &key) {
            return Ok(key);
        }
        let common = MessageRef::Key(TopicName::callbacks(), key.clone());
        match self.get(&common).await {
            Ok((_, found)) if may_be_of(&found, publisher) => Ok(key),
            Ok(_) | Err(Error::MessageNotFound | Error::TopicNotFound) => Ok(own(publisher, &key)),
            Err(error) => Err(error),
        }
    }

    /// Gives a message the names under which it is stored in this topic. Errors: as for [`Store::callback_key`].
    pub(crate) async fn own_names(
        &self,
        topic: &TopicName,
        message: &mut NewMessage,
    ) -> Result<(), Error> {
        let publisher = message.body.publisher.as_deref().filter(|_| topic.is_callbacks());
        let Some(publisher) = publisher else { return Ok(()) };
        let NewMessage { options, .. } = message;
        options.group = options.group.take().map(|group| callback_group(publisher, group));
        if let Some(key) = &mut options.key {
            key.name = self.callback_key(publisher, std::mem::take(&mut key.name)).await?;
        }
        let Some(idempotency) = &mut options.idempotency else { return Ok(()) };
        let (kind, key) = idempotency.parts();
        // dueq's own are those of ticks.
        let takes_own = kind != [Idempotency::OF_DUEQ]
            && is_own(publisher, key)
            && !(kind.is_empty()
                && self.answered_before(key, idempotency.fingerprint, publisher).await?);
        if takes_own {
            idempotency.key = [kind, own(publisher, key).as_bytes()].concat().into();
        }
        Ok(())
    }

    /// Does an idempotency key from before API keys had their own answer for this request? A client may repeat it across an upgrade.
    async fn answered_before(
        &self,
        key: &str,
        fingerprint: u64,
        publisher: &str,
    ) -> Result<bool, Error> {
        let Some(topic) = self.registry.find(&TopicName::callbacks()).await? else {
            return Ok(false);
        };
        let first = self.first_answer(&Partition::first(topic), key.as_bytes()).await?;
        let Some((_, _, id)) = first.filter(|(_, asked, _)| *asked == fingerprint) else {
            return Ok(false);
        };
        match self.get(&MessageRef::Id(id)).await {
            Ok((_, found)) => Ok(may_be_of(&found, publisher)),
            Err(Error::MessageNotFound) => Ok(true),
            Err(error) => Err(error),
        }
    }
}
