//! Faults of Redis and of the way to it, in small.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_redis::redis;
use futures_util::future::{join, join_all};
use tokio::time::sleep;

use crate::harness::{Redis, eventually};
use crate::proof::audit::connect;
use crate::proof::bugs::hand::{Ask, Hand};
use crate::proof::bugs::scene::Scene;
use crate::proof::history::{FaultKind, now};
use crate::proof::stage::{Report, Setting};

/// Cuts all connections between a script and its answer: what arrives while Redis is busy runs in
/// one turn of its loop with the cut that arrives after it, and answers are written at its end.
async fn cut(redis: &Redis) {
    let (mut busy, mut cutter) =
        (connect(&redis.url()).await.unwrap(), connect(&redis.url()).await.unwrap());
    let work = tokio::spawn(async move {
        let mut eval = redis::cmd("EVAL");
        eval.arg("for i = 1, 4000000 do end").arg(0);
        let _ = eval.query_async::<()>(&mut busy).await; // cut off too
    });
    sleep(Duration::from_millis(10)).await;
    let mut kill = redis::cmd("CLIENT");
    kill.arg("KILL").arg("TYPE").arg("normal");
    kill.query_async::<i64>(&mut cutter).await.unwrap();
    work.await.unwrap();
}

async fn publish_on(hand: &Hand, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        hand.publish(Ask::default()).await;
        sleep(Duration::from_millis(2)).await;
    }
}

async fn consume_on(hand: &Hand, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        for grant in hand.leased(3, 1_000, 0).await {
            hand.ack(&grant).await;
        }
        sleep(Duration::from_millis(2)).await;
    }
}

/// Leases and acks what is left, once the leases of lost answers are over.
async fn drain(scene: &Scene) {
    let hand = scene.hand(0);
    let end = now() + 2_500;
    while now() < end {
        for grant in hand.leased(100, 5_000, 200).await {
            hand.ack(&grant).await;
        }
    }
}

/// Answers are lost again and again while some publish and others consume.
pub async fn lost_answers(setting: Setting) -> Report {
    let scene = Scene::start("lost_answers", setting, 1).await;
    let (publishers, consumers) = (scene.hands(6), scene.hands(6));
    let stop = Arc::new(AtomicBool::new(false));
    let cuts = async {
        for _ in 0..6 {
            sleep(Duration::from_millis(150)).await;
            let from = now();
            cut(&scene.redis).await;
            scene.recorder.fault(FaultKind::ConnectionsCut, from);
        }
        sleep(Duration::from_millis(300)).await;
        stop.store(true, Ordering::Relaxed);
    };
    let clients = join(
        join_all(publishers.iter().map(|hand| publish_on(hand, &stop))),
        join_all(consumers.iter().map(|hand| consume_on(hand, &stop))),
    );
    join(cuts, clients).await;
    drain(&scene).await;
    scene.end().await
}

/// Redis stands still while more is published than can be sent, and goes on later.
pub async fn a_redis_that_stands_still(setting: Setting) -> Report {
    let slow = |launch: crate::harness::Launch| launch.args(["--redis-timeout-ms", "1000"]);
    let mut scene = Scene::with("a_redis_that_stands_still", setting, 1, slow).await;
    scene.hand(0).publish_ok(Ask::default()).await;
    let crowd = scene.hands(200);
    let from = now();
    scene.redis.pause();
    // Some are sent and never answered, the others never sent.
    join_all(crowd.iter().map(|hand| hand.publish(Ask::default()))).await;
    scene.redis.resume();
    scene.recorder.fault(FaultKind::RedisPaused, from);
    eventually("a publish after that", || async {
        scene.hand(0).publish(Ask::default()).await.ok().cloned()
    })
    .await;
    drain(&scene).await;
    scene.end().await
}
