//! I18: no more messages are leased at once than `max_leased` allows, and no more are granted, or of a group fall due, than
//! the rates allow: within 10 % over 10 s, and a burst.

use std::collections::HashMap;

use super::found::Found;
use super::life::Life;
use super::run::Run;
use crate::proof::history::Ms;

const SPAN: Ms = 10_000;
const TOLERANCE: f64 = 1.1;

pub(super) fn check(run: &Run, found: &mut Found) {
    let limits = run.history.limits;
    if let Some(most) = limits.max_leased {
        let lives = run.lives.iter().enumerate();
        if let Some((at, count, when)) = at_once(run, lives, most) {
            let what = format!("{count} messages are held at {when}, at most {most} may be");
            found.say(Some(at), format!("I18 rates: {what}"));
        }
    }
    if run.clock.stepped() {
        return;
    }
    if let Some(rate) = limits.rate_per_s {
        let granted = run.lives.iter().flat_map(|life| &life.held).map(|held| held.at.1);
        // A burst is what 50 ms are worth.
        if let Some(what) = too_many(granted.collect(), rate, (rate / 20.0).max(1.0)) {
            found.say(None, format!("I18 rates: {what} were granted"));
        }
    }
    for (group, dues) in first_dues(run) {
        let rules = run.group_rules(group);
        let Some(rate) = rules.rate_per_s else { continue };
        if let Some(what) = too_many(dues, rate, rules.burst as f64) {
            found.say(None, format!("I18 rates: {what} of group {group:?} fell due"));
        }
    }
}

/// When the messages of each group fell due that were granted, or were granted where groups take turns; retries do not count,
/// nor what a client made due.
fn first_dues<'a>(run: &'a Run) -> HashMap<&'a str, Vec<Ms>> {
    let mut dues: HashMap<&str, Vec<Ms>> = HashMap::new();
    for life in &run.lives {
        let moved = !life.updates.is_empty() || !life.claims.is_empty();
        let first = life.held.iter().find(|held| held.grant.attempt == 1);
        let Some(held) = first.filter(|held| !moved && held.forgotten == Ms::MAX) else { continue };
        if let Some(group) = &held.grant.group {
            let when = if run.rules.groups.fair { held.at.1 } else { held.grant.due_at };
            dues.entry(group).or_default().push(when);
        }
    }
    dues
}

/// Are there more of these instants in some 10 s than the rate allows?
fn too_many(mut instants: Vec<Ms>, rate: f64, burst: f64) -> Option<String> {
    instants.sort_unstable();
    let most = rate * SPAN as f64 / 1e3 * TOLERANCE + burst;
    let mut first = 0;
    for (at, instant) in instants.iter().enumerate() {
        while instants[first] + SPAN <= *instant {
            first += 1;
        }
        let count = at + 1 - first;
        if count as f64 > most {
            return Some(format!("{count} messages from {} on, at most {most}", instants[first]));
        }
    }
    None
}

/// Where more of these messages were held at once for certain than may be: one of them, how many, and when.
pub(super) fn at_once<'a, 'b: 'a>(
    run: &Run,
    lives: impl Iterator<Item = (usize, &'a Life<'b>)>,
    most: usize,
) -> Option<(usize, usize, Ms)> {
    if run.clock.stepped() {
        return None;
    }
    // At one instant what ends comes first.
    let mut changes: Vec<(Ms, bool, usize)> = Vec::new();
    for (at, life) in lives {
        for held in life.held.iter().filter(|held| held.forgotten == Ms::MAX) {
            let end = held.grant.deadline.min(held.may_end).min(life.may_end);
            if held.at.1 < end {
                changes.extend([(held.at.1, true, at), (end, false, at)]);
            }
        }
    }
    changes.sort_unstable();
    let mut count = 0;
    for (when, begins, at) in changes {
        count = if begins { count + 1 } else { count - 1 };
        if count > most {
            return Some((at, count, when));
        }
    }
    None
}
