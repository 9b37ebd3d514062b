//! What a sequence is made of. A step names messages by a number modulo those that are there, so
//! that it means something whatever was removed before it, and so shrinking keeps sequences whole.

use super::config::{Backoff, Settings};
use super::world::Own;

/// One request, or time.
#[derive(Clone, Debug)]
pub struct Step {
    /// Whether it goes to the second instance.
    pub via: bool,
    /// Whether it is about the second topic.
    pub other: bool,
    /// How long after the step before, ms.
    pub tick: i64,
    pub op: Op,
}

#[derive(Clone, Debug)]
pub enum Op {
    Advance(Leap),
    Publish(Publish),
    PublishBatch(Vec<Publish>),
    Lease(Want),
    /// From both topics, the second first.
    LeaseFromTopics(Want),
    Ack(Hold),
    Nack(Hold, How),
    Extend(Hold, i64),
    AckBatch(Vec<Hold>),
    NackBatch(Vec<(Hold, How)>),
    ExtendBatch(Vec<(Hold, i64)>),
    Get(Pick),
    Update(Pick, Change),
    Delete(Pick, bool),
    Redrive(Pick),
    RedriveTopic {
        most: Option<i64>,
        spread: i64,
    },
    Purge {
        ready: bool,
        delayed: bool,
        dead: bool,
    },
    BulkByIds(Bulk, Vec<Pick>),
    BulkByQuery {
        bulk: Bulk,
        query: u8,
        dry: bool,
    },
    Pause(bool),
    Put(Settings, Guard),
    Patch(Settings, Guard),
    DeleteTopic(bool),
    /// putGroup, and whether it says whether the group is paused.
    PutGroup(u8, Own, bool),
    DeleteGroup(u8),
    PauseGroup(u8, bool),
    List {
        state: u8,
        limit: i64,
        payload: bool,
    },
    Forecast {
        bucket: i64,
        buckets: i64,
    },
}

/// What is done to many messages. By a query, a delete is a purge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bulk {
    Redrive,
    Delete,
    Run,
}

/// How far time leaps.
#[derive(Clone, Debug)]
pub enum Leap {
    Ms(i64),
    /// To the n-th instant at which something happens by itself, or a millisecond before or after it.
    Next(u8, i64),
}

/// What a publish says.
#[derive(Clone, Debug)]
pub struct Publish {
    pub due: Due,
    pub priority: i64,
    pub ttl: Option<i64>,
    pub key: Option<Key>,
    /// In place of a key, an idempotency key, a group and a due time.
    pub policy: Option<Policy>,
    /// An idempotency key, and whether what was last published with it is to be repeated.
    pub idem: Option<(u8, bool)>,
    pub group: Option<u8>,
    /// The idempotency key goes in the header; a single one only.
    pub header: bool,
    /// publishRaw; a single one without headers and backoff only.
    pub raw: bool,
    pub max_attempts: Option<i64>,
    pub backoff: Option<Backoff>,
    pub headers: u8,
    pub content: Content,
}

#[derive(Clone, Debug)]
pub struct Key {
    pub name: u8,
    pub on_duplicate: u8,
    pub until_granted: bool,
}

/// A named policy for duplicates, with the number of its key.
#[derive(Clone, Debug)]
pub enum Policy {
    Debounce(u8, i64, Option<i64>),
    Throttle(u8, i64),
    Once(u8, i64),
}

#[derive(Clone, Debug)]
pub enum Due {
    Now,
    Delay(i64),
    /// An instant so far from now, µs, and whether it is written in another zone.
    At(i64, bool),
}

#[derive(Clone, Debug)]
pub enum Content {
    /// JSON of some kind, with so many characters more.
    Json(u8, u16),
    Bytes(u8),
}

/// What a lease asks for.
#[derive(Clone, Debug)]
pub struct Want {
    pub most: i64,
    pub bytes: Option<i64>,
    pub lease_ms: Option<i64>,
    pub acks: Vec<Hold>,
}

/// A message and a token.
#[derive(Clone, Debug)]
pub struct Hold {
    pub pick: Pick,
    pub token: Token,
}

#[derive(Clone, Copy, Debug)]
pub enum Token {
    Right,
    Stale,
    Forged,
    Foreign,
}

/// Which message.
#[derive(Clone, Copy, Debug)]
pub enum Pick {
    Any(u8),
    Leased(u8),
    Waiting(u8),
    Dead(u8),
    Granted(u8),
    /// The live one of this key.
    ByKey(u8),
}

/// How a nack ends a lease.
#[derive(Clone, Debug)]
pub struct How {
    pub delay: Option<i64>,
    pub kind: u8,
    pub reason: bool,
}

/// What a PATCH of a message changes.
#[derive(Clone, Debug)]
pub struct Change {
    pub due: Option<Due>,
    pub priority: Option<i64>,
    pub content: Option<Content>,
    pub headers: Option<u8>,
    pub ttl: Field<i64>,
    pub max_attempts: Field<i64>,
    pub backoff: Field<Backoff>,
}

/// A field that may be absent, or null.
#[derive(Clone, Debug, PartialEq)]
pub enum Field<T> {
    Absent,
    Null,
    Set(T),
}

/// `If-Match`.
#[derive(Clone, Copy, Debug)]
pub enum Guard {
    None,
    Right,
    Wrong,
}
