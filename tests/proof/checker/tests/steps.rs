//! Steps of Redis's clock: what they excuse, and what they do not.

use super::*;

const HOUR: Ms = 3_600_000;

fn stepped(ops: impl IntoIterator<Item = Op>, by: Ms) -> Small {
    Small::of(ops).fault(FaultKind::ClockStepped(by), 2_000, 2_010)
}

/// A grant at this machine's instant, `by` later on Redis's clock.
fn moved(id: &str, attempt: i64, due: Ms, machine: Ms, by: Ms) -> Op {
    let mut op = lease(grant(id, attempt, due, machine + by));
    (op.sent, op.answered) = (machine - 1, machine + 4);
    op
}

#[test]
fn forward_all_falls_due_sooner() {
    let ops =
        [publish(1000, HOUR, &payload(A), Outcome::Ok(A)), moved(A, 1, 1000 + HOUR, 2_500, HOUR)];
    stepped(ops.clone(), HOUR).there(A, "unack").passes();
    Small::of(ops).there(A, "unack").names("I3 never early");
    // A lease from before is over: another client has it, and its holder is refused.
    let taken = [
        published(1000, A),
        granted(A, 1, 9, 1900),
        moved(A, 2, 2_900, 2_500, HOUR),
        ack(2_600, 1, A, refused("lease_lost")),
    ];
    stepped(taken, HOUR).there(A, "unack").passes();
}

#[test]
fn backward_what_was_ready_stays_so_and_leases_last_longer() {
    let ops = [published(HOUR, A), moved(A, 1, HOUR, HOUR + 2_500, -HOUR)];
    let back = |ops: Vec<Op>| {
        Small::of(ops).fault(FaultKind::ClockStepped(-HOUR), HOUR + 2_000, HOUR + 2_010)
    };
    back(ops.to_vec()).there(A, "unack").passes();
    let mut held = vec![published(HOUR, A), granted(A, 1, 9, HOUR + 1_900)];
    held.push(ack(HOUR + 9_000, 1, A, Outcome::Ok(())));
    back(held.clone()).passes();
    Small::of(held).names("I5 fencing");
}

#[test]
fn the_clock_of_an_instance_in_place_of_redis_s_is_named() {
    let local = publish(3_000, 100, &payload(A), Outcome::Ok(A)); // due by this machine's clock
    stepped([local], HOUR).there(A, "delayed").names("I3 never early");
}

#[test]
fn fencing_holds_across_a_step_backward() {
    let ops = [
        published(HOUR, A),
        granted(A, 1, 9, HOUR + 1_000),
        ack(HOUR + 1_100, 1, A, Outcome::Ok(())),
        moved(A, 2, HOUR, HOUR + 2_500, -HOUR),
    ];
    Small::of(ops)
        .fault(FaultKind::ClockStepped(-HOUR), HOUR + 2_000, HOUR + 2_010)
        .names("I5 fencing");
}
