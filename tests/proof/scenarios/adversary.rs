//! A client whose settings are the adversary: all of them allowed, none of them kind. The watch says how long Redis was
//! held meanwhile.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::crew::Crew;
use super::findings::{CONTRACT, Findings};
use crate::harness::{Client, number, text, topic};
use crate::proof::clients::drafts::control;
use crate::proof::clients::extreme::{self, LONGEST, PRIORITIES};
use crate::proof::stage::{Report, Setting};

/// Everything that a client may configure to hurt: bounds lowered under a backlog of all priorities, a time to live of a
/// millisecond over it, the longest reasons, backoffs that leave every range, control characters in every text. No message
/// is lost, and each does what its settings say.
pub async fn adversary(setting: Setting) -> Report {
    let mut findings = Findings::new("adversary", &setting);
    let crew = Crew::start(&setting, 2).await;
    let client = crew.client(0);
    // So many messages of each priority.
    let deep = if setting.messages > 0 { setting.messages / PRIORITIES } else { 8 };
    let begin = Instant::now();
    let mut topics = Vec::new();
    macro_rules! parts {
        ($($part:ident($($more:expr)?);)*) => {$(
            topics.push($part(&mut findings, &client $(, $more)?).await);
            findings.tell(format!("{} until {:?}", stringify!($part), begin.elapsed()));
        )*};
    }
    parts! {
        lowered_bound(deep);
        short_lives(deep);
        long_reasons();
        wild_backoffs();
        control_characters();
        extreme_messages();
    }
    for topic in &topics {
        // Redis may still be held by what was asked for.
        settled(&client, topic, |_| true).await;
        findings.tally().published += client.total(topic, "published").await as u64;
        findings.tally().grants += client.total(topic, "granted").await as u64;
        findings.audit(&crew.redis, &client, topic).await;
    }
    findings.report()
}

/// So many messages of each priority.
async fn backlog(client: &Client, topic: &str, deep: usize) {
    let messages: Vec<Value> = (0..PRIORITIES * deep)
        .map(|n| json!({"payload": n, "priority": 1 + n % PRIORITIES}))
        .collect();
    for part in messages.chunks(1_000) {
        client.published_batch(topic, part).await;
    }
}

/// A topic that is full many times over drops its oldest for anyone who publishes.
async fn lowered_bound(findings: &mut Findings, client: &Client, deep: usize) -> String {
    let topic = topic("adversary-bound");
    client.configure(&topic, json!({"max_messages": 1_000_000, "on_full": "drop_oldest"})).await;
    backlog(client, &topic, deep).await;
    client.reconfigure(&topic, json!({"max_messages": 10})).await;
    let batch: Vec<Value> = (0..200).map(|n| json!({"payload": n, "priority": n % 256})).collect();
    let many = join_all((0..4).map(|_| client.publish_batch(&topic, &batch))).await;
    let one = join_all((0..64).map(|n| client.publish(&topic, json!({"payload": n})))).await;
    let refused = many.iter().chain(&one).filter(|answer| answer.status >= 300);
    for answer in refused.take(3) {
        findings.broken(CONTRACT, format!("a publish at the bound: {answer}"));
    }
    // Each publish takes some of what is too much along, until all of it is gone.
    let end = Instant::now() + Duration::from_secs(20);
    let mut left = settled(client, &topic, |_| true).await;
    while live(&left) > 10 && Instant::now() < end {
        client.publish_batch(&topic, &batch).await;
        left = settled(client, &topic, |_| true).await;
    }
    findings.demand(live(&left) <= 10, CONTRACT, || format!("more than 10 are left: {left}"));
    topic
}

/// Everything in a topic outlives its time at once.
async fn short_lives(findings: &mut Findings, client: &Client, deep: usize) -> String {
    let topic = topic("adversary-ttl");
    client.configure(&topic, json!({})).await;
    backlog(client, &topic, deep).await;
    client.reconfigure(&topic, json!({"ttl_ms": 1})).await;
    let begin = Instant::now();
    let waited = client.leased(&topic, json!({"max_messages": 10, "wait_ms": 100})).await;
    let took = begin.elapsed();
    findings.demand(waited.is_empty(), CONTRACT, || format!("{} outlived", waited.len()));
    // 500 ms are the promise; two busy cores and a debug build may add to it.
    findings.demand(took < Duration::from_millis(1_600), "I12", || {
        format!("a long poll of 100 ms was answered after {took:?}")
    });
    let left = settled(client, &topic, |counts| live(counts) == 0).await;
    findings.demand(live(&left) == 0, CONTRACT, || format!("not expired: {left}"));
    let expired = client.total(&topic, "expired").await;
    let all = (PRIORITIES * deep) as i64;
    findings.demand(expired == all, "I9", || format!("{expired} of {all} expired"));
    topic
}

/// As many failures at once as there can be, each with the longest reason, until all are dead.
async fn long_reasons(findings: &mut Findings, client: &Client) -> String {
    let topic = topic("adversary-reasons");
    let (count, attempts) = (256, 3);
    client
        .configure(
            &topic,
            json!({"max_attempts": attempts, "backoff": {"kind": "fixed", "base_ms": 0}}),
        )
        .await;
    let messages: Vec<Value> = (0..count).map(|n| json!({"payload": n})).collect();
    client.published_batch(&topic, &messages).await;
    let reason = "🦀".repeat(1_024); // as characters are counted; four times as many bytes
    for attempt in 1..=attempts {
        let held = client.leased(&topic, json!({"max_messages": count, "wait_ms": 5_000})).await;
        findings.demand(held.len() == count, "I1", || {
            format!("attempt {attempt} has {} of {count} messages", held.len())
        });
        let nacks: Vec<Value> = held
            .iter()
            .map(|m| json!({"id": m["id"], "lease_token": m["lease_token"], "reason": reason}))
            .collect();
        for result in client.held_batch("nack", &nacks).await {
            findings.demand(result["status"] == "ok", CONTRACT, || format!("a nack: {result}"));
        }
    }
    let dead = client.listed(&topic, "state=dead&limit=1000").await;
    findings.demand(dead.len() == count, "I7", || format!("{} of {count} are dead", dead.len()));
    if let Some(one) = dead.first() {
        let seen = client.get(text(one, "id")).await.expect(200).json();
        findings.demand(seen["last_error"] == json!(reason), CONTRACT, || {
            format!("the reason is not kept: {seen}")
        });
    }
    topic
}

/// Backoffs that overflow, underflow and are no number at all, beyond any count of failures that a power can take.
async fn wild_backoffs(findings: &mut Findings, client: &Client) -> String {
    let topic = topic("adversary-backoffs");
    let exponential = |base: i64, factor: f64, max: i64, jitter: f64| json!({"kind": "exponential", "base_ms": base, "factor": factor, "max_ms": max, "jitter": jitter});
    // At once, however often they failed.
    let at_once = [
        exponential(0, 100.0, LONGEST, 1.0),
        exponential(0, 100.0, LONGEST, 0.0),
        exponential(0, 1.0, 0, 1.0),
        json!({"kind": "fixed", "base_ms": 0}),
        json!({"kind": "schedule", "delays_ms": vec![0; 100]}),
    ];
    let message = |policy: &Value| json!({"payload": 1, "max_attempts": 1_000, "backoff": policy});
    let messages: Vec<Value> = at_once.iter().map(message).collect();
    let sent: BTreeSet<String> = client.fill(&topic, &messages).await.into_iter().collect();
    let mut last = Vec::new();
    // 100 to the 155th is more than a number can be.
    for failures in 0..165 {
        let want = json!({"max_messages": 10, "wait_ms": 0, "lease_ms": 60_000});
        let mut held = client.leased(&topic, want.clone()).await;
        let end = Instant::now() + Duration::from_secs(5);
        while held.len() < sent.len() && Instant::now() < end {
            held.extend(
                client
                    .leased(&topic, json!({"max_messages": 10, "wait_ms": 200, "lease_ms": 60_000}))
                    .await,
            );
        }
        if held.len() < sent.len() {
            let left = sent.len() - held.len();
            findings.broken("I1", format!("{left} messages are gone after {failures} failures"));
            return topic;
        }
        let nacks: Vec<Value> =
            held.iter().map(|m| json!({"id": m["id"], "lease_token": m["lease_token"]})).collect();
        for result in client.held_batch("nack", &nacks).await {
            findings.demand(result["status"] == "ok", "I15", || {
                format!("a nack after {failures} failures: {result}")
            });
        }
        last = held;
    }
    findings.demand(last.len() == sent.len(), "I1", || format!("{} are left", last.len()));
    // As far away as may be, from the first failure on.
    let far = [
        exponential(LONGEST, 100.0, LONGEST, 0.0),
        json!({"kind": "fixed", "base_ms": LONGEST}),
        json!({"kind": "schedule", "delays_ms": vec![LONGEST; 100]}),
    ];
    for policy in &far {
        let id =
            client.published(&topic, json!({"payload": 2, "backoff": policy, "priority": 9})).await;
        let held = client.lease_one(&topic).await;
        findings.demand(text(&held, "id") == id, CONTRACT, || format!("not {id}: {held}"));
        let answer = client.nack_leased(&held, json!({})).await;
        findings
            .demand(answer.status == 200, CONTRACT, || format!("a nack with {policy}: {answer}"));
        let state = client.state(&id).await;
        findings.demand(state == "delayed", "I3", || format!("{state} with {policy}"));
    }
    topic
}

/// Every control character in a key, an idempotency key and a reason: each is kept, and none is taken for another.
async fn control_characters(findings: &mut Findings, client: &Client) -> String {
    let topic = topic("adversary-controls");
    let controls: Vec<char> = (0..65).map(control).collect();
    let key = |c: &char| format!("a{c}b");
    let messages: Vec<Value> = controls
        .iter()
        .map(|c| json!({"payload": key(c), "key": key(c), "idempotency_key": format!("i{c}j")}))
        .collect();
    let first = client.published_batch(&topic, &messages).await;
    let ids: Vec<&str> = first.iter().map(|result| text(&result["message"], "id")).collect();
    let distinct: BTreeSet<&&str> = ids.iter().collect();
    findings.demand(distinct.len() == controls.len(), "I10", || "keys were confused".into());
    for again in client.published_batch(&topic, &messages).await {
        findings.demand(again["message"]["duplicate"] == true, "I10", || format!("{again}"));
    }
    let held = client.leased(&topic, json!({"max_messages": 100})).await;
    let nacks: Vec<Value> = held
        .iter()
        .map(|m| {
            let reason = format!("why {}", text(m, "payload"));
            json!({"id": m["id"], "lease_token": m["lease_token"], "reason": reason, "dead": true})
        })
        .collect();
    client.held_batch("nack", &nacks).await;
    let answer = client.redrive_topic(&topic, json!({})).await.expect(200).json();
    let redriven = number(&answer, "redriven");
    findings.demand(redriven == ids.len() as i64, "I10", || format!("{redriven} redriven"));
    // Anyone who cuts a name off finds this one.
    for cut in ["a", "i"] {
        let made =
            client.publish(&topic, json!({"payload": 0, "key": cut, "idempotency_key": cut})).await;
        findings.demand(made.status == 201, "I10", || format!("{cut} is taken: {made}"));
    }
    for (c, id) in controls.iter().zip(&ids) {
        let seen = client.get_by_key(&topic, &key(c)).await;
        let named = seen.status == 200 && seen.text("id") == **id;
        findings.demand(named, "I10", || format!("{c:?} in a key, after a redrive: {seen}"));
        let seen = client.get(id).await.expect(200).json();
        let kept = seen["last_error"] == json!(format!("why {}", key(c)));
        findings.demand(kept, CONTRACT, || format!("{c:?} in a reason: {seen}"));
    }
    topic
}

/// Everything about these messages is as long as it may be. They are granted, fail, are acked and kept, die, are redriven,
/// listed and purged.
async fn extreme_messages(findings: &mut Findings, client: &Client) -> String {
    let topic = topic("adversary-extreme");
    client.configure(&topic, extreme::config()).await;
    let all: Vec<Value> = (0..512).map(extreme::message).collect();
    for part in all.chunks(128) {
        client.published_batch(&topic, part).await;
    }
    for n in 0..4 {
        client.publish(&topic, extreme::largest(1000 + n)).await.expect(201);
    }
    let mut granted = 0;
    loop {
        let want = json!({"max_messages": 1000, "max_bytes": 16_777_216});
        let held = client.leased(&topic, want).await;
        if held.is_empty() {
            break;
        }
        granted += held.len();
        let all: Vec<_> =
            held.iter().map(|m| json!({"id": m["id"], "lease_token": m["lease_token"]})).collect();
        let (dead, done) = all.split_at(all.len() / 2);
        let mut dead = dead.to_vec();
        dead.iter_mut().for_each(|nack| nack["dead"] = json!(true));
        client.held_batch("nack", &dead).await;
        client.held_batch("ack", done).await;
    }
    if granted != 516 {
        findings.broken(CONTRACT, format!("{granted} of 516 messages were granted"));
    }
    client.post(&format!("/topics/{topic}/redrive"), &json!({})).await.expect(200);
    for state in ["ready", "acked"] {
        client.listed(&topic, &format!("state={state}&payload=true")).await;
    }
    client.purge(&topic, &["ready", "delayed", "dead"]).await.expect(200);
    topic
}

/// Waits until counts are like this, and gives back the last.
async fn settled(client: &Client, topic: &str, like: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let answer = client.topic(topic).await;
        if answer.status == 200 {
            let counts = answer.json()["counts"].take();
            if like(&counts) || Instant::now() > end {
                return counts;
            }
        }
        assert!(Instant::now() < end, "no look at {topic} in 20 s");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Messages that are delayed, ready or leased.
fn live(counts: &Value) -> i64 {
    ["delayed", "ready", "leased"].iter().map(|name| number(counts, name)).sum()
}
