//! I1: what was published is there until something that may end it ran. I11 and I15 alongside it: what
//! ended is not there any more, for anyone who asks after the answer.

use std::collections::BTreeSet;

use super::due::seen_by;
use super::found::Found;
use super::held::Held;
use super::life::Life;
use super::run::{AT_THE_END, Look, Run};
use crate::proof::history::{Op, Outcome, What};

pub(super) fn check(run: &Run, found: &mut Found) {
    for (at, life) in run.lives.iter().enumerate() {
        at_the_end(run, life, at, found);
        for &one in life.uses.iter().chain(&life.looks).chain(&life.deletes) {
            let op = &run.ops[one];
            if op.bare().code() == Some("message_not_found") {
                not_found(run, life, at, op, found);
            }
        }
        for &one in life.looks.iter().chain(&life.deletes) {
            still_there(run, life, at, one, found);
        }
        for &one in &life.deletes {
            deleted(run, life, at, one, found);
        }
    }
    paused(run, found);
}

/// Is this message gone at the end, and nobody may have ended it?
pub(super) fn lost(run: &Run, life: &Life) -> bool {
    run.lies_there(life.id).is_none() && !life.may_be_gone(run, AT_THE_END)
}

fn at_the_end(run: &Run, life: &Life, at: usize, found: &mut Found) {
    let id = life.id;
    if lost(run, life) {
        let tried: Vec<_> = life.uses.iter().map(|one| run.ops[*one].outcome()).collect();
        let tried = &tried[..tried.len().min(10)];
        found.say(Some(at), format!("I1 no loss: {id} is gone, nobody ended it; tried: {tried:?}"));
        let never = |one: &&usize| {
            let op = &run.ops[**one];
            op.bare() == Outcome::Never && matches!(op.what, What::Ack { .. } | What::Delete { .. })
        };
        if let Some(one) = life.uses.iter().chain(&life.deletes).find(never) {
            let sent = run.ops[*one].sent;
            let what =
                format!("{id} is gone; what was sent at {sent} was answered redis_unavailable");
            found.say(Some(at), format!("I15 never ran: {what}"));
        }
    }
    let Some(places) = run.lies_there(id) else { return };
    let Some(end) = life.ended_before(run, AT_THE_END) else { return };
    match run.ops[end].what {
        What::Delete { .. } => {
            found.say(Some(at), format!("I11 delete: {id} was deleted and is still there"));
        }
        What::Ack { .. } if places == ["acked"] => {}
        What::Ack { .. } => {
            found.say(Some(at), format!("I1 no loss: {id} was acked and is still there"));
        }
        _ => found.say(Some(at), format!("I1 no loss: {id} expired and is still there")),
    }
}

/// A client was told that there is no such message.
fn not_found(run: &Run, life: &Life, at: usize, op: &Op, found: &mut Found) {
    let look = Look::from(op);
    if life.may_be_gone(run, look) {
        return;
    }
    let later =
        life.held.iter().any(|held| held.at.0 > op.answered) || run.lies_there(life.id).is_some();
    let (name, why) = if later && life.held.iter().all(|held| held.at.0 > op.answered) {
        ("I15 takes effect", "it was published before, and is there later")
    } else {
        ("I1 no loss", "nobody ended it")
    };
    found.say(Some(at), format!("{name}: {} was not found at {}, {why}", life.id, op.answered));
}

/// A client was shown, or changed, what had ended before.
fn still_there(run: &Run, life: &Life, at: usize, one: usize, found: &mut Found) {
    let op = &run.ops[one];
    let Some(end) = life.ended_before(run, op.into()).filter(|end| *end != one) else { return };
    let acked = matches!(run.ops[end].what, What::Ack { .. });
    let shown = seen_by(op).map(|seen| seen.state.as_str());
    let there = match (&op.what, shown) {
        (What::Delete { .. }, _) => op.bare().is_ok() || op.bare().code() == Some("message_leased"),
        (_, Some(_)) => true,
        (_, None) => matches!(op.bare(), Outcome::Refused(_, code) if code != "message_not_found"),
    };
    let kept = acked && run.rules.keeps_acked;
    let fits_kept = shown == Some("acked") || shown.is_none();
    if there && !(kept && fits_kept) {
        let how = if acked { "ack" } else { "delete or end" };
        let (sent, answered) = (op.sent, run.ops[end].answered);
        let what = format!("{} was there at {sent}, its {how} was answered at {answered}", life.id);
        found.say(Some(at), format!("I15 takes effect: {what}"));
    }
}

/// What is held is deleted by force alone, and what is not is not refused.
fn deleted(run: &Run, life: &Life, at: usize, one: usize, found: &mut Found) {
    let op = &run.ops[one];
    let What::Delete { force, outcome, .. } = &op.what else { return };
    let look = Look::from(op);
    if !force && outcome.is_ok() && super::holders::certainly_held(run, life, one).is_some() {
        found.say(Some(at), format!("I11 delete: {} was deleted while held", life.id));
    }
    if outcome.code() == Some("message_leased") && !super::holders::may_be_held(run, life, look) {
        found.say(Some(at), format!("I11 delete: {} refused as leased, by nobody", life.id));
    }
}

/// No grant while the topic, or its group, is paused: from the answer to a pause until a resume is sent.
fn paused(run: &Run, found: &mut Found) {
    let pause = |op: &Op| match &op.what {
        What::Pause { paused: true, group, .. } => Some(group.clone()),
        _ => None,
    };
    let groups: BTreeSet<Option<String>> = run.ops.iter().filter_map(pause).collect();
    groups.iter().for_each(|group| granted_while_paused(run, group.as_deref(), found));
}

fn granted_while_paused(run: &Run, group: Option<&str>, found: &mut Found) {
    let spans = pauses(run, group);
    for (at, life) in run.lives.iter().enumerate() {
        let its = |held: &&Held| group.is_none() || held.grant.group.as_deref() == group;
        for held in life.held.iter().filter(its) {
            let span = spans.partition_point(|(from, _)| *from < held.at.0);
            let inside = span.checked_sub(1).map(|span| spans[span]);
            if let Some((from, until)) = inside.filter(|(_, until)| held.at.1 < *until) {
                let granted = held.grant.granted_at;
                let what = format!("{} granted at {granted}, paused {from}…{until}", life.id);
                found.say(Some(at), format!("the contract: {what}"));
            }
        }
    }
}

/// When the topic, or this group of it, was paused for certain, in order.
fn pauses(run: &Run, of: Option<&str>) -> Vec<(i64, i64)> {
    let pause = |(at, op): (usize, &Op)| match &op.what {
        What::Pause { paused, group, .. } if op.bare().may_have_run() && group.as_deref() == of => {
            Some((at, *paused))
        }
        _ => None,
    };
    let pauses: Vec<(usize, bool)> = run.ops.iter().enumerate().filter_map(pause).collect();
    let mut spans = Vec::new();
    for &(at, paused) in pauses.iter().filter(|(_, paused)| *paused) {
        let op = &run.ops[at];
        if !paused || !op.bare().is_ok() {
            continue;
        }
        let until = pauses.iter().filter(|(_, paused)| !paused).filter_map(|(other, _)| {
            let (sent, until) = run.effect(*other);
            (until >= op.sent).then_some(sent)
        });
        let until = until.min().unwrap_or(i64::MAX).min(run.forgotten(at));
        if until > op.answered {
            spans.push((op.answered, until));
        }
    }
    spans.sort_unstable();
    // Of two that overlap, the one that lasts longer stands for both.
    spans.dedup_by(|next, before| {
        let inside = next.0 <= before.1;
        before.1 = if inside { before.1.max(next.1) } else { before.1 };
        inside
    });
    spans
}
