//! Topics: their configuration here, what they hold in `contents`, and what works through many messages in `bulk`.

mod bulk;
mod contents;

pub use bulk::{Purged, Redriven};
pub use contents::{TOTALS, TopicSnapshot};
#[cfg(test)]
pub(super) use {
    bulk::{read_purged, read_redriven},
    contents::{count, read_forecast, read_listed, read_totals},
};

use super::{
    Store,
    batch::Command,
    registry::Topic,
    reply::{CallError, Reply, int, word},
    scripts,
};
use crate::{
    error::Error,
    model::{Millis, TopicName, TopicSettings},
};
use deadpool_redis::redis::Value;
use std::{sync::Arc, time::Duration};

/// How long nobody takes up a deleted topic again who does not know yet that it is: 1 h in ms.
const DELETED_MARK_MS: Millis = 3_600_000;
/// Between two looks whether deaths have been told of.
const DEATHS_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The revision of a topic that does not exist.
const NO_REVISION: i64 = 0;

impl Store {
    /// Names of topics in order: those that begin with `prefix` and come after `after`, at most `limit`.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn topic_names(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<TopicName>, Error> {
        let from = match after {
            Some(name) if name >= prefix => format!("({name}"),
            _ => format!("[{prefix}"),
        };
        // Names are ASCII: 0xff comes after all that begin with the prefix.
        let to = [b"[", prefix.as_bytes(), b"\xff"].concat();
        let range = Command::new("ZRANGEBYLEX").arg(&self.lanes.shared.keys.index);
        let range = range.arg((from, to, "LIMIT", 0, limit));
        match self.lanes.command(range).await? {
            Value::Array(names) => {
                Ok(names.iter().filter_map(|name| TopicName::parse(word(name)?).ok()).collect())
            }
            _ => Err(Error::Internal),
        }
    }

    /// Gives a topic a configuration, and makes it if there is none. `change` makes the new one of the present one, of which
    /// it may keep secrets. `if_match`: revisions one of which it must have. Returns whether it was made.
    ///
    /// Errors: those of `change`, `RevisionMismatch`, `TopicsExhausted`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn put_topic(
        &self,
        name: &TopicName,
        change: impl Fn(Option<&TopicSettings>) -> Result<TopicSettings, Error>,
        if_match: Option<&[i64]>,
    ) -> Result<bool, Error> {
        let too_many = || Error::TooManySecretHeaders("push.secret_headers".to_owned());
        let mut retry = self.stale_retry();
        while retry.next().await {
            let topic = self.registry.look_up(name).await?;
            let worked_from = topic.as_ref().map_or(NO_REVISION, |topic| topic.revision);
            let before = topic.as_ref().map(|topic| &topic.settings);
            let settings = change(before)?.remembering(before, self.now()).ok_or_else(too_many)?;
            let put = self.registry.put(name, &settings, if_match, Some(worked_from));
            if let Some(created) = put.await? {
                return Ok(created);
            }
        }
        Err(CallError::Stale.into())
    }

    /// Changes a topic's configuration; `change` makes the new one of the present one.
    ///
    /// Errors: those of `change`, `TopicNotFound`, `RevisionMismatch` (also where there is no topic and `if_match`), `RedisUnavailable`,
    /// `OutcomeUnknown`.
    pub async fn update_topic(
        &self,
        name: &TopicName,
        change: impl Fn(&TopicSettings) -> Result<TopicSettings, Error>,
        if_match: Option<&[i64]>,
    ) -> Result<(), Error> {
        let change = |before: Option<&TopicSettings>| match before {
            Some(before) => change(before),
            None if if_match.is_some() => Err(Error::RevisionMismatch),
            None => Err(Error::TopicNotFound),
        };
        self.put_topic(name, change, if_match).await.map(|_| ())
    }

    /// Stops granting, on every instance at once.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn pause_topic(&self, name: &TopicName) -> Result<(), Error> {
        self.set_paused(name, true).await
    }

    /// Grants again, on every instance at once.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn resume_topic(&self, name: &TopicName) -> Result<(), Error> {
        self.set_paused(name, false).await
    }

    async fn set_paused(&self, name: &TopicName, paused: bool) -> Result<(), Error> {
        let pause = |topic: &Arc<Topic>| {
            let pause = Command::script(&scripts::PAUSE_TOPIC, &[&topic.keys.meta]);
            pause.arg((&topic.word, paused)).read(topic, move |reply| {
                reply.wake = !paused;
                reply.expect("OK")
            })
        };
        self.on(name, pause).await.map(|_| ())
    }

    /// Deletes a topic; with `force` together with what is in it, else once deaths in it have been told of elsewhere. Its
    /// partition is closed first, then the registry forgets it. Returns how many messages went.
    ///
    /// Errors: `TopicNotFound`, `TopicNotEmpty`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn delete_topic(&self, name: &TopicName, force: bool) -> Result<i64, Error> {
        let mut retry = self.stale_retry();
        while retry.next().await {
            let close = |topic: &Arc<Topic>| {
                let close = Command::on(&scripts::CLOSE_PARTITION, topic);
                let number = topic.route.topic.0;
                close.arg((number, force, DELETED_MARK_MS)).read(topic, read_closed)
            };
            let (topic, closed) = self.on(name, close).await?;
            match closed {
                Closed::Done(messages) => {
                    let removed = self.registry.remove(&topic).await;
                    removed.map_err(|error| Error::from(error).after_change())?;
                    return Ok(messages);
                }
                Closed::NotEmpty => break,
                Closed::NotYet => {}
                Closed::Untold => {
                    topic.tell_deaths(self.now());
                    tokio::time::sleep(DEATHS_POLL_INTERVAL).await;
                }
            }
        }
        Err(Error::TopicNotEmpty)
    }
}

/// What came of closing a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// So many messages went.
    Done(i64),
    /// There are messages.
    NotEmpty,
    /// There are messages, but some of them are over: ask again.
    NotYet,
    /// There are none, but deaths that are still to be told of elsewhere.
    Untold,
}

pub(super) fn read_closed(reply: &mut Reply<'_>) -> Result<Closed, CallError> {
    match reply.word() {
        Some("NOT_EMPTY") => Ok(Closed::NotEmpty),
        Some("MORE") => Ok(Closed::NotYet),
        Some("UNTOLD") => Ok(Closed::Untold),
        _ => int(std::mem::replace(&mut reply.whole, Value::Nil)).map(Closed::Done),
    }
}
