//! `make bench-sdks`: what a worker costs in each language, beside what that language's own HTTP
//! client reaches on `/healthz` with as many connections. Languages take turns, each on a release
//! server of its own; figures are medians of the rounds, shares medians of the rounds' own.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../harness/mod.rs"]
mod harness;
mod program;

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::*;
use crate::program::Program;

const LANGUAGES: [&str; 4] = ["python", "typescript", "go", "java"];
const ROUNDS: usize = 3;
const CONNECTIONS: &str = "64";
/// How long the bare client runs, and about how long a worker should.
const SECONDS: f64 = 4.0;
/// Messages published one at a time for the lateness, and the time between two.
const LATE: usize = 400;
const GAP: Duration = Duration::from_millis(15);

/// One round of one language.
struct Round {
    /// Requests a second of the bare client on `/healthz`.
    bare: f64,
    /// Messages a second, leased singly.
    singly: f64,
    /// Messages a second by 50.
    by_fifty: f64,
    /// From due to the handler's first line, ms: median, 99th percentile, the most.
    late: [f64; 3],
}

#[tokio::main]
async fn main() {
    // `cargo bench` adds `--bench`; what does not begin with a dash is a language.
    let asked: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let languages: Vec<&str> = LANGUAGES
        .into_iter()
        .filter(|language| asked.is_empty() || asked.iter().any(|word| word == language))
        .collect();
    let mut rounds: Vec<Vec<Round>> = languages.iter().map(|_| Vec::new()).collect();
    for number in 1..=ROUNDS {
        for (language, rounds) in languages.iter().zip(&mut rounds) {
            eprintln!("round {number} of {ROUNDS}: {language}");
            rounds.push(round(language).await);
        }
    }
    println!(
        "A worker with an empty handler, concurrency {CONNECTIONS}; its HTTP client on /healthz\n"
    );
    println!(
        "| language | /healthz per s | singly per s | of /healthz | by 50 per s | of /healthz | \
         late p50 ms | p99 ms | max ms |\n|---|---|---|---|---|---|---|---|---|"
    );
    for (language, rounds) in languages.iter().zip(&rounds) {
        let of = |value: &dyn Fn(&Round) -> f64| median(rounds.iter().map(value).collect());
        println!(
            "| {language} | {:.0} | {:.0} | {:.0} % | {:.0} | {:.1} × | {:.1} | {:.1} | {:.1} |",
            of(&|round| round.bare),
            of(&|round| round.singly),
            of(&|round| 100.0 * round.singly / round.bare),
            of(&|round| round.by_fifty),
            of(&|round| round.by_fifty / round.bare),
            of(&|round| round.late[0]),
            of(&|round| round.late[1]),
            of(&|round| round.late[2]),
        );
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

async fn round(language: &str) -> Round {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    let (client, server) = (dueq.client(), dueq.url());
    let seconds = SECONDS.to_string();
    let words = ["bench-healthz", "--connections", CONNECTIONS, "--seconds", &seconds];
    let bare = number_of(&result(language, &server, &words).await, "per_s");
    let singly = drained(language, &client, &server, "1", (bare * SECONDS * 0.6) as usize).await;
    let by_fifty = drained(language, &client, &server, "50", (bare * SECONDS * 4.0) as usize).await;
    Round { bare, singly, by_fifty, late: lateness(language, &client, &server).await }
}

/// Messages a second that a worker handles of as many as are ready.
async fn drained(
    language: &str,
    client: &Client,
    server: &str,
    prefetch: &str,
    messages: usize,
) -> f64 {
    let topic = topic("drained");
    let payload = "x".repeat(200);
    let batch: Vec<Value> = (0..messages).map(|_| json!({"payload": payload})).collect();
    client.fill(&topic, &batch).await;
    let messages = messages.to_string();
    let words = ["--topic", &topic, "--concurrency", CONNECTIONS, "--prefetch", prefetch];
    let words: Vec<&str> =
        ["bench-work"].into_iter().chain(words).chain(["--messages", &messages]).collect();
    number_of(&result(language, server, &words).await, "per_s")
}

/// From due to the handler's first line, one message at a time.
async fn lateness(language: &str, client: &Client, server: &str) -> [f64; 3] {
    let topic = topic("late");
    let messages = LATE.to_string();
    let words = ["bench-late", "--topic", &topic, "--messages", &messages];
    let mut program = Program::start(language, server, &words);
    // It leases from a topic that is not there yet, so that nothing tells when it waits; what is
    // late before that is a start's, not a message's.
    tokio::time::sleep(Duration::from_secs(3)).await;
    for _ in 0..LATE {
        client.published(&topic, json!({"payload": 1, "delay_ms": 30})).await;
        tokio::time::sleep(GAP).await;
    }
    let result = last(&program.finished().await);
    ["p50_ms", "p99_ms", "max_ms"].map(|name| number_of(&result, name))
}

async fn result(language: &str, server: &str, words: &[&str]) -> Value {
    last(&Program::start(language, server, words).finished().await)
}

fn last(lines: &[String]) -> Value {
    let line = lines.last().expect("a result");
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

fn number_of(result: &Value, name: &str) -> f64 {
    result[name].as_f64().unwrap_or_else(|| panic!("no {name} in {result}"))
}
