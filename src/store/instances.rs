//! Which instances run: each says so again and again in one sorted set, and is forgotten when it has not for a while.

use super::{Store, batch::Command, reply::Fields, scripts};
use crate::{error::Error, model::Millis};

/// How long an instance is remembered that is not heard of, ms.
const LIFE_MS: Millis = 60_000;
/// Instances that are remembered, those heard of last.
const MAX_INSTANCES: usize = 1_000;

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
        format!("{} {} {}", self.id, self.started_at, self.version)
    }

    /// `None` where a hand in Redis has written something else.
    fn parse(member: &str, seen_at: Millis) -> Option<Self> {
        let mut parts = member.splitn(3, ' ').map(str::to_owned);
        let (id, started_at) = (parts.next()?, parts.next()?.parse().ok()?);
        Some(Self { id, version: parts.next()?, started_at, seen_at })
    }
}

impl Store {
    /// This instance, which has just started.
    pub fn this_instance(&self) -> Instance {
        let (id, version) = (self.lanes.shared.instance.clone(), env!("CARGO_PKG_VERSION"));
        let now = self.now();
        Instance { id, version: version.to_owned(), started_at: now, seen_at: now }
    }

    /// Records that an instance runs.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn note_instance(&self, instance: &Instance) -> Result<(), Error> {
        let note = Command::eval(&scripts::NOTE_INSTANCE, &[&self.lanes.shared.keys.alive]);
        let note = note.arg((instance.member(), LIFE_MS, MAX_INSTANCES));
        Ok(self.lanes.command(note).await.map(|_| ())?)
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
        assert_eq!(Instance::parse(&instance.member(), 5), Some(instance));
        for bad in ["", "a", "a b c", "a 1"] {
            assert_eq!(Instance::parse(bad, 5), None, "{bad}");
        }
    }
}
