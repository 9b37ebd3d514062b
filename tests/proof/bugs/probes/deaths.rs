//! Attempts: how many a message has, what counts, and what becomes of it when they are used up.

use crate::proof::bugs::hand::{Ask, Hand};
use crate::proof::bugs::scene::Scene;
use crate::proof::history::Back;
use crate::proof::stage::{Report, Setting};

/// Fails what is granted, so often, each time ready again at once.
async fn fail(hand: &Hand, times: usize) {
    for _ in 0..times {
        for grant in hand.leased(1, 30_000, 300).await {
            hand.nack(&grant, Back::Failed, Some(0)).await;
        }
    }
}

/// A message dies of its only attempt, another at its holder's wish.
pub async fn deaths(setting: Setting) -> Report {
    let mut scene = Scene::start("deaths", setting, 1).await;
    let hand = scene.hand(0);
    hand.publish_ok(Ask::attempts(1)).await;
    fail(&hand, 1).await;
    scene.look().await;
    hand.publish_ok(Ask::default()).await;
    for grant in hand.leased(1, 30_000, 1_000).await {
        hand.nack(&grant, Back::Dead, None).await;
    }
    scene.look().await;
    scene.end().await
}

/// Three failures are death, and what was only given back is none.
pub async fn budgets(setting: Setting) -> Report {
    let scene = Scene::start("budgets", setting, 1).await;
    let hand = scene.hand(0);
    hand.publish_ok(Ask::attempts(3)).await;
    fail(&hand, 1).await;
    for _ in 0..3 {
        for grant in hand.leased(1, 30_000, 300).await {
            hand.nack(&grant, Back::Released, None).await;
        }
    }
    fail(&hand, 4).await;
    scene.end().await
}

/// A redrive gives a budget anew.
pub async fn a_redrive(setting: Setting) -> Report {
    let scene = Scene::start("a_redrive", setting, 1).await;
    let hand = scene.hand(0);
    let id = hand.publish_ok(Ask::attempts(2)).await;
    fail(&hand, 2).await;
    hand.redrive(&id).await;
    fail(&hand, 3).await;
    scene.end().await
}

/// A failure waits as its backoff says.
pub async fn a_backoff(setting: Setting) -> Report {
    let mut scene = Scene::start("a_backoff", setting, 1).await;
    let hand = scene.hand(0);
    hand.publish_ok(Ask::attempts(3)).await;
    for grant in hand.leased(1, 30_000, 1_000).await {
        hand.nack(&grant, Back::Failed, None).await;
    }
    scene.look().await;
    scene.end().await
}
