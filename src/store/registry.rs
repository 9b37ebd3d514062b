//! The topics that this instance knows. Redis holds the registry; what was read of it is kept, and read again when a
//! script answers that a partition belongs to another topic by now.

use super::{
    keys::PartitionKeys,
    lanes::Lanes,
    reply::{CallError, Fields, malformed, word},
    scripts,
};
use crate::{
    error::Error,
    metrics::TopicCounters,
    model::{Partition, Route, TopicName, TopicNumber, TopicSettings},
};
use deadpool_redis::redis::{Value, cmd};
use std::{
    collections::HashMap,
    sync::{Arc, RwLock},
};

/// A topic, and the one partition that it has for now.
#[derive(Debug)]
pub struct Topic {
    /// Its name.
    pub name: TopicName,
    /// Changes with every change of its configuration.
    pub revision: i64,
    /// How its messages are treated.
    pub settings: TopicSettings,
    pub(crate) route: Route,
    pub(crate) keys: PartitionKeys,
    pub(crate) counters: Arc<TopicCounters>,
}

#[derive(Default)]
struct Known {
    by_name: HashMap<TopicName, Arc<Topic>>,
    by_number: HashMap<TopicNumber, Arc<Topic>>,
}

/// The registry as this instance knows it.
#[derive(Default)]
pub(crate) struct Registry {
    prefix: String,
    known: RwLock<Known>,
}

impl Registry {
    pub fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned(), known: RwLock::default() }
    }

    /// The topic of this name, if there is one.
    pub async fn find(
        &self,
        lanes: &Lanes,
        name: &TopicName,
    ) -> Result<Option<Arc<Topic>>, CallError> {
        if let Some(topic) = self.read().by_name.get(name) {
            return Ok(Some(topic.clone()));
        }
        let mut get = cmd("HGET");
        get.arg(&lanes.backend.keys.registry).arg(name.as_str());
        match lanes.command(get).await? {
            Value::Nil => Ok(None),
            entry => self.remember(lanes, name, entry).map(Some),
        }
    }

    /// The topic of this number, if there (still) is one.
    pub async fn find_by_number(
        &self,
        lanes: &Lanes,
        number: TopicNumber,
    ) -> Result<Option<Arc<Topic>>, CallError> {
        if let Some(topic) = self.read().by_number.get(&number) {
            return Ok(Some(topic.clone()));
        }
        let mut get = cmd("HGET");
        get.arg(&lanes.backend.keys.names).arg(number.0);
        let name = lanes.command(get).await?;
        let Some(name) = word(&name).and_then(|name| TopicName::parse(name).ok()) else {
            return Ok(None);
        };
        let topic = self.find(lanes, &name).await?;
        Ok(topic.filter(|topic| topic.route.topic == number))
    }

    /// The topic of this name; it comes into being if there is none.
    pub async fn find_or_create(
        &self,
        lanes: &Lanes,
        name: &TopicName,
    ) -> Result<Result<Arc<Topic>, Error>, CallError> {
        if let Some(topic) = self.read().by_name.get(name) {
            return Ok(Ok(topic.clone()));
        }
        let keys = &lanes.backend.keys;
        let mut create = cmd("EVAL");
        create.arg(scripts::CREATE_TOPIC.source).arg(3);
        create.arg(&keys.registry).arg(&keys.names).arg(&keys.index);
        create.arg(name.as_str()).arg(TopicNumber::MOST);
        let answer = lanes.command(create).await?;
        if word(&answer) == Some("FULL") {
            return Ok(Err(Error::TopicsExhausted));
        }
        let mut fields = Fields::of(answer)?;
        let created = fields.int()? == 1;
        let topic = self.remember(lanes, name, fields.value()?)?;
        if created {
            self.open_partition(lanes, &topic).await?;
            // Consumers may wait for a topic before it exists.
            lanes.wake(name);
        }
        Ok(Ok(topic))
    }

    /// A script answered STALE: what is known of the topic is forgotten, and its partition told whose it is, in case
    /// whoever made the topic died in between.
    pub async fn refresh(&self, lanes: &Lanes, stale: &Topic) -> Result<(), CallError> {
        self.forget(stale);
        if let Some(topic) = self.find(lanes, &stale.name).await? {
            self.open_partition(lanes, &topic).await?;
        }
        Ok(())
    }

    async fn open_partition(&self, lanes: &Lanes, topic: &Topic) -> Result<(), CallError> {
        let mut open = cmd("EVAL");
        open.arg(scripts::OPEN_PARTITION.source).arg(1).arg(&topic.keys.meta);
        open.arg(topic.route.topic.0);
        open.arg(topic.settings.max_attempts).arg(topic.settings.backoff.to_script());
        let answer = lanes.command(open).await?;
        if word(&answer) == Some("STALE") {
            self.forget(topic);
        }
        Ok(())
    }

    /// An entry of the registry: "number revision".
    fn remember(
        &self,
        lanes: &Lanes,
        name: &TopicName,
        entry: Value,
    ) -> Result<Arc<Topic>, CallError> {
        let parsed = word(&entry).and_then(|text| {
            let (number, revision) = text.split_once(' ')?;
            Some((number.parse().ok()?, revision.parse().ok()?))
        });
        let (number, revision) = parsed.ok_or_else(|| malformed(&entry))?;
        let route = Route { topic: TopicNumber(number), partition: Partition(0) };
        let topic = Arc::new(Topic {
            name: name.clone(),
            revision,
            settings: TopicSettings::default(),
            route,
            keys: PartitionKeys::new(&self.prefix, name, route.partition),
            counters: lanes.backend.metrics.topic(name),
        });
        let mut known = self.known.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        // Two requests may have read it at once: one entry, so that their messages share groups.
        if let Some(other) = known.by_number.get(&route.topic) {
            return Ok(other.clone());
        }
        known.by_name.insert(name.clone(), topic.clone());
        known.by_number.insert(route.topic, topic.clone());
        Ok(topic)
    }

    fn forget(&self, topic: &Topic) {
        let mut known = self.known.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        known.by_number.remove(&topic.route.topic);
        if known.by_name.get(&topic.name).is_some_and(|t| t.route.topic == topic.route.topic) {
            known.by_name.remove(&topic.name);
        }
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
