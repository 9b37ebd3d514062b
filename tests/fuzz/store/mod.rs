//! Replies of Redis that no script gives, and stored data that nobody wrote: a reader gives an answer for each request
//! or an error, and never panics.

mod grouped;
mod single;

use super::{
    RedisArgs, StoreOptions,
    backend::{Backend, Shared},
    partition::{Partition, PartitionState, first_place},
    registry::{Topic, parse_entry},
    reply::{CallError, Fields, Reply, bytes, int, word},
};
use crate::{MessageKey, MessageOptions, OnDuplicate, extra::Extra, types::KeyUntil};
use deadpool_redis::redis::Value;
use dueq_base::metrics::Metrics;
use dueq_fuzz::{body, cases, number, piece, spoilt, spoilt_text, text};
use dueq_model::{
    Backoff, Ends, MEMBER_BYTES, PartitionNumber, Push, Retention, TopicName, TopicNumber,
    TopicSettings,
};
use proptest::{collection::vec, prelude::*, sample::Index, sample::select};
use std::{
    sync::{Arc, LazyLock, atomic::AtomicBool},
    time::{Duration, Instant},
};
use tokio::sync::mpsc;

/// A way to Redis that is never gone.
static BACKEND: LazyLock<Backend> = LazyLock::new(|| {
    let options = StoreOptions {
        redis: RedisArgs::at("redis://127.0.0.1:1/".to_owned()),
        key_prefix: "dueq:".to_owned(),
        lanes: 1,
        timeout: Duration::from_secs(1),
        replicas: Default::default(),
        upgrade: true,
    };
    let wakes = mpsc::unbounded_channel().0;
    Backend::new(Shared::new(&options, Arc::new(Metrics::new()), wakes)).unwrap()
});

/// Reads a reply to a call for a topic of these settings.
pub fn answer<T>(
    read: impl FnOnce(&mut Reply<'_>) -> Result<T, CallError>,
    settings: TopicSettings,
    value: Value,
) -> Option<T> {
    let partition = partition(settings);
    read(&mut Reply::new(&partition, &BACKEND, Instant::now(), value).ok()?).ok()
}

/// The partition of a topic of these settings, whose hints go nowhere.
pub fn partition(settings: TopicSettings) -> Partition {
    let name = TopicName::parse("orders").unwrap();
    let number = TopicNumber(5);
    let partitions = PartitionState::all_of("dueq:", &name, number, &settings);
    Partition::first(Arc::new(Topic {
        counters: BACKEND.shared.metrics.topic(&name),
        name,
        written: 1,
        revision: 1,
        settings,
        version_tag: "5 1 2".to_owned(),
        number,
        partitions,
        placed: first_place(),
        survey: super::lease::Survey::default(),
        used: AtomicBool::new(true),
        hints: mpsc::unbounded_channel().0,
        active: mpsc::unbounded_channel().0,
    }))
}

/// Settings as a hand in Redis may have left them.
pub fn settings() -> impl Strategy<Value = TopicSettings> {
    (vec(number(), 6), any::<u8>()).prop_map(|(numbers, kind)| TopicSettings {
        lease_ms: numbers[0],
        ttl_ms: (kind % 2 == 0).then_some(numbers[1]),
        max_messages: (kind % 3 == 0).then_some(numbers[2]),
        idempotency_window_ms: numbers[3],
        retention: Retention {
            acked_ms: numbers[4],
            acked_max: 2,
            dead_ms: numbers[5],
            dead_max: 1,
            ..Retention::default()
        },
        push: (kind % 5 == 0).then(Push::default),
        dead_topic: (kind % 7 == 0).then(|| TopicName::parse("dead").unwrap()),
        ..TopicSettings::default()
    })
}

pub fn bulk(bytes: impl Into<Vec<u8>>) -> Value {
    Value::BulkString(bytes.into())
}

pub fn member() -> impl Strategy<Value = Value> {
    any::<[u8; MEMBER_BYTES]>().prop_map(bulk)
}

/// A number as a script may give it.
pub fn num() -> impl Strategy<Value = Value> {
    (number(), any::<bool>())
        .prop_map(|(n, text)| if text { bulk(n.to_string()) } else { Value::Int(n) })
}

fn flag() -> impl Strategy<Value = Value> {
    (0..2_i64).prop_map(Value::Int)
}

fn state() -> impl Strategy<Value = Value> {
    select(vec!["delayed", "ready", "blocked", "leased", "dead", "acked"]).prop_map(bulk)
}

pub fn stored_body() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => body().prop_map(|body| bulk(body.encode().to_vec())),
        1 => spoilt(body().prop_map(|body| body.encode())).prop_map(bulk),
    ]
}

fn extra() -> impl Strategy<Value = String> {
    let plain = vec(prop_oneof![number().prop_map(|n| n.to_string()), piece()], 0..9);
    prop_oneof![
        plain.prop_map(|parts| parts.join(",")),
        spoilt_text(Just("2,1,10,9,o60000,fixed;5,d,order-42,x")),
    ]
}

fn events() -> impl Strategy<Value = String> {
    spoilt_text(Just("G 1700000000000 1\nn 1700000000001 1 \"no\"\nx 1700000000002 2\n"))
}

/// What the scripts' `snapshot` gives.
fn snapshot() -> impl Strategy<Value = Value> {
    let first = (member(), state(), num(), num(), num());
    let rest = (extra(), num(), events(), stored_body());
    (first, rest).prop_map(|((member, state, at, attempts, left), (extra, ends, events, body))| {
        Value::Array(vec![member, state, at, attempts, left, bulk(extra), ends, bulk(events), body])
    })
}

/// Any reply at all.
fn any_value() -> impl Strategy<Value = Value> {
    let words = ["STALE", "OK", "NONE", "LEASED", "DEAD", "ready", "CHANGED", "DUPLICATE", ""];
    let leaf = prop_oneof![
        Just(Value::Nil),
        Just(Value::Okay),
        num(),
        any::<bool>().prop_map(Value::Boolean),
        any::<f64>().prop_map(Value::Double),
        select(words.to_vec()).prop_map(bulk),
        text().prop_map(Value::SimpleString),
        vec(any::<u8>(), 0..20).prop_map(bulk),
        member(),
        stored_body(),
    ];
    leaf.prop_recursive(3, 40, 9, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..10).prop_map(Value::Array),
            vec(inner.clone(), 0..4).prop_map(Value::Set),
            vec((inner.clone(), inner), 0..3).prop_map(Value::Map),
        ]
    })
}

/// A reply that is right, damaged in none to three places: one value for another, left out, or twice.
pub fn reply(good: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let damage = (vec(any::<Index>(), 1..4), 0..4_u8, any_value());
    let damaged = (good, vec(damage, 0..4)).prop_map(|(mut reply, damages)| {
        for (path, kind, other) in damages {
            spoil(&mut reply, &path, kind, other);
        }
        reply
    });
    prop_oneof![9 => damaged, 1 => any_value()]
}

fn spoil(value: &mut Value, path: &[Index], kind: u8, other: Value) {
    let (Value::Array(items), Some((first, rest))) = (value, path.split_first()) else { return };
    if items.is_empty() {
        items.push(other);
        return;
    }
    let at = first.index(items.len());
    if matches!(items[at], Value::Array(_)) && !rest.is_empty() {
        return spoil(&mut items[at], rest, kind, other);
    }
    match kind {
        0 => items[at] = other,
        1 => drop(items.remove(at)),
        2 => items.insert(at, items[at].clone()),
        _ => items.truncate(at),
    }
}

pub fn array(values: Vec<Value>) -> Value {
    Value::Array(values)
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn any_reply_is_read_or_is_an_error(value in any_value()) {
        let _ = (word(&value), int(value.clone()), bytes(value.clone()));
        if let Ok(mut fields) = Fields::of(value) {
            let length = fields.len();
            let mut read = 0;
            while !fields.is_empty() {
                let _ = (fields.int(), fields.text(), fields.bytes(), fields.fields());
                read += 4;
            }
            prop_assert!(read < length + 4);
            prop_assert_eq!(fields.value().err(), Some(CallError::Internal));
        }
    }

    #[test]
    fn an_entry_of_the_registry_is_read_whole_or_not_at_all(
        number in any::<u32>(),
        revision in number(),
        settings in settings(),
        damaged in spoilt_text(Just(r#"12 34 {"lease_ms":5,"backoff":{"kind":"fixed","base_ms":1}}"#)),
    ) {
        let json = serde_json::to_string(&settings).unwrap();
        let entry = format!("{number} {revision} {json}");
        prop_assert_eq!(parse_entry(&entry), Some((number, revision, Some(settings))));
        prop_assert_eq!(parse_entry(&format!("{number} {revision}")), Some((number, revision, None)));
        if let Some((number, revision, Some(settings))) = parse_entry(&damaged) {
            let json = serde_json::to_string(&settings).unwrap();
            prop_assert_eq!(parse_entry(&format!("{number} {revision} {json}")), Some((number, revision, Some(settings))));
        }
    }

    #[test]
    fn options_come_back_from_the_extra(
        priority in any::<u8>(),
        max_attempts in prop::option::of(1..=1_000_u16),
        ttl_ms in prop::option::of(1..=315_360_000_000_i64),
        backoff in prop::option::of(dueq_fuzz::backoff()),
        key in prop::option::of(text().prop_filter("a key has a character", |text| !text.is_empty())),
        group in prop::option::of(text().prop_filter("a group has a character", |text| !text.is_empty())),
    ) {
        let name = |name| MessageKey { name, on_duplicate: OnDuplicate::Return, until: KeyUntil::Granted, max_wait_ms: None };
        let options = MessageOptions {
            priority,
            max_attempts,
            ttl_ms,
            backoff,
            group: group.clone(),
            ends: Ends { done: priority % 2 == 1, dead: priority % 4 > 1 },
            key: key.clone().map(name),
            idempotency: None,
        };
        let line = |group: &String| format!("00000000002a,{group}{}", key.clone().unwrap_or_default());
        let line = group.as_ref().map(line).unwrap_or_default();
        let read = Extra::parse(&(options.extra() + &line));
        prop_assert_eq!(read.write(), options.extra() + &line);
        let options = MessageOptions { key: None, ..options };
        prop_assert_eq!((read.attempts, read.counted, read.options, read.key), (0, 0, options, key));
    }

    #[test]
    fn a_damaged_extra_is_read_as_far_as_it_goes(text in extra()) {
        let read = Extra::parse(&text);
        let nothing = Some(Backoff::Schedule { delays_ms: Vec::new() });
        prop_assert_ne!(read.options.backoff, nothing);
    }
}
