//! Which instances run: each says so again and again in one sorted set, and is forgotten when it has not for a while.

use super::{
    KNOWN_VERSION, Store,
    batch::Command,
    reply::{Fields, int},
    scripts,
};
use crate::{error::Error, model::Millis};

/// How long an instance is remembered that is not heard of, ms.
pub(super) const LIFE_MS: Millis = 60_000;
/// Instances that are remembered, those heard of last.
const MAX_INSTANCES: usize = 1_000;
/// What follows the version in the set: the newest version of the schema that the instance reads. Older dueqs take it for
/// a part of the version, which may have such a suffix.
const READS: &str = "+schema.";

/// An instance of dueq.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Drawn at its start.
    pub id: String,
    /// The version of dueq.
    pub version: String,
    /// When it was started, by Redis's clock.
    pub started_at: Millis,
    /// When it was last heard of.
    pub seen_at: Millis,
}

impl Instance {
    /// As it stands in the set.
    fn member(&self) -> String {
        let Self { id, version, started_at, .. } = self;
        format!("{id} {started_at} {version}{READS}{KNOWN_VERSION}")
    }

    /// `None` where a hand in Redis has written something else.
    pub(super) fn parse(member: &str, seen_at: Millis) -> Option<Self> {
        let mut parts = member.splitn(3, ' ');
        let (id, started_at) = (parts.next()?.to_owned(), parts.next()?.parse().ok()?);
        let version = parts.next()?;
        let version = version.rsplit_once(READS).map_or(version, |(version, _)| version);
        Some(Self { id, version: version.to_owned(), started_at, seen_at })
    }
}

impl Store {
    /// This instance, which has just started.
    pub fn this_instance(&self) -> Instance {
        let (id, version) = (self.lanes.shared.instance.clone(), env!("CARGO_PKG_VERSION"));
        let now = self.now();
        Instance { id, version: version.to_owned(), started_at: now, seen_at: now }
    }

    /// Records that an instance runs, and learns whether it still may ([`Store::outdated`]).
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn note_instance(&self, instance: &Instance) -> Result<(), Error> {
        let shared = &self.lanes.shared;
        let keys = [&shared.keys.alive, &shared.keys.schema, &shared.keys.min_reader];
        let note = Command::eval(&scripts::NOTE_INSTANCE, &keys.map(String::as_str));
        let note = note.arg((instance.member(), LIFE_MS, MAX_INSTANCES, KNOWN_VERSION));
        shared.min_reader.send_replace(int(self.lanes.command(note).await?)?);
        Ok(())
    }

    /// Forgets an instance that stops.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn forget_instance(&self, instance: &Instance) -> Result<(), Error> {
        let forget = Command::new("ZREM").arg((&self.lanes.shared.keys.alive, instance.member()));
        Ok(self.lanes.command(forget).await.map(|_| ())?)
    }

    /// The instances that were heard of in the last minute, in the order in which they started.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn instances(&self) -> Result<Vec<Instance>, Error> {
        let from = self.now() - LIFE_MS;
        let range =
            Command::new("ZRANGEBYSCORE").arg((&self.lanes.shared.keys.alive, from, "+inf"));
        let range = range.arg(("WITHSCORES", "LIMIT", 0, MAX_INSTANCES));
        let mut fields = Fields::of(self.lanes.command(range).await?)?;
        let mut instances = Vec::with_capacity(fields.len() / 2);
        while !fields.is_empty() {
            let (member, seen_at) = (fields.bytes()?, fields.int()?);
            instances.extend(Instance::parse(&String::from_utf8_lossy(&member), seen_at));
        }
        instances.sort_by(|a, b| (a.started_at, &a.id).cmp(&(b.started_at, &b.id)));
        Ok(instances)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_comes_back_from_its_member() {
        let (id, version) = ("9f86d081884c7d65".to_owned(), "1.2.3-rc.1".to_owned());
        let instance = Instance { id, version, started_at: 1_700_000_000_000, seen_at: 5 };
        assert_eq!(Instance::parse(&instance.member(), 5), Some(instance.clone()));
        let older = Instance::parse("9f86d081884c7d65 1700000000000 1.2.3-rc.1", 5);
        assert_eq!(
            older,
            Instance::parse(&instance.member(), 5),
            "one that does not say what it reads"
        );
        for bad in ["", "a", "a b c", "a 1"] {
            assert_eq!(Instance::parse(bad, 5), None, "{bad}");
        }
    }
}
