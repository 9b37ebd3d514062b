//! How sequences are drawn: what is common in a queue is common here, and so are few keys, small
//! bounds and short times, since only what meets can go wrong.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::config::{Backoff, Settings};
use super::steps::*;
use super::world::Own;

/// Far enough that only a leap gets there.
const FAR: i64 = 600_000;

fn time() -> impl Strategy<Value = i64> {
    prop_oneof![4 => 1..20i64, 3 => 20..5000i64, 2 => Just(FAR), 1 => Just(86_400_000i64)]
}

fn backoff() -> impl Strategy<Value = Backoff> {
    // A year: many of them still fit into a lease's score.
    let longest = 31_536_000_000i64;
    let base = prop_oneof![1 => Just(0i64), 8 => 1..5000i64, 1 => Just(longest)];
    let factor = prop_oneof![6 => 1..4i64, 1 => Just(100i64)];
    let max = prop_oneof![6 => 1..100_000i64, 1 => Just(longest)];
    let exponential = (base, factor, max, any::<bool>())
        .prop_map(|(base, factor, max, jitter)| Backoff::exponential(base, factor, max, jitter));
    prop_oneof![
        time().prop_map(Backoff::Fixed),
        vec(time(), 1..4).prop_map(Backoff::Schedule),
        exponential,
    ]
}

fn due() -> impl Strategy<Value = Due> {
    prop_oneof![
        6 => Just(Due::Now),
        3 => time().prop_map(Due::Delay),
        1 => (-5_000_000..20_000_000i64, any::<bool>()).prop_map(|(us, zone)| Due::At(us, zone)),
    ]
}

fn content() -> impl Strategy<Value = Content> {
    prop_oneof![
        5 => (0..6u8, prop_oneof![9 => 0..40u16, 1 => 900..1300u16]).prop_map(|(kind, pad)| Content::Json(kind, pad)),
        1 => (0..50u8).prop_map(Content::Bytes),
    ]
}

fn key() -> impl Strategy<Value = Key> {
    (0..4u8, 0..4u8, prop::bool::weighted(0.25))
        .prop_map(|(name, on_duplicate, until_granted)| Key { name, on_duplicate, until_granted })
}

fn policy() -> impl Strategy<Value = Policy> {
    prop_oneof![
        (0..4u8, time(), option::of(time()))
            .prop_map(|(name, delay, most)| Policy::Debounce(name, delay, most)),
        (0..4u8, time()).prop_map(|(name, every)| Policy::Throttle(name, every)),
        (0..4u8, time()).prop_map(|(name, lasting)| Policy::Once(name, lasting)),
    ]
}

fn publish() -> impl Strategy<Value = Publish> {
    let options = (
        option::weighted(0.15, policy()),
        option::weighted(0.2, time()),
        option::weighted(0.4, key()),
        option::weighted(0.15, (0..3u8, prop::bool::weighted(0.7))),
        option::weighted(0.4, 1..4i64),
        option::weighted(0.4, backoff()),
        prop_oneof![3 => Just(0u8), 1 => 1..4u8],
        option::weighted(0.35, 0..3u8),
    );
    let priority = prop_oneof![4 => Just(0i64), 3 => 1..4i64, 1 => 0..256i64];
    (due(), priority, options, any::<bool>(), prop::bool::weighted(0.1), content()).prop_map(
        |(
            due,
            priority,
            (policy, ttl, key, idem, max_attempts, backoff, headers, group),
            header,
            raw,
            content,
        )| {
            let free = policy.is_none();
            let (key, idem, group) =
                (key.filter(|_| free), idem.filter(|_| free), group.filter(|_| free));
            let due = if free { due } else { Due::Now };
            // By the raw route goes what a query can say.
            let raw = raw && idem.is_none() && free;
            let backoff = backoff.filter(|_| !raw);
            let headers = if raw { 0 } else { headers };
            Publish {
                due,
                priority,
                ttl,
                key,
                policy,
                idem,
                group,
                header,
                raw,
                max_attempts,
                backoff,
                headers,
                content,
            }
        },
    )
}

fn pick() -> impl Strategy<Value = Pick> {
    prop_oneof![
        2 => any::<u8>().prop_map(Pick::Any),
        2 => any::<u8>().prop_map(Pick::Leased),
        4 => any::<u8>().prop_map(Pick::Waiting),
        2 => any::<u8>().prop_map(Pick::Dead),
        2 => (0..4u8).prop_map(Pick::ByKey),
    ]
}

fn hold() -> impl Strategy<Value = Hold> {
    let pick = prop_oneof![
        8 => any::<u8>().prop_map(Pick::Leased),
        2 => any::<u8>().prop_map(Pick::Granted),
        1 => any::<u8>().prop_map(Pick::Any),
    ];
    let token = prop_oneof![
        8 => Just(Token::Right), 1 => Just(Token::Stale), 1 => Just(Token::Forged), 1 => Just(Token::Foreign)
    ];
    (pick, token).prop_map(|(pick, token)| Hold { pick, token })
}

fn how() -> impl Strategy<Value = How> {
    let kind = prop_oneof![5 => Just(0u8), 2 => Just(1u8), 1 => Just(2u8)];
    let delay = option::weighted(0.5, prop_oneof![1 => Just(0i64), 2 => time()]);
    (delay, kind, any::<bool>()).prop_map(|(delay, kind, reason)| {
        // Dead at once goes with no delay.
        How { delay: delay.filter(|_| kind != 2), kind, reason }
    })
}

fn field<T: std::fmt::Debug + Clone>(
    set: impl Strategy<Value = T>,
) -> impl Strategy<Value = Field<T>> {
    prop_oneof![5 => Just(Field::Absent), 1 => Just(Field::Null), 2 => set.prop_map(Field::Set)]
}

fn change() -> impl Strategy<Value = Change> {
    (
        option::weighted(0.4, due()),
        option::weighted(0.3, 0..4i64),
        option::weighted(0.3, content()),
        option::weighted(0.2, 0..4u8),
        field(time()),
        field(1..5i64),
        field(backoff()),
    )
        .prop_map(|(due, priority, content, headers, ttl, max_attempts, backoff)| Change {
            due,
            priority,
            content,
            headers,
            ttl,
            max_attempts,
            backoff,
        })
}

fn lease_ms() -> impl Strategy<Value = i64> {
    prop_oneof![3 => 1000..5000i64, 3 => Just(FAR), 1 => Just(43_200_000i64)]
}

fn settings() -> impl Strategy<Value = Settings> {
    let retention =
        (prop_oneof![Just(0i64), time()], prop_oneof![3 => Just(1_209_600_000i64), 1 => time()]);
    (
        field(lease_ms()),
        field(1..4i64),
        field(backoff()),
        field(time()),
        field((1..8i64, any::<bool>())),
        field(time()),
        field(retention),
        field(1..4i64),
        field((prop_oneof![2 => Just(1i64), 1 => Just(300), 1 => Just(100_000)], 1..4i64)),
        field(prop::bool::weighted(0.7)),
    )
        .prop_map(Settings::from)
}

fn own() -> impl Strategy<Value = Own> {
    (
        prop::bool::weighted(0.3),
        option::weighted(0.5, 1..4i64),
        option::weighted(0.3, prop_oneof![2 => Just(1i64), 1 => Just(300), 1 => Just(100_000)]),
        option::weighted(0.2, 1..4i64),
        option::weighted(0.3, 1..5i64),
    )
        .prop_map(|(paused, concurrency, rate, burst, weight)| Own {
            paused,
            concurrency,
            rate,
            burst,
            weight,
        })
}

fn guard() -> impl Strategy<Value = Guard> {
    prop_oneof![6 => Just(Guard::None), 2 => Just(Guard::Right), 1 => Just(Guard::Wrong)]
}

fn want() -> impl Strategy<Value = Want> {
    (
        1..6i64,
        option::weighted(0.2, 1..120i64),
        option::weighted(0.5, lease_ms()),
        vec(hold(), 0..3),
    )
        .prop_map(|(most, bytes, lease_ms, acks)| Want { most, bytes, lease_ms, acks })
}

fn bulk() -> impl Strategy<Value = Bulk> {
    prop_oneof![3 => Just(Bulk::Redrive), 1 => Just(Bulk::Delete), 3 => Just(Bulk::Run)]
}

fn leap() -> impl Strategy<Value = Leap> {
    prop_oneof![
        1 => time().prop_map(Leap::Ms),
        3 => (0..5u8, -1..2i64).prop_map(|(n, beside)| Leap::Next(n, beside)),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        14 => leap().prop_map(Op::Advance),
        18 => publish().prop_map(Op::Publish),
        5 => vec(publish(), 1..7).prop_map(Op::PublishBatch),
        18 => want().prop_map(Op::Lease),
        3 => want().prop_map(Op::LeaseFromTopics),
        7 => hold().prop_map(Op::Ack),
        9 => (hold(), how()).prop_map(|(hold, how)| Op::Nack(hold, how)),
        5 => (hold(), lease_ms()).prop_map(|(hold, ms)| Op::Extend(hold, ms)),
        2 => vec(hold(), 1..5).prop_map(Op::AckBatch),
        4 => vec((hold(), how()), 1..5).prop_map(Op::NackBatch),
        2 => vec((hold(), lease_ms()), 1..5).prop_map(Op::ExtendBatch),
        3 => pick().prop_map(Op::Get),
        9 => (pick(), change()).prop_map(|(pick, change)| Op::Update(pick, change)),
        4 => (pick(), any::<bool>()).prop_map(|(pick, force)| Op::Delete(pick, force)),
        4 => prop_oneof![3 => any::<u8>().prop_map(Pick::Dead), 1 => pick()].prop_map(Op::Redrive),
        2 => (option::of(1..4i64), prop_oneof![Just(0i64), time()])
            .prop_map(|(most, spread)| Op::RedriveTopic { most, spread }),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(ready, delayed)| Op::Purge { ready, delayed, dead: !ready || delayed }),
        4 => (bulk(), vec(pick(), 1..6)).prop_map(|(bulk, picks)| Op::BulkByIds(bulk, picks)),
        3 => (bulk(), 0..4u8, prop::bool::weighted(0.2))
            .prop_map(|(bulk, query, dry)| Op::BulkByQuery { bulk, query, dry }),
        2 => prop::bool::weighted(0.4).prop_map(Op::Pause),
        1 => (settings(), guard()).prop_map(|(settings, guard)| Op::Put(settings, guard)),
        4 => (settings(), guard()).prop_map(|(settings, guard)| Op::Patch(settings, guard)),
        1 => any::<bool>().prop_map(Op::DeleteTopic),
        3 => (0..3u8, own(), any::<bool>()).prop_map(|(group, own, paused)| Op::PutGroup(group, own, paused)),
        1 => (0..3u8).prop_map(Op::DeleteGroup),
        2 => (0..3u8, any::<bool>()).prop_map(|(group, pause)| Op::PauseGroup(group, pause)),
        4 => (0..6u8, prop_oneof![1..4i64, Just(100i64)], any::<bool>())
            .prop_map(|(state, limit, payload)| Op::List { state, limit, payload }),
        1 => (time(), 1..6i64).prop_map(|(bucket, buckets)| Op::Forecast { bucket, buckets }),
    ]
}

/// A step.
pub fn step() -> impl Strategy<Value = Step> {
    (any::<bool>(), prop::bool::weighted(0.12), 0..3i64, op())
        .prop_map(|(via, other, tick, op)| Step { via, other, tick, op })
}
