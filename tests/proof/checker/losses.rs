//! I13 of a power loss that forgets: what is left is a prefix of the history of the partitions that one server had. If
//! something survived there, so did all that was answered before it was sent.

use super::faults::Loss;
use super::found::Found;
use super::life::{Life, NEVER};
use super::run::Run;
use crate::proof::history::{Ms, Outcome, Partitions};

/// The latest that survived, by when it was sent, and the earliest that did not, by when it was
/// answered: the loss cut the history off between them.
#[derive(Default)]
struct Cut {
    survived: Option<(Ms, usize, &'static str)>,
    forgotten: Option<(Ms, usize, &'static str)>,
}

impl Cut {
    fn survived(&mut self, sent: Ms, life: usize, what: &'static str) {
        if self.survived.is_none_or(|(latest, ..)| sent > latest) {
            self.survived = Some((sent, life, what));
        }
    }

    fn forgotten(&mut self, answered: Ms, life: usize, what: &'static str) {
        if self.forgotten.is_none_or(|(earliest, ..)| answered < earliest) {
            self.forgotten = Some((answered, life, what));
        }
    }
}

pub(super) fn check(run: &Run, found: &mut Found) {
    let losses = &run.faults.losses;
    for (number, loss) in losses.iter().enumerate() {
        let mut cut = Cut::default();
        for (at, life) in run.lives.iter().enumerate() {
            let here = Partitions::of(life.id);
            if !loss.at.touch(here) {
                continue;
            }
            // Of what the next loss may forget too, or the one before, nobody can tell which one did.
            let mut later = losses[number + 1..].iter().filter(|other| other.at.touch(here));
            let mut earlier = losses[..number].iter().rev().filter(|other| other.at.touch(here));
            let next = later.next().map_or(NEVER, |next| next.from - next.window);
            let before = earlier.next().map_or(-NEVER, |before| before.until);
            let between = (before, next);
            published(run, life, at, loss, between, &mut cut);
            ended(run, life, at, loss, between, &mut cut);
            granted(run, life, at, loss, between, &mut cut);
        }
        if let (Some(survived), Some(forgotten)) = (cut.survived, cut.forgotten)
            && survived.0 >= forgotten.0
        {
            let (kept, lost) = (run.lives[survived.1].id, run.lives[forgotten.1].id);
            let what = format!(
                "no prefix: the {} of {lost}, answered at {}, was forgotten, the {} of {kept}, sent at {}, was not",
                forgotten.2, forgotten.0, survived.2, survived.0
            );
            found.say(Some(forgotten.1), format!("I13 honest 2xx: {what}"));
        }
    }
}

/// Was this forgettable by this loss, and by no other?
fn newest(loss: &Loss, (before, next): (Ms, Ms), answered: Ms) -> bool {
    let window = loss.from - loss.window..=loss.from;
    window.contains(&answered) && answered > before && answered < next
}

/// Was it there after this loss, for certain?
fn seen_after(run: &Run, life: &Life, loss: &Loss) -> bool {
    let shown = |at: &usize| {
        let op = &run.ops[*at];
        let there = match op.bare() {
            Outcome::Ok(()) => true,
            Outcome::Refused(_, code) => code != "message_not_found",
            _ => false,
        };
        op.sent > loss.until && there
    };
    run.lies_there(life.id).is_some()
        || life.held.iter().any(|held| held.at.0 > loss.until)
        || life.looks.iter().chain(&life.uses).chain(&life.deletes).any(shown)
}

fn published(run: &Run, life: &Life, at: usize, loss: &Loss, between: (Ms, Ms), cut: &mut Cut) {
    let Some(&birth) = life.births.first() else { return };
    let op = &run.ops[birth];
    if !newest(loss, between, op.answered) {
        return;
    }
    if seen_after(run, life, loss) {
        cut.survived(op.sent, at, "publish");
    } else if !life.may_have_ended(run) {
        cut.forgotten(op.answered, at, "publish");
    }
}

fn ended(run: &Run, life: &Life, at: usize, loss: &Loss, between: (Ms, Ms), cut: &mut Cut) {
    let mut newest = life.ends.iter().filter(|end| newest(loss, between, run.ops[**end].answered));
    let Some(&end) = newest.next() else { return };
    if newest.next().is_some() {
        return; // which of them was it?
    }
    let op = &run.ops[end];
    let there = run.lies_there(life.id).is_some_and(|places| places != ["acked"]);
    if there || life.held.iter().any(|held| held.at.0 > loss.until) {
        cut.forgotten(op.answered, at, "end");
        return;
    }
    // Gone, and nothing else can have ended it: not even a loss of its publish.
    let born = life.birth.filter(|birth| birth.certain < loss.from - loss.window);
    let other = born.is_none_or(|birth| birth.expires < NEVER || birth.forgotten < Ms::MAX)
        || run.rules.expires
        || run.rules.drops_oldest
        || run.rules.drops_dead
        || !run.purges.is_empty()
        || life.uses.iter().chain(&life.deletes).any(|other| {
            let op = &run.ops[*other];
            *other != end && op.bare().may_have_run() && run.faults.effect_until(op) > loss.from
        });
    if !other && run.lies_there(life.id).is_none() {
        cut.survived(op.sent, at, "end");
    }
}

fn granted(run: &Run, life: &Life, at: usize, loss: &Loss, between: (Ms, Ms), cut: &mut Cut) {
    let Some(after) = life.held.iter().find(|held| held.at.0 > loss.until) else { return };
    let before = life
        .held
        .iter()
        .filter(|held| held.at.1 <= loss.from && newest(loss, between, held.lease.answered));
    for held in before {
        if after.grant.attempt <= held.grant.attempt {
            cut.forgotten(held.lease.answered, at, "grant");
        } else if !run.granted_unseen(held.at.0, after.at.1) && after.at.1 < between.1 {
            cut.survived(held.at.0, at, "grant");
        }
    }
}
