//! A partition: the part of a topic that lives in one slot of Redis. Lanes group requests by it, scripts get its keys, and
//! ids name it.

use super::{keys::PartitionKeys, registry::Topic};
use crate::model::{PartitionNumber, Route, TopicNumber};
use std::{
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64},
    },
};

/// A partition and its topic. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Partition {
    /// The topic.
    pub topic: Arc<Topic>,
    at: usize,
}

/// What is known of a partition beside its topic.
#[derive(Debug)]
pub struct PartitionState {
    pub(crate) route: Route,
    pub(crate) keys: PartitionKeys,
    /// The earliest moment (ms) for which a sweep was asked and which has not passed; 0: none.
    pub(crate) sweep_at: AtomicI64,
    /// The last lease found all that it wanted: the next one may as well.
    pub(crate) plenty: AtomicBool,
}

impl PartitionState {
    /// That of a partition of the topic `topic`.
    pub(super) fn new(keys: PartitionKeys, topic: TopicNumber, partition: PartitionNumber) -> Self {
        let route = Route { topic, partition };
        Self { route, keys, sweep_at: AtomicI64::new(0), plenty: AtomicBool::new(false) }
    }
}

impl Deref for Partition {
    type Target = PartitionState;

    fn deref(&self) -> &PartitionState {
        &self.topic.partitions[self.at]
    }
}

impl Partition {
    /// The only one of a topic.
    pub fn of(topic: Arc<Topic>) -> Self {
        Self { topic, at: 0 }
    }

    /// Tells partitions from each other while they are in use, whatever the topic's revision.
    pub(super) fn address(&self) -> usize {
        std::ptr::from_ref::<PartitionState>(self).addr()
    }
}
