//! Topics: their configuration here, what they hold in `contents`, `list` and `reasons`, and what works through many messages in
//! `bulk` and `found`.

mod bulk;
mod contents;
mod found;
mod grow;
mod list;
mod loading;
mod reasons;

pub use bulk::Worked;
pub(super) use contents::count;
pub use contents::{TOTALS, TopicSnapshot};
pub use found::{MovesBack, Selected, Selection};
pub use list::Listing;
pub use reasons::Reason;
#[cfg(test)]
pub(super) use {
    bulk::read_purged,
    contents::{read_forecast, read_totals},
    list::read_listed,
};

use super::{
    Store,
    batch::{Command, Request},
    partition::Partition,
    registry::{DELETED_MARK_MS, Topic},
    reply::{CallError, Reply, int, word},
    scripts,
    types::{IfAbsent, Maker},
};
use deadpool_redis::redis::Value;
use dueq_model::{DEFAULT_PAYLOAD_BYTES, TopicName, TopicSettings, error::Error};
use futures_util::future::try_join_all;
use std::{sync::Arc, time::Duration};

/// Between two looks whether deaths have been published.
const DEATHS_POLL_INTERVAL: Duration = Duration::from_millis(20);

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
    /// it may keep secrets. `if_match`: revisions one of which it must have; `maker`: the key for which it is made. Returns whether
    /// it was made.
    ///
    /// Errors: those of `change`, `RevisionMismatch`, `NamesInUse`, `BadSetting`, `TopicsExhausted`, `TooManyTopics`, `UpgradePending`,
    /// `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn put_topic(
        &self,
        name: &TopicName,
        change: impl Fn(Option<&TopicSettings>) -> Result<TopicSettings, Error>,
        if_match: Option<&[i64]>,
        maker: Option<&Maker>,
    ) -> Result<bool, Error> {
        let too_many = || Error::TooManySecretHeaders("push.secret_headers".to_owned());
        let mut retry = self.stale_retry();
        while retry.next().await {
            let topic = self.registry.look_up(name).await?;
            let (revision, worked_from) =
                topic.as_ref().map_or((0, 0), |it| (it.revision, it.written));
            let before = topic.as_ref().map(|topic| &topic.settings);
            let settings = change(before)?.remembering(before, self.now());
            let mut settings = settings.ok_or_else(too_many)?;
            if if_match.is_some_and(|wanted| topic.is_none() || !wanted.contains(&revision)) {
                return Err(Error::RevisionMismatch);
            }
            self.check_replicas(name, &settings, before).await?;
            self.adopt_for(&settings, before).await?;
            if let Some(topic) = &topic
                && settings.partitions > topic.settings.partitions
                && !self.prepare_growth(topic, &mut settings).await?
            {
                continue;
            }
            let rules = |it: &TopicSettings| {
                (it.group_order, it.group_concurrency, it.group_rate_per_s, it.group_burst)
            };
            let raised = before.is_some_and(|it| it.grouped && rules(it) != rules(&settings));
            if let Some(created) =
                self.registry.put(name, (maker, None), &settings, worked_from).await?
            {
                if raised {
                    self.raise_groups(name).await;
                }
                return Ok(created);
            }
        }
        Err(CallError::Stale.into())
    }

    /// Makes a topic, if there is none of this name, which counts for this key.
    ///
    /// Errors: `TooManyTopics`, `TopicsExhausted`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn make_topic(&self, name: &TopicName, maker: &Maker) -> Result<(), Error> {
        self.registry.find_or_create(name, Some(maker), None).await.map(drop)
    }

    /// The topic for a payload of `size` bytes.
    pub(crate) async fn topic_for(
        &self,
        name: &TopicName,
        size: i64,
        absent: IfAbsent<'_>,
    ) -> Result<Arc<Topic>, Error> {
        let default = DEFAULT_PAYLOAD_BYTES as i64;
        if name.is_callbacks() && size <= default {
            self.make_callbacks().await?;
        }
        let known = match absent {
            IfAbsent::Create(maker) if size <= default => {
                Some(self.registry.find_or_create(name, maker, None).await?)
            }
            _ => self.registry.find(name).await?,
        };
        if known.is_none() && absent == IfAbsent::Refuse {
            return Err(Error::TopicNotFound);
        }
        if let Some(topic) = known.filter(|topic| size <= topic.settings.max_payload_bytes) {
            return Ok(topic);
        }
        // The limit may be a higher one by now; and what is refused makes no topic.
        let topic = self.registry.look_up(name).await?;
        let limit = topic.as_ref().map_or(default, |topic| topic.settings.max_payload_bytes);
        topic.filter(|_| size <= limit).ok_or(Error::PayloadTooLarge(limit))
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
        self.put_topic(name, change, if_match, None).await.map(|_| ())
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
        let mut retry = self.stale_retry();
        while retry.next().await {
            let topic = self.registry.find(name).await?.ok_or(Error::TopicNotFound)?;
            if topic.settings.closing {
                // It may be about to get more partitions, and then the registry keeps this.
                self.await_change(&topic, &retry).await;
                continue;
            }
            if !topic.is_split() {
                let first = Partition::first(topic);
                match self.set_paused_there(&first, paused).await {
                    // It may have got more partitions.
                    Err(CallError::Stale) => self.registry.refresh(&first).await?,
                    done => return Ok(done?),
                }
                continue;
            }
            // The registry tells all partitions, those too whose servers are away or forget it.
            if self.note(&topic, |settings| settings.paused = paused).await? {
                return Ok(());
            }
            self.registry.forget(&topic);
        }
        Err(CallError::Stale.into())
    }

    /// The same in the only partition.
    async fn set_paused_there(&self, only: &Partition, paused: bool) -> Result<(), CallError> {
        let pause = Command::script(&scripts::PAUSE_TOPIC, &[&only.keys.meta]);
        let pause =
            pause.arg((&only.topic.version_tag, paused)).confirmed().read(only, move |reply| {
                reply.wake = !paused;
                reply.expect("OK")
            });
        self.lanes.submit(pause).await
    }

    /// Deletes a topic; with `force` together with what is in it, else once deaths in it have been published elsewhere. Its
    /// partitions are closed first, then the registry forgets it. Returns how many messages went.
    ///
    /// The first partition decides: once it is closed, the topic is deleted, and the next instance that finds it closed does the rest. So that
    /// nothing comes into the others that would go with them, nothing is published meanwhile (`TopicSettings::closing`).
    ///
    /// Errors: `TopicNotFound`, `TopicNotEmpty`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn delete_topic(&self, name: &TopicName, force: bool) -> Result<i64, Error> {
        let mut retry = self.stale_retry();
        let mut late = Error::TopicNotEmpty;
        while retry.next().await {
            let topic = self.registry.find(name).await?.ok_or(Error::TopicNotFound)?;
            let first = Partition::first(topic.clone());
            // Only as it is known here: a topic that was created again may have other partitions.
            let closed = match force {
                true if topic.is_split() && !topic.settings.closing => {
                    self.set_closing(&topic, true).await.and(Err(CallError::Stale))
                }
                true => self.lanes.submit(close(&first, FORCE)).await,
                false if topic.is_split() => self.close_if_empty(&topic).await,
                false => self.lanes.submit(close(&first, EMPTY)).await,
            };
            match closed {
                Ok(Closed::Done(messages)) => {
                    let removed = self.registry.remove(&topic).await;
                    let more = removed.map_err(|error| Error::from(error).after_change())?;
                    return Ok(messages + more);
                }
                Ok(Closed::NotEmpty) => return Err(Error::TopicNotEmpty),
                Ok(Closed::NotYet) => {}
                Ok(Closed::Untold) => {
                    topic.all().for_each(|it| it.publish_ends(self.now()));
                    tokio::time::sleep(DEATHS_POLL_INTERVAL).await;
                }
                Err(CallError::Stale) => {
                    // All partitions: the instance that changed it may have died half way.
                    self.registry.forget(&topic);
                    self.registry.open(name).await?;
                    late = CallError::Stale.into();
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
            late = Error::TopicNotEmpty;
        }
        Err(late)
    }

    /// Closes the first of several partitions if all are empty; stale once it was tried, or if the topic was
    /// changed meanwhile: then the registry must be read again.
    async fn close_if_empty(&self, topic: &Arc<Topic>) -> Result<Closed, CallError> {
        let closing = topic.settings.closing;
        // The others first, as long as nothing can come into them.
        let looks = topic.all().skip(usize::from(closing)).map(|it| close(&it, LOOK));
        let looks = try_join_all(looks.map(|look| self.lanes.submit(look))).await?;
        let full = looks.into_iter().find(|closed| !matches!(closed, Closed::Done(_)));
        let ended = match (closing, full) {
            // Mostly there is something, and nobody need be held up.
            (false, Some(full)) => return Ok(full),
            (false, None) => self.set_closing(topic, true).await.and(Err(CallError::Stale)),
            (true, Some(full)) => Ok(full),
            (true, None) => {
                let first = Partition::first(topic.clone());
                self.lanes.submit(close(&first, EMPTY)).await
            }
        };
        if let Ok(Closed::NotEmpty | Closed::NotYet | Closed::Untold) = ended {
            self.set_closing(topic, false).await?;
        }
        ended
    }

    /// Notes that a topic is about to be deleted, or no longer, unless it was changed.
    pub(super) async fn set_closing(&self, topic: &Topic, closing: bool) -> Result<(), CallError> {
        let note = self.note(topic, |settings| {
            settings.was_closing |= settings.closing;
            settings.closing = closing;
        });
        note.await.map(|_| ())
    }

    /// Writes what is no change of the configuration next to it. False if the topic was changed meanwhile.
    pub(super) async fn note(
        &self,
        topic: &Topic,
        change: impl FnOnce(&mut TopicSettings),
    ) -> Result<bool, CallError> {
        let mut settings = topic.settings.clone();
        settings.revision = Some(topic.revision);
        change(&mut settings);
        match self.registry.put(&topic.name, (None, None), &settings, topic.written).await {
            Ok(put) => Ok(put.is_some()),
            Err(Error::OutcomeUnknown) => Err(CallError::Unknown),
            Err(Error::RedisUnavailable) => Err(CallError::Unavailable),
            Err(_) => Err(CallError::Internal),
        }
    }
}

/// How `close_partition` is asked: to close a partition if it is empty, in any case, or only to say whether it is empty.
const EMPTY: u8 = 0;
const FORCE: u8 = 1;
const LOOK: u8 = 3;

fn close(partition: &Partition, how: u8) -> Request<Closed> {
    let close = Command::on_all_with_rare(&scripts::CLOSE_PARTITION, partition);
    let number = partition.topic.number.0;
    close.arg((number, how, DELETED_MARK_MS)).read(partition, read_closed)
}

/// What came of closing a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// So many messages went.
    Done(i64),
    /// There are messages.
    NotEmpty,
    /// There are messages, but some of them are over: ask again.
    NotYet,
    /// There are none, but deaths that are still to be published elsewhere.
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
