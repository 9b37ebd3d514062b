//! The slots of a topic, without Redis, calls or passing time.

use super::{
    host::{MAX_HELD_TIME, MAX_PARK_TIME, MIN_HELD_TIME},
    *,
};

const LIMITS: Limits = Limits { in_flight: 6, per_host: 2 };

fn offer(slots: &mut Slots<u32>, host: &str, message: u32, now: Instant) -> Offered<u32> {
    slots.offer(host.to_owned(), 1, message, now, LIMITS)
}

#[test]
fn a_host_that_never_answers_holds_its_slots_and_messages_for_others_pass_it() {
    let (mut slots, now) = (Slots::new(), Instant::now());
    assert_eq!(offer(&mut slots, "dead", 1, now), Offered::Begin(1));
    assert_eq!(offer(&mut slots, "dead", 2, now), Offered::Begin(2));
    assert_eq!(offer(&mut slots, "dead", 3, now), Offered::Wait);
    assert_eq!(offer(&mut slots, "alive", 4, now), Offered::Begin(4));
    assert_eq!(slots.begin(now, LIMITS), None);
    slots.call_ended("alive", Some(Duration::from_millis(1)), true, now);
    assert_eq!(slots.begin(now, LIMITS), None);
    // The longer a host makes no progress, the fewer messages may wait for it.
    let later = now + Duration::from_millis(200);
    assert_eq!(offer(&mut slots, "dead", 5, later), Offered::Wait);
    assert!(matches!(offer(&mut slots, "dead", 6, later), Offered::Park(6, _, _)));
    assert_eq!(offer(&mut slots, "alive", 7, later), Offered::Begin(7));
    let parked = slots.overdue(now + MAX_WAIT, LIMITS);
    assert_eq!(parked.iter().map(|(message, ..)| *message).collect::<Vec<_>>(), [3, 5]);
    assert_eq!((slots.waiting, slots.in_flight()), (0, 3));
}

#[test]
fn waiting_messages_begin_when_their_host_has_a_free_slot_hosts_by_turns() {
    let (mut slots, now) = (Slots::new(), Instant::now());
    for host in ["a", "b"] {
        offer(&mut slots, host, 0, now);
        slots.call_ended(host, Some(Duration::from_millis(5)), true, now);
    }
    for message in 1..=4 {
        offer(&mut slots, "a", message, now);
        offer(&mut slots, "b", 10 + message, now);
    }
    let took = Duration::from_millis(5);
    slots.call_ended("b", Some(took), true, now);
    assert_eq!(slots.begin(now, LIMITS), Some(("b".to_owned(), 13)));
    assert_eq!(slots.begin(now, LIMITS), None);
    slots.call_ended("a", Some(took), true, now);
    slots.call_ended("b", Some(took), true, now);
    assert_eq!(slots.begin(now, LIMITS), Some(("a".to_owned(), 3)));
    assert_eq!(slots.begin(now, LIMITS), Some(("b".to_owned(), 14)));
    assert_eq!(slots.clear(), [4]);
}

#[test]
fn a_burst_for_an_unknown_host_is_not_parked() {
    let (mut slots, now) = (Slots::new(), Instant::now());
    let offers: Vec<_> = (0..40).map(|message| offer(&mut slots, "new", message, now)).collect();
    assert!(!offers.iter().any(|offered| matches!(offered, Offered::Park(..))));
}

#[test]
fn waiting_messages_are_bounded_by_their_size() {
    let (mut slots, now) = (Slots::new(), Instant::now());
    let large = MAX_WAITING_BYTES / 2;
    let mut offer = |message| slots.offer("a".to_owned(), large, message, now, LIMITS);
    assert_eq!([offer(1), offer(2)], [Offered::Begin(1), Offered::Begin(2)]);
    assert_eq!([offer(3), offer(4)], [Offered::Wait, Offered::Wait]);
    assert!(matches!(offer(5), Offered::Park(5, _, _)));
    assert_eq!(slots.clear().len(), 2);
    assert_eq!(slots.waiting_bytes, 0);
}

#[test]
fn parked_messages_come_back_one_by_one_as_fast_as_their_host_answers_and_never_late() {
    let (mut slots, now) = (Slots::new(), Instant::now());
    offer(&mut slots, "slow", 0, now);
    offer(&mut slots, "slow", 1, now);
    let (mut parked, later) = (Vec::new(), now + Duration::from_secs(1));
    for message in 0..2_000 {
        if let Offered::Park(_, wait, _) = offer(&mut slots, "slow", message, later) {
            parked.push(wait);
        }
    }
    // A second a call and two slots: one message every 500 ms.
    assert_eq!(parked[1] - parked[0], Duration::from_millis(500));
    assert!(parked.iter().all(|wait| *wait <= MAX_PARK_TIME), "{:?}", parked.iter().max());
    let late = parked.iter().filter(|wait| **wait > MAX_PARK_TIME / 2).count();
    assert!(late > 1_500, "{late}");
}

#[test]
fn capacity_is_what_can_be_called_soon() {
    let (mut slots, now) = (Slots::<u32>::new(), Instant::now());
    assert_eq!(slots.capacity(now, LIMITS), 6 + 120);
    assert_eq!(offer(&mut slots, "a", 1, now), Offered::Begin(1));
    // Only one host has calls: its slots are the limit, unless it hangs.
    assert_eq!(slots.capacity(now, LIMITS), 2 + 40 - 1);
    assert_eq!(slots.capacity(now + 2 * SLOW_CALL, LIMITS), 6 + 120 - 1);
    offer(&mut slots, "b", 2, now);
    assert_eq!(slots.capacity(now, LIMITS), 6 + 120 - 2);
    for _ in 0..200 {
        slots.call_ended("a", Some(Duration::from_secs(20)), true, now);
        assert_eq!(offer(&mut slots, "a", 3, now), Offered::Begin(3));
    }
    // A slow host: no message is leased in advance.
    assert_eq!(slots.capacity(now, LIMITS), 4);
}

const MANY: Limits = Limits { in_flight: 1_024, per_host: 8 };

/// Offers eight messages for each of these hosts, host by host, and returns how many of their calls begin.
fn flood(slots: &mut Slots<u32>, hosts: impl Iterator<Item = String>, now: Instant) -> usize {
    let mut begun = 0;
    for host in hosts {
        for message in 0..8 {
            let offered = slots.offer(host.clone(), 1, message, now, MANY);
            begun += usize::from(matches!(offered, Offered::Begin(_)));
        }
    }
    begun
}

#[test]
fn hosts_that_do_not_answer_leave_slots_to_each_other_and_to_those_that_do() {
    let (mut slots, now) = (Slots::new(), Instant::now());
    for message in 0..8 {
        slots.offer("known:80".to_owned(), 1, message, now, MANY);
        slots.call_ended("known:80", Some(Duration::from_millis(5)), true, now);
    }
    let begun = flood(&mut slots, (0..160).map(|n| format!("silent{n}:80")), now);
    assert!((160..768).contains(&begun), "{begun}");
    assert_eq!(flood(&mut slots, ["new:80".to_owned()].into_iter(), now).min(1), 1);
    let begun = flood(&mut slots, (0..9_000).map(|n| format!("more{n}:80")), now);
    assert!(begun < 768, "{begun}");
    assert_eq!(slots.in_flight(), 768);
    assert_eq!(flood(&mut slots, ["known:80".to_owned()].into_iter(), now), 8);
    // It answered before but hangs now: it counts as silent, and its slots count as those of silent hosts.
    slots.update_hosts(now + 2 * SLOW_CALL, |_| None);
    slots.call_ended("known:80", Some(Duration::from_secs(9)), false, now + 2 * SLOW_CALL);
    let offered = slots.offer("known:80".to_owned(), 1, 1, now + 2 * SLOW_CALL, MANY);
    assert!(!matches!(offered, Offered::Begin(_)), "{offered:?}");
}

#[test]
fn one_address_has_few_slots_for_hosts_that_fail_whatever_its_ports_and_names() {
    let (mut slots, now) = (Slots::new(), Instant::now());
    let ports = || (1..=160).map(|port| format!("192.0.2.1:{port}"));
    // An IPv6 network counts as one address.
    let network = || (1..=160).map(|port| format!("[2001:db8::{port:x}]:80"));
    for hosts in [ports().collect::<Vec<_>>(), network().collect()] {
        let first = flood(&mut slots, hosts.iter().cloned(), now);
        assert_eq!(first, 32 + 156, "the first call to each shows whether it answers");
        for host in &hosts {
            while slots.hosts[host].in_flight > 0 {
                slots.call_ended(host, Some(Duration::from_secs(9)), false, now);
            }
        }
        drop(slots.clear());
        assert_eq!(flood(&mut slots, hosts.into_iter(), now), 32);
    }
    // The address of a name is known once it is dialled.
    flood(&mut slots, (0..10).map(|n| format!("name{n}:80")), now);
    slots.update_hosts(now, |_| Some([192, 0, 2, 2].into()));
    assert_eq!(flood(&mut slots, ["192.0.2.2:80".to_owned()].into_iter(), now), 1);
    for host in (0..10).map(|n| format!("name{n}:80")) {
        while slots.hosts[&host].in_flight > 0 {
            slots.call_ended(&host, Some(Duration::from_millis(1)), true, now);
        }
    }
    assert_eq!(flood(&mut slots, ["192.0.2.2:81".to_owned()].into_iter(), now), 8);
}

#[test]
fn a_good_host_behind_the_address_of_many_dead_ones_has_its_slots() {
    let (mut slots, now) = (Slots::new(), Instant::now());
    let limits = Limits { in_flight: 64, per_host: 8 };
    let good = "192.0.2.1:80";
    for port in 1..=40 {
        for message in 0..8 {
            slots.offer(format!("192.0.2.1:{}", 1000 + port), 1, message, now, limits);
        }
    }
    slots.update_hosts(now + 2 * SLOW_CALL, |_| None);
    // All of them hang: of their slots so many are taken that only hosts that answer have any left.
    assert_eq!(slots.in_flight(), 48);
    for port in 7..=22 {
        let host = format!("192.0.2.1:{}", 1000 + port);
        while slots.hosts[&host].in_flight > 0 {
            slots.call_ended(&host, Some(Duration::from_secs(15)), false, now);
        }
    }
    assert_eq!(slots.in_flight(), 32, "as many as hosts that fail may have at one address");
    let offered = slots.offer(good.to_owned(), 1, 1, now, limits);
    assert_eq!(offered, Offered::Begin(1), "its first call");
    slots.call_ended(good, Some(Duration::from_millis(5)), true, now);
    for message in 0..8 {
        assert_eq!(slots.offer(good.to_owned(), 1, message, now, limits), Offered::Begin(message));
    }
}

#[test]
fn a_slow_host_that_answers_is_not_silent() {
    let (mut slots, now) = (Slots::new(), Instant::now());
    slots.offer("slow:80".to_owned(), 1, 0, now, MANY);
    slots.call_ended("slow:80", Some(Duration::from_secs(10)), true, now);
    assert_eq!(flood(&mut slots, ["slow:80".to_owned()].into_iter(), now), 8);
    slots.update_hosts(now + Duration::from_secs(15), |_| None);
    assert!(!slots.hosts["slow:80"].state.silent);
    slots.update_hosts(now + Duration::from_secs(21), |_| None);
    assert!(slots.hosts["slow:80"].state.silent);
}

#[test]
fn messages_of_a_host_without_any_slot_are_parked_ever_longer() {
    let (mut slots, now) = (Slots::<u32>::new(), Instant::now());
    flood(&mut slots, (0..9_000).map(|n| format!("silent{n}:80")), now);
    let wait = |slots: &mut Slots<u32>, later| match slots.offer(
        "last:80".to_owned(),
        1,
        1,
        later,
        MANY,
    ) {
        Offered::Park(_, wait, _) => wait,
        offered => panic!("{offered:?}"),
    };
    let first = wait(&mut slots, now);
    let later = wait(&mut slots, now + Duration::from_secs(60));
    assert!(first < Duration::from_secs(1) && later > MAX_PARK_TIME / 4, "{first:?} {later:?}");
}

#[test]
fn a_paused_host_gets_no_slot_until_it_is_resumed() {
    let (mut slots, now) = (Slots::new(), Instant::now());
    let paused = Gates::from([("ill".to_owned(), Gate::Paused)]);
    assert_eq!(offer(&mut slots, "ill", 1, now), Offered::Begin(1));
    assert_eq!(offer(&mut slots, "ill", 2, now), Offered::Begin(2));
    assert_eq!(offer(&mut slots, "ill", 3, now), Offered::Wait);
    slots.set_gates(paused.clone(), now);
    assert_eq!(slots.begin(now, LIMITS), None);
    let parked = slots.overdue(now, LIMITS);
    assert_eq!(parked.iter().map(|(message, ..)| *message).collect::<Vec<_>>(), [3]);
    slots.call_ended("ill", Some(Duration::from_millis(1)), true, now);
    // One after another, however many there are.
    let mut last = parked[0].1;
    for message in 4..100 {
        let Offered::Park(_, wait, _) = offer(&mut slots, "ill", message, now) else {
            panic!("a call of a paused host")
        };
        assert!(wait > last && wait <= MAX_HELD_TIME);
        last = wait;
    }
    assert_eq!(offer(&mut slots, "well", 4, now), Offered::Begin(4));
    assert_eq!((slots.host_capacity("ill", now, LIMITS), slots.in_flight()), (0, 2));
    // A host that was never called is paused just so.
    slots.set_gates(Gates::from([("new".to_owned(), Gate::Paused)]), now);
    assert_eq!(slots.host_capacity("new", now, LIMITS), 0);
    assert!(matches!(offer(&mut slots, "new", 5, now), Offered::Park(5, _, _)));
    assert!(slots.host_capacity("ill", now, LIMITS) > 0);
    assert_eq!(offer(&mut slots, "ill", 6, now), Offered::Begin(6));
}

#[test]
fn messages_of_a_paused_host_come_back_within_five_minutes_however_many_there_are() {
    let (mut slots, now) = (Slots::new(), Instant::now());
    slots.set_gates(Gates::from([("ill".to_owned(), Gate::Paused)]), now);
    let wait = |message: u32| match offer(&mut slots, "ill", message, now) {
        Offered::Park(_, wait, _) => wait,
        other => panic!("{other:?}"),
    };
    let waits: Vec<_> = (0..300_000).map(wait).collect();
    assert!(waits.iter().all(|wait| (MIN_HELD_TIME..=MAX_HELD_TIME).contains(wait)));
    let late = waits.iter().filter(|wait| **wait > MAX_HELD_TIME / 2).count();
    assert!((100_000..250_000).contains(&late), "they are spread: {late}");
}
