//! The topics that this instance knows. Redis holds the registry; what was read of it is kept, and read again when a
//! script answers that a partition belongs to another topic by now.

mod change;
mod create;

pub(super) use change::DELETED_MARK_MS;

use super::{
    backend::{GROUPS_VERSION, SCHEMA_VERSION, SPLIT_VERSION},
    batch::{Command, Lanes},
    lease::Survey,
    partition::{Partition, PartitionState, first_place},
    reply::{CallError, word},
    scripts::Script,
    sweeps::Hint,
};
use deadpool_redis::redis::Value;
use dueq_base::metrics::Counters;
use dueq_model::{PartitionNumber, Push, TopicName, TopicNumber, TopicSettings};
use parking_lot::RwLock;
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};
use tokio::sync::mpsc;

/// An entry of the registry: number, revision and configuration, which is not there where it is the default; nothing where they
/// cannot be read.
pub fn parse_entry(entry: &str) -> Option<(u32, i64, Option<TopicSettings>)> {
    let mut parts = entry.splitn(3, ' ');
    let (number, revision) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let settings = parts.next().map(serde_json::from_str).transpose();
    Some((number, revision, settings.ok()?))
}

/// A topic.
#[derive(Debug)]
pub struct Topic {
    /// Its name.
    pub name: TopicName,
    /// Changes with every change of its configuration.
    pub revision: i64,
    /// Changes with whatever is written of it: also when it is paused.
    pub written: i64,
    /// How its messages are treated.
    pub settings: TopicSettings,
    /// Number, `written` and version of the schema, as scripts compare them with what the partition knows: they
    /// refuse an instance whose configuration is no longer in force or is older than the data.
    pub version_tag: String,
    /// Its number, which no other topic has had.
    pub number: TopicNumber,
    /// What this instance has done in it.
    pub counters: Counters,
    /// At least one.
    pub(super) partitions: Box<[PartitionState]>,
    /// Messages without a name that this instance has placed, about.
    pub(super) placed: AtomicUsize,
    /// The last look at partitions of which nothing was known.
    pub(super) survey: Survey,
    /// It was looked for since the cache was last tidied.
    pub used: AtomicBool,
    /// Where sweeps are asked for.
    pub hints: mpsc::UnboundedSender<Hint>,
    /// Where partitions are reported in which something happens.
    pub(super) active: mpsc::UnboundedSender<Partition>,
}

impl Known {
    fn forget_unused(&mut self) {
        self.by_name.retain(|_, topic| topic.used.swap(false, Ordering::Relaxed));
        let known = &self.by_name;
        let same = |topic: &Arc<Topic>, other| Arc::ptr_eq(topic, other);
        self.by_number
            .retain(|_, topic| known.get(&topic.name).is_some_and(|other| same(topic, other)));
    }
}

impl Topic {
    /// Was it read of this entry of the registry?
    fn is_of(&self, entry: &str) -> bool {
        let mut parts = entry.splitn(3, ' ').map(str::parse::<i64>);
        parts.next() == Some(Ok(self.number.0.into())) && parts.next() == Some(Ok(self.written))
    }

    /// The same, which is kept a while longer for it.
    fn used(self: &Arc<Self>) -> Arc<Self> {
        // Hardly ever written, so that many may read it at once.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        self.clone()
    }
}

/// The registry as this instance knows it.
pub struct Registry {
    /// The connections.
    pub lanes: Arc<Lanes>,
    prefix: String,
    known: RwLock<Known>,
    hints: mpsc::UnboundedSender<Hint>,
    active: mpsc::UnboundedSender<Partition>,
}

/// The topics that this instance has read of, for as long as they are used.
#[derive(Default)]
struct Known {
    /// In which of the epochs that were met it was learnt: a Redis that restarts or is replaced may have gone back.
    epochs: u64,
    by_name: HashMap<TopicName, Arc<Topic>>,
    by_number: HashMap<TopicNumber, Arc<Topic>>,
}

impl Registry {
    /// An empty one; `hints` is where its topics ask for sweeps, `active` where they report that something happens.
    pub fn new(
        lanes: Arc<Lanes>,
        prefix: &str,
        hints: mpsc::UnboundedSender<Hint>,
        active: mpsc::UnboundedSender<Partition>,
    ) -> Self {
        Self { lanes, prefix: prefix.to_owned(), known: RwLock::default(), hints, active }
    }

    /// The topic of this name, if there is one.
    pub async fn find(&self, name: &TopicName) -> Result<Option<Arc<Topic>>, CallError> {
        match self.known(|known| known.by_name.get(name).map(Topic::used)) {
            Some(topic) => Ok(Some(topic)),
            None => self.look_up(name).await,
        }
    }

    /// The topic of this name if it is known, which is no use of it.
    pub fn peek(&self, name: &TopicName) -> Option<Arc<Topic>> {
        self.known(|known| known.by_name.get(name).cloned())
    }

    /// The topic of this number if it is known, which is no use of it.
    pub fn peek_number(&self, number: TopicNumber) -> Option<Arc<Topic>> {
        self.known(|known| known.by_number.get(&number).cloned())
    }

    /// The topic of this name as Redis has it now.
    pub async fn look_up(&self, name: &TopicName) -> Result<Option<Arc<Topic>>, CallError> {
        self.look_up_or_forget(name, None).await
    }

    /// The topic as Redis has it now. What was read before is forgotten, unless it is the same: under load, to meet all
    /// partitions of a topic again costs more than all calls that were stale.
    async fn look_up_again(&self, before: &Topic) -> Result<Option<Arc<Topic>>, CallError> {
        self.look_up_or_forget(&before.name, Some(before)).await
    }

    async fn look_up_or_forget(
        &self,
        name: &TopicName,
        before: Option<&Topic>,
    ) -> Result<Option<Arc<Topic>>, CallError> {
        let epochs = self.lanes.shared.registry_epochs();
        let get = Command::new("HGET").arg(&self.lanes.shared.keys.registry);
        let entry = self.lanes.command(get.arg(name.as_str())).await?;
        if let Some(before) = before
            && !word(&entry).is_some_and(|entry| before.is_of(entry))
        {
            self.forget(before);
        }
        match entry {
            Value::Nil => {
                self.lanes.shared.metrics.forget_topic(name);
                Ok(None)
            }
            entry => self.remember(name, entry, epochs).map(Some),
        }
    }

    /// The topic of this number, if there (still) is one.
    pub async fn find_by_number(
        &self,
        number: TopicNumber,
    ) -> Result<Option<Arc<Topic>>, CallError> {
        if let Some(topic) = self.known(|known| known.by_number.get(&number).map(Topic::used)) {
            return Ok(Some(topic));
        }
        let get = Command::new("HGET").arg(&self.lanes.shared.keys.names).arg(number.0);
        let name = self.lanes.command(get).await?;
        let Some(name) = word(&name).and_then(|name| TopicName::parse(name).ok()) else {
            return Ok(None);
        };
        // Asks Redis: the cached topic of this name may be another one, deleted since.
        let topic = self.look_up(&name).await?;
        Ok(topic.filter(|topic| topic.number == number))
    }

    /// An entry of the registry: "number revision", and the configuration where it is not the default. `epochs`: how many
    /// had been met before it was read.
    fn remember(
        &self,
        name: &TopicName,
        entry: Value,
        epochs: u64,
    ) -> Result<Arc<Topic>, CallError> {
        let parsed = word(&entry).and_then(parse_entry);
        let (number, written, settings) = parsed.ok_or_else(|| {
            // The entry itself is not for the log: there may be secrets in it.
            tracing::error!(topic = %name, "a topic's configuration cannot be read");
            CallError::Internal
        })?;
        // Many may have read it at once: one entry, so that their messages share groups.
        let number = TopicNumber(number);
        let same = |other: &Arc<Topic>| other.written >= written && other.name == *name;
        let read = |known: &Known| known.by_number.get(&number).filter(|it| same(it)).cloned();
        if let Some(other) = self.known(read) {
            return Ok(other);
        }
        let mut settings = settings.unwrap_or_else(|| TopicSettings::older_default_of(name));
        if name.is_callbacks() {
            settings.push.get_or_insert_with(Push::of_callbacks);
        }
        let partitions = PartitionState::all_of(&self.prefix, name, number, &settings);
        let version = match partitions.len() {
            _ if settings.grouped => GROUPS_VERSION,
            1 => SCHEMA_VERSION,
            _ => SPLIT_VERSION,
        };
        let topic = Arc::new(Topic {
            name: name.clone(),
            revision: settings.revision.unwrap_or(written),
            written,
            settings,
            version_tag: format!("{} {written} {version}", number.0),
            number,
            counters: self.lanes.shared.metrics.topic(name),
            partitions,
            placed: first_place(),
            survey: Survey::default(),
            used: AtomicBool::new(true),
            hints: self.hints.clone(),
            active: self.active.clone(),
        });
        let mut known = self.known.write();
        if epochs < known.epochs {
            // Read before others learnt that Redis may have gone back.
            return Ok(topic);
        }
        if epochs > known.epochs {
            *known = Known { epochs, ..Known::default() };
        }
        if let Some(other) = read(&known) {
            return Ok(other);
        }
        known.by_name.insert(name.clone(), topic.clone());
        known.by_number.insert(number, topic.clone());
        Ok(topic)
    }

    /// Forgets this revision of a topic; a later one, learnt meanwhile, stays.
    pub(super) fn forget(&self, topic: &Topic) {
        let mut known = self.known.write();
        let same = |other: &Arc<Topic>| other.version_tag == topic.version_tag;
        if known.by_number.get(&topic.number).is_some_and(same) {
            known.by_number.remove(&topic.number);
        }
        if known.by_name.get(&topic.name).is_some_and(same) {
            known.by_name.remove(&topic.name);
        }
    }

    /// What is known, unless Redis may have gone back since it was learnt.
    fn known<T>(&self, look: impl Fn(&Known) -> Option<T>) -> Option<T> {
        let known = self.known.read();
        (known.epochs == self.lanes.shared.registry_epochs()).then(|| look(&known)).flatten()
    }

    /// A wake-up has come for a topic: for one of its partitions, or for all.
    pub fn woken(&self, name: &TopicName, number: Option<PartitionNumber>) {
        let topic = self.known(|known| known.by_name.get(name).cloned());
        let Some(topic) = topic.filter(|topic| topic.is_split()) else { return };
        match number {
            Some(number) => topic.partition(number).iter().for_each(|it| it.wake()),
            None => topic.partitions.iter().for_each(PartitionState::wake),
        }
    }

    /// Wake-ups may have been lost.
    pub fn all_woken(&self) {
        let known = self.known.read();
        known.by_name.values().flat_map(|topic| &topic.partitions).for_each(PartitionState::wake);
    }

    /// Forgets the topics that nobody has looked for since this was last called: they may be gone, or another instance's.
    pub fn forget_unused(&self) {
        self.known.write().forget_unused();
    }

    /// A call of a script that looks at the registry.
    pub fn call(&self, script: &'static Script) -> Command {
        let keys = &self.lanes.shared.keys;
        Command::eval(script, &[&keys.registry, &keys.names, &keys.index])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::partition;
    use dueq_model::TopicSettings;

    #[test]
    fn a_topic_is_forgotten_once_nobody_has_looked_for_it_for_a_round() {
        let (mut known, topic) = (Known::default(), partition(TopicSettings::default()).topic);
        known.by_name.insert(topic.name.clone(), topic.clone());
        known.by_number.insert(topic.number, topic.clone());
        known.forget_unused();
        topic.used();
        known.forget_unused();
        assert_eq!((known.by_name.len(), known.by_number.len()), (1, 1));
        known.forget_unused();
        assert_eq!((known.by_name.len(), known.by_number.len()), (0, 0));
    }

    #[test]
    fn a_topic_that_is_stale_stays_known_if_the_registry_says_the_same() {
        let topic = partition(TopicSettings::default()).topic;
        assert!(topic.is_of("5 1") && topic.is_of("5 1 {}"));
        for other in ["5 2", "6 1", "5", "", "x 1", "5 1.0"] {
            assert!(!topic.is_of(other), "{other}");
        }
    }
}
