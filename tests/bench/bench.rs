//! `make bench`: what dueq costs beside what it is built of and beside others, as ratios of figures that were measured in
//! one run, taking turns. The load on dueq is `dueq bench`; wrk loads `/healthz`, and beanstalkd is loaded over its own
//! protocol. Both come from apt; rows that need a missing one say so. lmstfy is there if `LMSTFY` is the path of its server.
//!
//! Arguments are the parts to run; without any, all of them.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod arrivals;
mod backlog;
mod beanstalkd;
#[path = "../harness/mod.rs"]
mod harness;
mod lmstfy;
mod load;
mod looks;
mod partitions;
mod search;
mod settings;
mod spread;
mod table;

use harness::*;
use serde_json::json;
use std::{path::PathBuf, process::Command, time::Duration};
use table::{Table, Wanted::*};

/// How often what is compared takes turns.
const ROUNDS: usize = 3;
/// The time of each measurement.
const SECONDS: u64 = 3;
const CONNECTIONS: usize = 64;

const PARTS: [&str; 21] = [
    "rates",
    "lateness",
    "memory",
    "fsync",
    "threads",
    "million",
    "burst",
    "partitions",
    "quiet",
    "failover",
    "fairness",
    "instances",
    "replicas",
    "groups",
    "fair",
    "search",
    "growth",
    "traces",
    "tabs",
    "moving",
    "sqs",
];

#[tokio::main]
async fn main() {
    // `cargo bench` adds `--bench`.
    let asked: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if let Some(unknown) = asked.iter().find(|word| !PARTS.contains(&word.as_str())) {
        eprintln!("{unknown} is none of the parts: {}", PARTS.join(", "));
        std::process::exit(2);
    }
    let mut table = Table::default();
    for part in PARTS {
        if !asked.is_empty() && !asked.iter().any(|word| word == part) {
            continue;
        }
        eprintln!("{part}");
        match part {
            "rates" => rates(&mut table).await,
            "lateness" => lateness(&mut table).await,
            "memory" => memory(&mut table).await,
            "fsync" => fsync(&mut table).await,
            "threads" => threads(&mut table).await,
            "million" => backlog::million(&mut table).await,
            "burst" => backlog::burst(&mut table).await,
            "partitions" => partitions::split(&mut table).await,
            "quiet" => partitions::quiet(&mut table).await,
            "failover" => spread::failover(&mut table).await,
            "fairness" => spread::fairness(&mut table).await,
            "instances" => spread::instances(&mut table).await,
            "replicas" => settings::replicas(&mut table).await,
            "groups" => settings::groups(&mut table).await,
            "fair" => settings::fair(&mut table).await,
            "traces" => looks::traces(&mut table).await,
            "tabs" => looks::tabs(&mut table).await,
            "moving" => arrivals::moving(&mut table).await,
            "sqs" => arrivals::sqs(&mut table).await,
            "search" => search::search(&mut table).await,
            _ => settings::growth(&mut table).await,
        }
    }
    print!("{table}");
}

/// Messages a second at [`CONNECTIONS`].
fn rate(rows: &BenchRows, operation: &str) -> f64 {
    rows.get(operation, CONNECTIONS, "per_s")
}

/// A server with its embedded Redis, and the words that make `dueq bench` measure it.
async fn embedded() -> (Dueq, String) {
    let data = temp_dir("data");
    let dueq = Dueq::embedded(&data).start().await;
    let redis = data.join("redis.sock");
    let words = format!("--server {} --redis-url redis+unix://{}", dueq.url(), redis.display());
    (dueq, words)
}

/// What wrk reaches with a GET, or with a POST of this body, requests a second; `None` where there is no wrk.
fn wrk(dueq: &Dueq, path: &str, headers: &[(&str, &str)], body: Option<&str>) -> Option<f64> {
    let script = body.map(|body| {
        let file = temp_dir("wrk").join("post.lua");
        std::fs::write(&file, format!("wrk.method = 'POST'\nwrk.body = [==[{body}]==]\n")).unwrap();
        format!("-s{}", file.display())
    });
    let headers = headers.iter().map(|(name, value)| format!("-H{name}: {value}"));
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2));
    let output = Command::new("wrk")
        .args([format!("-t{threads}"), format!("-c{CONNECTIONS}"), format!("-d{SECONDS}s")])
        .args(headers.chain(script))
        .arg(format!("{}{path}", dueq.url()))
        .output()
        .ok()?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let rate = printed.lines().find_map(|line| line.strip_prefix("Requests/sec:"));
    Some(rate.and_then(|rate| rate.trim().parse().ok()).expect("wrk's requests a second"))
}

/// One round of everything that is compared side by side.
struct Round {
    dueq: BenchRows,
    wrk: Option<f64>,
    beanstalkd: Option<beanstalkd::Rates>,
    lmstfy: Option<(f64, f64)>,
}

async fn rates(table: &mut Table) {
    let lmstfy = std::env::var_os("LMSTFY").map(PathBuf::from);
    let mut rounds = Vec::new();
    for round in 1..=ROUNDS {
        eprintln!("round {round} of {ROUNDS}");
        let (dueq, _) = embedded().await;
        let wrk = wrk(&dueq, "/healthz", &[], None);
        drop(dueq);
        let parts = "--only healthz,publish,loop,batch --connections";
        let dueq = dueq_bench(SECONDS, &format!("{parts} 16,{CONNECTIONS}"), &[]).await;
        let beanstalkd = beanstalkd::rates().await;
        let lmstfy = match &lmstfy {
            Some(server) => Some(lmstfy::rates(server).await),
            None => None,
        };
        rounds.push(Round { dueq, wrk, beanstalkd, lmstfy });
    }
    let mut row = |what: &str, wanted, unit, figures: &dyn Fn(&Round) -> Option<(f64, f64)>| {
        table.compare(what, wanted, unit, rounds.iter().map(figures));
    };
    let n = CONNECTIONS;
    let publish = |round: &Round| rate(&round.dueq, "publish");
    let consume = |round: &Round| rate(&round.dueq, "loop: lease 1,");
    row("publish / wrk on /healthz", AtLeast(0.65), "per s", &|round| {
        Some((publish(round), round.wrk?))
    });
    row("publish / beanstalkd put", AtLeast(0.55), "per s", &|round| {
        Some((publish(round), round.beanstalkd.as_ref()?.put))
    });
    row("lease+ack / beanstalkd reserve+delete", AtLeast(0.6), "per s", &|round| {
        Some((consume(round), round.beanstalkd.as_ref()?.reserve_delete))
    });
    row("CPU of beanstalkd / time, meanwhile", AtLeast(0.9), "s", &|round| {
        Some(round.beanstalkd.as_ref()?.busy)
    });
    if lmstfy.is_some() {
        row("publish / lmstfy", AtLeast(4.0), "per s", &|round| {
            Some((publish(round), round.lmstfy?.0))
        });
        row("lease+ack / lmstfy", AtLeast(4.0), "per s", &|round| {
            Some((consume(round), round.lmstfy?.1))
        });
    }
    for (what, operation, most) in
        [("publish", "publish", 1.4), ("lease+ack", "loop: lease 1,", 1.8)]
    {
        let what = format!("dueq CPU: {what} / healthz");
        row(&what, AtMost(most), "µs", &|round| {
            let cpu = |operation| round.dueq.get(operation, n, "dueq_cpu_us");
            Some((cpu(operation), cpu("healthz")))
        });
    }
    row("publish by 100 / publish, messages", AtLeast(6.0), "per s", &|round| {
        Some((rate(&round.dueq, "publish by 100"), publish(round)))
    });
    row("lease+ack by 100: 64 / 16 connections", AtLeast(0.9), "per s", &|round| {
        let at = |connections| round.dueq.get("loop: lease 100", connections, "per_s");
        Some((at(n), at(16)))
    });
    let life = rounds.iter().map(|round| life(&round.dueq));
    table.figure("Redis CPU of a life (publish, lease, ack)", Anything, "µs", life);
}

/// Redis CPU of a message's life, µs.
fn life(rows: &BenchRows) -> f64 {
    let of = |operation| rows.get(operation, CONNECTIONS, "redis_cpu_us");
    of("publish") + of("loop: lease 1,")
}

async fn lateness(table: &mut Table) {
    let rows = dueq_bench(SECONDS, "--only lateness", &[]).await;
    let of = |name| [rows.get("lateness at 1000/s", CONNECTIONS, name)];
    table.figure("lateness p50 at 1,000 due/s", Anything, "ms", of("p50_ms"));
    table.figure("lateness p99 at 1,000 due/s", AtMost(2.0), "ms", of("p99_ms"));
    table.figure("lateness p99.9 at 1,000 due/s", AtMost(4.0), "ms", of("p999_ms"));
    table.figure("leased early", AtMost(0.0), "messages", of("early"));
}

/// Redis memory that a delayed message takes beyond its payload. The tables of Redis's hashes grow in powers of two: at
/// this number they are three quarters full.
async fn memory(table: &mut Table) {
    const MESSAGES: usize = 100_000;
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    let client = dueq.client();
    let topic = topic("memory");
    let message = json!({"payload": "x".repeat(198), "delay_ms": 3_600_000});
    client.published(&topic, message.clone()).await;
    let before = settled(&redis).await;
    client.fill(&topic, &vec![message; MESSAGES]).await;
    let each = (settled(&redis).await - before) as f64 / MESSAGES as f64 - 200.0;
    table.figure("Redis memory of a message beyond its payload", AtMost(215.0), "bytes", [each]);
}

/// `used_memory` without clients' buffers, once it stands still: tables that are being enlarged exist twice for a while.
async fn settled(redis: &Redis) -> i64 {
    let (mut last, mut still) = (0, 0);
    while still < 5 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let now = redis.info("used_memory").await - redis.info("mem_clients_normal").await;
        still = if (now - last).abs() < 16_384 { still + 1 } else { 0 };
        last = now;
    }
    last
}

async fn fsync(table: &mut Table) {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let words = "--only publish --connections 128";
        let always = dueq_bench(SECONDS, words, &[("DUEQ_FSYNC", "always")]).await;
        let everysec = dueq_bench(SECONDS, words, &[]).await;
        let rate = |rows: BenchRows| rows.get("publish", 128, "per_s");
        rounds.push(Some((rate(always), rate(everysec))));
    }
    table.compare("publish: --fsync always / everysec", Anything, "per s", rounds.into_iter());
}

/// What many threads make of the groups that one thread makes.
async fn threads(table: &mut Table) {
    let help = Launch::command(["serve", "--help"]).finish().await;
    if !help.stdout.contains("--threads") {
        return table.missing("--threads 8 / 1", "this dueq has no --threads");
    }
    let (mut groups, mut lives) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (group_of_8, life_of_8) = with_threads("8").await;
        let (group_of_1, life_of_1) = with_threads("1").await;
        groups.push(Some((group_of_8, group_of_1)));
        lives.push(Some((life_of_8, life_of_1)));
    }
    let within = Between(0.8, 1.2);
    table.compare("mean group: --threads 8 / 1", within, "requests", groups.into_iter());
    table.compare("Redis CPU of a life: --threads 8 / 1", within, "µs", lives.into_iter());
}

/// The mean group, and Redis CPU of a life.
async fn with_threads(threads: &str) -> (f64, f64) {
    let data = temp_dir("data");
    let dueq = Dueq::embedded(&data).args(["--threads", threads]).start().await;
    let redis = data.join("redis.sock");
    let words = format!(
        "--only publish,loop --connections {CONNECTIONS} --server {} --redis-url redis+unix://{}",
        dueq.url(),
        redis.display()
    );
    let rows = dueq_bench(SECONDS, &words, &[]).await;
    let metrics = dueq.client().get_path("/metrics").await.expect(200);
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    let sum = |name: &str| -> f64 {
        // Of the two scripts that single publishes and the loop are.
        let of_these = |line: &&str| line.contains("\"publish\"") || line.contains("\"lease\"");
        let lines = metrics.lines().filter(|line| line.starts_with(name)).filter(of_these);
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    };
    (sum("dueq_group_size_sum") / sum("dueq_group_size_count"), life(&rows))
}
