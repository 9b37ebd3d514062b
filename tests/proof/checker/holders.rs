//! I4: one holder at a time. The next grant comes at or after the end of the one before, and what
//! is held is shown as held.

use super::clock::SLACK;
use super::due::seen_by;
use super::found::Found;
use super::life::Life;
use super::run::{Look, Run};
use crate::proof::history::{OnDuplicate, Outcome, What};

pub(super) fn check(run: &Run, found: &mut Found) {
    for (at, life) in run.lives.iter().enumerate() {
        for next in 1..life.held.len() {
            second_holder(run, life, at, next, found);
        }
        for &look in &life.looks {
            shown(run, life, at, look, found);
        }
        for &claim in &life.claims {
            replaced(run, life, at, claim, found);
        }
    }
}

fn second_holder(run: &Run, life: &Life, at: usize, next: usize, found: &mut Found) {
    let (before, after) = (&life.held[next - 1], &life.held[next]);
    let look = Look { sent: after.at.0, answered: after.at.1 };
    let end = before.end_for(look);
    let granted = after.grant.granted_at;
    if granted >= end
        || look.answered >= before.forgotten
        || run.clock.set_back(before.at.0, after.at.1)
        // An ack ends it too, but then there is nothing to grant any more (I5).
        || gave_back(run, life, next - 1, look)
    {
        return;
    }
    let attempt = after.grant.attempt;
    let what = format!("{} held until {end}, granted as attempt {attempt} at {granted}", life.id);
    found.say(Some(at), format!("I4 one holder: {what}"));
    let never = |at: &&usize| matches!(&run.ops[**at].what, What::Nack { token, outcome: Outcome::Never, .. } if *token == before.grant.token);
    if life.uses.iter().find(never).is_some() {
        let what = format!("{} came back, its nack was answered redis_unavailable", life.id);
        found.say(Some(at), format!("I15 never ran: {what}"));
    }
}

/// May a nack have given it back by then? An ack does not.
fn gave_back(run: &Run, life: &Life, held: usize, look: Look) -> bool {
    let held = &life.held[held];
    if held.may_end > look.answered {
        return false;
    }
    life.uses.iter().any(|at| match &run.ops[*at].what {
        What::Nack { token, outcome, .. } => {
            *token == held.grant.token
                && outcome.may_have_run()
                && run.ops[*at].sent <= look.answered
        }
        _ => false,
    })
}

/// Is it certain that a client holds it, all the time that this op takes? Then since which grant.
pub(super) fn certainly_held(run: &Run, life: &Life, at: usize) -> Option<usize> {
    let look = Look::from(&run.ops[at]);
    let held = life.last_before(look.sent)?;
    let one = &life.held[held];
    let over = run.clock.highest(one.at.0, look.answered) + SLACK >= one.end_for(look);
    let ended = one.may_end <= look.answered || life.may_have_ended_by(run, at, look.answered);
    (!over && !ended && look.answered < one.forgotten).then_some(held)
}

/// May a client hold it, at some time of this look?
pub(super) fn may_be_held(run: &Run, life: &Life, look: Look) -> bool {
    let born = life.birth.map_or(0, |birth| birth.sent);
    let earliest = run.clock.lowest(look.sent, look.answered) - SLACK;
    let may = |held: &super::held::Held| {
        let ended = held
            .enders
            .iter()
            .any(|at| run.ops[*at].answered <= look.sent && run.in_force(*at, look));
        held.at.0 <= look.answered && held.end_possible >= earliest && !ended
    };
    life.held.iter().rev().any(may) || run.granted_unseen(born, look.answered)
}

/// A look at it agrees with who holds it.
fn shown(run: &Run, life: &Life, at: usize, look: usize, found: &mut Found) {
    let op = &run.ops[look];
    let held = certainly_held(run, life, look);
    let state = seen_by(op).map(|seen| seen.state.as_str());
    let code = op.bare();
    let code = code.code();
    match (held, state, &op.what) {
        (Some(held), Some(state), What::Get { .. }) if state != "leased" => {
            let attempt = life.held[held].grant.attempt;
            let what = format!("{} shown as {state} while attempt {attempt} is held", life.id);
            found.say(Some(at), format!("I4 one holder: {what}"));
        }
        (Some(_), Some(_), What::Update { .. } | What::Redrive { .. }) => {
            found.say(Some(at), format!("I4 one holder: {} was changed while held", life.id));
        }
        (_, Some("leased"), _) if !may_be_held(run, life, op.into()) => {
            found.say(Some(at), format!("I4 one holder: {} shown as leased, by nobody", life.id));
        }
        _ if code == Some("message_leased") && !may_be_held(run, life, op.into()) => {
            found.say(Some(at), format!("I4 one holder: {} refused as leased, by nobody", life.id));
        }
        _ => {}
    }
}

/// A publish that replaces what its key names does not replace what is held.
fn replaced(run: &Run, life: &Life, at: usize, claim: usize, found: &mut Found) {
    let replaces = run.publish(claim).is_some_and(|publish| {
        publish.on_duplicate == OnDuplicate::Replace && publish.idempotency_key.is_none()
    });
    if replaces && certainly_held(run, life, claim).is_some() {
        found.say(Some(at), format!("I4 one holder: {} was replaced while held", life.id));
    }
}
