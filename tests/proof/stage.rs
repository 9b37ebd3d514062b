//! What a scenario is given and what it gives back.

use std::fmt;

use serde_json::{Value, json};

use super::checker::Violation;
use super::history::Ms;

/// What Redis keeps on disk, as `--fsync` says it; `Memory` for a Redis that keeps nothing. `Replicated` is `Everysec` with
/// topics whose answers wait for the replicas.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Durability {
    Memory,
    Everysec,
    Always,
    Replicated,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Durability::Memory => "memory",
            Durability::Everysec => "everysec",
            Durability::Always => "always",
            Durability::Replicated => "replicated",
        })
    }
}

/// How a scenario is to be run.
#[derive(Clone, Debug)]
pub struct Setting {
    pub durability: Durability,
    /// How often the fault is caused.
    pub rounds: usize,
    /// As many messages as the load publishes at least, however long that takes; 0 for a moderate
    /// load for as long as the faults take.
    pub messages: usize,
    /// What every random choice comes from; a new one where it is absent.
    pub seed: Option<u64>,
    /// The seeded bug that the instances run with.
    pub bug: Option<&'static str>,
}

impl Setting {
    /// A short run, as `make test` makes it.
    pub fn short(durability: Durability, rounds: usize) -> Setting {
        Setting { durability, rounds, messages: 0, seed: None, bug: None }
    }

    /// Do answers wait for replicas?
    pub fn replicated(&self) -> bool {
        self.durability == Durability::Replicated
    }

    /// Before a failover, so much may be lost where a replica is this far behind, ms.
    pub fn lost(&self, lag: Ms) -> Ms {
        if self.replicated() { 0 } else { lag }
    }

    /// The configuration of a topic of the load, with this alongside.
    pub fn topic(&self, mut more: Value) -> Value {
        if self.replicated() {
            more["durability"] = json!("replicated");
        }
        more
    }
}

/// What a run counted; sums over runs make the table of the guide.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Publishes answered 2xx that made a message.
    pub published: u64,
    /// Messages granted at least once, and grants.
    pub granted: u64,
    pub grants: u64,
    /// Published, and neither there at the end nor ended by anybody.
    pub lost: u64,
    /// Stored twice, or granted again after an ack that was answered ok.
    pub duplicated: u64,
    /// Granted before they were due.
    pub early: u64,
    /// Requests with a token that was over, and how many of them were answered ok.
    pub stale_tried: u64,
    pub stale_accepted: u64,
    /// Requests whose outcome nobody knows.
    pub unknown: u64,
    pub instance_kills: u64,
    pub redis_kills: u64,
    pub power_losses: u64,
    /// Redis's CPU that the longest script took, in µs; 0 where none was worth a note.
    pub longest_script_us: u64,
}

impl Tally {
    /// Adds another run's.
    pub fn add(&mut self, other: &Tally) {
        self.published += other.published;
        self.granted += other.granted;
        self.grants += other.grants;
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.early += other.early;
        self.stale_tried += other.stale_tried;
        self.stale_accepted += other.stale_accepted;
        self.unknown += other.unknown;
        self.instance_kills += other.instance_kills;
        self.redis_kills += other.redis_kills;
        self.power_losses += other.power_losses;
        self.longest_script_us = self.longest_script_us.max(other.longest_script_us);
    }
}

/// What came of a scenario.
#[derive(Clone, Debug)]
pub struct Report {
    pub scenario: &'static str,
    pub durability: Durability,
    pub seed: u64,
    pub tally: Tally,
    pub violations: Vec<Violation>,
}

impl Report {
    /// Demands that every promise was kept.
    ///
    /// # Panics
    /// When one was not, with each violation, the seed, and the line that runs it again.
    #[track_caller]
    pub fn expect_clean(&self) {
        let shown: String = self.violations.iter().take(20).map(|v| format!("- {v}\n")).collect();
        assert!(
            self.violations.is_empty(),
            "{} violations in {} ({}), seed {}; again: DUEQ_TEST_SEED={} cargo test --test faults {}\n{shown}",
            self.violations.len(),
            self.scenario,
            self.durability,
            self.seed,
            self.seed,
            self.scenario,
        );
    }
}
