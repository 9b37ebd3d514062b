//! The places of a topic, without Redis, calls or time that passes.

use super::*;

const LIMITS: Limits = Limits { in_flight: 6, per_host: 2 };

fn offer(places: &mut Places<u32>, host: &str, message: u32, now: Instant) -> Seat<u32> {
    places.offer(host.to_owned(), 1, message, now, LIMITS)
}

#[test]
fn a_host_that_never_answers_holds_its_places_and_others_pass_it() {
    let (mut places, now) = (Places::new(), Instant::now());
    assert_eq!(offer(&mut places, "dead", 1, now), Seat::Begin(1));
    assert_eq!(offer(&mut places, "dead", 2, now), Seat::Begin(2));
    assert_eq!(offer(&mut places, "dead", 3, now), Seat::Waits);
    assert_eq!(offer(&mut places, "alive", 4, now), Seat::Begin(4));
    assert_eq!(places.begin(now, LIMITS), None);
    places.land("alive", Some(Duration::from_millis(1)), now);
    assert_eq!(places.begin(now, LIMITS), None);
    // The longer nothing comes back, the fewer may wait for it.
    let later = now + Duration::from_millis(200);
    assert_eq!(offer(&mut places, "dead", 5, later), Seat::Waits);
    assert!(matches!(offer(&mut places, "dead", 6, later), Seat::Park(6, _)));
    assert_eq!(offer(&mut places, "alive", 7, later), Seat::Begin(7));
    let parked = places.overdue(now + PATIENCE, LIMITS);
    assert_eq!(parked.iter().map(|(message, _)| *message).collect::<Vec<_>>(), [3, 5]);
    assert_eq!((places.waiting, places.in_flight), (0, 3));
}

#[test]
fn whoever_waits_begins_when_a_place_of_its_host_comes_free_hosts_by_turns() {
    let (mut places, now) = (Places::new(), Instant::now());
    for message in 1..=4 {
        offer(&mut places, "a", message, now);
        offer(&mut places, "b", 10 + message, now);
    }
    let took = Duration::from_millis(5);
    places.land("b", Some(took), now);
    assert_eq!(places.begin(now, LIMITS), Some(("b".to_owned(), 13)));
    assert_eq!(places.begin(now, LIMITS), None);
    places.land("a", Some(took), now);
    places.land("b", Some(took), now);
    assert_eq!(places.begin(now, LIMITS), Some(("a".to_owned(), 3)));
    assert_eq!(places.begin(now, LIMITS), Some(("b".to_owned(), 14)));
    assert_eq!(places.clear(), [4]);
}

#[test]
fn a_burst_for_a_host_that_is_not_known_yet_waits_here() {
    let (mut places, now) = (Places::new(), Instant::now());
    let seats: Vec<_> = (0..40).map(|message| offer(&mut places, "new", message, now)).collect();
    assert!(!seats.iter().any(|seat| matches!(seat, Seat::Park(..))));
}

#[test]
fn large_messages_do_not_wait_here_in_numbers() {
    let (mut places, now) = (Places::new(), Instant::now());
    let large = MOST_WAITING_BYTES / 2;
    let mut offer = |message| places.offer("a".to_owned(), large, message, now, LIMITS);
    assert_eq!([offer(1), offer(2)], [Seat::Begin(1), Seat::Begin(2)]);
    assert_eq!([offer(3), offer(4)], [Seat::Waits, Seat::Waits]);
    assert!(matches!(offer(5), Seat::Park(5, _)));
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
        if let Seat::Park(_, wait) = offer(&mut places, "slow", message, later) {
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
    assert_eq!(offer(&mut places, "a", 1, now), Seat::Begin(1));
    // One host in sight: its places, unless it hangs.
    assert_eq!(places.room(now, LIMITS), 2 + 40 - 1);
    assert_eq!(places.room(now + 2 * SLOW, LIMITS), 6 + 120 - 1);
    offer(&mut places, "b", 2, now);
    assert_eq!(places.room(now, LIMITS), 6 + 120 - 2);
    for _ in 0..200 {
        places.land("a", Some(Duration::from_secs(20)), now);
        assert_eq!(offer(&mut places, "a", 3, now), Seat::Begin(3));
    }
    // Slow: none in advance.
    assert_eq!(places.room(now, LIMITS), 4);
}
