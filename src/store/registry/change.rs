//! Changes of the registry, and how partitions learn what it says of their topic; both may have been left behind half way.

use super::{
    super::{
        batch::{Command, Confirm, Confirmed},
        partition::Partition,
        reply::{CallError, Fields, int, word},
        scripts::{self, Script},
        types::Maker,
        upgrade::upgrade_partition,
    },
    Registry, Topic,
    create::refused,
};
use deadpool_redis::redis::Value;
use dueq_model::{
    Millis, OnFull, PartitionNumber, Retention, TopicName, TopicNumber, TopicSettings,
    error::Error, micros_between,
};
use futures_util::future::{join_all, try_join_all};
use std::sync::Arc;

impl Registry {
    /// Puts a topic's configuration into the registry and into its partition. Returns whether the topic was created by it;
    /// nothing where something else was written than the caller worked from. `worked_from`: what was written (`Topic::written`)
    /// then; 0 where there was no topic. A new topic counts for this key, and gets this number, if they are given; nothing is done
    /// where the number is another topic's.
    ///
    /// Errors: `TopicsExhausted`, `TooManyTopics`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn put(
        &self,
        name: &TopicName,
        new: (Option<&Maker>, Option<TopicNumber>),
        settings: &TopicSettings,
        worked_from: i64,
    ) -> Result<Option<bool>, Error> {
        let epochs = self.lanes.shared.registry_epochs();
        let (answer, confirmed) = self.write(name, new, settings, worked_from).await?;
        refused(&answer, new.0)?;
        if matches!(word(&answer), Some("CHANGED" | "TAKEN")) {
            return Ok(None);
        }
        let mut fields = Fields::of(answer)?;
        let created = fields.int()? == 1;
        let topic = self.remember(name, fields.value()?, epochs)?;
        // From here on scripts refuse an older configuration.
        let opened = self.open_partitions(&topic).await.map_err(|_| CallError::Unknown)?;
        if !opened {
            // A delete died half way; it is completed now, and the topic can be created again.
            return Ok(None);
        }
        // Consumers may wait for it before it exists, or under another configuration.
        self.lanes.wake(name, None);
        // Those who send what is pushed look at all settings again.
        self.lanes.wake(&TopicName::pushed(), None);
        if !created {
            // A new TTL or retention may concern what is there.
            for partition in topic.all() {
                let now = self.lanes.at_slot(partition.slot, |node| node.backend.clock.now());
                partition.sweep_by(now, Some(now));
            }
        }
        confirmed.wait().await?;
        Ok(Some(created))
    }

    async fn write(
        &self,
        name: &TopicName,
        (maker, number): (Option<&Maker>, Option<TopicNumber>),
        settings: &TopicSettings,
        worked_from: i64,
    ) -> Result<(Value, Confirmed), CallError> {
        let (push, confirm) = (settings.push.is_some(), Confirm::of_change(settings));
        let settings = serde_json::to_string(settings).map_err(|_| CallError::Internal)?;
        let put = self.changing_call(&scripts::PUT_TOPIC);
        let put = put.arg(name.as_str()).arg(TopicNumber::MOST).arg(settings);
        let put = put.arg(worked_from).arg(u8::from(push)).arg(Maker::to_script(maker)).arg("");
        self.lanes.change(put.arg(number.map(|number| number.0)), confirm).await
    }

    /// The partition knows of a later change of the topic than the registry, as `topic` was read of it: either that has
    /// changed meanwhile, or its server has lost its last moment in a failover, or a dueq wrote it that knows of no
    /// partitions. Then it catches up: a configuration is written as a later revision, with all partitions, and a topic
    /// that was deleted and created again is forgotten, to be created once more.
    async fn catch_up(&self, topic: &Arc<Topic>, lost: Lost) -> Result<(), CallError> {
        let Some(present) =
            self.look_up(&topic.name).await?.filter(|now| now.version_tag == topic.version_tag)
        else {
            return Ok(());
        };
        tracing::warn!(topic = %topic.name, "the registry of topics had lost a change; it catches up");
        let mut settings = present.settings.clone();
        match lost {
            Lost::Topic => return self.remove(&present).await.map(|_| ()),
            Lost::Change { paused } if topic.is_split() => {
                (settings.paused, settings.was_closing) = (paused, true);
            }
            Lost::Change { .. } => {}
            Lost::Partitions { known, paused } => {
                (settings.partitions, settings.paused) = (known, paused);
            }
            Lost::Groups { paused } => {
                settings.grouped = true;
                if topic.is_split() {
                    settings.paused = paused;
                }
            }
        }
        self.write(&topic.name, (None, None), &settings, present.written).await?;
        self.forget(&present);
        Ok(())
    }

    /// Takes a deleted topic, whose first partition is closed, out of the registry; before that closes the others. Returns
    /// how many messages went with them.
    pub async fn remove(&self, topic: &Arc<Topic>) -> Result<i64, CallError> {
        let close = async |partition: Partition| {
            let close = Command::on_all_with_rare(&scripts::CLOSE_PARTITION, &partition);
            let close = close.arg((topic.number.0, 2, DELETED_MARK_MS));
            int(self.lanes.command(close).await?)
        };
        let messages = try_join_all(topic.all().skip(1).map(close)).await?.into_iter().sum();
        let remove = self.changing_call(&scripts::REMOVE_TOPIC);
        let remove = remove.arg(topic.name.as_str()).arg(topic.number.0);
        let (_, confirmed) = self.lanes.change(remove, Confirm::of_change(&topic.settings)).await?;
        self.forget(topic);
        self.lanes.shared.metrics.forget_topic(&topic.name);
        self.forget_names(&topic.all().map(|it| it.name()).collect::<Vec<_>>()).await;
        confirmed.wait().await?;
        Ok(messages)
    }

    /// A script answered STALE: the registry is read again and written to the partition, in case the
    /// instance that changed the topic died in between.
    pub async fn refresh(&self, stale: &Partition) -> Result<(), CallError> {
        let Some(topic) = self.look_up_again(&stale.topic).await? else { return Ok(()) };
        let stale = topic.partition(stale.route.partition);
        let first = Partition::first(topic);
        if !first.topic.may_be_closed() {
            self.open_partition(&stale.unwrap_or(first)).await?;
        } else if self.open_partition(&first).await?
            && let Some(stale) = stale.filter(|it| it.route != first.route)
        {
            self.open_partition(&stale).await?;
        }
        Ok(())
    }

    /// As [`Registry::refresh`], for several partitions of a topic, each of which may be named more than once.
    pub async fn refresh_all(&self, mut stale: Vec<Partition>) -> Result<(), CallError> {
        stale.sort_by_key(|partition| partition.route.partition);
        stale.dedup_by_key(|partition| partition.route.partition);
        for partition in &stale {
            self.refresh(partition).await?;
        }
        Ok(())
    }

    /// Reads the registry and writes it to the topic's partitions.
    pub async fn open(&self, name: &TopicName) -> Result<(), CallError> {
        match self.look_up(name).await? {
            Some(topic) => self.open_partitions(&topic).await.map(|_| ()),
            None => Ok(()),
        }
    }

    /// Tells all partitions what the registry says of their topic; false where the topic was deleted.
    pub(super) async fn open_partitions(&self, topic: &Arc<Topic>) -> Result<bool, CallError> {
        let first = Partition::first(topic.clone());
        if topic.may_be_closed() && !self.open_partition(&first).await? {
            return Ok(false);
        }
        let open = topic.all().map(async |partition| self.open_partition(&partition).await);
        // All of them, even if one's server is away: the others have to know.
        let opened: Result<Vec<_>, _> = join_all(open).await.into_iter().collect();
        Ok(!opened?.contains(&false))
    }

    /// Tells a partition what the registry says of its topic; false where the topic was deleted.
    async fn open_partition(&self, partition: &Partition) -> Result<bool, CallError> {
        let topic = &partition.topic;
        let open = opening_call(partition);
        let mut answer = self.lanes.command(open.clone()).await?;
        if word(&answer) == Some("OLDER") {
            upgrade_partition(&self.lanes, partition).await?;
            answer = self.lanes.command(open.clone()).await?;
        }
        match word(&answer) {
            Some(word) if let Some(lost) = Lost::read(word) => {
                self.forget(topic);
                self.catch_up(topic, lost).await?;
            }
            // A newer dueq has taken over: nothing can be done here any more.
            Some("NEWER") => return Err(CallError::Unavailable),
            // The instance that deleted it died before the registry knew.
            Some("DELETED") if decides(partition) => {
                self.remove(topic).await?;
                return Ok(false);
            }
            // The first was closed before. Where it is open, its server has lost that in a failover, and the topic goes on.
            Some("DELETED") => {
                let first = opening_call(&Partition::first(topic.clone()));
                if word(&self.lanes.command(first).await?) == Some("OK") {
                    self.lanes.command(open.arg(1)).await?;
                }
            }
            _ => {}
        }
        Ok(true)
    }

    /// A call of a script that changes the registry, and with it which topics are pushed.
    pub(super) fn changing_call(&self, script: &'static Script) -> Command {
        let keys = &self.lanes.shared.keys;
        Command::eval(
            script,
            &[&keys.registry, &keys.names, &keys.index, &keys.pushed, &keys.makers],
        )
    }
}

/// Writes what the registry says of a topic into one of its partitions.
fn opening_call(partition: &Partition) -> Command {
    let topic = &partition.topic;
    let TopicSettings { max_attempts, backoff, lease_ms, dead_topic, .. } = &topic.settings;
    let most = partition.large_share(topic.settings.retention.acked_max);
    let most =
        if most == Retention::default().acked_max { String::new() } else { most.to_string() };
    let keys = &partition.keys;
    let keys = [keys.meta.as_str(), &keys.first_due, &keys.rates, &keys.history, &keys.recent];
    let open = Command::script(&scripts::OPEN_PARTITION, &keys).arg(&topic.version_tag);
    let open = open.arg(max_attempts).arg(backoff.to_script()).arg(lease_ms);
    let open = open.arg(rules(partition));
    let open = open
        .arg(dead_topic.as_ref().map_or("", TopicName::as_str))
        .arg(most)
        .arg(topic.partitions.len());
    let paused = topic.is_split().then(|| u8::from(topic.settings.paused).to_string());
    let open = open.arg(paused.unwrap_or_default()).arg(group_rules(&topic.settings));
    open.arg(if topic.settings.is_fair() { "1" } else { "" })
}

/// Is a topic deleted once this partition is closed?
fn decides(partition: &Partition) -> bool {
    partition.route.partition == PartitionNumber::default()
}

/// What the registry has lost, as a partition says that knows it, and whether the topic is paused: that may be lost too.
enum Lost {
    /// A change of the topic.
    Change { paused: bool },
    /// A topic that was created again under the name.
    Topic,
    /// Partitions: how many there are.
    Partitions { known: i64, paused: bool },
    /// That messages of the topic are in groups.
    Groups { paused: bool },
}

impl Lost {
    fn read(answer: &str) -> Option<Self> {
        let paused = answer.ends_with(" 1");
        match answer.split(' ').collect::<Vec<_>>()[..] {
            ["STALE", _] => Some(Self::Change { paused }),
            ["REPLACED"] => Some(Self::Topic),
            ["GROUPS", _] => Some(Self::Groups { paused }),
            ["SPLIT", known, _] => Some(Self::Partitions { known: known.parse().ok()?, paused }),
            _ => None,
        }
    }
}

/// What scripts mind of groups, as their `group_rules` reads it; empty where it is the default.
fn group_rules(settings: &TopicSettings) -> String {
    let TopicSettings { group_rate_per_s, group_burst, .. } = settings;
    let most = settings.leased_per_group().unwrap_or_default();
    let interval = group_rate_per_s.map(|rate| format!("{:.0}", micros_between(rate)));
    // A group may have a rate of its own, with the topic's burst.
    match interval {
        None if (most, *group_burst) == (1, 1) => String::new(),
        interval => format!("{most},{},{group_burst}", interval.unwrap_or_default()),
    }
}

/// How long nobody takes up a deleted topic again who does not know yet that it is: 1 h in ms.
pub(crate) const DELETED_MARK_MS: Millis = 3_600_000;

/// What of the configuration scripts mind, as their `parse_rules` reads it in the partition's `meta`, without its first part: empty parts for what is not so.
fn rules(partition: &Partition) -> String {
    let settings = &partition.topic.settings;
    let defaults = Retention::default();
    let Retention { acked_ms, dead_ms, dead_max, .. } = settings.retention;
    let unless = |number: i64, default: i64| {
        if number == default { String::new() } else { number.to_string() }
    };
    let optional =
        |number: Option<i64>| number.map(|number| number.to_string()).unwrap_or_default();
    let on_full = match (settings.max_messages, settings.on_full) {
        (Some(_), OnFull::DropOldest) => "drop_oldest",
        _ => "",
    };
    [
        &optional(settings.ttl_ms),
        &unless(acked_ms, 0),
        &unless(dead_ms, defaults.dead_ms),
        &unless(partition.large_share(dead_max), defaults.dead_max),
        &optional(settings.max_messages.map(|most| partition.share(most))),
        on_full,
    ]
    .join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::partition;

    #[test]
    fn a_topic_of_defaults_has_no_rules() {
        let rules = |settings| rules(&partition(settings));
        assert_eq!(rules(TopicSettings::default()), ",,,,,");
        let settings = TopicSettings {
            ttl_ms: Some(5),
            max_messages: Some(7),
            on_full: OnFull::DropOldest,
            retention: Retention { acked_ms: 1, dead_ms: 2, dead_max: 3, ..Retention::default() },
            ..TopicSettings::default()
        };
        assert_eq!(rules(settings), "5,1,2,3,7,drop_oldest");
    }
}
