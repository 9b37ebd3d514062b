//! Which topics' answers wait for replicas, and whether there are any. The waiting is done by the fences: `batch/fence.rs`.

use super::{
    Store,
    batch::{Command, Confirm, Lanes, Node},
    layout::tag,
    registry::Topic,
    reply::word,
};
use dueq_model::{Durability, PartitionNumber, TopicName, TopicSettings, error::Error};
use parking_lot::Mutex;
use std::{
    str::FromStr,
    sync::Arc,
    time::{Duration, Instant},
};

/// `--replicas` names no more than this.
const MOST_REPLICAS: usize = 100;
/// A replica that nobody lists any more counts for this much longer: the server that lists replicas may leave one out for a moment.
const FORGET_AFTER: Duration = Duration::from_secs(15);

/// How many replicas have to confirm what is answered about a topic of `durability` `replicated`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replicas {
    /// All that are known.
    All,
    /// So many that they and their primary are more than half of all copies, or half of the replicas.
    #[default]
    Majority,
    /// This many.
    Number(usize),
}

impl Replicas {
    /// Of so many that are known; at least one.
    pub(super) fn of(self, known: usize) -> usize {
        let wanted = match self {
            Self::All => known,
            Self::Majority => known.div_ceil(2),
            Self::Number(number) => number,
        };
        wanted.max(1)
    }
}

impl FromStr for Replicas {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = || text.parse().ok().filter(|number| (1..=MOST_REPLICAS).contains(number));
        match text {
            "all" => Ok(Self::All),
            "majority" => Ok(Self::Majority),
            _ => number().map(Self::Number).ok_or_else(|| {
                format!("expected all, majority or a number from 1 to {MOST_REPLICAS}")
            }),
        }
    }
}

/// How many replicas are listed for a primary.
#[derive(Default)]
pub(super) struct Listed(Mutex<Count>);

#[derive(Default)]
struct Count {
    known: usize,
    /// Since when fewer are listed, and the most since then.
    fewer: Option<(Instant, usize)>,
}

impl Listed {
    pub fn count(&self) -> usize {
        self.0.lock().known
    }

    /// There are at least so many.
    pub fn raise(&self, listed: usize) {
        let mut count = self.0.lock();
        count.known = count.known.max(listed);
    }

    /// So many are listed now.
    pub fn note(&self, listed: usize) {
        self.note_at(listed, Instant::now());
    }

    fn note_at(&self, listed: usize, now: Instant) {
        let mut count = self.0.lock();
        let fewer = count.fewer.map_or((now, listed), |(since, most)| (since, most.max(listed)));
        count.fewer = Some(fewer).filter(|_| listed < count.known);
        if listed >= count.known || now.duration_since(fewer.0) >= FORGET_AFTER {
            count.known = fewer.1.max(listed);
            count.fewer = None;
        }
    }
}

impl Confirm {
    /// Whether answers about a topic that has these settings wait for replicas.
    pub(super) fn of(settings: &TopicSettings) -> Self {
        match settings.durability {
            Durability::Memory => Self::Never,
            Durability::Replicated => Self::Always,
        }
    }

    /// The same of a change of the registry, which all instances go by. That of a topic that promises nothing does not depend
    /// on replicas, but is known to them wherever they confirm at once.
    pub(super) fn of_change(settings: &TopicSettings) -> Self {
        Self::of(settings).max(Self::Attempt)
    }
}

impl Topic {
    /// Whether answers about it wait for replicas.
    pub(super) fn confirm(&self) -> Confirm {
        Confirm::of(&self.settings)
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
    /// Asks how many replicas each server has.
    async fn look_at_replicas(&self) {
        if let Some(cluster) = self.cluster() {
            return cluster.look_at_replicas().await;
        }
        let node = self.home();
        if let Some(sentinels) = node.backend.source().sentinels() {
            return sentinels.look_at_replicas().await;
        }
        let info = node.command(Command::new("INFO").arg("replication")).await;
        info.iter().filter_map(word).for_each(|info| node.backend.look_at_replication(info));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_majority_is_counted_with_the_primary() {
        let of = |text: &str| {
            (0..6).map(|known| text.parse::<Replicas>().unwrap().of(known)).collect::<Vec<_>>()
        };
        assert_eq!(of("majority"), [1, 1, 1, 2, 2, 3]);
        assert_eq!(of("all"), [1, 1, 2, 3, 4, 5]);
        assert_eq!(of("2"), [2; 6]);
        for wrong in ["", "0", "-1", "101", "half", "ALL", "1.5", " 1"] {
            assert!(wrong.parse::<Replicas>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_replica_that_is_listed_no_more_is_forgotten_after_a_while() {
        let (listed, begin) = (Listed::default(), Instant::now());
        let at = |s: u64, number| {
            listed.note_at(number, begin + Duration::from_secs(s));
            listed.count()
        };
        assert_eq!((at(0, 2), at(1, 0), at(2, 2)), (2, 2, 2), "left out for a moment");
        assert_eq!(
            (at(10, 0), at(20, 1), at(24, 0), at(25, 0)),
            (2, 2, 2, 1),
            "the most meanwhile"
        );
        assert_eq!((at(26, 3), at(60, 0), at(90, 0)), (3, 3, 0));
    }
}
