//! Instants and schedules: what is read is the instant that was written, and a schedule's next tick is later and found
//! soon.

use crate::{cases, now, number, soon, spoilt_text, text, within};
use dueq_model::*;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use proptest::{collection::vec, prelude::*, sample::select};
use std::time::Duration;

/// Looking for a tick takes less.
const NEXT: Duration = Duration::from_millis(10);

/// A field of a cron expression, right or wrong.
fn field() -> impl Strategy<Value = String> {
    let one = prop_oneof![
        Just("*".to_owned()),
        (0..70_u8).prop_map(|n| n.to_string()),
        (0..60_u8, 0..60_u8).prop_map(|(from, to)| format!("{from}-{to}")),
        (0..60_u8, 0..99_u8).prop_map(|(from, step)| format!("{from}/{step}")),
        (0..99_u8).prop_map(|step| format!("*/{step}")),
        select(vec![
            "L", "LW", "15W", "MON", "MON-FRI", "FRI#2", "SUN#L", "5#5", "JAN", "FEB", "29", "30",
            "31", "?", "7", "+1"
        ])
        .prop_map(str::to_owned),
    ];
    vec(one, 1..4).prop_map(|all| all.join(","))
}

fn expression() -> impl Strategy<Value = String> {
    prop_oneof![
        vec(field(), 5..7).prop_map(|fields| fields.join(" ")),
        // Rare ones: a day that some months have, and a weekday of it.
        (0..32_u8, 0..13_u8, select(vec!["*", "MON", "SUN#5", "L", "+MON"]))
            .prop_map(|(day, month, weekday)| format!("0 0 {day} {month} {weekday}")),
        spoilt_text(select(vec![
            "0 9 * * MON-FRI",
            "*/5 0 0 1 1 *",
            "30 2 29 2 *",
            "0 0 L * FRI#2"
        ])),
    ]
}

fn timezone() -> impl Strategy<Value = String> {
    let names: Vec<_> =
        TimeZoneDatabase::bundled().available().map(|name| name.to_string()).collect();
    select(names)
}

fn zone(name: &str) -> TimeZone {
    Zones::bundled().get(name).unwrap()
}

fn stored(text: &str) -> Option<Timing> {
    Some(serde_json::from_str::<Timing>(text).ok()?.in_zones(&Zones::bundled()))
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn an_instant_comes_back_from_its_text(millis in -62_135_596_800_000..=LAST) {
        prop_assert_eq!(parse_instant(&format_instant(millis)), Ok(millis));
    }

    #[test]
    fn any_number_is_shown_as_some_instant(millis in number()) {
        prop_assert!(!format_instant(millis).is_empty());
    }

    #[test]
    fn a_spoilt_instant_is_refused_or_is_one_of_the_contract(
        text in prop_oneof![
            text(),
            spoilt_text(now().prop_map(format_instant)),
            ("[0-9]{4}-[0-1][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9](\\.[0-9]{0,12})?([+-][0-2][0-9]:[0-5][0-9]|Z)"),
        ],
    ) {
        if let Ok(millis) = parse_instant(&text) {
            prop_assert!((-LAST..=LAST).contains(&millis));
        }
    }

    #[test]
    fn the_next_tick_at_even_distances_is_the_first_after(every_ms in number(), anchor_ms in number(), at in now()) {
        let stored = format!(r#"{{"every_ms":{every_ms},"anchor_ms":{anchor_ms}}}"#);
        let Some(timing) = super::times::stored(&stored) else { return Ok(()) };
        if let Some(next) = timing.next_after(at) {
            prop_assert!(next > at, "{next} after {at}");
        }
        for catch_up in [CatchUp::One, CatchUp::None, CatchUp::All] {
            let ticks = timing.ticks(at - 3_000_000, at, catch_up);
            prop_assert!(ticks.len() <= MAX_CATCH_UP && ticks.is_sorted());
        }
        let text = serde_json::to_string(&timing).unwrap();
        prop_assert_eq!(super::times::stored(&text), Some(timing));
    }

    #[test]
    fn damaged_timings_are_refused_or_tick_later(
        stored in spoilt_text(Just(r#"{"cron":"0 9 * * MON-FRI","timezone":"Europe/Berlin"}"#)),
        at in number(),
    ) {
        if let Some(timing) = super::times::stored(&stored) {
            if let Some(next) = within(NEXT, || timing.next_after(at)) {
                prop_assert!(next > at, "{next} after {at}");
            }
            timing.ticks(at, at.saturating_add(1), CatchUp::All);
        }
    }

    #[test]
    fn a_time_zone_is_read_by_its_name_in_any_case(
        name in prop_oneof![text(), timezone(), spoilt_text(timezone())],
    ) {
        if let Ok(zone) = soon(|| Zones::bundled().get(&name)) {
            let known = zone.iana_name().unwrap().to_owned();
            prop_assert!(known.eq_ignore_ascii_case(&name) || known == "UTC", "{name}: {known}");
            prop_assert_eq!(Zones::bundled().get(&name.to_ascii_uppercase()), Ok(zone));
        }
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn any_expression_is_read_soon_and_its_ticks_are_found_soon(
        expression in expression(),
        timezone in timezone(),
        now in now(),
    ) {
        let zone = zone(&timezone);
        let Ok(cron) = soon(|| CronTiming::parse(&expression, zone.clone())) else {
            return Ok(());
        };
        let timing = Timing::Cron(cron);
        let (mut at, mut ticks) = (now, Vec::new());
        for _ in 0..3 {
            let Some(next) = within(NEXT, || timing.next_after(at)) else { break };
            prop_assert!(next > at, "{next} after {at}");
            at = next;
            ticks.push(next);
        }
        // Whoever comes late finds the same ticks, the latest of them at least.
        if let Some(first) = ticks.first() {
            let all = timing.ticks(*first, at, CatchUp::All);
            prop_assert_eq!(&all, &ticks, "{} {}", expression, timezone);
            prop_assert_eq!(timing.revised(*first, now, true), Some(*first));
        }
        let text = serde_json::to_string(&timing).unwrap();
        prop_assert_eq!(stored(&text), Some(timing));
    }
}
