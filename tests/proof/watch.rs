//! What every run is held against alongside its record: no script holds Redis for longer than was promised, no instance
//! panics or ends by itself, none of their background parts ends, and nothing only grows.

use super::bugs::patches;
use super::checker::Violation;
use super::stage::Report;
use crate::harness::{self, Script, Sights};

/// The promise (I12): the most of its CPU, in µs, for which one script may hold Redis.
pub const PROMISED_MICROS: i64 = 5_000;
/// What a run may take: alongside others, which share caches and cores, the same script has cost twice as much. What the watch
/// is for costs tens of milliseconds. `make prove` holds the longest script of all against the promise itself.
const ALLOWED_MICROS: i64 = PROMISED_MICROS * 3;

/// Runs a scenario under watch.
pub async fn watched(run: impl Future<Output = Report>) -> Report {
    let (mut report, sights) = harness::watched(run).await;
    let Sights { scripts, found, used } = sights;
    let name = report.scenario;
    used.iter().for_each(|used| eprintln!("{name}: {used}"));
    if let Some(longest) = scripts.first() {
        eprintln!("{name}: the longest of {} slow scripts: {}", scripts.len(), named(longest));
        report.tally.longest_script_us = longest.micros.unsigned_abs();
    }
    let long = scripts.iter().filter(|script| script.micros > ALLOWED_MICROS).take(5);
    let long = long.map(|script| format!("I12 liveness: a script held Redis: {}", named(script)));
    report.violations.extend(long.chain(found).map(Violation::from));
    report
}

/// The same with the script's name.
fn named(script: &Script) -> String {
    let name = patches::name_of(&script.sha);
    format!("{}: {script}", name.as_deref().unwrap_or("an unknown script"))
}
