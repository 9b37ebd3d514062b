//! What a Cluster and several instances cost and promise: how soon a failover is over and what others notice of it, who waits
//! for a partition with a long backlog, and what a message's life costs at one instance and at several.

use crate::{harness::*, table::*};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};
use tokio::{task::JoinSet, time::sleep};

/// Failovers, each of another primary.
const FAILOVERS: usize = 6;

/// The share of these below which 99 of 100 are.
pub fn p99(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len().saturating_sub(1) * 99 / 100).copied().unwrap_or(f64::NAN)
}

/// Primaries that die: the time from when the new one can be written to until the first 2xx, at an instance that publishes all
/// the time and at one that is idle; and the topics of the others meanwhile.
pub async fn failover(table: &mut Table) {
    let mut cluster = Cluster::options(3, 1).partial().start().await;
    let (busy, idle) = (cluster.launch().start().await, cluster.launch().start().await);
    let (client, other) = (busy.client(), idle.client());
    let mut topics = Vec::new();
    for primary in 0..3 {
        let name = cluster.topic_on(primary, "failover").await;
        client.new_topic(&name, json!({})).await;
        other.published(&name, json!({"payload": 1})).await;
        topics.push(name);
    }
    let (mut first, mut first_idle, mut errors) = (Vec::new(), Vec::new(), 0.0);
    let (mut calm, mut meanwhile) = (Vec::new(), Vec::new());
    for round in 0..FAILOVERS {
        eprintln!("failover {} of {FAILOVERS}", round + 1);
        let hit = &topics[round % 3];
        let others: Vec<String> = topics.iter().filter(|name| *name != hit).cloned().collect();
        let (times, refused) = beside(&client, &others, sleep(Duration::from_secs(3))).await.0;
        calm.extend(times);
        errors += refused as f64;
        let old = cluster.primary_of_topic(hit).await;
        let slot = slot_of(hit);
        cluster.kill9(old);
        let begun = Instant::now();
        let publishes = publishes_until(&client, hit, begun);
        let ((times, refused), (writable, busy, idle)) = beside(&client, &others, async {
            let writable = async {
                let new = cluster.taken_over(slot, old).await;
                let key = format!("{{{hit}:0}}:writable");
                while ask::<()>(cluster.node(new), &["SET", &key, "1"]).await.is_err() {}
                let writable = Instant::now();
                // The first request that the idle one gets.
                while other.publish(hit, json!({"payload": 1})).await.status != 201 {}
                (writable, writable.elapsed())
            };
            let ((writable, idle), busy) = tokio::join!(writable, publishes);
            (writable, busy.saturating_duration_since(writable), idle)
        })
        .await;
        eprintln!("a replica took over within {:?}", writable - begun);
        meanwhile.extend(times);
        errors += refused as f64;
        first.push(busy.as_secs_f64() * 1e3);
        first_idle.push(idle.as_secs_f64() * 1e3);
        cluster.restart(old).await;
        cluster.is_whole().await;
    }
    let slowest = |times: Vec<f64>| [times.into_iter().fold(0.0, f64::max)];
    let within = Wanted::AtMost(500.0);
    let what = format!("first 2xx after a new primary, slowest of {FAILOVERS}");
    table.figure(&what, within, "ms", slowest(first));
    table.figure("the same at an instance that was idle", within, "ms", slowest(first_idle));
    let what = "publishes to other primaries refused meanwhile";
    table.figure(what, Wanted::AtMost(0.0), "publishes", [errors]);
    let pair = Some((p99(meanwhile), p99(calm)));
    table.compare(
        "p99 of these: meanwhile / before",
        Wanted::AtMost(2.0),
        "ms",
        [pair].into_iter(),
    );
}

/// Publishes to this topic until one is answered 201 after another answer, or after another second: when that was.
async fn publishes_until(client: &Client, topic: &str, begun: Instant) -> Instant {
    let mut refused = false;
    loop {
        let answer = client.publish(topic, json!({"payload": 1})).await;
        refused |= answer.status != 201;
        if answer.status == 201 && (refused || begun.elapsed() > Duration::from_secs(5)) {
            return Instant::now();
        }
        sleep(Duration::from_millis(2)).await;
    }
}

/// Publishes to these topics while something else goes on: how long each took, ms, and how many were refused.
pub async fn beside<T>(
    client: &Client,
    topics: &[String],
    work: impl Future<Output = T>,
) -> ((Vec<f64>, usize), T) {
    let over = AtomicBool::new(false);
    let publishes = async {
        let (mut times, mut refused) = (Vec::new(), 0);
        for topic in topics.iter().cycle() {
            if over.load(Relaxed) {
                break;
            }
            let begun = Instant::now();
            let answer = client.publish(topic, json!({"payload": 1})).await;
            times.push(begun.elapsed().as_secs_f64() * 1e3);
            refused += usize::from(answer.status != 201);
            sleep(Duration::from_millis(2)).await;
        }
        (times, refused)
    };
    let work = async {
        let done = work.await;
        over.store(true, Relaxed);
        done
    };
    tokio::join!(publishes, work)
}

const PARTITIONS: u8 = 16;
/// Messages of each partition's backlog, and of the long one.
const BACKLOG: usize = 100;
const LONG: usize = 10 * BACKLOG;
/// Messages that come while the backlog is worked off, one every so many ms.
const LATER: usize = 800;
const EVERY: u64 = 5;

/// How old messages of the other partitions are when they are granted while one partition has ten times their backlog, beside
/// the same backlog spread evenly.
pub async fn fairness(table: &mut Table) {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    let client = dueq.client();
    // A key is at home in the same partition of every topic.
    let scratch = topic("homes");
    client.new_topic(&scratch, json!({"partitions": PARTITIONS})).await;
    let keys: Vec<String> = (0..40_000).map(|n| format!("key-{n}")).collect();
    let messages: Vec<Value> = keys.iter().map(|key| json!({"payload": 0, "key": key})).collect();
    let mut homes: BTreeMap<u8, Vec<String>> = BTreeMap::new();
    for (key, id) in keys.into_iter().zip(client.fill(&scratch, &messages).await) {
        homes.entry(partition_of(&id)).or_default().push(key);
    }
    client.delete_topic(&scratch, "?force=true").await;
    let mut rounds = Vec::new();
    for round in 0..3 {
        let even = usize::from(PARTITIONS - 1) * BACKLOG + LONG;
        let even = even / usize::from(PARTITIONS);
        let uneven = ages(&client, &homes, |partition| if partition == 0 { LONG } else { BACKLOG });
        let pair = (uneven.await, ages(&client, &homes, |_| even).await);
        eprintln!("round {}: {pair:?}", round + 1);
        rounds.push(Some(pair));
    }
    let what = "p99 age of others: beside ten times their backlog / all alike";
    table.compare(what, Wanted::AtMost(2.0), "ms", rounds.into_iter());
}

/// The p99 age at their grant of messages that come later into all partitions but the first, ms.
async fn ages(
    client: &Client,
    homes: &BTreeMap<u8, Vec<String>>,
    backlog: impl Fn(u8) -> usize,
) -> f64 {
    let topic = topic("ages");
    client.new_topic(&topic, json!({"partitions": PARTITIONS})).await;
    let mut homes: BTreeMap<u8, _> = homes.iter().map(|(p, keys)| (*p, keys.iter())).collect();
    let mut message = |partition: u8, later: bool, at: u128| {
        let key = homes.get_mut(&partition).and_then(|keys| keys.next()).expect("a key");
        json!({"payload": [later, at as u64], "key": key})
    };
    let begun = Instant::now();
    let mut first = Vec::new();
    for partition in 0..PARTITIONS {
        first.extend((0..backlog(partition)).map(|_| message(partition, false, 0)));
    }
    client.fill(&topic, &first).await;
    let later = AtomicUsize::new(LATER);
    let publish = async {
        for n in 0..LATER {
            let partition = 1 + (n % usize::from(PARTITIONS - 1)) as u8;
            let message = message(partition, true, begun.elapsed().as_millis());
            client.published(&topic, message).await;
            sleep(Duration::from_millis(EVERY)).await;
        }
    };
    // Two that work on each message for a moment.
    let consume = || async {
        let mut ages = Vec::new();
        while later.load(Relaxed) > 0 {
            let want = json!({"max_messages": 2, "lease_ms": 60_000, "wait_ms": 200});
            for held in client.leased(&topic, want).await {
                let [known, at] = &held["payload"].as_array().expect("a pair")[..] else {
                    panic!("a pair: {held}")
                };
                if known == &json!(true) {
                    let at = u128::from(at.as_u64().expect("a number"));
                    ages.push((begun.elapsed().as_millis() - at) as f64);
                    later.fetch_sub(1, Relaxed);
                }
                sleep(Duration::from_millis(1)).await;
                client.ack_leased(&held).await.expect(204);
            }
        }
        ages
    };
    let (_, one, other) = tokio::join!(publish, consume(), consume());
    client.delete_topic(&topic, "?force=true").await;
    p99(one.into_iter().chain(other).collect())
}

/// Clients, and lives of each in one measurement.
const CLIENTS: usize = 64;
const LIVES: usize = 200;

/// Processor time of a message's life, of dueq and Redis together, at one instance and at several.
pub async fn instances(table: &mut Table) {
    let redis = Redis::start().await;
    let mut all = Vec::new();
    for _ in 0..4 {
        all.push(Dueq::on(&redis).start().await);
    }
    let used = || {
        let pids = all.iter().map(Dueq::pid).chain([redis.pid()]);
        let hundredths = pids.map(|pid| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("its stat");
            cpu_hundredths(&stat) as f64
        });
        hundredths.sum::<f64>() * 10_000.0
    };
    let (mut two, mut four) = (Vec::new(), Vec::new());
    for round in 0..crate::ROUNDS {
        let mut costs = Vec::new();
        for number in [1, 2, 4] {
            let (name, before) = (topic("lives"), used());
            let mut clients = JoinSet::new();
            for n in 0..CLIENTS {
                let (client, name) = (all[n % number].client(), name.clone());
                clients.spawn(async move {
                    for _ in 0..LIVES {
                        client.published(&name, json!({"payload": "x".repeat(198)})).await;
                        let held = client.lease_one(&name).await;
                        client.ack_leased(&held).await.expect(204);
                    }
                });
            }
            clients.join_all().await;
            costs.push((used() - before) / (CLIENTS * LIVES) as f64);
        }
        eprintln!("round {}: {costs:.1?}", round + 1);
        two.push(Some((costs[1], costs[0])));
        four.push(Some((costs[2], costs[0])));
    }
    let within = Wanted::Between(0.9, 1.1);
    table.compare("CPU of a life: 2 instances / 1", within, "µs", two.into_iter());
    table.compare("CPU of a life: 4 instances / 1", within, "µs", four.into_iter());
}
