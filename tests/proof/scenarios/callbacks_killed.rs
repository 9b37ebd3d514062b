//! An instance that is killed in the middle of its callbacks.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::crew::Crew;
use super::findings::{BITE, Findings};
use crate::harness::{Client, Receiver, Redis, Reply, eventually, number, text, topic};
use crate::proof::history::Ms;
use crate::proof::stage::{Report, Setting};

const MAX_ATTEMPTS: i64 = 8;
/// How long dueq holds a message that it calls, ms.
const LEASE: Ms = 30_000;
/// Messages of a round.
const BATCH: usize = 40;

/// One instance after another calls a receiver and is killed while calls are under way; what it held is anybody's after 30 s,
/// which the test makes shorter in Redis, because nobody lives who could hold it. Every message is called with success at
/// least once, or is dead after exactly `max_attempts`; after a 2xx that Redis knows of it is called no more (I14).
pub async fn callbacks_killed(setting: Setting) -> Report {
    let mut findings = Findings::new("callbacks_killed", &setting);
    let mut crew = Crew::start(&setting, 1).await;
    let (receiver, topic) = (Receiver::start().await, topic("callbacks-killed"));
    receiver.answer(Reply::status(200).after(Duration::from_millis(60)));
    receiver.answer_at("/fails", Reply::status(500).after(Duration::from_millis(5)));
    let push = json!({"max_in_flight": 16, "max_in_flight_per_host": 16});
    let config = json!({
        "push": push, "max_attempts": MAX_ATTEMPTS, "backoff": {"kind": "fixed", "base_ms": 60},
        "retention": {"acked_ms": 3_600_000},
    });
    crew.client(0).configure(&topic, config).await;
    let (mut sent, mut under_way) = (Vec::new(), 0);
    for _ in 0..setting.rounds {
        let message = |n: usize| {
            let path = if n.is_multiple_of(10) { "/fails" } else { "/works" };
            json!({"payload": n, "callback": {"url": receiver.url(path)}})
        };
        let messages: Vec<Value> = (0..BATCH).map(message).collect();
        // On a busy machine a batch may be over before anybody looks: then another one is sent.
        loop {
            let before = receiver.count();
            let ids = crew.client(0).fill(&topic, &messages).await;
            sent.extend(ids.into_iter().zip(0..).map(|(id, n)| (id, n % 10 == 0)));
            receiver.wait_for(before + BATCH / 2).await;
            if receiver.under_way() > 8 {
                break;
            }
        }
        crew.instances[0].kill9();
        findings.tally().instance_kills += 1;
        under_way += end_leases(&crew.redis, &topic).await;
        crew.replace(0).await;
    }
    let client = crew.client(0);
    eventually("all is called or dead", || async {
        let counts = client.topic(&topic).await.expect(200).json()["counts"].take();
        let (acked, dead) = (number(&counts, "acked"), number(&counts, "dead"));
        ((acked + dead) as usize == sent.len()).then_some(())
    })
    .await;
    sleep(Duration::from_millis(300)).await; // a call too many would come at once
    let mut calls: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for call in receiver.calls() {
        calls.entry(call.id().to_owned()).or_default().push(call.attempt());
    }
    let mut repeated = 0;
    for (id, fails) in &sent {
        let calls = calls.get(id).cloned().unwrap_or_default();
        repeated += usize::from(!fails && calls.len() > 1);
        judge(&mut findings, &client, id, *fails, &calls, setting.rounds as i64).await;
    }
    findings.tell(format!(
        "{under_way} messages held at a kill, {repeated} called again, {} calls for {} messages",
        receiver.count(),
        sent.len()
    ));
    findings.demand(under_way > setting.rounds, BITE, || format!("{under_way} held at the kills"));
    findings.demand(repeated > 0, BITE, || "no call was broken off".into());
    findings.tally().published += sent.len() as u64;
    findings.tally().granted += calls.len() as u64;
    findings.tally().grants += receiver.count() as u64;
    findings.audit(&crew.redis, &client, &topic).await;
    findings.report()
}

/// Holds the calls of one message against what Redis says of it.
async fn judge(
    findings: &mut Findings,
    client: &Client,
    id: &str,
    fails: bool,
    calls: &[i64],
    kills: i64,
) {
    let seen = client.get(id).await.expect(200).json();
    let (state, attempts) = (text(&seen, "state").to_owned(), number(&seen, "attempts"));
    let mut say = |invariant: &str, what: String| {
        findings.broken_in(invariant, format!("{id}: {what}"), vec![seen.to_string()]);
    };
    let mut once = calls.to_vec();
    once.sort_unstable();
    once.dedup();
    if once.len() != calls.len() {
        say("I5", format!("one attempt called twice: {calls:?}"));
    }
    let times = calls.len() as i64;
    if times > MAX_ATTEMPTS {
        say("I7", format!("called {times} times in {attempts} attempts"));
    }
    // Attempts that found no free place have a number and do not count; one that a kill ended may not have arrived.
    let used_up = attempts >= MAX_ATTEMPTS && seen["attempts_left"] == 0;
    if state == "dead" && (!used_up || times < MAX_ATTEMPTS - kills) {
        say("I7", format!("dead after {times} calls in {attempts} attempts"));
    }
    if fails && state != "dead" {
        say("I14", format!("{state}, and its receiver only fails"));
    }
    let recorded = seen["events"].as_array().expect("events").iter().rev().find(|event| {
        event["kind"] == "called"
            && event["status"].as_i64().is_some_and(|s| (200..300).contains(&s))
    });
    let last = calls.iter().max().copied().unwrap_or(0);
    match recorded {
        Some(event) if number(event, "attempt") < last => {
            say("I14", format!("called again ({last}) after a recorded 2xx: {event}"));
        }
        None if state == "acked" => say("I14", "acked without a recorded 2xx".into()),
        _ => {}
    }
}

/// Ends the leases of dead instances, half a second from now; how many there were.
async fn end_leases(redis: &Redis, topic: &str) -> usize {
    let key = format!("dueq:{{{topic}:0}}:unack");
    let held: usize = redis.command(&["ZCARD", &key]).await;
    // A score is deadline × 2048 + some bits (`migrations-lua/README.md`).
    let sooner = (2_048 * (LEASE - 500)).to_string();
    let last = format!("dueq:{{{topic}:0}}:last");
    for key in [&key, &last] {
        let _: i64 = redis.command(&["EVAL", SHORTEN, "1", key, &sooner]).await;
    }
    held
}

const SHORTEN: &str = "
    local held = redis.call('ZRANGE', KEYS[1], 0, -1)
    for _, member in ipairs(held) do redis.call('ZINCRBY', KEYS[1], -ARGV[1], member) end
    return #held";
