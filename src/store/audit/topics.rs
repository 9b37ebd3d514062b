//! The part of an audit that is about topics: the registry, whose three keys must say the same, and what each partition
//! knows of its topic. They live in different slots, so a partition may lag behind the registry for a moment, or until
//! the next request when an instance died in between; that heals by itself and is not reported.

use super::{Audit, finding::Finding};
use crate::{
    Partition, PartitionName, Store, Topic,
    batch::Command,
    registry::parse_entry,
    reply::{CallError, Fields, int},
    scripts,
};
use dueq_model::{TopicName, TopicSettings, error::Error};
use std::collections::BTreeSet;

/// Topics of one look.
const TOPICS: i64 = 64;

/// A partition that is broken over and over while it is mended stays broken after so many times.
const MAX_MENDS: u32 = 6;

/// How a partition's entry of its topic compares with the registry's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartitionState {
    /// The same, or less: the next request tells it.
    Enough,
    /// More than the registry did when it was read: that may have changed.
    More,
    /// That it was deleted; the next request takes the topic out of the registry, messages or not.
    Deleted,
    /// What cannot come right by itself.
    Corrupt,
}

/// `said`: the field `topic` of its meta.
fn knows(said: Option<&str>, number: i64, revision: i64) -> PartitionState {
    let Some(said) = said else { return PartitionState::Enough };
    if let Some(deleted) = said.strip_prefix('-') {
        return match deleted.parse::<i64>() {
            Ok(deleted) if deleted >= number => PartitionState::Deleted,
            Ok(_) => PartitionState::Enough,
            Err(_) => PartitionState::Corrupt,
        };
    }
    // The version of the schema follows them, from the second on.
    let mut parts = said.split(' ').map(|part| part.parse::<i64>().ok());
    let parsed = parts.next().flatten().zip(parts.next().flatten());
    match parsed.filter(|_| parts.all(|schema| schema.is_some())) {
        Some(known) if known <= (number, revision) => PartitionState::Enough,
        Some(_) => PartitionState::More,
        None => PartitionState::Corrupt,
    }
}

/// The number at its beginning, as the scripts' `owner` reads it.
fn owner(said: Option<&str>) -> &str {
    let said = said.unwrap_or_default();
    let digits = said.strip_prefix('-').unwrap_or(said);
    let rest = digits.trim_start_matches(|c: char| c.is_ascii_digit());
    if rest.len() == digits.len() { "" } else { &said[..said.len() - rest.len()] }
}

impl Audit<'_> {
    /// Looks at the registry; returns the topics whose entries can be read.
    pub(super) async fn registry(&mut self) -> Result<BTreeSet<TopicName>, Error> {
        let (mut names, mut reported) = (BTreeSet::new(), BTreeSet::new());
        for part in 1..=3 {
            let mut cursor = Some("0".to_owned());
            while let Some(from) = cursor {
                let look = self.store.registry.call(&scripts::AUDIT_REGISTRY);
                let look = look.arg((part, from, TOPICS, self.repair));
                let mut fields = Fields::of(self.store.lanes.command(look).await?)?;
                cursor = fields.cursor()?;
                let (seen, found) = (texts(fields.fields()?)?, texts(fields.fields()?)?);
                for finding in found.chunks_exact(3) {
                    let [topic, defect, detail] = finding else { continue };
                    let mut finding = Finding::of_topic(topic, defect, detail.clone());
                    finding.mended = self.repair.then_some("put right");
                    if reported.insert((topic.clone(), finding.defect)) {
                        (self.tell)(finding);
                    }
                }
                for topic in seen.chunks_exact(2) {
                    let Ok(name) = TopicName::parse(&topic[0]) else { continue };
                    if self.entry(&name, &topic[1]).await? {
                        names.insert(name);
                    }
                }
            }
        }
        self.leftovers().await?;
        Ok(names)
    }

    /// Can the configuration in this entry of the registry be read? With `repair` it can, afterwards.
    async fn entry(&mut self, name: &TopicName, entry: &str) -> Result<bool, Error> {
        if entry.is_empty() || parse_entry(entry).is_some() {
            return Ok(true);
        }
        let mut finding = Finding::of_topic(name.as_str(), "bad_entry", entry.to_owned());
        if self.repair {
            let revision = entry.split(' ').nth(1).and_then(|revision| revision.parse().ok());
            let settings = TopicSettings::default();
            self.store.registry.put(name, (None, None), &settings, revision.unwrap_or(0)).await?;
            finding.mended = Some("its configuration is the default one");
        }
        (self.tell)(finding);
        Ok(self.repair)
    }

    /// Does this partition know its topic? Returns the partition, and the number that it goes by; nothing where there
    /// is no such topic any more.
    pub(super) async fn partition(
        &mut self,
        name: &PartitionName,
    ) -> Result<Option<(Partition, String)>, Error> {
        let store = self.store;
        let mut looks = 0_u32;
        loop {
            looks += 1;
            let topic = store.registry.look_up(&name.topic).await?;
            let partition = topic.and_then(|topic| topic.partition(name.number));
            let Some(partition) = partition else { return Ok(None) };
            let (topic, meta_key) = (&*partition.topic, &partition.keys.meta);
            let fields = (meta_key, "topic", "max_attempts", "backoff", "lease_ms");
            let meta = Fields::of(store.lanes.command(Command::new("HMGET").arg(fields)).await?)?;
            let meta = meta.words();
            let texts: Vec<_> = meta.iter().map(|word| word.as_ref().ok()?.as_deref()).collect();
            let said = texts.first().copied().flatten();
            let knows = match knows(said, topic.number.0.into(), topic.written) {
                _ if meta.first().is_some_and(Result::is_err) => PartitionState::Corrupt,
                PartitionState::Enough
                    if said == Some(&topic.version_tag) && !same(topic, &texts) =>
                {
                    PartitionState::Corrupt
                }
                knows => knows,
            };
            let wrong = match knows {
                PartitionState::Enough => false,
                PartitionState::Corrupt => true,
                // Nothing is left in it.
                PartitionState::Deleted if !holds_messages(store, &partition).await? => {
                    return Ok(None);
                }
                // Read again: a change is written to the registry first, or the topic was created again since.
                PartitionState::More | PartitionState::Deleted if looks < 3 => continue,
                PartitionState::More | PartitionState::Deleted => true,
            };
            if wrong {
                let detail = format!(
                    "it has {}, the registry {}",
                    said.unwrap_or("nothing"),
                    topic.version_tag
                );
                let mut finding = Finding::of_topic(&name.to_string(), "partition", detail);
                if self.repair && looks < MAX_MENDS {
                    let forget = Command::new("HDEL").arg((meta_key, "topic"));
                    store.lanes.command(forget).await?;
                    store.registry.refresh(&partition).await?;
                    finding.mended = Some("it has what the registry has");
                    (self.tell)(finding);
                    continue;
                }
                (self.tell)(finding);
            }
            let owner = owner(said).to_owned();
            return Ok(Some((partition, owner)));
        }
    }
}

async fn holds_messages(store: &Store, partition: &Partition) -> Result<bool, Error> {
    let bodies = store.lanes.command(Command::new("HLEN").arg(&partition.keys.messages)).await?;
    Ok(int(bodies)? > 0)
}

/// Does the partition treat messages as the registry wants it?
fn same(topic: &Topic, texts: &[Option<&str>]) -> bool {
    let TopicSettings { max_attempts, backoff, lease_ms, .. } = &topic.settings;
    let wanted = [max_attempts.to_string(), backoff.to_script(), lease_ms.to_string()];
    texts.get(1..).is_some_and(|texts| {
        texts.iter().eq(wanted.iter().map(|w| Some(w.as_str())).collect::<Vec<_>>().iter())
    })
}

fn texts(mut fields: Fields) -> Result<Vec<String>, CallError> {
    let mut texts = Vec::with_capacity(fields.len());
    while !fields.is_empty() {
        texts.push(String::from_utf8_lossy(&fields.bytes()?).into_owned());
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_that_lags_behind_is_right_and_one_that_is_ahead_is_not() {
        for (said, is) in [
            (None, PartitionState::Enough),
            (Some("7 20"), PartitionState::Enough),
            (Some("7 20 2"), PartitionState::Enough),
            (Some("7 21 2"), PartitionState::More),
            (Some("7 20 x"), PartitionState::Corrupt),
            (Some("7 19"), PartitionState::Enough),
            (Some("6 19"), PartitionState::Enough),
            (Some("-6"), PartitionState::Enough),
            (Some("-7"), PartitionState::Deleted),
            (Some("7 21"), PartitionState::More),
            (Some("8 3"), PartitionState::More),
            (Some(""), PartitionState::Corrupt),
            (Some("7"), PartitionState::Corrupt),
            (Some("-x"), PartitionState::Corrupt),
        ] {
            assert_eq!(knows(said, 7, 20), is, "{said:?}");
        }
    }

    #[test]
    fn the_owner_is_the_number_that_a_partition_begins_with() {
        for (said, is) in [
            (None, ""),
            (Some("7 20"), "7"),
            (Some("-7"), "-7"),
            (Some("x 7"), ""),
            (Some("-"), ""),
            (Some("12x"), "12"),
        ] {
            assert_eq!(owner(said), is, "{said:?}");
        }
    }
}
