//! What a lane takes of what waits, and in which order.

use super::*;
use crate::{
    model::{Epoch, Member, MessageId, Seal},
    store::{
        ack::Ack,
        call::{Call, Context, Ticket},
        fuzz::topic,
        grants::Home,
        lease::{Lease, Want},
        registry::Topic,
        reply::CallError,
    },
};
use deadpool_redis::redis::{Cmd, Value};
use std::sync::{Arc, atomic::Ordering};
use tokio::sync::oneshot;

/// A request that looks at a whole topic.
struct Look;

impl Call for Look {
    fn command(&self, _: &Context<'_>) -> Cmd {
        Cmd::new()
    }

    fn finish(self: Box<Self>, _: &mut Context<'_>, _: Result<Value, CallError>) {}

    fn refuse(self: Box<Self>) {}

    fn is_abandoned(&self) -> bool {
        false
    }
}

fn look(since: Instant) -> Job {
    Job::Behind(Box::new(Look), since)
}

fn lease(topic: &Arc<Topic>) -> Job {
    let want = Want { max_messages: 1_000, max_bytes: 1 << 22, lease_ms: None, push: false };
    let verb = Lease { want, begun: false, waits: false, home: Home::default() };
    Job::Lease(Ticket { verb, topic: topic.clone(), since: Instant::now(), answer: None })
}

fn ack(topic: &Arc<Topic>) -> Job {
    let id = MessageId::from_member(&Member::default(), topic.route);
    let verb = Ack {
        id,
        seal: Seal { attempt: 1, epoch: Epoch::default(), granted_at: 0, last: false },
        call: None,
    };
    Job::Ack(Ticket { verb, topic: topic.clone(), since: Instant::now(), answer: None })
}

fn leases(taken: &Taken<'_>) -> usize {
    taken.jobs.iter().filter(|job| matches!(job, Job::Lease(_))).count()
}

#[test]
fn acks_never_wait_behind_leases_and_leases_wait_behind_acks() {
    let (inbox, topic) = (Inbox::new(2), topic(Default::default()));
    for plenty in [false, true] {
        topic.plenty.store(plenty, Ordering::Relaxed);
        (0..300).for_each(|_| inbox.put(lease(&topic)));
        (0..130).for_each(|_| inbox.put(ack(&topic)));
        let taken = inbox.take(false);
        let granted = leases(&taken);
        assert_eq!(granted, if plenty { 1 } else { TAKE_OF_TOPIC });
        assert_eq!(taken.jobs.len() - granted, TAKE_OF_TOPIC, "acks");
        drop(taken);
        inbox.put(lease(&topic));
        while !inbox.lock().jobs.is_empty() {
            let _ = inbox.take(false);
        }
    }
    (0..130).for_each(|_| inbox.put(ack(&topic)));
    inbox.put(lease(&topic));
    assert_eq!(leases(&inbox.take(false)), 0, "its acks come first");
}

#[test]
fn what_looks_and_operates_comes_after_all_others_a_little_at_a_time() {
    let (inbox, topic) = (Inbox::new(4), topic(Default::default()));
    // However slow the machine is, these have not waited for long.
    (0..200).for_each(|_| inbox.put(look(Instant::now() + Duration::from_secs(60))));
    inbox.put(ack(&topic));
    assert_eq!(inbox.take(true).jobs.len(), 1, "never over the express lane");
    inbox.put(ack(&topic));
    assert_eq!(inbox.take(false).jobs.len(), 1, "nor with what others wait for");
    let first = inbox.take(false);
    assert_eq!(first.jobs.len(), TAKE_BEHIND);
    let second = inbox.take(false);
    assert_eq!(second.jobs.len(), TAKE_BEHIND);
    assert!(inbox.take(false).jobs.is_empty(), "half of the lanes are free of it");
    drop((first, second));
    let inbox = Inbox::new(4);
    (0..200).for_each(|_| inbox.put(look(Instant::now() - BEHIND_WAITS)));
    inbox.put(ack(&topic));
    assert_eq!(inbox.take(false).jobs.len(), 1 + TAKE_BEHIND, "but it does not wait for ever");
}

#[test]
fn what_nobody_waits_for_any_more_is_not_taken() {
    let (inbox, topic) = (Inbox::new(2), topic(Default::default()));
    for gone in [true, false] {
        let (answer, answered) = oneshot::channel();
        let Job::Ack(ticket) = ack(&topic) else { unreachable!() };
        inbox.put(Job::Ack(Ticket { answer: Some(answer), ..ticket }));
        if gone {
            drop(answered);
            assert!(inbox.take(false).jobs.is_empty());
        } else {
            assert_eq!(inbox.take(false).jobs.len(), 1);
        }
    }
    inbox.put(ack(&topic));
    assert_eq!(inbox.take(false).jobs.len(), 1, "nobody ever wanted to know of this one");
}
