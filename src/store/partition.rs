//! A partition: the part of a topic that lives in one slot of Redis. Lanes group requests by it, scripts get its keys, and
//! ids name it. Order holds within a partition.
//!
//! A message with a name (its group, or else its key, or else its idempotency key) lies in the partition that the name hashes to, where a
//! repetition finds it. Others go wherever there is room: many in a row into one partition, since scripts work on groups
//! and a group has one partition, and then as many into the next.

mod outlook;

pub use outlook::Outlook;

use super::{
    cluster::{Slot, slot_of},
    history::Activity,
    keys::PartitionKeys,
    registry::Topic,
    types::{Idempotency, MessageKey, MessageOptions},
};
use dueq_model::{
    MAX_PARTITIONS, MessageId, Millis, PartitionNumber, Route, TopicName, TopicNumber,
    TopicSettings,
};
use parking_lot::Mutex;
use siphasher::sip::SipHasher24;
use std::{
    fmt,
    hash::Hasher,
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering},
    },
};

/// Messages without a name that go into one partition in a row, at most.
const IN_A_ROW: usize = super::batch::GROUP_MESSAGES;
/// The key of the hash that places names. It never changes: names must be found again.
const HASH_KEY: (u64, u64) = (0x6475_6571_2070_6172, 0x7469_7469_6f6e_7321);

/// A partition and its topic. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Partition {
    /// The topic.
    pub topic: Arc<Topic>,
    at: usize,
}

/// What is known of a partition besides its topic.
#[derive(Debug)]
pub struct PartitionState {
    pub route: Route,
    pub keys: PartitionKeys,
    /// Where they are in a Cluster.
    pub slot: Slot,
    /// The earliest moment (ms) for which a sweep was asked and which has not passed; 0: none.
    pub sweep_at: AtomicI64,
    /// The last lease found all that it wanted: the next one may as well.
    pub plenty: AtomicBool,
    /// What is to be reported to its history.
    pub(super) activity: Activity,
    /// Kept where there are several partitions.
    /// Its leases, as they were last counted.
    pub(super) leased: AtomicI64,
    outlook: Mutex<Outlook>,
}

/// Which partition of which topic. As text `orders` for the first of a topic and `orders/3` for another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartitionName {
    /// The topic.
    pub topic: TopicName,
    /// The partition.
    pub number: PartitionNumber,
}

impl PartitionName {
    /// The one that this text names.
    pub fn parse(text: &str) -> Option<Self> {
        let (topic, number) = match text.split_once('/') {
            None => (text, 0),
            Some((topic, number)) => (topic, number.parse().ok().filter(|number| *number > 0)?),
        };
        Some(Self { topic: TopicName::parse(topic).ok()?, number: PartitionNumber(number) })
    }
}

impl fmt::Display for PartitionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number.0 {
            0 => write!(f, "{}", self.topic),
            number => write!(f, "{}/{number}", self.topic),
        }
    }
}

impl PartitionState {
    fn new(prefix: &str, topic: &TopicName, route: Route) -> Self {
        let keys = PartitionKeys::new(prefix, topic, route.partition);
        Self {
            route,
            slot: slot_of(keys.meta.as_bytes()),
            keys,
            sweep_at: AtomicI64::new(0),
            plenty: AtomicBool::new(false),
            activity: Activity::default(),
            leased: AtomicI64::new(0),
            outlook: Mutex::default(),
        }
    }

    /// Those of a topic of these settings.
    pub(super) fn all_of(
        prefix: &str,
        topic: &TopicName,
        number: TopicNumber,
        settings: &TopicSettings,
    ) -> Box<[Self]> {
        // A hand in Redis may have written any number.
        let most = settings.partitions.clamp(1, MAX_PARTITIONS) as u16;
        let route = |p| Route { topic: number, partition: PartitionNumber(p as u8) };
        (0..most).map(|p| Self::new(prefix, topic, route(p))).collect()
    }

    pub fn outlook(&self) -> Outlook {
        *self.outlook.lock()
    }

    /// Something may have come, or nobody knows any more.
    pub fn wake(&self) {
        self.outlook.lock().wake();
    }

    /// A call failed.
    pub(super) fn put_off(&self) {
        self.outlook.lock().put_off();
    }

    /// A call that began after so many wake-ups found when there is something to grant next.
    pub(super) fn learn(&self, wakes: u64, head: Millis) {
        self.outlook.lock().learn(wakes, head);
    }
}

impl Deref for Partition {
    type Target = PartitionState;

    fn deref(&self) -> &PartitionState {
        &self.topic.partitions[self.at]
    }
}

impl Topic {
    /// Does it have more than one partition?
    pub fn is_split(&self) -> bool {
        self.partitions.len() > 1
    }

    /// Its first partition may be closed, though others are not: it is opened before them.
    pub(super) fn may_be_closed(&self) -> bool {
        self.settings.closing || self.settings.was_closing
    }

    /// Messages without a name that go into one partition in a row: where each holds few, fewer, so that none is full while
    /// others are empty.
    fn row(&self) -> usize {
        let share = self.settings.max_messages.map(|most| most as usize / self.partitions.len());
        share.map_or(IN_A_ROW, |share| (share / 4).clamp(1, IN_A_ROW))
    }

    /// All of its partitions.
    pub fn all(self: &Arc<Self>) -> impl Iterator<Item = Partition> + use<> {
        let topic = self.clone();
        (0..self.partitions.len()).map(move |at| Partition { topic: topic.clone(), at })
    }

    /// The partition of this number, if there is one.
    pub fn partition(self: &Arc<Self>, number: PartitionNumber) -> Option<Partition> {
        let at = usize::from(number.0);
        (at < self.partitions.len()).then(|| Partition { topic: self.clone(), at })
    }
}

impl Partition {
    /// The first of a topic, mostly the only one.
    pub fn first(topic: Arc<Topic>) -> Self {
        Self { topic, at: 0 }
    }

    /// The one where this name is at home.
    pub(super) fn home(topic: Arc<Topic>, name: &[u8]) -> Self {
        let at = if topic.is_split() { hash(name) as usize % topic.partitions.len() } else { 0 };
        Self { topic, at }
    }

    /// The one that holds this message of the topic.
    pub(super) fn holding(topic: &Arc<Topic>, id: MessageId) -> Self {
        let found = id.route().and_then(|route| topic.partition(route.partition));
        found.unwrap_or_else(|| Self::first(topic.clone()))
    }

    /// Wake-ups that have come for it, where that is of use.
    pub(super) fn wakes(&self) -> u64 {
        if self.topic.is_split() { self.outlook().wakes } else { 0 }
    }

    /// Its name.
    pub fn name(&self) -> PartitionName {
        PartitionName { topic: self.topic.name.clone(), number: self.route.partition }
    }

    /// The one for a new message with these options.
    pub(super) fn for_new(topic: Arc<Topic>, options: &MessageOptions) -> Self {
        match name(options) {
            _ if !topic.is_split() => Self::first(topic),
            Some(name) => Self::home(topic, name),
            None => {
                let row = topic.placed.fetch_add(1, Ordering::Relaxed) / topic.row();
                let at = row % topic.partitions.len();
                Self { topic, at }
            }
        }
    }

    /// The next one, as the topic is known now, for a message without a name that this one could not take. Of any three in a row
    /// two lie half of the slots apart: a server that is away has no more than one of these two.
    pub(super) fn next(&self, topic: Arc<Topic>) -> Self {
        let at = (self.at + 1) % topic.partitions.len();
        Self { topic, at }
    }

    /// Tells partitions from each other while they are in use, whatever the topic's revision.
    pub(super) fn address(&self) -> usize {
        std::ptr::from_ref::<PartitionState>(self).addr()
    }

    /// This partition's part of a number that holds for the topic. The parts add up to it.
    pub(super) fn share(&self, number: i64) -> i64 {
        let (many, at) = (self.topic.partitions.len() as i64, self.at as i64);
        number / many + i64::from(at < number % many)
    }

    /// The same, rounded up: for what no partition can be without.
    pub(super) fn large_share(&self, number: i64) -> i64 {
        let many = self.topic.partitions.len() as i64;
        number / many + i64::from(number % many > 0)
    }
}

/// What places a message with these options: its group, or what it is found by.
pub(super) fn name(options: &MessageOptions) -> Option<&[u8]> {
    let group = options.group.as_deref().map(str::as_bytes);
    let key = || options.key.as_ref().map(|MessageKey { name, .. }| name.as_bytes());
    let idempotency = || options.idempotency.as_ref().map(|Idempotency { key, .. }| &key[..]);
    group.or_else(key).or_else(idempotency)
}

/// Where a topic that was just read begins to place messages: instances begin in different partitions.
pub(super) fn first_place() -> AtomicUsize {
    let place = getrandom::u32().unwrap_or_default() as usize % MAX_PARTITIONS as usize;
    AtomicUsize::new(place * IN_A_ROW)
}

fn hash(name: &[u8]) -> u64 {
    let mut hasher = SipHasher24::new_with_keys(HASH_KEY.0, HASH_KEY.1);
    hasher.write(name);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::partition;

    fn topic(partitions: i64) -> Arc<Topic> {
        partition(TopicSettings { partitions, ..TopicSettings::default() }).topic
    }

    #[test]
    fn the_home_of_a_name_never_changes() {
        let homes =
            ["", "a", "order-17", "\u{ff}"].map(|n| Partition::home(topic(256), n.as_bytes()).at);
        assert_eq!(homes, [81, 39, 81, 13]);
    }

    #[test]
    fn names_spread_evenly_and_the_rest_goes_in_rows() {
        let topic = topic(16);
        let mut homes = [0; 16];
        for n in 0..1600 {
            homes[Partition::home(topic.clone(), format!("key-{n}").as_bytes()).at] += 1;
        }
        assert!(homes.iter().all(|n| (60..140).contains(n)), "{homes:?}");
        let options = MessageOptions::default();
        let mut placed = [0; 16];
        for _ in 0..16 * IN_A_ROW {
            placed[Partition::for_new(topic.clone(), &options).at] += 1;
        }
        assert_eq!(placed, [IN_A_ROW; 16]);
    }

    #[test]
    fn a_partition_has_a_name() {
        for (text, number) in [("orders", 0), ("orders/1", 1), ("orders/255", 255)] {
            let name = PartitionName::parse(text).unwrap();
            assert_eq!((name.topic.as_str(), name.number.0), ("orders", number));
            assert_eq!(name.to_string(), text);
        }
        for text in
            ["", "a b", "orders/", "orders/0", "orders/256", "orders/-1", "orders/1/2", "/1"]
        {
            assert_eq!(PartitionName::parse(text), None, "{text}");
        }
    }

    #[test]
    fn shares_add_up() {
        for (number, many) in [(64, 4), (67, 4), (0, 2), (7, 1), (16 * 256, 256)] {
            let shares: Vec<_> = topic(many).all().map(|p| p.share(number)).collect();
            assert_eq!(shares.iter().sum::<i64>(), number);
            assert!(shares.iter().all(|share| share - shares[many as usize - 1] <= 1));
        }
    }
}
