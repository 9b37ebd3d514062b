//! Sets of a topic's partitions: those that one server has.

use crate::harness::partition_of;

/// Some of a topic's partitions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Partitions([u64; 4]);

impl Partitions {
    /// All that there can be.
    pub const ALL: Partitions = Partitions([u64::MAX; 4]);

    /// The one that has this message.
    pub fn of(id: &str) -> Partitions {
        [partition_of(id)].into_iter().collect()
    }

    /// Is any of them among those others?
    pub fn touch(self, other: Partitions) -> bool {
        self.0.iter().zip(other.0).any(|(some, others)| some & others != 0)
    }
}

impl FromIterator<u8> for Partitions {
    fn from_iter<T: IntoIterator<Item = u8>>(partitions: T) -> Partitions {
        let mut all = [0; 4];
        partitions.into_iter().for_each(|p| all[usize::from(p) / 64] |= 1 << (p % 64));
        Partitions(all)
    }
}
