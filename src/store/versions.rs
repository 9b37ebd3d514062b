//! Which versions of the schema may be written. Data of a version come into being only once every instance that runs reads
//! it: each says in its registration what it reads (`instances.rs`). The key `min_reader` then keeps out instances that do not,
//! at its start and while it runs.

use super::{
    ConnectError, Instance, KNOWN_VERSION, SCHEMA_VERSION, Store,
    backend::{ENDS_VERSION, FAIR_VERSION, GROUPS_VERSION, SPLIT_VERSION, SQS_VERSION},
    batch::Command,
    instances::LIFE_MS,
    reply::word,
    scripts,
};
use dueq_model::{DeadForm, TopicSettings, error::Error};
use std::{future::pending, sync::atomic::Ordering};

impl Store {
    /// To be called before data of this version of the schema are written. From the first version on that minds
    /// `min_reader`, no instance that does not read it comes back; topics of earlier ones keep such instances out themselves.
    ///
    /// Errors: `UpgradePending` while an instance runs that does not read it, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn adopt_version(&self, version: i64) -> Result<(), Error> {
        let shared = &self.lanes.shared;
        if *shared.min_reader.borrow() >= version {
            return Ok(());
        }
        let (keys, lasts) = (&shared.keys, version > GROUPS_VERSION);
        let adopt =
            Command::eval(&scripts::ADOPT_VERSION, &[&keys.alive, &keys.schema, &keys.min_reader]);
        let adopt = adopt.arg((version, LIFE_MS, u8::from(lasts)));
        let answer = self.lanes.command(adopt).await?;
        match word(&answer) {
            Some("OK") if lasts => {
                shared.min_reader.send_modify(|known| *known = version.max(*known));
                Ok(())
            }
            Some("OK") => Ok(()),
            Some(older) => Err(Error::UpgradePending(
                Instance::parse(older, 0).map_or_else(String::new, named),
            )),
            None => Err(Error::Internal),
        }
    }

    /// Do groups take turns where nobody has said so? Not before an upgrade is finished: until then the older dueq may come back.
    pub fn fair_by_default(&self) -> bool {
        let shared = &self.lanes.shared;
        let began = shared.began.load(Ordering::Relaxed);
        began.max(*shared.min_reader.borrow()) >= FAIR_VERSION
    }

    /// As [`Store::adopt_version`], for a topic with these settings, which had those `before`.
    pub(super) async fn adopt_for(
        &self,
        settings: &TopicSettings,
        before: Option<&TopicSettings>,
    ) -> Result<(), Error> {
        let needed = |it: &TopicSettings| match it.partitions {
            _ if it.on_done.is_some() || it.on_dead.is_some() => ENDS_VERSION,
            _ if it.is_fair() || it.own_groups => FAIR_VERSION,
            _ if it.sqs.is_some() || it.dead_form == DeadForm::Raw => SQS_VERSION,
            _ if it.grouped => GROUPS_VERSION,
            1 => SCHEMA_VERSION,
            _ => SPLIT_VERSION,
        };
        let needed_now = needed(settings);
        match needed_now > before.map_or(SCHEMA_VERSION, needed) {
            true => self.adopt_version(needed_now).await,
            false => Ok(()),
        }
    }

    /// To be called before dead messages are claimed to move. Instances that do not say by which time zone database they work
    /// take the score of a claim for an instant, and would move the message once more.
    ///
    /// Errors: `UpgradePending` while one of them runs, `RedisUnavailable`, `OutcomeUnknown`.
    pub(super) async fn check_claims(&self) -> Result<(), Error> {
        let older = self.instances().await?.into_iter().find(|it| it.tzdata.is_none());
        older.map_or(Ok(()), |older| Err(Error::UpgradePending(named(older))))
    }

    /// Ends once a newer dueq has written data that this one would not read right.
    pub async fn outdated(&self) -> ConnectError {
        let mut min_reader = self.lanes.shared.min_reader.subscribe();
        let newer = min_reader.wait_for(|least| *least > KNOWN_VERSION).await.map(|least| *least);
        match newer {
            Ok(least) => ConnectError::NewerSchema(least),
            // The store lives as long as this.
            Err(_) => pending().await,
        }
    }
}

/// An instance as people find it in the list of instances.
fn named(Instance { id, version, .. }: Instance) -> String {
    format!("{id} (dueq {version})")
}
