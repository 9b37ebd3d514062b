//! Whoever is turned away without a key costs nothing, and could fill the disk with records of it. So of each peer, the first
//! refusal since the writer came by (once a second) is a record, and the others are summed up in one.

use super::super::guesses::network;
use crate::model::Instant;
use axum::http::StatusCode;
use serde::Serialize;
use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
};

/// Peers that are told apart. Those beyond share a sum without a peer.
const MAX_PEERS: usize = 1024;

/// Refusals of one kind that have no record of their own.
#[derive(Debug, Serialize)]
pub struct Sum {
    at: Instant,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<IpAddr>,
    outcome: String,
    count: u64,
}

/// The sums, by peer (in IPv6, the network of one client) and status.
#[derive(Debug, Default)]
pub struct Strangers(Mutex<HashMap<(Option<IpAddr>, StatusCode), Sum>>);

impl Strangers {
    /// Counts a refusal. Returns whether it is to have a record of its own.
    pub fn is_first(&self, peer: IpAddr, status: StatusCode, outcome: &str, at: Instant) -> bool {
        let mut sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let peer = Some(network(peer));
        let has_room = sums.len() < MAX_PEERS || sums.contains_key(&(peer, status));
        let peer = peer.filter(|_| has_room);
        let sum = sums.get_mut(&(peer, status));
        let is_first = peer.is_some() && sum.is_none();
        match sum {
            Some(sum) => sum.count += 1,
            None => {
                let (outcome, count) = (outcome.to_owned(), u64::from(!is_first));
                sums.insert((peer, status), Sum { at, peer, outcome, count });
            }
        }
        is_first
    }

    /// Takes the sums.
    pub fn take(&self) -> Vec<Sum> {
        let mut sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sums.drain().map(|(_, sum)| sum).filter(|sum| sum.count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_a_peer_has_a_record_and_memory_is_bounded() {
        let strangers = Strangers::default();
        let refuse = |peer: u32| {
            let peer = IpAddr::from(peer.to_be_bytes());
            strangers.is_first(peer, StatusCode::UNAUTHORIZED, "unauthorized", Instant(0))
        };
        assert_eq!([refuse(1), refuse(1), refuse(2), refuse(1)], [true, false, true, false]);
        let sums = strangers.take();
        assert_eq!((sums.len(), sums[0].count), (1, 2), "{sums:?}");
        assert!(refuse(1), "a new second");
        let own = (2..10_000).filter(|peer| refuse(*peer)).count();
        assert_eq!(own, MAX_PEERS - 1);
        let sums = strangers.take();
        assert_eq!((sums.len(), sums[0].peer), (1, None), "{sums:?}");
        assert_eq!(sums[0].count as usize, 10_000 - 2 - own);
    }
}
