//! What is simulated, what anything costs, and what came of it. Costs were measured: 2 cores, Redis 7.0.15, loopback.

/// Redis CPU of a message's life (publish, lease, ack) by the size of the groups: the scripts as they are.
pub const LIFE: [(f64, f64); 7] =
    [(1., 56.), (2., 38.), (4., 21.), (8., 14.), (16., 12.), (32., 8.2), (64., 8.2)];
/// A lease that finds nothing, and leaves a mark: the script as it is.
pub const EMPTY_LEASE: f64 = 19.;
/// PUBLISH, and for each other node of the bus: `redis-benchmark -P 16` on clusters of 2 and 5 nodes took 3.5 and 7.4 µs of
/// the node that published, and 3.2 µs of every other.
pub const PUBLISH: f64 = 2.2;
pub const PUBLISH_PEER: f64 = 1.3;
pub const RECEIVE: f64 = 3.2;
/// A PUBLISH on the bus: the head of `clusterMsg` (cluster.h of Redis 7.0) and some words.
pub const BUS_BYTES: f64 = 2_300.;
/// Between an instance and a primary, one way: assumed, a network within one zone.
pub const HOP: f64 = 250.;
/// For how many waiters one lease call asks, and how many such calls go together: `src/longpoll`.
pub const WAITERS: usize = 64;
pub const LEASES: usize = 4;

/// What is simulated.
#[derive(Clone, Copy)]
pub struct Plan {
    pub primaries: usize,
    pub replicas: usize,
    pub partitions: usize,
    pub instances: usize,
    pub consumers: usize,
    /// Messages published a second, at all instances alike, at random times.
    pub rate: f64,
    /// Of them those whose key names their partition.
    pub keyed: f64,
    /// How long a consumer has a message, on average.
    pub work: f64,
    /// Wake-ups cross the whole bus, or only go to the primary's replicas (`SPUBLISH`).
    pub whole_bus: bool,
    /// The first primary is gone from here on, for so long.
    pub down: Option<(f64, f64)>,
    /// How long; the first fifth does not count.
    pub seconds: f64,
}

/// What came of it; rates a second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    pub granted: f64,
    /// Messages in a group of publishes, on average.
    pub group: f64,
    /// From the request to publish to the grant, ms.
    pub p50: f64,
    pub p99: f64,
    pub wakes: f64,
    /// Lease calls that found nothing.
    pub empty: f64,
    /// Bus traffic into one node, MB.
    pub bus: f64,
    /// How busy primaries are: on average, and the busiest.
    pub busy: f64,
    pub busiest: f64,
    /// Publishes refused because their primary was gone, and messages that waited there.
    pub refused: u64,
    pub held_up: u64,
}

/// Redis CPU of one operation, a third of a life, on a group of this size.
pub fn cost(size: usize) -> f64 {
    let size = size as f64;
    let above = LIFE.iter().position(|(known, _)| *known >= size).unwrap_or(LIFE.len() - 1);
    let ((low, from), (high, to)) = (LIFE[above.saturating_sub(1)], LIFE[above]);
    let part = if high > low { (size.min(high) - low) / (high - low) } else { 1. };
    size * (from + (to - from) * part) / 3.
}
