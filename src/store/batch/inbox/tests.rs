//! What a lane takes of what waits, and in which order.

use super::{
    super::{Op, Request},
    *,
};
use crate::{
    ack::Ack, fuzz::partition, grants::LeaseOptions, lease::Lease, partition::Partition,
    settle::Held, topics::count,
};
use dueq_model::{Epoch, LeaseClaims, Member, MessageId};
use std::sync::{Weak, atomic::Ordering};

/// A job whose caller waits until the end of the test.
fn job<O: Op>(partition: &Partition, op: O, since: Instant) -> Job {
    waited_for(Request::new(partition, op, since))
}

fn waited_for<T>(request: Request<T>) -> Job {
    std::mem::forget(request.answered);
    request.job
}

fn look(partition: &Partition, since: Instant) -> Job {
    let mut job = waited_for(count(partition));
    job.came.since = since;
    job
}

fn lease(partition: &Partition) -> Job {
    let options = LeaseOptions {
        max_messages: 1_000,
        max_bytes: 1 << 22,
        lease_ms: None,
        push: false,
        several: false,
    };
    let op = Lease { options, begun: false, waits: false, wakes: 0, registry: Weak::new() };
    job(partition, op, Instant::now())
}

fn new_ack(partition: &Partition) -> Held<Ack> {
    let id = MessageId::from_member(&Member::default(), partition.route);
    let claims = LeaseClaims { attempt: 1, epoch: Epoch::default(), granted_at: 0, last: false };
    Held { id, claims, what: Ack::default() }
}

fn ack(partition: &Partition) -> Job {
    job(partition, new_ack(partition), Instant::now())
}

fn leases(taken: &Taken<'_>) -> usize {
    taken.jobs.iter().filter(|job| job.phase == Phase::Grant).count()
}

#[test]
fn acks_never_wait_behind_leases_and_leases_wait_behind_acks() {
    let (inbox, partition) = (Inbox::new(2), partition(Default::default()));
    for plenty in [false, true] {
        partition.plenty.store(plenty, Ordering::Relaxed);
        (0..300).for_each(|_| drop(inbox.put([lease(&partition)])));
        (0..130).for_each(|_| drop(inbox.put([ack(&partition)])));
        let taken = inbox.take(false);
        let granted = leases(&taken);
        assert_eq!(granted, if plenty { 1 } else { MAX_OF_PARTITION });
        assert_eq!(taken.jobs.len() - granted, MAX_OF_PARTITION, "acks");
        drop(taken);
        inbox.put([lease(&partition)]);
        while !inbox.queue.lock().jobs.is_empty() {
            let _ = inbox.take(false);
        }
    }
    (0..130).for_each(|_| drop(inbox.put([ack(&partition)])));
    inbox.put([lease(&partition)]);
    assert_eq!(leases(&inbox.take(false)), 0, "its acks come first");
}

#[test]
fn what_looks_and_operates_comes_after_all_others_a_little_at_a_time() {
    let (inbox, partition) = (Inbox::new(4), partition(Default::default()));
    // However slow the machine is, these have not waited for long.
    (0..200).for_each(|_| {
        drop(inbox.put([look(&partition, Instant::now() + Duration::from_secs(60))]))
    });
    inbox.put([ack(&partition)]);
    assert_eq!(inbox.take(true).jobs.len(), 1, "never over the express lane");
    inbox.put([ack(&partition)]);
    assert_eq!(inbox.take(false).jobs.len(), 1, "nor with what others wait for");
    let first = inbox.take(false);
    assert_eq!(first.jobs.len(), MAX_SCANS);
    let second = inbox.take(false);
    assert_eq!(second.jobs.len(), MAX_SCANS);
    assert!(inbox.take(false).jobs.is_empty(), "half of the lanes are free of it");
    drop((first, second));
    let inbox = Inbox::new(4);
    (0..200).for_each(|_| drop(inbox.put([look(&partition, Instant::now() - SCAN_PATIENCE)])));
    inbox.put([ack(&partition)]);
    assert_eq!(inbox.take(false).jobs.len(), 1 + MAX_SCANS, "but it does not wait for ever");
}

#[test]
fn what_nobody_waits_for_any_more_is_not_taken() {
    let (inbox, partition) = (Inbox::new(2), partition(Default::default()));
    for gone in [true, false] {
        let Request { job, answered } =
            Request::new(&partition, new_ack(&partition), Instant::now());
        inbox.put([job]);
        if gone {
            drop(answered);
            assert!(inbox.take(false).jobs.is_empty());
        } else {
            assert_eq!(inbox.take(false).jobs.len(), 1);
        }
    }
}
