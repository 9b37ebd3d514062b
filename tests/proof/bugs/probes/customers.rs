//! Groups, and limits of how much is granted.

use serde_json::json;

use crate::proof::bugs::hand::{Ask, Hand, moment};
use crate::proof::bugs::scene::Scene;
use crate::proof::history::{Back, Limits};
use crate::proof::stage::{Report, Setting};

/// Leases and acks what comes, so often.
async fn work(hand: &Hand, times: usize) {
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
pub async fn a_failed_head(setting: Setting) -> Report {
    let mut scene = Scene::start("a_failed_head", setting, 1).await;
    let hand = scene.hand(0);
    for _ in 0..3 {
        hand.publish_ok(Ask::group("g")).await;
    }
    for grant in hand.leased(10, 30_000, 1_000).await {
        hand.nack(&grant, Back::Failed, Some(400)).await;
    }
    scene.look().await;
    work(&hand, 4).await;
    scene.end().await
}

/// The first of a group dies of its only attempt, and the second is next.
pub async fn a_dead_head(setting: Setting) -> Report {
    let mut scene = Scene::start("a_dead_head", setting, 1).await;
    let hand = scene.hand(0);
    hand.publish_ok(Ask { max_attempts: Some(1), ..Ask::group("g") }).await;
    hand.publish_ok(Ask::group("g")).await;
    for grant in hand.leased(1, 30_000, 1_000).await {
        hand.nack(&grant, Back::Failed, None).await;
    }
    scene.look().await;
    work(&hand, 2).await;
    scene.end().await
}

/// The first of a group is deleted, waiting or leased, and the second is next.
pub async fn a_deleted_head(setting: Setting) -> Report {
    let mut scene = Scene::start("a_deleted_head", setting, 1).await;
    let hand = scene.hand(0);
    let first = hand.publish_ok(Ask::group("g")).await;
    hand.publish_ok(Ask::group("g")).await;
    hand.publish_ok(Ask::group("g")).await;
    hand.delete(&first, false).await;
    scene.look().await;
    for grant in hand.leased(1, 30_000, 600).await {
        hand.delete(&grant.id, true).await;
    }
    scene.look().await;
    work(&hand, 2).await;
    scene.end().await
}

/// Three of one group, of which the second falls due last.
pub async fn a_delayed_turn(setting: Setting) -> Report {
    let scene = Scene::start("a_delayed_turn", setting, 1).await;
    let hand = scene.hand(0);
    for delay in [0, 500, 0] {
        hand.publish_ok(Ask { delay, ..Ask::group("g") }).await;
    }
    work(&hand, 4).await;
    scene.end().await
}

/// Five of one group, one at a time.
pub async fn some_at_once(setting: Setting) -> Report {
    let mut scene = Scene::start("some_at_once", setting, 1).await;
    let hand = scene.hand(0);
    for _ in 0..5 {
        hand.publish_ok(Ask::group("g")).await;
    }
    scene.look().await;
    work(&hand, 6).await;
    scene.end().await
}

/// Of a group one falls due a second.
pub async fn a_slow_group(setting: Setting) -> Report {
    let scene = Scene::start("a_slow_group", setting, 1).await;
    let hand = scene.hand(0);
    hand.configure(json!({"group_concurrency": 30, "group_rate_per_s": 1})).await;
    hand.publish_batch((0..20).map(|_| Ask::group("g")).collect()).await;
    work(&hand, 3).await;
    scene.end().await
}

/// Of a group one falls due in 100 s, and the next waits for it.
pub async fn a_slow_line(setting: Setting) -> Report {
    let scene = Scene::start("a_slow_line", setting, 1).await;
    let hand = scene.hand(0);
    hand.configure(json!({"group_rate_per_s": 0.01})).await;
    hand.publish_batch((0..3).map(|_| Ask::group("g")).collect()).await;
    work(&hand, 2).await;
    scene.end().await
}

/// Of a topic 20 are leased a second.
pub async fn a_slow_topic(setting: Setting) -> Report {
    let scene = Scene::start("a_slow_topic", setting, 1).await;
    let hand = scene.hand(0);
    hand.configure(json!({"rate_per_s": 20})).await;
    scene.recorder.limit(&scene.topic, Limits { rate_per_s: Some(20.0), ..Limits::default() });
    hand.publish_batch((0..300).map(|_| Ask::default()).collect()).await;
    for _ in 0..5 {
        for grant in hand.leased(100, 30_000, 200).await {
            hand.ack(&grant).await;
        }
    }
    scene.end().await
}

/// Three of a topic are leased at once.
pub async fn leases_at_once(setting: Setting) -> Report {
    let scene = Scene::start("leases_at_once", setting, 1).await;
    let hand = scene.hand(0);
    hand.configure(json!({"max_leased": 3})).await;
    scene.recorder.limit(&scene.topic, Limits { max_leased: Some(3), ..Limits::default() });
    hand.publish_batch((0..10).map(|_| Ask::default()).collect()).await;
    work(&hand, 5).await;
    scene.end().await
}

/// Three of a topic of four partitions are leased at once.
pub async fn leases_of_all_parts(setting: Setting) -> Report {
    let scene = Scene::start("leases_of_all_parts", setting, 1).await;
    let hand = scene.hand(0);
    hand.configure(json!({"max_leased": 3, "partitions": 4})).await;
    scene.recorder.limit(&scene.topic, Limits { max_leased: Some(3), ..Limits::default() });
    hand.publish_batch((0..20).map(|n| Ask::key(format!("k{n}"))).collect()).await;
    work(&hand, 5).await;
    scene.end().await
}

/// Half of those that wait at the front of a slow group are deleted.
pub async fn a_left_turn(setting: Setting) -> Report {
    let mut scene = Scene::start("a_left_turn", setting, 1).await;
    let hand = scene.hand(0);
    hand.configure(json!({"group_concurrency": 20, "group_rate_per_s": 0.5})).await;
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(hand.publish_ok(Ask::group("g")).await);
    }
    for id in &ids[..10] {
        hand.delete(id, false).await;
    }
    let held = hand.leased(10, 30_000, 1_000).await.len();
    scene.demand(held == 1, "I18 rates", || {
        format!("{held} messages of a group were granted of which none was granted before")
    });
    scene.end().await
}

/// Most of a long line at the front of a group are deleted, more than are planned at once.
pub async fn a_long_line(setting: Setting) -> Report {
    let mut scene = Scene::start("a_long_line", setting, 1).await;
    let hand = scene.hand(0);
    hand.configure(json!({"group_concurrency": 400, "group_rate_per_s": 50})).await;
    let mut ids = Vec::new();
    for _ in 0..200 {
        ids.push(hand.publish_ok(Ask::group("g")).await);
    }
    hand.publish_batch((0..200).map(|_| Ask::group("g")).collect()).await;
    for id in &ids {
        hand.delete(id, false).await;
    }
    let (begun, mut granted) = (std::time::Instant::now(), 0);
    while begun.elapsed().as_secs() < 4 {
        granted += hand.leased(10, 30_000, 100).await.len();
    }
    scene.demand(granted > 130, "I12 liveness", || {
        format!("{granted} messages of a group were granted in 4 s, at a rate of 50 a second")
    });
    scene.end().await
}

/// A consumer of a slow group comes late.
pub async fn a_late_consumer(setting: Setting) -> Report {
    let mut scene = Scene::start("a_late_consumer", setting, 1).await;
    let hand = scene.hand(0);
    hand.configure(json!({"group_concurrency": 20, "group_rate_per_s": 2})).await;
    hand.publish_batch((0..20).map(|_| Ask::group("g")).collect()).await;
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    let held = hand.leased(10, 30_000, 0).await.len();
    scene.demand(held == 1, "I18 rates", || {
        format!("{held} messages of a group were granted at once")
    });
    scene.end().await
}

/// Messages of a slow group wait for it longer than they live.
pub async fn a_ttl_in_line(setting: Setting) -> Report {
    let mut scene = Scene::start("a_ttl_in_line", setting, 1).await;
    let hand = scene.hand(0);
    hand.configure(json!({"group_rate_per_s": 2})).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(hand.publish_ok(Ask { ttl: Some(300), ..Ask::group("g") }).await);
    }
    let mut granted = 0;
    for _ in 0..3 {
        for grant in hand.leased(1, 30_000, 2_000).await {
            granted += 1;
            tokio::time::sleep(std::time::Duration::from_millis(350)).await;
            // Whoever looks sees what is over by then.
            for id in &ids {
                hand.client.get(id).await;
            }
            hand.ack(&grant).await;
        }
    }
    scene.demand(granted == 3, "I18 rates", || {
        format!("{granted} of 3 messages were granted, the others expired before their turn")
    });
    scene.end().await
}
