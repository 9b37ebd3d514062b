//! Where the partitions of a topic lie in a Redis Cluster. Partition 0 has the tag `{orders:0}`, which hashes to some slot.
//! The others have a suffix that puts them into slots at even distances from it, so that the nodes of a cluster, each with
//! a range of slots, get about as many of them. Partition p lies `64 × bitreverse8(p)` slots behind partition 0: the first
//! 2, 4, 8 … partitions are even among themselves, and stay where they are when there are more.

use super::cluster::{self, crc16};
use dueq_model::{PartitionNumber, TopicName};
use std::sync::LazyLock;

/// Slots of a Redis Cluster.
const SLOTS: usize = cluster::SLOTS as usize;
/// Slots between the first 256 partitions.
const DISTANCE: usize = SLOTS / 256;
const SUFFIX_CHARS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The first suffix of each slot: one whose own CRC16 is in that slot.
static SUFFIXES: LazyLock<Vec<[u8; 3]>> = LazyLock::new(|| {
    let mut suffixes = vec![[0; 3]; SLOTS];
    // From the last to the first, which so stays.
    for a in SUFFIX_CHARS.iter().rev() {
        for b in SUFFIX_CHARS.iter().rev() {
            for c in SUFFIX_CHARS.iter().rev() {
                suffixes[slot(&[*a, *b, *c])] = [*a, *b, *c];
            }
        }
    }
    suffixes
});

/// The slot of a hash tag.
fn slot(tag: &[u8]) -> usize {
    usize::from(crc16(tag)) % SLOTS
}

/// The hash tag of a partition, without its braces.
pub(super) fn tag(topic: &TopicName, partition: PartitionNumber) -> String {
    let first = format!("{topic}:0");
    if partition.0 == 0 {
        return first;
    }
    let offset = DISTANCE * usize::from(partition.0.reverse_bits());
    let wanted = (slot(first.as_bytes()) + offset) % SLOTS;
    let head = format!("{topic}:{}:", partition.0);
    // A CRC without initial value is linear: the CRC of a text is that of the text with zeros at its end, XOR that of
    // the end alone.
    let zeros = slot(format!("{head}\0\0\0").as_bytes());
    let suffix = SUFFIXES[zeros ^ wanted].map(char::from);
    suffix.iter().fold(head, |tag, c| tag + c.encode_utf8(&mut [0; 4]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn slots_are_those_of_redis() {
        // CLUSTER KEYSLOT
        for (tag, is) in [("", 0), ("123456789", 12_739), ("foo", 12_182), ("orders:0", 8_578)] {
            assert_eq!(slot(tag.as_bytes()), is, "{tag}");
        }
    }

    #[test]
    fn every_slot_has_a_suffix() {
        assert!(SUFFIXES.iter().enumerate().all(|(at, suffix)| slot(suffix) == at));
        assert!(SUFFIXES.iter().all(|suffix| suffix.iter().all(u8::is_ascii_alphanumeric)));
    }

    #[test]
    fn the_partitions_of_any_topic_are_even_for_every_power_of_two() {
        let names = (0..200).map(|n| format!("t{n}.{}", "x".repeat(n % 120)));
        for name in names.chain(["orders".to_owned(), "_callbacks".to_owned(), "x".repeat(128)]) {
            let topic = TopicName::parse(&name).unwrap();
            for many in (0..=8).map(|power| 1 << power) {
                let slot_of = |p| slot(tag(&topic, PartitionNumber(p as u8)).as_bytes());
                let slots: BTreeSet<_> = (0..many).map(slot_of).collect();
                assert_eq!(slots.len(), many, "{name}");
                let step = SLOTS / many;
                let first = slot_of(0);
                assert!(
                    slots.iter().all(|slot| (slot + SLOTS - first).is_multiple_of(step)),
                    "{name} {many}"
                );
            }
        }
    }

    #[test]
    fn tags_never_change() {
        let topic = TopicName::parse("orders").unwrap();
        let tags = [0, 1, 2, 255].map(|p| tag(&topic, PartitionNumber(p)));
        assert_eq!(tags, ["orders:0", "orders:1:03u", "orders:2:2ya", "orders:255:65o"]);
    }
}
