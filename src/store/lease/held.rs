//! What a topic with `max_leased` counts: an entry in `held` for each lease, until when it counts. Leases that get another end,
//! or end, are noted here; those that begin in `limits`.

use super::limits::RESERVED_TIMEOUTS;
use crate::{
    error::Error,
    model::{LeaseClaims, MessageId, Millis},
    store::{
        Store,
        batch::{Command, Lanes},
        partition::Partition,
        registry::Topic,
        scripts,
    },
};
use std::sync::Arc;

/// How far (ms) a server's time as it is known here may be behind.
const CLOCK_BEHIND_MS: Millis = 1_000;

impl Topic {
    /// Is there an entry for each of its leases?
    fn counts_leases(&self) -> bool {
        self.settings.push.is_none() && self.settings.max_leased.is_some()
    }
}

impl Store {
    /// This lease is about to become so long (ms), if it is still held: it counts for as long. Should it turn out to be lost,
    /// `Lanes::release` takes that back.
    pub(in crate::store) async fn hold_longer(
        &self,
        id: MessageId,
        claims: &LeaseClaims,
        lease_ms: u64,
    ) {
        let until = |_: &Partition, now: Millis| now + lease_ms as Millis + CLOCK_BEHIND_MS;
        self.note_hold(id, claims, Some("GT"), until).await;
    }

    /// This lease ends then, sooner than may have been noted.
    pub(in crate::store) async fn hold_until(
        &self,
        id: MessageId,
        claims: &LeaseClaims,
        lease_expires_at: Millis,
    ) {
        let until = |there: &Partition, now: Millis| lease_expires_at + now - self.now_at(there);
        self.note_hold(id, claims, None, until).await;
    }

    /// Notes until when this lease is held, if its topic counts leases. `until` gets the lease's own partition and the time in
    /// the topic's first.
    async fn note_hold(
        &self,
        id: MessageId,
        claims: &LeaseClaims,
        only: Option<&str>,
        until: impl FnOnce(&Partition, Millis) -> Millis,
    ) {
        let Ok(partition) = self.partition_of(id).await else { return };
        if !partition.topic.counts_leases() {
            return;
        }
        let first = Partition::first(partition.topic.clone());
        let until = until(&partition, self.now_at(&first));
        let hold = Command::new("ZADD").arg((&first.keys.held, "XX")).arg(only);
        let hold = hold.arg(until).arg(entry(id, claims.attempt));
        if let Err(error) = self.lanes.command(hold).await {
            tracing::debug!(%id, ?error, "a lease's new end was not noted");
        }
    }

    /// The topic is about to have a limit that it has not, or has one no more: what was counted when it had one is over.
    pub(in crate::store) async fn forget_held(&self, topic: &Arc<Topic>) -> Result<(), Error> {
        let forget = Command::new("UNLINK").arg(&Partition::first(topic.clone()).keys.held);
        self.lanes.command(forget).await.map(drop).map_err(Error::from)
    }
}

impl Lanes {
    /// These leases (message and attempt) are about to end. Should this instance die before it has said that they have, they
    /// count for some seconds only.
    pub(in crate::store) async fn ending(&self, topic: &Arc<Topic>, leases: &[(MessageId, u32)]) {
        if !topic.counts_leases() || leases.is_empty() {
            return;
        }
        let first = Partition::first(topic.clone());
        let now = self.at_slot(first.slot, |node| node.backend.clock.now());
        let until = now.saturating_add(self.timeout.as_millis() as Millis * RESERVED_TIMEOUTS);
        let mut ending = Command::new("ZADD").arg((&first.keys.held, "XX", "LT"));
        for (id, attempt) in leases {
            ending = ending.arg(until).arg(entry(*id, *attempt));
        }
        // Where this is lost, so probably is what ends them.
        let _ = self.command(ending).await;
    }

    /// These leases (message and attempt) of the topic have ended. Where this is lost, they count until they would have ended
    /// by themselves.
    pub(in crate::store) async fn release(&self, topic: &Arc<Topic>, leases: &[(MessageId, u32)]) {
        if !topic.counts_leases() || leases.is_empty() {
            return;
        }
        let first = Partition::first(topic.clone());
        let mut release = Command::script(&scripts::HOLD_LEASES, &held_keys(&first));
        release = release.arg(("", "", leases.len()));
        for (id, attempt) in leases {
            release = release.arg(entry(*id, *attempt));
        }
        if let Err(error) = self.command(release).await {
            tracing::debug!(topic = %topic.name, ?error, "leases that have ended stay noted");
        }
    }
}

/// The entry of a grant.
pub(super) fn entry(id: MessageId, attempt: u32) -> Vec<u8> {
    [&id.member()[..], attempt.to_string().as_bytes()].concat()
}

pub(super) fn held_keys(partition: &Partition) -> [&str; 2] {
    [&partition.keys.meta, &partition.keys.held]
}
