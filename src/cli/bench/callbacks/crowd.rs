//! A host that accepts and never answers: what ten thousand calls to it that are under way cost in memory, and what ten
//! thousand messages for it do to those for another host.

use std::time::{Duration, Instant};

use serde_json::json;

use super::plan::{Due, Plan, Way};
use super::receiver::{Receiver, Silent};
use super::speed::seen_within;
use super::{Lateness, forget, push, steer};
use crate::cli::bench::report::{Section, Table};
use crate::cli::bench::servers::{Server, allow_open_files};
use crate::cli::bench::stats::{millis, thousands};
use crate::cli::bench::targets::{Target, Verdict};
use crate::cli::bench::{Bench, Fallible, ROUNDS};

/// Messages for the host that never answers.
const SILENT: u64 = 10_000;
/// Open files beside one for each of these.
const OTHER_FILES: u64 = 1_000;
const TEN_MINUTES_MS: u64 = 600_000;

const HEALTHY_PER_S: u64 = 100;
/// Each round's window: a p99 of all rounds together wants a thousand calls.
const WINDOW_MS: u64 = 5_000;

/// What the calls under way take of dueq's memory; nothing where this cannot be measured.
pub async fn memory(bench: &Bench) -> Fallible<Option<Section>> {
    if let Err(failure) = allow_open_files(SILENT + OTHER_FILES) {
        bench.say(format_args!("callbacks: no memory of calls under way: {failure}"));
        return Ok(None);
    }
    let server = bench.group().await?;
    let Some(unused) = server.resident_kib() else {
        bench.say("callbacks: no memory of calls under way: this system does not tell it");
        return Ok(None);
    };
    bench.say(format_args!("callbacks: {} calls under way", thousands(SILENT as f64)));
    let silent = Silent::start()?;
    let topic = bench.topic("push-silent");
    let wanted = json!({
        "url": silent.url(),
        "timeout_ms": TEN_MINUTES_MS,
        "max_in_flight": SILENT,
        "max_in_flight_per_host": SILENT,
    });
    push(&server, &topic, wanted).await?;
    steer(&server, &topic, "pause").await?;
    Plan { way: Way::Topic(topic.clone()), count: SILENT, due: Due::Now }.publish(&server).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = server.resident_kib().unwrap_or(unused);
    let begun = Instant::now();
    steer(&server, &topic, "resume").await?;
    while (silent.accepted() as u64) < SILENT && begun.elapsed() < Duration::from_secs(60) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (under_way, seconds) = (silent.accepted(), begun.elapsed().as_secs_f64());
    tokio::time::sleep(Duration::from_secs(2)).await;
    let after = server.resident_kib().unwrap_or(before);
    let each = after.saturating_sub(before) as f64 / under_way.max(1) as f64;
    // The calls end with their host, so that the server has nothing to wait for when it stops.
    steer(&server, &topic, "pause").await?;
    drop(silent);
    tokio::time::sleep(Duration::from_secs(2)).await;

    let columns = ["under way", "in s", "before MiB", "with them MiB", "each KiB"];
    let mut table = Table::new("Calls under way to a host that never answers", &columns);
    let mib = |kib: u64| format!("{:.1}", kib as f64 / 1_024.0);
    table.row([
        thousands(under_way as f64),
        format!("{seconds:.1}"),
        mib(before),
        mib(after),
        format!("{each:.1}"),
    ]);
    if (under_way as u64) < SILENT {
        table.note(format!("{} were wanted", thousands(SILENT as f64)));
    }
    table.note("resident memory of dueq, without its Redis");
    let whole = under_way as u64 >= SILENT;
    let verdict = Verdict { target: Target::CallbackMemory, measured: each };
    Ok(Some(Section {
        name: "callback_memory",
        table,
        figures: json!({
            "under_way": under_way,
            "seconds": seconds,
            "before_kib": before,
            "after_kib": after,
            "each_kib": each,
        }),
        verdicts: whole.then_some(verdict).into_iter().collect(),
    }))
}

/// What the silent host does to another one in the same topic.
pub async fn fairness(bench: &Bench, server: &Server) -> Fallible<Section> {
    let (mut alone, mut beside) = (Lateness::default(), Lateness::default());
    let mut held = 0;
    for round in 1..=ROUNDS {
        bench.say(format_args!("callbacks: beside a silent host, round {round} of {ROUNDS}"));
        healthy(bench, server, &mut alone).await?;
        let silent = Silent::start()?;
        let topic = bench.topic("push-both");
        push(server, &topic, json!({})).await?;
        let way = Way::Named(topic.clone(), silent.url());
        Plan { way, count: SILENT, due: Due::Now }.publish(server).await?;
        healthy_in(server, &topic, &mut beside).await?;
        held = held.max(silent.accepted());
        forget(server, &topic).await?;
    }
    let columns = ["silent messages", "calls", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "missing"];
    let mut table = Table::new("A healthy host beside one that never answers", &columns);
    for (silent, seen) in [("none", &mut alone), ("10,000", &mut beside)] {
        let mut cells = vec![silent.to_owned(), thousands(seen.late_us.len() as f64)];
        cells.extend(seen.shares().map(millis));
        cells.push(seen.missing.to_string());
        table.row(cells);
    }
    table.note(format!(
        "one topic at its defaults, {HEALTHY_PER_S} due a second for the healthy host; \
         connections to the silent one in a round: {held} at most"
    ));
    let p99s = [&mut beside, &mut alone].map(|seen| f64::from(seen.shares()[1]));
    let ratio = p99s[0] / p99s[1].max(1.0);
    Ok(Section {
        name: "callback_fairness",
        table,
        figures: json!({
            "silent_messages": SILENT,
            "due_per_s": HEALTHY_PER_S,
            "alone": alone.figures(),
            "beside": beside.figures(),
            "connections_to_silent": held,
            "of_alone": ratio,
        }),
        verdicts: vec![Verdict { target: Target::CallbackFairness, measured: ratio }],
    })
}

/// The healthy host's messages in a topic of their own.
async fn healthy(bench: &Bench, server: &Server, seen: &mut Lateness) -> Fallible<()> {
    let topic = bench.topic("push-alone");
    push(server, &topic, json!({})).await?;
    healthy_in(server, &topic, seen).await?;
    forget(server, &topic).await
}

async fn healthy_in(server: &Server, topic: &str, seen: &mut Lateness) -> Fallible<()> {
    let receiver = Receiver::start()?;
    let count = HEALTHY_PER_S * WINDOW_MS / 1_000;
    let way = Way::Named(topic.to_owned(), receiver.url());
    let calls = seen_within(server, &receiver, way, count, WINDOW_MS).await?;
    seen.add(&calls, count);
    Ok(())
}
