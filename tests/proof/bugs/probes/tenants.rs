//! Groups of a fair topic, which take turns.

use serde_json::{Value, json};

use crate::proof::actor::{Actor, Options, moment};
use crate::proof::bugs::scene::Scene;
use crate::proof::history::Back;

/// A client of a fair topic with this configuration, too.
async fn fair(scene: &Scene, mut config: Value) -> Actor {
    config["group_order"] = json!("fair");
    scene.configure(config).await;
    scene.hand(0)
}

/// Leases so many messages, one at a time, and acks them.
async fn work(hand: &mut Actor, times: usize) {
    for _ in 0..times {
        hand.work(1, 0).await;
        moment().await;
    }
}

/// Two with the same work.
pub async fn two_tenants(scene: &mut Scene) {
    let mut hand = fair(scene, json!({})).await;
    hand.publish_each(5, Options::group("a")).await;
    hand.publish_each(5, Options::group("b")).await;
    scene.look().await;
    work(&mut hand, 10).await;
}

/// One that has had the topic for itself, and one that comes.
pub async fn a_late_tenant(scene: &mut Scene) {
    let mut hand = fair(scene, json!({})).await;
    hand.publish_each(10, Options::group("a")).await;
    work(&mut hand, 5).await;
    hand.publish_each(4, Options::group("b")).await;
    work(&mut hand, 9).await;
}

/// One whose only message fails, and one whose first message of two is deleted.
pub async fn a_failed_tenant(scene: &mut Scene) {
    let mut hand = fair(scene, json!({})).await;
    hand.publish_ok(Options::group("a")).await;
    let held = hand.leased(1, 30_000, 0).await;
    // By then nobody thinks of it any more.
    hand.work(1, 0).await;
    for grant in &held {
        hand.end(grant, Back::Failed, Some(0)).await;
    }
    scene.look().await;
    let gone = hand.publish_ok(Options::group("b")).await;
    hand.publish_ok(Options::group("b")).await;
    hand.delete(&gone, false).await;
    scene.look().await;
    work(&mut hand, 2).await;
}

/// One whose consumer never comes back.
pub async fn a_forgotten_tenant(scene: &mut Scene) {
    let mut hand = fair(scene, json!({})).await;
    let id = hand.publish_ok(Options::group("a")).await;
    hand.leased(1, 1_000, 0).await;
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    // A lease that has ended is noticed by a look.
    hand.get(&id).await;
    scene.look().await;
    hand.work(1, 0).await;
}

/// One whose message falls due while somebody waits, and those without a group.
pub async fn a_later_tenant(scene: &mut Scene) {
    let mut hand = fair(scene, json!({})).await;
    let mut other = scene.hand(0);
    hand.publish_ok(Options { delay: 300, ..Options::group("a") }).await;
    other.leased(1, 30_000, 3_000).await;
    hand.publish_ok(Options::after(300)).await;
    other.leased(1, 30_000, 3_000).await;
}

/// One that may have two leases.
pub async fn a_limited_tenant(scene: &mut Scene) {
    let mut hand = fair(scene, json!({"group_concurrency": 2})).await;
    hand.publish_each(6, Options::group("a")).await;
    let held = [hand.leased(3, 30_000, 0).await, hand.leased(3, 30_000, 200).await].concat();
    moment().await;
    scene.look().await;
    hand.ack_all(&held).await;
}

/// One that may have a message a second.
pub async fn a_slow_tenant(scene: &mut Scene) {
    let mut hand = fair(scene, json!({"group_rate_per_s": 1})).await;
    hand.publish_batch(vec![Options::group("a"); 20]).await;
    for _ in 0..3 {
        hand.work(10, 600).await;
    }
}

/// One with limits of its own.
pub async fn a_tenant_with_limits(scene: &mut Scene) {
    let mut hand = fair(scene, json!({})).await;
    scene.put_group("a", json!({"concurrency": 2})).await;
    scene.put_group("b", json!({"rate_per_s": 1})).await;
    hand.publish_batch(vec![Options::group("a"); 6]).await;
    hand.publish_batch(vec![Options::group("b"); 20]).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.extend(hand.leased(10, 30_000, 300).await);
    }
    hand.ack_all(&held).await;
}

/// One that is paused, and goes on.
pub async fn a_paused_tenant(scene: &mut Scene) {
    let [mut hand, mut other] = [fair(scene, json!({})).await, scene.hand(0)];
    hand.pause_group("a", true).await;
    hand.publish_each(2, Options::group("a")).await;
    hand.publish_ok(Options::group("b")).await;
    hand.leased(5, 30_000, 100).await;
    let (resumed, waited) = futures_util::join!(
        async {
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
            hand.pause_group("a", false).await;
        },
        other.leased(2, 30_000, 3_000)
    );
    let () = resumed;
    scene.demand(!waited.is_empty(), "I12 liveness", || "a resume told nobody who waits".into());
}

/// One of three times the weight of the other.
pub async fn a_heavy_tenant(scene: &mut Scene) {
    let mut hand = fair(scene, json!({})).await;
    scene.put_group("a", json!({"weight": 3})).await;
    hand.publish_batch(vec![Options::group("a"); 12]).await;
    hand.publish_batch(vec![Options::group("b"); 12]).await;
    let held = hand.leased(8, 30_000, 0).await;
    let its = held.iter().filter(|grant| grant.group.as_deref() == Some("a")).count();
    scene.demand(its == 6, "I19 fairness", || format!("{its} of 8 messages are of weight 3"));
}
