//! The replies to groups: as many answers as there are requests, or one error for all.

use super::*;
use crate::{
    NackKind, NackRequest,
    ack::Ack,
    batch::Op,
    extend::Extend,
    grants::LeaseOptions,
    lease::Lease,
    nack::Nack,
    publish::Publish,
    publish_special::PublishSpecial,
    settle::Held,
    types::{Due, Idempotency},
};
use dueq_model::{Body, Content, Epoch, LeaseClaims, MAX_DELAY_MS, MessageId, Route};
use std::sync::Weak;

const ROUTE: Route = Route { topic: TopicNumber(5), partition: PartitionNumber(0) };

fn ids(count: usize) -> impl Iterator<Item = MessageId> {
    (0..count as u64).map(|n| MessageId::new(1_800_000_000_000, ROUTE, n))
}

fn claims() -> LeaseClaims {
    LeaseClaims { attempt: 1, epoch: Epoch::default(), granted_at: 1_800_000_000_000, last: false }
}

/// Reads a reply for a group of these requests.
fn answers<O: Op>(
    ops: impl Iterator<Item = O>,
    settings: TopicSettings,
    reply: Value,
) -> Result<Vec<O::Output>, TestCaseError> {
    let group = ops.collect::<Vec<_>>();
    let answers = answer(|reply| O::read(&group, reply), settings, reply);
    if let Some(answers) = &answers {
        prop_assert_eq!(answers.len(), group.len());
    }
    Ok(answers.into_iter().flatten().flatten().collect())
}

/// `head` and then the parts of each request.
fn flat(head: Vec<Value>, parts: Vec<Vec<Value>>) -> Value {
    array(head.into_iter().chain(parts.into_iter().flatten()).collect())
}

fn code(most: i64) -> impl Strategy<Value = Value> {
    (0..=most).prop_map(Value::Int)
}

fn due() -> impl Strategy<Value = Due> {
    prop_oneof![
        (0..=MAX_DELAY_MS as i64).prop_map(Due::After),
        (-253_402_300_799_999..=253_402_300_799_999_i64).prop_map(Due::At),
    ]
}

fn body() -> bytes::Bytes {
    Body::new(Content::Json("1".into()), Default::default()).encode()
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn publish(settings in settings(), dues in vec(due(), 1..5), reply in reply((num(), flag(), num()).prop_map(|(now, wake, up)| array(vec![now, wake, up])))) {
        let verbs = ids(dues.len()).zip(dues).map(|(id, due)| Publish { id, body: body(), due });
        answers(verbs, settings, reply)?;
    }

    #[test]
    fn publish_special(
        settings in settings(),
        due in due(),
        ttl_ms in prop::option::of(1..=MAX_DELAY_MS as i64),
        count in 1..4_usize,
        reply in reply((num(), flag(), num(), vec((code(8), member(), state(), num()), 1..4)).prop_map(|(now, wake, expired, each)| {
            flat(vec![now, wake, expired], each.into_iter().map(|(c, m, s, at)| vec![c, m, s, at]).collect())
        })),
    ) {
        let idempotency = Some(Idempotency::of_dueq("x", MAX_DELAY_MS as i64));
        let options = MessageOptions { ttl_ms, idempotency, ..MessageOptions::default() };
        let verbs = ids(count).map(|id| PublishSpecial { id, body: body(), due, options: options.clone(), copy: false, bounded: false });
        answers(verbs, settings, reply)?;
    }

    #[test]
    fn ack(settings in settings(), count in 1..5_usize, reply in reply(prop_oneof![
        (0..5_i64).prop_map(Value::Int),
        vec(code(5), 1..5).prop_map(array),
    ])) {
        answers(ids(count).map(|id| Held { id, claims: claims(), what: Ack::default() }), settings, reply)?;
    }

    #[test]
    fn nack(
        settings in settings(),
        kinds in vec(0..5_u8, 1..4),
        reply in reply((num(), flag(), vec((code(7), num()), 1..4)).prop_map(|(now, wake, each)| {
            flat(vec![now, wake], each.into_iter().map(|(code, at)| vec![code, at]).collect())
        })),
    ) {
        let how = |kind: u8| match kind {
            0 => Nack::Return(1),
            1 => Nack::Park { due_at: 1, lease_expires_at: 1, put_off: Some((0, None)) },
            2 => Nack::Asked(NackRequest { kind: NackKind::Released, ..NackRequest::default() }),
            _ => Nack::Asked(NackRequest::default()),
        };
        answers(ids(kinds.len()).zip(kinds).map(|(id, kind)| Held { id, claims: claims(), what: how(kind) }), settings, reply)?;
    }

    #[test]
    fn extend(
        settings in settings(),
        count in 1..4_usize,
        shortens in any::<bool>(),
        reply in reply((num(), num(), vec((code(3), num()), 1..4)).prop_map(|(now, up, each)| {
            flat(vec![now, up], each.into_iter().map(|(code, deadline)| vec![code, deadline]).collect())
        })),
    ) {
        let extend = |id| Held { id, claims: claims(), what: Extend { lease_ms: 1_000, shortens } };
        answers(ids(count).map(extend), settings, reply)?;
    }

    #[test]
    fn lease(
        settings in settings(),
        wants in vec((1..4_u64, select(vec![1_u64, 1 << 30]), prop::option::of(1_000..43_200_000_u64)), 1..4),
        reply in reply((
            vec(num(), 3),
            flag(),
            vec(num(), 4),
            prop_oneof![3 => Just(bulk("90072ceeff11")), 1 => text().prop_map(bulk)],
            vec((member(), num()), 0..6),
            vec(stored_body(), 6),
            prop::option::of((vec((num(), num(), num(), text(), text()), 6), vec(prop_oneof![3 => code(2), 1 => num()], 0..4))),
        ).prop_map(|(times, more, counts, epoch, found, bodies, special)| {
            let mut reply = times;
            reply.push(more);
            reply.extend(counts);
            reply.push(epoch);
            let length = found.len();
            reply.push(array(found.into_iter().flat_map(|(member, due)| [member, due]).collect()));
            reply.push(array(bodies.into_iter().take(length).collect()));
            if let Some((facts, counts)) = special {
                let facts = facts.into_iter().flat_map(|(a, b, c, key, group)| [a, b, c, bulk(key), bulk(group)]);
                reply.push(array(facts.collect()));
                reply.push(array(counts));
            }
            array(reply)
        })),
    ) {
        let want = |(max_messages, max_bytes, lease_ms)| Lease {
            options: LeaseOptions { max_messages, max_bytes, lease_ms, push: false, several: false },
            begun: false,
            waits: true,
            wakes: 0,
            registry: Weak::new(),
        };
        let leased = answers(wants.into_iter().map(want), settings, reply)?;
        let granted: usize = leased.iter().map(|leased| leased.grants.messages().len()).sum();
        prop_assert!(granted <= 12, "{granted} messages of a reply that had 12 at most");
    }
}
