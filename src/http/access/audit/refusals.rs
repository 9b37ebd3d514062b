//! Being refused costs nothing, and the records of it could fill the disk. So of each peer without a key, the first refusal
//! since the writer came by (once a second) is a record, of each key the first few, and the others are summed up in one.

use axum::http::StatusCode;
use dueq_model::{Instant, network};
use serde::Serialize;
use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
};

/// Peers that have sums of their own. Others share a sum without a peer.
const MAX_PEERS: usize = 64;
/// Records of a key's own.
const MAX_OF_KEY: u32 = 16;

/// Who was refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Who {
    /// A client without a key, at this address.
    Peer(IpAddr),
    /// The owner of the key with this name.
    Key(String),
}

/// Refusals of one kind that have no record of their own.
#[derive(Debug, Serialize)]
pub struct Sum {
    at: Instant,
    #[serde(flatten)]
    who: Option<Who>,
    outcome: String,
    #[serde(skip)]
    own: u32,
    count: u64,
}

/// The sums, by who it was (in IPv6, the network of one client) and status.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<HashMap<(Option<Who>, StatusCode), Sum>>);

impl Refusals {
    /// Counts a refusal. Returns whether it is to have a record of its own.
    pub fn has_own(&self, who: Who, status: StatusCode, outcome: &str, at: Instant) -> bool {
        let (who, most) = match who {
            Who::Peer(peer) => (Who::Peer(network(peer)), 1),
            key @ Who::Key(_) => (key, MAX_OF_KEY),
        };
        let mut sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = sums.len() < MAX_PEERS || matches!(who, Who::Key(_));
        let is_told_apart = has_room || sums.contains_key(&(Some(who.clone()), status));
        let who = Some(who).filter(|_| is_told_apart);
        let sum = sums.entry((who.clone(), status));
        let sum = sum.or_insert(Sum { at, who, outcome: outcome.to_owned(), own: 0, count: 0 });
        let has_own = is_told_apart && sum.own < most;
        sum.own += u32::from(has_own);
        sum.count += u64::from(!has_own);
        has_own
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

    fn refuse(refusals: &Refusals, who: Who) -> bool {
        refusals.has_own(who, StatusCode::UNAUTHORIZED, "unauthorized", Instant(0))
    }

    #[test]
    fn the_first_of_a_peer_has_a_record_and_memory_is_bounded() {
        let refusals = Refusals::default();
        let refuse = |peer: u32| refuse(&refusals, Who::Peer(peer.to_be_bytes().into()));
        assert_eq!([refuse(1), refuse(1), refuse(2), refuse(1)], [true, false, true, false]);
        let sums = refusals.take();
        assert_eq!((sums.len(), sums[0].count), (1, 2), "{sums:?}");
        assert!(refuse(1), "a new second");
        let own = (2..10_000).filter(|peer| refuse(*peer)).count();
        assert_eq!(own, MAX_PEERS - 1);
        let sums = refusals.take();
        assert_eq!((sums.len(), &sums[0].who), (1, &None), "{sums:?}");
        assert_eq!(sums[0].count as usize, 10_000 - 2 - own);
    }

    #[test]
    fn the_first_of_a_key_have_records_whatever_peers_there_are() {
        let refusals = Refusals::default();
        let peers = (0..100_u32).map(|peer| Who::Peer(peer.to_be_bytes().into()));
        assert_eq!(peers.filter(|who| refuse(&refusals, who.clone())).count(), MAX_PEERS);
        let own = (0..100).filter(|_| refuse(&refusals, Who::Key("shop".to_owned()))).count();
        assert_eq!(own as u32, MAX_OF_KEY);
        let sums = serde_json::to_value(refusals.take()).unwrap();
        let of = |count: u64| {
            sums.as_array().unwrap().iter().find(|sum| sum["count"] == count).unwrap().clone()
        };
        assert_eq!((&of(84)["key"], &of(84)["outcome"]), (&"shop".into(), &"unauthorized".into()));
        assert_eq!(of(36).as_object().unwrap().len(), 3, "{sums}");
    }
}
