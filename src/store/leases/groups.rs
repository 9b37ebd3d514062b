//! Groups: how messages come into one, and list_groups, which shows them. Who comes after whom is the scripts' to say
//! (`migrations-lua/includes/group.lua`).

use crate::{
    Store,
    backend::GROUPS_VERSION,
    batch::{Command, Request},
    callback_names::parts,
    partition::Partition,
    registry::Topic,
    reply::{CallError, Reply},
    scripts,
    types::{Idempotency, MessageOptions},
};
use dueq_model::{GroupSettings, Millis, TopicName, error::Error};
use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

/// Groups of one call.
const CALL_GROUPS: usize = 64;

/// A group that has live messages, or settings of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// What groups are listed by: 16 hex digits.
    pub id: String,
    /// Its name, in `_callbacks` as its publisher gave it.
    pub name: String,
    /// In `_callbacks`: the name of the API key whose it is, empty for one without a name.
    pub publisher: Option<String>,
    /// Messages that consumers hold.
    pub leased: i64,
    /// Messages that wait for others of the group.
    pub blocked: i64,
    /// Messages that wait for their due time or for a consumer.
    pub waiting: i64,
    /// When the next of the others is due; `None` if there is none.
    pub next_at: Option<Millis>,
    /// Its own settings.
    pub settings: GroupSettings,
}

impl Group {
    /// One of this topic without messages.
    fn of(topic: &TopicName, id: String, stored: &str) -> Self {
        let (publisher, name) = match topic.is_callbacks() {
            true => parts(stored),
            false => ("", stored),
        };
        let publisher = topic.is_callbacks().then(|| publisher.to_owned());
        Self {
            id,
            name: name.to_owned(),
            publisher,
            leased: 0,
            blocked: 0,
            waiting: 0,
            next_at: None,
            settings: GroupSettings::default(),
        }
    }
}

/// Some groups of a partition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SomeGroups {
    items: Vec<Group>,
    more: bool,
    /// There are groups with settings of their own.
    own: bool,
}

impl MessageOptions {
    /// Errors: `BadSetting` where the group and the key are at home in different partitions. An idempotency key is remembered where
    /// its group is.
    pub(crate) fn check_names(&self, is_split: bool) -> Result<(), Error> {
        let is_named =
            self.key.is_some() || self.idempotency.as_ref().is_some_and(Idempotency::is_policy);
        if is_split && self.group.is_some() && is_named {
            let reason = "cannot be given together with key, debounce, throttle or once in a topic of several partitions";
            return Err(Error::BadSetting("group", reason));
        }
        Ok(())
    }
}

impl Store {
    /// Does the registry say that messages of this topic are in groups? It does from now on, so that no older dueq works on
    /// them. False: the topic must be looked up again.
    ///
    /// Errors: `UpgradePending`, `RedisUnavailable`, `OutcomeUnknown`.
    pub(crate) async fn knows_groups(&self, topic: &Arc<Topic>) -> Result<bool, Error> {
        if !topic.settings.grouped {
            self.adopt_version(GROUPS_VERSION).await?;
            // Nothing is published yet, whatever comes of it.
            let noted = self.note(topic, |settings| settings.grouped = true).await;
            noted.map_err(|_| Error::RedisUnavailable)?;
            self.registry.forget(topic);
        }
        Ok(topic.settings.grouped)
    }

    /// Groups that have live messages or settings of their own, at most `limit`, in the order of their IDs; and whether there are more. `after`: the
    /// ID of the last one on the page before.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn groups(
        &self,
        name: &TopicName,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<Group>, bool), Error> {
        let (topic, after) = (name, after.unwrap_or_default());
        let parts = self.on_each(name, |it| list(it, after, limit, "")).await?;
        let (mut groups, mut more) = (Vec::new(), false);
        for (partition, mut some) in parts {
            let (name, mut its) = (partition.name(), Vec::new());
            let own = match some.own {
                true => self.own_groups(&partition).await?,
                false => BTreeMap::new(),
            };
            its.append(&mut some.items);
            while some.more && its.len() < limit {
                let after = its.last().map_or(after, |group: &Group| &group.id).to_owned();
                some = self.on(&name, |it| list(it, &after, limit, "")).await?.1;
                its.append(&mut some.items);
            }
            let last = its.last().filter(|_| some.more).map(|group: &Group| group.id.clone());
            let here: HashSet<_> = its.iter().map(|group| group.id.clone()).collect();
            let idle = own.into_iter().filter(|(id, _)| {
                id.as_str() > after
                    && last.as_ref().is_none_or(|last| id < last)
                    && !here.contains(id)
            });
            its.extend(
                idle.map(|(id, (name, settings))| Group {
                    settings,
                    ..Group::of(topic, id, &name)
                }),
            );
            groups.append(&mut its);
            more |= some.more;
        }
        groups.sort_by(|a, b| a.id.cmp(&b.id));
        more |= groups.len() > limit;
        groups.truncate(limit);
        Ok((groups, more))
    }

    /// This group, by the name that it is stored under; zeros if it has no live messages.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn group(&self, name: &TopicName, group: &str) -> Result<Group, Error> {
        let home = crate::stale::Target::Key(name, group);
        let (_, found) = self.on(home, |it| list(it, "", 1, group)).await?;
        let none = || Group::of(name, String::new(), group);
        Ok(found.items.into_iter().next().unwrap_or_else(none))
    }
}

fn list(partition: &Partition, after: &str, limit: usize, alone: &str) -> Request<SomeGroups> {
    let list = Command::on(&scripts::LIST_GROUPS, partition);
    list.arg((after, limit.min(CALL_GROUPS), alone)).read(partition, read_groups)
}

pub(crate) fn read_groups(reply: &mut Reply<'_>) -> Result<SomeGroups, CallError> {
    reply.now()?;
    let topic = reply.topic().name.clone();
    let (more, own) = (reply.int()? == 1, reply.int()? == 1);
    let mut items = Vec::with_capacity(reply.len() / 7);
    while !reply.is_empty() {
        let (id, stored) = (reply.text()?, reply.text()?);
        items.push(Group {
            leased: reply.int()?,
            blocked: reply.int()?,
            waiting: reply.int()?,
            next_at: reply.instant()?,
            settings: GroupSettings::parse(&reply.text()?).unwrap_or_default().0,
            ..Group::of(&topic, id, &stored)
        });
    }
    Ok(SomeGroups { items, more, own })
}
