//! What settings of a topic cost: answers that wait for a replica, groups, and partitions that it gets while it is in use.

use crate::{
    CONNECTIONS, ROUNDS, SECONDS, harness::*, partitions::life_of, rate, spread, table::*,
};
use serde_json::{Value, json};
use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};
use tokio::time::{interval, sleep};

/// Lives of messages with nobody else there, in one measurement.
const LIVES: usize = 300;

/// The words that measure this dueq.
fn words(dueq: &Dueq, redis: &Redis, more: &str) -> String {
    let server = format!("--server {} --redis-url {}", dueq.url(), redis.url());
    format!("{server} --only publish,loop --connections {CONNECTIONS} {more}")
}

/// Answers that wait for a replica, beside those of a topic that does not ask for it. Both have the replica.
pub async fn replicas(table: &mut Table) {
    let [redis, _replica] = pair(Redis::options()).await;
    let dueq = Dueq::on(&redis).start().await;
    let client = dueq.client();
    let (waits, plain) = (topic("waits"), topic("plain"));
    let settings = json!({"durability": "replicated"});
    client.new_topic(&waits, settings.clone()).await;
    client.new_topic(&plain, json!({})).await;
    let bench = async |settings: &Value, seconds| {
        dueq_bench(seconds, &words(&dueq, &redis, &format!("--settings {settings}")), &[]).await
    };
    let (mut publishes, mut loops, mut others) = (Vec::new(), Vec::new(), Vec::new());
    let mut more = Vec::new();
    for round in 1..=ROUNDS {
        eprintln!("round {round} of {ROUNDS}");
        let (one, other) = (bench(&settings, SECONDS).await, bench(&json!({}), SECONDS).await);
        publishes.push(Some((rate(&one, "publish"), rate(&other, "publish"))));
        loops.push(Some((rate(&one, "loop: lease 1,"), rate(&other, "loop: lease 1,"))));
        let (mut waited, mut not) = (Vec::new(), Vec::new());
        for _ in 0..LIVES {
            waited.push(life_of(&client, &waits, json!({})).await);
            not.push(life_of(&client, &plain, json!({})).await);
        }
        // Of a life's three requests.
        more.push((median(waited) - median(not)) / 3e3);
        let plain = [plain.clone()];
        let load = bench(&settings, SECONDS);
        let ((beside, _), _) = spread::beside(&client, &plain, load).await;
        let ((alike, _), _) = spread::beside(&client, &plain, bench(&json!({}), SECONDS)).await;
        others.push(Some((spread::p99(beside), spread::p99(alike))));
    }
    let mut row = |what, wanted, unit, rounds: Vec<_>| {
        table.compare(what, wanted, unit, rounds.into_iter());
    };
    let least = Wanted::AtLeast(0.8);
    row("publish: durability replicated / memory", least, "per s", publishes);
    row("lease+ack: durability replicated / memory", least, "per s", loops);
    let what = "publish p99 of a memory topic: beside replicated / memory";
    row(what, Wanted::AtMost(1.2), "ms", others);
    let what = "a request alone: replicated, longer by";
    table.figure(what, Wanted::AtMost(1.0), "ms", more);
}

/// Messages in 10,000 groups of a topic with these settings, as rows call them, beside messages without a group.
async fn many_groups(
    table: &mut Table,
    dueq: &Dueq,
    redis: &Redis,
    (called, settings): (&str, &Value),
    wanted: Wanted,
) {
    let (mut publishes, mut loops) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        eprintln!("round {round} of {ROUNDS}");
        let more = format!("--groups 10000 --settings {settings}");
        let grouped = dueq_bench(SECONDS, &words(dueq, redis, &more), &[]).await;
        let plain = dueq_bench(SECONDS, &words(dueq, redis, ""), &[]).await;
        publishes.push(Some((rate(&grouped, "publish"), rate(&plain, "publish"))));
        loops.push(Some((rate(&grouped, "loop: lease 1,"), rate(&plain, "loop: lease 1,"))));
    }
    for (what, rounds) in [("publish", publishes), ("lease+ack", loops)] {
        let what = format!("{what}: 10,000 {called} / none");
        table.compare(&what, wanted, "per s", rounds.into_iter());
    }
}

/// Messages in groups beside messages without, and a long line of one group beside none.
pub async fn groups(table: &mut Table) {
    const BLOCKED: usize = 100_000;
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    let client = dueq.client();
    let wanted = Wanted::AtLeast(0.5);
    many_groups(table, &dueq, &redis, ("groups", &json!({})), wanted).await;
    let (long, empty) = (topic("long"), topic("empty"));
    for name in [&long, &empty] {
        client.new_topic(name, json!({"group_concurrency": 1})).await;
    }
    let blocked = json!({"payload": 1, "group": "long", "delay_ms": 86_400_000});
    client.fill(&long, &vec![blocked; BLOCKED]).await;
    let (mut others, mut plain) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let mut figures = [const { Vec::new() }; 4];
        for _ in 0..LIVES {
            for (at, name) in [&long, &empty].into_iter().enumerate() {
                figures[at].push(life_of(&client, name, json!({"group": "other"})).await);
                figures[2 + at].push(life_of(&client, name, json!({})).await);
            }
        }
        let [beside, without, plain_beside, plain_without] = figures.map(median);
        others.push(Some((beside, without)));
        plain.push(Some((plain_beside, plain_without)));
    }
    let mut row = |what, wanted, unit, rounds: Vec<_>| {
        table.compare(what, wanted, unit, rounds.into_iter());
    };
    let what = "another group alone: beside 100,000 of a blocked one / none";
    row(what, Wanted::AtMost(1.1), "µs", others);
    let what = "no group alone: beside 100,000 of a blocked one / none";
    row(what, Wanted::AtMost(1.05), "µs", plain);
}

/// Groups that take turns beside no groups, and what one with a long backlog does to the others.
pub async fn fair(table: &mut Table) {
    const BACKLOG: usize = 100_000;
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    let client = dueq.client();
    let settings = json!({"group_order": "fair"});
    let wanted = Wanted::AtLeast(0.6);
    many_groups(table, &dueq, &redis, ("fair groups", &settings), wanted).await;
    let (long, empty) = (topic("long"), topic("empty"));
    for name in [&long, &empty] {
        client.new_topic(name, settings.clone()).await;
    }
    client.fill(&long, &vec![json!({"payload": 0, "group": "import"}); BACKLOG]).await;
    let mut lives = Vec::new();
    for _ in 0..ROUNDS {
        let beside = tenants(&client, &long).await;
        lives.push(Some((spread::p99(beside), spread::p99(tenants(&client, &empty).await))));
    }
    let what = "life p99 of 50 fair groups: beside 100,000 of another / alone";
    table.compare(what, Wanted::AtMost(2.0), "ms", lives.into_iter());
}

/// Fifty groups publish a message a second each, and four consumers work on each message for 10 ms. Returns how long those of
/// the fifty took from the request that published them until they were leased and worked on, ms.
async fn tenants(client: &Client, topic: &str) -> Vec<f64> {
    const TENANTS: u32 = 50;
    const CONSUMERS: usize = 4;
    const WORK: Duration = Duration::from_millis(10);
    let (begun, over) = (Instant::now(), AtomicBool::new(false));
    let publish = async {
        let mut ticks = interval(Duration::from_secs(1) / TENANTS);
        for n in 0..TENANTS * 2 * SECONDS as u32 {
            ticks.tick().await;
            let (client, topic) = (client.clone(), topic.to_owned());
            tokio::spawn(async move {
                let sent = begun.elapsed().as_micros() as u64;
                let message = json!({"payload": sent, "group": format!("tenant-{}", n % TENANTS)});
                client.published(&topic, message).await;
            });
        }
        sleep(Duration::from_secs(1)).await;
        over.store(true, Relaxed);
    };
    let consume = async || {
        let mut lives = Vec::new();
        while !over.load(Relaxed) {
            for message in client.leased(topic, json!({"wait_ms": 200})).await {
                sleep(WORK).await;
                if message["group"] != "import" {
                    let life =
                        begun.elapsed().as_micros() as f64 - number(&message, "payload") as f64;
                    lives.push(life / 1e3);
                }
                client.ack_leased(&message).await.expect(204);
            }
        }
        lives
    };
    let consumers = futures_util::future::join_all((0..CONSUMERS).map(|_| consume()));
    tokio::join!(publish, consumers).1.concat()
}

/// Lives a second, looked at so often, before and after a topic grows.
const LOOKS_PER_S: usize = 20;
const CALM_S: u64 = 6;

/// A topic that grows under load: the worst second after it, beside those before.
pub async fn growth(table: &mut Table) {
    let redis = Redis::start().await;
    let dueq = [Dueq::on(&redis).start().await, Dueq::on(&redis).start().await];
    let (mut worst, mut noise, mut steady) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        let name = topic("grows");
        let clients = dueq.each_ref().map(Dueq::client);
        clients[0].new_topic(&name, json!({"partitions": 16})).await;
        let (lives, over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let load = (0..CONNECTIONS).map(|n| {
            let (client, name, lives, over) = (clients[n % 2].clone(), &name, &lives, &over);
            async move {
                while !over.load(Relaxed) {
                    life_of(&client, name, json!({})).await;
                    lives.fetch_add(1, Relaxed);
                }
            }
        });
        let watch = async {
            let mut seen = Vec::new();
            let mut ticks = interval(Duration::from_secs(1) / LOOKS_PER_S as u32);
            while !over.load(Relaxed) {
                ticks.tick().await;
                seen.push(lives.load(Relaxed));
            }
            seen
        };
        let grow = async {
            sleep(Duration::from_secs(CALM_S)).await;
            let (at, begun) = (Instant::now(), json!({"partitions": 64}));
            clients[0].update_topic(&name, begun).await.expect(200);
            eprintln!("round {round} of {ROUNDS}: it grew within {:?}", at.elapsed());
            sleep(Duration::from_secs(CALM_S)).await;
            over.store(true, Relaxed);
        };
        let (_, seen, ()) = tokio::join!(futures_util::future::join_all(load), watch, grow);
        let seconds: Vec<f64> =
            seen.windows(LOOKS_PER_S + 1).map(|w| (w[LOOKS_PER_S] - w[0]) as f64).collect();
        // The first second warms up.
        let middle = CALM_S as usize * LOOKS_PER_S;
        let before = &seconds[LOOKS_PER_S..middle - LOOKS_PER_S];
        let after = &seconds[middle - LOOKS_PER_S..];
        let least = |of: &[f64]| of.iter().copied().fold(f64::INFINITY, f64::min);
        let usual = median(before.to_vec());
        worst.push(Some((least(after), usual)));
        noise.push(Some((least(before), usual)));
        steady.push(Some((median(after[2 * LOOKS_PER_S..].to_vec()), usual)));
    }
    let mut row = |what, wanted, rounds: Vec<_>| {
        table.compare(what, wanted, "per s", rounds.into_iter());
    };
    row("the worst second as 16 partitions grow to 64", Wanted::AtLeast(0.8), worst);
    row("the worst second before", Wanted::Anything, noise);
    row("64 partitions, a second later, / 16", Wanted::Anything, steady);
}
