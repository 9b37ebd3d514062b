//! Keys and idempotency keys: I10.

use super::*;

fn keyed(sent: Ms, id: &str, payload_of: &str, duplicate: bool, on_duplicate: OnDuplicate) -> Op {
    with(publish(sent, 0, &payload(payload_of), Outcome::Ok(id)), |publish| {
        publish.key = Some("k".into());
        publish.on_duplicate = on_duplicate;
        if let Outcome::Ok(published) = &mut publish.outcome {
            published.duplicate = duplicate;
        }
    })
}

fn first(sent: Ms, id: &str) -> Op {
    keyed(sent, id, id, false, OnDuplicate::Return)
}

fn rejected(sent: Ms) -> Op {
    with(publish(sent, 0, "rejected", Outcome::Ok(C)), |publish| {
        publish.key = Some("k".into());
        publish.on_duplicate = OnDuplicate::Reject;
        publish.outcome = Outcome::Refused(409, "duplicate_key".into());
    })
}

#[test]
fn a_key_is_held_by_one_message_until_it_ends() {
    let ended = |ok| {
        let ack = ack(1100, 1, A, if ok { Outcome::Ok(()) } else { Outcome::Unknown });
        [first(1000, A), granted(A, 1, 9, 1010), rejected(1050), ack, first(1200, B)]
    };
    Small::of(ended(true)).there(B, "delayed").passes();
    Small::of(ended(false)).there(B, "delayed").passes();
    let both = [first(1000, A), first(1200, B)];
    Small::of(both).there(A, "delayed").there(B, "delayed").names("I10 keys");
    let mut late = ended(true).to_vec();
    late[3].sent = 1300;
    late[3].answered = 1305;
    Small::of(late).there(B, "delayed").names("I10 keys");
}

#[test]
fn a_key_that_is_not_freed_is_named() {
    let ended = |end: Op, met: Op| Small::of([first(1000, A), granted(A, 1, 9, 1010), end, met]);
    let acked = || ack(1100, 1, A, Outcome::Ok(()));
    ended(acked(), rejected(1200)).names("I10 keys");
    ended(acked(), keyed(1200, A, B, true, OnDuplicate::Return)).names("I10 keys");
    let dead = || nacked(1100, 1, A, Back::Dead, "dead");
    ended(dead(), rejected(1200)).there(A, "dead").names("I10 keys");
    ended(ack(1100, 1, A, Outcome::Unknown), rejected(1200)).passes();
}

#[test]
fn a_key_until_granted_is_free_from_the_grant_on() {
    let until = |op| with(op, |publish| publish.key_until_granted = true);
    let ops = [until(first(1000, A)), granted(A, 1, 9, 1010), first(1200, B)];
    Small::of(ops.clone()).there(A, "unack").there(B, "delayed").passes();
    let [a, grant, _] = ops;
    Small::of([a, grant, keyed(1200, A, B, true, OnDuplicate::Return)])
        .there(A, "unack")
        .names("I10 keys");
}

#[test]
fn a_replace_changes_the_payload_in_place() {
    let replaced = |payload_of: &str| {
        let mut grant = grant(A, 1, 1201, 1300);
        grant.payload = payload(payload_of);
        Small::of([
            first(1000, A),
            with(keyed(1200, A, B, true, OnDuplicate::Replace), |_| {}),
            lease(grant),
            ack(1400, 1, A, Outcome::Ok(())),
        ])
    };
    replaced(B).passes();
    replaced(A).names("I2 no invention");
    let held =
        [first(1000, A), granted(A, 1, 9, 1010), keyed(1200, A, B, true, OnDuplicate::Replace)];
    Small::of(held).names("I4 one holder");
}

#[test]
fn a_replace_that_allows_fewer_attempts_may_end_a_message_that_has_failed() {
    let run = |max_attempts| {
        let replace = with(keyed(1200, A, A, true, OnDuplicate::Replace), |publish| {
            publish.max_attempts = max_attempts;
        });
        let failed = nacked(1100, 1, A, Back::Failed, "delayed");
        Small::of([first(1000, A), granted(A, 1, 9, 1010), failed, replace, first(1300, B)])
    };
    run(Some(1)).there(A, "dead").there(B, "delayed").passes();
    run(None).there(A, "delayed").there(B, "delayed").names("I10 keys");
}

#[test]
fn a_replace_of_unknown_outcome_makes_two_payloads_possible() {
    let unknown = with(keyed(1200, A, B, true, OnDuplicate::Replace), |publish| {
        publish.outcome = Outcome::Unknown
    });
    for payload_of in [A, B] {
        let mut grant = grant(A, 1, 1201, 1300);
        grant.payload = payload(payload_of);
        let ops = [first(1000, A), unknown.clone(), lease(grant), ack(1400, 1, A, Outcome::Ok(()))];
        Small::of(ops).passes();
    }
}

#[test]
fn an_idempotency_key_answers_as_at_first() {
    let again = |sent, id: &str, duplicate| {
        with(publish(sent, 0, &payload(A), Outcome::Ok(id)), |publish| {
            publish.idempotency_key = Some("i".into());
            if let Outcome::Ok(published) = &mut publish.outcome {
                published.duplicate = duplicate;
            }
        })
    };
    let run = |second| {
        Small::of([
            again(1000, A, false),
            granted(A, 1, 9, 1010),
            ack(1050, 1, A, Outcome::Ok(())),
            second,
        ])
    };
    run(again(1100, A, true)).passes();
    run(again(1100, B, false)).there(B, "delayed").names("I10 keys");
    run(again(1100, A, false)).names("I10 keys");
    let unknown = with(again(1000, A, false), |publish| publish.outcome = Outcome::Unknown);
    Small::of([unknown, again(1100, A, true), granted(A, 1, 9, 1200)]).there(A, "unack").passes();
    let twice = Small::of([again(1000, A, false), again(1100, A, true)]).there(A, "delayed");
    let mut twice = twice.there(B, "delayed");
    twice.audit.bodies.insert(member_of(B), payload(A));
    twice.names("I15 never sent again");
}
