//! The violations as they are found, each with the message that it concerns.

use std::collections::{HashMap, HashSet};

use super::Violation;
use super::run::Run;
use super::story;

/// So many violations of one invariant come with their message's history.
const TOLD: usize = 50;

#[derive(Default)]
pub(super) struct Found {
    list: Vec<(Option<usize>, String)>,
}

impl Found {
    /// Notes one, that begins with its invariant's name: `I5 fencing: …`.
    pub fn say(&mut self, life: Option<usize>, what: String) {
        self.list.push((life, what));
    }

    /// How many begin with this.
    pub fn count(&self, invariant: &str) -> u64 {
        self.list.iter().filter(|(_, what)| what.starts_with(invariant)).count() as u64
    }

    /// All of them, with the histories of the messages that they concern.
    pub fn told(self, run: &Run) -> Vec<Violation> {
        let mut seen = HashSet::new();
        let mut all: Vec<_> = self.list;
        all.retain(|(life, what)| seen.insert((*life, what.clone())));
        let mut violations: Vec<(Option<usize>, Violation)> =
            all.into_iter().map(|(life, what)| (life, Violation::from(what))).collect();
        let mut counts: HashMap<String, usize> = HashMap::new();
        let mut wanted = HashSet::new();
        for (life, violation) in &mut violations {
            let count = counts.entry(violation.invariant.clone()).or_default();
            *count += 1;
            match life {
                Some(at) if *count <= TOLD => drop(wanted.insert(*at)),
                _ => *life = None,
            }
        }
        let stories = story::of(run, &wanted);
        let tell = |(life, mut violation): (Option<usize>, Violation)| {
            violation.life = life.and_then(|at| stories.get(&at).cloned()).unwrap_or_default();
            violation
        };
        violations.into_iter().map(tell).collect()
    }
}
