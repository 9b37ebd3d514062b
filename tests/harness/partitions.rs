//! The partitions of a topic: which one an id names, and where each lies. Worked out here as the contract has it
//! (`migrations-lua/README.md`), not as the server does.

use super::cluster::{Cluster, crc16, slot};
use std::collections::BTreeSet;

/// Characters of a tag's suffix, in their order.
const SUFFIX: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The partition that an id names: its 11th byte; 0 where it is none.
pub fn partition_of(id: &str) -> u8 {
    let digits = id.replace('-', "");
    digits.get(20..22).and_then(|byte| u8::from_str_radix(byte, 16).ok()).unwrap_or(0)
}

/// The partitions of these ids.
pub fn partitions_of(ids: &[String]) -> BTreeSet<u8> {
    ids.iter().map(|id| partition_of(id)).collect()
}

/// The slot of everything that a partition of a topic has: those of a topic are evenly apart.
pub fn slot_of_partition(topic: &str, partition: u8) -> u16 {
    (slot(&format!("{{{topic}:0}}")) + 64 * u16::from(partition.reverse_bits())) % 16_384
}

/// The hash tag of a partition's keys, without its braces: the first that leads to its slot.
pub fn tag_of_partition(topic: &str, partition: u8) -> String {
    if partition == 0 {
        return format!("{topic}:0");
    }
    let (wanted, head) = (slot_of_partition(topic, partition), format!("{topic}:{partition}:"));
    let so_far = crc16(0, head.as_bytes());
    for a in SUFFIX {
        for b in SUFFIX {
            let two = crc16(so_far, &[*a, *b]);
            if let Some(c) = SUFFIX.iter().find(|c| crc16(two, &[**c]) % 16_384 == wanted) {
                return head + std::str::from_utf8(&[*a, *b, *c]).expect("ASCII");
            }
        }
    }
    unreachable!("every slot has a suffix")
}

impl Cluster {
    /// Of the first so many partitions of a topic those that this node has.
    pub async fn partitions_on(&self, index: usize, topic: &str, partitions: u16) -> BTreeSet<u8> {
        let slots = self.slots_of(index).await;
        let here = |slot: u16| slots.iter().any(|range| range.contains(&slot));
        let all = (0..partitions).map(|p| p as u8);
        all.filter(|p| here(slot_of_partition(topic, *p))).collect()
    }
}
