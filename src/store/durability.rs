//! Which topics' answers wait for replicas, and whether there are any. The waiting is done by the fences: `batch/fence.rs`.

use super::{
    Store,
    batch::{Command, Confirm, Lanes, Node},
    layout::tag,
    registry::Topic,
    reply::word,
};
use crate::{
    error::Error,
    model::{Durability, PartitionNumber, TopicName, TopicSettings},
};
use std::sync::Arc;

impl TopicSettings {
    /// Whether answers about a topic that has them wait for replicas.
    pub(super) fn confirm(&self) -> Confirm {
        match self.durability {
            Durability::Memory => Confirm::Never,
            Durability::Replicated => Confirm::Always,
        }
    }

    /// The same of a change of the registry, which all instances go by.
    pub(super) fn confirm_change(&self) -> Confirm {
        self.confirm().max(Confirm::WithReplicas)
    }
}

impl Topic {
    /// Whether answers about it wait for replicas.
    pub(super) fn confirm(&self) -> Confirm {
        self.settings.confirm()
    }
}

impl Store {
    /// May a topic of these settings take the place of one that has those `before`? Where answers are to wait for replicas from
    /// now on, each of its servers must have one, even if that is away.
    ///
    /// Errors: `DurabilityUnavailable`.
    pub(super) async fn check_replicas(
        &self,
        name: &TopicName,
        settings: &TopicSettings,
        before: Option<&TopicSettings>,
    ) -> Result<(), Error> {
        let is_memory = |settings: &TopicSettings| settings.durability == Durability::Memory;
        if is_memory(settings) || before.is_some_and(|before| !is_memory(before)) {
            return Ok(());
        }
        let node = |p| self.lanes.node_of(&format!("{{{}}}", tag(name, PartitionNumber(p as u8))));
        let nodes: Vec<_> = (0..settings.partitions).map(node).collect();
        let has_some = |node: &Arc<Node>| node.backend.can_confirm();
        if !nodes.iter().all(has_some) {
            self.lanes.look_at_replicas().await;
        }
        if nodes.iter().all(has_some) { Ok(()) } else { Err(Error::DurabilityUnavailable) }
    }
}

impl Lanes {
    /// Asks whoever knows how many replicas each server has.
    async fn look_at_replicas(&self) {
        if let Some(cluster) = self.cluster() {
            return cluster.look_at_replicas().await;
        }
        let node = self.home();
        if let Some(sentinels) = node.backend.way().sentinels() {
            return sentinels.look_at_replicas().await;
        }
        let info = node.command(Command::new("INFO").arg("replication")).await;
        info.iter().filter_map(word).for_each(|info| node.backend.look_at_replication(info));
    }
}
