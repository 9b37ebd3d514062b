//! `make bench-sdks`: how many messages a second a worker handles in each language, beside `dueq bench`, which is as fast as
//! one process with as many connections gets, and how late it gets them. Languages take turns, each on a release server of
//! its own. Figures are medians of the rounds, and shares are medians of the rounds' own.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../harness/mod.rs"]
mod harness;
mod program;

use std::{path::Path, time::Duration};

use serde_json::{Value, json};

use crate::harness::*;
use crate::program::Program;

const LANGUAGES: [&str; 4] = ["python", "typescript", "go", "java"];
const ROUNDS: usize = 3;
const CONNECTIONS: usize = 64;
/// How long each part of `dueq bench` runs, and about how long a worker should.
const SECONDS: u64 = 4;
/// Messages published one at a time for the lateness, and the time between two.
const LATE: usize = 400;
const GAP: Duration = Duration::from_millis(15);

/// One round of one language.
struct Round {
    singly: Compared,
    by_fifty: Compared,
    /// From due to the handler's first line, ms: median, 99th percentile, the most.
    late: [f64; 3],
}

/// A worker beside `dueq bench`, messages a second.
struct Compared {
    worker: f64,
    bench: f64,
    /// Processors that dueq and Redis kept busy while the worker ran.
    server: f64,
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
        "A worker with an empty handler, concurrency {CONNECTIONS}, beside the loops of `dueq bench` with as many connections, \
         which lease one message and 100.\n\
         server: processors that dueq and Redis kept busy meanwhile.\n"
    );
    println!(
        "| language | singly per s | of bench | server | by 50 per s | of bench | server | late p50 ms | p99 ms | max ms |\n\
         |---|---|---|---|---|---|---|---|---|---|"
    );
    for (language, rounds) in languages.iter().zip(&rounds) {
        let of = |value: &dyn Fn(&Round) -> f64| median(rounds.iter().map(value).collect());
        let compared = |part: fn(&Round) -> &Compared| {
            format!(
                "{:.0} | {:.0} % | {:.2}",
                of(&|round| part(round).worker),
                of(&|round| 100.0 * part(round).worker / part(round).bench),
                of(&|round| part(round).server),
            )
        };
        println!(
            "| {language} | {} | {} | {:.1} | {:.1} | {:.1} |",
            compared(|round| &round.singly),
            compared(|round| &round.by_fifty),
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
    let server = dueq.url();
    let words = format!("--connections {CONNECTIONS} --only loop,batch --server {server}");
    let rows = dueq_bench(SECONDS, &words, &[]).await;
    let of_bench = |operation| rows.get(operation, CONNECTIONS, "per_s");
    let pids = [dueq.pid(), redis.pid()];
    let drained = async |prefetch, bench: f64| {
        let messages = (bench * SECONDS as f64 * 0.6) as usize;
        let (worker, server) = drained(language, &dueq, &pids, prefetch, messages).await;
        Compared { worker, bench, server }
    };
    Round {
        singly: drained("1", of_bench("loop: lease 1,")).await,
        by_fifty: drained("50", of_bench("loop: lease 100,")).await,
        late: lateness(language, &dueq.client(), &server).await,
    }
}

/// CPU time that these processes have used, s.
fn cpu_seconds(pids: &[u32]) -> f64 {
    let used = |pid: &u32| cpu_hundredths(&text_of(Path::new(&format!("/proc/{pid}/stat"))));
    pids.iter().map(used).sum::<u64>() as f64 / 100.0
}

/// Messages a second that a worker handles of as many as are ready, and the processors that these servers use meanwhile.
async fn drained(
    language: &str,
    dueq: &Dueq,
    pids: &[u32],
    prefetch: &str,
    messages: usize,
) -> (f64, f64) {
    let topic = topic("drained");
    let payload = "x".repeat(200);
    let batch: Vec<Value> = (0..messages).map(|_| json!({"payload": payload})).collect();
    dueq.client().fill(&topic, &batch).await;
    let count = messages.to_string();
    let concurrency = CONNECTIONS.to_string();
    let words = ["bench-work", "--topic", &topic, "--concurrency", &concurrency];
    let words = [&words[..], &["--prefetch", prefetch, "--messages", &count]].concat();
    let before = cpu_seconds(pids);
    let per_s = number_of(&result(language, &dueq.url(), &words).await, "per_s");
    (per_s, (cpu_seconds(pids) - before) / (messages as f64 / per_s))
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
