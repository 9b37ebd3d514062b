//! I10 of idempotency keys: within its window one answers as at first, whatever became of the
//! message.

use std::collections::HashMap;

use super::found::Found;
use super::run::Run;
use crate::proof::history::{Ms, Outcome, Publish, Published};

/// How long an idempotency key answers, in a topic that does not set it (Redis's clock).
const WINDOW: Ms = 600_000;

/// May the window of a key that the first of these ops used be over for the second?
pub(super) fn apart(run: &Run, first: usize, second: usize) -> bool {
    let (a, b) = (&run.ops[first], &run.ops[second]);
    let begun = run.clock.lowest(a.sent, a.answered);
    run.clock.highest(a.sent, run.faults.effect_until(b)) >= begun + WINDOW
}

pub(super) fn check(run: &Run, found: &mut Found) {
    let mut keys: HashMap<&str, Vec<(usize, &Publish, &Published)>> = HashMap::new();
    for at in 0..run.ops.len() {
        if let Some(publish) = run.publish(at)
            && let Some(key) = &publish.idempotency_key
            && let Outcome::Ok(published) = &publish.outcome
        {
            keys.entry(key).or_default().push((at, publish, published));
        }
    }
    for (key, mut answers) in keys {
        answers.sort_by_key(|(at, ..)| run.ops[*at].answered);
        // The first of the present window.
        let mut first = answers[0];
        for &next in &answers[1..] {
            let forgotten = run.forgotten(first.0) != Ms::MAX;
            if forgotten || apart(run, first.0, next.0) {
                first = next;
                continue;
            }
            if next.1.payload != first.1.payload {
                continue; // a reuse with another body, which the contract refuses
            }
            let (one, other) = (first.2, next.2);
            let life = run.by_id.get(other.id.as_str()).copied();
            if one.id != other.id {
                let what = format!("idempotency key {key} answered {} and {}", one.id, other.id);
                found.say(life, format!("I10 keys: {what}"));
            } else if !one.duplicate && !other.duplicate {
                let what = format!("idempotency key {key} made {} twice", one.id);
                found.say(life, format!("I10 keys: {what}"));
            }
        }
    }
}
