//! Growth: a topic gets more partitions while it is in use. Nothing moves: ids name their partition, and a message without a
//! name may lie in any. A name has a home among so many partitions, though, where its repetition is looked for, so a topic
//! in which names stand does not grow. Nor does one whose partitions would hold more than their new share of a bound: of
//! `max_messages`, since the others would have room for more than the topic has, or of what is retained.
//!
//! So that no name comes in between the look and the change, nothing is published meanwhile (`TopicSettings::closing`). The
//! registry decides: once it says how many partitions there are, the next request to a partition that does not know opens it. A
//! growth that is cut off before that has not happened, and the next request that waits for it takes `closing` back.

use super::super::{
    Store,
    batch::Command,
    extra::Extra,
    partition::Partition,
    registry::Topic,
    reply::{bytes, int},
};
use deadpool_redis::redis::Value;
use dueq_model::{Millis, TopicSettings, error::Error};
use futures_util::future::try_join_all;
use std::sync::Arc;

/// Dead messages that are looked at by one call.
const PAGE: usize = 500;

impl Store {
    /// Prepares the change of `topic` to `settings`, which have more partitions; false where the topic has to be read again
    /// first.
    ///
    /// Errors: `NamesInUse`, `BadSetting`, `RedisUnavailable`, `OutcomeUnknown`.
    pub(super) async fn prepare_growth(
        &self,
        topic: &Arc<Topic>,
        settings: &mut TopicSettings,
    ) -> Result<bool, Error> {
        let allowed = self.may_grow(topic, settings).await;
        if !topic.settings.closing {
            // Mostly there are names where there ever are, and nobody need be held up.
            allowed?;
            return self.set_closing(topic, true).await.map(|()| false).map_err(Error::from);
        }
        if let Err(error) = allowed {
            // If this fails, the next publish does it.
            let _ = self.set_closing(topic, false).await;
            return Err(error);
        }
        if !topic.is_split() {
            // Only its partition knows.
            let there = self.topic_in_force(&topic.name).await?;
            settings.paused = there.paused;
            return Ok(there.topic.version_tag == topic.version_tag);
        }
        Ok(true)
    }

    /// Refuses the growth of a topic in which there are names, or more messages than are kept afterwards.
    async fn may_grow(&self, topic: &Arc<Topic>, settings: &TopicSettings) -> Result<(), Error> {
        let refuse = |why| Err(Error::BadSetting("partitions", why));
        let share = |most: i64| most / settings.partitions;
        let TopicSettings { max_messages, retention, .. } = settings;
        // All at once: the second time, publishes wait for it.
        for [live, dead, acked] in try_join_all(topic.all().map(|it| self.held_by(it))).await? {
            // Others would have room for more than is left.
            if max_messages.is_some_and(|most| live > share(most)) {
                return refuse(
                    "would exceed max_messages: a partition holds more than its part of it; raise that, or consume some",
                );
            }
            if dead > share(retention.dead_max) {
                return refuse(
                    "would drop dead messages: a partition holds more than its part of retention.dead_max; raise that, or \
                     purge",
                );
            }
            if retention.acked_ms > 0 && acked > share(retention.acked_max) {
                return refuse(
                    "would forget acknowledged messages: a partition holds more than its part of retention.acked_max; \
                     raise that, or shorten retention.acked_ms",
                );
            }
        }
        match self.names_in(topic).await? {
            0 => Ok(()),
            names => Err(Error::NamesInUse(names)),
        }
    }

    /// How many messages of a partition are live, dead and acknowledged.
    async fn held_by(&self, partition: Partition) -> Result<[i64; 3], Error> {
        let keys = &partition.keys;
        let live = [&keys.delayed, &keys.delayed_prio, &keys.ready, &keys.unack, &keys.last];
        let sets = live.into_iter().chain([&keys.blocked, &keys.dead, &keys.acked]);
        let counts = sets.map(|key| self.lanes.command(Command::new("ZCARD").arg(key)));
        let counts: Vec<_> = try_join_all(counts).await?.into_iter().map(int).collect();
        let counts = counts.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok([counts[..6].iter().sum(), counts[6], counts[7]])
    }

    /// How many names are in use in a topic: keys that messages hold, idempotency keys that still answer, heads of groups,
    /// groups with settings of their own, and what dead messages take up again by a redrive.
    async fn names_in(&self, topic: &Arc<Topic>) -> Result<i64, Error> {
        let count = async |partition: Partition| {
            // A message may die, or be redriven, between two looks.
            let died = self.dead_names(&partition).await?;
            let keys = Command::new("HLEN").arg(&partition.keys.keys);
            let answering = self.now_at(&partition).to_string();
            let idem = Command::new("ZCOUNT").arg((&partition.keys.idem_due, answering, "+inf"));
            // Each group with messages has at least one head, unless it is fair.
            let heads = Command::new("ZCARD").arg(&partition.keys.heads);
            let waiting = if topic.settings.is_fair() { "+" } else { "-" };
            let waiting = Command::new("ZLEXCOUNT").arg((&partition.keys.queued, "-", waiting));
            let counts = [keys, idem, heads, waiting].map(|count| self.lanes.command(count));
            let counts = try_join_all(counts).await?;
            let names: Result<Millis, _> = counts.into_iter().map(int).sum();
            let names = names? + self.count_own_groups(&partition).await?;
            Ok::<_, Error>(names + self.dead_names(&partition).await?.max(died))
        };
        Ok(try_join_all(topic.all().map(count)).await?.into_iter().sum())
    }

    /// How many dead messages of a partition have a key or a group.
    async fn dead_names(&self, partition: &Partition) -> Result<i64, Error> {
        let keys = &partition.keys;
        let mut names = 0;
        for from in (0..).step_by(PAGE) {
            let page = Command::new("ZRANGE").arg((&keys.dead, from, from + PAGE - 1));
            let Value::Array(members) = self.lanes.command(page).await? else {
                return Err(Error::Internal);
            };
            if members.is_empty() {
                break;
            }
            let mut extras = Command::new("HMGET").arg(&keys.extra);
            for member in members {
                extras = extras.arg(&bytes(member)?[..]);
            }
            let Value::Array(extras) = self.lanes.command(extras).await? else {
                return Err(Error::Internal);
            };
            let has_name = |extra: Value| {
                // One that has nothing of its own, or was redriven meanwhile.
                let Value::BulkString(extra) = extra else { return None };
                let extra = Extra::parse(&String::from_utf8_lossy(&extra));
                extra.key.or(extra.options.group)
            };
            names += extras.into_iter().filter_map(has_name).count() as i64;
        }
        Ok(names)
    }
}
