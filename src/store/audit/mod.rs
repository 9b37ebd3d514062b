//! An audit: does what lies in Redis make sense? Every message in exactly one place, with a body; nothing next to the
//! messages that belongs to none (I8 of the guarantees); totals that agree with what is there (I9); and a registry whose
//! parts agree.
//!
//! It looks while the queue works: each script looks at some hundred members at most and is one instant, so what it says
//! is wrong was wrong then, and no lock is held and no keyspace scanned. Messages that come and go meanwhile are right at
//! every instant, and cause no false alarm. A repair mends each message in a script that looks at it once more.

mod finding;
#[cfg(test)]
#[path = "../../../tests/fuzz/audit.rs"]
mod fuzz;
mod leftovers;
mod scripts;
mod topics;
mod walk;

pub use finding::{Finding, Subject, escaped, quoted};

use crate::Store;
use dueq_model::error::Error;

/// How much an audit looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Audited {
    /// Topics.
    pub topics: u64,
    /// Messages.
    pub messages: i64,
}

/// An audit under way.
pub struct Audit<'a> {
    /// The queue.
    pub store: &'a Store,
    /// Whether what is found is mended.
    pub repair: bool,
    /// Where findings go.
    pub tell: &'a mut (dyn FnMut(Finding) + Send),
    /// Gets the number of members that were looked at since it was called last.
    pub progress: &'a mut (dyn FnMut(u64) + Send),
}

impl Audit<'_> {
    /// Looks at everything, tells what is wrong, and mends it if that is wished.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`, `Internal`; then the audit is not complete.
    pub async fn run(mut self) -> Result<Audited, Error> {
        let mut audited = Audited::default();
        for name in self.registry().await? {
            let topic = self.store.registry.look_up(&name).await?;
            let mut seen = false;
            for partition in topic.iter().flat_map(|topic| topic.all()) {
                if let Some(messages) = self.one(&partition.name()).await? {
                    seen = true;
                    audited.messages += messages;
                }
            }
            audited.topics += u64::from(seen);
        }
        Ok(audited)
    }
}
