//! What several partitions cost beside one, on one Redis and on a Cluster, and what they cost while nothing happens.

use crate::{CONNECTIONS, ROUNDS, SECONDS, harness::*, life, rate, table::*};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// CPU time that a Redis has used, µs.
fn cpu_us(redis: &Redis) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", redis.pid())).expect("its stat");
    cpu_hundredths(&stat) as f64 * 10_000.0
}

/// The words that measure this dueq.
fn words(dueq: &Dueq, redis: &str, partitions: usize) -> String {
    let settings = format!(r#"--settings {{"partitions":{partitions}}}"#);
    let load = format!("--only publish,loop --connections {CONNECTIONS} {settings}");
    let urls = redis.split(',').map(|url| format!(" --redis-url {url}")).collect::<String>();
    format!("{load} --server {}{urls}", dueq.url())
}

/// Rates and Redis CPU with 16 partitions, beside one: on one Redis, and spread over the three primaries of a Cluster.
pub async fn split(table: &mut Table) {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    let cluster = Cluster::start(3, 0).await;
    let spread = cluster.launch().start().await;
    let (mut publishes, mut loops, mut lives) = (Vec::new(), Vec::new(), Vec::new());
    let (mut of_cluster, mut throughput, mut fullest) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        eprintln!("round {round} of {ROUNDS}");
        let one = dueq_bench(SECONDS, &words(&dueq, &redis.url(), 1), &[]).await;
        let many = dueq_bench(SECONDS, &words(&dueq, &redis.url(), 16), &[]).await;
        let used = |node: usize| cpu_us(cluster.node(node));
        let before: Vec<f64> = (0..3).map(used).collect();
        let there = dueq_bench(SECONDS, &words(&spread, &cluster.urls(), 16), &[]).await;
        let parts: Vec<f64> = (0..3).map(|node| used(node) - before[node]).collect();
        publishes.push(Some((rate(&many, "publish"), rate(&one, "publish"))));
        loops.push(Some((rate(&many, "loop: lease 1,"), rate(&one, "loop: lease 1,"))));
        lives.push(Some((life(&many), life(&one))));
        of_cluster.push(Some((life(&there), life(&one))));
        throughput.push(Some((rate(&there, "publish"), rate(&one, "publish"))));
        let mean = parts.iter().sum::<f64>() / 3.0;
        fullest.push(Some((parts.iter().copied().fold(0.0, f64::max) / 1e3, mean / 1e3)));
    }
    let mut row = |what: &str, wanted, unit, rounds: Vec<Option<(f64, f64)>>| {
        table.compare(what, wanted, unit, rounds.into_iter());
    };
    row("publish: 16 partitions / 1", Wanted::AtLeast(0.9), "per s", publishes);
    row("lease+ack: 16 partitions / 1", Wanted::AtLeast(0.9), "per s", loops);
    row("Redis CPU of a life: 16 partitions / 1", Wanted::AtMost(1.15), "µs", lives);
    row("the same on 3 primaries / 1 Redis", Wanted::AtMost(1.25), "µs", of_cluster);
    row("the busiest of 3 primaries / the mean", Wanted::AtMost(1.25), "ms", fullest);
    row("publish on 3 primaries / 1 Redis", Wanted::Anything, "per s", throughput);
}

/// The time of a publish with these fields, a lease and an ack, µs.
pub async fn life_of(client: &Client, topic: &str, mut message: Value) -> f64 {
    message["payload"] = json!(1);
    let begun = Instant::now();
    client.published(topic, message).await;
    let held = client.lease_one(topic).await;
    client.ack_leased(&held).await.expect(204);
    begun.elapsed().as_micros() as f64
}

/// What partitions cost where little happens.
pub async fn quiet(table: &mut Table) {
    const LIVES: usize = 1_000;
    const LEASES: usize = 5_000;
    const TOPICS: usize = 1_000;
    const WATCHED: Duration = Duration::from_secs(130);
    let redis = Redis::start().await;
    let (one, other) = (Dueq::on(&redis).start().await, Dueq::on(&redis).start().await);
    let client = one.client();
    let (single, split) = (topic("single"), topic("split"));
    client.new_topic(&single, json!({})).await;
    client.new_topic(&split, json!({"partitions": 64})).await;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let (mut of_split, mut of_single) = (Vec::new(), Vec::new());
        for _ in 0..LIVES / ROUNDS {
            of_split.push(life_of(&client, &split, json!({})).await);
            of_single.push(life_of(&client, &single, json!({})).await);
        }
        rounds.push(Some((median(of_split), median(of_single))));
    }
    let what = "publish+lease+ack alone: 64 partitions / 1";
    table.compare(what, Wanted::AtMost(1.1), "µs", rounds.into_iter());

    let before = cpu_us(&redis);
    for _ in 0..LEASES {
        assert!(client.leased(&split, json!({})).await.is_empty());
    }
    let each = (cpu_us(&redis) - before) / LEASES as f64;
    let what = "Redis CPU of an empty lease of 64 partitions";
    table.figure(what, Wanted::AtMost(100.0), "µs", [each]);

    let mut polls = tokio::task::JoinSet::new();
    for n in 0..TOPICS {
        let (name, client) =
            (topic("idle"), if n % 2 == 0 { one.client() } else { other.client() });
        client.new_topic(&name, json!({"partitions": 16})).await;
        polls.spawn(async move {
            let want = json!({"wait_ms": 60_000});
            loop {
                let got: Vec<Value> = client.leased(&name, want.clone()).await;
                assert!(got.is_empty());
            }
        });
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    let begun = Instant::now();
    let (cpu, commands) = (cpu_us(&redis), redis.info("total_commands_processed").await);
    tokio::time::sleep(WATCHED).await;
    let seconds = begun.elapsed().as_secs_f64();
    let commands = redis.info("total_commands_processed").await - commands;
    let what = "1,000 idle topics of 16 partitions with a waiter each";
    let each = commands as f64 / seconds;
    table.figure(what, Wanted::AtMost(700.0), "commands per s", [each]);
    let share = (cpu_us(&redis) - cpu) / seconds / 10_000.0;
    table.figure("the same: Redis CPU", Wanted::AtMost(0.2), "%", [share]);
}
