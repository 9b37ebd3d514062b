//! One node of a Cluster is in trouble: its scripts, its connections and its data are gone for a while, or it ends while a slot
//! is on its way to it.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::cluster::{Ground, LAG, PRIMARIES, options};
use super::ground::redis;
use crate::harness::{Move, Redis, ask, eventually, slot_of};
use crate::proof::history::{FaultKind, now};
use crate::proof::stage::{Report, Setting};

/// How long a server takes to load each command of its log, µs: seconds for all of it.
const SLOW: &str = "400";
/// What counts as a server that loads for a while, s.
const LOADING: f64 = 0.2;

/// Scripts are flushed, connections killed, and the server is started again, whereupon it loads for a while. The topics of
/// the others notice nothing.
pub async fn cluster_node_troubled(setting: Setting) -> Report {
    let slow = redis(&setting).args(["--key-load-delay", SLOW]);
    // So that it is not taken for dead meanwhile.
    let options = options(&setting, 0).redis(slow).node_timeout(5_000);
    let mut ground = Ground::start("cluster_node_troubled", &setting, options).await;
    for round in 0..setting.rounds {
        ground.pace(round).await;
        let hit = round % PRIMARIES;
        let node = ground.primary(hit).await;
        let (partitions, before) = (ground.partitions_on(node).await, ground.refused());
        rewritten(ground.cluster.node(node)).await;
        let from = now();
        for _ in 0..10 {
            let _: () = ground.cluster.node(node).command(&["SCRIPT", "FLUSH"]).await;
            sleep(Duration::from_millis(20)).await;
        }
        for kind in ["normal", "pubsub"] {
            let kill = ["CLIENT", "KILL", "TYPE", kind];
            let _ = ask::<i64>(ground.cluster.node(node), &kill).await;
            sleep(Duration::from_millis(100)).await;
        }
        ground.over_of(FaultKind::ConnectionsCut, hit, partitions, 2 * round, from).await;
        let from = now();
        // It writes everything down before it ends.
        let _ = ask::<()>(ground.cluster.node(node), &["SHUTDOWN", "NOSAVE"]).await;
        ground.cluster.restart(node).await;
        ground.cluster.is_whole().await;
        ground.over_of(FaultKind::RedisKilled, hit, partitions, 2 * round + 1, from).await;
        let loaded = loaded(ground.cluster.node(node));
        eprintln!("it loaded for {loaded:?} s");
        ground.runs[hit].bit(loaded.is_some_and(|took| took > LOADING), || {
            format!("it loaded for {loaded:?} s")
        });
        ground.demand_others_undisturbed(Some(hit), before);
    }
    ground.demand_met();
    ground.report().await
}

/// Makes the log of a server as short as it can be, so that a long run loads no longer than a short one.
async fn rewritten(node: &Redis) {
    let _: String = node.command(&["BGREWRITEAOF"]).await;
    eventually("the log is rewritten", || async {
        let busy =
            node.info("aof_rewrite_in_progress").await + node.info("aof_rewrite_scheduled").await;
        (busy == 0).then_some(())
    })
    .await;
}

/// How long a server took to load its log last, s.
fn loaded(node: &Redis) -> Option<f64> {
    let log = node.log();
    let line = log.lines().rev().find(|line| line.contains("DB loaded from append only file"))?;
    line.split(": ").last()?.split(' ').next()?.parse().ok()
}

/// A slot moves key by key, and its target is killed with half of the keys. In turns it comes back at once, and its replica
/// takes its place, whereupon a client tells both ends of the slot about each other. What the target had and its replica not
/// is lost.
pub async fn cluster_target_killed(setting: Setting) -> Report {
    let mut ground = Ground::start("cluster_target_killed", &setting, options(&setting, 1)).await;
    for round in 0..setting.rounds {
        ground.pace(round).await;
        let hit = round % PRIMARIES;
        let slot = slot_of(&ground.runs[hit].load.topic);
        let from = ground.cluster.primary_of(slot).await;
        let (theirs, to) = elsewhere(&ground, from).await;
        let mut there = Vec::new();
        for run in 0..PRIMARIES {
            if ground.primary(run).await == to {
                there.push(run);
            }
        }
        let partitions = ground.partitions_on(to).await;
        let mut moving = ground.cluster.begin_move(slot, to).await;
        let node = ground.cluster.node(moving.from);
        let keys = ["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "1000"];
        let keys: Vec<String> = node.command(&keys).await;
        for key in &keys[..keys.len() / 2] {
            ground.cluster.move_keys(moving, Some(key)).await.expect("MIGRATE");
        }
        let (begin, from) = (Instant::now(), now());
        ground.cluster.kill9(to);
        if round % 2 == 0 {
            ground.cluster.restart(to).await;
        }
        // A server that comes back late is a replica by then, too.
        while !ground.cluster.move_keys(moving, None).await.is_ok_and(|more| !more) {
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "the rest of the slot does not move"
            );
            match ground.cluster.find_primary_of(theirs).await {
                Some(new) if new != moving.to => moving = goes_on(&ground, moving, new).await,
                _ => sleep(Duration::from_millis(20)).await,
            }
        }
        ground.cluster.end_move(moving).await;
        eprintln!("the slot has moved {:?} after its target was killed", begin.elapsed());
        if round % 2 == 1 {
            ground.cluster.restart(to).await;
        }
        ground.cluster.is_whole().await;
        // A quiet topic stays where its own topic was at the beginning.
        for run in &ground.runs {
            run.fault(FaultKind::AnswersLost, from);
        }
        let lost = FaultKind::PowerLost(LAG);
        there.iter().for_each(|run| ground.runs[*run].fault(lost, from));
        ground.over_of(lost, hit, partitions, round, from).await;
    }
    ground.demand_met();
    ground.report().await
}

/// A primary other than this one, and one of its slots.
async fn elsewhere(ground: &Ground, from: usize) -> (u16, usize) {
    for slot in [0, 8_000, 16_383] {
        let primary = ground.cluster.primary_of(slot).await;
        if primary != from {
            return (slot, primary);
        }
    }
    panic!("one primary has all slots");
}

/// Both ends of a slot on its way are told that this node is the target now.
async fn goes_on(ground: &Ground, moving: Move, to: usize) -> Move {
    let number = moving.slot.to_string();
    let (source, target) = (ground.cluster.id(moving.from).await, ground.cluster.id(to).await);
    for (node, state, other) in [(to, "IMPORTING", source), (moving.from, "MIGRATING", target)] {
        let words = ["CLUSTER", "SETSLOT", &number, state, &other];
        eventually("both ends know each other", || async {
            ask::<()>(ground.cluster.node(node), &words).await.ok()
        })
        .await;
    }
    Move { to, ..moving }
}
