//! Whether a server can be used, for people: one line in the log when it cannot any more, one when it can again, and the
//! cause for `/readyz`.

use super::reply::code;
use deadpool_redis::redis::ServerError;
use std::{
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// An outage is over once a call was answered, and none has failed for so long. A server that takes no writes still answers
/// some calls; the loops of every instance write more often than that.
const QUIET: Duration = Duration::from_secs(5);

/// The cause of an outage in which a call is sent and not answered.
pub(crate) const SILENT: &str = "it does not answer in time";

/// What an error reply says of the server, in words.
pub(crate) fn cause(error: &ServerError) -> String {
    let words = match code(error) {
        "LOADING" => "it is loading its data into memory",
        "READONLY" => "it is a read-only replica",
        "MASTERDOWN" => "it is a replica that has lost its primary",
        "NOREPLICAS" => "it has too few replicas to take writes (min-replicas-to-write)",
        "MISCONF" => "it takes no writes because it cannot save them to its disk",
        "BUSY" => "it is busy with a script",
        "OOM" => "its memory is full (maxmemory)",
        "CLUSTERDOWN" => "its Cluster is down",
        _ => return error.to_string(),
    };
    words.to_owned()
}

/// What is known of a server's troubles.
#[derive(Default)]
pub(crate) struct Outage {
    /// Whether there is one: looked at with every reply.
    is_on: AtomicBool,
    trouble: Mutex<Option<Trouble>>,
}

struct Trouble {
    cause: String,
    since: Instant,
    /// When the latest call failed.
    seen: Instant,
}

impl Outage {
    /// Notes why a call to the server at this address failed.
    pub fn note(&self, address: impl FnOnce() -> String, cause: String) {
        let (mut trouble, now) = (self.trouble(), Instant::now());
        let since = trouble.as_ref().map(|trouble| trouble.since);
        if since.is_none() {
            tracing::warn!(address = address(), cause, "Redis cannot be used");
        }
        *trouble = Some(Trouble { cause, since: since.unwrap_or(now), seen: now });
        self.is_on.store(true, Ordering::Relaxed);
    }

    /// A call was answered.
    pub fn answered(&self, address: impl FnOnce() -> String) {
        if !self.is_on.load(Ordering::Relaxed) {
            return;
        }
        let mut trouble = self.trouble();
        if let Some(over) = trouble.take_if(|trouble| trouble.seen.elapsed() >= QUIET) {
            self.is_on.store(false, Ordering::Relaxed);
            let seconds = (over.seen - over.since).as_secs();
            tracing::info!(address = address(), seconds, "Redis can be used again");
        }
    }

    /// Why the latest call failed, while there is an outage.
    pub fn cause(&self) -> Option<String> {
        self.trouble().as_ref().map(|trouble| trouble.cause.clone())
    }

    fn trouble(&self) -> MutexGuard<'_, Option<Trouble>> {
        self.trouble.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
