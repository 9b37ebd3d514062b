//! The replies to single operations.

use super::*;
use crate::{
    model::{MAX_EVENTS, MessageId, State},
    store::{
        batch::SingleOp,
        dead_letters::TakeDead,
        delete::Delete,
        get::{Exists, Get},
        redrive_message::RedriveMessage,
        sweeps::Sweep,
        topics::{Close, CountTopic, Forecast, ListSome, Pause, PurgeSome, RedriveSome},
        types::{MessageRef, MessageSnapshot, MessageUpdate},
        update::{Update, Updated},
    },
};

/// Reads a reply to this request.
fn answer<S: SingleOp>(op: &S, settings: TopicSettings, reply: Value) -> Option<S::Output> {
    let topic = topic(settings);
    context(|context| op.read(&topic, context, reply)).ok()
}

fn id() -> MessageId {
    MessageId::new(1, Route { topic: TopicNumber(5), partition: Partition(0) }, 1)
}

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
        if let Some(Some(found)) = answer(&Get(MessageRef::Id(id())), settings, reply) {
            sound(&found)?;
        }
    }

    #[test]
    fn update_and_redrive(
        settings in settings(),
        reply in reply(prop_oneof![
            3 => (num(), flag(), snapshot(), flag()).prop_map(|(now, wake, found, died)| array(vec![now, wake, found, died])),
            1 => words(),
        ]),
    ) {
        let update = Update { message: MessageRef::Id(id()), update: MessageUpdate::default(), body: None };
        if let Some(Updated::Done(found)) = answer(&update, settings.clone(), reply.clone()) {
            sound(&found)?;
        }
        if let Some(Ok(found)) = answer(&RedriveMessage(id()), settings, reply) {
            sound(&found)?;
        }
    }

    #[test]
    fn one_word(settings in settings(), reply in reply(words())) {
        answer(&Delete { message: MessageRef::Id(id()), force: true }, settings.clone(), reply.clone());
        answer(&Exists(id()), settings.clone(), reply.clone());
        answer(&Pause(false), settings.clone(), reply.clone());
        answer(&Close { force: true, mark_ms: 1 }, settings, reply);
    }

    #[test]
    fn counts(settings in settings(), reply in reply(numbers(24)), few in reply(numbers(3))) {
        answer(&CountTopic, settings.clone(), reply);
        let forecast = Forecast { from: None, bucket_ms: 1, buckets: 3 };
        let length = if let Value::Array(items) = &few { items.len() } else { 0 };
        if let Some((_, counts)) = answer(&forecast, settings, few) {
            prop_assert_eq!(counts.len() + 1, length);
        }
    }

    #[test]
    fn bulks(settings in settings(), reply in reply(numbers(7))) {
        let states = vec![State::Ready];
        answer(&PurgeSome { states, limit: 1 }, settings.clone(), reply.clone());
        let redrive = RedriveSome { limit: 1, skip: 0, base: None, index: 0, of: None, spread_ms: 0, most: 1 };
        answer(&redrive, settings.clone(), reply.clone());
        answer(&Sweep, settings, reply);
    }

    #[test]
    fn list(
        settings in settings(),
        state in select(vec![State::Delayed, State::Ready, State::Leased, State::Dead, State::Acked]),
        bodies in any::<bool>(),
        reply in reply((num(), flag(), num(), vec((num(), num(), member(), extra(), stored_body()), 0..5), num()).prop_map(|(now, more, most, found, ttl)| {
            let (mut places, mut extras, mut bodies) = (vec![], vec![], vec![]);
            for (part, score, member, extra, body) in found {
                places.extend([part, score, member]);
                extras.push(bulk(extra));
                bodies.push(body);
            }
            array(vec![now, more, most, array(places), array(extras), array(bodies), ttl])
        })),
    ) {
        let list = ListSome { state, limit: 5, after: None, body_bytes: bodies.then_some(100) };
        if let Some(some) = answer(&list, settings, reply) {
            prop_assert!(some.items.iter().all(|item| item.message.attempts_left >= 0));
        }
    }

    #[test]
    fn take_dead(
        settings in settings(),
        reply in reply((num(), vec((member(), num(), prop::option::of(snapshot())), 0..4)).prop_map(|(now, dead)| {
            let one = |(member, at, found): (Value, Value, Option<Value>)| [member, at, found.unwrap_or(Value::Nil)];
            array([now].into_iter().chain(dead.into_iter().flat_map(one)).collect())
        })),
    ) {
        for death in answer(&TakeDead, settings, reply).unwrap_or_default() {
            if let Some(message) = death.message {
                sound(&message)?;
            }
        }
    }
}
