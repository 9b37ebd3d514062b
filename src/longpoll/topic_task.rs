//! The task of one topic: it asks Redis for those who wait.

use super::{LongPolls, timer, wait_list::Claim};
use crate::{
    error::Error,
    model::{Millis, TopicName},
    store::{LeaseOptions, LeaseOutcome},
};
use std::{sync::Arc, time::Duration};
use tokio::sync::Notify;

/// Should a wake-up ever be lost, this is how long it goes unnoticed.
const FALLBACK_INTERVAL: Duration = Duration::from_secs(30);
/// The same while this instance is known to hear none.
const DEAF_FALLBACK_INTERVAL: Duration = Duration::from_millis(500);
/// Redis may say for a while that what should be due by the estimate is not: it is asked this often.
const EARLY_INTERVAL: Duration = Duration::from_millis(1);
/// While Redis is away, it is asked this often.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

impl LongPolls {
    /// Serves a topic until nobody waits for it.
    pub(super) async fn serve(self, topic: TopicName, notify: Arc<Notify>) {
        loop {
            let claim = self.lock().claim(&topic);
            let asked = match claim {
                Claim::Ask(asked) => asked,
                Claim::Blocked => {
                    // Also while dueq stops: a claim ends soon, and this must not spin until then.
                    let _ = tokio::time::timeout(FALLBACK_INTERVAL, notify.notified()).await;
                    continue;
                }
                Claim::Empty => return,
            };
            let all: Vec<_> = asked.iter().map(|(_, options)| *options).collect();
            let next = match self.inner.store.lease_waiting(&topic, &all).await {
                Ok(outcomes) => self.hand_out(&topic, &asked, outcomes),
                Err(error) => {
                    self.give_up(&asked);
                    Next::Retry(error)
                }
            };
            match next {
                Next::Ask => {}
                Next::SleepUntil(next) => self.sleep(&topic, &notify, next).await,
                Next::Retry(error) => {
                    tracing::debug!(%topic, %error, "waiting consumers cannot be served now");
                    tokio::select! {
                        () = tokio::time::sleep(RETRY_INTERVAL) => {}
                        () = self.closed() => {}
                    }
                }
            }
        }
    }

    /// Gives each consumer what was granted for it. What was granted for one that is gone by now goes back by itself.
    fn hand_out(
        &self,
        topic: &TopicName,
        asked: &[(u64, LeaseOptions)],
        outcomes: Vec<Result<LeaseOutcome, Error>>,
    ) -> Next {
        let mut next_at = None;
        let (mut unmet, mut more, mut failed) = (false, false, None);
        let mut gone = Vec::new();
        let mut list = self.lock();
        for ((number, _), outcome) in asked.iter().zip(outcomes) {
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
                gone.extend(list.grant(*number, outcome.grants).err());
            }
        }
        let again = !unmet || more || list.is_empty(topic);
        if !again && failed.is_none() {
            list.settle(topic);
        }
        drop(list);
        // Returned messages are for whoever still waits: their nack wakes this task.
        drop(gone);
        match failed {
            Some(error) => Next::Retry(error),
            None if again => Next::Ask,
            None => Next::SleepUntil(next_at),
        }
    }

    fn give_up(&self, asked: &[(u64, LeaseOptions)]) {
        let mut list = self.lock();
        asked.iter().for_each(|(number, _)| list.release(*number));
    }

    /// Sleeps until `next` on Redis's clock, a notification, or until the fallback finds that a wake-up was lost.
    async fn sleep(&self, topic: &TopicName, notify: &Notify, next: Option<Millis>) {
        loop {
            let fallback = if self.inner.store.hears_wakes() {
                FALLBACK_INTERVAL
            } else {
                DEAF_FALLBACK_INTERVAL
            };
            let until = match next.map(|next| self.inner.store.until(next)) {
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
    /// There may be more for those who still wait.
    Ask,
    /// Nothing before this instant, as far as Redis knows.
    SleepUntil(Option<Millis>),
    /// Some could not be asked for.
    Retry(Error),
}
