//! The task of one topic, which leases messages on behalf of the topic's waiters.

use super::{LongPolls, timer, wait_list::Claim};
use dueq_model::{Millis, TopicName, error::Error};
use dueq_store::{LeaseMode, LeaseOptions, LeaseOutcome};
use std::{sync::Arc, time::Duration};
use tokio::sync::Notify;

/// How often a sleeping task checks for lost wake-ups.
const FALLBACK_INTERVAL: Duration = Duration::from_secs(60);
/// The same while this instance cannot receive wake-ups.
const UNSUBSCRIBED_FALLBACK_INTERVAL: Duration = Duration::from_millis(500);
/// How often to ask Redis for a message that should be due by the estimate of its clock, but is not yet.
const EARLY_INTERVAL: Duration = Duration::from_millis(1);
/// Pause after an error of Redis.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

impl LongPolls {
    /// Serves a topic until it has no waiters.
    pub(super) async fn serve(self, topic: TopicName, notify: Arc<Notify>) {
        loop {
            let claim = self.lock().claim(&topic);
            let claimed = match claim {
                Claim::Claimed(claimed) => claimed,
                Claim::Blocked => {
                    // This does not end early when dueq stops: it would spin until the claim ends, which is soon.
                    let _ = tokio::time::timeout(FALLBACK_INTERVAL, notify.notified()).await;
                    continue;
                }
                Claim::Empty => return,
            };
            let all: Vec<_> = claimed.iter().map(|(_, options)| *options).collect();
            let next = match self.inner.store.lease(&topic, &all, LeaseMode::Waiting).await {
                Ok(outcomes) => self.hand_out(&topic, &claimed, outcomes),
                Err(error) => {
                    self.release_all(&claimed);
                    Next::Retry(error)
                }
            };
            match next {
                Next::Lease => {}
                Next::SleepUntil(next) => self.sleep(&topic, &notify, next).await,
                Next::Retry(error) => {
                    tracing::debug!(%topic, %error, "lease for waiting consumers failed");
                    tokio::select! {
                        () = tokio::time::sleep(RETRY_INTERVAL) => {}
                        () = self.closed() => {}
                    }
                }
            }
        }
    }

    /// Gives each consumer its grants. Grants for a consumer that is gone return to the queue when they are dropped.
    fn hand_out(
        &self,
        topic: &TopicName,
        claimed: &[(u64, LeaseOptions)],
        outcomes: Vec<Result<LeaseOutcome, Error>>,
    ) -> Next {
        let mut next_at = None;
        let (mut unmet, mut more, mut failed) = (false, false, None);
        let mut undelivered = Vec::new();
        let mut list = self.lock();
        for ((number, _), outcome) in claimed.iter().zip(outcomes) {
            let outcome = match outcome {
                Ok(outcome) => outcome,
                Err(error) => {
                    failed = Some(error);
                    list.release(*number);
                    continue;
                }
            };
            next_at = outcome.next_at.or(next_at);
            more |= outcome.more;
            if outcome.grants.messages().is_empty() {
                unmet = true;
                list.release(*number);
            } else {
                undelivered.extend(list.grant(*number, outcome.grants).err());
            }
        }
        let again = !unmet || more || list.is_empty(topic);
        if !again && failed.is_none() {
            list.settle(topic);
        }
        drop(list);
        // Other waiters may take the returned messages: their nack wakes this task.
        drop(undelivered);
        match failed {
            Some(error) => Next::Retry(error),
            None if again => Next::Lease,
            None => Next::SleepUntil(next_at),
        }
    }

    fn release_all(&self, claimed: &[(u64, LeaseOptions)]) {
        let mut list = self.lock();
        claimed.iter().for_each(|(number, _)| list.release(*number));
    }

    /// Sleeps until `next` on Redis's clock, until a notification, or until the fallback finds a lost wake-up.
    async fn sleep(&self, topic: &TopicName, notify: &Notify, next: Option<Millis>) {
        loop {
            let fallback = if self.inner.store.hears_wakes() {
                FALLBACK_INTERVAL
            } else {
                UNSUBSCRIBED_FALLBACK_INTERVAL
            };
            let until = match next.map(|next| self.inner.store.until(topic, next)) {
                None => fallback,
                Some(Duration::ZERO) => EARLY_INTERVAL,
                Some(until) => until,
            };
            tokio::select! {
                () = notify.notified() => return,
                () = self.closed() => return,
                () = timer::sleep(until.min(fallback)) => {}
            }
            if until <= fallback && next.is_some() {
                return;
            }
            match self.inner.store.has_news(topic, next).await {
                Ok(false) => {}
                Ok(true) | Err(_) => return,
            }
        }
    }
}

/// What the task does next.
enum Next {
    /// Lease again: there may be more messages for the remaining waiters.
    Lease,
    /// Sleep until this time, when the next known message falls due.
    SleepUntil(Option<Millis>),
    /// Retry after a pause: the lease failed for some waiters.
    Retry(Error),
}
