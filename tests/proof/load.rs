//! A moderate load of every kind of client, and what is demanded once the faults are over: the
//! queue drains, and the checker finds nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::Rng;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::actor::{Actor, Fleet, Options};
use crate::audit::{Audit, connect, conserved};
use crate::checker;
use crate::harness::{Client, Redis, topic};
use crate::history::{Grant, Ms, Outcome, Recorder, now};

/// How long the drain may take: the longest lease, delay and backoff of the load, and some.
const DRAIN: Duration = Duration::from_secs(25);

/// Clients at work on one topic.
pub struct Load {
    pub recorder: Arc<Recorder>,
    pub topic: String,
    fleet: Fleet,
    stop: Arc<AtomicBool>,
    tasks: JoinSet<()>,
}

impl Load {
    /// Starts this many publishers and consumers against any of the fleet.
    pub fn start(fleet: &Fleet, name: &str, publishers: u64, consumers: u64) -> Load {
        let mut load = Load {
            recorder: Arc::new(Recorder::new()),
            topic: topic(name),
            fleet: fleet.clone(),
            stop: Arc::default(),
            tasks: JoinSet::new(),
        };
        for number in 0..publishers {
            load.tasks.spawn(publisher(load.actor(number), load.stop.clone()));
        }
        for number in publishers..publishers + consumers {
            load.tasks.spawn(consumer(load.actor(number), load.stop.clone()));
        }
        load
    }

    /// A further client of the same run.
    pub fn actor(&self, number: u64) -> Actor {
        Actor::new(&self.recorder, &self.fleet, &self.topic, number)
    }

    /// Reads what lies in Redis again and again until the load ends: I8 and I9 hold at any moment.
    pub fn inspect(&mut self, url: &str) {
        let (stop, topic) = (self.stop.clone(), self.topic.clone());
        let url = url.to_owned();
        self.tasks.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let Ok(mut connection) = connect(&url).await else {
                    sleep(Duration::from_millis(50)).await;
                    continue;
                };
                while let Ok(audit) = Audit::read(&mut connection, &topic).await {
                    assert_eq!(audit.violations(), Vec::<String>::new(), "under load");
                    sleep(Duration::from_millis(100)).await;
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                }
            }
        });
    }

    /// Ends the load without a look at what it left.
    pub async fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("a client of the load");
        }
    }

    /// Ends the load, drains the queue and demands that every promise was kept; says what happened.
    pub async fn verify(&mut self, redis: &Redis) -> Audit {
        self.stop().await;
        self.drain().await;
        let Outcome::Ok(answer) = self.actor(9_000).topic().await else {
            panic!("getTopic after the faults");
        };
        let mut connection = connect(&redis.url()).await.expect("a connection");
        let audit = Audit::read(&mut connection, &self.topic).await.expect("an audit");
        let mut found = checker::violations(&self.recorder.of(&self.topic), &audit);
        found.extend(conserved(&answer));
        let outcomes = self.recorder.outcomes();
        eprintln!("{}: {outcomes:?}, slowest {} ms", self.topic, self.recorder.slowest().0);
        eprintln!("{answer}");
        assert!(
            found.is_empty(),
            "{} violations, seed {}:\n{}",
            found.len(),
            self.recorder.seed,
            found.iter().take(20).map(|what| format!("- {what}\n")).collect::<String>()
        );
        audit
    }

    /// Leases and acks until nothing is left but what is dead.
    async fn drain(&self) {
        let mut actor = self.actor(8_000);
        let end = Instant::now() + DRAIN;
        let mut held: Vec<Grant> = Vec::new();
        loop {
            let acks = std::mem::take(&mut held);
            match actor.lease(100, 5_000, 200, &acks).await {
                Outcome::Ok(grants) => held = grants,
                _ => sleep(Duration::from_millis(50)).await,
            }
            if held.is_empty()
                && let Outcome::Ok(topic) = actor.topic().await
            {
                let counts = ["delayed", "ready", "leased"].map(|n| topic["counts"][n].as_i64());
                if counts == [Some(0); 3] {
                    return;
                }
                assert!(Instant::now() < end, "the queue does not drain: {topic}");
            }
        }
    }
}

/// A client's fleet of one.
pub fn only(client: Client) -> Fleet {
    Fleet::new([client])
}

async fn publisher(mut actor: Actor, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        let random = &mut actor.random;
        let options = Options {
            delay: if random.random_bool(0.3) { 0 } else { random.random_range(0..600) },
            priority: if random.random_bool(0.15) { random.random_range(1..=255) } else { 0 },
            max_attempts: random.random_bool(0.1).then(|| random.random_range(1..=3)),
            headers: random.random_bool(0.1),
            padding: if random.random_bool(0.02) { 3_000 } else { random.random_range(0..200) },
        };
        let outcome = actor.publish(options).await;
        pause(&mut actor, outcome.ok().is_some(), 12).await;
    }
}

/// What a consumer does about a message that it holds, and when.
struct Plan {
    at: Ms,
    verb: Verb,
    grant: Grant,
}

enum Verb {
    Ack,
    AckWithNextLease,
    Nack,
    ExtendAndAck,
}

fn plan(actor: &mut Actor, grant: Grant) -> Option<Plan> {
    let (verb, at) = match actor.random.random_range(0..100) {
        0..45 => (Verb::Ack, 0),
        45..68 => (Verb::AckWithNextLease, 0),
        68..80 => (Verb::Nack, 0),
        80..86 => (Verb::ExtendAndAck, 0),
        86..93 => (Verb::Ack, grant.deadline - actor.random.random_range(30..300)),
        93..97 => (Verb::Ack, grant.deadline + actor.random.random_range(0..100)),
        _ => return None, // never heard of again
    };
    Some(Plan { at, verb, grant })
}

async fn consumer(mut actor: Actor, stop: Arc<AtomicBool>) {
    let mut plans: Vec<Plan> = Vec::new();
    let mut with_next: Vec<Grant> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let max = actor.random.random_range(1..=8);
        let lease_ms = actor.random.random_range(1_000..=1_500);
        let next = plans.iter().map(|plan| plan.at).min().unwrap_or(Ms::MAX);
        let wait = actor.random.random_range(0..=500).min((next - now()).max(0));
        let acks = std::mem::take(&mut with_next);
        let outcome = actor.lease(max, lease_ms, wait, &acks).await;
        let answered = outcome.ok().is_some();
        for grant in outcome.ok().cloned().unwrap_or_default() {
            plans.extend(plan(&mut actor, grant));
        }
        let due = now();
        for Plan { verb, grant, .. } in plans.extract_if(.., |plan| plan.at <= due) {
            match verb {
                Verb::Ack => drop(actor.ack(&grant).await),
                Verb::AckWithNextLease => with_next.push(grant),
                Verb::Nack => {
                    let delay = actor.random.random_range(0..300);
                    actor.nack(&grant, delay).await;
                }
                Verb::ExtendAndAck => {
                    let longer: Ms = actor.random.random_range(1_000..2_000);
                    actor.extend(&grant, longer).await;
                    actor.ack(&grant).await;
                }
            }
        }
        pause(&mut actor, answered, 3).await;
    }
}

/// A short rest, longer after a request that came to nothing.
async fn pause(actor: &mut Actor, answered: bool, most: u64) {
    let ms = if answered { actor.random.random_range(0..=most) } else { 20 };
    sleep(Duration::from_millis(ms)).await;
}
