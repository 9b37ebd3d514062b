//! Faults of Redis and of the way to it, in small.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::{join, join_all};
use tokio::time::sleep;

use crate::harness::eventually;
use crate::proof::actor::{Actor, Options};
use crate::proof::bugs::scene::Scene;
use crate::proof::history::{FaultKind, now};
use crate::proof::scenarios::connections::cut;
use crate::proof::stage::{Report, Setting};

async fn publish_on(hand: &mut Actor, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        hand.publish(Options::default()).await;
        sleep(Duration::from_millis(2)).await;
    }
}

async fn consume_on(hand: &mut Actor, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        for grant in hand.leased(3, 1_000, 0).await {
            hand.ack(&grant).await;
        }
        sleep(Duration::from_millis(2)).await;
    }
}

/// Leases and acks what is left, once the leases of lost answers are over.
async fn drain(scene: &Scene) {
    let mut hand = scene.hand(0);
    let end = now() + 2_500;
    while now() < end {
        for grant in hand.leased(100, 5_000, 200).await {
            hand.ack(&grant).await;
        }
    }
}

/// Answers are lost again and again while some publish and others consume.
pub async fn lost_answers(scene: &mut Scene) {
    let (mut publishers, mut consumers) = (scene.hands(6), scene.hands(6));
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
        join_all(publishers.iter_mut().map(|hand| publish_on(hand, &stop))),
        join_all(consumers.iter_mut().map(|hand| consume_on(hand, &stop))),
    );
    join(cuts, clients).await;
    drain(scene).await;
}

/// Redis stands still while more is published than can be sent, and goes on later.
pub async fn a_redis_that_stands_still(setting: Setting) -> Report {
    let slow = |launch: crate::harness::Launch| launch.args(["--redis-timeout-ms", "1000"]);
    let mut scene = Scene::with("a_redis_that_stands_still", setting, 1, slow).await;
    scene.hand(0).publish_ok(Options::default()).await;
    let mut crowd = scene.hands(200);
    let from = now();
    scene.redis.pause();
    // Some are sent and never answered, the others never sent.
    join_all(crowd.iter_mut().map(|hand| hand.publish(Options::default()))).await;
    scene.redis.resume();
    scene.recorder.fault(FaultKind::RedisPaused, from);
    eventually("a publish after that", || async {
        scene.hand(0).publish(Options::default()).await.ok().cloned()
    })
    .await;
    drain(&scene).await;
    scene.end().await
}
