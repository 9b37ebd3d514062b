//! Counts the slots in use: in all, by hosts that do not answer, and by address.

use super::Limits;
use dueq_model::{CallPlace, network};
use std::{collections::HashMap, net::IpAddr};

/// What is known of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HostState {
    /// It has not answered yet, it did not answer its last call, or its calls under way hang.
    pub silent: bool,
    /// It did not answer its last call, or its calls under way hang.
    pub failed: bool,
    /// The address, or network, that it was dialled at.
    pub address: Option<IpAddr>,
}

/// The slots in use at one address.
#[derive(Default)]
struct AddressUsage {
    in_flight: usize,
    silent: usize,
}

/// The slots in use.
#[derive(Default)]
pub(super) struct Usage {
    pub in_flight: usize,
    silent: usize,
    by_address: HashMap<IpAddr, AddressUsage>,
}

impl Usage {
    /// Returns what a host in this state that uses `slots` slots lacks for another; `None` if it may take one.
    pub fn lacks(&self, host: HostState, slots: usize, limits: Limits) -> Option<CallPlace> {
        let Limits { in_flight, per_host } = limits;
        let per_host = per_host.min(in_flight);
        let refuse = |may: bool, place| (!may).then_some(place);
        if slots >= limits.per_host {
            return Some(CallPlace::Host);
        }
        if self.in_flight >= in_flight {
            return Some(CallPlace::Total);
        }
        let at = host.address.and_then(|address| self.by_address.get(&address));
        if !host.silent {
            // Of those that answer, one address has at most half of the slots, or as many as one host may. Others there that do
            // not answer take nothing from them.
            let may = at.is_none_or(|at| at.in_flight - at.silent < per_host.max(in_flight / 2));
            return refuse(may, CallPlace::Address);
        }
        // Nor from the first call to a host, which shows whether it answers.
        let is_first = slots == 0 && !host.failed;
        // The other slots are for hosts that answer.
        let share = per_host.max(in_flight - in_flight / 4);
        let others = self.silent.saturating_sub(slots);
        let left = share.saturating_sub(others);
        refuse(self.silent < share, CallPlace::Total)
            .or(refuse(slots < (per_host * left).div_ceil(share), CallPlace::Host))
            .or_else(|| {
                let may = is_first || at.is_none_or(|at| at.silent < 4 * per_host);
                refuse(may, CallPlace::Address)
            })
    }

    /// Adds slots that a host in this state takes.
    pub fn take(&mut self, host: HostState, slots: usize) {
        let silent = if host.silent { slots } else { 0 };
        self.in_flight += slots;
        self.silent += silent;
        if let Some(address) = host.address.filter(|_| slots > 0) {
            let at = self.by_address.entry(address).or_default();
            at.in_flight += slots;
            at.silent += silent;
        }
    }

    /// Subtracts slots that a host in this state frees.
    pub fn release(&mut self, host: HostState, slots: usize) {
        let silent = if host.silent { slots } else { 0 };
        self.in_flight -= slots;
        self.silent -= silent;
        let Some(address) = host.address else { return };
        if let Some(at) = self.by_address.get_mut(&address) {
            at.in_flight -= slots;
            at.silent -= silent;
            if at.in_flight == 0 {
                self.by_address.remove(&address);
            }
        }
    }
}

/// Returns the address of a host that is given as one, as [`network`] counts it.
pub(super) fn ip_of(host: &str) -> Option<IpAddr> {
    let (host, _port) = host.rsplit_once(':')?;
    host.trim_matches(['[', ']']).parse().ok().map(network)
}
