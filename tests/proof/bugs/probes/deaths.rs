//! Attempts: how many a message has, what counts, and what becomes of it when they are used up.

use crate::proof::actor::{Actor, Options};
use crate::proof::bugs::scene::Scene;
use crate::proof::history::Back;

/// Fails what is granted, so often, each time ready again at once.
async fn fail(hand: &mut Actor, times: usize) {
    for _ in 0..times {
        hand.fail(1, 300, Back::Failed, Some(0)).await;
    }
}

/// A message dies of its only attempt, another at its holder's wish.
pub async fn deaths(scene: &mut Scene) {
    let mut hand = scene.hand(0);
    hand.publish_ok(Options::attempts(1)).await;
    fail(&mut hand, 1).await;
    scene.look().await;
    hand.publish_ok(Options::default()).await;
    hand.fail(1, 1_000, Back::Dead, None).await;
    scene.look().await;
}

/// Three failures are death, and what was only given back is none.
pub async fn budgets(scene: &mut Scene) {
    let mut hand = scene.hand(0);
    hand.publish_ok(Options::attempts(3)).await;
    fail(&mut hand, 1).await;
    for _ in 0..3 {
        hand.fail(1, 300, Back::Released, None).await;
    }
    fail(&mut hand, 4).await;
}

/// A redrive gives a new budget.
pub async fn a_redrive(scene: &mut Scene) {
    let mut hand = scene.hand(0);
    let id = hand.publish_ok(Options::attempts(2)).await;
    fail(&mut hand, 2).await;
    hand.redrive(&id).await;
    fail(&mut hand, 3).await;
}

/// A failure waits as its backoff says.
pub async fn a_backoff(scene: &mut Scene) {
    let mut hand = scene.hand(0);
    hand.publish_ok(Options::attempts(3)).await;
    hand.fail(1, 1_000, Back::Failed, None).await;
    scene.look().await;
}
