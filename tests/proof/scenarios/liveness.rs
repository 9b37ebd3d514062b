//! How soon a message reaches a client who waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::crew::Crew;
use super::findings::{BITE, Findings};
use super::pulse::Pulse;
use crate::harness::{Client, instant_ms, text, topic};
use crate::proof::history::Ms;
use crate::proof::stage::{Report, Setting};

const LEASE: Ms = 60_000;
const CONSUMERS: u64 = 24;
const PUBLISHERS: u64 = 3;

/// What the consumers saw.
#[derive(Default)]
struct Seen {
    /// From a message's due time to its grant, on Redis's clock.
    lateness: Vec<Ms>,
    /// From the end of the wait that was asked for to its answer without a message.
    answers: Vec<Ms>,
}

/// How late things may be, ms.
struct Limits {
    p99: Ms,
    most: Ms,
    answer: Ms,
}

/// Far more consumers than messages wait in long polls on two instances, some of them where nothing ever comes, while
/// messages fall due at random instants: grants are late by 50 ms at most (p99), by 1 s always, and a poll is answered
/// 500 ms after its time at the latest (I12). The short form, which may run on a busy machine, allows more.
pub async fn liveness(setting: Setting) -> Report {
    let mut findings = Findings::new("liveness", &setting);
    let crew = Crew::start(&setting, 2).await;
    let long = setting.messages > 0;
    let pulse = Pulse::start(crew.client(0));
    // A publisher makes about thirty messages a second.
    let time = if long { setting.messages as u64 * 10 } else { 2_000 };
    let (here, quiet) = (topic("liveness"), topic("liveness-quiet"));
    let stop = Arc::new(AtomicBool::new(false));
    let mut consumers = JoinSet::new();
    for n in 0..CONSUMERS {
        let topic = if n % 4 == 0 { &quiet } else { &here };
        let (client, random) = (crew.client(n as usize % 2), findings.random(n));
        consumers.spawn(consume(client, topic.clone(), random, stop.clone()));
    }
    let mut publishers = JoinSet::new();
    let end = Instant::now() + Duration::from_millis(time);
    for n in 0..PUBLISHERS {
        let (client, random) = (crew.client(n as usize % 2), findings.random(100 + n));
        publishers.spawn(publish(client, here.clone(), random, end));
    }
    let published: u64 = publishers.join_all().await.iter().sum();
    sleep(Duration::from_millis(1_200)).await; // the last delays
    stop.store(true, Ordering::Relaxed);
    let mut seen = Seen::default();
    for some in consumers.join_all().await {
        seen.lateness.extend(some.lateness);
        seen.answers.extend(some.answers);
    }
    let (p50, p99, most) = quantiles(&mut seen.lateness);
    let (.., answer) = quantiles(&mut seen.answers);
    let limits = if long {
        Limits { p99: 50, most: 1_000, answer: 500 }
    } else {
        let late = pulse.late();
        Limits { p99: 250 + late, most: 1_500 + late, answer: 1_500 + late }
    };
    let polls = seen.answers.len();
    findings.tell(format!(
        "{published} messages, late by {p50} ms (p50), {p99} ms (p99), {most} ms (most); {polls} empty polls, answered \
         at most {answer} ms after their wait"
    ));
    findings.tally().published += published;
    findings.tally().grants += seen.lateness.len() as u64;
    let early = seen.lateness.iter().filter(|late| **late < 0).count();
    findings.tally().early += early as u64;
    findings.demand(early == 0, "I3", || format!("{early} grants were early"));
    findings.demand(seen.lateness.len() as u64 == published, "I12", || {
        format!("{} of {published} messages came, each to somebody who waited", seen.lateness.len())
    });
    findings.demand(p99 <= limits.p99, "I12", || format!("grants are late by {p99} ms (p99)"));
    findings.demand(most <= limits.most, "I12", || format!("a grant is late by {most} ms"));
    findings.demand(answer <= limits.answer, "I12", || {
        format!("a long poll was answered {answer} ms after its time")
    });
    findings.demand(polls > 10 && published > 50, BITE, || {
        format!("{polls} polls, {published} messages")
    });
    findings.audit(&crew.redis, &crew.client(0), &here).await;
    findings.report()
}

async fn publish(client: Client, topic: String, mut random: StdRng, end: Instant) -> u64 {
    let mut published = 0;
    // A busy machine makes fewer in that time than it takes to see something.
    while Instant::now() < end || published <= 20 {
        let delay = if random.random_bool(0.3) { 0 } else { random.random_range(0..1_000) };
        client.published(&topic, json!({"payload": published, "delay_ms": delay})).await;
        published += 1;
        sleep(Duration::from_millis(random.random_range(10..50))).await;
    }
    published
}

/// Waits, takes one message, acks it with the next wait.
async fn consume(client: Client, topic: String, mut random: StdRng, stop: Arc<AtomicBool>) -> Seen {
    let (mut seen, mut acks) = (Seen::default(), Vec::new());
    while !stop.load(Ordering::Relaxed) {
        let wait = random.random_range(200..700);
        let want = json!({"wait_ms": wait, "lease_ms": LEASE, "acks": acks});
        let asked = Instant::now();
        let held = client.leased(&topic, want).await;
        if held.is_empty() {
            seen.answers.push(asked.elapsed().as_millis() as Ms - wait);
        }
        for message in &held {
            let at = instant_ms(text(message, "lease_expires_at")) - LEASE;
            seen.lateness.push(at - instant_ms(text(message, "due_at")));
        }
        let ack = |m: &Value| json!({"id": m["id"], "lease_token": m["lease_token"]});
        acks = held.iter().map(ack).collect();
    }
    client.lease(&topic, json!({"acks": acks})).await.expect(200);
    seen
}

/// The middle, the 99th hundredth, and the greatest.
fn quantiles(values: &mut [Ms]) -> (Ms, Ms, Ms) {
    values.sort_unstable();
    let at = |part: f64| {
        let index = (values.len() as f64 * part) as usize;
        values.get(index.min(values.len().saturating_sub(1))).copied().unwrap_or(Ms::MAX)
    };
    (at(0.5), at(0.99), at(1.0))
}
