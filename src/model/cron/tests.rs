//! The grammar, days against tables and against a reader that counts, and what changes of a zone's offset do.

mod changes;

use super::{
    search::{date_of, parts},
    *,
};
use crate::{Zones, format_instant, parse_instant};
use jiff::{
    Timestamp,
    tz::{TimeZone, TimeZoneDatabase},
};

fn at(text: &str) -> i64 {
    parse_instant(text).unwrap() / 1_000
}

fn zone(name: &str) -> TimeZone {
    Zones::bundled().get(name).unwrap()
}

/// So many ticks after `from`, as far as the minutes.
fn ticks(expr: &str, zone: &TimeZone, from: &str, count: usize) -> Vec<String> {
    let cron = Cron::parse(expr).unwrap();
    let ticks = std::iter::successors(cron.next(zone, at(from)), |at| cron.next(zone, *at));
    ticks.take(count).map(|at| format_instant(at * 1_000)[..16].to_owned()).collect()
}

#[test]
fn what_is_no_expression_is_refused_by_the_field_and_the_item() {
    for bad in ["", "*", "* * * *", "0 0 0 1 1 * 2030", "@reboot", "@every 5m", "* * * * * * *"] {
        assert_eq!(Cron::parse(bad), Err(InvalidCron::Fields), "{bad}");
    }
    for (bad, field, item) in [
        ("60 * * * *", "minute", "`60`"),
        ("* 24 * * *", "hour", "`24`"),
        ("* * 0 * *", "day of the month", "`0`"),
        ("* * 32 * *", "day of the month", "`32`"),
        ("* * * 13 *", "month", "`13`"),
        ("* * * 0 *", "month", "`0`"),
        ("* * * * 8", "day of the week", "`8`"),
        ("60 * * * * *", "second", "`60`"),
        ("0 0 25 * * *", "hour", "`25`"),
        ("a * * * *", "minute", "`a`"),
        ("é * * * *", "minute", "`é`"),
        ("-1 * * * *", "minute", "empty"),
        ("1- * * * *", "minute", "empty"),
        ("+1 * * * *", "minute", "`+1`"),
        ("1.5 * * * *", "minute", "`1.5`"),
        ("1,,2 * * * *", "minute", "empty"),
        ("1, * * * *", "minute", "empty"),
        (", * * * *", "minute", "empty"),
        ("0 , * * * *", "minute", "empty"),
        ("* * , * *", "day of the month", "empty"),
        ("* * * ,1 *", "month", "empty"),
        ("* * * * MON,", "day of the week", "empty"),
        ("* * * * +", "day of the week", "empty"),
        ("*/0 * * * *", "minute", "`*/0`"),
        ("*/60 * * * *", "minute", "`*/60`"),
        ("*/90 * * * *", "minute", "`*/90`"),
        ("0 */24 * * *", "hour", "`*/24`"),
        ("5/ * * * *", "minute", "`5/`"),
        ("5/a * * * *", "minute", "`5/a`"),
        ("1-5/2/2 * * * *", "minute", "`1-5/2/2`"),
        ("1-2-3 * * * *", "minute", "`2-3`"),
        ("*-5 * * * *", "minute", "`*`"),
        ("** * * * *", "minute", "`**`"),
        ("? * * * *", "minute", "`?`"),
        ("0 ? * * *", "hour", "`?`"),
        ("0 9 * ? *", "month", "`?`"),
        ("0 9 ?/2 * *", "day of the month", "`?`"),
        // What belongs to another field.
        ("JAN 9 * * *", "minute", "`JAN`"),
        ("0 MON * * *", "hour", "`MON`"),
        ("0 9 MON * *", "day of the month", "`MON`"),
        ("0 9 2MON * *", "day of the month", "`2MON`"),
        ("0 9 * FRI *", "month", "`FRI`"),
        ("0 9 * * FEB", "day of the week", "`FEB`"),
        ("0 9 * FEB,FOO MON", "month", "`FOO`"),
        ("0 9 * JANU *", "month", "`JANU`"),
        ("L * * * *", "minute", "`L`"),
        ("0 9 * * L", "day of the week", "`L`"),
        ("0 9 * * MON,L", "day of the week", "`L`"),
        ("0 9 * * LW", "day of the week", "`LW`"),
        ("0 9 * L *", "month", "`L`"),
        ("0 9 15# * *", "day of the month", "`15#`"),
        ("0 9 W * *", "day of the month", "empty"),
        ("0 9 32W * *", "day of the month", "`32`"),
        ("0 9 1-5W * *", "day of the month", "`1-5`"),
        ("0 9 L-3 * *", "day of the month", "`L`"),
        ("0 9 * * MON#6", "day of the week", "`MON#6`"),
        ("0 9 * * MON#0", "day of the week", "`MON#0`"),
        ("0 9 * * #2", "day of the week", "empty"),
        ("0 9 * * 8#2", "day of the week", "`8`"),
        ("0 9 * * 5W", "day of the week", "`5W`"),
    ] {
        let said = Cron::parse(bad).map_err(|error| error.to_string()).unwrap_err();
        assert!(said.starts_with(&format!("the {field} `")), "{bad}: {said}");
        assert!(said.contains(item), "{bad}: {said}");
    }
    for never in
        ["0 0 30 2 *", "0 0 31 2 ?", "59 59 23 31 4,6,9,11 *", "0 0 8 * +MON#1", "* * 31W 2 *"]
    {
        assert_eq!(Cron::parse(never), Err(InvalidCron::Never), "{never}");
    }
}

#[test]
fn what_means_the_same_is_the_same() {
    for (one, other) in [
        ("5/15 * * * *", "5,20,35,50 * * * *"),
        ("0/5 * * * *", "*/5 * * * *"),
        ("0 22-2 * * *", "0 22,23,0,1,2 * * *"),
        ("0 22-2/2 * * *", "0 22,0,2 * * *"),
        ("50-10/10 * * * *", "50,0,10 * * * *"),
        ("0 9 28-2 * *", "0 9 28,29,30,31,1,2 * *"),
        ("0 9 * NOV-FEB *", "0 9 * 11,12,1,2 *"),
        ("0 9 * * FRI-MON", "0 9 * * 5,6,0,1"),
        ("0 9 * * 5-1", "0 9 * * 5,6,0,1"),
        ("0 9 * * 6-7", "0 9 * * 6,0"),
        ("0 9 * * 7-2", "0 9 * * 0-2"),
        ("0 9 * * 7", "0 9 * * 0"),
        ("0 9 * * SAT-SUN", "0 9 * * 6,0"),
        ("0 9 * * monday-Friday", "0 9 * * 1-5"),
        ("0 9 * september WEDNESDAY", "0 9 * 9 3"),
        ("0 9 * * MON-FRI/2", "0 9 * * 1,3,5"),
        ("0 9 * * 7#2", "0 9 * * SUN#2"),
        ("0 9 * * 5L", "0 9 * * friday#L"),
        ("0 9 ? * MON", "0 9 * * MON"),
        ("0 9 15 * ?", "0 9 15 * *"),
        ("0 9 ? * ?", "0 9 * * *"),
        ("00 09 * * *", "0 9 * * *"),
        (" 0\t9  * * * ", "0 9 * * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@Annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@MIDNIGHT", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
        ("* * * * *", "0 * * * * *"),
    ] {
        let read = |text: &str| {
            let mut cron = Cron::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            (cron.elapsed, cron.like_quartz) = (false, false);
            cron
        };
        assert_eq!(read(one), read(other), "{one} {other}");
    }
}

#[test]
fn a_weekday_as_quartz_counts_them_is_warned_of() {
    for expr in ["0 0 9 ? * 2-6", "0 9 ? * 1", "0 9 ? JAN MON,3", "0 9 ? * 6#3", "0 9 ? * 6L"] {
        assert!(Cron::parse(expr).unwrap().warning().unwrap().contains("Sunday"), "{expr}");
    }
    for expr in ["0 9 ? * MON-FRI", "0 9 * * 2-6", "0 9 1 * ?", "0 9 ? * FRI#2", "0 9 ? * */2"] {
        assert_eq!(Cron::parse(expr).unwrap().warning(), None, "{expr}");
    }
}

#[test]
fn days_are_those_of_the_calendar() {
    // 2027 begins with a Friday. 30 and 31 January are a weekend, and 28 February is a Sunday.
    for (expr, expected) in [
        ("0 0 L * *", ["01-31", "02-28", "03-31", "04-30"]),
        ("0 0 LW * *", ["01-29", "02-26", "03-31", "04-30"]),
        ("0 0 1W * *", ["01-01", "02-01", "03-01", "04-01"]),
        ("0 0 15W * *", ["01-15", "02-15", "03-15", "04-15"]),
        ("0 0 30W * *", ["01-29", "03-30", "04-30", "05-31"]),
        ("0 0 31W * *", ["01-29", "03-31", "05-31", "07-30"]),
        ("0 0 1W 5,8 *", ["05-03", "08-02", "05-01", "08-01"]),
        ("0 0 L,1 * *", ["01-01", "01-31", "02-01", "02-28"]),
        ("0 0 * * FRI#2", ["01-08", "02-12", "03-12", "04-09"]),
        ("0 0 * * MON#5", ["03-29", "05-31", "08-30", "11-29"]),
        ("0 0 * * SUNL", ["01-31", "02-28", "03-28", "04-25"]),
        ("0 0 * * 1#1,5#L", ["01-04", "01-29", "02-01", "02-26"]),
        // Either day, unless one begins with a star or both are asked for.
        ("0 0 13 * FRI", ["01-01", "01-08", "01-13", "01-15"]),
        ("0 0 13 * +FRI", ["08-13", "10-13", "04-13", "07-13"]),
        ("0 0 */10 * FRI", ["01-01", "05-21", "06-11", "10-01"]),
        ("0 0 L * +SUN", ["01-31", "02-28", "10-31", "04-30"]),
        ("0 0 29 2 *", ["02-29", "02-29", "02-29", "02-29"]),
    ] {
        let found = ticks(expr, &TimeZone::UTC, "2026-12-31T23:59:59Z", 4);
        let days: Vec<_> = found.iter().map(|tick| &tick[5..10]).collect();
        assert_eq!(days, expected, "{expr}");
    }
    assert_eq!(
        ticks("0 0 29 2 +SUN", &TimeZone::UTC, "2088-03-01T00:00:00Z", 1),
        ["2128-02-29T00:00"]
    );
}

/// A stand-in for a calendar, field by field and without sets.
fn matches_plainly(cron: &Cron, local: i64) -> bool {
    let date = date_of(local).unwrap();
    let (hour, minute, second) = parts(local.rem_euclid(DAY));
    cron.days_of(date) & (1 << date.day()) != 0
        && cron.hours & (1 << hour) != 0
        && cron.minutes & (1 << minute) != 0
        && cron.seconds & (1 << second) != 0
}

#[test]
fn every_tick_of_a_year_is_found_forward_and_back() {
    let begin = at("2027-01-01T00:00:00Z");
    let zone = TimeZone::UTC;
    for (expr, count) in [
        ("0 9 * * MON-FRI", 261),
        ("*/7 * * * *", 78_840),
        ("0 0 1 * *", 12),
        ("0 0 1 * MON", 61),
        ("15 10 L,LW * *", 16),
        ("0 0 12 1/5 * ?", 79),
        ("0 22-2 * * FRI-MON", 1045),
    ] {
        let cron = Cron::parse(expr).unwrap();
        let plain: Vec<_> = (begin..begin + 365 * DAY)
            .step_by(60)
            .filter(|minute| matches_plainly(&cron, *minute))
            .collect();
        let ahead = std::iter::successors(cron.next(&zone, begin - 1), |at| cron.next(&zone, *at));
        let ahead: Vec<_> = ahead.take_while(|at| *at < begin + 365 * DAY).collect();
        assert!(ahead == plain, "{expr}");
        let back = cron.previous(&zone, begin + 365 * DAY - 1);
        let back = std::iter::successors(back, |at| cron.previous(&zone, at - 1));
        let mut back: Vec<_> = back.take_while(|at| *at >= begin).collect();
        back.reverse();
        assert!(back == plain, "{expr}");
        assert_eq!(plain.len(), count, "{expr}");
    }
}

#[test]
fn what_a_gap_at_midnight_skips_comes_right_after_it() {
    for (name, expr, from, tick) in [
        ("America/Nuuk", "30 23 * * SAT", "2027-03-27T12:00:00Z", "2027-03-28T01:00"),
        ("America/Nuuk", "30 23 27 3 *", "2027-03-27T12:00:00Z", "2027-03-28T01:00"),
        ("America/Nuuk", "30 23 * * *", "2027-03-27T12:00:00Z", "2027-03-28T01:00"),
        ("America/Scoresbysund", "15 23 * * 6", "2027-03-27T12:00:00Z", "2027-03-28T01:00"),
        ("Europe/Berlin", "30 2,14 * * *", "2027-03-27T23:00:00Z", "2027-03-28T01:00"),
        ("Europe/Berlin", "0-30/15 2 * * *", "2027-03-27T23:00:00Z", "2027-03-28T01:00"),
        // Follows elapsed time: the next is on the day after.
        ("Europe/Berlin", "*/15 2 * * *", "2027-03-27T23:00:00Z", "2027-03-29T00:00"),
    ] {
        assert_eq!(ticks(expr, &zone(name), from, 1), [tick], "{name} {expr}");
    }
}

#[test]
fn an_hour_that_occurs_twice_counts_once_unless_the_ticks_follow_elapsed_time() {
    let zone = zone("Europe/Berlin");
    for (expr, expected) in [
        ("30 2 * * *", &["10-31T00:30", "11-01T01:30"][..]),
        ("30 2,14 * * *", &["10-31T00:30", "10-31T13:30"]),
        ("30 1-3 * * *", &["10-30T23:30", "10-31T00:30", "10-31T02:30"]),
        ("*/30 2 * * *", &["10-31T00:00", "10-31T00:30", "10-31T01:00", "10-31T01:30"]),
        ("30 * * * *", &["10-30T22:30", "10-30T23:30", "10-31T00:30", "10-31T01:30"]),
    ] {
        let found = ticks(expr, &zone, "2027-10-30T22:00:00Z", expected.len());
        let found: Vec<_> = found.iter().map(|tick| &tick[5..]).collect();
        assert_eq!(found, expected, "{expr}");
    }
}
