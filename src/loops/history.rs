//! Keeps the history of topics: reports what this instance did, and notes partitions for all (see `store::history`).

use dueq_model::error::Error;
use dueq_store::{Active, Store};
use std::{convert::Infallible, time::Duration};
use tokio::time::sleep;

/// Reports of all instances arrive before this; then partitions are claimed.
const REPORTS_TAKE: Duration = Duration::from_secs(1);
/// Between two partitions, so that history leaves Redis to those who wait for it.
const MIN_PAUSE: Duration = Duration::from_millis(2);

/// Runs until the future is dropped.
pub async fn keep_history(store: Store) -> Infallible {
    loop {
        sleep(store.until_history()).await;
        if let Err(error) = store.report_activity().await {
            tracing::debug!(%error, "what happened is reported the next time");
        }
        sleep(REPORTS_TAKE).await;
        if let Err(error) = note_claimed(&store).await {
            tracing::debug!(%error, "history is noted the next time");
        }
    }
}

/// Notes all partitions whose step is over and that no other instance notes.
async fn note_claimed(store: &Store) -> Result<(), Error> {
    loop {
        let claimed = store.claim_history().await?;
        let (mut noted, mut failed): (Vec<&Active>, Vec<&Active>) = Default::default();
        for active in &claimed.partitions {
            match store.note_history(active).await {
                Ok(()) => noted.push(active),
                // What happened is noted once Redis has room, or is there again.
                Err(Error::RedisUnavailable) => failed.push(active),
                Err(error) => {
                    tracing::debug!(partition = %active.name, %error, "history was not noted");
                }
            }
            sleep(MIN_PAUSE).await;
        }
        store.finish_history(&claimed, &noted, &failed).await?;
        if !claimed.more || !failed.is_empty() {
            return Ok(());
        }
    }
}
