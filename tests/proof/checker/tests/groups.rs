//! Groups, and limits of how much is granted.

use super::*;
use crate::proof::audit::Entry;
use crate::proof::history::Limits;

/// The same op of this group.
fn of(group: &str, mut op: Op) -> Op {
    match &mut op.what {
        What::Publish(publish) => publish.group = Some(group.into()),
        What::Lease { outcome: Outcome::Ok(grants), .. } => {
            grants.iter_mut().for_each(|grant| grant.group = Some(group.into()));
        }
        _ => {}
    }
    op
}

/// A and then B are published in one group, and then comes this.
fn line(rest: impl IntoIterator<Item = Op>) -> Small {
    let published = [published(1000, A), published(1010, B)];
    Small::of(published.into_iter().chain(rest).map(|op| of("g", op)))
}

fn acked(sent: Ms, attempt: i64, id: &str) -> Op {
    ack(sent, attempt, id, Outcome::Ok(()))
}

#[test]
fn a_group_in_order_passes() {
    line([granted(A, 1, 9, 1100), acked(1150, 1, A), granted(B, 1, 9, 1160)])
        .there(B, "unack")
        .passes();
    // The lease of A is over, and nobody has come for it since.
    line([granted(A, 1, 9, 1100), nacked(1150, 1, A, Back::Failed, "ready")])
        .there(A, "ready")
        .there(B, "blocked")
        .found()
        .iter()
        .for_each(|what| assert!(what.starts_with("I8"), "{what}"));
}

#[test]
fn a_grant_while_an_earlier_one_is_alive_is_named() {
    let held =
        [granted(A, 1, 9, 1100), granted(B, 1, 9, 1120), acked(1150, 1, A), acked(1160, 1, B)];
    line(held).names("I17 groups");
    let first = [granted(B, 1, 9, 1100), acked(1120, 1, B), granted(A, 1, 9, 1130)];
    line(first).there(A, "unack").names("I17 groups");
    let failed = [
        granted(A, 1, 9, 1100),
        nacked(1110, 1, A, Back::Failed, "delayed"),
        granted(B, 1, 9, 1120),
        acked(1130, 1, B),
    ];
    line(failed.clone()).there(A, "delayed").names("I17 groups");
    let again = [granted(A, 2, 8, 1200), acked(1210, 2, A)];
    line(failed.clone().into_iter().chain(again)).names("I17 groups");
    let shown = get(1140, A, seen("delayed", Some(1110), 1, 9));
    line(failed.clone().into_iter().chain([shown])).names("I17 groups");
    // In another group, nothing is wrong with it.
    let mut other = line(failed).there(A, "delayed");
    other.ops[1] = of("h", published(1010, B));
    other.ops[4] = of("h", granted(B, 1, 9, 1120));
    other.passes();
}

#[test]
fn a_dead_one_lets_the_next_go_and_is_the_last_once_it_is_redriven() {
    let dead = [
        granted(A, 1, 9, 1100),
        nacked(1110, 1, A, Back::Dead, "dead"),
        granted(B, 1, 9, 1120),
        acked(1130, 1, B),
    ];
    line(dead.clone()).there(A, "dead").passes();
    let redrive =
        op(1115, What::Redrive { id: A.into(), outcome: seen("blocked", Some(1115), 1, 10) });
    let again = [redrive, granted(A, 2, 9, 1140), acked(1150, 2, A)];
    line(dead.clone().into_iter().chain(again.clone())).passes();
    line(dead.into_iter().chain(again.into_iter().skip(1))).names("I17 groups");
}

#[test]
fn what_ran_in_an_unknown_order_passes_in_any() {
    let run = |client: u64, answered: Ms| {
        let first = [granted(B, 1, 9, 1100), acked(1120, 1, B), granted(A, 1, 9, 1130)];
        let mut small = line(first).there(A, "unack");
        (small.ops[0].client, small.ops[0].answered) = (client, answered);
        small
    };
    run(7, 1011).passes();
    run(7, 1010).names("I17 groups");
    // One client, one request after another: then the record says it, whatever the clock.
    run(0, 1011).names("I17 groups");
}

#[test]
fn a_loss_explains_a_grant_that_came_again() {
    let ops = [
        granted(A, 1, 9, 1100),
        acked(1110, 1, A),
        granted(B, 1, 9, 1120),
        granted(A, 1, 9, 1300),
        acked(1310, 1, A),
    ];
    let run = |window| line(ops.clone()).fault(FaultKind::PowerLost(window), 1200, 1250);
    let named = |small: Small| small.found().iter().any(|what| what.starts_with("I17"));
    assert!(!named(run(200).there(B, "ready")));
    assert!(named(run(20).there(B, "ready")));
}

#[test]
fn more_at_once_than_the_topic_allows_are_named() {
    let run = |most: &str, third: Ms| {
        let ops = [
            published(1020, C),
            granted(B, 1, 9, 1100),
            granted(A, 1, 9, 1110),
            granted(C, 1, 9, third),
            acked(1150, 1, A),
            acked(1160, 1, B),
            acked(2000, 1, C),
        ];
        let mut small = line(ops);
        small.audit.meta.insert("group_rules".into(), most.into());
        small
    };
    run("2,,1", 1120).names("I17 groups");
    run("2,,1", 1151).passes();
    run("3,,1", 1120).passes();
}

#[test]
fn a_grant_before_as_many_as_may_be_leased_at_once_is_named() {
    let run = |most: &str, second: &'static str| {
        let mut small = line([published(1020, C), granted(C, 1, 9, 1100), acked(1150, 1, C)]);
        small.audit.meta.insert("group_rules".into(), most.into());
        small.there(A, "ready").there(B, second)
    };
    run("1,,1", "blocked").names("I17 groups");
    run("2,,1", "ready").names("I17 groups");
    run("3,,1", "ready").passes();
    // It was not there at the end: it may have gone before.
    let mut gone = line([published(1020, C), granted(C, 1, 9, 1100), acked(1150, 1, C)]);
    gone.audit.meta.insert("group_rules".into(), "2,,1".into());
    assert!(gone.there(A, "ready").found().iter().all(|what| !what.starts_with("I17")));
}

#[test]
fn another_group_than_the_published_one_is_named() {
    let mut small = line([granted(A, 1, 9, 1100), acked(1150, 1, A)]).there(B, "ready");
    small.ops[2] = of("h", granted(A, 1, 9, 1100));
    small.names("I2 no invention");
}

/// What is found of a topic with these limits.
fn limited(small: &Small, limits: Limits) -> Vec<String> {
    let history = History { limits, ..small.history() };
    let found = super::super::violations(&history, &small.audit);
    found.into_iter().filter(|it| it.invariant == "I18").map(|it| it.what).collect()
}

#[test]
fn more_leases_at_once_than_max_leased_are_named() {
    let run = |second: Ms, most| {
        let ops = [
            published(1000, A),
            published(1010, B),
            granted(A, 1, 9, 1100),
            granted(B, 1, 9, second),
            acked(1150, 1, A),
        ];
        limited(&Small::of(ops), Limits { max_leased: Some(most), ..Limits::default() })
    };
    assert_eq!(run(1120, 1).len(), 1);
    assert!(run(1120, 2).is_empty() && run(1150, 1).is_empty());
}

#[test]
fn more_grants_than_the_rate_are_named() {
    let run = |apart: Ms, rate| {
        let each = |n: Ms| {
            let id = format!("{n:08x}-aaaa-8aaa-8aaa-aaaaaaaaaaaa");
            let at = 1_000 + n * apart;
            [published(at, &id), granted(&id, 1, 9, at + 10)]
        };
        let small = Small::of((0..40).flat_map(each));
        limited(&small, Limits { rate_per_s: Some(rate), ..Limits::default() })
    };
    assert!(run(1_000, 1.0).is_empty());
    assert!(run(950, 1.0).is_empty(), "within 10 %");
    assert_eq!(run(700, 1.0).len(), 1);
    assert!(run(700, 2.0).is_empty());
}

#[test]
fn more_of_a_group_than_its_rate_are_named() {
    let run = |apart: Ms, attempt: i64, groups: Ms| {
        let each = |n: Ms| {
            let id = format!("{n:08x}-aaaa-8aaa-8aaa-aaaaaaaaaaaa");
            let due = 1_000 + n * apart;
            let granted = lease(grant(&id, attempt, due, 60_000 + n));
            [published(100, &id), granted].map(|op| of(&format!("g{}", n % groups), op))
        };
        let mut small = Small::of((0..40).flat_map(each));
        small.audit.meta.insert("group_rules".into(), "1000,1000000,2".into());
        limited(&small, Limits::default())
    };
    assert!(run(1_000, 1, 1).is_empty());
    assert_eq!(run(500, 1, 1).len(), 1);
    assert!(run(500, 2, 1).is_empty(), "retries do not count");
    assert!(run(500, 1, 2).is_empty(), "each group has a rate of its own");
}

#[test]
fn a_line_that_does_not_fit_the_places_is_named() {
    let entry = |id: &str, order: &str| Entry {
        group: "g".into(),
        order: order.into(),
        member: member_of(id),
    };
    let run = |head: Option<Entry>, place: &'static str, queued: Option<Entry>| {
        let mut small = line([]).there(A, place).there(B, "blocked");
        small.audit.heads.extend(head);
        small.audit.queued.extend(queued);
        small
    };
    let (first, second) = (|| Some(entry(A, "1")), || Some(entry(B, "2")));
    run(first(), "ready", second()).passes();
    run(None, "ready", second()).names("I17 groups");
    run(Some(entry(A, "3")), "ready", second()).names("I17 groups");
    run(first(), "dead", second()).names("I8 one place");
    run(first(), "ready", None).names("I8 one place");
    run(first(), "ready", Some(entry(A, "2"))).names("I8 one place");
}
