//! The role that leases. What becomes of a grant follows from the run's seed, the message's payload
//! and the number of the attempt; the consumer holds on to it until its time has come.

use std::sync::Arc;
use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;

use super::board::Board;
use super::dice::pick;
use super::holding::Give;
use super::mix::Way;
use crate::proof::actor::Actor;
use crate::proof::history::{Back, Grant, Ms, Nacked, Outcome, now};

/// What a consumer does about a grant, and when.
struct Plan {
    at: Ms,
    way: Way,
    grant: Grant,
    dice: StdRng,
}

fn plan(board: &Board, grant: Grant) -> Option<Plan> {
    let mut dice = board.dice(("grant", &grant.payload, grant.attempt));
    let mut message = board.dice(("message", &grant.payload));
    let poison = message.random_ratio(board.mix.poison, 1_000);
    let way = if poison { Way::NackBatch } else { pick(&mut dice, board.mix.ways) };
    // A scenario may have set Redis's clock far from this machine's.
    let skew = now() - grant.granted_at;
    let end = grant.deadline + if skew.abs() > 60_000 { skew } else { 0 };
    let at = match way {
        Way::Brink => end - dice.random_range(30..300),
        Way::Late => end + dice.random_range(0..100),
        Way::Stale => end + dice.random_range(100..1_200),
        Way::Crash => return None, // never heard of again
        _ => 0,
    };
    Some(Plan { at, way, grant, dice })
}

/// How a plan gives its message back: soon, or when the backoff policy says, while that is soon.
fn give(plan: &mut Plan) -> Give {
    let (back, most, policy) = match plan.way {
        Way::Kill => (Back::Dead, 0, 1.0),
        Way::Release => (Back::Released, 200, 0.5),
        _ => (Back::Failed, 300, if plan.grant.attempt == 1 { 0.3 } else { 0.0 }),
    };
    let delay = (!plan.dice.random_bool(policy)).then(|| plan.dice.random_range(0..=most));
    Give { grant: plan.grant.clone(), back, delay }
}

/// A client that leases, and what it has to do.
struct Consumer {
    actor: Actor,
    board: Arc<Board>,
    plans: Vec<Plan>,
    /// Acks that go along with the next lease.
    along: Vec<Grant>,
}

/// Leases and deals with what it is granted, until the load ends.
pub async fn consumer(actor: Actor, board: Arc<Board>) {
    let mut consumer = Consumer { actor, board, plans: Vec::new(), along: Vec::new() };
    while !consumer.board.over() {
        let answered = consumer.lease().await;
        consumer.work().await;
        let most = consumer.board.mix.rest.1;
        consumer.board.rest(&mut consumer.actor, answered, most).await;
    }
}

impl Consumer {
    /// Asks for messages and plans what becomes of them; was it answered?
    async fn lease(&mut self) -> bool {
        let mix = &self.board.mix;
        let random = &mut self.actor.random;
        let max = random.random_range(mix.lease.clone());
        let lease_ms = random.random_range(mix.lease_ms.clone());
        let next = self.plans.iter().map(|plan| plan.at).min().unwrap_or(Ms::MAX);
        let wait = random.random_range(0..=500).min((next - now()).max(0));
        let leave = random.random_ratio(mix.leave, 1_000);
        let acks = std::mem::take(&mut self.along);
        let outcome = if leave {
            let after = Duration::from_micros(random.random_range(200..30_000));
            self.actor.lease_and_leave(max, lease_ms, wait.max(20), &acks, after).await
        } else {
            self.actor.lease(max, lease_ms, wait, &acks).await
        };
        let Outcome::Ok(grants) = outcome else { return leave };
        self.plans.extend(grants.into_iter().filter_map(|grant| plan(&self.board, grant)));
        true
    }

    /// Does what is to be done by now.
    async fn work(&mut self) {
        let by = now();
        let (mut acks, mut gives, mut extends) = (Vec::new(), Vec::new(), Vec::new());
        for mut plan in self.plans.extract_if(.., |plan| plan.at <= by).collect::<Vec<_>>() {
            match plan.way {
                Way::AckAlong => self.along.push(plan.grant),
                Way::AckBatch => acks.push(plan.grant),
                Way::NackBatch => gives.push(give(&mut plan)),
                Way::ExtendBatch => {
                    let longer = plan.dice.random_range(1_000..2_000);
                    extends.push((plan.grant, longer));
                }
                _ => self.work_on(plan).await,
            }
        }
        if !acks.is_empty() {
            self.actor.ack_batch(&acks).await;
        }
        if !gives.is_empty() {
            let outcomes = self.actor.give_batch(&gives).await;
            gives.iter().zip(&outcomes).for_each(|(give, outcome)| self.tell(&give.grant, outcome));
        }
        if !extends.is_empty() {
            self.actor.extend_batch(&extends).await;
            self.along.extend(extends.into_iter().map(|(grant, _)| grant));
        }
    }

    /// Does what is done by requests of its own.
    async fn work_on(&mut self, mut plan: Plan) {
        match plan.way {
            Way::Nack | Way::Release | Way::Kill => {
                let give = give(&mut plan);
                let outcome = self.actor.give(&give).await;
                self.tell(&give.grant, &outcome);
            }
            Way::Extend => {
                let longer = plan.dice.random_range(1_000..2_000);
                self.actor.extend(&plan.grant, longer).await;
                self.actor.ack(&plan.grant).await;
            }
            Way::AckTwice => {
                self.actor.ack(&plan.grant).await;
                self.actor.ack(&plan.grant).await;
            }
            Way::Stale => match plan.dice.random_range(0..3) {
                0 => drop(self.actor.ack(&plan.grant).await),
                1 => drop(self.actor.nack(&plan.grant, 0).await),
                _ => drop(self.actor.extend(&plan.grant, 1_000).await),
            },
            _ => drop(self.actor.ack(&plan.grant).await),
        }
    }

    /// What died is left to the redrivers.
    fn tell(&self, grant: &Grant, outcome: &Outcome<Nacked>) {
        if self.board.mix.redrivers > 0 && outcome.ok().is_some_and(|now| now.state == "dead") {
            let death = format!("{} {}", grant.payload, grant.attempt);
            self.board.dead.push(&grant.id, &death);
        }
    }
}
