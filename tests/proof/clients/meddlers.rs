//! The roles that neither publish nor lease: they delete, change, redrive, purge, look at and pause
//! what others published.

use std::sync::Arc;
use std::time::Duration;

use rand::Rng;
use tokio::time::sleep;

use super::board::{Board, Left, Queue};
use crate::proof::actor::Actor;
use crate::proof::history::Outcome;

/// The next message for a role, when there is one; nothing when the load ends.
async fn next(board: &Board, queue: &Queue) -> Option<Left> {
    while !board.over() {
        if let Some(left) = queue.pop() {
            return Some(left);
        }
        sleep(Duration::from_millis(5)).await;
    }
    None
}

/// Deletes messages, in whatever state it finds them, and sometimes looks whether they are gone.
pub async fn deleter(mut actor: Actor, board: Arc<Board>) {
    while let Some(Left { id, purpose }) = next(&board, &board.to_delete).await {
        let mut dice = board.dice(("delete", purpose));
        let outcome = actor.delete(&id, dice.random_bool(0.3)).await;
        if dice.random_bool(0.2) {
            actor.get(&id).await;
        }
        board.rest(&mut actor, outcome.is_ok(), board.mix.rest.0).await;
    }
}

/// Changes payloads and due times.
pub async fn updater(mut actor: Actor, board: Arc<Board>) {
    while let Some(Left { id, purpose }) = next(&board, &board.to_update).await {
        let mut dice = board.dice(("update", purpose));
        let which = dice.random_range(0..3);
        let payload = (which != 0).then(|| actor.payload(dice.random_range(0..50)));
        let delay = (which != 1).then(|| dice.random_range(0..=board.mix.delay));
        let outcome = actor.update(&id, payload, delay).await;
        board.rest(&mut actor, outcome.is_ok(), board.mix.rest.0).await;
    }
}

/// Redrives what it hears of, and now and then a few or purges all that is dead.
pub async fn redriver(mut actor: Actor, board: Arc<Board>) {
    while let Some(Left { id, purpose }) = next(&board, &board.dead).await {
        let mut dice = board.dice(("redrive", purpose));
        let answered = match dice.random_range(0..20) {
            0 => actor.purge(&["dead"]).await.is_ok(),
            1 => actor.redrive_topic(dice.random_range(1..=5)).await.is_ok(),
            2..6 => continue, // it stays dead for now
            _ => actor.redrive(&id).await.is_ok(),
        };
        board.rest(&mut actor, answered, board.mix.rest.0).await;
    }
}

/// Looks at messages.
pub async fn watcher(mut actor: Actor, board: Arc<Board>) {
    while let Some(Left { id, purpose }) = next(&board, &board.to_watch).await {
        let mut dice = board.dice(("watch", &purpose));
        let outcome = actor.get(&id).await;
        if dice.random_bool(0.1) {
            board.to_watch.push(&id, &(purpose + " later")); // whatever becomes of it
        }
        board.rest(&mut actor, outcome.is_ok(), board.mix.rest.0).await;
    }
}

/// Pauses the topic for a moment again and again, and resumes it however often that takes.
pub async fn pauser(mut actor: Actor, board: Arc<Board>) {
    for round in 0u64.. {
        let mut dice = board.dice(("pause", actor.number, round));
        let (before, paused) = (dice.random_range(700..1_500), dice.random_range(50..250));
        sleep(Duration::from_millis(before)).await;
        if board.over() {
            return;
        }
        let outcome = actor.pause(true).await;
        sleep(Duration::from_millis(paused)).await;
        let resumed = |outcome| matches!(outcome, Outcome::Ok(()) | Outcome::Refused(..));
        while outcome.may_have_run() && !resumed(actor.pause(false).await) && !board.over() {
            sleep(Duration::from_millis(50)).await;
        }
    }
}
