//! Ticks around the changes of summer time, what is made up for, and what is no expression.

use super::*;
use crate::model::{format_instant, parse_instant};
use std::time::{Duration, Instant};

const HOUR: Millis = 3_600_000;
/// The days of both changes of 2027.
const BERLIN: [&str; 2] = ["2027-03-28T00:00:00+01:00", "2027-10-31T00:00:00+02:00"];
const NEW_YORK: [&str; 2] = ["2027-03-14T00:00:00-05:00", "2027-11-07T00:00:00-04:00"];

fn at(text: &str) -> Millis {
    parse_instant(text).unwrap()
}

fn cron(expr: &str, timezone: &str) -> Timing {
    let timezone = parse_timezone(timezone).unwrap();
    Timing::Cron(CronTiming::parse(expr, timezone, at("2027-01-01T00:00:00Z")).unwrap())
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
fn what_is_no_expression_is_refused_and_so_is_what_never_comes() {
    let parse = |expr: &str| CronTiming::parse(expr, Tz::UTC, at("2027-01-01T00:00:00Z")).map(drop);
    for bad in ["", "*", "* * * *", "0 0 0 1 1 * 2030", "@daily", "@hourly * * * *", "* * * * * @"]
    {
        assert_eq!(parse(bad), Err(InvalidCron::Fields), "{bad}");
    }
    for (bad, field, wrong) in [
        ("60 * * * *", "minute", "60"),
        ("* 24 * * *", "hour", "24"),
        ("* * 0 * *", "day of the month", "0"),
        ("* * * 13 *", "month", "13"),
        ("* * * * 8", "day of the week", "8"),
        ("60 * * * * *", "second", "60"),
        ("0 0 25 * * *", "hour", "25"),
        ("a * * * *", "minute", "a"),
        ("*/0 * * * *", "minute", "*/0"),
        ("1- * * * *", "minute", "1-"),
        ("5-1 * * * *", "minute", "5-1"),
        ("0 9 * FEB,FOO MON", "month", "FEB,FOO"),
        ("* * * * MON#6", "day of the week", "MON#6"),
        ("é * * * *", "minute", "é"),
        ("-1 * * * *", "minute", "-1"),
        ("1 24 0 * *", "hour", "24"),
    ] {
        let told = parse(bad).map_err(|error| error.to_string()).unwrap_err();
        assert!(
            told.starts_with(&format!("the {field} `{wrong}` is not valid: ")),
            "{bad}: {told}"
        );
    }
    // In an optimized build each takes some tens of milliseconds.
    for never in
        ["0 0 30 2 *", "0 0 31 2 *", "59 59 23 31 4,6,9,11 *", "* * * 31 2 *", "0 0 31 2 +1"]
    {
        let start = Instant::now();
        assert_eq!(parse(never), Err(InvalidCron::Never), "{never}");
        assert!(start.elapsed() < Duration::from_secs(3), "{never}: {:?}", start.elapsed());
    }
}

#[test]
fn no_text_brings_the_reader_down() {
    let alphabet: Vec<char> = "0123456789*/,-#LW?+ MONFRIJANDEC\t\u{df}\u{130}".chars().collect();
    let mut seed = 7u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    for _ in 0..5_000 {
        let part = |random: &mut dyn FnMut(usize) -> usize| -> String {
            (0..1 + random(5)).map(|_| alphabet[random(alphabet.len())]).collect()
        };
        let fields = 5 + random(2);
        let text: Vec<String> = (0..fields).map(|_| part(&mut random)).collect();
        let _ = CronTiming::read(&text.join(" "), Tz::Europe__Berlin);
    }
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
        assert_eq!(serde_json::from_str::<Timing>(&text).unwrap(), timing, "{text}");
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
        let now = at("2027-01-01T00:00:00Z");
        assert!(timing.next_after(now).is_some_and(|next| next > now), "{stored}");
        assert!(timing.ticks(now - 5_000, now, CatchUp::All).len() <= 6, "{stored}");
    }
}
