//! One topic's room: the task that asks Redis for those who sit there.

use super::{WaitingRooms, alarm, hall::Turn};
use crate::{
    error::Error,
    model::{Millis, TopicName},
    store::{LeaseOutcome, Want},
};
use std::{sync::Arc, time::Duration};
use tokio::sync::Notify;

/// Should a wake-up ever be lost, this is how long it goes unnoticed.
const FALLBACK: Duration = Duration::from_secs(30);
/// The same while this instance is known to hear none.
const DEAF_FALLBACK: Duration = Duration::from_millis(500);
/// Redis may say for a while that what should be due by the estimate is not: it is asked this often.
const BLINK: Duration = Duration::from_millis(1);
/// While Redis is away, it is asked this often.
const RETRY: Duration = Duration::from_millis(250);

impl WaitingRooms {
    /// Serves a room until nobody sits there.
    pub(super) async fn serve(self, topic: TopicName, bell: Arc<Notify>) {
        loop {
            let turn = self.lock().claim(&topic);
            let asked = match turn {
                Turn::Ask(asked) => asked,
                Turn::Blocked => {
                    // Also while dueq stops: a claim ends soon, and this must not spin until then.
                    let _ = tokio::time::timeout(FALLBACK, bell.notified()).await;
                    continue;
                }
                Turn::Closed => return,
            };
            let wants: Vec<_> = asked.iter().map(|(_, want)| *want).collect();
            let next = match self.inner.store.lease_waiting(&topic, &wants).await {
                Ok(outcomes) => self.hand_out(&topic, &asked, outcomes),
                Err(error) => {
                    self.give_up(&asked);
                    Next::Retry(error)
                }
            };
            match next {
                Next::Ask => {}
                Next::SleepUntil(next) => self.sleep(&topic, &bell, next).await,
                Next::Retry(error) => {
                    tracing::debug!(%topic, %error, "waiting consumers cannot be served now");
                    tokio::select! {
                        () = tokio::time::sleep(RETRY) => {}
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
        asked: &[(u64, Want)],
        outcomes: Vec<Result<LeaseOutcome, Error>>,
    ) -> Next {
        let mut next_at = None;
        let (mut unmet, mut more, mut failed) = (false, false, None);
        let mut gone = Vec::new();
        let mut hall = self.lock();
        for ((number, _), outcome) in asked.iter().zip(outcomes) {
            let outcome = match outcome {
                Ok(outcome) => outcome,
                Err(error) => {
                    failed = Some(error);
                    hall.release(*number);
                    continue;
                }
            };
            next_at = outcome.next_at.or(next_at);
            more |= outcome.more;
            if outcome.grants.messages().is_empty() {
                unmet = true;
                hall.release(*number);
            } else {
                gone.extend(hall.grant(*number, outcome.grants).err());
            }
        }
        let again = !unmet || more || hall.is_empty(topic);
        if !again && failed.is_none() {
            hall.settle(topic);
        }
        drop(hall);
        // Returned messages are for whoever still sits here: their nack rings the bell.
        drop(gone);
        match failed {
            Some(error) => Next::Retry(error),
            None if again => Next::Ask,
            None => Next::SleepUntil(next_at),
        }
    }

    fn give_up(&self, asked: &[(u64, Want)]) {
        let mut hall = self.lock();
        asked.iter().for_each(|(number, _)| hall.release(*number));
    }

    /// Sleeps until `next` on Redis's clock, the bell, or the fallback finds that a wake-up was lost.
    async fn sleep(&self, topic: &TopicName, bell: &Notify, next: Option<Millis>) {
        loop {
            let fallback = if self.inner.store.hears_wakes() { FALLBACK } else { DEAF_FALLBACK };
            let until = match next.map(|next| self.inner.store.until(next)) {
                None => fallback,
                Some(Duration::ZERO) => BLINK,
                Some(until) => until,
            };
            tokio::select! {
                () = bell.notified() => return,
                () = self.closed() => return,
                () = alarm::sleep(until.min(fallback)) => {}
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

/// What a room's task does next.
enum Next {
    /// There may be more for those who still sit there.
    Ask,
    /// Nothing before this instant, as far as Redis knows.
    SleepUntil(Option<Millis>),
    /// Some could not be asked for.
    Retry(Error),
}
