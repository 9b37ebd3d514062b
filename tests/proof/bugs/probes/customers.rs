//! Groups, and limits of how much is granted.

use serde_json::json;

use crate::proof::actor::{Actor, Options, moment};
use crate::proof::bugs::scene::Scene;
use crate::proof::history::{Back, Limits};

/// Leases and acks what comes, so often.
async fn work(hand: &mut Actor, times: usize) {
    for _ in 0..times {
        let held = hand.leased(10, 30_000, 600).await;
        // What is held together shows.
        moment().await;
        for grant in held {
            hand.ack(&grant).await;
        }
    }
}

/// Three of one group, of which the first fails once.
pub async fn a_failed_head(scene: &mut Scene) {
    let mut hand = scene.hand(0);
    hand.publish_each(3, Options::group("g")).await;
    hand.fail(10, 1_000, Back::Failed, Some(400)).await;
    scene.look().await;
    work(&mut hand, 4).await;
}

/// The first of a group dies of its only attempt, and the second is next.
pub async fn a_dead_head(scene: &mut Scene) {
    let mut hand = scene.hand(0);
    hand.publish_ok(Options { max_attempts: Some(1), ..Options::group("g") }).await;
    hand.publish_ok(Options::group("g")).await;
    hand.fail(1, 1_000, Back::Failed, None).await;
    scene.look().await;
    work(&mut hand, 2).await;
}

/// The first of a group is deleted, waiting or leased, and the second is next.
pub async fn a_deleted_head(scene: &mut Scene) {
    let mut hand = scene.hand(0);
    let first = hand.publish_ok(Options::group("g")).await;
    hand.publish_ok(Options::group("g")).await;
    hand.publish_ok(Options::group("g")).await;
    hand.delete(&first, false).await;
    scene.look().await;
    for grant in hand.leased(1, 30_000, 600).await {
        hand.delete(&grant.id, true).await;
    }
    scene.look().await;
    work(&mut hand, 2).await;
}

/// Three of one group, of which the second falls due last.
pub async fn a_delayed_turn(scene: &mut Scene) {
    let mut hand = scene.hand(0);
    for delay in [0, 500, 0] {
        hand.publish_ok(Options { delay, ..Options::group("g") }).await;
    }
    work(&mut hand, 4).await;
}

/// Five of one group, one at a time.
pub async fn some_at_once(scene: &mut Scene) {
    let mut hand = scene.hand(0);
    hand.publish_each(5, Options::group("g")).await;
    scene.look().await;
    work(&mut hand, 6).await;
}

/// Of a group one falls due a second.
pub async fn a_slow_group(scene: &mut Scene) {
    let mut hand = scene.hand(0);
    scene.configure(json!({"group_concurrency": 30, "group_rate_per_s": 1})).await;
    hand.publish_batch(vec![Options::group("g"); 20]).await;
    work(&mut hand, 3).await;
}

/// Of a group one falls due in 100 s, and the next waits for it.
pub async fn a_slow_line(scene: &mut Scene) {
    let mut hand = scene.hand(0);
    scene.configure(json!({"group_rate_per_s": 0.01})).await;
    hand.publish_batch(vec![Options::group("g"); 3]).await;
    work(&mut hand, 2).await;
}

/// Of a topic 20 are leased a second.
pub async fn a_slow_topic(scene: &mut Scene) {
    let mut hand = scene.hand(0);
    scene.configure(json!({"rate_per_s": 20})).await;
    scene.recorder.limit(&scene.topic, Limits { rate_per_s: Some(20.0), ..Limits::default() });
    hand.publish_batch(vec![Options::default(); 300]).await;
    for _ in 0..5 {
        hand.work(100, 200).await;
    }
}

/// Three of a topic are leased at once.
pub async fn leases_at_once(scene: &mut Scene) {
    let mut hand = scene.hand(0);
    scene.configure(json!({"max_leased": 3})).await;
    scene.recorder.limit(&scene.topic, Limits { max_leased: Some(3), ..Limits::default() });
    hand.publish_batch(vec![Options::default(); 10]).await;
    work(&mut hand, 5).await;
}

/// Three of a topic of four partitions are leased at once, while another client asks too.
pub async fn leases_of_all_parts(scene: &mut Scene) {
    let [mut hand, mut other] = [scene.hand(0), scene.hand(0)];
    scene.configure(json!({"max_leased": 3, "partitions": 4})).await;
    scene.recorder.limit(&scene.topic, Limits { max_leased: Some(3), ..Limits::default() });
    hand.publish_batch((0..20).map(|n| Options::key(format!("k{n}"))).collect()).await;
    for _ in 0..4 {
        let held = hand.leased(10, 30_000, 600).await;
        let more = other.leased(10, 30_000, 100).await;
        hand.ack_all(&held).await;
        other.ack_all(&more).await;
    }
}

/// Half of those that wait at the front of a slow group are deleted.
pub async fn a_left_turn(scene: &mut Scene) {
    let mut hand = scene.hand(0);
    scene.configure(json!({"group_concurrency": 20, "group_rate_per_s": 0.5})).await;
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(hand.publish_ok(Options::group("g")).await);
    }
    for id in &ids[..10] {
        hand.delete(id, false).await;
    }
    let held = hand.leased(10, 30_000, 1_000).await.len();
    scene.demand(held == 1, "I18 rates", || {
        format!("{held} messages of a group were granted of which none was granted before")
    });
}

/// Most of a long line at the front of a group are deleted, more than are planned at once.
pub async fn a_long_line(scene: &mut Scene) {
    let mut hand = scene.hand(0);
    scene.configure(json!({"group_concurrency": 400, "group_rate_per_s": 50})).await;
    let outcomes = hand.publish_batch(vec![Options::group("g"); 400]).await;
    let published: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.ok()).collect();
    // Together, before those behind them come to their turns anyway.
    let ids: Vec<&str> = published.iter().take(200).map(|published| &*published.id).collect();
    for ids in ids.chunks(100) {
        hand.delete_batch(ids).await;
    }
    let (begun, mut granted) = (std::time::Instant::now(), 0);
    while begun.elapsed().as_secs() < 4 {
        granted += hand.leased(10, 30_000, 100).await.len();
    }
    scene.demand(granted > 130, "I12 liveness", || {
        format!("{granted} messages of a group were granted in 4 s, at a rate of 50 a second")
    });
}

/// A consumer of a slow group comes late.
pub async fn a_late_consumer(scene: &mut Scene) {
    let mut hand = scene.hand(0);
    scene.configure(json!({"group_concurrency": 20, "group_rate_per_s": 2})).await;
    hand.publish_batch(vec![Options::group("g"); 20]).await;
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    let held = hand.leased(10, 30_000, 0).await.len();
    scene.demand(held == 1, "I18 rates", || {
        format!("{held} messages of a group were granted at once")
    });
}

/// Messages of a slow group wait for it longer than they live.
pub async fn a_ttl_in_line(scene: &mut Scene) {
    let client = scene.dueq[0].client();
    let mut hand = scene.hand(0);
    scene.configure(json!({"group_rate_per_s": 1})).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(hand.publish_ok(Options { ttl: Some(900), ..Options::group("g") }).await);
    }
    let mut granted = 0;
    for _ in 0..3 {
        for grant in hand.leased(1, 30_000, 2_000).await {
            granted += 1;
            tokio::time::sleep(std::time::Duration::from_millis(950)).await;
            // Anyone who looks sees what is over by then.
            for id in &ids {
                client.get(id).await;
            }
            hand.ack(&grant).await;
        }
    }
    scene.demand(granted == 3, "I18 rates", || {
        format!("{granted} of 3 messages were granted, the others expired before their turn")
    });
}
