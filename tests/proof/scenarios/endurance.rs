//! The same work again and again: what it needs the second time it needs the tenth time, too.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::crew::Crew;
use super::findings::{BITE, Findings};
use crate::harness::{Client, memory_kib, topic, unknown_id};
use crate::proof::stage::{Report, Setting};

/// Turns that fill pools and caches, and those that are measured.
const WARM: usize = 3;
/// Requests of each kind at once, and so many times in a turn.
const AT_ONCE: usize = 12;
const TIMES: usize = 6;

/// Clients publish, lease, ack, nack, look, leave long polls, ask for what is not there and send what is refused, in turns;
/// memory does not grow from turn to turn. Descriptors are looked at by the watch.
pub async fn endurance(setting: Setting) -> Report {
    let mut findings = Findings::new("endurance", &setting);
    let crew = Crew::start(&setting, 1).await;
    let (client, topic) = (crew.client(0), topic("endurance"));
    let turns = if setting.messages > 0 { 60 } else { 6 };
    // An allocator keeps what it got, and that is settled after the first turns; 1 KiB a request would be more.
    let most_kib = if setting.messages > 0 { 16 * 1024 } else { 4 * 1024 };
    let pid = crew.instances[0].pid();
    for _ in 0..WARM * TIMES {
        work(&client, &topic).await;
    }
    // What is kept for ever grows each time. What the allocator took once, because a busy machine did more at once, does not.
    let mut grown = usize::MAX;
    for _ in 0..3 {
        let before = memory_kib(pid).unwrap_or(0);
        let mut requests = 0;
        for _ in 0..turns * TIMES {
            requests += work(&client, &topic).await;
        }
        sleep(Duration::from_millis(300)).await;
        let after = memory_kib(pid).unwrap_or(0);
        findings.tell(format!("{requests} requests, memory {before} → {after} KiB"));
        findings.demand(before > 0 && requests > 1_000, BITE, || format!("{requests} requests"));
        grown = grown.min(after.saturating_sub(before));
        if grown < most_kib {
            break;
        }
    }
    findings.demand(grown < most_kib, "no growth", || {
        format!("{grown} KiB more, three times, after requests that leave nothing behind")
    });
    findings.tally().published += client.total(&topic, "published").await as u64;
    findings.audit(&crew.redis, &client, &topic).await;
    findings.report()
}

/// One of everything, many at once; how many requests that was.
async fn work(client: &Client, topic: &str) -> usize {
    let payload = "x".repeat(1_000);
    let publish = |n: usize| client.publish(topic, json!({"payload": [n, payload]}));
    join_all((0..AT_ONCE).map(publish)).await;
    let want = json!({"max_messages": 1, "wait_ms": 1_000});
    let held: Vec<Value> = join_all((0..AT_ONCE).map(|_| client.leased(topic, want.clone())))
        .await
        .into_iter()
        .flatten()
        .collect();
    let (failed, done) = held.split_at(held.len() / 3);
    join_all(failed.iter().map(|m| client.nack_leased(m, json!({"release": true})))).await;
    join_all(done.iter().map(|m| client.ack_leased(m))).await;
    let rest = client.leased(topic, json!({"max_messages": AT_ONCE, "wait_ms": 1_000})).await;
    join_all(rest.iter().map(|m| client.ack_leased(m))).await;
    let nobody = unknown_id();
    join_all((0..AT_ONCE).map(|_| client.get(&nobody))).await;
    let wrong = json!({"payload": 1, "delay_ms": "soon"});
    join_all((0..AT_ONCE).map(|_| client.publish(topic, wrong.clone()))).await;
    // Long polls whose clients go away.
    let long = json!({"wait_ms": 20_000});
    let leave =
        (0..AT_ONCE).map(|_| timeout(Duration::from_millis(10), client.lease(topic, long.clone())));
    join_all(leave).await;
    5 * AT_ONCE + held.len() + rest.len() + 1
}
