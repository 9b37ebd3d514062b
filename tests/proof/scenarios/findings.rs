//! What a scenario finds out while it runs, until it is a [`Report`].

use std::fmt::Display;

use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::harness::{Client, Redis};
use crate::proof::audit::{Audit, conserved};
use crate::proof::checker::Violation;
use crate::proof::stage::{Report, Setting, Tally};

/// Stands in an invariant's place where a fault did not bite, so that a clean run would prove nothing.
pub const BITE: &str = "the fault";
/// Stands there for a promise of `api.md` that has no number.
pub const CONTRACT: &str = "the contract";

/// A report in the making.
pub struct Findings {
    report: Report,
}

impl Findings {
    /// Of this scenario; prints the seed.
    pub fn new(scenario: &'static str, setting: &Setting) -> Findings {
        let told = std::env::var("DUEQ_TEST_SEED").ok().and_then(|text| text.parse().ok());
        let seed = setting.seed.or(told).unwrap_or_else(rand::random);
        eprintln!("{scenario}: DUEQ_TEST_SEED={seed}");
        let (durability, tally) = (setting.durability, Tally::default());
        Findings { report: Report { scenario, durability, seed, tally, violations: Vec::new() } }
    }

    /// Random choices that follow from the seed and this number.
    pub fn random(&self, number: u64) -> StdRng {
        StdRng::seed_from_u64(self.report.seed.wrapping_add(number))
    }

    /// Its numbers so far.
    pub fn tally(&mut self) -> &mut Tally {
        &mut self.report.tally
    }

    /// Notes a broken promise unless it holds.
    pub fn demand(&mut self, holds: bool, invariant: &str, what: impl FnOnce() -> String) {
        if !holds {
            self.broken(invariant, what());
        }
    }

    /// Notes a broken promise.
    pub fn broken(&mut self, invariant: &str, what: impl Display) {
        self.broken_in(invariant, what, Vec::new());
    }

    /// Notes a promise that was broken in the life of one message.
    pub fn broken_in(&mut self, invariant: &str, what: impl Display, life: Vec<String>) {
        self.report.violations.push(Violation { life, ..Violation::of(invariant, what) });
    }

    /// Prints something that was measured.
    pub fn tell(&self, what: impl Display) {
        eprintln!("{}: {what}", self.report.scenario);
    }

    /// Adds what another report of the same run says, as that of a load.
    pub fn add(&mut self, other: Report) {
        self.report.tally.add(&other.tally);
        self.report.violations.extend(other.violations);
    }

    /// I8 and I9 of a topic: what lies in Redis, and what getTopic says.
    pub async fn audit(&mut self, redis: &Redis, client: &Client, topic: &str) {
        let audit = Audit::read(&mut redis.connection().await, topic).await.expect("an audit");
        let answer = client.topic(topic).await.expect(200).json();
        let found = audit.violations().into_iter().chain(conserved(&answer));
        self.report.violations.extend(found.map(Violation::from));
    }

    /// The report.
    pub fn report(self) -> Report {
        eprintln!("{}: {:?}", self.report.scenario, self.report.tally);
        self.report
    }
}
