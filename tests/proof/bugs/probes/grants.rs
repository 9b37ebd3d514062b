//! What is granted, when and in which order.

use futures_util::future::join_all;

use crate::proof::bugs::hand::Ask;
use crate::proof::bugs::scene::{Scene, until};
use crate::proof::history::{Back, OnDuplicate, now};
use crate::proof::stage::{Report, Setting};

/// Consumers that ask all the time while messages fall due one by one.
pub async fn impatient_consumers(setting: Setting) -> Report {
    let scene = Scene::start("impatient_consumers", setting, 1).await;
    let hand = scene.hand(0);
    for n in 0..300 {
        hand.publish_ok(Ask {
            priority: if n % 4 == 0 { 7 } else { 0 },
            ..Ask::after(400 + 2 * n)
        })
        .await;
    }
    let end = now() + 1_600;
    join_all((0..4).map(|_| scene.hand(0)).map(|hand| async move {
        while now() < end {
            for grant in hand.leased(10, 30_000, 0).await {
                hand.ack(&grant).await;
            }
        }
    }))
    .await;
    scene.end().await
}

/// One client publishes messages for one instant, one consumer leases them.
pub async fn one_after_another(setting: Setting) -> Report {
    let scene = Scene::start("one_after_another", setting, 1).await;
    let hand = scene.hand(0);
    let at = now() + 500;
    for _ in 0..40 {
        hand.publish_ok(Ask { at: Some(at), ..Ask::default() }).await;
    }
    until(at + 5).await;
    let consumer = scene.hand(0);
    for most in [1, 3, 36] {
        for grant in consumer.leased(most, 30_000, 500).await {
            consumer.ack(&grant).await;
        }
    }
    scene.end().await
}

/// Messages that are replaced and updated before they are granted.
pub async fn changed_messages(setting: Setting) -> Report {
    let scene = Scene::start("changed_messages", setting, 1).await;
    let hand = scene.hand(0);
    for n in 0..4 {
        let replace = Ask { on_duplicate: OnDuplicate::Replace, ..Ask::key(format!("k{n}")) };
        hand.publish_ok(Ask { delay: 60_000, ..replace.clone() }).await;
        hand.publish_ok(Ask { delay: 500, ..replace }).await;
        let id = hand.publish_ok(Ask::after(60_000)).await;
        hand.update(&id, Some(format!(r#"{{"updated" :{n}}}"#)), Some(500)).await;
    }
    hand.leased(8, 30_000, 0).await; // none is due
    until(now() + 550).await;
    for grant in hand.leased(8, 30_000, 1_000).await {
        hand.ack(&grant).await;
    }
    scene.end().await
}

/// Messages whose time to live is over when they come back.
pub async fn time_to_live(setting: Setting) -> Report {
    let scene = Scene::start("time_to_live", setting, 1).await;
    let hand = scene.hand(0);
    for _ in 0..4 {
        hand.publish_ok(Ask { ttl: Some(600), ..Ask::default() }).await;
    }
    let grants = hand.leased(4, 1_000, 1_000).await;
    for grant in &grants[..2] {
        hand.nack(grant, Back::Failed, Some(500)).await;
    }
    until(grants[0].deadline + 20).await;
    hand.leased(4, 30_000, 300).await;
    scene.end().await
}

/// Nobody is granted anything between a pause and the resume.
pub async fn a_pause(setting: Setting) -> Report {
    let scene = Scene::start("a_pause", setting, 2).await;
    let [one, other] = [scene.hand(0), scene.hand(1)];
    one.publish_ok(Ask::default()).await;
    one.pause(true).await;
    one.publish_ok(Ask::default()).await;
    let granted = other.leased(2, 30_000, 300).await;
    one.pause(false).await;
    for grant in granted.iter().chain(&other.leased(2, 30_000, 1_000).await) {
        other.ack(grant).await;
    }
    scene.end().await
}
