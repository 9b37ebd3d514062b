//! I7: a budget has at most `max_attempts` counted grants, what answers say of it is plausible, and
//! what has used it up is dead, at once and in every answer.

use super::clock::SLACK;
use super::due::seen_by;
use super::found::Found;
use super::held::Held;
use super::life::{Life, use_of};
use super::run::{AT_THE_END, Look, Run};
use crate::proof::history::{Back, Nacked, Outcome, What};

pub(super) fn check(run: &Run, found: &mut Found) {
    for (at, life) in run.lives.iter().enumerate() {
        budget(run, life, at, found);
        for &one in &life.uses {
            nack_fits(run, life, at, one, found);
        }
        for &look in &life.looks {
            shown(run, life, at, look, found);
        }
        if run.lies_there(life.id) == Some(&["dead"]) && !life.may_be_dead(run, AT_THE_END) {
            found.say(Some(at), format!("I7 attempts: {} is dead, with attempts left", life.id));
        }
    }
}

/// Each grant has as many attempts left as those before leave it.
fn budget(run: &Run, life: &Life, at: usize, found: &mut Found) {
    let Some(birth) = life.birth else { return };
    // Of the present budget: counted for certain; at which attempt it began at the latest.
    let (mut counted, mut began) = (0, 0);
    let mut released = 0;
    let mut previous: Option<&Held> = None;
    for held in &life.held {
        let grant = held.grant;
        if let Some(before) = previous {
            let redriven = life.may_be_redriven(run, before.at.0, held.at.1);
            let known = redriven
                && life.redrives.iter().any(|one| {
                    let op = &run.ops[*one];
                    op.sent >= before.at.1
                        && op.answered <= held.at.0
                        && run.in_force(*one, Look { sent: held.at.0, answered: held.at.1 })
                });
            let forgotten = held.at.1 >= before.forgotten;
            if forgotten {
                // Its redrive may be forgotten too.
                began = 0;
            }
            if redriven || forgotten {
                counted = 0;
            } else if !before.released.1 {
                counted += 1;
            }
            // One that was forgotten gave its number to another.
            released += i64::from(before.released.0 && run.faults.losses.is_empty());
            if known {
                (began, released) = (before.grant.attempt, 0);
            }
            let dead =
                before.grant.attempts_left == 0 && !before.released.1 || buried(run, before, held);
            if dead && !redriven && !forgotten && !changed(run, life, before, held) {
                let what = format!("{} was dead after attempt {}", life.id, before.grant.attempt);
                found.say(Some(at), format!("I7 attempts: {what}, granted as {}", grant.attempt));
            }
        }
        let before = (grant.attempt - 1 - began - released).max(counted);
        let least = (birth.budget.0 - before - 1).max(0);
        let most = (birth.budget.1 - counted - 1).max(0);
        if !(least..=most).contains(&grant.attempts_left) {
            let (left, attempt) = (grant.attempts_left, grant.attempt);
            let what =
                format!("{}: {left} left at attempt {attempt}, {least}…{most} is right", life.id);
            found.say(Some(at), format!("I7 attempts: {what}"));
        }
        if counted >= birth.budget.1 {
            let (most, attempt) = (birth.budget.1, grant.attempt);
            let what =
                format!("{}: attempt {attempt} after {counted} of {most} that count", life.id);
            found.say(Some(at), format!("I7 attempts: {what}"));
        }
        previous = Some(held);
    }
}

/// Did a nack of `before` say that it is dead, and was it not forgotten since?
fn buried(run: &Run, before: &Held, held: &Held) -> bool {
    let look = Look { sent: held.at.0, answered: held.at.1 };
    before.enders.iter().any(|at| {
        let dead = matches!(&run.ops[*at].what,
            What::Nack { outcome: Outcome::Ok(Nacked { state, .. }), .. } if state == "dead");
        dead && run.in_force(*at, look)
    })
}

/// May the number of its attempts have been changed meanwhile?
fn changed(run: &Run, life: &Life, before: &Held, held: &Held) -> bool {
    let replaced = |at: &&usize| {
        let (sent, until) = run.effect(**at);
        sent <= held.at.1 && until >= before.at.0
    };
    life.claims.iter().find(replaced).is_some()
}

/// Is it dead for certain, all the time of this look?
fn certainly_dead(run: &Run, life: &Life, look: Look) -> bool {
    let Some(held) = life.last_before(look.sent) else { return false };
    let held = &life.held[held];
    if look.answered >= held.forgotten || life.may_be_redriven(run, held.at.0, look.answered) {
        return false;
    }
    let said = held.enders.iter().any(|at| {
        let dead = matches!(&run.ops[*at].what,
            What::Nack { outcome: Outcome::Ok(Nacked { state, .. }), .. } if state == "dead");
        dead && run.ops[*at].answered <= look.sent && run.in_force(*at, look)
    });
    let over = run.clock.lowest(look.sent, look.answered) >= held.end_possible + SLACK;
    let stepped = run.clock.set_back(held.at.0, look.answered);
    said || (held.grant.attempts_left == 0 && !held.released.1 && over && !stepped)
}

/// What is shown of a message, or why something was refused, agrees with its attempts.
fn shown(run: &Run, life: &Life, at: usize, one: usize, found: &mut Found) {
    let op = &run.ops[one];
    let look = Look::from(op);
    let mut say = |what: String| found.say(Some(at), format!("I7 attempts: {}: {what}", life.id));
    let bare = op.bare();
    let dead = certainly_dead(run, life, look);
    match bare.code() {
        Some("message_not_dead") if dead => say("refused as not dead, and it was".into()),
        Some("message_dead") if !life.may_be_dead(run, look) => {
            say("refused as dead, with attempts left".into());
        }
        _ => {}
    }
    let Some(seen) = seen_by(op) else { return };
    match (&op.what, seen.state.as_str()) {
        (What::Redrive { .. }, _) => {
            if !life.may_be_dead(run, look) {
                say("redriven, and it was not dead".into());
            }
            let budget = life.birth.map_or((1, i64::MAX), |birth| birth.budget);
            if seen.attempts_left < budget.0 || seen.attempts_left > budget.1 {
                say(format!("redriven with {} attempts left, not {budget:?}", seen.attempts_left));
            }
        }
        (_, "dead") if !life.may_be_dead(run, look) => {
            say("shown as dead, with attempts left".into())
        }
        (What::Get { .. }, "delayed" | "ready" | "leased") if dead => {
            say(format!("shown as {}, and it was dead", seen.state));
        }
        _ => {}
    }
    let before = life.last_before(op.sent).map(|held| &life.held[held]);
    let before = before.filter(|held| op.answered < held.forgotten);
    let least = before.map_or(0, |held| held.grant.attempt);
    let begun = life.held.partition_point(|held| held.at.0 <= op.answered);
    let most = life.held[..begun].iter().map(|held| held.grant.attempt).max().unwrap_or(0);
    let born = life.birth.map_or(0, |birth| birth.sent);
    let unseen = run.granted_unseen(born, op.answered);
    if seen.attempts < least || (seen.attempts > most && !unseen) {
        say(format!("shown with {} attempts, {least}…{most} is right", seen.attempts));
    }
}
/// What a nack says of itself: the grant's attempt, and a state that fits.
fn nack_fits(run: &Run, life: &Life, at: usize, one: usize, found: &mut Found) {
    let op = &run.ops[one];
    let What::Nack { back, outcome: Outcome::Ok(nacked), .. } = &op.what else { return };
    let held = use_of(op).and_then(|(_, token)| life.grant_of(token));
    let Some(held) = held.map(|held| &life.held[held]) else { return };
    if nacked.attempt != held.grant.attempt {
        let (told, was) = (nacked.attempt, held.grant.attempt);
        let what = format!("{}: a nack of attempt {was} is answered with attempt {told}", life.id);
        found.say(Some(at), format!("I7 attempts: {what}"));
    }
    let last = held.grant.attempts_left == 0;
    let dead = nacked.state == "dead";
    let wrong = match back {
        Back::Dead => !dead,
        Back::Failed => dead != last && nacked.state != "expired",
        Back::Released => dead,
    };
    if wrong {
        let (state, left) = (&nacked.state, held.grant.attempts_left);
        let what =
            format!("{}: nacked ({back:?}) with {left} attempts left, it is {state}", life.id);
        found.say(Some(at), format!("I7 attempts: {what}"));
    }
}
