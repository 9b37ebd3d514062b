//! Payloads and due times in force: I2, I3, I15.

use super::*;

fn update(sent: Ms, payload: Option<&str>, delay: Option<Ms>, ok: bool) -> Op {
    let due = sent + 2 + delay.unwrap_or(0);
    let outcome = if ok { seen("delayed", Some(due), 0, 10) } else { Outcome::Unknown };
    let payload = payload.map(str::to_owned);
    op(sent, What::Update { id: A.into(), payload, delay, outcome })
}

fn granted_with(payload: &str, granted_at: Ms) -> Op {
    let mut grant = grant(A, 1, granted_at, granted_at);
    grant.payload = payload.into();
    lease(grant)
}

#[test]
fn the_payload_in_force_is_the_last_that_was_answered() {
    let after = |ok, payload: &str| {
        Small::of([
            published(1000, A),
            update(1100, Some("new"), None, ok),
            granted_with(payload, 1300),
        ])
    };
    let mut audit = after(true, "new");
    audit.audit.places.insert(member_of(A), vec!["unack"]);
    audit.audit.bodies.insert(member_of(A), "new".into());
    audit.passes();
    after(true, &payload(A)).names("I2 no invention");
    assert!(!after(false, "new").found().iter().any(|what| what.starts_with("I2")));
    assert!(!after(false, &payload(A)).found().iter().any(|what| what.starts_with("I2")));
}

#[test]
fn an_update_that_never_ran_is_named_where_it_did() {
    let mut update = update(1100, Some("new"), None, false);
    if let What::Update { outcome, .. } = &mut update.what {
        *outcome = Outcome::Never;
    }
    Small::of([published(1000, A), update, granted_with("new", 1300)]).names("I15 never ran");
}

#[test]
fn swapped_answers_are_named() {
    let ops = [
        publish(1000, 0, "one", Outcome::Ok(A)),
        publish(1000, 0, "two", Outcome::Ok(B)),
        granted_with("two", 1100),
    ];
    Small::of(ops).names("I15 own outcome");
}

#[test]
fn the_due_time_in_force_is_the_last_that_was_answered() {
    let moved = |ok, granted_at| {
        Small::of([
            publish(1000, 500, &payload(A), Outcome::Ok(A)),
            update(1100, None, Some(1000), ok),
            lease(grant(A, 1, granted_at, granted_at)),
        ])
        .there(A, "unack")
    };
    moved(true, 2102).passes();
    moved(true, 2000).names("I3 never early");
    moved(false, 1500).passes();
    moved(false, 1499).names("I3 never early");
    let sooner = [
        publish(1000, 500, &payload(A), Outcome::Ok(A)),
        update(1100, None, Some(0), true),
        lease(grant(A, 1, 1102, 1110)),
    ];
    Small::of(sooner).there(A, "unack").passes();
}

#[test]
fn instants_that_are_not_redis_s_are_named() {
    let wrong = with(published(1000, A), |publish| {
        let due_at = 3_000;
        publish.outcome = Outcome::Ok(Published { id: A.into(), due_at, duplicate: false });
    });
    Small::of([wrong]).there(A, "delayed").names("I3 never early");
    let mut late = granted(A, 1, 9, 1100);
    (late.sent, late.answered) = (2000, 2005);
    Small::of([published(1000, A), late]).there(A, "unack").names("I3 never early");
}
