//! Many messages and no fault at all: nothing comes early, nothing comes twice.
//!
//! Its record is one small entry for each thing that happened to a message, so that a million of them fit into memory.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::crew::Crew;
use super::findings::Findings;
use crate::harness::{Client, instant_ms, number, text, topic};
use crate::proof::history::{Ms, now};
use crate::proof::stage::{Report, Setting};

const WORKERS: u64 = 12;
const BATCH: usize = 60;

/// Something that happened to a message; attempts are those of the grants.
#[derive(Clone, Copy, Debug)]
enum Event {
    Published {
        due: Ms,
    },
    Granted {
        attempt: i64,
        at: Ms,
        due: Ms,
        deadline: Ms,
    },
    Extended {
        attempt: i64,
        deadline: Ms,
    },
    /// Given back, due then.
    Returned {
        attempt: i64,
        due: Ms,
    },
    Acked {
        attempt: i64,
    },
    /// A use of its token was refused; the answer came then, on the machine's clock, which Redis shares.
    Refused {
        attempt: i64,
        answered: Ms,
    },
}

/// What the workers share.
#[derive(Default)]
struct Shared {
    published: AtomicUsize,
    acked: AtomicUsize,
}

struct Worker {
    client: Client,
    topic: String,
    random: StdRng,
    lease: Ms,
    shared: Arc<Shared>,
    events: Vec<(u128, Event)>,
}

/// A message that is held.
struct Held {
    id: u128,
    attempt: i64,
    item: Value,
}

/// `setting.messages` messages (1,200 in the short form) go through two instances and are acked, given back, released,
/// extended and forgotten, with no fault: none is granted early, and none again while it is held or after its ack.
pub async fn calm(setting: Setting) -> Report {
    let mut findings = Findings::new("calm", &setting);
    let crew = Crew::start(&setting, 2).await;
    let long = setting.messages > 0;
    let (messages, lease) = if long { (setting.messages, 10_000) } else { (1_200, 2_500) };
    let (topic, shared) = (topic("calm"), Arc::<Shared>::default());
    let mut workers = JoinSet::new();
    for n in 0..WORKERS {
        let (client, topic) = (crew.client(n as usize % 2), topic.clone());
        let (random, shared) = (findings.random(n), shared.clone());
        let worker = Worker { client, topic, random, lease, shared, events: Vec::new() };
        workers.spawn(worker.run(messages));
    }
    let mut lives: HashMap<u128, Vec<Event>> = HashMap::new();
    while let Some(events) = workers.join_next().await {
        for (id, event) in events.expect("a worker") {
            lives.entry(id).or_default().push(event);
        }
    }
    let mut again = 0;
    for (id, life) in &lives {
        again += judge(&mut findings, *id, life);
    }
    findings.tell(format!("{again} messages were granted again after a failure"));
    let counts = crew.client(0).topic(&topic).await.expect(200).json()["counts"].take();
    findings.demand(counts.as_object().expect("counts").values().all(|n| n == 0), "I1", || {
        format!("left at the end: {counts}")
    });
    findings.audit(&crew.redis, &crew.client(0), &topic).await;
    findings.report()
}

/// Holds one message's life against I1, I3, I4, I5; how often it was granted again.
fn judge(findings: &mut Findings, id: u128, life: &[Event]) -> usize {
    let mut grants: Vec<(i64, Ms, Ms, Ms)> = Vec::new(); // attempt, at, due, deadline
    for event in life {
        if let Event::Granted { attempt, at, due, deadline } = event {
            grants.push((*attempt, *at, *due, *deadline));
        }
    }
    grants.sort_unstable();
    let mut wrong: Vec<(&str, String)> = Vec::new();
    let published = life.iter().find_map(|event| match event {
        Event::Published { due } => Some(*due),
        _ => None,
    });
    let Some(published) = published else {
        findings.broken("I2", format!("{id:032x} was granted and never published"));
        return 0;
    };
    let acks = life.iter().filter(|event| matches!(event, Event::Acked { .. })).count();
    let (mut early, mut twice) = (0, 0);
    for (n, (attempt, at, due, deadline)) in grants.iter().enumerate() {
        if *attempt != n as i64 + 1 {
            wrong.push(("I5", format!("attempt {attempt} is grant {}", n + 1)));
        }
        let mut from = published.max(*due);
        let before = n.checked_sub(1).map(|before| grants[before]);
        if let Some((last, _, _, held)) = before {
            let mut until = held;
            for event in life {
                match event {
                    Event::Extended { attempt, deadline } if *attempt == last => {
                        until = until.max(*deadline);
                    }
                    Event::Acked { attempt } if *attempt == last => {
                        twice += 1;
                        wrong.push(("I5", "granted after an ack".into()));
                    }
                    _ => {}
                }
            }
            let back = life.iter().find_map(|event| match event {
                Event::Returned { attempt, due } if *attempt == last => Some(*due),
                _ => None,
            });
            if let Some(back) = back {
                from = from.max(back);
            } else if *at < until {
                twice += 1;
                wrong.push(("I4", format!("granted {} ms before its lease was over", until - at)));
            }
        }
        if *at < from {
            early += 1;
            wrong.push(("I3", format!("granted {} ms early", from - at)));
        }
        for event in life {
            if let Event::Refused { attempt: of, answered } = event
                && of == attempt
                && *answered < deadline - 20
            {
                wrong.push(("I5", "its holder was refused while the lease lasted".into()));
            }
        }
    }
    if acks != 1 {
        wrong.push((if acks == 0 { "I1" } else { "I5" }, format!("acked {acks} times")));
    }
    let tally = findings.tally();
    tally.published += 1;
    tally.granted += u64::from(!grants.is_empty());
    tally.grants += grants.len() as u64;
    tally.early += early;
    tally.duplicated += twice;
    tally.lost += u64::from(acks == 0);
    for (invariant, what) in wrong {
        let life = life.iter().map(|event| format!("{event:?}")).collect();
        findings.broken_in(invariant, format!("{id:032x}: {what}"), life);
    }
    grants.len().saturating_sub(1)
}

impl Worker {
    /// Publishes its part of so many and works until all are acked, or nothing has come for half a minute.
    async fn run(mut self, messages: usize) -> Vec<(u128, Event)> {
        let (mut acks, mut last) = (Vec::new(), Instant::now());
        loop {
            let publishing = self.shared.published.fetch_add(BATCH, Ordering::Relaxed) < messages;
            if publishing {
                self.publish().await;
            }
            let held =
                self.lease(std::mem::take(&mut acks), if publishing { 0 } else { 200 }).await;
            if !held.is_empty() {
                last = Instant::now();
            }
            acks = self.work(held).await;
            let all = BATCH * messages.div_ceil(BATCH);
            let done = self.shared.acked.load(Ordering::Relaxed) >= all;
            if acks.is_empty() && (done || last.elapsed() > Duration::from_secs(30)) {
                return self.events;
            }
        }
    }

    async fn publish(&mut self) {
        let message = |_| {
            let random = &mut self.random;
            let delay = if random.random_bool(0.5) { 0 } else { random.random_range(0..1_500) };
            let priority = if random.random_bool(0.1) { random.random_range(1..=255) } else { 0 };
            json!({"payload": "calm", "delay_ms": delay, "priority": priority, "max_attempts": 1_000})
        };
        let messages: Vec<Value> = (0..BATCH).map(message).collect();
        for result in self.client.published_batch(&self.topic, &messages).await {
            let message = &result["message"];
            let due = instant_ms(text(message, "due_at"));
            self.events.push((id_of(message), Event::Published { due }));
        }
    }

    /// Leases, with acks of what was held.
    async fn lease(&mut self, acks: Vec<Held>, wait: Ms) -> Vec<Held> {
        let items: Vec<&Value> = acks.iter().map(|held| &held.item).collect();
        let want = json!({"max_messages": BATCH + 20, "lease_ms": self.lease, "wait_ms": wait, "acks": items});
        let answer = self.client.lease(&self.topic, want).await.expect(200).json();
        let results = answer["acks"].as_array().map_or(&[][..], Vec::as_slice);
        assert_eq!(results.len(), acks.len(), "{answer}");
        for (held, result) in acks.iter().zip(results) {
            self.acked(held, result);
        }
        let mut leased = Vec::new();
        for message in answer["messages"].as_array().expect("messages") {
            let (id, attempt) = (id_of(message), number(message, "attempt"));
            let deadline = instant_ms(text(message, "lease_expires_at"));
            let (at, due) = (deadline - self.lease, instant_ms(text(message, "due_at")));
            self.events.push((id, Event::Granted { attempt, at, due, deadline }));
            let item = json!({"id": message["id"], "lease_token": message["lease_token"]});
            leased.push(Held { id, attempt, item });
        }
        leased
    }

    /// Does with each message what chance says; what is to be acked with the next lease.
    async fn work(&mut self, held: Vec<Held>) -> Vec<Held> {
        let (mut at_once, mut later, mut back, mut longer) = (vec![], vec![], vec![], vec![]);
        for mut held in held {
            match self.random.random_range(0..1_000) {
                0..450 => at_once.push(held),
                450..850 => later.push(held),
                850..920 => {
                    held.item["delay_ms"] = json!(self.random.random_range(0..300));
                    back.push(held);
                }
                920..950 => {
                    held.item["release"] = json!(true);
                    back.push(held);
                }
                950..990 => {
                    held.item["lease_ms"] = json!(2 * self.lease);
                    longer.push(held);
                }
                _ => {} // never heard of again
            }
        }
        for (held, result) in self.batch("extend", &longer).await {
            if result["status"] == "ok" {
                let deadline = instant_ms(text(&result, "lease_expires_at"));
                self.events.push((held.id, Event::Extended { attempt: held.attempt, deadline }));
            }
        }
        for mut held in longer {
            held.item.as_object_mut().expect("an object").remove("lease_ms");
            at_once.push(held);
        }
        for (held, result) in self.batch("nack", &back).await {
            if result["status"] == "ok" {
                let due = instant_ms(text(&result, "due_at"));
                self.events.push((held.id, Event::Returned { attempt: held.attempt, due }));
            }
        }
        for (held, result) in self.batch("ack", &at_once).await {
            self.acked(held, &result);
        }
        later
    }

    async fn batch<'a>(&self, verb: &str, held: &'a [Held]) -> Vec<(&'a Held, Value)> {
        if held.is_empty() {
            return Vec::new();
        }
        let items: Vec<Value> = held.iter().map(|held| held.item.clone()).collect();
        let results = self.client.held_batch(verb, &items).await;
        assert_eq!(results.len(), held.len());
        held.iter().zip(results).collect()
    }

    fn acked(&mut self, held: &Held, result: &Value) {
        let attempt = held.attempt;
        if result["status"] == "ok" {
            self.shared.acked.fetch_add(1, Ordering::Relaxed);
            self.events.push((held.id, Event::Acked { attempt }));
        } else {
            self.events.push((held.id, Event::Refused { attempt, answered: now() }));
        }
    }
}

fn id_of(message: &Value) -> u128 {
    let id = text(message, "id");
    u128::from_str_radix(&id.replace('-', ""), 16).unwrap_or_else(|_| panic!("no UUID: {id}"))
}
