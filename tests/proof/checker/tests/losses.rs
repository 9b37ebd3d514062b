//! Power losses that forget: I13, and what they excuse.

use super::*;
use crate::harness::partition_of;

/// A is old, B and C are of the last two seconds before the loss at 5000.
fn before() -> Vec<Op> {
    vec![
        publish(1000, 0, &payload(A), Outcome::Ok(A)),
        publish(4000, 0, &payload(B), Outcome::Ok(B)),
        publish(4500, 0, &payload(C), Outcome::Ok(C)),
    ]
}

fn after_loss(ops: Vec<Op>) -> Small {
    Small::of(ops).fault(FaultKind::PowerLost(2_000), 5_000, 5_500)
}

#[test]
fn the_newest_may_be_forgotten_and_no_more() {
    after_loss(before()).there(A, "delayed").passes();
    after_loss(before()).there(A, "delayed").there(B, "delayed").passes();
    after_loss(before()).there(B, "delayed").names("I1 no loss"); // A is too old to be forgotten
    let always =
        Small::of(before()).fault(FaultKind::PowerLost(0), 5_000, 5_500).there(A, "delayed");
    always.names("I1 no loss");
    Small::of(before())
        .fault(FaultKind::RedisKilled, 5_000, 5_500)
        .there(A, "delayed")
        .names("I1 no loss");
}

#[test]
fn what_is_left_is_a_prefix() {
    // B was answered before C was sent: C cannot survive alone.
    after_loss(before()).there(A, "delayed").there(C, "delayed").names("I13 honest 2xx");
    let mut together = before();
    together[2] = publish(4_003, 0, &payload(C), Outcome::Ok(C));
    after_loss(together).there(A, "delayed").there(C, "delayed").passes();
}

#[test]
fn a_server_forgets_nothing_of_the_partitions_that_it_does_not_have() {
    let loss = |ops: Vec<Op>, ids: &[&str]| {
        let at = ids.iter().map(|id| partition_of(id)).collect();
        Small::of(ops).fault_at(FaultKind::PowerLost(2_000), 5_000, 5_500, at)
    };
    loss(before(), &[B, C]).there(A, "delayed").passes();
    loss(before(), &[C]).there(A, "delayed").names("I1 no loss");
    // What one server has kept says nothing of what another has forgotten; of both its partitions it keeps a prefix.
    loss(before(), &[B]).there(A, "delayed").there(C, "delayed").passes();
    loss(before(), &[B, C]).there(A, "delayed").there(C, "delayed").names("I13 honest 2xx");
    // Two of them, one after the other: each takes its own.
    let twice = |ids: &[&str]| {
        let at = ids.iter().map(|id| partition_of(id)).collect();
        loss(before(), &[B]).fault_at(FaultKind::PowerLost(2_000), 5_600, 5_900, at)
    };
    twice(&[C]).there(A, "delayed").passes();
    twice(&[A]).there(A, "delayed").names("I1 no loss");
}

#[test]
fn an_ack_may_be_forgotten_with_all_that_came_after() {
    let acked = |extra: Op| {
        let mut ops = before();
        ops.extend([granted(A, 1, 9, 3_500), ack(3_600, 1, A, Outcome::Ok(())), extra]);
        ops
    };
    let again = || {
        let mut grant = grant(A, 2, 4_500, 6_000);
        grant.attempts_left = 8;
        lease(grant)
    };
    after_loss(acked(again())).there(A, "unack").passes();
    // The ack was forgotten, the publish after it was not.
    after_loss(acked(again())).there(A, "unack").there(B, "delayed").names("I13 honest 2xx");
    let unexcused =
        Small::of(acked(again())).there(A, "unack").there(B, "delayed").there(C, "delayed");
    unexcused.names("I5 fencing");
}

#[test]
fn a_forgotten_grant_is_repeated_and_its_token_is_worth_nothing() {
    let again = |token: &str| {
        let mut grant = grant(A, 1, 1_000, 6_000);
        grant.token = token.into();
        lease(grant)
    };
    let mut ops = before();
    ops.truncate(1);
    ops.extend([granted(A, 1, 9, 4_600), again("new")]);
    ops.push(ack(6_100, 1, A, refused("lease_lost")));
    after_loss(ops.clone()).there(A, "unack").passes();
    ops[3] = ack(6_100, 1, A, Outcome::Ok(()));
    after_loss(ops.clone()).names("I13 honest 2xx");
    ops[2] = again(&token(1, A));
    after_loss(ops.clone()).names("I13 honest 2xx");
    ops.pop();
    ops[2] = again("new");
    Small::of(ops).there(A, "unack").names("I5 fencing");
}
