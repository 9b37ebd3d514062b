//! Every load has a quiet topic, where messages are few and clients wait for long: a wake-up that is lost shows
//! there. On the load's own topic a client always asks again.

use std::sync::Arc;
use std::time::Duration;

use rand::Rng;
use tokio::time::sleep;

use super::board::Board;
use super::drafts::Options;
use crate::proof::actor::Actor;
use crate::proof::history::Ms;

/// Longer than a waiter may be left without what is there.
const WAIT: Ms = 5_000;

/// Publishes now and then; with keys too, so that messages come into every partition where there are several.
pub async fn publisher(mut actor: Actor, board: Arc<Board>) {
    for n in 0u64.. {
        if board.over() {
            return;
        }
        let delay = [0, 0, 150][actor.random.random_range(0..3)];
        let key = (n % 2 == 0).then(|| format!("quiet-{n}"));
        actor.publish(Options { delay, key, ..Options::default() }).await;
        let rest = actor.random.random_range(50..500);
        sleep(Duration::from_millis(rest)).await;
    }
}

/// Waits for one message after another. It ends with the load, in the middle of its wait.
pub async fn waiter(mut actor: Actor, board: Arc<Board>) {
    while !board.over() {
        match actor.lease(1, 5_000, WAIT, &[]).await.ok() {
            Some(grants) => {
                for grant in grants {
                    actor.ack(grant).await;
                }
            }
            None => sleep(Duration::from_millis(20)).await,
        }
    }
}
