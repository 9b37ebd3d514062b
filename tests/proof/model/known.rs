//! Sequences that went wrong once, by hand and as short as they get: random ones seldom come back.

use super::config::Settings;
use super::steps::{
    Content, Due, Field, Guard, Hold, How, Leap, Op, Pick, Publish, Step, Token, Want,
};

/// Each with what it was about.
pub fn sequences() -> Vec<(&'static str, Vec<Step>)> {
    let bound = ("a last attempt that was one no longer counts against the bound", {
        let bound = Settings {
            max_attempts: Field::Set(1),
            bound: Field::Set((2, true)),
            ..Settings::NONE
        };
        let more = Settings { max_attempts: Field::Null, ..Settings::NONE };
        steps([
            Op::Put(bound, Guard::None),
            Op::Publish(due_in(0)),
            Op::Lease(Want { most: 1, bytes: None, lease_ms: Some(1_000), acks: Vec::new() }),
            Op::Patch(more, Guard::None),
            Op::Publish(due_in(600_000)),
            Op::Advance(Leap::Ms(1_001)),
            // Both are alive, so one of them has to go.
            Op::Publish(due_in(600_000)),
        ])
    });
    let forecast = ("a message that has outlived its time falls due no more", {
        let short = Settings { ttl: Field::Set(600_000), ..Settings::NONE };
        let token = Hold { pick: Pick::Leased(0), token: Token::Right };
        let later = How { delay: Some(600_000), kind: 0, reason: false };
        steps([
            Op::Put(short, Guard::None),
            Op::Publish(due_in(0)),
            Op::Advance(Leap::Ms(2)),
            Op::Lease(Want { most: 1, bytes: None, lease_ms: None, acks: Vec::new() }),
            Op::Nack(token, later),
            Op::Advance(Leap::Ms(599_999)),
            Op::Forecast { bucket: 2, buckets: 2 },
        ])
    });
    let full = ("a call that fills the room which time has made drops what it has just stored", {
        let short =
            Settings { ttl: Field::Set(1_000), bound: Field::Set((2, true)), ..Settings::NONE };
        let some = |count: i64| Op::PublishBatch((0..count).map(|_| due_in(0)).collect());
        steps([Op::Put(short, Guard::None), some(2), Op::Advance(Leap::Ms(1_001)), some(5)])
    });
    let mut all = vec![bound, forecast, full];
    all.extend(rates());
    all.extend(orders());
    all
}

/// Groups whose order changes.
fn orders() -> Vec<(&'static str, Vec<Step>)> {
    let put = |settings| Op::Put(settings, Guard::None);
    let order =
        |fair: bool| Op::Patch(Settings { fair: Field::Set(fair), ..Settings::NONE }, Guard::None);
    let slow = Settings { group_rate: Field::Set((1, 1)), ..Settings::NONE };
    let no_rate = || Op::Patch(Settings { group_rate: Field::Null, ..Settings::NONE }, Guard::None);
    let of_group = |ms: i64, ttl: Option<i64>| Publish { group: Some(0), ttl, ..due_in(ms) };
    let some = |count: usize| Op::PublishBatch(vec![of_group(0, None); count]);
    let lease = |most: i64| Op::Lease(Want { most, bytes: None, lease_ms: None, acks: Vec::new() });
    let after = |ms: i64| Op::Advance(Leap::Ms(ms));
    let held = || Hold { pick: Pick::Leased(0), token: Token::Right };
    vec![
        ("what was granted before the order was strict may be a later one", {
            let first = [order(true), Op::Publish(of_group(3, None)), some(1), lease(2)];
            steps([Op::Publish(due_in(0))].into_iter().chain(first).chain([order(false)]))
        }),
        ("a TTL that a rate held back begins when the order becomes fair", {
            let short = Op::Publish(of_group(0, Some(2_000)));
            let then = [after(86_400_000), no_rate(), order(true), after(1_999), after(2)];
            steps([put(slow.clone()), some(1), short].into_iter().chain(then))
        }),
        ("a message that was granted has no turn left of a rate that was taken away", {
            let release = How { delay: None, kind: 1, reason: false };
            let ttl = Settings { ttl: Field::Set(9), ..slow };
            let first = [put(ttl), some(2), after(20), no_rate(), lease(1)];
            steps(first.into_iter().chain([Op::Nack(held(), release), order(true)]))
        }),
        ("what comes back where fewer may be leased goes back into its line", {
            let most = |most: i64| Settings {
                group_concurrency: Field::Set(most),
                group_rate: Field::Absent,
                ..Settings::NONE
            };
            let [first, second] = [3, 1].map(|it| Op::Patch(most(it), Guard::None));
            let again = How { delay: Some(0), kind: 0, reason: false };
            let nack = || Op::Nack(held(), again.clone());
            steps([some(5), first, lease(2), second, nack(), nack(), lease(3), lease(1)])
        }),
    ]
}

/// Groups with a rate of one in 100 s.
fn rates() -> Vec<(&'static str, Vec<Step>)> {
    let slow = |burst: i64, most: i64| Settings {
        group_rate: Field::Set((1, burst)),
        group_concurrency: Field::Set(most),
        ttl: Field::Set(600_000),
        ..Settings::NONE
    };
    let put = |settings| Op::Put(settings, Guard::None);
    let of_group = |ms: i64, ttl: Option<i64>| Publish { group: Some(0), ttl, ..due_in(ms) };
    let some = |count: usize| Op::PublishBatch(vec![of_group(0, None); count]);
    let lease = || Op::Lease(Want { most: 1, bytes: None, lease_ms: None, acks: Vec::new() });
    let ack = || Op::Ack(Hold { pick: Pick::Leased(0), token: Token::Right });
    let look = |n: u8| Op::Get(Pick::Waiting(n));
    let after = |ms: i64| Op::Advance(Leap::Ms(ms));
    let concurrency = |most: i64| Settings {
        group_concurrency: Field::Set(most),
        group_rate: Field::Absent,
        ..Settings::NONE
    };
    vec![
        ("a burst goes at once, and what comes behind waits for its turn", {
            // A TTL counts from when it came to the front.
            let first = [put(slow(2, 3)), some(6), look(2), lease(), ack(), look(1), look(2)];
            let then = [after(100_000), lease(), ack(), look(2), look(3), after(600_001), look(0)];
            steps(first.into_iter().chain(then))
        }),
        ("a turn that has passed delays nothing, however long ago it was", {
            let first =
                [put(slow(1, 1)), some(3), lease(), after(150_000), ack(), look(0), lease()];
            steps(first.into_iter().chain([ack(), look(0), after(100_000), lease(), ack()]))
        }),
        ("a head of far away takes no more than its place when it goes", {
            let far = Op::Publish(of_group(86_400_000, None));
            let gone = Op::Delete(Pick::Waiting(0), false);
            steps([put(slow(2, 1)), far, some(3), gone, look(0), after(1), look(1)])
        }),
        ("what is over takes nothing of the rate", {
            let [first, last] = [Some(600_000), Some(86_400_000)];
            let line = [first, None, None, last, last].map(|ttl| of_group(0, ttl));
            let line = Op::PublishBatch(line.into());
            steps([put(slow(1, 1)), line, after(600_001), look(0), lease(), ack(), look(0)])
        }),
        ("a turn is taken when somebody sees that the one before is over", {
            let last = Op::Publish(Publish { max_attempts: Some(1), ..of_group(0, None) });
            let short =
                Op::Lease(Want { most: 1, bytes: None, lease_ms: Some(1_000), acks: vec![] });
            let first = [put(slow(1, 1)), last, some(2), short, after(600_000), look(0)];
            let mut steps = steps(first.into_iter().chain([put(slow(1, 3)), look(1)]));
            // Time goes on between the leap and what comes next.
            steps[5].tick = 2;
            steps
        }),
        ("another concurrency is no other rate", {
            let more = Op::Patch(concurrency(2), Guard::None);
            steps([put(slow(1, 1)), some(3), more, look(1), look(2), lease(), ack(), look(1)])
        }),
    ]
}

/// On the first topic, through the first instance, no time between them.
fn steps(ops: impl IntoIterator<Item = Op>) -> Vec<Step> {
    ops.into_iter().map(|op| Step { via: false, other: false, tick: 0, op }).collect()
}

/// A plain message.
fn due_in(ms: i64) -> Publish {
    Publish {
        due: Due::Delay(ms),
        priority: 0,
        ttl: None,
        key: None,
        policy: None,
        idem: None,
        group: None,
        header: false,
        raw: false,
        max_attempts: None,
        backoff: None,
        headers: 0,
        content: Content::Json(0, 0),
    }
}
