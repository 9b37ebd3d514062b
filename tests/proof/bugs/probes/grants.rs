//! What is granted, when and in which order.

use futures_util::future::join_all;

use crate::proof::actor::Options;
use crate::proof::bugs::scene::{Scene, until};
use crate::proof::history::{Back, OnDuplicate, now};

/// Consumers that ask all the time while messages fall due one by one.
pub async fn impatient_consumers(scene: &mut Scene) {
    let mut hand = scene.hand(0);
    for n in 0..300 {
        hand.publish_ok(Options {
            priority: if n % 4 == 0 { 7 } else { 0 },
            ..Options::after(400 + 2 * n)
        })
        .await;
    }
    let end = now() + 1_600;
    join_all((0..4).map(|_| scene.hand(0)).map(|mut hand| async move {
        while now() < end {
            hand.work(10, 0).await;
        }
    }))
    .await;
}

/// One client publishes messages for one instant, one consumer leases them.
pub async fn one_after_another(scene: &mut Scene) {
    let mut hand = scene.hand(0);
    let at = now() + 500;
    hand.publish_each(40, Options { at: Some(at), ..Options::default() }).await;
    until(at + 5).await;
    let mut consumer = scene.hand(0);
    for most in [1, 3, 36] {
        consumer.work(most, 500).await;
    }
}

/// Messages that are replaced and updated before they are granted.
pub async fn changed_messages(scene: &mut Scene) {
    let mut hand = scene.hand(0);
    for n in 0..4 {
        let replace =
            Options { on_duplicate: OnDuplicate::Replace, ..Options::key(format!("k{n}")) };
        hand.publish_ok(Options { delay: 60_000, ..replace.clone() }).await;
        hand.publish_ok(Options { delay: 500, ..replace }).await;
        let id = hand.publish_ok(Options::after(60_000)).await;
        hand.update(&id, Some(format!(r#"{{"updated" :{n}}}"#)), Some(500)).await;
    }
    hand.leased(8, 30_000, 0).await; // none is due
    until(now() + 550).await;
    hand.work(8, 1_000).await;
}

/// Messages whose time to live is over when they come back.
pub async fn time_to_live(scene: &mut Scene) {
    let mut hand = scene.hand(0);
    hand.publish_each(4, Options { ttl: Some(600), ..Options::default() }).await;
    let grants = hand.leased(4, 1_000, 1_000).await;
    for grant in &grants[..2] {
        hand.end(grant, Back::Failed, Some(500)).await;
    }
    until(grants[0].deadline + 20).await;
    hand.leased(4, 30_000, 300).await;
}

/// Nobody is granted anything between a pause and the resume.
pub async fn a_pause(scene: &mut Scene) {
    let [mut one, mut other] = [scene.hand(0), scene.hand(1)];
    one.publish_ok(Options::default()).await;
    one.pause(true).await;
    one.publish_ok(Options::default()).await;
    let granted = other.leased(2, 30_000, 300).await;
    one.pause(false).await;
    for grant in granted.iter().chain(&other.leased(2, 30_000, 1_000).await) {
        other.ack(grant).await;
    }
}
