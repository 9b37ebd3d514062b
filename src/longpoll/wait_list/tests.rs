//! Claims, notifications and inquiries, step by step.

use super::*;
use futures_util::FutureExt;

/// A wait list, and where the grants of its waiters arrive.
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
        let options =
            LeaseOptions { max_messages: 1, max_bytes: 1, lease_ms: Some(1000), push: false };
        let (grants, granted) = oneshot::channel();
        let (number, opened) = self.list.add(&topics, options, grants);
        self.notifies.extend(opened);
        self.granted.push(granted);
        number
    }

    /// Numbers claimed; none when the queue is blocked.
    fn claim(&mut self, name: &str) -> Vec<u64> {
        match self.list.claim(&topic(name)) {
            Claim::Ask(asked) => asked.into_iter().map(|(number, _)| number).collect(),
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
fn a_queue_that_can_ask_for_somebody_leaves_no_notification() {
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
    let mut asking: Vec<(&str, Vec<u64>)> = Vec::new();
    scene.list.notify_all();
    let mut asks = 0;
    for _ in 0..1000 {
        for name in names {
            if !asking.iter().any(|(other, _)| *other == name) && scene.notified(name) {
                let claimed = scene.claim(name);
                if !claimed.is_empty() {
                    asks += 1;
                    asking.push((name, claimed));
                }
            }
        }
        if asking.is_empty() {
            break;
        }
        // They end one after another, so that claims overlap in every way.
        let (_, claimed) = asking.remove(0);
        claimed.into_iter().for_each(|number| scene.list.release(number));
    }
    assert_eq!(asks, names.len(), "each asks once for one wake-up");
}

#[test]
fn the_oldest_are_claimed_first_and_not_too_many() {
    let mut scene = Scene::default();
    let all: Vec<_> = (0..MAX_CLAIMED + 1).map(|_| scene.add(&["a"])).collect();
    assert_eq!(scene.claim("a"), all[..MAX_CLAIMED]);
    assert_eq!(scene.claim("a"), all[MAX_CLAIMED..]);
}

#[test]
fn a_grant_takes_the_waiter_out_of_every_queue() {
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
fn who_goes_away_while_claimed_leaves_nothing_and_takes_nothing() {
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
fn whose_time_is_over_while_claimed_leaves_when_the_claim_ends() {
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

/// True: nothing is left; false: nobody waits any more; `None` while that is not known.
fn outcome((settled, ask): &mut Inquiry) -> Option<bool> {
    settled.wait_for(|settled| settled >= ask).now_or_never().map(|seen| seen.is_ok())
}

#[test]
fn who_inquires_learns_what_an_ask_found_that_began_afterwards() {
    let mut scene = Scene::default();
    assert!(scene.list.inquire(&topic("a")).is_none());
    scene.add(&["a", "b"]);
    let mut before = scene.inquire("a");
    assert!(scene.notified("a"));
    let asked = scene.claim("a");
    let mut during = scene.inquire("a");
    assert_eq!(outcome(&mut before), None);
    scene.end("a", asked, true);
    assert_eq!([&mut before, &mut during].map(outcome), [Some(true), None]);
    assert!(scene.notified("a"), "it asks once more");
    let asked = scene.claim("a");
    scene.end("a", asked, true);
    assert_eq!(outcome(&mut during), Some(true));
}

#[test]
fn a_queue_that_is_blocked_or_asks_again_has_not_settled() {
    let mut scene = Scene::default();
    scene.add(&["a", "b"]);
    let asked = scene.claim("a");
    let mut inquiry = scene.inquire("b");
    assert!(scene.claim("b").is_empty());
    assert_eq!(outcome(&mut inquiry), None);
    scene.end("a", asked, true);
    for settled in [false, true] {
        assert_eq!(outcome(&mut inquiry), None);
        let asked = scene.claim("b");
        scene.end("b", asked, settled);
    }
    assert_eq!(outcome(&mut inquiry), Some(true));
}

#[test]
fn who_inquires_of_a_queue_that_empties_is_told_so() {
    let mut scene = Scene::default();
    let only = scene.add(&["a"]);
    scene.claim("a");
    let mut inquiry = scene.inquire("a");
    assert!(scene.list.grant(only, Grants::default()).is_ok());
    assert_eq!(outcome(&mut inquiry), None);
    assert!(scene.is_removed("a"));
    assert_eq!(outcome(&mut inquiry), Some(false));
}
