//! Hunts one bug: runs its scenario on a build that has the bug on, until the checker names a
//! promise that the bug breaks, or the time is over.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt};
use tokio::time::timeout;

use super::{Bug, all, patches};
use crate::harness::{SEEDED, Seeded};
use crate::proof::stage::{Durability, Setting};
use crate::proof::watch::watched;

/// What came of a hunt.
#[derive(Clone, Debug)]
pub struct Hunted {
    pub bug: &'static str,
    pub does: &'static str,
    /// The promise that the checker said was broken, of those that the bug breaks.
    pub caught_by: Option<String>,
    pub after: Duration,
    pub scenario: &'static str,
    /// What the checker said; where the bug got away, what it said last instead.
    pub sentence: String,
}

/// Hunts this bug, in the build that the environment variable `DUEQ_SEEDED_BINARY` names.
///
/// # Panics
/// Where there is no such variable.
pub async fn hunt(bug: &Bug, limit: Duration) -> Hunted {
    SEEDED.get_or_init(|| {
        let binary = std::env::var_os("DUEQ_SEEDED_BINARY").map(PathBuf::from);
        let binary = binary.expect("DUEQ_SEEDED_BINARY: cargo build --features seeded-bugs");
        Seeded { binary, patches: patches::written() }
    });
    let started = Instant::now();
    let mut sentence = String::from("nothing was wrong");
    let (name, does, scenario) = (bug.name, bug.does, bug.scenario.name);
    loop {
        let left = limit.saturating_sub(started.elapsed());
        let setting = Setting { bug: Some(name), ..Setting::short(Durability::Memory, 1) };
        // A task of its own: what the harness itself finds wrong ends it, and is no catch.
        let mut run = tokio::spawn(watched((bug.scenario.run)(setting)));
        match timeout(left, &mut run).await {
            Ok(Ok(report)) => {
                let expected = |invariant: &str| bug.breaks.contains(&invariant);
                let named = report.violations.iter().find(|found| expected(&found.invariant));
                if let Some(found) = named {
                    let caught_by = Some(found.invariant.clone());
                    let (after, sentence) = (started.elapsed(), found.what.clone());
                    return Hunted { bug: name, does, caught_by, after, scenario, sentence };
                }
                if let Some(other) = report.violations.first() {
                    sentence = format!("only: {}", other.what);
                }
            }
            Ok(Err(failure)) => sentence = format!("the scenario failed: {failure}"),
            Err(_) => run.abort(),
        }
        if started.elapsed() >= limit {
            let (caught_by, after) = (None, started.elapsed());
            return Hunted { bug: name, does, caught_by, after, scenario, sentence };
        }
    }
}

/// Hunts all bugs whose name has this in it, so many at a time; what came of each, in the order of
/// the list.
pub async fn hunt_all(part: &str, limit: Duration, at_once: usize) -> Vec<Hunted> {
    let bugs = all().into_iter().filter(|bug| bug.name.contains(part));
    let one = |bug: Bug| async move {
        let hunted = hunt(&bug, limit).await;
        let caught_by = hunted.caught_by.as_deref().unwrap_or("nothing");
        let (name, after) = (hunted.bug, hunted.after.as_secs_f64());
        eprintln!("{name}: {caught_by} after {after:.1} s: {}", hunted.sentence);
        hunted
    };
    stream::iter(bugs).map(one).buffered(at_once).collect().await
}

/// The same scenario without the bug: what the checker says then, which should be nothing.
pub async fn control(bug: &Bug) -> Vec<String> {
    let setting = Setting::short(Durability::Memory, 1);
    match tokio::spawn(watched((bug.scenario.run)(setting))).await {
        Ok(report) => report.violations.iter().map(ToString::to_string).collect(),
        Err(failure) => vec![format!("the scenario failed: {failure}")],
    }
}

/// The table of all hunts, as Markdown.
pub fn table(hunts: &[Hunted]) -> String {
    let mut table =
        "| bug | what it does | caught by | scenario | after |\n|---|---|---|---|---|\n".to_owned();
    for hunted in hunts {
        let Hunted { bug, does, scenario, after, .. } = hunted;
        let caught_by = hunted.caught_by.as_deref().unwrap_or("**nothing**");
        let seconds = after.as_secs_f64();
        let _ = writeln!(table, "| {bug} | {does} | {caught_by} | `{scenario}` | {seconds:.1} s |");
    }
    table
}
