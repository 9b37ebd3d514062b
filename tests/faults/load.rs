//! The load itself: it does everything that clients can do, writes it down, and makes the same
//! plan from the same seed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::harness::{Dueq, Redis};
use crate::proof::actor::Fleet;
use crate::proof::clients::Mix;
use crate::proof::history::{Back, Op, Outcome, Publish, What};
use crate::proof::load::{Load, only};
use crate::proof::stage::{Durability, Setting};

/// How many kinds of requests there are.
const KINDS: usize = 18;

/// The kind of a request, and what came of it.
fn kind(op: &Op) -> (&'static str, &'static str) {
    let kind = match &op.what {
        What::Publish(Publish { key: Some(_), .. }) => "publish under a key",
        What::Publish(Publish { idempotency_key: Some(_), .. }) => "idempotent publish",
        What::Publish(Publish { ttl: Some(_), .. }) => "publish with a ttl",
        What::Publish(_) => "publish",
        What::Lease { .. } => "lease",
        What::Ack { .. } => "ack",
        What::Nack { back, .. } => match back {
            Back::Failed => "nack",
            Back::Released => "release",
            Back::Dead => "kill",
        },
        What::Extend { .. } => "extend",
        What::Delete { force: true, .. } => "delete by force",
        What::Delete { .. } => "delete",
        What::Update { .. } => "update",
        What::Redrive { .. } => "redrive",
        What::RedriveTopic { .. } => "redrive topic",
        What::Purge { .. } => "purge",
        What::Pause { .. } => "pause",
        What::Get { .. } => "get",
    };
    (kind, op.outcome())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_varied_load_does_everything_and_loses_nothing() {
    let redis = Redis::start().await;
    let instances = [Dueq::on(&redis).start().await, Dueq::on(&redis).start().await];
    let fleet = Fleet::new(instances.iter().map(Dueq::client));
    let setting = Setting::short(Durability::Memory, 0);
    let mut load = Load::begin(&fleet, "varied", Mix::varied(), &setting);
    load.inspect(&redis.url());
    load.published(500).await;
    let begin = Instant::now();
    let kinds = loop {
        let kinds: BTreeSet<_> = load.recorder.of(&load.topic).iter().map(kind).collect();
        let done = kinds.iter().filter(|(_, outcome)| *outcome == "ok").count();
        if done == KINDS && kinds.contains(&("lease", "unknown")) {
            break kinds;
        }
        assert!(begin.elapsed() < Duration::from_secs(40), "not everything was done: {kinds:?}");
        sleep(Duration::from_millis(200)).await;
    };
    eprintln!("{kinds:?}");
    load.finish(&redis.url()).await.expect_clean();
}

/// What each client published, as far as it got, whatever came of it; a repetition once.
async fn publishes(seed: u64) -> BTreeMap<u64, Vec<Publish>> {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    let setting = Setting { seed: Some(seed), ..Setting::short(Durability::Memory, 0) };
    let mut load = Load::begin(&only(dueq.client()), "seeded", Mix::varied(), &setting);
    load.published(300).await;
    load.stop().await;
    let mut made: BTreeMap<u64, Vec<Publish>> = BTreeMap::new();
    for op in load.recorder.of(&load.topic) {
        let What::Publish(publish) = op.what else { continue };
        let made = made.entry(op.client).or_default();
        let publish = Publish { outcome: Outcome::Never, ..publish };
        if !made.contains(&publish) {
            made.push(publish);
        }
    }
    made
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_loads_of_one_seed_make_the_same_publishes() {
    let (one, other) = tokio::join!(publishes(7), publishes(7));
    assert_eq!(one.len(), 7, "publishers of every kind");
    for (client, one) in &one {
        let same = one.iter().zip(&other[client]).take_while(|(a, b)| a == b).count();
        assert_eq!(same, one.len().min(other[client].len()), "client {client}");
        assert!(same > 5, "client {client} made {same}");
    }
    let third = publishes(8).await;
    assert!(one.iter().any(|(client, one)| one[..5] != third[client][..5]), "another seed");
}
