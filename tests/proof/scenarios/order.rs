//! The order in which one client's messages are granted.

use std::time::Duration;

use rand::Rng;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::crew::Crew;
use super::findings::{BITE, Findings};
use crate::harness::{Client, instant, number, topic};
use crate::proof::stage::{Report, Setting};

const TOPICS: usize = 6;

/// How the publisher of a topic says when its messages are due, all at one priority.
#[derive(Clone, Copy)]
struct Manner {
    priority: i64,
    /// All of them due at one instant to come.
    together: bool,
    /// Several in a batch.
    batches: bool,
}

/// Several publishers, each with a topic of its own, publish one message after another through one instance; one consumer a
/// topic leases through another meanwhile: what was published first is granted first (I16).
pub async fn order(setting: Setting) -> Report {
    let mut findings = Findings::new("order", &setting);
    let crew = Crew::start(&setting, 2).await;
    let long = setting.messages > 0;
    let each = if long { setting.messages.div_ceil(TOPICS) } else { 60 };
    let mut consumers = JoinSet::new();
    let mut publishers = JoinSet::new();
    for n in 0..TOPICS {
        let name = topic("order");
        let manner = Manner {
            priority: if n % 2 == 0 { 0 } else { 7 },
            together: n % 3 == 1,
            batches: n % 3 == 2,
        };
        let ahead = if long { 5_000 } else { 1_000 };
        let due = instant(crew.redis.time_ms().await + ahead);
        let (client, to) = (crew.client(n % 2), name.clone());
        publishers.spawn(async move { publish(client, to, manner, due, each).await });
        let (client, random) = (crew.client((n + 1) % 2), findings.random(n as u64));
        consumers.spawn(async move { consume(client, name, random, each).await });
    }
    publishers.join_all().await;
    for (name, granted, leases) in consumers.join_all().await {
        findings.tally().published += each as u64;
        findings.tally().granted += granted.len() as u64;
        findings.tally().grants += granted.len() as u64;
        let wrong = granted.windows(2).position(|pair| pair[1] <= pair[0]);
        if let Some(at) = wrong {
            let around = &granted[at.saturating_sub(2)..(at + 4).min(granted.len())];
            findings.broken("I16", format!("{name} granted {around:?}"));
        }
        findings
            .demand(granted.len() == each, "I1", || format!("{} of {each} came", granted.len()));
        findings
            .demand(leases > each / 20, BITE, || format!("{leases} leases for {each} messages"));
        findings.audit(&crew.redis, &crew.client(0), &name).await;
    }
    findings.report()
}

async fn publish(client: Client, topic: String, manner: Manner, due: String, count: usize) {
    let message = |n: usize| {
        let mut message = json!({"payload": n, "priority": manner.priority});
        if manner.together {
            message["deliver_at"] = json!(due);
        }
        message
    };
    let mut n = 0;
    while n < count {
        let some = if manner.batches { (count - n).min(1 + n % 7) } else { 1 };
        if manner.batches {
            let messages: Vec<Value> = (n..n + some).map(message).collect();
            client.published_batch(&topic, &messages).await;
        } else {
            client.published(&topic, message(n)).await;
        }
        n += some;
    }
}

/// Leases and acks all: their numbers in the order of their grants, and in how many leases they came.
async fn consume(
    client: Client,
    topic: String,
    mut random: rand::rngs::StdRng,
    count: usize,
) -> (String, Vec<i64>, usize) {
    let (mut granted, mut leases, mut empty) = (Vec::new(), 0, 0);
    let mut acks = Vec::new();
    while granted.len() < count && empty < 10 {
        let most = random.random_range(1..=12);
        let want =
            json!({"max_messages": most, "wait_ms": 2_000, "lease_ms": 600_000, "acks": acks});
        let held = client.leased(&topic, want).await;
        (leases, empty) = (leases + 1, if held.is_empty() { empty + 1 } else { 0 });
        granted.extend(held.iter().map(|message| number(message, "payload")));
        let ack = |m: &Value| json!({"id": m["id"], "lease_token": m["lease_token"]});
        acks = held.iter().map(ack).collect();
        if random.random_bool(0.1) {
            tokio::time::sleep(Duration::from_millis(random.random_range(0..20))).await;
        }
    }
    client.lease(&topic, json!({"acks": acks})).await.expect(200);
    (topic, granted, leases)
}
