//! Counts a sender's calls under way and its messages that wait, by host.

use super::{
    parked::ParkedMessages,
    slots::{HostKey, Slots},
};
use dueq_store::Places;
use std::{cmp::Reverse, collections::HashMap};

/// Hosts that are counted, those with the most.
const MAX_COUNTED: usize = 2_000;

/// Counts calls and messages.
pub(super) fn places<M>(slots: &Slots<M>, parked: &ParkedMessages) -> HashMap<HostKey, Places> {
    let mut places: HashMap<&HostKey, Places> = HashMap::new();
    for (host, in_flight, waiting) in slots.places() {
        let (in_flight, waiting) = (in_flight as i64, waiting as i64);
        places.insert(host, Places { in_flight, waiting });
    }
    for (host, count) in parked.counts() {
        places.entry(host).or_default().waiting += count as i64;
    }
    let mut places: Vec<_> = places.into_iter().collect();
    if places.len() > MAX_COUNTED {
        places.sort_by_key(|(_, it)| Reverse(it.in_flight + it.waiting));
        places.truncate(MAX_COUNTED);
    }
    places.into_iter().map(|(host, places)| (host.clone(), places)).collect()
}
