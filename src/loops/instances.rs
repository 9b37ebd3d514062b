//! Says again and again that this instance runs, so that every instance can list all of them.

use dueq_store::{Registration, Store};
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Several of these fit into the time after which an instance counts as gone.
const NOTE_EVERY: Duration = Duration::from_secs(10);
/// Pause after an error of Redis.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Registers the instance until `stopping` is cancelled, then takes it back.
pub async fn register_instance(
    store: Store,
    instance: Arc<Registration>,
    stopping: CancellationToken,
) {
    while !stopping.is_cancelled() {
        let noted = store.note_instance(&instance).await;
        let pause = if noted.is_ok() { NOTE_EVERY } else { RETRY_INTERVAL };
        tokio::select! {
            () = sleep(pause) => {}
            () = stopping.cancelled() => {}
        }
    }
    if let Err(error) = store.forget_instance(&instance).await {
        tracing::debug!(%error, "the instance is listed for a minute more");
    }
}
