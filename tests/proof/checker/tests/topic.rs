//! What concerns the topic: pauses, totals, order, codes, and the history that is told.

use super::*;

fn pause(sent: Ms, paused: bool, outcome: Outcome<()>) -> Op {
    op(sent, What::Pause { group: None, paused, outcome })
}

#[test]
fn a_grant_while_paused_is_named() {
    let run = |resumed: Ms, outcome: Outcome<()>| {
        let ops = [
            published(1000, A),
            pause(1100, true, outcome),
            granted(A, 1, 9, 1200),
            pause(resumed, false, Outcome::Ok(())),
        ];
        Small::of(ops).there(A, "unack")
    };
    run(1300, Outcome::Ok(())).names("the contract");
    run(1150, Outcome::Ok(())).passes();
    run(1300, Outcome::Unknown).passes();
}

#[test]
fn totals_beyond_the_record_are_named() {
    let run = |name: &str, total| {
        let small = Small::of([
            published(1000, A),
            granted(A, 1, 9, 1010),
            ack(1100, 1, A, Outcome::Ok(())),
        ]);
        let small =
            small.total("published", 1).total("granted", 1).total("acked", 1).total(name, total);
        let found = super::super::violations(&small.history(), &small.audit);
        found.iter().filter(|found| found.invariant == "I9").count()
    };
    assert_eq!(run("acked", 1), 0);
    for name in
        ["deleted", "purged", "redriven", "replaced", "dead", "expired", "released", "returned"]
    {
        assert!(run(name, 1) > 0, "{name}");
    }
}

#[test]
fn order_is_that_of_one_publisher_for_one_consumer() {
    let same_due = |sent, id: &str| {
        with(published(sent, id), |publish| {
            publish.outcome =
                Outcome::Ok(Published { id: id.into(), due_at: 1010, duplicate: false });
        })
    };
    // Of the same partition as A.
    const D: &str = "0000000d-aaaa-8aaa-8aaa-aaaaaaaaaaaa";
    let run = |ids: [&str; 2], first: &str, second: &str| {
        let grants = [(first, 1100), (second, 1200)].map(|(id, at)| lease(grant(id, 1, 1010, at)));
        let published = [same_due(1000, ids[0]), same_due(1006, ids[1])];
        Small::of(published.into_iter().chain(grants)).there(ids[0], "unack").there(ids[1], "unack")
    };
    run([A, D], A, D).passes();
    run([A, D], D, A).names("I16 order");
    run([A, B], B, A).passes();
    let mut two = run([A, D], D, A);
    two.ops[3].client = 7;
    two.passes();
    assert_eq!(crate::proof::checker::order(&run([A, D], D, A).history()).len(), 1);
}

#[test]
fn a_code_that_the_verb_does_not_know_is_named() {
    let ops = [published(1000, A), get(1100, A, Outcome::Refused(409, "lease_lost".into()))];
    Small::of(ops).there(A, "delayed").names("the contract");
}

#[test]
fn a_violation_tells_the_message_s_own_history() {
    let small = Small::of([
        published(1000, A),
        published(1000, B),
        granted(A, 1, 9, 1010),
        ack(1100, 1, A, Outcome::Ok(())),
        granted(A, 2, 8, 1200),
    ]);
    let small = small.there(B, "delayed").fault(FaultKind::InstanceKilled(0), 1_150, 1_160);
    let found = super::super::violations(&small.history(), &small.audit);
    let found = found.iter().find(|found| found.invariant == "I5").expect("I5");
    let told = found.life.join("\n");
    let order =
        ["publish", "granted as attempt 1", "ack", "fault", "granted as attempt 2", "at the end"];
    let places: Vec<_> =
        order.map(|what| told.find(what).unwrap_or_else(|| panic!("{what} in {told}"))).into();
    assert!(places.is_sorted(), "{told}");
    assert!(!told.contains(B), "{told}");
    assert_eq!(found.life.len(), 7, "{told}");
}

#[test]
fn a_long_run_is_read_in_seconds() {
    let mut ops = Vec::new();
    for n in 0..40_000 {
        let id = format!("{n:08x}-aaaa-8aaa-8aaa-aaaaaaaaaaaa");
        let at = 1_000 + n / 10;
        ops.extend([
            published(at, &id),
            granted(&id, 1, 9, at + 10),
            ack(at + 20, 1, &id, Outcome::Ok(())),
        ]);
    }
    let begin = std::time::Instant::now();
    Small::of(ops).passes();
    // Of a debug build; what is not linear takes minutes.
    assert!(begin.elapsed().as_secs() < 30, "{:?}", begin.elapsed());
}
