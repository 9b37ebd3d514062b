//! The topics that this instance knows. Redis holds the registry; what was read of it is kept, and read again when a
//! script answers that a partition belongs to another topic by now.

mod known;
mod partition;

use super::{
    backend::SCHEMA_VERSION,
    batch::Lanes,
    keys::PartitionKeys,
    reply::{CallError, Fields, word},
    scripts::{self, Script},
    sweeps::Hint,
};
use crate::{
    error::Error,
    metrics::Counters,
    model::{Partition, Push, Route, TopicName, TopicNumber, TopicSettings},
};
use deadpool_redis::redis::{Cmd, Value, cmd};
use known::Known;
use std::sync::{
    Arc, RwLock,
    atomic::{AtomicBool, AtomicI64},
};
use tokio::sync::mpsc;

/// A topic, and the one partition that it has for now.
#[derive(Debug)]
pub struct Topic {
    /// Its name.
    pub name: TopicName,
    /// Changes with every change of its configuration.
    pub revision: i64,
    /// How its messages are treated.
    pub settings: TopicSettings,
    /// Number, revision and version of the schema, as scripts compare them with what the partition knows: whoever works
    /// from a configuration that is not in force any more, or is older than the data, is told so.
    pub(crate) word: String,
    pub(crate) route: Route,
    pub(crate) keys: PartitionKeys,
    pub(crate) counters: Counters,
    /// The earliest moment (ms) for which a sweep was asked and which has not passed; 0: none.
    pub(crate) sweep_at: AtomicI64,
    /// The last lease found all that it wanted: the next one may as well.
    pub(crate) plenty: AtomicBool,
    /// Somebody has looked for it since the cache was last tidied.
    pub(crate) used: AtomicBool,
    /// Where sweeps are asked for.
    pub(crate) hints: mpsc::UnboundedSender<Hint>,
}

/// The registry as this instance knows it.
pub(crate) struct Registry {
    prefix: String,
    known: RwLock<Known>,
    hints: mpsc::UnboundedSender<Hint>,
}

/// What a conditional change of a topic's configuration came to.
pub(crate) enum Put {
    /// It is in the registry; whether the topic was created by it.
    Done(bool),
    /// Refused.
    Refused(Error),
    /// The configuration is another by now than the caller worked from.
    Changed,
}

/// Under which conditions a configuration is put.
#[derive(Clone, Copy)]
pub(crate) struct Conditions<'a> {
    /// Revisions one of which the topic must have; where there are none, nothing matches.
    pub if_match: Option<&'a [i64]>,
    /// The revision that the caller worked from; 0 where there was no topic; `None`: any.
    pub worked_from: Option<i64>,
}

impl Registry {
    /// An empty one; `hints` is where its topics ask for sweeps.
    pub fn new(prefix: &str, hints: mpsc::UnboundedSender<Hint>) -> Self {
        Self { prefix: prefix.to_owned(), known: RwLock::default(), hints }
    }

    /// The topic of this name, if there is one.
    pub async fn find(
        &self,
        lanes: &Lanes,
        name: &TopicName,
    ) -> Result<Option<Arc<Topic>>, CallError> {
        match self.known(lanes, |known| known.by_name.get(name).map(Topic::used)) {
            Some(topic) => Ok(Some(topic)),
            None => self.look_up(lanes, name).await,
        }
    }

    /// The topic of this name as Redis has it now.
    pub async fn look_up(
        &self,
        lanes: &Lanes,
        name: &TopicName,
    ) -> Result<Option<Arc<Topic>>, CallError> {
        let epochs = lanes.backend.epochs();
        let mut get = cmd("HGET");
        get.arg(&lanes.backend.keys.registry).arg(name.as_str());
        match lanes.command(get).await? {
            Value::Nil => {
                lanes.backend.metrics.forget_topic(name);
                Ok(None)
            }
            entry => self.remember(lanes, name, entry, epochs).map(Some),
        }
    }

    /// The topic of this number, if there (still) is one.
    pub async fn find_by_number(
        &self,
        lanes: &Lanes,
        number: TopicNumber,
    ) -> Result<Option<Arc<Topic>>, CallError> {
        if let Some(topic) =
            self.known(lanes, |known| known.by_number.get(&number).map(Topic::used))
        {
            return Ok(Some(topic));
        }
        let mut get = cmd("HGET");
        get.arg(&lanes.backend.keys.names).arg(number.0);
        let name = lanes.command(get).await?;
        let Some(name) = word(&name).and_then(|name| TopicName::parse(name).ok()) else {
            return Ok(None);
        };
        // Not as it is known: under this name another topic is, maybe, that has been deleted since.
        let topic = self.look_up(lanes, &name).await?;
        Ok(topic.filter(|topic| topic.route.topic == number))
    }

    /// The topic of this name; it comes into being if there is none.
    pub async fn find_or_create(
        &self,
        lanes: &Lanes,
        name: &TopicName,
    ) -> Result<Result<Arc<Topic>, Error>, CallError> {
        if let Some(topic) = self.known(lanes, |known| known.by_name.get(name).map(Topic::used)) {
            return Ok(Ok(topic));
        }
        let epochs = lanes.backend.epochs();
        let mut create = registry_call(&scripts::CREATE_TOPIC, lanes);
        create.arg(name.as_str()).arg(TopicNumber::MOST);
        let answer = lanes.command(create).await?;
        if word(&answer) == Some("FULL") {
            return Ok(Err(Error::TopicsExhausted));
        }
        let mut fields = Fields::of(answer)?;
        let created = fields.int()? == 1;
        let topic = self.remember(lanes, name, fields.value()?, epochs)?;
        if created {
            self.open_partition(lanes, &topic).await?;
            // Consumers may wait for a topic before it exists.
            lanes.wake(name);
        }
        Ok(Ok(topic))
    }

    /// Puts a topic's configuration into the registry and into its partition.
    pub async fn put(
        &self,
        lanes: &Lanes,
        name: &TopicName,
        settings: &TopicSettings,
        conditions: Conditions<'_>,
    ) -> Result<Put, CallError> {
        let epochs = lanes.backend.epochs();
        let push = settings.push.is_some();
        let settings = serde_json::to_string(settings).map_err(|_| CallError::Internal)?;
        let mut put = changing_call(&scripts::PUT_TOPIC, lanes);
        put.arg(name.as_str()).arg(TopicNumber::MOST).arg(settings);
        put.arg(match conditions.if_match {
            None => String::new(),
            Some(revisions) => {
                let revisions: Vec<_> = revisions.iter().map(ToString::to_string).collect();
                format!(" {} ", revisions.join(" "))
            }
        });
        put.arg(conditions.worked_from.map(|revision| revision.to_string()).unwrap_or_default());
        put.arg(u8::from(push));
        let answer = lanes.command(put).await?;
        match word(&answer) {
            Some("FULL") => return Ok(Put::Refused(Error::TopicsExhausted)),
            Some("MISMATCH") => return Ok(Put::Refused(Error::RevisionMismatch)),
            Some("CHANGED") => return Ok(Put::Changed),
            _ => {}
        }
        let mut fields = Fields::of(answer)?;
        let created = fields.int()? == 1;
        let topic = self.remember(lanes, name, fields.value()?, epochs)?;
        // From here on everybody who works from an older configuration is told so.
        let opened = self.open_partition(lanes, &topic).await.map_err(|_| CallError::Unknown)?;
        if !opened {
            // Whoever deleted it died half way; that is done to its end now, and the topic can be made anew.
            return Ok(Put::Changed);
        }
        // Consumers may wait for it before it exists, or under another configuration.
        lanes.wake(name);
        // Those who send what is pushed look at all settings again.
        lanes.wake(&TopicName::pushed());
        if !created {
            // A new TTL or retention may concern what is there.
            let now = lanes.backend.clock.now();
            topic.sweep_by(now, Some(now));
        }
        Ok(Put::Done(created))
    }

    /// Takes a deleted topic out of the registry.
    pub async fn remove(&self, lanes: &Lanes, topic: &Topic) -> Result<(), CallError> {
        let mut remove = changing_call(&scripts::REMOVE_TOPIC, lanes);
        remove.arg(topic.name.as_str()).arg(topic.route.topic.0);
        lanes.command(remove).await?;
        self.forget(topic);
        lanes.backend.metrics.forget_topic(&topic.name);
        Ok(())
    }

    /// An entry of the registry: "number revision", and the configuration where it is not the default. `epochs`: how many
    /// had been met before it was read.
    fn remember(
        &self,
        lanes: &Lanes,
        name: &TopicName,
        entry: Value,
        epochs: u64,
    ) -> Result<Arc<Topic>, CallError> {
        let parsed = word(&entry).and_then(parse_entry);
        let (number, revision, settings) = parsed.ok_or_else(|| {
            // The entry itself is not for the log: there may be secrets in it.
            tracing::error!(topic = %name, "a topic's configuration cannot be read");
            CallError::Internal
        })?;
        let mut settings = settings.unwrap_or_else(|| TopicSettings::default_of(name));
        if name.is_callbacks() {
            settings.push.get_or_insert_with(Push::of_callbacks);
        }
        let route = Route { topic: TopicNumber(number), partition: Partition(0) };
        let topic = Arc::new(Topic {
            name: name.clone(),
            revision,
            settings,
            word: format!("{number} {revision} {SCHEMA_VERSION}"),
            route,
            keys: PartitionKeys::new(&self.prefix, name, route.partition),
            counters: lanes.backend.metrics.topic(name),
            sweep_at: AtomicI64::new(0),
            plenty: AtomicBool::new(false),
            used: AtomicBool::new(true),
            hints: self.hints.clone(),
        });
        let mut known = self.known.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        if epochs < known.epochs {
            // Read before others learnt that Redis may have gone back.
            return Ok(topic);
        }
        if epochs > known.epochs {
            *known = Known { epochs, ..Known::default() };
        }
        // Two requests may have read it at once: one entry, so that their messages share groups.
        if let Some(other) = known.by_number.get(&route.topic)
            && other.revision >= revision
            && other.name == *name
        {
            return Ok(other.clone());
        }
        known.by_name.insert(name.clone(), topic.clone());
        known.by_number.insert(route.topic, topic.clone());
        Ok(topic)
    }

    /// Forgets this revision of a topic; a later one, learnt meanwhile, stays.
    pub(super) fn forget(&self, topic: &Topic) {
        let mut known = self.known.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        let same = |other: &Arc<Topic>| other.word == topic.word;
        if known.by_number.get(&topic.route.topic).is_some_and(same) {
            known.by_number.remove(&topic.route.topic);
        }
        if known.by_name.get(&topic.name).is_some_and(same) {
            known.by_name.remove(&topic.name);
        }
    }

    /// What is known, unless Redis may have gone back since it was learnt.
    fn known<T>(&self, lanes: &Lanes, look: impl Fn(&Known) -> Option<T>) -> Option<T> {
        let known = self.known.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        (known.epochs == lanes.backend.epochs()).then(|| look(&known)).flatten()
    }

    /// Forgets the topics that nobody has looked for since this was last called.
    pub fn forget_unused(&self) {
        self.known.write().unwrap_or_else(|poisoned| poisoned.into_inner()).forget_unused();
    }
}

/// Number, revision and configuration, which is not there where it is the default; nothing where they cannot be read.
pub(crate) fn parse_entry(entry: &str) -> Option<(u32, i64, Option<TopicSettings>)> {
    let mut parts = entry.splitn(3, ' ');
    let (number, revision) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let settings = parts.next().map(serde_json::from_str).transpose();
    Some((number, revision, settings.ok()?))
}

/// A call of a script that looks at the registry.
pub(crate) fn registry_call(script: &Script, lanes: &Lanes) -> Cmd {
    let keys = &lanes.backend.keys;
    let mut call = cmd("EVAL");
    call.arg(script.source).arg(3).arg(&keys.registry).arg(&keys.names).arg(&keys.index);
    call
}

/// A call of a script that changes the registry, and with it which topics are pushed.
fn changing_call(script: &Script, lanes: &Lanes) -> Cmd {
    let keys = &lanes.backend.keys;
    let mut call = cmd("EVAL");
    call.arg(script.source).arg(4).arg(&keys.registry).arg(&keys.names).arg(&keys.index);
    call.arg(&keys.pushed);
    call
}
