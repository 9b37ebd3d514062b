//! A run in which all went well, and each way to break it.

use super::*;

/// A is nacked, extended and acked; B's publish has no answer, it is leased; C waits; nobody took D.
fn good_run() -> (Vec<Op>, Audit) {
    let payload = |id: &str| format!("payload of {id}");
    let nacked = Nacked { state: "delayed".into(), due_at: Some(1200), attempt: 1 };
    let ops = vec![
        publish(900, 100, &payload(A), Outcome::Ok(A)),
        publish(900, 200, &payload(B), Outcome::Unknown),
        publish(900, 900_000, &payload(C), Outcome::Ok(C)),
        publish(900, 100, "payload of D", Outcome::Never),
        publish(900, 100, "payload of E", Outcome::Refused(422, "invalid_input".into())),
        lease(grant(A, 1, 1000, 1005)),                // 5
        nack(1100, 1, A, Outcome::Ok(nacked)),         // 6
        lease(grant(A, 2, 1200, 1210)),                // 7
        extend(1300, 2, A, Outcome::Ok(3000)),         // 8
        ack(2900, 2, A, Outcome::Ok(())),              // 9
        lease(grant(B, 1, 1100, 1150)),                // 10
        ack(2950, 2, A, refused("message_not_found")), // 11
        ack(2960, 1, B, refused("lease_lost")),        // 12
    ];
    let mut audit = Audit::default();
    for (id, place) in [(B, "unack"), (C, "delayed")] {
        audit.places.insert(member_of(id), vec![place]);
        audit.bodies.insert(member_of(id), payload(id));
    }
    let totals = [("published", "3"), ("granted", "3"), ("acked", "1"), ("nacked", "1")];
    audit.meta = totals.map(|(name, total)| (name.into(), total.into())).into();
    (ops, audit)
}

/// Breaks the good run, and demands that the checker names this invariant.
#[track_caller]
fn named(invariant: &str, break_it: impl FnOnce(&mut Vec<Op>, &mut Audit)) {
    let (mut ops, mut audit) = good_run();
    break_it(&mut ops, &mut audit);
    let found = violations(&ops, &audit);
    assert!(found.iter().any(|what| what.starts_with(invariant)), "{invariant} not in {found:#?}");
}

fn grant_of(op: &mut Op) -> &mut Grant {
    match &mut op.what {
        What::Lease { outcome: Outcome::Ok(grants), .. } => &mut grants[0],
        other => panic!("{other:?} is no lease"),
    }
}

#[test]
fn a_good_run_has_no_violations() {
    let (ops, audit) = good_run();
    assert_eq!(violations(&ops, &audit), Vec::<String>::new());
}

#[test]
fn a_lost_message_is_named() {
    let gone = |audit: &mut Audit, id: &str| {
        audit.places.remove(&member_of(id));
        audit.bodies.remove(&member_of(id));
    };
    named("I1 no loss", |_, audit| gone(audit, C));
    named("I1 no loss", |_, audit| gone(audit, B)); // granted, so it was published
    named("I1 no loss", |ops, _| drop(ops.remove(9)));
    named("I1 no loss", |ops, audit| {
        gone(audit, B);
        ops.push(ack(2000, 1, B, Outcome::Never));
    });
    named("I1 no loss", |ops, _| ops.push(ack(1200, 1, B, refused("message_not_found"))));
    named("I1 no loss", |_, audit| {
        audit.places.insert(member_of(A), vec!["dead"]);
    });
    named("I1 no loss", |ops, _| {
        ops[9] =
            op(2900, What::Ack { id: A.into(), token: "guessed".into(), outcome: Outcome::Ok(()) });
    });
}

#[test]
fn an_invented_or_changed_message_is_named() {
    named("I2 no invention", |ops, _| grant_of(&mut ops[7]).payload = "other".into());
    named("I2 no invention", |ops, _| grant_of(&mut ops[10]).payload = "payload of E".into());
    named("I2 no invention", |ops, _| grant_of(&mut ops[10]).payload = format!("payload of {C}"));
    named("I2 no invention", |_, audit| {
        audit.bodies.insert(member_of(C), "other".into());
    });
}

#[test]
fn a_request_that_ran_after_redis_unavailable_is_named() {
    named("I15 never ran", |ops, audit| {
        grant_of(&mut ops[10]).payload = "payload of D".into();
        audit.bodies.insert(member_of(B), "payload of D".into());
    });
    named("I15 never ran", |_, audit| {
        audit.bodies.insert(member_of(C), "payload of D".into());
    });
    named("I4 one holder", |ops, _| {
        ops[6] = nack(1100, 1, A, Outcome::Never);
    });
}

#[test]
fn a_publish_that_ran_twice_is_named() {
    named("I15 never sent again", |_, audit| {
        audit.bodies.insert("00".repeat(11), format!("payload of {B}"));
    });
}

#[test]
fn an_early_grant_is_named() {
    named("I3 never early", |ops, _| grant_of(&mut ops[5]).granted_at = 999);
    named("I3 never early", |ops, _| grant_of(&mut ops[7]).granted_at = 1199);
    named("I3 never early", |ops, _| grant_of(&mut ops[10]).granted_at = 1099);
}

#[test]
fn a_second_holder_is_named() {
    named("I4 one holder", |ops, _| drop(ops.remove(6)));
    named("I4 one holder", |ops, _| {
        let outcome = Outcome::Ok(5000);
        ops.push(extend(1160, 1, B, outcome));
        ops.push(lease(grant(B, 2, 2150, 2160)));
    });
    let nack_unknown = |ops: &mut Vec<Op>, sent| {
        ops[6] = nack(sent, 1, A, Outcome::Unknown);
    };
    named("I4 one holder", |ops, _| nack_unknown(ops, 1212));
    let (mut ops, mut audit) = good_run();
    nack_unknown(&mut ops, 1100);
    audit.meta.insert("nacked".into(), "1".into());
    assert_eq!(violations(&ops, &audit), Vec::<String>::new(), "it may have ended the lease");
}

#[test]
fn a_broken_fence_is_named() {
    named("I5 fencing", |ops, _| grant_of(&mut ops[7]).attempt = 1);
    named("I5 fencing", |ops, _| grant_of(&mut ops[7]).attempt = 3); // a gap that nothing explains
    named("I5 fencing", |ops, _| ops.push(ack(2999, 2, A, Outcome::Ok(()))));
    named("I5 fencing", |ops, _| ops.push(lease(grant(A, 3, 3000, 3001))));
    named("I5 fencing", |ops, _| ops[9] = ack(3030, 2, A, Outcome::Ok(())));
    named("I5 fencing", |ops, _| ops[9] = ack(2900, 1, A, Outcome::Ok(())));
    named("I5 fencing", |ops, _| ops.push(ack(1200, 1, B, refused("lease_lost"))));
    named("I5 fencing", |ops, _| {
        let outcome = Outcome::Ok(4000);
        ops.push(extend(1200, 1, A, outcome));
    });
}

#[test]
fn a_lost_answer_explains_a_gap() {
    let (mut ops, mut audit) = good_run();
    grant_of(&mut ops[7]).attempt = 3;
    ops.push(op(1205, What::Lease { max_messages: 1, wait: 0, outcome: Outcome::Unknown }));
    audit.meta.insert("granted".into(), "4".into());
    audit.meta.insert("lease_expired".into(), "1".into());
    assert_eq!(violations(&ops, &audit), Vec::<String>::new());
}

#[test]
fn a_long_poll_during_a_fault_explains_a_gap_and_one_without_does_not() {
    let (mut ops, mut audit) = good_run();
    grant_of(&mut ops[7]).attempt = 3;
    let what = |wait| What::Lease { max_messages: 1, wait, outcome: Outcome::Ok(vec![]) };
    ops.push(op(1205, what(100)));
    audit.meta.insert("granted".into(), "4".into());
    audit.meta.insert("lease_expired".into(), "1".into());
    assert!(!violations(&ops, &audit).is_empty());
    let mut slow = empty_lease(1_205, 0, Outcome::Ok(vec![]));
    slow.answered = slow.sent + 1_001;
    ops.push(slow);
    assert_eq!(violations(&ops, &audit), Vec::<String>::new());
    ops[14] = ack(1207, 2, A, Outcome::Never);
    assert_eq!(violations(&ops, &audit), Vec::<String>::new());
    ops[13] = op(1205, what(0));
    assert!(!violations(&ops, &audit).is_empty());
}

#[test]
fn an_extension_that_shortens_is_named() {
    named("I6 extend", |ops, _| {
        let outcome = Outcome::Ok(2209);
        ops[8] = extend(1300, 2, A, outcome);
    });
}

#[test]
fn a_grant_after_death_is_named() {
    named("I7 attempts", |ops, _| {
        let dead = Nacked { state: "dead".into(), due_at: None, attempt: 1 };
        ops[6] = nack(1100, 1, A, Outcome::Ok(dead));
    });
}

#[test]
fn a_message_in_two_places_or_none_is_named() {
    named("I8 one place", |_, audit| {
        audit.places.insert(member_of(C), vec!["delayed", "ready"]);
    });
    named("I8 one place", |_, audit| drop(audit.bodies.remove(&member_of(C))));
    named("I8 one place", |_, audit| drop(audit.places.remove(&member_of(C))));
    named("I8 one place", |_, audit| audit.sides.push((member_of(A), "extra")));
}

#[test]
fn wrong_totals_are_named() {
    for name in ["published", "granted", "acked", "nacked"] {
        named("I9 conservation", |_, audit| {
            audit.meta.insert(name.into(), "7".into());
        });
    }
}

#[test]
fn a_500_is_named() {
    named("never 500", |ops, _| {
        ops[3] = publish(900, 100, "payload of D", Outcome::Refused(500, "internal".into()));
    });
}

#[test]
fn a_grant_that_went_back_as_its_wait_was_over_explains_a_gap() {
    let (mut ops, mut audit) = good_run();
    grant_of(&mut ops[7]).attempt = 3;
    ops.push(empty_lease(1205, 100, Outcome::Ok(vec![])));
    let mut meta = |name: &str, total: &str| audit.meta.insert(name.into(), total.into());
    meta("granted", "4");
    meta("returned", "1");
    assert_eq!(violations(&ops, &audit), Vec::<String>::new());
    ops.truncate(13);
    assert!(!violations(&ops, &audit).is_empty(), "nobody waited");
    ops.push(empty_lease(1205, 100, Outcome::Ok(vec![])));
    grant_of(&mut ops[7]).attempt = 4;
    assert!(!violations(&ops, &audit).is_empty(), "one came back, two are missing");
}
