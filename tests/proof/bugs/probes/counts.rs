//! Places and totals: whatever ends a message or a lease leaves nothing behind and counts once.

use serde_json::json;

use crate::harness::eventually;
use crate::proof::bugs::hand::{Ask, moment};
use crate::proof::bugs::scene::Scene;
use crate::proof::stage::{Report, Setting};

/// Messages that are published, leased and acked.
pub async fn plain_lives(setting: Setting) -> Report {
    let mut scene = Scene::start("plain_lives", setting, 1).await;
    let hand = scene.hand(0);
    for _ in 0..8 {
        hand.publish_ok(Ask::default()).await;
    }
    let grants = hand.leased(8, 30_000, 1_000).await;
    scene.look().await;
    for grant in &grants {
        hand.ack(grant).await;
    }
    scene.end().await
}

/// Leases that housekeeping ends, since nobody asks for the messages again.
pub async fn leases_nobody_asks_for(setting: Setting) -> Report {
    let scene = Scene::start("leases_nobody_asks_for", setting, 1).await;
    let hand = scene.hand(0);
    for _ in 0..4 {
        hand.publish_ok(Ask::default()).await;
    }
    hand.leased(4, 1_000, 1_000).await;
    eventually("housekeeping", || async {
        (scene.audit().await.total("lease_expired") > 0).then_some(())
    })
    .await;
    scene.end().await
}

/// Acked messages that are retained, until housekeeping forgets them.
pub async fn retained_messages(setting: Setting) -> Report {
    let mut scene = Scene::start("retained_messages", setting, 1).await;
    let hand = scene.hand(0);
    hand.configure(json!({"retention": {"acked_ms": 1_000}})).await;
    for _ in 0..4 {
        hand.publish_ok(Ask::default()).await;
    }
    for grant in hand.leased(4, 30_000, 1_000).await {
        hand.ack(&grant).await;
    }
    scene.look().await;
    eventually("the retained are forgotten", || async {
        (scene.audit().await.count("acked") == 0).then_some(())
    })
    .await;
    scene.end().await
}

/// Messages that are deleted from every state, leased ones too.
pub async fn deletes(setting: Setting) -> Report {
    let scene = Scene::start("deletes", setting, 1).await;
    let hand = scene.hand(0);
    for n in 0..3 {
        hand.publish_ok(Ask::key(format!("k{n}"))).await;
    }
    let waiting = hand.publish_ok(Ask::after(60_000)).await;
    let grants = hand.leased(3, 30_000, 1_000).await;
    moment().await;
    hand.delete(&waiting, false).await;
    hand.delete(&grants[0].id, false).await;
    hand.delete(&grants[1].id, true).await;
    let ready = hand.publish_ok(Ask::default()).await;
    hand.delete(&ready, false).await;
    hand.leased(3, 30_000, 200).await;
    for grant in &grants {
        hand.ack(grant).await;
    }
    scene.end().await
}

/// Messages in different states that are deleted by one request.
pub async fn a_bulk_delete(setting: Setting) -> Report {
    let scene = Scene::start("a_bulk_delete", setting, 1).await;
    let hand = scene.hand(0);
    for n in 0..2 {
        hand.publish_ok(Ask::key(format!("k{n}"))).await;
    }
    let waiting = hand.publish_ok(Ask::after(60_000)).await;
    let grants = hand.leased(2, 30_000, 1_000).await;
    let ready = hand.publish_ok(Ask::default()).await;
    hand.delete_batch(&[&waiting, &grants[0].id, &ready, &grants[1].id]).await;
    hand.leased(3, 30_000, 200).await;
    for grant in &grants {
        hand.ack(grant).await;
    }
    scene.end().await
}

/// A purge of all that can be purged, while some are leased.
pub async fn a_purge(setting: Setting) -> Report {
    let scene = Scene::start("a_purge", setting, 1).await;
    let hand = scene.hand(0);
    for _ in 0..3 {
        hand.publish_ok(Ask::default()).await;
    }
    let grants = hand.leased(2, 30_000, 1_000).await;
    moment().await;
    hand.publish_ok(Ask::after(60_000)).await;
    hand.purge(vec!["ready", "delayed", "dead"]).await;
    for grant in &grants {
        hand.ack(grant).await;
    }
    scene.end().await
}
