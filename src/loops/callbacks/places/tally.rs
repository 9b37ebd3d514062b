//! How many places are taken: in all, by hosts that do not answer, and at each address.

use super::Limits;
use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
};

/// How a host stands, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// It has not answered yet, its last call was not answered, or what is under way hangs.
    pub silent: bool,
    /// Where it was dialled.
    pub address: Option<IpAddr>,
}

/// Places that are taken.
#[derive(Default)]
struct Taken {
    all: usize,
    silent: usize,
}

/// The places that are taken.
#[derive(Default)]
pub(super) struct Tally {
    pub in_flight: usize,
    silent: usize,
    by_address: HashMap<IpAddr, Taken>,
}

impl Tally {
    /// May a host that stands so, and has so many places, take another?
    pub fn has_room(&self, host: Standing, places: usize, limits: Limits) -> bool {
        let Limits { in_flight, per_host } = limits;
        let per_host = per_host.min(in_flight);
        if places >= per_host || self.in_flight >= in_flight {
            return false;
        }
        let at = host.address.and_then(|address| self.by_address.get(&address));
        // Many hosts may be behind one address, but never so many that others find no place.
        if at.is_some_and(|at| at.all >= per_host.max(in_flight / 2)) {
            return false;
        }
        if !host.silent {
            return true;
        }
        // The rest is for those who answer.
        let share = per_host.max(in_flight - in_flight / 4);
        let others = self.silent.saturating_sub(places);
        let left = share.saturating_sub(others);
        self.silent < share
            && places < (per_host * left).div_ceil(share)
            && at.is_none_or(|at| at.silent < 4 * per_host)
    }

    /// A host that stands so takes so many places.
    pub fn take(&mut self, host: Standing, places: usize) {
        let silent = if host.silent { places } else { 0 };
        self.in_flight += places;
        self.silent += silent;
        if let Some(address) = host.address.filter(|_| places > 0) {
            let taken = self.by_address.entry(address).or_default();
            taken.all += places;
            taken.silent += silent;
        }
    }

    /// It gives them back.
    pub fn give_back(&mut self, host: Standing, places: usize) {
        let silent = if host.silent { places } else { 0 };
        self.in_flight -= places;
        self.silent -= silent;
        let Some(address) = host.address else { return };
        if let Some(taken) = self.by_address.get_mut(&address) {
            taken.all -= places;
            taken.silent -= silent;
            if taken.all == 0 {
                self.by_address.remove(&address);
            }
        }
    }
}

/// The address of a host that is named by it.
pub(super) fn literal(host: &str) -> Option<IpAddr> {
    let (host, _port) = host.rsplit_once(':')?;
    host.trim_matches(['[', ']']).parse().ok().map(owner)
}

/// Whom an address belongs to: of IPv6 one owner mostly has a whole network of 2^64.
pub(super) fn owner(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from(u128::from(ip) >> 64 << 64).into(),
        v4 => v4,
    }
}
