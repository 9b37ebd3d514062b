//! Requests that go to Redis together: each has its own outcome, as if they had come one by one.

use futures_util::future::{join, join_all};

use crate::proof::actor::Options;
use crate::proof::bugs::scene::Scene;
use crate::proof::history::Grant;

const ROUNDS: usize = 4;
const AT_ONCE: usize = 24;

/// Publishes by many at once; then all is leased and acked by many at once.
pub async fn crowds(scene: &mut Scene) {
    let mut hands = scene.hands(AT_ONCE);
    for _ in 0..ROUNDS {
        join_all(hands.iter_mut().map(|hand| hand.publish(Options::default()))).await;
    }
    loop {
        let grants = hands[0].leased(AT_ONCE, 30_000, 100).await;
        if grants.is_empty() {
            break;
        }
        join_all(grants.iter().zip(&mut hands).map(|(grant, hand)| hand.ack(grant))).await;
    }
}

/// Each key is published by two at once.
pub async fn one_key_by_two(scene: &mut Scene) {
    let mut hands = scene.hands(2 * AT_ONCE);
    for round in 0..ROUNDS {
        let each = hands.iter_mut().enumerate().map(|(n, hand)| {
            let key = format!("k{round}-{}", n / 2);
            hand.publish(Options { delay: 60_000, ..Options::key(key) })
        });
        join_all(each).await;
    }
}

/// Each token is used by two at once.
pub async fn one_token_by_two(scene: &mut Scene) {
    let (mut first, mut second) = (scene.hands(AT_ONCE), scene.hands(AT_ONCE));
    for _ in 0..ROUNDS {
        join_all(first.iter_mut().map(|hand| hand.publish(Options::default()))).await;
        let grants: Vec<Grant> = first[0].leased(AT_ONCE, 30_000, 1_000).await;
        let both = grants.iter().zip(first.iter_mut().zip(&mut second));
        join_all(both.map(|(grant, (a, b))| join(a.ack(grant), b.ack(grant)))).await;
    }
}
