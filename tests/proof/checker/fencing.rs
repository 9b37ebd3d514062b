//! I5: attempts grow by one, a token works while its lease lasts and only then, an ack is the end.
//! I13 of tokens: after a power loss, none from before works once a grant was made after.

use super::clock::SLACK;
use super::found::Found;
use super::held::Held;
use super::life::{Life, use_of};
use super::run::{Look, Run};
use crate::proof::history::{Outcome, What};

pub(super) fn check(run: &Run, found: &mut Found) {
    let mut gaps = Gaps::default();
    for (at, life) in run.lives.iter().enumerate() {
        sequence(run, life, at, &mut gaps, found);
        for &one in &life.uses {
            used(run, life, at, one, found);
        }
        ended_once(run, life, at, found);
        granted_after_ack(run, life, at, found);
    }
    let returned = run.audit.total("returned");
    let most = run.most_lost + returned;
    if run.faults.losses.is_empty() && (gaps.all > most || gaps.returned > returned) {
        let Gaps { all, returned: calm } = gaps;
        let lost = run.most_lost;
        let what = format!("{all} attempts are missing, {calm} of them with no answer lost");
        let what = format!("{what}; {lost} may be lost, {returned} were returned");
        found.say(None, format!("I5 fencing: {what}"));
    }
}

/// Attempts that nobody saw: all, and those that only a return explains.
#[derive(Default)]
struct Gaps {
    all: i64,
    returned: i64,
}

/// Each grant is one attempt more than the one before; what is missing was lost on the way to
/// a client, or given back because its wait was over.
fn sequence(run: &Run, life: &Life, at: usize, gaps: &mut Gaps, found: &mut Found) {
    let mut top = 0;
    for (index, next) in life.held.iter().enumerate() {
        let remembered = |held: &&Held| next.at.1 < held.forgotten;
        let prior = life.held[..index].iter().rev().find(remembered);
        let attempt = next.grant.attempt;
        if let Some(prior) = prior.filter(|prior| prior.grant.attempt >= attempt) {
            let wrong = if prior.grant.attempt == attempt {
                "one attempt granted twice"
            } else {
                "attempts not in order"
            };
            let of = (prior.grant.attempt, prior.grant.granted_at);
            let what =
                format!("{}: {wrong}: {of:?}, {:?}", life.id, (attempt, next.grant.granted_at));
            found.say(Some(at), format!("I5 fencing: {what}"));
        }
        let twin = life.grant_of(&next.grant.token);
        if twin.is_some_and(|twin| twin != index) {
            let name = token_name(run, &life.held[twin.unwrap_or(index)], next);
            found.say(Some(at), format!("{name}: {}: one token given out twice", life.id));
        }
        let gap = attempt - 1 - top;
        if gap > 0 {
            gaps.all += gap;
            let since = life.held[..index].last().map(|prior| prior.at.0);
            let since = since.or(life.birth.map(|birth| birth.sent)).unwrap_or(0);
            if !run.granted_unseen(since, next.at.1) {
                let what = format!("attempt {attempt} after {top}, and no answer was lost");
                found.say(Some(at), format!("I5 fencing: {}: {what}", life.id));
            } else if !run.lost.touch(since, next.at.1) {
                gaps.returned += gap;
            }
        }
        top = top.max(attempt);
    }
}

/// A token matter is I13's where a loss that may forget lies between.
fn token_name(run: &Run, before: &Held, after: &Held) -> &'static str {
    let (from, until) = (before.at.0.min(after.at.0), before.at.1.max(after.at.1));
    if run.faults.lost_between(from, until) { "I13 honest 2xx" } else { "I5 fencing" }
}

/// An ack, nack or extend was answered as its token deserves.
fn used(run: &Run, life: &Life, at: usize, one: usize, found: &mut Found) {
    let op = &run.ops[one];
    let token = use_of(op).map_or("", |(_, token)| token);
    match (life.grant_of(token), op.bare()) {
        (None, Outcome::Ok(())) => {
            let name =
                if matches!(op.what, What::Ack { .. }) { "I1 no loss" } else { "I5 fencing" };
            let verb = verb(&op.what);
            let what = format!("{}: {verb} ok by a token that no grant gave out", life.id);
            found.say(Some(at), format!("{name}: {what}"));
        }
        (Some(held), Outcome::Ok(())) => used_in_time(run, life, at, held, one, found),
        (Some(held), Outcome::Refused(_, code)) if code == "lease_lost" => {
            refused_rightly(run, life, at, held, one, found);
        }
        _ => {}
    }
}

fn verb(what: &What) -> &'static str {
    match what {
        What::Ack { .. } => "ack",
        What::Nack { .. } => "nack",
        _ => "extend",
    }
}

/// Its lease was held then.
fn used_in_time(run: &Run, life: &Life, at: usize, held: usize, one: usize, found: &mut Found) {
    let (op, grant) = (&run.ops[one], &life.held[held]);
    let (verb, look) = (verb(&op.what), Look::from(op));
    let repeats = repeats(run, life, one);
    let earliest = run.clock.lowest(op.sent, op.answered);
    let late = earliest >= grant.grant.deadline + SLACK;
    if late && !repeats && earliest >= grant.end_before(run, one) + SLACK {
        let name = if verb == "extend" { "I6 extend" } else { "I5 fencing" };
        let over = grant.end_before(run, one);
        let what = format!("{}: {verb} ok, sent {}, lease over at {over}", life.id, op.sent);
        found.say(Some(at), format!("{name}: {what}"));
    }
    let later = life.held[held + 1..].iter().take_while(|next| next.at.1 < op.sent);
    if let Some(next) = { later }.find(|next| op.answered < next.forgotten) {
        let name = token_name(run, grant, next);
        let attempts = (grant.grant.attempt, next.grant.attempt);
        let what = format!(
            "{}: {verb} ok by the token of attempt {}, after the grant of attempt {}",
            life.id, attempts.0, attempts.1
        );
        found.say(Some(at), format!("{name}: {what}"));
    }
    let before = |other: &&usize| {
        **other != one && run.ops[**other].answered <= op.sent && run.in_force(**other, look)
    };
    if !repeats && let Some(other) = grant.enders.iter().find(before) {
        let what = format!("{}: {verb} ok after {} ok", life.id, self::verb(&run.ops[*other].what));
        found.say(Some(at), format!("I5 fencing: {what}"));
    }
    if !repeats && let Some(other) = life.ended_before(run, look).filter(|other| *other != one) {
        let (name, how) = match run.ops[other].what {
            What::Delete { .. } => ("I11 delete", "delete"),
            What::Ack { .. } => ("I5 fencing", "ack"),
            _ => ("I5 fencing", "nack"),
        };
        found.say(Some(at), format!("{name}: {}: {verb} ok after {how} ok", life.id));
    }
}

/// An ack that says again what was said before, where acked messages are kept, is ok again.
fn repeats(run: &Run, life: &Life, one: usize) -> bool {
    let What::Ack { token, .. } = &run.ops[one].what else { return false };
    let same = |at: &usize| {
        *at != one
            && matches!(&run.ops[*at].what, What::Ack { token: other, outcome, .. }
                if other == token && outcome.may_have_run())
    };
    run.rules.keeps_acked && life.uses.iter().any(same)
}

/// It was refused: the lease was over, or something else may have ended it.
fn refused_rightly(run: &Run, life: &Life, at: usize, held: usize, one: usize, found: &mut Found) {
    let (op, grant) = (&run.ops[one], &life.held[held]);
    let look = Look::from(op);
    let end = grant.end_for(look);
    let over = run.clock.highest(grant.at.0, op.answered) + SLACK >= end;
    let ended = grant.may_end <= op.answered || life.may_end <= op.answered;
    let granted = life.held.get(held + 1).is_some_and(|next| next.at.0 <= op.answered);
    if over || ended || granted || op.answered >= grant.forgotten {
        return;
    }
    let (verb, at_ms) = (verb(&op.what), op.answered);
    let what = format!("{}: {verb} of the holder refused at {at_ms}, held until {end}", life.id);
    found.say(Some(at), format!("I5 fencing: {what}"));
}

/// Of all that would end a lease, one is answered ok, however close together they were.
fn ended_once(run: &Run, life: &Life, at: usize, found: &mut Found) {
    for held in life.held.iter().filter(|held| held.enders.len() > 1) {
        let (first, second) = (held.enders[0], held.enders[1]);
        let (a, b) = (&run.ops[first], &run.ops[second]);
        let (earlier, later) = if a.answered <= b.answered { (first, b) } else { (second, a) };
        let acks = |op: &crate::proof::history::Op| matches!(op.what, What::Ack { .. });
        let kept = run.rules.keeps_acked && acks(a) && acks(b);
        if !kept && later.answered < run.forgotten(earlier) {
            let count = held.enders.len();
            let verbs = (verb(&a.what), verb(&b.what));
            let what = format!("{}: {count} answered ok by one token, {verbs:?}", life.id);
            found.say(Some(at), format!("I5 fencing: {what}"));
        }
    }
}

/// Was it granted again after an ack that was answered ok, be it forgotten or not?
pub(super) fn again(run: &Run, life: &Life) -> bool {
    life.ends.iter().any(|at| {
        let op = &run.ops[*at];
        let acked = matches!(op.what, What::Ack { .. });
        acked && life.held.iter().any(|held| held.at.0 > op.answered)
    })
}

/// Nothing is granted that was acked, or deleted, before.
fn granted_after_ack(run: &Run, life: &Life, at: usize, found: &mut Found) {
    for &end in &life.ends {
        let op = &run.ops[end];
        let (from, name) = match &op.what {
            What::Delete { .. } => (life.held.len(), "I11 delete"),
            _ => (
                use_of(op)
                    .and_then(|(_, token)| life.grant_of(token))
                    .map_or(life.held.len(), |held| held + 1),
                "I5 fencing",
            ),
        };
        let after = life.held.iter().enumerate().find(|(index, held)| {
            let look = Look { sent: held.at.0, answered: held.at.1 };
            let later = *index >= from || held.at.0 > op.answered || held.lease.sent >= op.answered;
            later && run.in_force(end, look)
        });
        if let Some((_, held)) = after {
            let how = if name.starts_with("I11") { "delete" } else { "ack" };
            let granted = (held.grant.attempt, held.grant.granted_at);
            found
                .say(Some(at), format!("{name}: {}: granted after {how} ok: {granted:?}", life.id));
        }
    }
}
