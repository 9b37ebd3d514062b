//! Which clients a load is made of, what they publish, and what they do with what they lease.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::super::history::Ms;

/// What becomes of a grant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    /// Acked by a request of its own, at once.
    Ack,
    /// Acked together with the next lease.
    AckAlong,
    /// Acked in a batch, with others of the same lease.
    AckBatch,
    /// Acked, and acked again.
    AckTwice,
    /// Given back as failed.
    Nack,
    /// The same, in a batch.
    NackBatch,
    /// Given back unworked.
    Release,
    /// Made dead.
    Kill,
    /// Extended, then acked.
    Extend,
    /// Extended in a batch, then acked together with the next lease.
    ExtendBatch,
    /// Acked in the last moments of the lease.
    Brink,
    /// Acked just after its deadline.
    Late,
    /// Acked, nacked or extended after its deadline, when another client may have it.
    Stale,
    /// Nobody hears of its holder again.
    Crash,
}

/// What the drain does with what is dead.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AtTheEnd {
    /// It stays, and the audit finds it.
    Keep,
    /// It is purged.
    Purge,
    /// It is redriven, and acked like the rest.
    Redrive,
}

/// How many clients of each role there are, and what they are like. Fields can be set one by one:
/// `Mix { consumers: 9, ..Mix::varied() }`.
#[derive(Clone, Debug)]
pub struct Mix {
    /// Publish one message after another.
    pub publishers: u64,
    /// Publish batches.
    pub bulk_publishers: u64,
    /// Publish with idempotency keys, and repeat that of which they know nothing.
    pub idempotent_publishers: u64,
    /// Publish under few keys, with every `on_duplicate` and `key_until`.
    pub key_publishers: u64,
    /// Publish events of customers, each of whom is a group.
    pub group_publishers: u64,
    pub consumers: u64,
    /// Delete messages, some by force.
    pub deleters: u64,
    /// Change payloads and due times.
    pub updaters: u64,
    /// Redrive and purge what is dead.
    pub redrivers: u64,
    /// Look at messages.
    pub watchers: u64,
    /// Pauses and resumes the topic; more than one would resume each other's pauses.
    pub pausers: u64,
    /// Take the longest messages that there may be through all states, on a topic alongside.
    pub extreme: u64,

    /// Of a hundred publishes how many are due at once.
    pub immediate: u32,
    /// The longest delay of a publish, ms.
    pub delay: Ms,
    /// The most padding of a payload, bytes.
    pub padding: usize,
    /// Of a hundred publishes how many name a TTL, short enough that some expire.
    pub ttl: u32,
    /// How many messages a batch has.
    pub batch: RangeInclusive<usize>,
    /// How many customers a publisher of groups has for itself.
    pub customers: u64,
    /// Of a hundred events how many are of the first of them, besides its share of the others.
    pub flood: u32,
    /// How many messages a lease asks for.
    pub lease: RangeInclusive<usize>,
    /// How long leases last, ms.
    pub lease_ms: RangeInclusive<Ms>,
    /// Of a thousand messages how many fail whenever they are granted.
    pub poison: u32,
    /// Of a thousand leases how many their client leaves in the middle.
    pub leave: u32,
    /// Of how many grants which end how.
    pub ways: &'static [(Way, u32)],
    /// The longest rest between two requests of a client, ms: publishers and others, consumers.
    pub rest: (u64, u64),
    /// Publishers rest while so many messages live; 0: never.
    pub backlog: u64,
    pub at_the_end: AtTheEnd,
    /// How long the drain may take, beyond 5 ms for each message.
    pub patience: Duration,
}

impl Mix {
    /// Publishers and consumers and nothing else: publish, lease, ack, nack, extend.
    pub fn plain(publishers: u64, consumers: u64) -> Mix {
        Mix {
            publishers,
            bulk_publishers: 0,
            idempotent_publishers: 0,
            key_publishers: 0,
            group_publishers: 0,
            consumers,
            deleters: 0,
            updaters: 0,
            redrivers: 0,
            watchers: 0,
            pausers: 0,
            extreme: 1,
            immediate: 30,
            delay: 600,
            padding: 200,
            ttl: 0,
            batch: 1..=20,
            customers: 0,
            flood: 0,
            lease: 1..=8,
            lease_ms: 1_000..=1_500,
            poison: 0,
            leave: 0,
            ways: &[
                (Way::Ack, 45),
                (Way::AckAlong, 23),
                (Way::Nack, 12),
                (Way::Extend, 6),
                (Way::Brink, 7),
                (Way::Late, 4),
                (Way::Crash, 3),
            ],
            rest: (12, 3),
            backlog: 5_000,
            at_the_end: AtTheEnd::Keep,
            patience: Duration::from_secs(25),
        }
    }

    /// A quiet load without anything that ends otherwise than by an ack: for what is measured.
    pub fn calm() -> Mix {
        Mix {
            ways: &[(Way::Ack, 50), (Way::AckAlong, 50)],
            lease_ms: 5_000..=5_000,
            extreme: 0,
            ..Mix::plain(2, 3)
        }
    }

    /// Everything that clients can do, at a moderate pace.
    pub fn varied() -> Mix {
        Mix {
            bulk_publishers: 1,
            idempotent_publishers: 1,
            key_publishers: 2,
            deleters: 1,
            updaters: 1,
            redrivers: 1,
            watchers: 1,
            pausers: 1,
            ttl: 5,
            leave: 50,
            poison: 3,
            ways: &[
                (Way::Ack, 20),
                (Way::AckAlong, 20),
                (Way::AckBatch, 12),
                (Way::AckTwice, 3),
                (Way::Nack, 6),
                (Way::NackBatch, 5),
                (Way::Release, 6),
                (Way::Kill, 4),
                (Way::Extend, 4),
                (Way::ExtendBatch, 4),
                (Way::Brink, 5),
                (Way::Late, 3),
                (Way::Stale, 5),
                (Way::Crash, 3),
            ],
            backlog: 400,
            at_the_end: AtTheEnd::Redrive,
            ..Mix::plain(3, 6)
        }
    }

    /// The events of so many customers, and four who work on them: some fail, come late, go away or crash.
    pub fn events(customers: u64) -> Mix {
        const PUBLISHERS: u64 = 4;
        Mix {
            group_publishers: PUBLISHERS,
            customers: customers / PUBLISHERS,
            immediate: 80,
            delay: 300,
            padding: 30,
            lease: 1..=20,
            leave: 20,
            ways: &[
                (Way::AckAlong, 30),
                (Way::AckBatch, 20),
                (Way::Ack, 20),
                (Way::Nack, 8),
                (Way::NackBatch, 4),
                (Way::Release, 3),
                (Way::Extend, 3),
                (Way::Brink, 3),
                (Way::Late, 3),
                (Way::Stale, 3),
                (Way::Crash, 3),
            ],
            rest: (5, 3),
            backlog: 2 * customers,
            ..Mix::plain(0, 4)
        }
    }

    /// The events of 60 customers, four of whom have most of them.
    pub fn tenants() -> Mix {
        Mix { flood: 75, lease: 1..=5, rest: (3, 8), backlog: 600, ..Mix::events(60) }
    }

    /// As many messages as possible, and a little of everything else.
    pub fn bulk() -> Mix {
        Mix {
            publishers: 1,
            bulk_publishers: 3,
            key_publishers: 1,
            group_publishers: 1,
            customers: 200,
            redrivers: 1,
            pausers: 0,
            consumers: 4,
            immediate: 60,
            delay: 2_000,
            padding: 30,
            ttl: 0,
            batch: 50..=100,
            lease: 100..=100,
            lease_ms: 4_000..=5_000,
            poison: 0,
            leave: 3,
            ways: &[
                (Way::AckAlong, 940),
                (Way::AckBatch, 20),
                (Way::NackBatch, 20),
                (Way::Stale, 10),
                (Way::Ack, 2),
                (Way::Release, 2),
                (Way::Extend, 2),
                (Way::Crash, 2),
                (Way::Late, 1),
                (Way::Kill, 1),
            ],
            rest: (10, 0),
            backlog: 20_000,
            ..Mix::varied()
        }
    }
}
