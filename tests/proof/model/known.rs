//! Sequences that went wrong once, by hand and as short as they get: random ones seldom come back.

use super::steps::{
    Content, Due, Field, Guard, Hold, How, Leap, Op, Pick, Publish, Settings, Step, Token, Want,
};

/// Each with what it was about.
pub fn sequences() -> Vec<(&'static str, Vec<Step>)> {
    let bound = ("a last attempt that was one no longer counts against the bound", {
        let bound =
            Settings { max_attempts: Field::Set(1), bound: Field::Set((2, true)), ..same() };
        let more = Settings { max_attempts: Field::Null, ..same() };
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
        let short = Settings { ttl: Field::Set(600_000), ..same() };
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
        let short = Settings { ttl: Field::Set(1_000), bound: Field::Set((2, true)), ..same() };
        let some = |count: i64| Op::PublishBatch((0..count).map(|_| due_in(0)).collect());
        steps([Op::Put(short, Guard::None), some(2), Op::Advance(Leap::Ms(1_001)), some(5)])
    });
    vec![bound, forecast, full]
}

/// On the first topic, through the first instance, no time between them.
fn steps(ops: impl IntoIterator<Item = Op>) -> Vec<Step> {
    ops.into_iter().map(|op| Step { via: false, other: false, tick: 0, op }).collect()
}

/// Settings that change nothing.
fn same() -> Settings {
    Settings {
        lease_ms: Field::Absent,
        max_attempts: Field::Absent,
        backoff: Field::Absent,
        ttl: Field::Absent,
        bound: Field::Absent,
        window: Field::Absent,
        retention: Field::Absent,
        group_concurrency: Field::Absent,
    }
}

/// A plain message.
fn due_in(ms: i64) -> Publish {
    Publish {
        due: Due::Delay(ms),
        priority: 0,
        ttl: None,
        key: None,
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
