//! How soon things happen: I12.

use super::*;
use crate::proof::checker::{Lateness, late, liveness, overdue};

/// A long poll from 1000 on that is granted what fell due at 1100.
fn waited(granted_at: Ms) -> Small {
    let mut op = lease(grant(A, 1, 1_100, granted_at));
    (op.sent, op.answered) = (1_000, granted_at + 2);
    if let What::Lease { wait, .. } = &mut op.what {
        *wait = 20_000;
    }
    Small::of([publish(900, 200, &payload(A), Outcome::Ok(A)), op])
}

#[test]
fn lateness_is_that_of_whoever_waited() {
    assert_eq!(late(&waited(1_130).history()), Lateness { p99: 30, max: 30, count: 1 });
    assert_eq!(liveness(&waited(1_130).history(), 50, 1_000), []);
    let found = liveness(&waited(2_200).history(), 50, 1_000);
    assert_eq!(found.iter().filter(|found| found.invariant == "I12").count(), 2, "{found:?}");
    assert_eq!(overdue(&waited(2_200).history(), 500), []);
}

#[test]
fn another_waiter_that_got_nothing_tells_too() {
    let mut run = waited(3_000);
    run.ops[1].sent = 2_900; // the one that got it came late
    assert_eq!(late(&run.history()).count, 0);
    run.ops.push(empty_lease(1_000, 1_500, Outcome::Ok(vec![])));
    assert_eq!(late(&run.history()).max, 1_400);
}

#[test]
fn a_pause_and_a_fault_excuse() {
    let paused =
        |sent, paused| op(sent, What::Pause { group: None, paused, outcome: Outcome::Ok(()) });
    let mut run = waited(2_200);
    run.ops.extend([paused(1_050, true), paused(2_190, false)]);
    assert_eq!(late(&run.history()).count, 0);
    let run = waited(2_200).fault(FaultKind::RedisPaused, 1_050, 2_000);
    assert_eq!(late(&run.history()).count, 0);
}

#[test]
fn a_long_poll_that_is_answered_late_is_named() {
    let mut op = empty_lease(1_000, 200, Outcome::Ok(vec![]));
    assert_eq!(overdue(&Small::of([op.clone()]).history(), 500), []);
    op.answered = 1_800;
    assert_eq!(overdue(&Small::of([op]).history(), 500)[0].invariant, "I12");
}

/// A client waits from 1000 on for 8 s; A is published at 1100 and granted as late as that.
fn untold(granted_at: Ms) -> Small {
    let mut late = lease(grant(A, 1, 1_100, granted_at));
    late.answered = granted_at + 2;
    let waits = empty_lease(1_000, 8_000, Outcome::Ok(vec![]));
    Small::of([publish(1_100, 0, &payload(A), Outcome::Ok(A)), waits, late]).there(A, "unack")
}

#[test]
fn who_waits_and_is_not_told_is_named() {
    untold(3_000).passes();
    untold(3_200).names("I12");
    let mut never = untold(3_200);
    never.ops.pop();
    never.names("I12");
    never.ops[1].answered = 2_500; // nobody waited for so long
    if let What::Lease { wait, .. } = &mut never.ops[1].what {
        *wait = 1_500;
    }
    never.passes();
}

#[test]
fn a_fault_excuses_what_it_meets_and_not_what_comes_after_it() {
    untold(3_200).fault(FaultKind::RedisPaused, 1_050, 1_200).passes();
    untold(3_200).fault(FaultKind::RedisPaused, 900, 1_050).names("I12");
    untold(3_200).fault(FaultKind::InstanceKilled(3), 1_050, 3_000).names("I12");
    untold(3_200).fault(FaultKind::InstancePaused(0), 1_050, 3_000).passes();
    untold(3_200).fault(FaultKind::InstancePaused(1), 1_050, 3_000).names("I12");
}

#[test]
fn a_machine_that_answers_nobody_in_time_excuses_while_it_does() {
    for (sent, is_excused) in [(1_200, true), (3_500, false)] {
        let mut run = untold(3_200);
        let mut late =
            op(sent, What::Pause { group: None, paused: false, outcome: Outcome::Ok(()) });
        late.answered = sent + 1_500;
        run.ops.push(late);
        let is_deaf = run.found().iter().any(|what| what.starts_with("I12"));
        assert_eq!(!is_deaf, is_excused, "{sent}");
    }
}

#[test]
fn what_may_have_been_taken_was_not_kept_from_anybody() {
    let deaf = |op: Op| {
        let mut run = untold(3_200);
        run.ops.push(op);
        run.found().iter().any(|what| what.starts_with("I12"))
    };
    assert!(deaf(op(900, What::Pause { group: None, paused: false, outcome: Outcome::Ok(()) })));
    assert!(!deaf(op(1_200, What::Pause { group: None, paused: true, outcome: Outcome::Ok(()) })));
    assert!(!deaf(delete(1_200, A, false, Outcome::Unknown)));
    assert!(!deaf(empty_lease(1_200, 100, Outcome::Unknown)));
}
