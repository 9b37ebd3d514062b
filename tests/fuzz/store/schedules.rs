//! Stored schedules, whole and damaged: read as they were put, or left out with an error.

use super::*;
use crate::{Due, KeyUntil, MessageKey, MessageOptions, OnDuplicate};
use deadpool_redis::redis::Value;
use dueq_fuzz::{backoff, body, cases, now, number, spoilt, spoilt_text};
use dueq_model::{Timing, Zones};
use proptest::{collection::vec, prelude::*, sample::select};
use std::sync::LazyLock;

static ZONES: LazyLock<Zones> = LazyLock::new(Zones::bundled);

fn spec() -> impl Strategy<Value = ScheduleSpec> {
    let cron = r#"{"cron":"0 9 * * MON-FRI","timezone":"Europe/Berlin"}"#.to_owned();
    let every = (1_000..315_360_000_000_i64, now())
        .prop_map(|(every, anchor)| format!(r#"{{"every_ms":{every},"anchor_ms":{anchor}}}"#));
    let timing = prop_oneof![Just(cron), every]
        .prop_map(|stored| serde_json::from_str::<Timing>(&stored).unwrap().in_zones(&ZONES));
    let key = prop::option::of("[ -~]{1,9}").prop_map(|name| {
        let (on_duplicate, until) = (OnDuplicate::Reject, KeyUntil::Granted);
        name.map(|name| MessageKey { name, on_duplicate, until, max_wait_ms: None })
    });
    let options = (any::<u8>(), prop::option::of(1..=1_000_u16), prop::option::of(backoff()), key);
    let catch_up = select(vec![CatchUp::One, CatchUp::None, CatchUp::All]);
    (timing, body(), options, catch_up).prop_map(|(timing, body, options, catch_up)| {
        let (priority, max_attempts, backoff, key) = options;
        let options = MessageOptions { priority, max_attempts, backoff, key, ..Default::default() };
        let message = NewMessage { body, due: Due::After(0), options };
        ScheduleSpec { timing, topic: TopicName::callbacks(), message, catch_up, maker: None }
    })
}

fn name() -> ScheduleName {
    ScheduleName::parse("nightly").unwrap()
}

fn definition(spec: &ScheduleSpec) -> Vec<u8> {
    serde_json::to_vec(&Definition::of(spec, None, 5)).unwrap()
}

fn state() -> impl Strategy<Value = String> {
    let words = (vec(number(), 5), select(vec!["-", "019ab000-0000-8000-8000-000000000000", ""]));
    (words, "[ -~]{0,9}").prop_map(|((numbers, id), error)| {
        let numbers: Vec<_> = numbers.iter().map(ToString::to_string).collect();
        format!("{} {id} {error}", numbers.join(" "))
    })
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_schedule_comes_back_as_it_was_put(spec in spec(), state in state()) {
        let read = stored::read(name(), &state, &definition(&spec), &ZONES).unwrap();
        prop_assert_eq!(&read.spec.timing, &spec.timing);
        prop_assert_eq!(&read.spec.topic, &spec.topic);
        prop_assert_eq!(&read.spec.message.body, &spec.message.body);
        prop_assert_eq!(&read.spec.message.options, &spec.message.options);
        prop_assert_eq!(read.spec.catch_up, spec.catch_up);
        prop_assert_eq!(read.created_at, 5);
    }

    #[test]
    fn whatever_its_state_says_its_ticks_are_bounded(spec in spec(), state in state()) {
        let read = stored::read(name(), &state, &definition(&spec), &ZONES).unwrap();
        let ticks = read.ticks();
        prop_assert!(ticks.len() <= dueq_model::MAX_CATCH_UP);
        let left_out = read.left_out(&ticks);
        prop_assert!(left_out.len() <= dueq_model::MAX_CATCH_UP);
        prop_assert!(left_out.last() < ticks.first() || ticks.is_empty());
        for tick in ticks.into_iter().take(2) {
            prop_assert!(read.message_of(tick).options.idempotency.is_some());
        }
        prop_assert!(read.claimed_ticks().len() <= dueq_model::MAX_CATCH_UP);
        read.next_after_claim();
    }

    #[test]
    fn what_is_claimed_is_released_before_and_after_it_is_noted(spec in spec(), now in now()) {
        let first = spec.timing.next_after(now).unwrap();
        let state = |next: i64| format!("1 0 {next} {first} 0 - ");
        let claimed = stored::read(name(), &state(first), &definition(&spec), &ZONES).unwrap();
        prop_assert_eq!(claimed.ticks(), [first]);
        prop_assert_eq!(claimed.claimed_ticks(), [first]);
        let next = claimed.next_after_claim().unwrap();
        let noted = stored::read(name(), &state(next), &definition(&spec), &ZONES).unwrap();
        prop_assert!(noted.ticks().is_empty());
        prop_assert!(noted.claimed_ticks().contains(&first));
        prop_assert_eq!(noted.next_after_claim(), Some(next));
    }

    #[test]
    fn whoever_was_stopped_gives_up_before_its_ticks_are_forgotten(spec in spec(), now in now()) {
        let mut claimed = stored::read(name(), "1 0 5 5 0 - ", &definition(&spec), &ZONES).unwrap();
        claimed.held_at = now;
        prop_assert!(!claimed.is_stale(now + 60_000));
        prop_assert!(claimed.is_stale(now + 599_000));
    }

    #[test]
    fn a_damaged_schedule_is_an_error_or_is_one(
        definition in spoilt(spec().prop_map(|spec| definition(&spec))),
        state in spoilt_text(state()),
    ) {
        if let Ok(read) = stored::read(name(), &state, &definition, &ZONES) {
            let again = serde_json::to_vec(&Definition::of(&read.spec, Some(&read), 6));
            prop_assert!(stored::read(name(), &state, &again.unwrap(), &ZONES).is_ok());
            prop_assert!(read.ticks().len() <= dueq_model::MAX_CATCH_UP);
        }
    }

    #[test]
    fn one_that_cannot_be_read_does_not_hold_up_the_others(
        good in spec(),
        bad in spoilt(Just(r#"{"timing":{"every_ms":1000},"topic":"a"}"#)),
        name in spoilt_text(Just("nightly")),
    ) {
        let bulk = |bytes: &[u8]| Value::BulkString(bytes.to_vec());
        let state = bulk(b"1 0 0 0 0 - ");
        let one = [bulk(b"good"), state.clone(), bulk(&definition(&good)), bulk(b"")];
        let other = [bulk(name.as_bytes()), state, bulk(&bad), bulk(b"")];
        let reply = Value::Array(other.into_iter().chain(one).collect());
        let all = stored::read_all(Fields::of(reply).unwrap(), &ZONES).unwrap();
        prop_assert!(all.iter().any(|schedule| schedule.name.as_str() == "good"));
    }
}
