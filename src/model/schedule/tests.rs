//! Ticks around the changes of summer time, what is made up for, and what becomes of ticks that are kept elsewhere.

use super::*;
use crate::{format_instant, parse_instant, zones::tests::zone_file};

const HOUR: Millis = 3_600_000;
/// The days of both changes of 2027.
const BERLIN: [&str; 2] = ["2027-03-28T00:00:00+01:00", "2027-10-31T00:00:00+02:00"];
const NEW_YORK: [&str; 2] = ["2027-03-14T00:00:00-05:00", "2027-11-07T00:00:00-04:00"];

fn at(text: &str) -> Millis {
    parse_instant(text).unwrap()
}

fn cron(expr: &str, timezone: &str) -> Timing {
    let zone = Zones::bundled().get(timezone).unwrap();
    Timing::Cron(CronTiming::parse(expr, zone).unwrap())
}

/// The ticks from `from` to `to`, one after another.
fn ticks(timing: &Timing, from: Millis, to: Millis) -> Vec<Millis> {
    let next = |tick: &Millis| timing.next_after(*tick).filter(|next| *next <= to);
    std::iter::successors(next(&(from - 1)), next).collect()
}

fn shown(ticks: &[Millis]) -> Vec<String> {
    ticks.iter().map(|tick| format_instant(*tick)[5..16].to_owned()).collect()
}

/// The ticks from midnight at the start of the day of the change, for 26 hours of 2 to 5 o'clock in UTC or so.
fn around(expr: &str, timezone: &str, midnight: &str) -> Vec<String> {
    let from = at(midnight);
    shown(&ticks(&cron(expr, timezone), from, from + 25 * HOUR))
}

#[test]
fn a_time_of_day_that_is_left_out_comes_once_right_after_the_gap() {
    let (berlin, new_york) = (BERLIN[0], NEW_YORK[0]);
    assert_eq!(around("30 2 * * *", "Europe/Berlin", berlin), ["03-28T01:00", "03-29T00:30"][..1]);
    assert_eq!(around("0 30 2 * * SUN", "Europe/Berlin", berlin), ["03-28T01:00"]);
    assert_eq!(around("30 2 * * *", "America/New_York", new_york), ["03-14T07:00"]);
    assert_eq!(around("0 3 * * *", "Europe/Berlin", berlin), ["03-28T01:00"]);
}

#[test]
fn a_time_of_day_that_comes_twice_counts_once() {
    assert_eq!(around("30 2 * * *", "Europe/Berlin", BERLIN[1]), ["10-31T00:30"]);
    assert_eq!(around("30 1 * * *", "America/New_York", NEW_YORK[1]), ["11-07T05:30"]);
}

#[test]
fn what_comes_every_so_often_follows_the_time_that_passes() {
    for (timezone, midnights) in [("Europe/Berlin", BERLIN), ("America/New_York", NEW_YORK)] {
        for midnight in midnights {
            for (expr, minutes) in [("0 * * * *", 60), ("*/15 * * * *", 15), ("0 */5 * * * *", 5)] {
                let all = ticks(&cron(expr, timezone), at(midnight), at(midnight) + 26 * HOUR);
                let apart: Vec<_> = all.windows(2).map(|two| two[1] - two[0]).collect();
                assert_eq!(all.len() as Millis, 26 * 60 / minutes + 1, "{expr} {midnight}");
                assert!(apart.iter().all(|apart| *apart == minutes * 60_000), "{expr} {midnight}");
            }
        }
    }
}

#[test]
fn looking_back_finds_the_ticks_that_looking_ahead_does() {
    for (timezone, midnights) in [("Europe/Berlin", BERLIN), ("America/New_York", NEW_YORK)] {
        for (midnight, expr) in midnights.iter().flat_map(|midnight| {
            ["30 2 * * *", "30 1,2,3 * * *", "*/20 1-3 * * *", "15 */2 * * *", "7 3 * * MON-FRI"]
                .map(|expr| (*midnight, expr))
        }) {
            let timing = cron(expr, timezone);
            let (from, to) = (at(midnight), at(midnight) + 72 * HOUR);
            let ahead = ticks(&timing, from, to);
            assert_eq!(timing.ticks(ahead[0], to, CatchUp::All), ahead, "{expr} {midnight}");
        }
    }
}

#[test]
fn names_last_days_and_seconds_are_understood() {
    let from = at("2027-01-29T00:00:00Z");
    for (expr, expected) in [
        ("0 9 * * MON-FRI", ["01-29T09:00", "02-01T09:00", "02-02T09:00"]),
        ("0 0 L * *", ["01-31T00:00", "02-28T00:00", "03-31T00:00"]),
        ("0 0 0 29 2 *", ["02-29T00:00", "02-29T00:00", "02-29T00:00"]),
        ("0 12 * * FRI#2", ["02-12T12:00", "03-12T12:00", "04-09T12:00"]),
    ] {
        let timing = cron(expr, "UTC");
        let next = |tick: &Millis| timing.next_after(*tick);
        let three: Vec<_> = std::iter::successors(next(&from), next).take(3).collect();
        assert_eq!(shown(&three), expected, "{expr}");
    }
    let seconds = cron("* * * * * *", "Europe/Berlin");
    assert_eq!(seconds.next_after(from), Some(from + 1_000));
    assert_eq!(seconds.next_after(from + 1), Some(from + 1_000));
    assert_eq!(seconds.next_after(from + 999), Some(from + 1_000));
}

#[test]
fn even_distances_are_counted_from_their_anchor() {
    let timing = Timing::Every { every_ms: 1_000, anchor_ms: 10_500 };
    assert_eq!(timing.next_after(10_500), Some(11_500));
    assert_eq!(timing.next_after(11_499), Some(11_500));
    assert_eq!(timing.next_after(11_500), Some(12_500));
    // Redis's clock was set back.
    assert_eq!(timing.next_after(5_000), Some(11_500));
    assert_eq!(timing.ticks(12_500, 15_000, CatchUp::All), [12_500, 13_500, 14_500]);
    assert_eq!(timing.ticks(12_500, 15_000, CatchUp::One), [14_500]);
}

#[test]
fn catch_up_says_which_missed_ticks_are_made() {
    let minutes = cron("* * * * *", "UTC");
    let first = at("2027-05-01T10:00:00Z");
    let late = |ms| first + 5 * 60_000 + ms;
    assert_eq!(minutes.ticks(first, first - 1, CatchUp::All), [] as [Millis; 0]);
    assert_eq!(minutes.ticks(first, late(40), CatchUp::One), [late(0)]);
    assert_eq!(minutes.ticks(first, late(40), CatchUp::None), [late(0)]);
    assert_eq!(minutes.ticks(first, late(2_001), CatchUp::None), [] as [Millis; 0]);
    assert_eq!(minutes.ticks(first, late(2_001), CatchUp::One), [late(0)]);
    assert_eq!(minutes.ticks(first, late(2_001), CatchUp::All).len(), 6);
    let year = minutes.ticks(first, first + 365 * 24 * HOUR, CatchUp::All);
    assert_eq!(year.len(), MAX_CATCH_UP);
    assert_eq!(year[0], first + 365 * 24 * HOUR - 999 * 60_000);
    // One tick is that tick, for each.
    for catch_up in [CatchUp::One, CatchUp::None, CatchUp::All] {
        assert_eq!(minutes.ticks(first, first + 7, catch_up), [first]);
    }
}

#[test]
fn a_timing_comes_back_from_its_json() {
    for timing in
        [cron("0 9 * * MON-FRI", "Europe/Berlin"), Timing::Every { every_ms: 1_000, anchor_ms: 7 }]
    {
        let text = serde_json::to_string(&timing).unwrap();
        let stored = serde_json::from_str::<Timing>(&text).unwrap();
        assert_eq!(stored.in_zones(&Zones::bundled()), timing, "{text}");
    }
}

#[test]
fn names_are_those_of_topics_but_none_is_reserved() {
    for good in ["a", "Daily.report_9-x", &"x".repeat(128)] {
        assert!(ScheduleName::parse(good).is_ok(), "{good}");
    }
    for bad in ["", "_a", "-a", ".a", "a..b", "a b", "a/b", "é", ":revision", &"x".repeat(129)] {
        assert_eq!(ScheduleName::parse(bad), Err(InvalidScheduleName), "{bad}");
    }
}

#[test]
fn even_distances_that_no_request_put_there_do_not_overflow() {
    let numbers = [i64::MIN, -1, 0, i64::MAX];
    for (every_ms, anchor_ms) in numbers.iter().flat_map(|a| numbers.map(|b| (a, b))) {
        let stored = format!(r#"{{"every_ms":{every_ms},"anchor_ms":{anchor_ms}}}"#);
        let timing: Timing = serde_json::from_str(&stored).unwrap();
        let timing = timing.in_zones(&Zones::bundled());
        let now = at("2027-01-01T00:00:00Z");
        assert!(timing.next_after(now).is_some_and(|next| next > now), "{stored}");
        assert!(timing.ticks(now - 5_000, now, CatchUp::All).len() <= 6, "{stored}");
    }
}

/// A zone that was at UTC and an hour ahead in turn, and is so much ahead from November 2026 on.
fn by_database(ahead: i8) -> (tempfile::TempDir, Zones) {
    let directory = tempfile::tempdir().unwrap();
    let changes = ["2025-03-01", "2025-11-01", "2026-03-01", "2026-11-01"];
    let second = |day: &str| at(&format!("{day}T00:00:00Z")) / 1_000;
    let changes: Vec<_> =
        changes.iter().zip([1, 0, 1, ahead]).map(|(day, h)| (second(day), h)).collect();
    std::fs::write(directory.path().join("Here"), zone_file(&changes)).unwrap();
    let zones = Zones::open(Some(directory.path())).unwrap();
    (directory, zones)
}

#[test]
fn a_tick_that_another_database_has_put_elsewhere_is_moved_to_its_time_of_day() {
    let now = at("2026-12-01T00:00:00Z");
    for (old, new) in [(0, 1), (1, 0)] {
        let ((_one, old_zones), (_other, new_zones)) = (by_database(old), by_database(new));
        let earlier = Millis::from(new - old) * HOUR;
        for (expr, shifted) in [
            ("0 9 * * *", earlier),
            ("30 9 * * MON-FRI", earlier),
            ("30 */2 * * *", earlier),
            ("0 9 1 1 *", earlier),
            // The same instants by either.
            ("0 * * * *", 0),
            ("*/5 * * * *", 0),
        ] {
            let by = |zones: &Zones| {
                Timing::Cron(CronTiming::parse(expr, zones.get("here").unwrap()).unwrap())
            };
            let (before, after) = (by(&old_zones), by(&new_zones));
            let kept = before.next_after(now).unwrap();
            assert_eq!(after.revised(kept, now, false), Some(kept - shifted), "{expr} {old} {new}");
            // Where it belongs it stays, due or not.
            for now in [now, kept - shifted, kept + HOUR] {
                assert_eq!(
                    after.revised(kept - shifted, now, false),
                    Some(kept - shifted),
                    "{expr}"
                );
            }
        }
    }
}

#[test]
fn a_tick_that_another_database_did_not_know_is_found_once() {
    let (_directory, zones) = by_database(1);
    let timing = |expr| Timing::Cron(CronTiming::parse(expr, zones.get("Here").unwrap()).unwrap());
    // 9 o'clock of the older one is 10 o'clock, which matches too.
    let (now, kept) = (at("2026-12-01T00:00:00Z"), at("2026-12-01T09:00:00Z"));
    let hours = timing("0 9-17 * * *");
    assert_eq!(hours.revised(kept, now, true), Some(kept - HOUR));
    assert_eq!(hours.revised(kept, now, false), Some(kept));
    // The tick of today was made an hour early.
    let (_directory, zones) = by_database(0);
    let daily = Timing::Cron(CronTiming::parse("0 9 * * *", zones.get("Here").unwrap()).unwrap());
    let (now, kept) = (at("2026-12-01T08:30:00Z"), at("2026-12-02T08:00:00Z"));
    assert_eq!(daily.revised(kept, now, true), Some(kept + HOUR));
    assert_eq!(daily.revised(kept + HOUR, now, false), Some(kept + HOUR));
}

#[test]
fn a_tick_that_is_kept_for_a_clock_that_was_ahead_is_the_next_of_the_present_one() {
    let now = at("2027-05-01T10:00:30Z");
    let minutes = cron("* * * * *", "Europe/Berlin");
    assert_eq!(
        minutes.revised(at("2027-05-01T11:01:00Z"), now, true),
        Some(at("2027-05-01T10:01:00Z"))
    );
    let even = Timing::Every { every_ms: 60_000, anchor_ms: now - 1 };
    assert_eq!(even.revised(now + HOUR, now, false), Some(now + 59_999));
    // One that is due is made.
    assert_eq!(even.revised(now - 1, now, true), Some(now - 1));
    assert_eq!(minutes.revised(now - 30_000, now, true), Some(now - 30_000));
}

#[test]
fn what_cannot_be_read_any_more_is_kept_and_does_not_tick() {
    for (cron, timezone, named) in
        [("JAN 9 * * *", "UTC", "`JAN`"), ("0 9 * * *", "Mars/Olympus", "Mars/Olympus")]
    {
        let stored = serde_json::json!({"cron": cron, "timezone": timezone});
        let stored: Timing = serde_json::from_value(stored).unwrap();
        let timing = stored.in_zones(&Zones::bundled());
        assert!(!timing.can_tick());
        assert_eq!(timing.next_after(0), None);
        assert_eq!(timing.revised(5, 7, true), None);
        let Timing::Cron(read) = &timing else { panic!("{timing:?}") };
        assert_eq!((read.expr(), read.timezone()), (cron, timezone));
        assert!(read.warning().unwrap().contains(named));
    }
}
