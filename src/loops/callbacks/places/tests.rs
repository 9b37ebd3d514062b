//! The places of a topic, without Redis, calls or time that passes.

use super::*;

const LIMITS: Limits = Limits { in_flight: 6, per_host: 2 };

fn offer(places: &mut Places<u32>, host: &str, message: u32, now: Instant) -> Offered<u32> {
    places.offer(host.to_owned(), 1, message, now, LIMITS)
}

#[test]
fn a_host_that_never_answers_holds_its_places_and_others_pass_it() {
    let (mut places, now) = (Places::new(), Instant::now());
    assert_eq!(offer(&mut places, "dead", 1, now), Offered::Begin(1));
    assert_eq!(offer(&mut places, "dead", 2, now), Offered::Begin(2));
    assert_eq!(offer(&mut places, "dead", 3, now), Offered::Waits);
    assert_eq!(offer(&mut places, "alive", 4, now), Offered::Begin(4));
    assert_eq!(places.begin(now, LIMITS), None);
    places.call_ended("alive", Some(Duration::from_millis(1)), true, now);
    assert_eq!(places.begin(now, LIMITS), None);
    // The longer nothing comes back, the fewer may wait for it.
    let later = now + Duration::from_millis(200);
    assert_eq!(offer(&mut places, "dead", 5, later), Offered::Waits);
    assert!(matches!(offer(&mut places, "dead", 6, later), Offered::Park(6, _)));
    assert_eq!(offer(&mut places, "alive", 7, later), Offered::Begin(7));
    let parked = places.overdue(now + PATIENCE, LIMITS);
    assert_eq!(parked.iter().map(|(message, _)| *message).collect::<Vec<_>>(), [3, 5]);
    assert_eq!((places.waiting, places.in_flight()), (0, 3));
}

#[test]
fn whoever_waits_begins_when_a_place_of_its_host_comes_free_hosts_by_turns() {
    let (mut places, now) = (Places::new(), Instant::now());
    for host in ["a", "b"] {
        offer(&mut places, host, 0, now);
        places.call_ended(host, Some(Duration::from_millis(5)), true, now);
    }
    for message in 1..=4 {
        offer(&mut places, "a", message, now);
        offer(&mut places, "b", 10 + message, now);
    }
    let took = Duration::from_millis(5);
    places.call_ended("b", Some(took), true, now);
    assert_eq!(places.begin(now, LIMITS), Some(("b".to_owned(), 13)));
    assert_eq!(places.begin(now, LIMITS), None);
    places.call_ended("a", Some(took), true, now);
    places.call_ended("b", Some(took), true, now);
    assert_eq!(places.begin(now, LIMITS), Some(("a".to_owned(), 3)));
    assert_eq!(places.begin(now, LIMITS), Some(("b".to_owned(), 14)));
    assert_eq!(places.clear(), [4]);
}

#[test]
fn a_burst_for_a_host_that_is_not_known_yet_waits_here() {
    let (mut places, now) = (Places::new(), Instant::now());
    let offers: Vec<_> = (0..40).map(|message| offer(&mut places, "new", message, now)).collect();
    assert!(!offers.iter().any(|offered| matches!(offered, Offered::Park(..))));
}

#[test]
fn large_messages_do_not_wait_here_in_numbers() {
    let (mut places, now) = (Places::new(), Instant::now());
    let large = MOST_WAITING_BYTES / 2;
    let mut offer = |message| places.offer("a".to_owned(), large, message, now, LIMITS);
    assert_eq!([offer(1), offer(2)], [Offered::Begin(1), Offered::Begin(2)]);
    assert_eq!([offer(3), offer(4)], [Offered::Waits, Offered::Waits]);
    assert!(matches!(offer(5), Offered::Park(5, _)));
    assert_eq!(places.clear().len(), 2);
    assert_eq!(places.waiting_bytes, 0);
}

#[test]
fn parked_messages_come_back_one_after_another_at_the_pace_of_their_host_and_never_late() {
    let (mut places, now) = (Places::new(), Instant::now());
    offer(&mut places, "slow", 0, now);
    offer(&mut places, "slow", 1, now);
    let (mut parked, later) = (Vec::new(), now + Duration::from_secs(1));
    for message in 0..2_000 {
        if let Offered::Park(_, wait) = offer(&mut places, "slow", message, later) {
            parked.push(wait);
        }
    }
    // A second and more a call, two places: one every 500 ms.
    assert_eq!(parked[1] - parked[0], Duration::from_millis(500));
    assert!(parked.iter().all(|wait| *wait <= LONGEST_PARKED), "{:?}", parked.iter().max());
    let late = parked.iter().filter(|wait| **wait > LONGEST_PARKED / 2).count();
    assert!(late > 1_500, "{late}");
}

#[test]
fn as_much_is_leased_as_can_be_called_soon() {
    let (mut places, now) = (Places::<u32>::new(), Instant::now());
    assert_eq!(places.room(now, LIMITS), 6 + 120);
    assert_eq!(offer(&mut places, "a", 1, now), Offered::Begin(1));
    // One host in sight: its places, unless it hangs.
    assert_eq!(places.room(now, LIMITS), 2 + 40 - 1);
    assert_eq!(places.room(now + 2 * SLOW, LIMITS), 6 + 120 - 1);
    offer(&mut places, "b", 2, now);
    assert_eq!(places.room(now, LIMITS), 6 + 120 - 2);
    for _ in 0..200 {
        places.call_ended("a", Some(Duration::from_secs(20)), true, now);
        assert_eq!(offer(&mut places, "a", 3, now), Offered::Begin(3));
    }
    // Slow: none in advance.
    assert_eq!(places.room(now, LIMITS), 4);
}

const MANY: Limits = Limits { in_flight: 1_024, per_host: 8 };

/// Eight messages for each of these hosts, host by host: how many of their calls begin.
fn flood(places: &mut Places<u32>, hosts: impl Iterator<Item = String>, now: Instant) -> usize {
    let mut begun = 0;
    for host in hosts {
        for message in 0..8 {
            let offered = places.offer(host.clone(), 1, message, now, MANY);
            begun += usize::from(matches!(offered, Offered::Begin(_)));
        }
    }
    begun
}

#[test]
fn hosts_that_do_not_answer_leave_places_to_each_other_and_to_those_that_do() {
    let (mut places, now) = (Places::new(), Instant::now());
    for message in 0..8 {
        places.offer("known:80".to_owned(), 1, message, now, MANY);
        places.call_ended("known:80", Some(Duration::from_millis(5)), true, now);
    }
    let begun = flood(&mut places, (0..160).map(|n| format!("silent{n}:80")), now);
    assert!((160..768).contains(&begun), "{begun}");
    assert_eq!(flood(&mut places, ["new:80".to_owned()].into_iter(), now).min(1), 1);
    let begun = flood(&mut places, (0..9_000).map(|n| format!("more{n}:80")), now);
    assert!(begun < 768, "{begun}");
    assert_eq!(places.in_flight(), 768);
    assert_eq!(flood(&mut places, ["known:80".to_owned()].into_iter(), now), 8);
    // It answered once and hangs now: it counts as silent, and what it holds is not for the others.
    places.look(now + 2 * SLOW, |_| None);
    places.call_ended("known:80", Some(Duration::from_secs(9)), false, now + 2 * SLOW);
    let offered = places.offer("known:80".to_owned(), 1, 1, now + 2 * SLOW, MANY);
    assert!(!matches!(offered, Offered::Begin(_)), "{offered:?}");
}

#[test]
fn one_address_has_few_places_whatever_its_ports_and_names() {
    let (mut places, now) = (Places::new(), Instant::now());
    let ports = (1..=160).map(|port| format!("192.0.2.1:{port}"));
    assert_eq!(flood(&mut places, ports, now), 32);
    let ports = (1..=160).map(|port| format!("[2001:db8::{port:x}]:80"));
    assert_eq!(flood(&mut places, ports, now), 32, "a network of IPv6 counts as one");
    // What names stand for is known once they are dialled.
    flood(&mut places, (0..10).map(|n| format!("name{n}:80")), now);
    places.look(now, |_| Some([192, 0, 2, 2].into()));
    assert_eq!(flood(&mut places, ["192.0.2.2:80".to_owned()].into_iter(), now), 0);
    for host in (0..10).map(|n| format!("name{n}:80")) {
        while places.hosts[&host].in_flight > 0 {
            places.call_ended(&host, Some(Duration::from_millis(1)), true, now);
        }
    }
    assert_eq!(flood(&mut places, ["192.0.2.2:81".to_owned()].into_iter(), now), 8);
}

#[test]
fn a_slow_host_that_answers_is_not_taken_for_a_silent_one() {
    let (mut places, now) = (Places::new(), Instant::now());
    places.offer("slow:80".to_owned(), 1, 0, now, MANY);
    places.call_ended("slow:80", Some(Duration::from_secs(10)), true, now);
    assert_eq!(flood(&mut places, ["slow:80".to_owned()].into_iter(), now), 8);
    places.look(now + Duration::from_secs(15), |_| None);
    assert!(!places.hosts["slow:80"].standing.silent);
    places.look(now + Duration::from_secs(21), |_| None);
    assert!(places.hosts["slow:80"].standing.silent);
}

#[test]
fn who_finds_no_place_at_all_is_parked_ever_longer() {
    let (mut places, now) = (Places::<u32>::new(), Instant::now());
    flood(&mut places, (0..9_000).map(|n| format!("silent{n}:80")), now);
    let wait = |places: &mut Places<u32>, later| match places.offer(
        "last:80".to_owned(),
        1,
        1,
        later,
        MANY,
    ) {
        Offered::Park(_, wait) => wait,
        offered => panic!("{offered:?}"),
    };
    let first = wait(&mut places, now);
    let later = wait(&mut places, now + Duration::from_secs(60));
    assert!(first < Duration::from_secs(1) && later > LONGEST_PARKED / 4, "{first:?} {later:?}");
}
