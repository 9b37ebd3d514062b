//! What instances tell each other of hosts: which are paused, and how the calls to each go (see `store::hosts`).

use dueq_longpoll::LongPolls;
use dueq_store::Store;
use std::{convert::Infallible, time::Duration};
use tokio::time::sleep;

/// How often how calls go is written down.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);
/// How often to check which hosts are paused, for a notification that was lost.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// The same while there are no notifications, or after an error.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Keeps the paused hosts known. Runs until the future is dropped.
pub(super) async fn follow_paused_hosts(store: &Store, polls: &LongPolls) -> Infallible {
    let mut changes = polls.pushed();
    loop {
        changes.mark_unchanged();
        let read = store.read_paused_hosts().await;
        let is_told = read.is_ok() && store.hears_wakes();
        let pause = if is_told { CHECK_INTERVAL } else { RETRY_INTERVAL };
        tokio::select! {
            _ = changes.changed() => {}
            () = sleep(pause) => {}
        }
    }
}

/// Writes down again and again how calls go. Runs until the future is dropped.
pub(super) async fn report_hosts(store: &Store) -> Infallible {
    loop {
        if let Err(error) = store.report_hosts().await {
            tracing::debug!(%error, "how calls to hosts go is written down the next time");
        }
        sleep(REPORT_INTERVAL).await;
    }
}
