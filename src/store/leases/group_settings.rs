//! Settings of one group, in place of its topic's. The group's partition keeps them as a field of `meta`, so that a topic in which
//! no group has any pays nothing, and `put_group` has them in force at once.

use crate::{
    Store,
    backend::FAIR_VERSION,
    batch::{Command, Request},
    partition::Partition,
    reply::{CallError, Fields, int},
    scripts,
};
use deadpool_redis::redis::Value;
use dueq_model::{GroupLimits, GroupSettings, MAX_OWN_GROUPS, TopicName, error::Error};
use std::collections::BTreeMap;

/// Fields of `meta` that a call looks at, about.
const PAGE: usize = 1_000;

impl Store {
    /// Pauses or resumes a group, and gives it these limits; `None` leaves them as they are. What waits is affected, too.
    ///
    /// Errors: `TopicNotFound`, `BadSetting`, `TooManyGroups`, `UpgradePending`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn set_group(
        &self,
        name: &TopicName,
        group: &str,
        paused: Option<bool>,
        limits: Option<&GroupLimits>,
    ) -> Result<(), Error> {
        let is_reset =
            paused != Some(true) && limits.is_none_or(|it| *it == GroupLimits::default());
        let (mut retry, mut step, mut is_fresh) = (self.stale_retry(), 0, false);
        while retry.next().await {
            let topic = match name.is_callbacks() {
                // Its first message may be still to come.
                true => self.registry.find_or_create(name, None, None).await?,
                false => self.registry.find(name).await?.ok_or(Error::TopicNotFound)?,
            };
            let takes_weight = topic.settings.is_fair() || topic.settings.loading.is_some();
            let is_refused = limits.is_some_and(|it| it.weight.is_some()) && !takes_weight;
            let is_noop = is_reset && !topic.settings.grouped;
            // Another instance may have changed the order, or paused the group, a moment ago.
            if (is_refused || is_noop) && !std::mem::replace(&mut is_fresh, true) {
                self.registry.forget(&topic);
                continue;
            }
            if is_refused {
                return Err(Error::BadSetting("weight", "is for topics whose group_order is fair"));
            }
            if is_noop {
                return Ok(());
            }
            if topic.settings.closing {
                // With more partitions, the group may be in another one.
                self.await_change(&topic, &retry).await;
                continue;
            }
            if !is_reset && !topic.settings.own_groups {
                // An older dueq would grant what is paused.
                self.adopt_version(FAIR_VERSION).await?;
                // Nothing is changed yet, whatever comes of it.
                let note = self.note(&topic, |it| (it.grouped, it.own_groups) = (true, true)).await;
                note.map_err(|_| Error::RedisUnavailable)?;
                self.registry.forget(&topic);
                continue;
            }
            let home = Partition::home(topic, group.as_bytes());
            loop {
                match self.lanes.submit(put(&home, group, (paused, limits), step)).await {
                    Ok(Some(0)) => return Ok(()),
                    Ok(Some(next)) => {
                        step = next;
                        // If this instance dies, a sweep does the rest.
                        home.sweep_by(self.now(), Some(self.now()));
                    }
                    Ok(None) => return Err(Error::TooManyGroups(MAX_OWN_GROUPS)),
                    Err(CallError::Stale) => break self.registry.refresh(&home).await?,
                    Err(error) => return Err(Error::from(error).after(step > 0)),
                }
            }
        }
        Err(CallError::Stale.into())
    }

    /// The groups of a partition that have settings of their own, by ID: names and settings.
    pub(crate) async fn own_groups(
        &self,
        partition: &Partition,
    ) -> Result<BTreeMap<String, (String, GroupSettings)>, CallError> {
        let (mut cursor, mut groups) = (Some("0".to_owned()), BTreeMap::new());
        while let Some(from) = cursor {
            let scan = Command::new("HSCAN").arg((&partition.keys.meta, from));
            let scan = scan.arg(("MATCH", "group:*", "COUNT", PAGE));
            let mut fields = Fields::of(self.lanes.command(scan).await?)?;
            cursor = fields.cursor()?;
            let mut pairs = fields.fields()?;
            while !pairs.is_empty() {
                let (field, line) = (pairs.text()?, pairs.text()?);
                if let (Some(id), Some((settings, name))) =
                    (field.strip_prefix("group:"), GroupSettings::parse(&line))
                {
                    groups.insert(id.to_owned(), (name.to_owned(), settings));
                }
            }
        }
        Ok(groups)
    }

    /// How many groups of a partition have settings of their own.
    pub(crate) async fn count_own_groups(&self, partition: &Partition) -> Result<i64, CallError> {
        let count = Command::new("HGET").arg((&partition.keys.meta, "own_groups"));
        match self.lanes.command(count).await? {
            Value::Nil => Ok(0),
            count => int(count),
        }
    }
}

/// A step of the change; the next one if it is not the last, `None` where too many groups have settings.
fn put(
    home: &Partition,
    group: &str,
    (paused, limits): (Option<bool>, Option<&GroupLimits>),
    step: i64,
) -> Request<Option<i64>> {
    let flag = paused.map_or("", |paused| if paused { "1" } else { "0" });
    let limits = limits.map(GroupLimits::to_script).unwrap_or_default();
    let put = Command::on(&scripts::PUT_GROUP, home).arg((group, flag, limits));
    let put = put.arg((MAX_OWN_GROUPS, step)).confirmed();
    put.read(home, |reply| match reply.word() {
        Some("FULL") => Ok(None),
        _ => int(std::mem::replace(&mut reply.whole, Value::Nil)).map(Some),
    })
}
