//! The part of an audit that looks for what deleted topics have left: keys of partitions that no topic has, and names of
//! such partitions in the indexes of what is to be swept and noted. It scans the whole keyspace, a bounded number of keys a
//! call. A topic may be made or deleted meanwhile, so whatever looks left is looked at once more, against the registry as
//! it is then.

use super::{Audit, finding::Finding};
use crate::{
    PartitionName, Store,
    batch::{Command, Node},
    keys::PartitionKeys,
    reply::{CallError, Fields, int, word},
};
use dueq_model::{Millis, PartitionNumber, TopicName, error::Error};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

/// Keys and names of one call.
const COUNT: usize = 500;
/// How long a deletion that is under way has to end, and the instance that notes something to see that.
const PAUSE: Duration = Duration::from_millis(500);
/// How long (ms) activity may wait for an instance.
const RECENT_MS: Millis = 60_000;

/// How many partitions topics have; 0 for those that are not there.
type Partitions = HashMap<TopicName, usize>;

impl Audit<'_> {
    /// Looks for what is left of deleted topics, and removes it with `repair`, unless there are messages.
    pub(super) async fn leftovers(&mut self) -> Result<(), Error> {
        let store = self.store;
        let keys = &store.lanes.shared.keys;
        for (place, key, scan, look, remove) in [
            ("in sweeps", &keys.sweeps, "ZSCAN", "ZSCORE", "ZREM"),
            ("in history", &keys.active, "ZSCAN", "ZSCORE", "ZREM"),
            ("in lateness", &keys.lateness, "HSCAN", "HGET", "HDEL"),
        ] {
            let (mut names, mut known) = (Vec::new(), Partitions::new());
            let mut cursor = Some("0".to_owned());
            while let Some(from) = cursor {
                let page = Command::new(scan).arg((key, from, "COUNT", COUNT));
                let mut fields = Fields::of(store.lanes.command(page).await?)?;
                cursor = fields.cursor()?;
                let mut list = fields.fields()?;
                while !list.is_empty() {
                    let (name, _) = (list.bytes()?, list.value()?);
                    match PartitionName::parse(&String::from_utf8_lossy(&name)) {
                        Some(parsed) if has(store, &parsed, &mut known).await? => {}
                        parsed => names.push((name, parsed)),
                    }
                }
            }
            for (name, parsed) in again(names).await {
                if let Some(parsed) = &parsed
                    && has(store, parsed, &mut Partitions::new()).await?
                {
                    continue;
                }
                let still = store.lanes.command(Command::new(look).arg((key, &name[..]))).await?;
                let Some(still) = word(&still) else { continue };
                // An instance that did not yet know of the deletion may have noted this a moment ago; the note goes when its
                // moment comes.
                let is_recent = |at: Millis| (at - store.now()).abs() < RECENT_MS;
                if place == "in history" && still.parse().is_ok_and(is_recent) {
                    continue;
                }
                let defect = if parsed.is_some() { "leftover" } else { "bad_name" };
                let shown = String::from_utf8_lossy(&name);
                let remove = Command::new(remove).arg((key, &name[..]));
                self.left(Finding::of_topic(&shown, defect, place.to_owned()), Some(remove))
                    .await?;
            }
        }
        for node in store.lanes.nodes() {
            self.node(&node).await?;
        }
        Ok(())
    }

    /// The same for the keys of a server.
    async fn node(&mut self, node: &Arc<Node>) -> Result<(), Error> {
        let store = self.store;
        let prefix = store.lanes.shared.keys.sweeps.split('{').next().unwrap_or_default();
        let literal: String = prefix.chars().flat_map(|c| ['\\', c]).collect();
        let mut known = Partitions::new();
        let mut left: BTreeMap<PartitionName, PartitionKeys> = BTreeMap::new();
        let mut cursor = Some("0".to_owned());
        while let Some(from) = cursor {
            let scan = Command::new("SCAN").arg((from, "MATCH", format!("{literal}{{*}}:*")));
            let mut fields = Fields::of(node.command(scan.arg(("COUNT", COUNT))).await?)?;
            cursor = fields.cursor()?;
            let mut list = fields.fields()?;
            while !list.is_empty() {
                let key = list.bytes()?;
                let key = String::from_utf8_lossy(&key);
                // `topic:partition` and perhaps a suffix; others are no keys of partitions.
                let tag = key.get(prefix.len() + 1..).and_then(|rest| rest.split('}').next());
                let mut parts = tag.unwrap_or_default().split(':');
                let name = parts.next().and_then(|name| TopicName::parse(name).ok());
                let number = parts.next().and_then(|number| number.parse().ok());
                let Some((topic, number)) = name.zip(number.map(PartitionNumber)) else { continue };
                let keys = PartitionKeys::new(prefix, &topic, number);
                let name = PartitionName { topic, number };
                if keys.all_with_rare().contains(&&*key) && !has(store, &name, &mut known).await? {
                    left.insert(name, keys);
                }
            }
        }
        for (name, keys) in again(left.into_iter().collect()).await {
            let there = keys_there(store, &keys).await?;
            if there.is_empty() || has(store, &name, &mut Partitions::new()).await? {
                continue;
            }
            let kinds = there.iter().filter_map(|key| key.rsplit(':').next()).collect::<Vec<_>>();
            let finding = Finding::of_topic(&name.to_string(), "leftover", kinds.join(", "));
            // Messages are for a person to decide about: the registry may have lost their topic.
            let unlink = (!there.contains(&keys.messages.as_str()))
                .then(|| Command::new("UNLINK").arg(&there));
            self.left(finding, unlink).await?;
        }
        Ok(())
    }

    /// Tells what is left, once it is removed where that is wished and there is a command that does it.
    async fn left(&mut self, mut finding: Finding, remove: Option<Command>) -> Result<(), Error> {
        if let Some(remove) = remove.filter(|_| self.repair) {
            self.store.lanes.command(remove).await?;
            finding.mended = Some("put right");
        }
        (self.tell)(finding);
        Ok(())
    }
}

/// The keys of a partition that are there, without the mark of a deleted topic, which goes by itself.
async fn keys_there<'a>(store: &Store, keys: &'a PartitionKeys) -> Result<Vec<&'a str>, Error> {
    let command =
        async |verb: &str, key: &str| store.lanes.command(Command::new(verb).arg(key)).await;
    let mut there = Vec::new();
    for key in keys.all_with_rare() {
        let owner = Command::new("HGET").arg((&keys.meta, "topic"));
        let is_mark = key == keys.meta
            && word(&store.lanes.command(owner).await?).is_some_and(|it| it.starts_with('-'))
            && int(command("PTTL", key).await?)? > 0;
        if !is_mark && int(command("EXISTS", key).await?)? == 1 {
            there.push(key);
        }
    }
    Ok(there)
}

/// What looked left, some time later.
async fn again<T>(left: Vec<T>) -> Vec<T> {
    if !left.is_empty() {
        tokio::time::sleep(PAUSE).await;
    }
    left
}

/// Is there a topic that has this partition?
async fn has(store: &Store, name: &PartitionName, known: &mut Partitions) -> Result<bool, Error> {
    let many = match known.get(&name.topic) {
        Some(many) => *many,
        None => {
            let many = match store.registry.look_up(&name.topic).await {
                Ok(topic) => topic.map_or(0, |topic| topic.all().count()),
                // Its entry cannot be read, which is another finding.
                Err(CallError::Internal) => usize::MAX,
                Err(error) => return Err(error.into()),
            };
            known.insert(name.topic.clone(), many);
            many
        }
    };
    Ok(usize::from(name.number.0) < many)
}
