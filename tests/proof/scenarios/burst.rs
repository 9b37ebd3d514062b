//! Many messages that fall due in one millisecond.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use deadpool_redis::redis;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::crew::Crew;
use super::findings::{BITE, Findings};
use crate::harness::{Client, Redis, instant, instant_ms, text, topic};
use crate::proof::history::Ms;
use crate::proof::stage::{Report, Setting};

const LEASE: Ms = 60_000;
/// The most messages that one script call may take (`migrations-lua/README.md` says fewer).
const CALL: usize = 256;

/// What was granted: when, by the message's id.
type Granted = Arc<Mutex<BTreeMap<String, Vec<Ms>>>>;

/// 200,000 messages (5,000 in the short form) are due in the same millisecond: each is granted once and none early, in script
/// calls that are bounded, and Redis answers others meanwhile.
pub async fn burst(setting: Setting) -> Report {
    let mut findings = Findings::new("burst", &setting);
    let long = setting.messages > 0;
    let batches = if long { setting.messages.div_ceil(1_000) } else { 5 };
    let (messages, slow_ms) = (1_000 * batches, if long { 20.0 } else { 250.0 });
    let crew = Crew::start(&setting, 2).await;
    let clients = [crew.client(0), crew.client(1)];
    // As far ahead as it takes to publish them all: a trial tells how long some take.
    let (begin, far) = (Instant::now(), instant(crew.redis.time_ms().await + 86_400_000));
    let trial = batches.min(8);
    publish(&clients, &topic("burst-trial"), &far, trial).await;
    let mut ahead = begin.elapsed().as_millis() as usize * 2 * batches.div_ceil(trial) + 500;
    let mut tries = 0;
    let (topic, due, early) = loop {
        let (topic, due) = (topic("burst"), crew.redis.time_ms().await + ahead as Ms);
        publish(&clients, &topic, &instant(due), batches).await;
        let early = due - crew.redis.time_ms().await;
        (tries, ahead) = (tries + 1, 2 * ahead);
        if early > 0 || tries == 3 {
            break (topic, due, early);
        }
    };
    findings.demand(early > 0, BITE, || format!("published {} ms after they fell due", -early));
    let _: String = crew.redis.command(&["CONFIG", "SET", "slowlog-log-slower-than", "1000"]).await;
    let _: String = crew.redis.command(&["CONFIG", "SET", "slowlog-max-len", "100000"]).await;
    let _: String = crew.redis.command(&["SLOWLOG", "RESET"]).await;
    let calls = script_calls(&crew.redis).await;
    let done = Arc::new(AtomicBool::new(false));
    let (url, until) = (crew.redis.url(), done.clone());
    let pings = std::thread::spawn(move || ping(&url, &until));
    let (granted, begin) = (Granted::default(), Instant::now());
    let mut consumers = JoinSet::new();
    for n in 0..8 {
        let (client, topic) = (clients[n % 2].clone(), topic.clone());
        consumers.spawn(consume(client, topic, granted.clone(), messages));
    }
    consumers.join_all().await;
    done.store(true, Ordering::Relaxed);
    let took = begin.elapsed().as_secs_f64() - early as f64 / 1e3;
    let pings = pings.join().expect("the pings");
    let calls = script_calls(&crew.redis).await - calls;
    let scripts = slow_scripts(&crew.redis).await;
    // What the machine does to Redis meanwhile is in the slowest hundredth, so that is told and not judged.
    let [script, slowest_script] = [calls / 100, 0].map(|n| scripts.get(n).copied().unwrap_or(1.0));
    let [ping, slowest_ping] = [pings.len() / 100, 0].map(|n| pings.get(n).copied().unwrap_or(0.0));
    findings.tell(format!(
        "{messages} granted and acked in {took:.1} s by {calls} script calls, p99 {script:.1} ms, at most \
         {slowest_script:.1} ms; PING p99 {ping:.1} ms, at most {slowest_ping:.1} ms"
    ));
    findings.demand(calls * CALL >= messages, "the bound", || {
        format!("{messages} messages went through {calls} script calls")
    });
    findings.demand(script < slow_ms, "the bound", || format!("scripts took {script:.1} ms (p99)"));
    findings.demand(ping < 5.0 * slow_ms, "the bound", || format!("Redis took {ping:.1} ms (p99)"));
    let granted = std::mem::take(&mut *granted.lock().unwrap());
    findings.tally().published += messages as u64;
    findings.tally().granted += granted.len() as u64;
    for (id, grants) in &granted {
        findings.tally().grants += grants.len() as u64;
        findings.demand(grants.len() == 1, "I4", || format!("{id} was granted at {grants:?}"));
        let early = due - grants[0];
        findings.tally().early += u64::from(early > 0);
        findings.demand(early <= 0, "I3", || format!("{id} was granted {early} ms early"));
    }
    let lost = messages - granted.len();
    findings.tally().lost += lost as u64;
    findings.demand(lost == 0, "I1", || format!("{lost} messages were never granted"));
    findings.audit(&crew.redis, &clients[0], &topic).await;
    findings.report()
}

/// Publishes so many thousands that are due at this instant.
async fn publish(clients: &[Client; 2], topic: &str, due: &str, batches: usize) {
    let batch = vec![json!({"payload": "now", "deliver_at": due}); 1_000];
    stream::iter(0..batches)
        .for_each_concurrent(8, |n| {
            let (client, batch) = (&clients[n % 2], &batch);
            async move { drop(client.published_batch(topic, batch).await) }
        })
        .await;
}

/// Leases and acks until everything was granted, or nothing has come for 10 s.
async fn consume(client: Client, topic: String, granted: Granted, all: usize) {
    let (mut acks, mut last): (Vec<Value>, _) = (Vec::new(), Instant::now());
    while granted.lock().unwrap().len() < all && last.elapsed() < Duration::from_secs(60) {
        let want = json!({"max_messages": 500, "lease_ms": LEASE, "wait_ms": 500, "acks": acks});
        let held = client.leased(&topic, want).await;
        if !held.is_empty() {
            last = Instant::now();
        }
        let mut granted = granted.lock().unwrap();
        for message in &held {
            let at = instant_ms(text(message, "lease_expires_at")) - LEASE;
            granted.entry(text(message, "id").to_owned()).or_default().push(at);
        }
        let ack = |m: &Value| json!({"id": m["id"], "lease_token": m["lease_token"]});
        acks = held.iter().map(ack).collect();
    }
    client.lease(&topic, json!({"acks": acks})).await.expect(200);
}

/// How long Redis let another client wait each time, ms, longest first; on a thread of its own, which waits for nothing else.
fn ping(url: &str, done: &AtomicBool) -> Vec<f64> {
    let mut connection = redis::Client::open(url).unwrap().get_connection().expect("a connection");
    let mut took = Vec::new();
    while !done.load(Ordering::Relaxed) {
        let begin = Instant::now();
        let _: String = redis::cmd("PING").query(&mut connection).expect("a PONG");
        took.push(begin.elapsed().as_secs_f64() * 1e3);
        std::thread::sleep(Duration::from_millis(2));
    }
    took.sort_by(|a, b| b.total_cmp(a));
    took
}

/// Scripts that Redis has run.
async fn script_calls(redis: &Redis) -> usize {
    let stats: String = redis.command(&["INFO", "commandstats"]).await;
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    line.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0)
}

/// How long the scripts of Redis's log of slow ones took (above 1 ms), longest first.
async fn slow_scripts(redis: &Redis) -> Vec<f64> {
    type Entry = (i64, i64, i64, Vec<redis::Value>, String, String);
    let entries: Vec<Entry> = redis.command(&["SLOWLOG", "GET", "-1"]).await;
    let script = |entry: &&Entry| matches!(entry.3.first(), Some(redis::Value::BulkString(name)) if name.starts_with(b"EVAL"));
    let took = entries.iter().filter(script).map(|entry| entry.2 as f64 / 1e3);
    let mut took: Vec<f64> = took.collect();
    took.sort_by(|a, b| b.total_cmp(a));
    took
}
