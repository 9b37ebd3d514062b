//! Claims, notifications and inquiries, step by step.

use super::*;
use futures_util::FutureExt;

/// A wait list and the receivers of its waiters' grants.
#[derive(Default)]
struct Scene {
    list: WaitList,
    notifies: HashMap<TopicName, Arc<Notify>>,
    granted: Vec<oneshot::Receiver<Grants>>,
}

fn topic(name: &str) -> TopicName {
    TopicName::parse(name).unwrap()
}

impl Scene {
    fn add(&mut self, names: &[&str]) -> u64 {
        let topics: Vec<_> = names.iter().map(|name| topic(name)).collect();
        let options = LeaseOptions {
            max_messages: 1,
            max_bytes: 1,
            lease_ms: Some(1000),
            push: false,
            several: false,
        };
        let (grants, granted) = oneshot::channel();
        let (number, opened) = self.list.add(&topics, options, grants);
        self.notifies.extend(opened);
        self.granted.push(granted);
        number
    }

    /// Returns the claimed numbers, or none if the queue is blocked.
    fn claim(&mut self, name: &str) -> Vec<u64> {
        match self.list.claim(&topic(name)) {
            Claim::Claimed(claimed) => claimed.into_iter().map(|(number, _)| number).collect(),
            Claim::Blocked => Vec::new(),
            Claim::Empty => panic!("nobody waits for {name}"),
        }
    }

    fn end(&mut self, name: &str, claimed: Vec<u64>, settled: bool) {
        claimed.into_iter().for_each(|number| self.list.release(number));
        if settled {
            self.list.settle(&topic(name));
        }
    }

    fn inquire(&self, name: &str) -> Inquiry {
        self.list.inquire(&topic(name)).unwrap()
    }

    fn notified(&self, name: &str) -> bool {
        self.notifies[&topic(name)].notified().now_or_never().is_some()
    }

    fn is_removed(&mut self, name: &str) -> bool {
        self.notified(name) && matches!(self.list.claim(&topic(name)), Claim::Empty)
    }
}

#[test]
fn a_waiter_is_claimed_by_one_queue_at_a_time() {
    let mut scene = Scene::default();
    let both = scene.add(&["a", "b"]);
    assert_eq!(scene.claim("a"), [both]);
    assert!(scene.claim("b").is_empty());
    scene.list.release(both);
    assert!(scene.notified("b") && !scene.notified("a"));
    assert_eq!(scene.claim("b"), [both]);
    scene.list.release(both);
    assert!(!scene.notified("a") && !scene.notified("b"), "nobody is kept awake");
}

#[test]
fn a_queue_that_can_claim_a_waiter_registers_for_no_notification() {
    let mut scene = Scene::default();
    let (both, one) = (scene.add(&["a", "b"]), scene.add(&["b"]));
    assert_eq!(scene.claim("a"), [both]);
    assert_eq!(scene.claim("b"), [one]);
    scene.list.release(both);
    assert!(!scene.notified("b"));
}

#[test]
fn queues_that_share_all_their_waiters_come_to_rest() {
    let mut scene = Scene::default();
    let names = ["a", "b", "c", "d"];
    for _ in 0..150 {
        scene.add(&names);
    }
    let mut calls: Vec<(&str, Vec<u64>)> = Vec::new();
    scene.list.notify_all();
    let mut started = 0;
    for _ in 0..1000 {
        for name in names {
            if !calls.iter().any(|(other, _)| *other == name) && scene.notified(name) {
                let claimed = scene.claim(name);
                if !claimed.is_empty() {
                    started += 1;
                    calls.push((name, claimed));
                }
            }
        }
        if calls.is_empty() {
            break;
        }
        // Calls end one after another, so that claims overlap in every way.
        let (_, claimed) = calls.remove(0);
        claimed.into_iter().for_each(|number| scene.list.release(number));
    }
    assert_eq!(started, names.len(), "one lease call per queue and wake-up");
}

#[test]
fn the_oldest_waiters_are_claimed_first_up_to_the_limit() {
    let mut scene = Scene::default();
    let all: Vec<_> = (0..MAX_CLAIMED + 1).map(|_| scene.add(&["a"])).collect();
    assert_eq!(scene.claim("a"), all[..MAX_CLAIMED]);
    assert_eq!(scene.claim("a"), all[MAX_CLAIMED..]);
}

#[test]
fn a_grant_removes_the_waiter_from_every_queue() {
    let mut scene = Scene::default();
    let both = scene.add(&["a", "b"]);
    scene.claim("a");
    scene.claim("b");
    assert!(scene.list.grant(both, Grants::default()).is_ok());
    assert!(scene.granted[0].try_recv().is_ok());
    assert!(scene.is_removed("a") && scene.is_removed("b"));
    assert!(scene.list.waiters.is_empty() && scene.list.queues.is_empty());
}

#[test]
fn a_waiter_that_disconnects_while_claimed_is_removed_and_granted_nothing() {
    let mut scene = Scene::default();
    let (first, second) = (scene.add(&["a", "b"]), scene.add(&["a"]));
    assert_eq!(scene.claim("a"), [first, second]);
    assert!(scene.claim("b").is_empty());
    scene.list.remove(first);
    assert!(scene.is_removed("b"));
    assert!(scene.list.grant(first, Grants::default()).is_err(), "it goes back");
    scene.list.release(first);
    scene.list.release(second);
    assert_eq!(scene.claim("a"), [second]);
}

#[test]
fn a_waiter_that_expires_while_claimed_is_removed_when_the_claim_ends() {
    let mut scene = Scene::default();
    let both = scene.add(&["a", "b"]);
    scene.claim("a");
    assert!(!scene.list.expire(both));
    assert!(scene.claim("b").is_empty());
    scene.list.release(both);
    assert!(scene.granted[0].try_recv().is_err());
    assert!(scene.is_removed("a") && scene.is_removed("b"), "and nobody claims it again");
    assert!(!scene.list.expire(both));
}

type Inquiry = (watch::Receiver<u64>, u64);

/// True if nothing is left, false if nobody waits any more, `None` while that is not known.
fn outcome((settled, call): &mut Inquiry) -> Option<bool> {
    settled.wait_for(|settled| settled >= call).now_or_never().map(|seen| seen.is_ok())
}

#[test]
fn an_inquiry_is_answered_by_a_lease_call_that_started_after_it() {
    let mut scene = Scene::default();
    assert!(scene.list.inquire(&topic("a")).is_none());
    scene.add(&["a", "b"]);
    let mut before = scene.inquire("a");
    assert!(scene.notified("a"));
    let claimed = scene.claim("a");
    let mut during = scene.inquire("a");
    assert_eq!(outcome(&mut before), None);
    scene.end("a", claimed, true);
    assert_eq!([&mut before, &mut during].map(outcome), [Some(true), None]);
    assert!(scene.notified("a"), "it leases once more");
    let claimed = scene.claim("a");
    scene.end("a", claimed, true);
    assert_eq!(outcome(&mut during), Some(true));
}

#[test]
fn a_queue_that_is_blocked_or_leases_again_has_not_settled() {
    let mut scene = Scene::default();
    scene.add(&["a", "b"]);
    let claimed = scene.claim("a");
    let mut inquiry = scene.inquire("b");
    assert!(scene.claim("b").is_empty());
    assert_eq!(outcome(&mut inquiry), None);
    scene.end("a", claimed, true);
    for settled in [false, true] {
        assert_eq!(outcome(&mut inquiry), None);
        let claimed = scene.claim("b");
        scene.end("b", claimed, settled);
    }
    assert_eq!(outcome(&mut inquiry), Some(true));
}

#[test]
fn an_inquiry_ends_when_its_queue_is_removed() {
    let mut scene = Scene::default();
    let only = scene.add(&["a"]);
    scene.claim("a");
    let mut inquiry = scene.inquire("a");
    assert!(scene.list.grant(only, Grants::default()).is_ok());
    assert_eq!(outcome(&mut inquiry), None);
    assert!(scene.is_removed("a"));
    assert_eq!(outcome(&mut inquiry), Some(false));
}
