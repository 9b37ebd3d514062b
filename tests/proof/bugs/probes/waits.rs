//! Long polls: who waits is granted what falls due when it falls due.

use std::time::Duration;

use futures_util::future::join;
use tokio::time::sleep;

use crate::harness::{Redis, waiters, works_again};
use crate::proof::actor::{Actor, Options};
use crate::proof::bugs::between;
use crate::proof::bugs::scene::{Scene, until};
use crate::proof::history::{FaultKind, now};
use crate::proof::stage::{Durability, Report, Setting};

async fn consume(hand: &mut Actor, wait: i64) {
    hand.work(1, wait).await;
}

/// Publishes through one instance what a client waits for at the other, and has done for longer than the checker takes a
/// request to be on its way.
async fn publish_to_who_waits(scene: &Scene) {
    waiters(&scene.dueq[1].client(), 1).await;
    sleep(Duration::from_millis(100)).await;
    scene.hand(0).publish_ok(Options::default()).await;
}

/// Messages fall due while a client waits for them: one that was there, and one that comes through
/// another instance.
pub async fn waiting_consumers(scene: &mut Scene) {
    let [mut one, mut other] = [scene.hand(0), scene.hand(1)];
    one.publish_ok(Options::after(700)).await;
    consume(&mut other, 3_500).await;
    join(consume(&mut other, 3_500), publish_to_who_waits(scene)).await;
    consume(&mut other, 200).await;
    scene.in_time();
}

/// Redis was restarted; then a client waits, and a message comes through another instance.
pub async fn waiting_after_a_restart(mut setting: Setting) -> Report {
    setting.durability = Durability::Always;
    let mut scene = Scene::start("waiting_after_a_restart", setting, 2).await;
    let [mut one, mut other] = [scene.hand(0), scene.hand(1)];
    one.publish_ok(Options::default()).await;
    consume(&mut one, 500).await;
    let from = now();
    scene.proxy.set(between::mode(scene.setting.bug, ""));
    scene.redis.restart().await;
    scene.recorder.fault(FaultKind::RedisKilled, from);
    for dueq in &scene.dueq {
        works_again(&dueq.client()).await;
    }
    one.publish_ok(Options::default()).await;
    consume(&mut other, 1_000).await;
    // For five seconds after a fault, and after whatever it made fail, everything may still be late;
    // by then both have subscribed again. On a busy machine that is later than here: so, twice.
    for settled in [5_200, 2_000] {
        sleep(Duration::from_millis(settled)).await;
        join(consume(&mut other, 4_000), publish_to_who_waits(&scene)).await;
        consume(&mut other, 200).await;
    }
    scene.in_time();
    scene.end().await
}

/// Commands that Redis ran so far, and calls of scripts among them.
async fn commands(redis: &Redis) -> (i64, i64) {
    let stats: String = redis.command(&["INFO", "commandstats"]).await;
    let (mut all, mut scripts) = (0, 0);
    for (name, rest) in stats.lines().filter_map(|line| line.split_once(":calls=")) {
        let calls: i64 = rest.split(',').next().and_then(|n| n.parse().ok()).unwrap_or(0);
        all += calls;
        scripts += if name == "cmdstat_evalsha" { calls } else { 0 };
    }
    (all, scripts)
}

/// What one script may ask of Redis: some 12 commands for each of 128 leases of either kind.
const MOST_COMMANDS: i64 = 128 * 2 * 12;

/// Thousands of leases are over at once: no script works off more than its bound, since everybody
/// waits meanwhile.
pub async fn many_leases_over(scene: &mut Scene) {
    let mut hand = scene.hand(0);
    for _ in 0..5 {
        hand.publish_batch(vec![Options::default(); 1_000]).await;
    }
    // All end at about the same instant, and housekeeping comes half a second after the first.
    let end = now() + 6_000;
    for _ in 0..5 {
        hand.leased(1_000, (end - now()).max(1_000), 1_000).await;
    }
    until(end + 100).await;
    let before = commands(&scene.redis).await;
    hand.leased(1, 30_000, 0).await;
    let after = commands(&scene.redis).await;
    let (all, scripts) = (after.0 - before.0, (after.1 - before.1).max(1));
    scene.demand(all / scripts <= MOST_COMMANDS, "I12 liveness", || {
        format!("{all} commands in {scripts} calls of scripts: Redis served nobody meanwhile")
    });
}
