//! Whether a server can be used, for people: one line in the log when it cannot any more, one when it can again, and the
//! cause for `/readyz`. A server that takes no writes still answers some calls, so an outage is over once it has taken a
//! write that it would refuse for any cause: see `Backend::probe`.

use crate::reply::code;
use deadpool_redis::redis::ServerError;
use parking_lot::Mutex;
use std::time::Instant;

/// The cause of an outage in which a call is sent and not answered.
pub const SILENT: &str = "it does not answer in time";

/// What an error reply says of the server, in words.
pub fn cause(error: &ServerError) -> String {
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
pub struct Outage(Mutex<Option<Trouble>>);

struct Trouble {
    cause: String,
    since: Instant,
    /// When the latest call failed.
    seen: Instant,
}

impl Outage {
    /// Notes why a call to the server at this address failed.
    pub fn note(&self, address: impl FnOnce() -> String, cause: String) {
        let (mut trouble, now) = (self.0.lock(), Instant::now());
        let since = trouble.as_ref().map(|trouble| trouble.since);
        if since.is_none() {
            tracing::warn!(address = address(), cause, "Redis cannot be used");
        }
        *trouble = Some(Trouble { cause, since: since.unwrap_or(now), seen: now });
    }

    /// A write was taken that was sent then.
    pub fn end(&self, address: impl FnOnce() -> String, sent: Instant) {
        if let Some(over) = self.0.lock().take_if(|trouble| trouble.seen < sent) {
            let seconds = over.since.elapsed().as_secs();
            tracing::info!(address = address(), seconds, "Redis can be used again");
        }
    }

    /// Why the latest call failed, while there is an outage.
    pub fn cause(&self) -> Option<String> {
        self.0.lock().as_ref().map(|trouble| trouble.cause.clone())
    }

    /// When the outage began, while there is one.
    pub fn since(&self) -> Option<Instant> {
        self.0.lock().as_ref().map(|trouble| trouble.since)
    }
}
