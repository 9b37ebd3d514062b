//! Many messages that are not due for long.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use serde_json::{Value, json};

use super::crew::Crew;
use super::findings::{BITE, Findings};
use super::slices::{Pairs, slice};
use crate::harness::{Client, topic};
use crate::proof::stage::{Report, Setting};

/// Clients that publish, lease and ack.
const WORKERS: usize = 32;
/// How much of the empty topic's rate must be left.
const LEAST: f64 = 0.90;

/// Alongside `setting.messages` messages (1,000,000 are meant) that are due in a year publishing, leasing and acking is as fast
/// as in an empty topic. The short form puts 3,000 there and leaves the rate out.
pub async fn million_delayed(setting: Setting) -> Report {
    let mut findings = Findings::new("million_delayed", &setting);
    let long = setting.messages > 0;
    let (delayed, time) = if long { (setting.messages, 500) } else { (3_000, 150) };
    // A Redis for each, so that the empty one is as empty as can be; the one that rests costs nothing.
    let (empty, full) = (Crew::start(&setting, 1).await, Crew::start(&setting, 1).await);
    let (here, there, topic) = (empty.client(0), full.client(0), topic("delayed"));
    let message = json!({"payload": "x".repeat(100), "delay_ms": 31_536_000_000_i64});
    let batches = delayed.div_ceil(1_000);
    stream::iter(0..batches)
        .for_each_concurrent(8, |_| async {
            there.published_batch(&topic, &vec![message.clone(); 1_000]).await;
        })
        .await;
    let counted = there.count(&topic, "delayed").await as usize;
    findings.demand(counted >= delayed, BITE, || format!("only {counted} are delayed"));
    let time = Duration::from_millis(time);
    let mut rates = Pairs::default();
    // The first pair is for the caches.
    rates.measure(|| lives(&here, &topic, time), || lives(&there, &topic, time)).await;
    let mut measured = Pairs::default();
    while long && !measured.settled() {
        measured.measure(|| lives(&here, &topic, time), || lives(&there, &topic, time)).await;
    }
    if long {
        let rate = format!("lives beside {counted} delayed messages and without: {measured}");
        findings.tell(&rate);
        findings.demand(measured.reaches(LEAST), "the rate", || rate);
    }
    findings.tally().published += counted as u64;
    if !long {
        findings.audit(&full.redis, &there, &topic).await;
    }
    findings.report()
}

/// Publishes, leases and acks, one message at a time; lives per second.
async fn lives(client: &Client, topic: &str, time: Duration) -> f64 {
    let (client, topic) = (client.clone(), topic.to_owned());
    slice(WORKERS, time, move || {
        let (client, topic) = (client.clone(), topic.clone());
        async move {
            client.published(&topic, json!({"payload": "x".repeat(100)})).await;
            let leased: Vec<Value> = client.leased(&topic, json!({"wait_ms": 1_000})).await;
            for message in &leased {
                client.ack_leased(message).await.expect(204);
            }
            leased.len()
        }
    })
    .await
}
