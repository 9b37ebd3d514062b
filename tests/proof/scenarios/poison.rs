//! Messages that always fail, among healthy ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::crew::Crew;
use super::findings::{BITE, Findings};
use super::slices::{Pairs, slice};
use crate::harness::{Client, number, text, topic};
use crate::proof::stage::{Report, Setting};

/// Counted grants until a message is dead.
const MAX_ATTEMPTS: i64 = 3;
/// Messages of a batch; in a poisoned topic one of them always fails.
const BATCH: usize = 100;
const WORKERS: usize = 6;
/// Failed messages are given back so many at once.
const FAILED: usize = 20;
/// How much of the throughput without poison the healthy ones must have.
const LEAST: f64 = 0.95;

/// `attempt` and `attempts_left` of the grants of each poisoned message.
type Attempts = BTreeMap<String, Vec<(i64, i64)>>;

/// One topic of the two.
#[derive(Clone)]
struct Stream {
    client: Client,
    topic: String,
    poisoned: bool,
    attempts: Arc<Mutex<Attempts>>,
    poison: Arc<Mutex<BTreeSet<String>>>,
    /// Those that failed and are still held.
    failed: Arc<Mutex<Vec<Value>>>,
}

/// One message in a hundred always fails: each of these is dead after exactly `max_attempts` grants, once, no healthy one is,
/// and the healthy ones have (in the long form) at least 95 % of the throughput of a topic without poison, measured in slices
/// that take turns.
pub async fn poison(setting: Setting) -> Report {
    let mut findings = Findings::new("poison", &setting);
    let crew = Crew::start(&setting, 2).await;
    let config = json!({"max_attempts": MAX_ATTEMPTS, "backoff": {"kind": "fixed", "base_ms": 50}});
    let mut streams = Vec::new();
    for poisoned in [false, true] {
        let (client, topic) = (crew.client(usize::from(poisoned)), topic("poison"));
        client.configure(&topic, config.clone()).await;
        let (attempts, poison, failed) = Default::default();
        streams.push(Stream { client, topic, poisoned, attempts, poison, failed });
    }
    let (plain, poisoned) = (&streams[0], &streams[1]);
    let long = setting.messages > 0;
    let time = Duration::from_millis(if long { 500 } else { 250 });
    let mut pairs = Pairs::default();
    let published = async |stream: &Stream| stream.client.total(&stream.topic, "published").await;
    loop {
        pairs.measure(|| work(plain, time), || work(poisoned, time)).await;
        let enough = if long { setting.messages as i64 } else { 5 * BATCH as i64 };
        if published(poisoned).await >= enough && (!long || pairs.settled()) {
            break;
        }
    }
    let rate = format!("healthy messages with poison and without: {pairs}");
    findings.tell(&rate);
    findings.demand(!long || pairs.reaches(LEAST), "the rate", || rate);
    let end = Instant::now() + Duration::from_secs(20);
    for stream in &streams {
        while stream.client.total(&stream.topic, "acked").await
            + stream.client.count(&stream.topic, "dead").await
            < published(stream).await
            && Instant::now() < end
        {
            step(stream, 0).await;
        }
        findings.tally().published += published(stream).await as u64;
        findings.tally().grants += stream.client.total(&stream.topic, "granted").await as u64;
        findings.audit(&crew.redis, &stream.client, &stream.topic).await;
    }
    judge(&mut findings, plain).await;
    judge(&mut findings, poisoned).await;
    findings.demand(poisoned.poison.lock().unwrap().len() >= 5, BITE, || "no poison".into());
    findings.report()
}

/// The dead are the poisoned ones, each once and after exactly so many attempts.
async fn judge(findings: &mut Findings, stream: &Stream) {
    let (client, topic) = (&stream.client, &stream.topic);
    let (poison, attempts) =
        (stream.poison.lock().unwrap().clone(), stream.attempts.lock().unwrap().clone());
    let listed = client.listed(topic, "state=dead&limit=1000").await;
    let dead: BTreeSet<String> = listed.iter().map(|m| text(m, "id").to_owned()).collect();
    let totals = client.topic(topic).await.expect(200).json()["totals"].take();
    findings.demand(dead == poison && listed.len() == dead.len(), "I7", || {
        let healthy = dead.difference(&poison).count();
        format!("{} poisoned, {} dead, {healthy} of them healthy", poison.len(), listed.len())
    });
    let died = number(&totals, "dead");
    findings.demand(died == poison.len() as i64, "I7", || {
        format!("{} died {died} times", poison.len())
    });
    let every: Vec<_> = (1..=MAX_ATTEMPTS).map(|n| (n, MAX_ATTEMPTS - n)).collect();
    for id in &poison {
        let mut granted = attempts.get(id).cloned().unwrap_or_default();
        granted.sort_unstable();
        findings.demand(granted == every, "I7", || format!("{id} was granted as {granted:?}"));
    }
    for message in &listed {
        let (attempts, left) = (number(message, "attempts"), number(message, "attempts_left"));
        findings.demand((attempts, left) == (MAX_ATTEMPTS, 0), "I7", || format!("died: {message}"));
    }
}

/// A slice of work; healthy messages acked per second.
async fn work(stream: &Stream, time: Duration) -> f64 {
    let stream = stream.clone();
    slice(WORKERS, time, move || {
        let stream = stream.clone();
        async move { step(&stream, BATCH).await }
    })
    .await
}

/// Publishes a batch, leases one, acks what is healthy and gives back the rest; how many were acked.
async fn step(stream: &Stream, publish: usize) -> usize {
    let Stream { client, topic, .. } = stream;
    if publish > 0 {
        let message = |n| json!({"payload": {"fails": stream.poisoned && n == BATCH / 2}});
        let messages: Vec<Value> = (0..publish).map(message).collect();
        let results = client.published_batch(topic, &messages).await;
        if stream.poisoned {
            let id = text(&results[BATCH / 2]["message"], "id").to_owned();
            stream.poison.lock().unwrap().insert(id);
        }
    }
    let want = json!({"max_messages": BATCH + 5, "wait_ms": 20, "lease_ms": 60_000});
    let held = client.leased(topic, want).await;
    let (bad, good): (Vec<_>, Vec<_>) =
        held.iter().partition(|message| message["payload"]["fails"] == true);
    for message in &bad {
        let attempt = (number(message, "attempt"), number(message, "attempts_left"));
        let mut attempts = stream.attempts.lock().unwrap();
        attempts.entry(text(message, "id").to_owned()).or_default().push(attempt);
    }
    let token = |m: &&Value| json!({"id": m["id"], "lease_token": m["lease_token"]});
    let acks = good.iter().map(token).collect();
    let nacks = {
        let mut failed = stream.failed.lock().unwrap();
        failed.extend(bad.iter().map(token));
        let enough = failed.len() >= FAILED || publish == 0;
        if enough { std::mem::take(&mut *failed) } else { Vec::new() }
    };
    tokio::join!(use_all(client, "ack", acks), use_all(client, "nack", nacks));
    good.len()
}

/// An ackBatch or a nackBatch that must succeed for all.
async fn use_all(client: &Client, verb: &str, messages: Vec<Value>) {
    if !messages.is_empty() {
        for result in client.held_batch(verb, &messages).await {
            assert_eq!(result["status"], "ok", "{verb}: {result}");
        }
    }
}
