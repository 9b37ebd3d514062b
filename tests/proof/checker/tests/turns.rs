//! Groups that take turns.

use super::*;

const G: &str = "0000001a-aaaa-8aaa-8aaa-aaaaaaaaaaaa";
const H: [&str; 4] = [
    "0000002a-aaaa-8aaa-8aaa-aaaaaaaaaaaa",
    "0000002b-aaaa-8aaa-8aaa-aaaaaaaaaaaa",
    "0000002c-aaaa-8aaa-8aaa-aaaaaaaaaaaa",
    "0000002d-aaaa-8aaa-8aaa-aaaaaaaaaaaa",
];

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

/// G of one group and several of another are published, then these are granted, in this order, one every 100 ms and acked.
fn round(order: &[&'static str]) -> Small {
    let group = |id: &str| if id == G { "g" } else { "h" };
    let mut ops: Vec<Op> =
        H.iter().chain([&G]).map(|id| of(group(id), published(1000, id))).collect();
    for (n, id) in (0..).zip(order) {
        let at = 1_100 + 100 * n;
        ops.extend([of(group(id), granted(id, 1, 9, at)), ack(at + 10, 1, id, Outcome::Ok(()))]);
    }
    let mut small = fair(Small::of(ops));
    for id in H.iter().chain([&G]).filter(|id| !order.contains(id)) {
        small = small.there(id, "blocked");
        small.audit.queued.push(crate::proof::audit::Entry {
            group: group(id).into(),
            order: "f".into(),
            member: member_of(id),
        });
    }
    small.audit.offered = ["g", "h"].map(str::to_owned).into();
    small
}

fn fair(mut small: Small) -> Small {
    for (name, value) in [("fair", "1"), ("group_rules", "0,,1")] {
        small.audit.meta.insert(name.into(), value.into());
    }
    small
}

#[test]
fn a_group_that_waits_for_two_of_another_passes() {
    round(&[G, H[0], H[1], H[2], H[3]]).passes();
    round(&[H[0], H[1], G, H[2], H[3]]).passes();
    round(&[H[0], H[1]]).passes();
}

#[test]
fn a_group_that_waits_for_three_of_another_is_named() {
    round(&[H[0], H[1], H[2], G, H[3]]).names("I19 fairness");
    // It is still waiting at the end.
    round(&[H[0], H[1], H[2]]).names("I19 fairness");
    // It had its turn, and failed: then it waits again.
    let mut failed = round(&[G, H[0], H[1], H[2], H[3]]);
    failed.ops.retain(|op| !matches!(&op.what, What::Ack { id, .. } if id == G));
    failed.ops.insert(7, nacked(1_110, 1, G, Back::Failed, "ready"));
    let again = [of("g", granted(G, 2, 8, 1_600)), ack(1_610, 2, G, Outcome::Ok(()))];
    failed.ops.extend(again);
    failed.names("I19 fairness");
}

#[test]
fn messages_without_a_group_are_a_group() {
    let mut small = round(&[H[0], H[1], H[2], G]);
    for op in &mut small.ops {
        match &mut op.what {
            What::Publish(publish) if publish.group.as_deref() == Some("h") => publish.group = None,
            What::Lease { outcome: Outcome::Ok(grants), .. } => {
                grants
                    .iter_mut()
                    .filter(|grant| grant.id != G)
                    .for_each(|grant| grant.group = None);
            }
            _ => {}
        }
    }
    small.names("I19 fairness");
}

#[test]
fn what_was_not_ready_passes() {
    let run = |change: fn(&mut Publish)| {
        let mut small = round(&[H[0], H[1], H[2], H[3], G]);
        let at = H.len();
        small.ops[at] = with(small.ops[at].clone(), change);
        if let What::Lease { outcome: Outcome::Ok(grants), .. } = &mut small.ops[at + 9].what {
            grants[0].due_at = 1_450;
        }
        small
    };
    run(|_| {}).names("I19 fairness");
    let due = |publish: &mut Publish| {
        publish.delay = 450;
        publish.outcome = publish.outcome.clone().map(|it| Published { due_at: 1_450, ..it });
    };
    run(due).passes();
}

#[test]
fn what_nobody_saw_and_what_a_limit_holds_back_pass() {
    let order = [H[0], H[1], H[2], H[3], G];
    let spared = |small: Small| {
        let found = small.found();
        assert!(found.iter().all(|what| !what.starts_with("I19")), "{found:?}");
    };
    // It may have been granted, and nobody told of it.
    let mut lost = round(&order);
    let last = lost.ops.len() - 2;
    lost.ops[last] = of("g", granted(G, 2, 8, 1_500));
    spared(lost);
    // So may one of its group of which nobody knows.
    let mut unknown = round(&order);
    unknown.ops.push(of("g", publish(1_000, 0, "another", Outcome::Unknown)));
    spared(unknown);
    // One of another partition, one of a topic that limits groups, one of a strict topic.
    let mut apart = round(&order);
    let elsewhere = G.replace("-aaaaaaaaaaaa", "-baaaaaaaaaaa");
    assert_ne!(crate::harness::partition_of(G), crate::harness::partition_of(&elsewhere));
    for op in &mut apart.ops {
        match &mut op.what {
            What::Publish(Publish { outcome: Outcome::Ok(it), .. }) if it.id == G => {
                it.id.clone_from(&elsewhere);
            }
            What::Lease { outcome: Outcome::Ok(grants), .. } if grants[0].id == G => {
                grants[0].id.clone_from(&elsewhere);
            }
            What::Ack { id, .. } if id == G => id.clone_from(&elsewhere),
            _ => {}
        }
    }
    spared(apart);
    for (name, value) in [("group_rules", "1,,1"), ("group_rules", "0,1000000,1"), ("fair", "s")] {
        let mut other = round(&order);
        other.audit.meta.insert(name.into(), value.into());
        spared(other);
    }
    spared(round(&order).fault(FaultKind::PowerLost(100), 1_700, 1_750));
}

#[test]
fn a_group_at_which_no_lease_looks_is_named() {
    let run = |rules: &str, head: bool| {
        let mut small = round(&[]);
        small.audit.offered.clear();
        small.audit.meta.insert("group_rules".into(), rules.into());
        if head {
            let entry = |id: &str| crate::proof::audit::Entry {
                group: if id == G { "g" } else { "h" }.into(),
                order: "1".into(),
                member: member_of(id),
            };
            for id in [A, B] {
                small = small.there(id, "unack");
            }
            let mut heads = [entry(A), entry(B)];
            heads[0].group = "g".into();
            small.audit.heads.extend(heads);
        }
        small.found().iter().any(|what| what.starts_with("I19"))
    };
    assert!(run("0,,1", false) && run("0,,1", true) && run("1,,1", false));
    assert!(!run("1,,1", true), "what ends a lease has leases look at it");
}

#[test]
fn a_group_with_settings_of_its_own_is_held_against_them() {
    let order = [H[0], H[1], H[2], H[3], G];
    let run = |line: &str, order: &[&'static str]| {
        let mut small = round(order);
        small.audit.meta.insert("group:0123456789abcdef".into(), line.into());
        small.found()
    };
    let has = |found: &[String], name: &str| found.iter().any(|what| what.starts_with(name));
    // Four are a share of three and one.
    assert!(has(&run("0,,,,2,,h", &order), "I19") && !has(&run("0,,,,3,,h", &order), "I19"));
    assert!(
        !has(&run("0,5,,,,,g", &order), "I19") && !has(&run("0,,1000000,,,1,g", &order), "I19")
    );
    let held = |line: &str| {
        let mut small = round(&order);
        small.ops.retain(|op| !matches!(op.what, What::Ack { .. }));
        small.audit.meta.insert("group:0123456789abcdef".into(), line.into());
        has(&small.found(), "I17")
    };
    assert!(held("0,3,,,,,h") && !held("0,4,,,,,h") && !held("0,3,,,,,g"));
}

#[test]
fn a_grant_of_a_paused_group_is_named() {
    let run = |group: &str, until: Ms| {
        let pause = |sent, paused| {
            let group = Some(group.to_owned());
            op(sent, What::Pause { group, paused, outcome: Outcome::Ok(()) })
        };
        let mut small = round(&[G]);
        small.ops.extend([pause(1_050, true), pause(until, false)]);
        small.found().iter().any(|what| what.starts_with("the contract"))
    };
    assert!(run("g", 1_200) && !run("g", 1_090) && !run("h", 1_200));
}
