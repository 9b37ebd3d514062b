//! Claims, bells and looks, step by step.

use super::*;
use futures_util::FutureExt;

/// A hall, and what its consumers hold in their hands.
#[derive(Default)]
struct Scene {
    hall: Hall,
    bells: HashMap<TopicName, Arc<Notify>>,
    hands: Vec<oneshot::Receiver<Grants>>,
}

fn topic(name: &str) -> TopicName {
    TopicName::parse(name).unwrap()
}

impl Scene {
    fn sit(&mut self, names: &[&str]) -> u64 {
        let topics: Vec<_> = names.iter().map(|name| topic(name)).collect();
        let want = Want { max_messages: 1, max_bytes: 1, lease_ms: Some(1000), push: false };
        let (grants, granted) = oneshot::channel();
        let (number, opened) = self.hall.sit_down(&topics, want, grants);
        self.bells.extend(opened);
        self.hands.push(granted);
        number
    }

    /// Numbers claimed; none when the room is blocked.
    fn claim(&mut self, name: &str) -> Vec<u64> {
        match self.hall.claim(&topic(name)) {
            Turn::Ask(asked) => asked.into_iter().map(|(number, _)| number).collect(),
            Turn::Blocked => Vec::new(),
            Turn::Closed => panic!("{name} is closed"),
        }
    }

    fn end(&mut self, name: &str, claimed: Vec<u64>, settled: bool) {
        claimed.into_iter().for_each(|number| self.hall.release(number));
        if settled {
            self.hall.settle(&topic(name));
        }
    }

    fn inquire(&self, name: &str) -> Inquiry {
        self.hall.inquire(&topic(name)).unwrap()
    }

    fn rung(&self, name: &str) -> bool {
        self.bells[&topic(name)].notified().now_or_never().is_some()
    }

    fn closes(&mut self, name: &str) -> bool {
        self.rung(name) && matches!(self.hall.claim(&topic(name)), Turn::Closed)
    }
}

#[test]
fn a_consumer_is_claimed_by_one_room_at_a_time() {
    let mut scene = Scene::default();
    let both = scene.sit(&["a", "b"]);
    assert_eq!(scene.claim("a"), [both]);
    assert!(scene.claim("b").is_empty());
    scene.hall.release(both);
    assert!(scene.rung("b") && !scene.rung("a"));
    assert_eq!(scene.claim("b"), [both]);
    scene.hall.release(both);
    assert!(!scene.rung("a") && !scene.rung("b"), "nobody is kept awake");
}

#[test]
fn a_room_that_can_ask_for_somebody_leaves_no_bell() {
    let mut scene = Scene::default();
    let (both, one) = (scene.sit(&["a", "b"]), scene.sit(&["b"]));
    assert_eq!(scene.claim("a"), [both]);
    assert_eq!(scene.claim("b"), [one]);
    scene.hall.release(both);
    assert!(!scene.rung("b"));
}

#[test]
fn rooms_that_share_all_their_consumers_come_to_rest() {
    let mut scene = Scene::default();
    let names = ["a", "b", "c", "d"];
    for _ in 0..150 {
        scene.sit(&names);
    }
    let mut asking: Vec<(&str, Vec<u64>)> = Vec::new();
    scene.hall.ring_all();
    let mut asks = 0;
    for _ in 0..1000 {
        for name in names {
            if !asking.iter().any(|(other, _)| *other == name) && scene.rung(name) {
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
        claimed.into_iter().for_each(|number| scene.hall.release(number));
    }
    assert_eq!(asks, names.len(), "each asks once for one wake-up");
}

#[test]
fn the_oldest_are_claimed_first_and_not_too_many() {
    let mut scene = Scene::default();
    let all: Vec<_> = (0..ASK + 1).map(|_| scene.sit(&["a"])).collect();
    assert_eq!(scene.claim("a"), all[..ASK]);
    assert_eq!(scene.claim("a"), all[ASK..]);
}

#[test]
fn a_grant_takes_the_consumer_out_of_every_room() {
    let mut scene = Scene::default();
    let both = scene.sit(&["a", "b"]);
    scene.claim("a");
    scene.claim("b");
    assert!(scene.hall.grant(both, Grants::default()).is_ok());
    assert!(scene.hands[0].try_recv().is_ok());
    assert!(scene.closes("a") && scene.closes("b"));
    assert!(scene.hall.consumers.is_empty() && scene.hall.rooms.is_empty());
}

#[test]
fn who_goes_away_while_claimed_leaves_nothing_and_takes_nothing() {
    let mut scene = Scene::default();
    let (first, second) = (scene.sit(&["a", "b"]), scene.sit(&["a"]));
    assert_eq!(scene.claim("a"), [first, second]);
    assert!(scene.claim("b").is_empty());
    scene.hall.leave(first);
    assert!(scene.closes("b"));
    assert!(scene.hall.grant(first, Grants::default()).is_err(), "it goes back");
    scene.hall.release(first);
    scene.hall.release(second);
    assert_eq!(scene.claim("a"), [second]);
}

#[test]
fn whose_time_is_over_while_claimed_leaves_when_the_claim_ends() {
    let mut scene = Scene::default();
    let both = scene.sit(&["a", "b"]);
    scene.claim("a");
    assert!(!scene.hall.stand_up(both));
    assert!(scene.claim("b").is_empty());
    scene.hall.release(both);
    assert!(scene.hands[0].try_recv().is_err());
    assert!(scene.closes("a") && scene.closes("b"), "and nobody claims it again");
    assert!(!scene.hall.stand_up(both));
}

type Inquiry = (watch::Receiver<u64>, u64);

/// True: nothing is left; false: the room is closed; `None` while that is not known.
fn outcome((settled, ask): &mut Inquiry) -> Option<bool> {
    settled.wait_for(|settled| settled >= ask).now_or_never().map(|seen| seen.is_ok())
}

#[test]
fn who_inquires_learns_what_an_ask_found_that_began_afterwards() {
    let mut scene = Scene::default();
    assert!(scene.hall.inquire(&topic("a")).is_none());
    scene.sit(&["a", "b"]);
    let mut before = scene.inquire("a");
    assert!(scene.rung("a"));
    let asked = scene.claim("a");
    let mut during = scene.inquire("a");
    assert_eq!(outcome(&mut before), None);
    scene.end("a", asked, true);
    assert_eq!([&mut before, &mut during].map(outcome), [Some(true), None]);
    assert!(scene.rung("a"), "it asks once more");
    let asked = scene.claim("a");
    scene.end("a", asked, true);
    assert_eq!(outcome(&mut during), Some(true));
}

#[test]
fn a_room_that_is_blocked_or_asks_again_has_not_settled() {
    let mut scene = Scene::default();
    scene.sit(&["a", "b"]);
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
fn who_inquires_of_a_room_that_closes_is_told_so() {
    let mut scene = Scene::default();
    let only = scene.sit(&["a"]);
    scene.claim("a");
    let mut inquiry = scene.inquire("a");
    assert!(scene.hall.grant(only, Grants::default()).is_ok());
    assert_eq!(outcome(&mut inquiry), None);
    assert!(scene.closes("a"));
    assert_eq!(outcome(&mut inquiry), Some(false));
}
