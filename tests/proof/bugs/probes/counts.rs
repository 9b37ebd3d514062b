//! Places and totals: whatever ends a message or a lease leaves nothing behind and counts once.

use serde_json::json;

use crate::harness::eventually;
use crate::proof::actor::{Options, moment};
use crate::proof::bugs::scene::Scene;

/// Messages that are published, leased and acked.
pub async fn plain_lives(scene: &mut Scene) {
    let mut hand = scene.hand(0);
    hand.publish_each(8, Options::default()).await;
    let grants = hand.leased(8, 30_000, 1_000).await;
    scene.look().await;
    hand.ack_all(&grants).await;
}

/// Leases that housekeeping ends, since nobody asks for the messages again.
pub async fn leases_nobody_asks_for(scene: &mut Scene) {
    let mut hand = scene.hand(0);
    hand.publish_each(4, Options::default()).await;
    hand.leased(4, 1_000, 1_000).await;
    eventually("housekeeping", || async {
        (scene.audit().await.total("lease_expired") > 0).then_some(())
    })
    .await;
}

/// Acked messages that are retained, until housekeeping forgets them.
pub async fn retained_messages(scene: &mut Scene) {
    let mut hand = scene.hand(0);
    scene.configure(json!({"retention": {"acked_ms": 1_000}})).await;
    hand.publish_each(4, Options::default()).await;
    hand.work(4, 1_000).await;
    scene.look().await;
    eventually("the retained are forgotten", || async {
        (scene.audit().await.count("acked") == 0).then_some(())
    })
    .await;
}

/// Messages that are deleted from every state, leased ones too.
pub async fn deletes(scene: &mut Scene) {
    let mut hand = scene.hand(0);
    for n in 0..3 {
        hand.publish_ok(Options::key(format!("k{n}"))).await;
    }
    let waiting = hand.publish_ok(Options::after(60_000)).await;
    let grants = hand.leased(3, 30_000, 1_000).await;
    moment().await;
    hand.delete(&waiting, false).await;
    hand.delete(&grants[0].id, false).await;
    hand.delete(&grants[1].id, true).await;
    let ready = hand.publish_ok(Options::default()).await;
    hand.delete(&ready, false).await;
    hand.leased(3, 30_000, 200).await;
    hand.ack_all(&grants).await;
}

/// Messages in different states that are deleted by one request.
pub async fn a_bulk_delete(scene: &mut Scene) {
    let mut hand = scene.hand(0);
    for n in 0..2 {
        hand.publish_ok(Options::key(format!("k{n}"))).await;
    }
    let waiting = hand.publish_ok(Options::after(60_000)).await;
    let grants = hand.leased(2, 30_000, 1_000).await;
    let ready = hand.publish_ok(Options::default()).await;
    hand.delete_batch(&[&waiting, &grants[0].id, &ready, &grants[1].id]).await;
    hand.leased(3, 30_000, 200).await;
    hand.ack_all(&grants).await;
}

/// A purge of all that can be purged, while some are leased.
pub async fn a_purge(scene: &mut Scene) {
    let mut hand = scene.hand(0);
    hand.publish_each(3, Options::default()).await;
    let grants = hand.leased(2, 30_000, 1_000).await;
    moment().await;
    hand.publish_ok(Options::after(60_000)).await;
    hand.purge(&["ready", "delayed", "dead"]).await;
    hand.ack_all(&grants).await;
}
