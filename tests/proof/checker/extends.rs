//! I6: an extension is never shorter than what was promised before, nor longer than was asked for,
//! and never passes the cap. That it revives nothing is read where tokens are.

use super::clock::SLACK;
use super::found::Found;
use super::life::Life;
use super::run::{Look, Run};
use crate::proof::history::{Ms, Outcome, What};

/// A lease ends at most this long after its grant.
const CAP: Ms = 12 * 3_600_000;

pub(super) fn check(run: &Run, found: &mut Found) {
    for (at, life) in run.lives.iter().enumerate() {
        let mut extends: Vec<Vec<usize>> = Vec::new();
        for &one in &life.uses {
            if let What::Extend { token, outcome: Outcome::Ok(_), .. } = &run.ops[one].what
                && let Some(held) = life.grant_of(token)
            {
                extends.resize_with(life.held.len(), Vec::new);
                extends[held].push(one);
            }
        }
        for (held, extends) in extends.iter_mut().enumerate() {
            extends.sort_by_key(|one| run.ops[*one].answered);
            of_one_lease(run, life, at, held, extends, found);
        }
    }
}

fn of_one_lease(
    run: &Run,
    life: &Life,
    at: usize,
    held: usize,
    extends: &[usize],
    found: &mut Found,
) {
    let held = &life.held[held];
    let cap = held.grant.granted_at + CAP;
    // What was promised before: by all that were answered by then.
    let (mut promised, mut answered) = (held.grant.deadline, 0);
    for &one in extends {
        let op = &run.ops[one];
        let What::Extend { lease_ms, outcome: Outcome::Ok(deadline), .. } = &op.what else {
            continue;
        };
        while let Some(&before) =
            extends.get(answered).filter(|before| run.ops[**before].answered <= op.sent)
        {
            if let What::Extend { outcome: Outcome::Ok(deadline), .. } = &run.ops[before].what
                && run.in_force(before, Look::from(op))
            {
                promised = promised.max(*deadline);
            }
            answered += 1;
        }
        let asked = run.clock.lowest(op.sent, op.answered) - SLACK + lease_ms;
        let least = promised.max(asked.min(cap));
        let most = run.clock.highest(op.sent, op.answered) + SLACK + lease_ms;
        // Others, unseen or at the same time, may have made it longer.
        let most = most.max(held.end_before(run, one)).min(cap.max(held.grant.deadline));
        if *deadline < least || *deadline > most {
            let what = format!("{}: extended to {deadline}, {least}…{most} is right", life.id);
            found.say(Some(at), format!("I6 extend: {what}"));
        }
    }
}
