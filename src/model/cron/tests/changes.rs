//! Every change of every zone's offset, against a search that goes through every instant.

use super::*;
use std::collections::HashSet;

/// The ticks from `from` to before `to`, by going through every instant of this step: which civil times match, which of
/// them come a second time, and which are skipped.
fn plainly(cron: &Cron, zone: &TimeZone, from: i64, to: i64, step: i64) -> Vec<i64> {
    let local = |at: i64| {
        let instant = Timestamp::from_second(at).unwrap();
        at + i64::from(zone.to_offset(instant).seconds())
    };
    let mut found = Vec::new();
    // What has been on the clock before; a day is more than any change.
    let mut reached = (from - 2 * DAY..from).step_by(step as usize).map(local).max().unwrap();
    for at in (from..to).step_by(step as usize) {
        let now = local(at);
        if cron.elapsed {
            found.extend(matches_plainly(cron, now).then_some(at));
            continue;
        }
        let skipped = (reached + step..now).step_by(step as usize);
        if now > reached {
            let is_tick = skipped.chain([now]).any(|local| matches_plainly(cron, local));
            found.extend(is_tick.then_some(at));
        }
        reached = reached.max(now);
    }
    found
}

const EXPRESSIONS: [&str; 14] = [
    "30 2 * * *",
    "30 23 * * SAT",
    "0,30 0 * * *",
    "15 1,2,3 * * *",
    "*/20 1-3 * * *",
    "45 */2 * * *",
    "0 * * * *",
    "0 0 * * *",
    "10 0-4,22-23 * * SUN",
    "5/10 2 * * *",
    "55 23 L * *",
    "0 12 1 1 *",
    "20-40/5 1-2 * 3,10 *",
    "0 3 ? * SUN#L,SUN#1,SUN#2",
];

/// Compares the search with the plain one around every change of these zones' offsets.
fn compare(
    names: impl Iterator<Item = String>,
    expressions: &[&str],
    years: std::ops::Range<i16>,
) -> usize {
    let crons: Vec<_> = expressions.iter().map(|expr| Cron::parse(expr).unwrap()).collect();
    let instant = |year: i16| at(&format!("{year}-01-01T00:00:00Z"));
    let mut changes = 0;
    let mut seen = HashSet::new();
    for name in names {
        let zone = zone(&name);
        let first = Timestamp::from_second(instant(years.start)).unwrap();
        let last = instant(years.end);
        let at = zone.following(first).map(|change| change.timestamp().as_second());
        let at: Vec<_> = at.take_while(|at| *at < last).collect();
        let offsets: Vec<_> = at
            .iter()
            .flat_map(|at| [at - 1, *at])
            .map(|at| zone.to_offset(Timestamp::from_second(at).unwrap()).seconds())
            .collect();
        // Aliases.
        if !seen.insert((at.clone(), offsets)) {
            continue;
        }
        for change in at {
            changes += 1;
            let (from, to) = (change - 6 * 3_600, change + 30 * 3_600);
            for (cron, expr) in crons.iter().zip(expressions) {
                let plain = plainly(cron, &zone, from, to, 300);
                let ahead =
                    std::iter::successors(cron.next(&zone, from - 1), |at| cron.next(&zone, *at));
                let ahead: Vec<_> = ahead.take_while(|at| *at < to).collect();
                assert_eq!(
                    ahead,
                    plain,
                    "{expr} in {name} around {}",
                    format_instant(change * 1_000)
                );
                let back = cron.previous(&zone, to - 1);
                let back = std::iter::successors(back, |at| cron.previous(&zone, at - 1));
                let mut back: Vec<_> = back.take_while(|at| *at >= from).collect();
                back.reverse();
                assert_eq!(
                    back,
                    plain,
                    "{expr} in {name} around {}",
                    format_instant(change * 1_000)
                );
            }
        }
    }
    changes
}

#[test]
fn ticks_around_changes_of_the_offset_are_those_that_are_counted() {
    let names = [
        "America/Nuuk",
        "Europe/Berlin",
        "Australia/Lord_Howe",
        "Africa/Casablanca",
        "America/Scoresbysund",
    ];
    let changes = compare(names.map(str::to_owned).into_iter(), &EXPRESSIONS, 2026..2028);
    assert!(changes >= 14, "{changes}");
}

/// All zones and all changes from 2026 to 2036: a minute without optimization.
#[test]
#[ignore = "takes a minute; run it after changes of the search"]
fn ticks_around_all_changes_of_all_zones_are_those_that_are_counted() {
    let names = TimeZoneDatabase::bundled();
    let names = names.available().map(|name| name.to_string()).collect::<Vec<_>>();
    let changes = compare(names.into_iter(), &EXPRESSIONS, 2026..2037);
    assert!(changes > 500, "{changes}");
}
