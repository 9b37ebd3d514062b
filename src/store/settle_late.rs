//! settle_late: a holder whose lease has ended deletes its message or puts it off, as long as nobody else was granted it. Where
//! the lease holds, `ack` and `extend` do that, and pay nothing for this.

use super::{
    Store,
    batch::Command,
    partition::Partition,
    reply::{CallError, Reply, malformed},
    scripts,
};
use dueq_model::{LeaseClaims, MessageId, Millis, error::Error};

impl Store {
    /// Deletes the message whose last grant was this, or has it due after `delay_ms`. Returns whether it did; where it did not,
    /// the message is gone, or somebody else was granted it.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn settle_late(
        &self,
        id: MessageId,
        claims: &LeaseClaims,
        delay_ms: Option<Millis>,
    ) -> Result<bool, Error> {
        let settle = |partition: &Partition| {
            let settle = Command::on(&scripts::SETTLE_LATE, partition);
            let settle = settle.arg((&id.member()[..], claims.attempt));
            let settle = settle.arg(format!("epoch:{}", claims.epoch));
            let settle = settle.arg(delay_ms.map(|delay| delay.to_string()).unwrap_or_default());
            let deletes = delay_ms.is_none();
            settle.read(partition, move |reply| read_settled(reply, deletes))
        };
        match self.on(id, settle).await {
            Ok((_, done)) => Ok(done),
            Err(Error::MessageNotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// What a token says, unless it is forged, or Redis was never met.
    pub fn claims_of(&self, id: &MessageId, token: &str) -> Option<LeaseClaims> {
        self.open(id, token)
    }
}

pub(super) fn read_settled(reply: &mut Reply<'_>, deletes: bool) -> Result<bool, CallError> {
    match reply.word() {
        Some("OK") => {
            if deletes {
                reply.topic().counters.deleted.inc();
            }
            Ok(true)
        }
        Some("NONE" | "OTHER") => Ok(false),
        _ => Err(malformed(&reply.whole)),
    }
}
