//! The roles that publish. What the n-th publish of a client says follows from the run's seed, the
//! client's number and n.

use std::sync::Arc;
use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;
use tokio::time::sleep;

use super::board::Board;
use super::dice::pick;
use super::drafts::{Draft, Options, control};
use super::mix::Mix;
use crate::proof::actor::Actor;
use crate::proof::history::{OnDuplicate, Outcome, Published};

/// How many keys the key publishers share.
const KEYS: u32 = 12;

/// How often a publish is repeated of which nothing is known.
const REPEATS: usize = 40;

impl Options {
    /// A publish of this mix.
    fn any(dice: &mut StdRng, mix: &Mix) -> Options {
        let percent = |dice: &mut StdRng, share: u32| dice.random_ratio(share.min(100), 100);
        Options {
            delay: if percent(dice, mix.immediate) { 0 } else { dice.random_range(0..=mix.delay) },
            priority: if percent(dice, 15) { dice.random_range(1..=255) } else { 0 },
            max_attempts: percent(dice, 10).then(|| dice.random_range(1..=3)),
            headers: percent(dice, 10),
            padding: if percent(dice, 1) && mix.padding >= 100 {
                3_000
            } else {
                dice.random_range(0..=mix.padding)
            },
            ttl: percent(dice, mix.ttl).then(|| dice.random_range(100..=3_000)),
            ..Options::default()
        }
    }
}

/// The client's next publish.
fn next(actor: &mut Actor, board: &Board) -> Draft {
    let mut dice = board.dice(("publish", actor.number, actor.payloads));
    actor.draft(Options::any(&mut dice, &board.mix))
}

/// One message after another.
pub async fn publisher(mut actor: Actor, board: Arc<Board>) {
    while !board.over() {
        board.room().await;
        let draft = next(&mut actor, &board);
        let outcome = actor.send(&draft).await;
        board.tell(&draft, &outcome);
        board.rest(&mut actor, outcome.is_ok(), board.mix.rest.0).await;
    }
}

/// One batch after another.
pub async fn bulk_publisher(mut actor: Actor, board: Arc<Board>) {
    while !board.over() {
        board.room().await;
        let mut dice = board.dice(("batch", actor.number, actor.payloads));
        let size = dice.random_range(board.mix.batch.clone());
        let drafts: Vec<Draft> = (0..size).map(|_| next(&mut actor, &board)).collect();
        let outcomes = actor.send_batch(&drafts).await;
        drafts.iter().zip(&outcomes).for_each(|(draft, outcome)| board.tell(draft, outcome));
        let answered = outcomes.iter().all(Outcome::is_ok);
        board.rest(&mut actor, answered, board.mix.rest.0).await;
    }
}

/// Messages with idempotency keys, one or a few at a time: what is not known to be published is
/// sent again until it is, and now and then what is.
pub async fn idempotent_publisher(mut actor: Actor, board: Arc<Board>) {
    while !board.over() {
        board.room().await;
        let mut dice = board.dice(("idempotent", actor.number, actor.payloads));
        let size = if dice.random_bool(0.3) { dice.random_range(2..=8) } else { 1 };
        let mut open: Vec<Draft> = Vec::new();
        for _ in 0..size {
            let (number, n) = (actor.number, actor.payloads);
            let mut dice = board.dice(("publish", number, n));
            let idempotency_key = Some(format!("idempotent{}{number}-{n}", control(n)));
            let options = Options { idempotency_key, ..Options::any(&mut dice, &board.mix) };
            open.push(actor.draft(options));
        }
        let again = dice.random_bool(0.1).then(|| open.clone());
        for _ in 0..REPEATS {
            let outcomes = send_all(&mut actor, &open).await;
            open.iter().zip(&outcomes).for_each(|(draft, outcome)| board.tell(draft, outcome));
            let unsettled =
                |outcome: &Outcome<Published>| matches!(outcome, Outcome::Unknown | Outcome::Never);
            let mut outcomes = outcomes.iter();
            open.retain(|_| outcomes.next().is_some_and(unsettled));
            if open.is_empty() || board.over() {
                break;
            }
            sleep(Duration::from_millis(25)).await;
        }
        if let Some(again) = again {
            send_all(&mut actor, &again).await;
        }
        board.rest(&mut actor, open.is_empty(), board.mix.rest.0).await;
    }
}

async fn send_all(actor: &mut Actor, drafts: &[Draft]) -> Vec<Outcome<Published>> {
    match drafts {
        [draft] => vec![actor.send(draft).await],
        drafts => actor.send_batch(drafts).await,
    }
}

/// Events of customers, one or several at a time. No other publishes any of theirs, so that their order is known.
pub async fn group_publisher(mut actor: Actor, board: Arc<Board>) {
    while !board.over() {
        board.room().await;
        let mut dice = board.dice(("events", actor.number, actor.payloads));
        let size = if dice.random_bool(0.3) { dice.random_range(2..=20) } else { 1 };
        let mut event = || {
            let mut dice = board.dice(("publish", actor.number, actor.payloads));
            let flood = dice.random_ratio(board.mix.flood, 100);
            let customer = if flood { 0 } else { dice.random_range(0..board.mix.customers) };
            let group = Some(format!("customer{}{}-{customer}", control(customer), actor.number));
            actor.draft(Options { group, ..Options::any(&mut dice, &board.mix) })
        };
        let drafts: Vec<Draft> = (0..size).map(|_| event()).collect();
        let outcomes = send_all(&mut actor, &drafts).await;
        drafts.iter().zip(&outcomes).for_each(|(draft, outcome)| board.tell(draft, outcome));
        let answered = outcomes.iter().all(Outcome::is_ok);
        board.rest(&mut actor, answered, board.mix.rest.0).await;
    }
}

/// One of the keys: every other has a NUL in it.
fn key(number: u32) -> String {
    let number = u64::from(number);
    format!("key{}{number}", control(if number.is_multiple_of(2) { 0 } else { number }))
}

/// Messages that fight over a few keys.
pub async fn key_publisher(mut actor: Actor, board: Arc<Board>) {
    while !board.over() {
        board.room().await;
        let mut dice = board.dice(("publish", actor.number, actor.payloads));
        let words = [(OnDuplicate::Return, 3), (OnDuplicate::Reject, 3), (OnDuplicate::Replace, 4)];
        let options = Options {
            key: Some(key(dice.random_range(0..KEYS))),
            on_duplicate: pick(&mut dice, &words),
            key_until_granted: dice.random_bool(0.3),
            ..Options::any(&mut dice, &board.mix)
        };
        let draft = actor.draft(options);
        let outcome = actor.send(&draft).await;
        board.tell(&draft, &outcome);
        let answered = matches!(outcome, Outcome::Ok(_) | Outcome::Refused(..));
        board.rest(&mut actor, answered, board.mix.rest.0).await;
    }
}
