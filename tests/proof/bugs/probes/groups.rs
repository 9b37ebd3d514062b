//! Requests that go to Redis together: each has its own outcome, as if they had come one by one.

use futures_util::future::{join, join_all};

use crate::proof::bugs::hand::Ask;
use crate::proof::bugs::scene::Scene;
use crate::proof::history::Grant;
use crate::proof::stage::{Report, Setting};

const ROUNDS: usize = 4;
const AT_ONCE: usize = 24;

/// Publishes by many at once; then all is leased and acked by many at once.
pub async fn crowds(setting: Setting) -> Report {
    let scene = Scene::start("crowds", setting, 1).await;
    let hands = scene.hands(AT_ONCE);
    for _ in 0..ROUNDS {
        join_all(hands.iter().map(|hand| hand.publish(Ask::default()))).await;
    }
    loop {
        let grants = hands[0].leased(AT_ONCE, 30_000, 100).await;
        if grants.is_empty() {
            break;
        }
        join_all(grants.iter().zip(&hands).map(|(grant, hand)| hand.ack(grant))).await;
    }
    scene.end().await
}

/// Each key is published by two at once.
pub async fn one_key_by_two(setting: Setting) -> Report {
    let scene = Scene::start("one_key_by_two", setting, 1).await;
    let hands = scene.hands(2 * AT_ONCE);
    for round in 0..ROUNDS {
        let each = |(n, hand)| publish(hand, format!("k{round}-{}", n / 2));
        join_all(hands.iter().enumerate().map(each)).await;
    }
    scene.end().await
}

async fn publish(hand: &crate::proof::bugs::hand::Hand, key: String) {
    hand.publish(Ask { delay: 60_000, ..Ask::key(key) }).await;
}

/// Each token is used by two at once.
pub async fn one_token_by_two(setting: Setting) -> Report {
    let scene = Scene::start("one_token_by_two", setting, 1).await;
    let (first, second) = (scene.hands(AT_ONCE), scene.hands(AT_ONCE));
    for _ in 0..ROUNDS {
        join_all(first.iter().map(|hand| hand.publish(Ask::default()))).await;
        let grants: Vec<Grant> = first[0].leased(AT_ONCE, 30_000, 1_000).await;
        let both = grants.iter().zip(first.iter().zip(&second));
        join_all(both.map(|(grant, (a, b))| join(a.ack(grant), b.ack(grant)))).await;
    }
    scene.end().await
}
