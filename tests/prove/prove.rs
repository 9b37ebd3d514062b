//! `make prove`: the long form of the proof, on a release build. It runs every scenario of
//! `tests/proof` for as long as its numbers need, hunts the seeded bugs, and prints what the guide
//! shows. Exit code 0 only when every promise was kept, every number reached and every bug caught.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../harness/mod.rs"]
mod harness;
mod parts;
#[path = "../proof/mod.rs"]
mod proof;
mod table;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::parts::{NUMBERS, Proof};
use crate::proof::scenarios::FAULTS;

/// What can be asked for by name, besides each scenario of `numbers` and each of the faults; all of it, in this order, where
/// nothing is.
const PARTS: [&str; 8] =
    ["numbers", "storm", "faults", "upgrade", "model", "bugs", "http", "versions"];

/// Before a part of the names of the bugs that are asked for.
const BUGS_NAMED: &str = "bugs:";

fn main() -> ExitCode {
    // `cargo bench` adds `--bench`; what does not begin with a dash is ours.
    let asked: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let number = |word: &str| NUMBERS.iter().any(|(name, _)| *name == word);
    let fault = |word: &str| FAULTS.iter().any(|(name, _)| *name == word);
    let known = |word: &&String| {
        let bugs = word.starts_with(BUGS_NAMED);
        bugs || PARTS.contains(&word.as_str()) || number(word) || fault(word)
    };
    if let Some(unknown) = asked.iter().find(|word| !known(word)) {
        eprintln!("{unknown} is no part ({}) and no fault of the table", PARTS.join(", "));
        return ExitCode::from(2);
    }
    let wanted = |part: &str| asked.is_empty() || asked.iter().any(|word| word == part);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let started = Instant::now();
    let proof = runtime.block_on(async {
        let mut proof = Proof::new(started);
        // What is measured wants the machine for itself; the rest runs alongside the fuzzing of HTTP.
        proof.numbers(|name| wanted("numbers") || asked.iter().any(|word| word == name)).await;
        let http = wanted("http").then(|| tokio::spawn(parts::http()));
        if wanted("storm") {
            proof.storm().await;
        }
        proof.faults(|name| wanted("faults") || asked.iter().any(|word| word == name)).await;
        if wanted("upgrade") {
            proof.upgrade().await;
        }
        if wanted("model") {
            proof.model().await;
        }
        let named = asked.iter().filter_map(|word| word.strip_prefix(BUGS_NAMED));
        for name in named.chain(wanted("bugs").then_some("")) {
            proof.bugs(name).await;
        }
        if let Some(http) = http {
            proof.take_http(http.await);
        }
        if wanted("versions") {
            proof.versions().await;
        }
        proof
    });
    runtime.shutdown_timeout(Duration::from_secs(5));
    println!("{}", proof.shown());
    if proof.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
