//! What it costs to look at dueq while it works: requests that are traced, and open tabs of the dashboard.

use crate::{CONNECTIONS, ROUNDS, SECONDS, harness::*, rate, table::*};
use reqwest::header::{CACHE_CONTROL, ETAG, IF_NONE_MATCH};
use std::{collections::HashMap, time::Duration};
use tokio::{
    task::JoinSet,
    time::{interval, sleep},
};

const TABS: usize = 10;
/// What an open overview asks for, every two seconds, and where its charts are: of six topics.
const ASKED: [&str; 2] = ["/readyz", "/topics?limit=1000"];
const CHARTED: usize = 6;

/// Of publish and of the loop, messages a second.
type Rates = (f64, f64);

/// Both at this server.
async fn rates(dueq: &Dueq, redis: &Redis, more: &str) -> Rates {
    let server = format!("--server {} --redis-url {}", dueq.url(), redis.url());
    let words = format!("{server} --only publish,loop --connections {CONNECTIONS} {more}");
    let rows = dueq_bench(SECONDS, &words, &[]).await;
    (rate(&rows, "publish"), rate(&rows, "loop: lease 1,"))
}

/// Two rows, of what was measured in turns.
fn rows(table: &mut Table, what: &str, least: f64, measured: &[(Rates, Rates)]) {
    let publishes = measured.iter().map(|(one, other)| Some((one.0, other.0)));
    table.compare(&format!("publish: {what}"), Wanted::AtLeast(least), "per s", publishes);
    let loops = measured.iter().map(|(one, other)| Some((one.1, other.1)));
    table.compare(&format!("lease+ack: {what}"), Wanted::AtLeast(least), "per s", loops);
}

/// One of ten requests is traced, beside an instance that exports nothing.
pub async fn traces(table: &mut Table) {
    let (redis, collector) = (Redis::start().await, Receiver::start().await);
    let plain = Dueq::on(&redis).start().await;
    let traced = Dueq::on(&redis).env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url(""));
    let traced = traced.start().await;
    let (mut tenth, mut none) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        eprintln!("round {round} of {ROUNDS}");
        let off = rates(&plain, &redis, "").await;
        tenth.push((rates(&traced, &redis, "--trace-every 10").await, off));
        none.push((rates(&traced, &redis, "").await, off));
    }
    rows(table, "one of ten traced / no exporter", 0.92, &tenth);
    rows(table, "none traced, with an exporter / without", 0.98, &none);
}

/// Ten tabs at the overview.
pub async fn tabs(table: &mut Table) {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    let client = dueq.client();
    let mut paths: Vec<String> = ASKED.map(str::to_owned).into();
    for _ in 0..CHARTED {
        let topic = topic("charted");
        client.published(&topic, serde_json::json!({"payload": 1})).await;
        paths.push(format!("/topics/{topic}/history?step_ms=10000&points=360"));
    }
    let (mut measured, mut commands) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        eprintln!("round {round} of {ROUNDS}");
        let alone = rates(&dueq, &redis, "").await;
        let mut open = JoinSet::new();
        for _ in 0..TABS {
            open.spawn(tab(dueq.url().to_owned(), paths.clone()));
        }
        measured.push((rates(&dueq, &redis, "").await, alone));
        let count = async || redis.info("total_commands_processed").await;
        let before = count().await;
        sleep(Duration::from_secs(SECONDS)).await;
        commands.push((count().await - before) as f64 / SECONDS as f64);
    }
    rows(table, "ten tabs open / none", 0.98, &measured);
    table.figure("Redis commands, scripts' own included", Wanted::Anything, "per s", commands);
}

/// Asks as an open page does, until it is dropped.
async fn tab(server: String, paths: Vec<String>) {
    let (client, mut known) = (reqwest::Client::new(), HashMap::new());
    let mut round = interval(Duration::from_secs(2));
    loop {
        round.tick().await;
        for path in &paths {
            let mut request =
                client.get(format!("{server}{path}")).header(CACHE_CONTROL, "max-age=1");
            if let Some(tag) = known.get(path) {
                request = request.header(IF_NONE_MATCH, tag);
            }
            let answer = request.send().await.unwrap();
            known.extend(answer.headers().get(ETAG).map(|tag| (path.clone(), tag.clone())));
            answer.bytes().await.unwrap();
        }
    }
}
