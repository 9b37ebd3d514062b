//! Where a dump is loaded. Its topics are made first, paused, and marked with the dump's id until all of it is there: so
//! nothing is granted of a dump that is half there, and a load that was killed goes on when it is run again.

use super::{
    file,
    line::{Header, Topic as TopicLine},
    source::{self, Failure},
};
use dueq_model::{TopicName, TopicNumber, TopicSettings};
use dueq_store::{Partition, PartitionName, Store, Topic, batch::Command, reply::int};
use std::{collections::HashMap, sync::Arc};

/// What follows a dump's id in the mark of a topic that has all of its messages.
const COMPLETE: &str = " complete";

/// A topic of the dump, and where it goes.
pub struct Target {
    /// Its name here.
    pub name: TopicName,
    /// It is as in the dump: nothing of it is to be loaded.
    pub is_complete: bool,
    /// It was loaded and resumed by an earlier run.
    pub is_released: bool,
    /// It stays paused.
    stays_paused: bool,
    settings: TopicSettings,
    /// The number that it has to have.
    number: Option<TopicNumber>,
}

/// The topics of a dump by their names there, and where they go.
pub struct Plan {
    id: String,
    instances: i64,
    pub targets: HashMap<String, Target>,
    /// What is said once all is loaded.
    pub remarks: Vec<String>,
}

impl Plan {
    /// Works out where everything goes. `prefix`: beside what is there, under names that begin so.
    pub fn new(
        header: &Header,
        topics: &[TopicLine],
        prefix: Option<&str>,
    ) -> Result<Self, Failure> {
        let (mut targets, mut remarks) = (HashMap::new(), Vec::new());
        let renamed = |name: &TopicName| match prefix {
            None => Ok(name.clone()),
            Some(prefix) => TopicName::parse(&format!("{prefix}{name}"))
                .map_err(|error| Failure::Other(format!("--into {prefix}: {error}"))),
        };
        for topic in topics {
            let name = TopicName::parse(&topic.name).map_err(Failure::other)?;
            if prefix.is_some() && name.is_callbacks() {
                remarks.push(format!(
                    "the callbacks in {name} were left out: they go into an empty place only"
                ));
                continue;
            }
            let mut settings = file::settings(topic, &name).map_err(Failure::Other)?;
            settings.loading = Some(header.id.clone());
            (settings.closing, settings.revision, settings.paused) = (false, None, false);
            settings.dead_topic = settings.dead_topic.as_ref().map(renamed).transpose()?;
            let target = Target {
                name: renamed(&name)?,
                is_complete: false,
                is_released: false,
                stays_paused: topic.paused || prefix.is_some() && settings.push.is_some(),
                number: prefix.is_none().then_some(TopicNumber(topic.number)),
                settings,
            };
            if target.stays_paused && !topic.paused {
                let name = &target.name;
                remarks.push(format!("{name} is paused, so that nothing is called twice"));
            }
            targets.insert(topic.name.clone(), target);
        }
        let (id, instances) = (header.id.clone(), header.instances);
        Ok(Self { id, instances, targets, remarks })
    }

    /// Finds out what is there. Nothing is written.
    ///
    /// Errors: what is there was not loaded from this dump, and stands in the way.
    pub async fn look(&mut self, store: &Store) -> Result<(), Failure> {
        let beside = self.targets.values().all(|target| target.number.is_none());
        let (mut goes_on, mut is_half, mut there) = (false, false, Vec::new());
        for target in self.targets.values_mut() {
            let Some(topic) = find(store, &target.name).await? else { continue };
            let loading = topic.settings.loading.as_deref();
            target.is_complete = loading != Some(&self.id);
            let ours = |mark: &str| mark.strip_suffix(COMPLETE).unwrap_or(mark) == self.id;
            target.is_released = !loading.is_some_and(ours);
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
        if beside && !self.targets.is_empty() {
            return match there.is_empty() {
                true => Ok(()),
                false => Err(in_the_way("is not free", &there, "choose another prefix for --into")),
            };
        }
        let names = source::topic_names(store).await?;
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        let schedules = Command::new("ZCARD").arg(&store.lanes.shared.keys.schedules_index);
        if !names.is_empty() {
            let advice = "to load beside them, name a prefix with --into";
            return Err(in_the_way("is not empty", &names, advice));
        }
        match int(store.lanes.command(schedules).await?)? {
            0 => Ok(()),
            _ => Err(Failure::Other("the place is not empty: it has schedules".to_owned())),
        }
    }

    /// Makes the topics that are not there yet, paused.
    pub async fn prepare(&mut self, store: &Store) -> Result<(), Failure> {
        self.count_instances(store).await?;
        for target in self.targets.values_mut().filter(|target| !target.is_complete) {
            let Target { name, number, settings, .. } = target;
            let durability = settings.durability;
            let is_made = match find(store, name).await? {
                // Somebody may have made it since the look.
                Some(topic) => topic.settings.loading.as_ref() == Some(&self.id),
                None => store.create_loading(name, *number, settings).await?,
            };
            if !is_made {
                return Err(Failure::Other(format!(
                    "the topic {name} cannot be made: it or its number is taken, or a topic of its name was deleted in the last hour"
                )));
            }
            if settings.durability != durability {
                let told = format!("{name} has durability memory: there are no replicas");
                self.remarks.push(told);
            }
            // As long as not all of it is there, nobody is to have a part.
            store.pause_topic(name).await?;
        }
        Ok(())
    }

    /// No instance that starts from now on makes an id that is in the dump.
    async fn count_instances(&self, store: &Store) -> Result<(), Failure> {
        let key = &store.lanes.shared.keys.instances;
        let drawn = int(store.lanes.command(Command::new("GET").arg(key)).await?)?;
        if drawn < self.instances {
            let more = Command::new("INCRBY").arg((key, self.instances - drawn));
            store.lanes.command(more).await?;
        }
        Ok(())
    }

    /// Notes that all messages are there, after what time has brought meanwhile.
    pub async fn complete(&mut self, store: &Store) -> Result<(), Failure> {
        let mark = format!("{}{COMPLETE}", self.id);
        for target in self.targets.values_mut().filter(|target| !target.is_complete) {
            store.set_loading(&target.name, Some(&mark)).await?;
            target.is_complete = true;
        }
        Ok(())
    }

    /// Brings all that is loaded up to date, such as leases that have ended. What a topic held above its limit is loaded, and said.
    pub async fn sweep(&mut self, store: &Store) -> Result<(), Failure> {
        for target in self.targets.values().filter(|target| !target.is_complete) {
            for partition in partitions(store, &target.name).await? {
                let name = partition.name();
                let mut asked = false;
                while let Some(swept) = store.sweep(&name).await? {
                    if !swept.more {
                        partition.sweep_by(store.now(), swept.next_at);
                        asked = swept.next_at.is_some();
                        break;
                    }
                }
                if asked {
                    store.pass_on_hints().await;
                }
            }
            let (name, held) = (&target.name, store.topic(&target.name).await?.1);
            let live = held.delayed + held.ready + held.blocked + held.leased;
            if let Some(most) = target.settings.max_messages.filter(|most| live > *most) {
                let more = live - most;
                self.remarks.push(format!("{name} has {more} messages more than its max_messages"));
            }
        }
        Ok(())
    }

    /// Resumes the topics, which have all that is theirs.
    pub async fn release(&self, store: &Store) -> Result<(), Failure> {
        for target in self.targets.values().filter(|target| !target.is_released) {
            if !target.stays_paused {
                store.resume_topic(&target.name).await?;
            }
            store.set_loading(&target.name, None).await?;
        }
        Ok(())
    }
}

/// The topic of this name, if there is one.
pub async fn find(store: &Store, name: &TopicName) -> Result<Option<Arc<Topic>>, Failure> {
    Ok(store.registry.look_up(name).await?)
}

/// Its partitions.
pub async fn partitions(store: &Store, name: &TopicName) -> Result<Vec<Partition>, Failure> {
    let topic = find(store, name).await?;
    Ok(topic.iter().flat_map(|topic| topic.all()).collect())
}

/// The partition of a message's target.
pub fn partition_of(target: &Target, route: dueq_model::Route) -> PartitionName {
    PartitionName { topic: target.name.clone(), number: route.partition }
}

fn in_the_way(is: &str, names: &[String], advice: &str) -> Failure {
    let some = names[..names.len().min(3)].join(", ");
    let more = match names.len().saturating_sub(3) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Failure::Other(format!("the place {is}: it has the topics {some}{more}; {advice}"))
}
