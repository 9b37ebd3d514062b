//! How lives end: I1, I11, I15, and tokens after that.

use super::*;

/// Published, granted, deleted by force, looked at.
fn deleted_run() -> Vec<Op> {
    vec![
        published(1000, A),
        granted(A, 1, 9, 1010),
        delete(1100, A, false, Outcome::Refused(409, "message_leased".into())),
        delete(1200, A, true, Outcome::Ok(())),
        ack(1300, 1, A, not_found()),
        get(1310, A, not_found()),
    ]
}

#[test]
fn a_deletion_by_force_passes() {
    Small::of(deleted_run()).passes();
}

#[test]
fn a_deleted_message_that_is_still_there_is_named() {
    let and = |op: Op| Small::of(deleted_run().into_iter().chain([op]));
    Small::of(deleted_run()).there(A, "unack").names("I11 delete");
    and(granted(A, 2, 8, 1400)).names("I11 delete");
    and(ack(1400, 1, A, Outcome::Ok(()))).names("I11 delete");
    and(get(1400, A, seen("ready", Some(1000), 1, 9))).names("I15 takes effect");
    and(delete(1400, A, true, Outcome::Ok(()))).names("I15 takes effect");
}

#[test]
fn a_deletion_of_what_is_held_needs_force() {
    let mut ops = deleted_run();
    ops[3] = delete(1200, A, false, Outcome::Ok(()));
    Small::of(ops).names("I11 delete");
    let refused = || Outcome::Refused(409, "message_leased".into());
    Small::of([published(1000, A), delete(1100, A, false, refused())])
        .there(A, "delayed")
        .names("I11 delete");
}

#[test]
fn a_deletion_of_unknown_outcome_explains_both_ends() {
    let ops = [published(1000, A), delete(1100, A, false, Outcome::Unknown)];
    Small::of(ops.clone()).passes();
    Small::of(ops.clone()).there(A, "delayed").passes();
    Small::of(ops.into_iter().chain([granted(A, 1, 9, 1200)])).there(A, "unack").passes();
    let never = [published(1000, A), delete(1100, A, false, Outcome::Never)];
    Small::of(never.clone()).names("I1 no loss");
    Small::of(never).names("I15 never ran");
}

#[test]
fn a_message_that_is_not_found_while_it_is_there_is_named() {
    let unseen = [published(1000, A), get(1100, A, not_found())];
    Small::of(unseen.clone()).names("I1 no loss");
    Small::of(unseen).there(A, "delayed").names("I15 takes effect");
    // Sent before the publish was answered, it may have come first.
    Small::of([published(1000, A), get(1004, A, not_found())]).there(A, "delayed").passes();
}

#[test]
fn what_was_acked_is_not_shown_unless_it_is_kept() {
    let ops = [
        published(1000, A),
        granted(A, 1, 9, 1010),
        ack(1100, 1, A, Outcome::Ok(())),
        ack(1150, 1, A, Outcome::Ok(())),
        get(1200, A, seen("acked", None, 1, 9)),
    ];
    Small::of(ops.clone()).names("I15 takes effect");
    Small::of(ops.clone()).names("I5 fencing");
    let mut kept = Small::of(ops).there(A, "acked");
    kept.audit.meta.insert("rules".into(), "0,,60000,,,,".into());
    kept.passes();
}

#[test]
fn a_message_expires_by_its_own_time_to_live_only() {
    let ttl = |ops: Vec<Op>| {
        Small::of(ops.into_iter().map(|op| match &op.what {
            What::Publish(_) => with(op, |publish| publish.ttl = Some(500)),
            _ => op,
        }))
    };
    let ops = || vec![published(1000, A), get(1600, A, not_found())];
    Small::of(ops()).names("I1 no loss");
    ttl(ops()).passes();
    ttl(vec![published(1000, A), get(1400, A, not_found())]).names("I1 no loss");
    let expired = |at| {
        vec![published(1000, A), granted(A, 1, 9, 1100), nacked(at, 1, A, Back::Failed, "expired")]
    };
    ttl(expired(1600)).passes();
    ttl(vec![published(1000, A), granted(A, 1, 9, 1501)]).names("the contract");
}

#[test]
fn a_purge_explains_what_is_gone() {
    let purge = |sent, outcome| op(sent, What::Purge { states: vec!["ready"], outcome });
    Small::of([published(1000, A), purge(1100, Outcome::Ok(1))]).passes();
    Small::of([published(1000, A), purge(1100, Outcome::Unknown)]).passes();
    Small::of([published(1000, A), purge(1100, Outcome::Never)]).names("I1 no loss");
    Small::of([purge(900, Outcome::Ok(1)), published(1000, A)]).names("I1 no loss");
}

#[test]
fn two_enders_answered_ok_are_named_however_close() {
    let ops = [
        published(1000, A),
        granted(A, 1, 9, 1010),
        ack(1100, 1, A, Outcome::Ok(())),
        ack(1101, 1, A, Outcome::Ok(())),
    ];
    Small::of(ops).names("I5 fencing");
}

#[test]
fn thousands_of_stale_tries_pass_and_one_that_is_accepted_is_named() {
    let mut ops = vec![published(1000, A), granted(A, 1, 9, 1010), granted(A, 2, 8, 2100)];
    let stale = |n: Ms| ack(2200 + n % 700, 1, A, refused("lease_lost"));
    ops.extend((0..20_000).map(stale));
    let small = Small::of(ops.clone()).there(A, "unack");
    small.passes();
    let tally = crate::proof::checker::tally(&small.history(), &small.audit);
    assert_eq!((tally.stale_tried, tally.stale_accepted), (20_000, 0));
    ops.push(ack(2500, 1, A, Outcome::Ok(())));
    let small = Small::of(ops);
    small.names("I5 fencing");
    let tally = crate::proof::checker::tally(&small.history(), &small.audit);
    assert_eq!((tally.stale_tried, tally.stale_accepted, tally.published), (20_001, 1, 1));
}

#[test]
fn an_extension_is_neither_shorter_nor_longer_than_right() {
    let extended = |sent, deadline| {
        Small::of([
            published(1000, A),
            granted(A, 1, 9, 1010),
            extend(sent, 1, A, Outcome::Ok(deadline)),
        ])
        .there(A, "unack")
    };
    extended(1500, 3202).passes(); // 1,700 ms from then
    extended(1500, 2600).names("I6 extend");
    extended(1500, 3900).names("I6 extend");
    extended(2100, 3802).names("I6 extend"); // it was over at 2010
    let token = token(1, A);
    let far = op(
        1500,
        What::Extend {
            id: A.into(),
            token,
            lease_ms: 43_200_000,
            outcome: Outcome::Ok(43_201_502),
        },
    );
    Small::of([published(1000, A), granted(A, 1, 9, 1010), far])
        .there(A, "unack")
        .names("I6 extend");
}
