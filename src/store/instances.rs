//! Which instances run: each says so again and again in one sorted set, and is forgotten when it has not for a while.

use super::{
    KNOWN_VERSION, Store,
    batch::Command,
    reply::{Fields, int},
    scripts,
};
use dueq_base::metrics::{host_name, resident_bytes};
use dueq_model::{Millis, error::Error};
use parking_lot::Mutex;
use std::cmp::Reverse;

/// How long an instance is remembered that is not heard of, ms.
pub(super) const LIFE_MS: Millis = 60_000;
/// Instances that are remembered, those heard of last.
const MAX_INSTANCES: usize = 1_000;
/// What follows the version in the set: the newest version of the schema that the instance reads. Older dueqs take it for
/// a part of the version, which may have such a suffix.
const READS: &str = "+schema.";
/// Before that come the numbers of [`Load`], the version of its time zone database, its process and its machine, with points between. Older
/// dueqs take them for a part of the version, too.
const LOAD: &str = "+load.";
/// Members of one instance that may be in the set at once: each unknown outcome leaves one more, until a minute is over.
const MAX_MEMBERS: usize = 64;

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
    /// What it was at then.
    pub load: Load,
    /// The version of its time zone database.
    pub tzdata: Option<String>,
    /// The name of its machine.
    pub host: Option<String>,
    /// Its process.
    pub pid: Option<i64>,
}

/// What an instance is at. Of one that does not say, nothing is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Connections to Redis that requests go through.
    pub lanes: Option<i64>,
    /// Long polls that wait.
    pub waiters: Option<i64>,
    /// Resident memory.
    pub memory_bytes: Option<i64>,
    /// How far the clock of its machine is ahead of Redis's.
    pub clock_offset_ms: Option<i64>,
}

impl Load {
    /// As it is in the set.
    fn text(&self) -> String {
        let numbers = [self.lanes, self.waiters, self.memory_bytes, self.clock_offset_ms];
        numbers.map(|known| known.map_or_else(String::new, |number| number.to_string())).join(".")
    }

    fn parse(text: &str) -> Self {
        let mut numbers = text.split('.').map(|number| number.parse().ok());
        let mut number = || numbers.next().flatten();
        let (lanes, waiters) = (number(), number());
        Self { lanes, waiters, memory_bytes: number(), clock_offset_ms: number() }
    }
}

/// This instance in the set. What it is at is a part of its member, so each registration replaces those before.
#[derive(Debug)]
pub struct Registration {
    instance: Instance,
    /// Members that may be in the set.
    members: Mutex<Vec<String>>,
}

impl Registration {
    /// Notes that this member may be in the set from now on. Returns the others that may be.
    fn adds(&self, member: &str) -> Vec<String> {
        let mut members = self.members.lock();
        members.retain(|other| other != member);
        let surplus = members.len().saturating_sub(MAX_MEMBERS - 1);
        members.drain(..surplus);
        let before = members.clone();
        members.push(member.to_owned());
        before
    }
}

impl Instance {
    /// As it is in the set.
    fn member(&self) -> String {
        let Self { id, version, started_at, load, .. } = self;
        let [tzdata, host] = [&self.tzdata, &self.host].map(|it| it.as_deref().unwrap_or_default());
        let (load, pid) = (load.text(), self.pid.map(|pid| pid.to_string()).unwrap_or_default());
        format!(
            "{id} {started_at} {version}{LOAD}{load}.{tzdata}.{pid}.{host}{READS}{KNOWN_VERSION}"
        )
    }

    /// `None` where a hand in Redis has written something else.
    pub(super) fn parse(member: &str, seen_at: Millis) -> Option<Self> {
        let mut parts = member.splitn(3, ' ');
        let (id, started_at) = (parts.next()?.to_owned(), parts.next()?.parse().ok()?);
        let version = parts.next()?;
        let version = version.rsplit_once(READS).map_or(version, |(version, _)| version);
        let (version, load) = version.rsplit_once(LOAD).unwrap_or((version, ""));
        let mut more = load.splitn(7, '.').skip(4);
        let mut next = || more.next().filter(|text| !text.is_empty()).map(str::to_owned);
        let (tzdata, pid, host) = (next(), next().and_then(|pid| pid.parse().ok()), next());
        let (version, load) = (version.to_owned(), Load::parse(load));
        Some(Self { id, version, started_at, seen_at, load, tzdata, host, pid })
    }
}

impl Store {
    /// This instance, which has just started.
    pub fn this_instance(&self) -> Registration {
        let (id, version) = (self.lanes.shared.instance.clone(), env!("CARGO_PKG_VERSION"));
        let (version, now, load) = (version.to_owned(), self.now(), Load::default());
        let (host, pid) = (host_name(), Some(std::process::id().into()));
        let (started_at, seen_at, tzdata) = (now, now, None);
        let instance = Instance { id, version, started_at, seen_at, load, tzdata, host, pid };
        Registration { instance, members: Mutex::default() }
    }

    fn load(&self) -> Load {
        let (shared, nodes) = (&self.lanes.shared, self.lanes.nodes().len());
        Load {
            lanes: i64::try_from(shared.options.lanes * nodes).ok(),
            waiters: Some(shared.metrics.waiters.get()),
            memory_bytes: resident_bytes(),
            clock_offset_ms: self.lanes.home().backend.clock.machine_ahead(),
        }
    }

    /// Records that an instance runs, and learns whether it still may ([`Store::outdated`]).
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn note_instance(&self, registration: &Registration) -> Result<(), Error> {
        let shared = &self.lanes.shared;
        let (load, tzdata) = (self.load(), Some(self.zones().version().to_owned()));
        let member = Instance { load, tzdata, ..registration.instance.clone() }.member();
        let before = registration.adds(&member);
        let keys = [&shared.keys.alive, &shared.keys.schema, &shared.keys.min_reader];
        let note = Command::eval(&scripts::NOTE_INSTANCE, &keys.map(String::as_str));
        let note = note.arg((&member, LIFE_MS, MAX_INSTANCES, KNOWN_VERSION)).arg(before);
        let min_reader = int(self.lanes.command(note).await?)?;
        registration.members.lock().retain(|other| *other == member);
        shared.min_reader.send_replace(min_reader);
        Ok(())
    }

    /// Forgets an instance that stops.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn forget_instance(&self, registration: &Registration) -> Result<(), Error> {
        let forget = Command::new("ZREM").arg((&self.lanes.shared.keys.alive, ""));
        let forget = forget.arg(registration.members.lock().clone());
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
        let order = |it: &Instance| (it.started_at, it.id.clone(), Reverse(it.seen_at));
        instances.sort_by_cached_key(order);
        // A registration whose outcome was unknown may have left one that is older.
        instances.dedup_by(|older, kept| older.id == kept.id);
        Ok(instances)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_comes_back_from_its_member() {
        let (id, version) = ("9f86d081884c7d65".to_owned(), "1.2.3-rc.1".to_owned());
        let load = Load::default();
        let instance = Instance {
            id,
            version,
            started_at: 1_700_000_000_000,
            seen_at: 5,
            load,
            tzdata: None,
            host: None,
            pid: None,
        };
        let told = Load {
            lanes: Some(4),
            waiters: Some(0),
            memory_bytes: None,
            clock_offset_ms: Some(-3),
        };
        for (load, tzdata) in [(load, None), (told, None), (told, Some("2026f".to_owned()))] {
            for (host, pid) in [(None, None), (Some("a-1.example.org".to_owned()), Some(42))] {
                let instance =
                    Instance { load, tzdata: tzdata.clone(), host, pid, ..instance.clone() };
                assert_eq!(Instance::parse(&instance.member(), 5), Some(instance));
            }
        }
        // Those that do not say what they read, or what they are at; and one that says more.
        for (version, load) in [("", load), ("+schema.3", load), ("+load.4.0..-3..+schema.9", told)]
        {
            let other = format!("9f86d081884c7d65 1700000000000 1.2.3-rc.1{version}");
            let expected = Instance { load, ..instance.clone() };
            assert_eq!(Instance::parse(&other, 5), Some(expected), "{version}");
        }
        for bad in ["", "a", "a b c", "a 1"] {
            assert_eq!(Instance::parse(bad, 5), None, "{bad}");
        }
    }
}
