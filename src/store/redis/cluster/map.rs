//! Which node serves which slot, as far as is known.

use super::{
    slots::{SLOTS, Slot, slot_of},
    view::{Address, View},
};
use crate::batch::{Job, Node};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// Slots between one turn and the next: slots that move do so together.
const TURN: usize = 997;

/// Every slot has a node, even where that is not there.
#[derive(Clone)]
pub(super) struct Map {
    nodes: BTreeMap<Address, Arc<Node>>,
    by_slot: Vec<Arc<Node>>,
}

impl Map {
    /// The map by a view; `before` has the slots that nobody serves.
    pub fn of_view(
        view: &View,
        nodes: BTreeMap<Address, Arc<Node>>,
        before: impl Fn(Slot) -> Arc<Node>,
    ) -> Self {
        let mut by_slot: Vec<Option<&Arc<Node>>> = vec![None; SLOTS.into()];
        for (address, ranges) in &view.primaries {
            for slot in ranges.iter().cloned().flatten() {
                by_slot[usize::from(slot)] = nodes.get(address);
            }
        }
        let by_slot = (0..).zip(by_slot);
        let by_slot = by_slot.map(|(slot, node)| node.cloned().unwrap_or_else(|| before(slot)));
        Self { by_slot: by_slot.collect(), nodes }
    }

    /// The same with another node for one slot, if it is known.
    pub fn with(&self, slot: Slot, owner: &Address) -> Self {
        let mut this = self.clone();
        if let Some(node) = self.nodes.get(owner) {
            this.by_slot[usize::from(slot)] = node.clone();
        }
        this
    }

    /// The same without some nodes, which serve nothing.
    pub fn without<'a>(mut self, addresses: impl Iterator<Item = &'a Address>) -> Self {
        addresses.for_each(|address| drop(self.nodes.remove(address)));
        self
    }

    /// Do both say the same?
    pub fn is_like(&self, other: &Self) -> bool {
        let pairs = self.by_slot.iter().zip(&other.by_slot);
        pairs.into_iter().all(|(one, other)| Arc::ptr_eq(one, other))
    }

    /// The node of a slot.
    pub fn of(&self, slot: Slot) -> &Arc<Node> {
        &self.by_slot[usize::from(slot)]
    }

    /// The node at an address.
    pub fn at(&self, address: &Address) -> Option<&Arc<Node>> {
        self.nodes.get(address)
    }

    /// All nodes and where they are.
    pub fn all(&self) -> &BTreeMap<Address, Arc<Node>> {
        &self.nodes
    }

    /// The first slot that a node serves, if any.
    pub fn first_slot(&self, node: &Arc<Node>) -> Option<Slot> {
        let at = self.by_slot.iter().position(|other| Arc::ptr_eq(other, node))?;
        Slot::try_from(at).ok()
    }

    /// One of the slots that a node serves, if any: another one for another `turn`.
    pub fn some_slot(&self, node: &Arc<Node>, turn: usize) -> Option<Slot> {
        let slots = (0..SLOTS).zip(&self.by_slot).filter(|(_, other)| Arc::ptr_eq(other, node));
        let slots: Vec<Slot> = slots.map(|(slot, _)| slot).collect();
        slots.get(turn.wrapping_mul(TURN) % slots.len().max(1)).copied()
    }

    /// All nodes, that of `key` first.
    pub fn nodes(&self, key: &str) -> Vec<Arc<Node>> {
        let home = self.of(slot_of(key.as_bytes()));
        let mut nodes: Vec<_> = self.nodes.values().cloned().collect();
        nodes.sort_by_key(|node| !Arc::ptr_eq(node, home));
        nodes
    }

    /// What goes to which node, in the order in which it came; what has no slot to that of `key`.
    pub fn divide(&self, jobs: Vec<Job>, key: &str) -> Vec<(Arc<Node>, Vec<Job>)> {
        let home = || slot_of(key.as_bytes());
        if let [job] = &jobs[..] {
            return vec![(self.of(job.slot().unwrap_or_else(home)).clone(), jobs)];
        }
        let mut parts: Vec<(Arc<Node>, Vec<Job>)> = Vec::new();
        let mut places: HashMap<*const Node, usize> = HashMap::new();
        for job in jobs {
            let node = self.of(job.slot().unwrap_or_else(home));
            let at = *places.entry(Arc::as_ptr(node)).or_insert(parts.len());
            if at == parts.len() {
                parts.push((node.clone(), Vec::new()));
            }
            parts[at].1.push(job);
        }
        parts
    }
}
