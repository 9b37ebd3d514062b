//! Stores what a dump holds. Its topics are created first, paused, and marked with the dump's id until all of it is there: so
//! nothing is granted of a dump that is half there, and a load that was killed continues when it is run again.

use super::{
    ExportError,
    batches::Batches,
    copies::Prefix,
    dump::{messages, topic_names},
    line::{Group, Header, Line, Schedule, Topic as TopicLine},
    message::Message,
};
use crate::{Store, batch::Command, partition::Partition, registry::Topic, reply::int, scripts};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use dueq_model::{Body, CallHost, MessageId, Route, TopicName, TopicNumber, TopicSettings};
use std::{collections::HashMap, sync::Arc};

/// What follows a dump's id in the mark of a topic that has all of its messages.
const COMPLETE: &str = " complete";

/// How a dump is loaded.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct LoadOptions {
    /// Load into a place that is not empty, under names that begin so. Messages get new ids, pushed topics and schedules are paused.
    #[arg(long, value_name = "PREFIX")]
    pub into: Option<String>,
    /// Compare what is there with the dump once it is loaded; with --dry-run only compare.
    #[arg(long)]
    pub verify: bool,
    /// Check the dump and the place, and write nothing.
    #[arg(long)]
    pub dry_run: bool,
}

/// A topic of the dump, and where it goes.
struct Target {
    /// Its name here.
    name: TopicName,
    /// It is as in the dump: nothing of it is to be loaded.
    is_complete: bool,
    /// It was loaded and resumed by an earlier run.
    is_released: bool,
    /// It stays paused.
    stays_paused: bool,
    settings: TopicSettings,
    /// The number that it has to have, and then that it has.
    number: Option<TopicNumber>,
    /// The messages of the dump, as they are loaded.
    tally: Tally,
    /// Messages of which a URL to be called at their end is left out.
    silenced: u64,
}

/// How many messages there are, and the sum of their digests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    messages: u64,
    sum: u128,
}

impl Tally {
    fn count(&mut self, message: &Message) {
        self.messages += 1;
        self.sum = self.sum.wrapping_add(message.digest());
    }
}

/// What came of a load.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Messages that were stored.
    pub stored: u64,
    /// Messages that were there before.
    pub present: u64,
    /// Messages that gave up their key to another.
    pub taken: u64,
    /// Topics.
    pub topics: usize,
    /// Schedules.
    pub schedules: usize,
    /// How the place differs from the dump, a line for each topic. Unless it is empty, the load is not finished.
    pub differences: Vec<String>,
    /// What else is to be said.
    pub remarks: Vec<String>,
}

/// A load under way.
pub struct Loader<'a> {
    store: &'a Store,
    options: LoadOptions,
    header: Option<Header>,
    topics: Vec<TopicLine>,
    groups: Vec<Group>,
    hosts: Vec<String>,
    schedules: Vec<Schedule>,
    /// The topics by their names in the dump, from the first line behind them on.
    targets: Option<HashMap<String, Target>>,
    batches: Batches,
    remarks: Vec<String>,
}

impl<'a> Loader<'a> {
    /// Begins a load.
    pub fn new(store: &'a Store, options: LoadOptions) -> Self {
        let (topics, groups, hosts, schedules) = Default::default();
        let (batches, remarks) = (Batches::new(store.clone()), Vec::new());
        let (header, targets) = (None, None);
        Self { store, options, header, topics, groups, hosts, schedules, targets, batches, remarks }
    }

    /// Takes a line of the dump. Returns the id that a message has here, if it is loaded.
    pub async fn take(&mut self, line: Line) -> Result<Option<MessageId>, ExportError> {
        match line {
            Line::Dump(header) => self.header = Some(header),
            Line::Topic(topic) => self.topics.push(topic),
            Line::Group(group) => self.groups.push(group),
            Line::PausedHost(host) => self.hosts.push(host),
            Line::Schedule(schedule) => self.schedules.push(schedule),
            Line::Message(mut message) => {
                self.begin().await?;
                let Some(target) = self.targets.as_mut().and_then(|it| it.get_mut(&message.topic))
                else {
                    return Ok(None);
                };
                if let Some(prefix) = &self.options.into
                    && message.rename(&Prefix(prefix))?
                {
                    target.silenced += 1;
                }
                target.tally.count(&message);
                let (id, route) = message.id().map_err(ExportError::other)?;
                let topic = target.number.unwrap_or(route.topic);
                if !target.is_complete && !self.options.dry_run {
                    self.batches.add_message(&target.name, message).await?;
                }
                return Ok(Some(MessageId::from_member(&id.member(), Route { topic, ..route })));
            }
            Line::IdempotencyKey(key) => {
                self.begin().await?;
                let target = self.targets.as_ref().and_then(|it| it.get(&key.topic));
                if let Some(target) = target.filter(|it| !it.is_complete && !self.options.dry_run) {
                    self.batches.add_key(&target.name, &key).await?;
                }
            }
            Line::End(_) => {}
        }
        Ok(None)
    }

    /// The error of a dump that came by a pipe and turned out not to be whole, with what is loaded of it.
    pub async fn cut(&mut self, error: ExportError) -> ExportError {
        if self.targets.is_none() || self.options.dry_run {
            return error;
        }
        let loaded = match self.batches.flush().await {
            Ok(()) => self.batches.loaded.stored + self.batches.loaded.present,
            Err(_) => 0,
        };
        ExportError::Other(format!(
            "{error}; {loaded} messages before that are loaded, and their topics stay paused until the whole dump is loaded"
        ))
    }

    /// Everything is read: compares it with the place if that is wished, and finishes the load.
    pub async fn finish(mut self) -> Result<Loaded, ExportError> {
        self.begin().await?;
        let LoadOptions { dry_run, verify, .. } = self.options;
        if !dry_run {
            self.batches.flush().await?;
            self.load_groups().await?;
        }
        let differences = if verify { self.compare().await? } else { Vec::new() };
        if !dry_run && differences.is_empty() {
            // Only now, since it removes what has expired since the dump.
            self.sweep().await?;
            self.release().await?;
        }
        let (topics, schedules) = (self.topics().count(), self.schedules.len());
        let silenced = self.topics().filter(|it| it.silenced > 0);
        let of = |it: &Target| format!("{} of the messages in {}", it.silenced, it.name);
        let silenced = silenced.map(|it| silent(&of(it)));
        let mut silenced: Vec<_> = silenced.collect();
        silenced.sort();
        let mut remarks = self.remarks;
        remarks.extend(silenced);
        Ok(Loaded { topics, schedules, differences, remarks, ..self.batches.loaded })
    }

    fn topics(&self) -> impl Iterator<Item = &Target> {
        self.targets.iter().flat_map(HashMap::values)
    }

    /// All topics are known: looks at the place, and creates them there.
    async fn begin(&mut self) -> Result<(), ExportError> {
        if self.targets.is_some() {
            return Ok(());
        }
        let mut targets = HashMap::new();
        for topic in std::mem::take(&mut self.topics) {
            if let Some(target) = self.target(&topic)? {
                targets.insert(topic.name, target);
            }
        }
        self.targets = Some(targets);
        // To compare with what is there, the place need not be empty.
        if !(self.options.dry_run && self.options.verify) {
            self.look().await?;
        }
        if !self.options.dry_run {
            self.prepare().await?;
        }
        Ok(())
    }

    fn id(&self) -> &str {
        self.header.as_ref().map_or("", |header| &header.id)
    }

    /// Where a topic goes; `None` if it is left out.
    fn target(&mut self, topic: &TopicLine) -> Result<Option<Target>, ExportError> {
        let prefix = self.options.into.as_deref().map(Prefix);
        let mut name = TopicName::parse(&topic.name).map_err(ExportError::other)?;
        if prefix.is_some() && name.is_callbacks() {
            let left_out = "were left out: they go into an empty place only";
            self.remarks.push(format!("the callbacks in {name} {left_out}"));
            return Ok(None);
        }
        let mut settings = topic.settings(&name).map_err(ExportError::Other)?;
        settings.loading = Some(self.id().to_owned());
        (settings.closing, settings.revision, settings.paused) = (false, None, false);
        let number = prefix.is_none().then_some(TopicNumber(topic.number));
        let pauses = prefix.is_some() && settings.push.is_some() && !topic.paused;
        if let Some(prefix) = prefix {
            name = prefix.name(&name)?;
            if prefix.settings(&mut settings)? {
                self.remarks.push(silent(&format!("the topic {name}")));
            }
        }
        if pauses {
            self.remarks.push(format!("{name} is paused, so that nothing is called twice"));
        }
        Ok(Some(Target {
            name,
            is_complete: false,
            is_released: false,
            stays_paused: topic.paused || pauses,
            settings,
            number,
            tally: Tally::default(),
            silenced: 0,
        }))
    }

    /// Finds out what is there. Nothing is written.
    ///
    /// Errors: there is something that was not loaded from this dump, and is in the way.
    async fn look(&mut self) -> Result<(), ExportError> {
        let id = self.id().to_owned();
        let (mut goes_on, mut is_half, mut there) = (false, false, Vec::new());
        for target in self.targets.iter_mut().flat_map(HashMap::values_mut) {
            let Some(topic) = find(self.store, &target.name).await? else { continue };
            let mark = topic.settings.loading.as_deref();
            target.is_complete = mark != Some(&id);
            target.is_released =
                mark.is_none_or(|mark| mark.strip_suffix(COMPLETE).unwrap_or(mark) != id);
            if target.is_released {
                there.push(target.name.to_string());
            } else {
                goes_on = true;
                is_half |= !target.is_complete;
            }
        }
        there.sort();
        // Nothing is released before all is there, so these are others'.
        if is_half && !there.is_empty() {
            return Err(in_the_way("is not free", &there, "delete what has come meanwhile"));
        }
        if goes_on {
            return Ok(());
        }
        if self.options.into.is_some() && self.topics().next().is_some() {
            return match there.is_empty() {
                true => Ok(()),
                false => Err(in_the_way("is not free", &there, "choose another prefix for --into")),
            };
        }
        let names: Vec<_> =
            topic_names(self.store).await?.iter().map(ToString::to_string).collect();
        if !names.is_empty() {
            let advice = "to load under other names, give a prefix with --into";
            return Err(in_the_way("is not empty", &names, advice));
        }
        let schedules = Command::new("ZCARD").arg(&self.store.lanes.shared.keys.schedules_index);
        match int(self.store.lanes.command(schedules).await?)? {
            0 => Ok(()),
            _ => Err(ExportError::other("the place is not empty: it has schedules")),
        }
    }

    /// Creates the topics that are not there yet, paused.
    async fn prepare(&mut self) -> Result<(), ExportError> {
        let (store, id) = (self.store, self.id().to_owned());
        // No instance that starts from now on makes an id that is in the dump.
        let key = &store.lanes.shared.keys.instances;
        let drawn = int(store.lanes.command(Command::new("GET").arg(key)).await?)?;
        let more = self.header.as_ref().map_or(0, |header| header.instances) - drawn;
        if more > 0 {
            store.lanes.command(Command::new("INCRBY").arg((key, more))).await?;
        }
        for target in self.targets.iter_mut().flat_map(HashMap::values_mut) {
            let Target { name, number, settings, is_complete, .. } = target;
            if !*is_complete {
                let durability = settings.durability;
                let is_made = match find(store, name).await? {
                    // Another may have created it since the look.
                    Some(topic) => topic.settings.loading.as_ref() == Some(&id),
                    None => store.create_loading(name, *number, settings).await?,
                };
                if !is_made {
                    return Err(ExportError::Other(format!(
                        "the topic {name} cannot be made: it or its number is taken, or a topic of its name was deleted in the last hour"
                    )));
                }
                if settings.durability != durability {
                    self.remarks
                        .push(format!("{name} has durability memory: there are no replicas"));
                }
                // Until all of it is there, nothing of it is granted.
                store.pause_topic(name).await?;
            }
            *number = find(store, name).await?.map(|topic| topic.number).or(*number);
        }
        Ok(())
    }

    /// Gives groups their settings, in force for what is loaded.
    async fn load_groups(&self) -> Result<(), ExportError> {
        let targets = self.targets.as_ref();
        for Group { topic, group, paused, limits } in &self.groups {
            if let Some(target) = targets.and_then(|it| it.get(topic))
                && !target.is_complete
            {
                self.store.set_group(&target.name, group, Some(*paused), Some(limits)).await?;
            }
        }
        Ok(())
    }

    /// The differences between the place and the dump, a line for each topic.
    async fn compare(&self) -> Result<Vec<String>, ExportError> {
        let mut differ = Vec::new();
        for Target { name, tally: wanted, .. } in self.topics().filter(|it| !it.is_released) {
            let (mut found, mut damaged) = (Tally::default(), 0);
            for partition in partitions(self.store, name).await? {
                let count = |message: Option<Message>| {
                    match message {
                        Some(message) => found.count(&message),
                        None => damaged += 1,
                    }
                    Ok(())
                };
                messages(self.store, &partition, count).await?;
            }
            let Tally { messages, .. } = found;
            if damaged > 0 {
                differ.push(format!("{name}: {damaged} messages are damaged"));
            } else if messages != wanted.messages {
                differ.push(format!("{name}: {messages} messages, not {}", wanted.messages));
            } else if found != *wanted {
                differ.push(format!("{name}: {messages} messages, not the same"));
            }
        }
        differ.sort();
        Ok(differ)
    }

    /// Brings all that is loaded up to date, such as leases that have ended. A topic may hold more than its limit afterwards.
    async fn sweep(&mut self) -> Result<(), ExportError> {
        let (store, mut remarks) = (self.store, Vec::new());
        for Target { name, settings, .. } in self.topics().filter(|it| !it.is_complete) {
            for partition in partitions(store, name).await? {
                while let Some(swept) = store.sweep(&partition.name()).await? {
                    if swept.more {
                        continue;
                    }
                    partition.sweep_by(store.now(), swept.next_at);
                    if swept.next_at.is_some() {
                        store.pass_on_hints().await;
                    }
                    break;
                }
            }
            let held = store.topic(name).await?.1;
            let live = held.delayed + held.ready + held.blocked + held.leased;
            if let Some(more) = settings.max_messages.map(|most| live - most).filter(|it| *it > 0) {
                remarks.push(format!("{name} has {more} messages more than its max_messages"));
            }
        }
        self.remarks.extend(remarks);
        Ok(())
    }

    /// Notes that all messages are there, loads hosts and schedules, and resumes the topics.
    async fn release(&mut self) -> Result<(), ExportError> {
        let (store, mark) = (self.store, format!("{}{COMPLETE}", self.id()));
        for target in self.topics().filter(|target| !target.is_complete) {
            store.set_loading(&target.name, Some(&mark)).await?;
        }
        if self.options.into.is_none() {
            for host in &self.hosts {
                let host = CallHost::parse(host).map_err(ExportError::other)?;
                store.set_host_paused(&host, true).await?;
            }
        }
        for schedule in std::mem::take(&mut self.schedules) {
            self.load_schedule(&schedule).await?;
            self.schedules.push(schedule);
        }
        for target in self.topics().filter(|target| !target.is_released) {
            if !target.stays_paused {
                store.resume_topic(&target.name).await?;
            }
            store.set_loading(&target.name, None).await?;
        }
        Ok(())
    }

    /// Stores a schedule, unless it is there. With --into it is paused, so that nothing is published twice.
    async fn load_schedule(&mut self, schedule: &Schedule) -> Result<(), ExportError> {
        let mut definition = schedule.definition.get().to_owned();
        let (mut name, mut paused) = (schedule.name.clone(), schedule.paused);
        let mut last_id = schedule.last_id.as_str();
        if let Some(prefix) = &self.options.into {
            let mut value: serde_json::Value =
                serde_json::from_str(&definition).map_err(ExportError::other)?;
            let topic = value["topic"].as_str().unwrap_or_default();
            let Some(target) = self.targets.as_ref().and_then(|it| it.get(topic)) else {
                self.remarks.push(format!("the schedule {name} was left out, since its topic was"));
                return Ok(());
            };
            value["topic"] = target.name.as_str().into();
            name = format!("{prefix}{name}");
            let body = value["body"].as_str().and_then(|body| STANDARD.decode(body).ok());
            if let Some(mut body) = body.and_then(|body| Body::decode(body.into()).ok()) {
                if Prefix(prefix).body(&mut body)? {
                    self.remarks.push(silent(&format!("the schedule {name}")));
                }
                value["body"] = STANDARD.encode(body.encode()).into();
            }
            (definition, last_id) = (value.to_string(), "-");
            if !paused {
                self.remarks
                    .push(format!("the schedule {name} is paused, so that it is not doubled"));
            }
            paused = true;
        }
        let (next, claimed) = if paused { (0, 0) } else { (schedule.next_ms, schedule.claimed_ms) };
        let load = Command::eval(&scripts::LOAD_SCHEDULE, &self.store.schedule_keys());
        let load = load.arg((name, definition, paused, next, claimed));
        let load = load.arg((schedule.last_ms, last_id, &schedule.last_error));
        self.store.lanes.command(load).await?;
        Ok(())
    }
}

/// The remark about what of a copy would have been called twice.
fn silent(of: &str) -> String {
    format!("on_done and on_dead with a URL are left out of {of}, so that nothing is called twice")
}

/// The topic of this name, if there is one.
pub(super) async fn find(
    store: &Store,
    name: &TopicName,
) -> Result<Option<Arc<Topic>>, ExportError> {
    Ok(store.registry.look_up(name).await?)
}

async fn partitions(store: &Store, name: &TopicName) -> Result<Vec<Partition>, ExportError> {
    let topic = find(store, name).await?;
    Ok(topic.iter().flat_map(|topic| topic.all()).collect())
}

fn in_the_way(is: &str, names: &[String], advice: &str) -> ExportError {
    let some = names[..names.len().min(3)].join(", ");
    let more = match names.len().saturating_sub(3) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    ExportError::Other(format!("the place {is}: it has the topics {some}{more}; {advice}"))
}
