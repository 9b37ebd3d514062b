//! The replies to single operations.

use super::*;
use crate::{
    change::{Change, read_changes},
    dead_letters::read_deaths,
    message::read_found,
    messages::update::{Updated, read_updated},
    sweeps::read_swept,
    topics::{read_closed, read_forecast, read_listed, read_purged, read_totals},
    types::MessageSnapshot,
};
use dueq_model::{MAX_EVENTS, State};

/// What was read of a message can be shown.
fn sound(snapshot: &MessageSnapshot) -> Result<(), TestCaseError> {
    prop_assert!(snapshot.body.is_some() && (1..=MAX_EVENTS).contains(&snapshot.events.len()));
    Ok(())
}

fn words() -> impl Strategy<Value = Value> {
    select(vec![
        "OK",
        "NONE",
        "LEASED",
        "DEAD",
        "ACKED",
        "CHANGED",
        "NOT_DEAD",
        "DUPLICATE",
        "NOT_EMPTY",
    ])
    .prop_map(bulk)
}

/// Numbers and nothing else, at least `least` of them.
fn numbers(least: usize) -> impl Strategy<Value = Value> {
    vec(num(), least..least + 3).prop_map(array)
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn get(settings in settings(), reply in reply((num(), snapshot()).prop_map(|(now, found)| array(vec![now, found])))) {
        if let Some(Some(found)) = answer(read_found, settings, reply) {
            sound(&found)?;
        }
    }

    #[test]
    fn update(
        settings in settings(),
        reply in reply(prop_oneof![
            3 => (num(), flag(), snapshot(), flag()).prop_map(|(now, wake, found, died)| array(vec![now, wake, found, died])),
            1 => words(),
        ]),
    ) {
        let update = |reply: &mut Reply<'_>| read_updated(reply, None);
        if let Some(Updated::Done(found)) = answer(update, settings, reply) {
            sound(&found)?;
        }
    }

    #[test]
    fn one_word(settings in settings(), reply in reply(words())) {
        answer(|reply| reply.expect("OK"), settings.clone(), reply.clone());
        answer(read_closed, settings, reply);
    }

    #[test]
    fn counts(settings in settings(), reply in reply(numbers(25)), few in reply(numbers(3))) {
        answer(read_totals, settings.clone(), reply);
        let length = if let Value::Array(items) = &few { items.len() } else { 0 };
        if let Some((_, counts)) = answer(read_forecast, settings, few) {
            prop_assert_eq!(counts.len() + 1, length);
        }
    }

    #[test]
    fn bulks(settings in settings(), reply in reply(numbers(7))) {
        answer(read_purged, settings.clone(), reply.clone());
        let done = answer(|reply| read_changes(reply, Change::Redrive, false), settings.clone(), reply.clone());
        prop_assert!(done.is_none_or(|done| !done.outcomes.is_empty()));
        answer(read_swept, settings, reply);
    }

    #[test]
    fn list(
        settings in settings(),
        state in select(vec![State::Delayed, State::Ready, State::Blocked, State::Leased, State::Dead, State::Acked]),
        bodies in any::<bool>(),
        reply in reply((num(), flag(), num(), vec((num(), member(), extra(), stored_body()), 0..5), num()).prop_map(|(now, more, most, found, ttl)| {
            let (mut places, mut extras, mut bodies) = (vec![], vec![], vec![]);
            for (score, member, extra, body) in found {
                places.extend([score, member]);
                extras.push(bulk(extra));
                bodies.push(body);
            }
            array(vec![now, more, most, array(places), array(extras), array(bodies), ttl])
        })),
    ) {
        if let Some(some) = answer(|reply| read_listed(reply, state, 0, bodies), settings, reply) {
            prop_assert!(some.items.iter().all(|item| item.message.attempts_left >= 0));
        }
    }

    #[test]
    fn take_dead(
        settings in settings(),
        reply in reply((num(), vec((member(), any::<i64>().prop_map(|at| bulk(at.to_string())), prop_oneof![snapshot(), extra().prop_map(bulk)], stored_body(), events()), 0..4)).prop_map(|(now, dead)| {
            let (mut list, mut found, mut bodies, mut written) = (vec![], vec![], vec![], vec![]);
            for (mut member, at, message, body, events) in dead {
                if let (Value::BulkString(entry), Value::BulkString(_)) = (&mut member, &message) {
                    entry.push(b'a');
                }
                list.extend([member, at]);
                found.push(message);
                bodies.push(body);
                written.push(bulk(events));
            }
            array([now].into_iter().chain([list, found, bodies, written].map(array)).collect())
        })),
    ) {
        for death in answer(read_deaths, settings, reply).unwrap_or_default() {
            if let Some(message) = death.message {
                sound(&message)?;
            }
        }
    }
}
