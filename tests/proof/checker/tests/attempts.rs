//! Budgets: I7, and what redriving does to them.

use super::*;

/// Two attempts, the second fails: dead; then redriven.
fn dying(max: u32) -> Vec<Op> {
    vec![
        with(published(1000, A), |publish| publish.max_attempts = Some(max)),
        granted(A, 1, 1, 1010),
        nacked(1100, 1, A, Back::Failed, "ready"),
        granted(A, 2, 0, 1200),
        nacked(1300, 2, A, Back::Failed, "dead"),
    ]
}

fn redrive(sent: Ms, outcome: Outcome<Seen>) -> Op {
    op(sent, What::Redrive { id: A.into(), outcome })
}

#[test]
fn a_message_dies_of_its_last_attempt_and_comes_back_by_a_redrive() {
    Small::of(dying(2)).there(A, "dead").passes();
    let mut ops = dying(2);
    ops.push(get(1400, A, seen("dead", None, 2, 0)));
    ops.push(redrive(1500, seen("ready", Some(1502), 2, 2)));
    ops.push(granted(A, 3, 1, 1600));
    Small::of(ops).there(A, "unack").passes();
    let topic = |outcome| op(1500, What::RedriveTopic { max_messages: 10, outcome });
    for outcome in [Outcome::Ok(1), Outcome::Unknown] {
        let mut ops = dying(2);
        ops.extend([topic(outcome), granted(A, 3, 1, 1600)]);
        Small::of(ops).there(A, "unack").passes();
    }
}

#[test]
fn more_attempts_than_a_budget_has_are_named() {
    let mut ops = dying(2);
    ops.push(granted(A, 3, 0, 1600));
    Small::of(ops).there(A, "unack").names("I7 attempts");
    Small::of(dying(5)).there(A, "dead").names("I7 attempts"); // attempts_left do not fit
    Small::of([published(1000, A)]).there(A, "dead").names("I7 attempts");
}

#[test]
fn a_last_nack_is_death_and_no_other() {
    let mut ops = dying(2);
    ops[4] = nacked(1300, 2, A, Back::Failed, "ready");
    Small::of(ops).there(A, "delayed").names("I7 attempts");
    let mut ops = dying(2);
    ops[2] = nacked(1100, 1, A, Back::Failed, "dead");
    Small::of(ops).there(A, "dead").names("I7 attempts");
    Small::of([published(1000, A), granted(A, 1, 9, 1010), nacked(1100, 1, A, Back::Dead, "dead")])
        .there(A, "dead")
        .passes();
}

#[test]
fn a_release_does_not_count() {
    let ops = |left| {
        [
            published(1000, A),
            granted(A, 1, 9, 1010),
            nacked(1100, 1, A, Back::Released, "ready"),
            granted(A, 2, left, 1200),
        ]
    };
    Small::of(ops(9)).there(A, "unack").passes();
    Small::of(ops(8)).there(A, "unack").names("I7 attempts");
    let mut unknown = ops(8);
    let (id, token, back) = (A.into(), token(1, A), Back::Released);
    unknown[2] = op(1100, What::Nack { id, token, back, delay: None, outcome: Outcome::Unknown });
    Small::of(unknown).there(A, "unack").passes();
}

#[test]
fn what_is_dead_is_shown_as_dead_and_nothing_else_is() {
    let mut ops = dying(2);
    ops.push(get(1400, A, seen("ready", Some(1300), 2, 0)));
    Small::of(ops).there(A, "dead").names("I7 attempts");
    let mut ops = dying(2);
    ops.truncate(4);
    // The lease is over at 2200.
    ops.push(get(2300, A, seen("leased", None, 2, 0)));
    Small::of(ops.clone()).there(A, "last").names("I7 attempts");
    ops[4] = get(2300, A, seen("dead", None, 2, 0));
    Small::of(ops).there(A, "dead").passes();
    let fresh = [published(1000, A), get(1100, A, seen("dead", None, 0, 0))];
    Small::of(fresh).there(A, "delayed").names("I7 attempts");
    let refused = redrive(1400, Outcome::Refused(409, "message_not_dead".into()));
    Small::of(dying(2).into_iter().chain([refused])).there(A, "dead").names("I7 attempts");
}

#[test]
fn wrong_numbers_of_attempts_are_named() {
    let shown = |attempts| {
        Small::of([
            published(1000, A),
            granted(A, 1, 9, 1010),
            get(1100, A, seen("leased", None, attempts, 9)),
        ])
        .there(A, "unack")
    };
    shown(1).passes();
    shown(0).names("I7 attempts");
    shown(2).names("I7 attempts");
}

#[test]
fn what_is_held_is_shown_as_held_and_not_changed() {
    let and = |op| Small::of([published(1000, A), granted(A, 1, 9, 1010), op]).there(A, "unack");
    and(get(1100, A, seen("ready", Some(1000), 1, 9))).names("I4 one holder");
    let update =
        |outcome| op(1100, What::Update { id: A.into(), payload: None, delay: Some(0), outcome });
    and(update(seen("ready", Some(1102), 1, 9))).names("I4 one holder");
    and(update(Outcome::Refused(409, "message_leased".into()))).passes();
    let free = [published(1000, A), update(Outcome::Refused(409, "message_leased".into()))];
    Small::of(free).there(A, "delayed").names("I4 one holder");
}
