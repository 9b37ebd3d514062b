//! What `make prove` prints: the table of durability and faults, the numbers alongside what was wanted,
//! and which promise caught which seeded bug.

use std::fmt::Write;
use std::time::Duration;

use crate::parts::Proof;
use crate::proof::bugs::{self, hunt};
use crate::proof::scenarios;
use crate::proof::stage::{Durability, Report, Tally};
use crate::proof::watch::PROMISED_MICROS;

/// One number that the proof is to reach.
struct Goal {
    what: &'static str,
    wanted: &'static str,
    reached: String,
    holds: bool,
}

fn sum<'a>(reports: impl Iterator<Item = &'a Report>) -> Tally {
    reports.fold(Tally::default(), |mut sum, report| {
        sum.add(&report.tally);
        sum
    })
}

fn goals(proof: &Proof) -> Vec<Goal> {
    let mut goals = Vec::new();
    let mut goal = |what, wanted, reached: String, holds| {
        goals.push(Goal { what, wanted, reached, holds });
    };
    if !proof.storm.is_empty() {
        let storm = sum(proof.storm.iter());
        goal(
            "messages under kills at `always`",
            "≥ 1,000,000",
            thousands(storm.published),
            storm.published >= 1_000_000,
        );
        goal(
            "instances killed meanwhile",
            "≥ 50",
            storm.instance_kills.to_string(),
            storm.instance_kills >= 50,
        );
        let kills = storm.redis_kills + storm.power_losses;
        let reached = format!("{} + {}", storm.redis_kills, storm.power_losses);
        goal("Redis killed + power lost meanwhile", "≥ 50", reached, kills >= 50);
        goal("of these messages lost", "0", storm.lost.to_string(), storm.lost == 0);
    }
    let calm = proof.calm.iter().find(|report| report.scenario == "calm");
    if let Some(Report { tally, .. }) = calm {
        let reached = format!("{} of {}", tally.early, thousands(tally.granted));
        goal(
            "granted early",
            "0 of 1,000,000",
            reached,
            tally.early == 0 && tally.granted >= 1_000_000,
        );
        let reached = format!("{} of {}", tally.duplicated, thousands(tally.published));
        let holds = tally.duplicated == 0 && tally.published >= 1_000_000;
        goal("duplicates without faults", "0 of 1,000,000", reached, holds);
    }
    let stale = proof.calm.iter().find(|report| report.scenario == "stale_tokens");
    if let Some(Report { tally, .. }) = stale {
        let reached = format!("{} of {}", tally.stale_accepted, thousands(tally.stale_tried));
        let holds = tally.stale_accepted == 0 && tally.stale_tried >= 10_000;
        goal("stale tokens accepted", "0 of 10,000", reached, holds);
    }
    if !proof.bugs.is_empty() {
        let caught = proof.bugs.iter().filter(|hunted| hunted.caught_by.is_some()).count();
        let reached = format!("{caught} of {}", proof.bugs.len());
        let is_whole = proof.bugs.len() == bugs::all().len();
        let wanted = if is_whole { "all of ≥ 22" } else { "all asked for" };
        let holds = caught == proof.bugs.len() && (caught >= 22 || !is_whole);
        goal("seeded bugs caught by name", wanted, reached, holds);
    }
    if !proof.calm.is_empty() || !proof.storm.is_empty() || !proof.faults.is_empty() {
        let longest = sum(proof.reports()).longest_script_us;
        let reached = format!("{:.1} ms", longest as f64 / 1e3);
        let promised = PROMISED_MICROS.unsigned_abs();
        goal("the longest script, of Redis's CPU", "≤ 5 ms", reached, longest <= promised);
        let broken = proof.broken().len();
        goal("violations in all runs", "0", broken.to_string(), broken == 0);
    }
    goals
}

/// What was wanted and not reached.
pub fn unreached(proof: &Proof) -> Vec<&'static str> {
    goals(proof).iter().filter(|goal| !goal.holds).map(|goal| goal.what).collect()
}

/// Everything, in Markdown as the guide has it.
pub fn shown(proof: &Proof, took: Duration) -> String {
    let mut text = String::new();
    let version = env!("CARGO_PKG_VERSION");
    let day = chrono::Utc::now().format("%Y-%m-%d");
    let minutes = took.as_secs().div_ceil(60);
    let _ = writeln!(text, "\ndueq {version}, {day}, {minutes} minutes\n");
    if !proof.faults.is_empty() {
        text += &faults(proof);
    }
    let goals = goals(proof);
    if !goals.is_empty() {
        text += "\n| number | wanted | reached | |\n|---|---|---|---|\n";
        for Goal { what, wanted, reached, holds } in &goals {
            let mark = if *holds { "✓" } else { "**not reached**" };
            let _ = writeln!(text, "| {what} | {wanted} | {reached} | {mark} |");
        }
    }
    if let Some(model) = &proof.model {
        let _ = writeln!(text, "\nmodel: {model}");
    }
    if let Some(http) = &proof.http {
        let (schema, wire) = (&http.schema, &http.wire);
        let _ = writeln!(
            text,
            "\nhttp: {} requests by schemathesis in {} walks, {} failures, memory {} → {} KiB at most; \
             {} connections of broken HTTP (seed {}), memory {} → {} KiB at most",
            thousands(schema.requests),
            schema.rounds,
            schema.failures.len(),
            schema.rss_before,
            schema.rss_peak,
            thousands(wire.connections),
            wire.seed,
            wire.rss_before,
            wire.rss_peak,
        );
    }
    if !proof.bugs.is_empty() {
        let _ = writeln!(text, "\n{}", hunt::table(&proof.bugs));
    }
    for violation in proof.broken().iter().take(20) {
        let _ = writeln!(text, "- {violation}");
    }
    for failure in &proof.failures {
        let _ = writeln!(text, "- {failure}");
    }
    text
}

/// Durability × fault: published, lost, duplicated.
fn faults(proof: &Proof) -> String {
    let mut text = String::from(
        "| fault | `everysec`: published | lost | duplicated | `always`: published | lost | duplicated | `replicated`: published | lost | duplicated |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for (name, described) in scenarios::FAULTS.iter().copied() {
        let all = [Durability::Everysec, Durability::Always, Durability::Replicated];
        let cells = all.map(|durability| {
            let of = |report: &&Report| report.scenario == name && report.durability == durability;
            let reports = || proof.faults.iter().filter(of);
            if reports().next().is_none() {
                return "– | – | –".to_owned();
            }
            let tally = sum(reports());
            format!("{} | {} | {}", thousands(tally.published), tally.lost, tally.duplicated)
        });
        let _ = writeln!(text, "| {described} | {} |", cells.join(" | "));
    }
    text
}

/// A number with its thousands apart.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
