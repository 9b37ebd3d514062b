//! Leasing messages.

use super::{
    Store, failed,
    grants::{Grants, Home},
    lease::{Lease, Leased, Want},
    patience::Patience,
    reply::{CallError, int},
};
use crate::{
    error::Error,
    model::{Millis, TopicName},
};
use deadpool_redis::redis::{Value, cmd};
use std::{sync::Arc, time::Instant};

/// What `lease.lua` writes when consumers sleep for whatever comes.
const FOREVER: Millis = 1 << 53;

/// What a want got.
pub struct LeaseOutcome {
    /// The messages, none where nothing was ready.
    pub grants: Grants,
    /// When something next happens in the topic by itself; only told to a caller who waits.
    pub next_at: Option<Millis>,
    /// Nothing was granted only because the call reached its bounds: ask again at once.
    pub more: bool,
}

impl LeaseOutcome {
    fn nothing(more: bool) -> Self {
        Self { grants: Grants::default(), next_at: None, more }
    }
}

impl Store {
    fn home(&self) -> Home {
        Home { lanes: Arc::downgrade(&self.lanes), registry: Arc::downgrade(&self.registry) }
    }

    /// Grants what is ready, as much as wanted. With `waits`, publishers will wake this instance when there is
    /// something new before `next_at`. A topic that does not exist has nothing. What takes many calls, since much has
    /// expired, ends at `until` with what there is by then.
    ///
    /// Errors: `TopicIsPushed`, and where dueq itself asks `TopicNotPushed`; `RedisUnavailable`; `OutcomeUnknown` when
    /// messages may have been granted, which come back after their lease.
    pub async fn lease(
        &self,
        name: &TopicName,
        want: Want,
        waits: bool,
        until: Instant,
    ) -> Result<LeaseOutcome, Error> {
        let mut outcome = LeaseOutcome::nothing(false);
        let mut left = want;
        let mut patience = Patience::new(self.lanes.timeout);
        loop {
            let topic = self.registry.find(&self.lanes, name).await.map_err(failed)?;
            let Some(topic) = topic else { return Ok(outcome) };
            if let Some(refusal) = topic.refuses(&want) {
                // What was granted before is the consumer's all the same.
                if !outcome.grants.messages().is_empty() {
                    return Ok(outcome);
                }
                self.confirm(&topic, refusal).await?;
                continue;
            }
            let begun = !outcome.grants.messages().is_empty();
            let lease = Lease { want: left, begun, waits, home: self.home() };
            let leased = match self.lanes.submit(&topic, lease).await {
                Ok(leased) => leased,
                Err(CallError::Stale) if patience.another().await => {
                    self.refresh(&topic).await?;
                    continue;
                }
                // What was granted before the failure is the consumer's all the same.
                Err(_) if begun => return Ok(outcome),
                Err(error) => return Err(failed(error)),
            };
            let got = leased.grants.messages().len() as u64;
            let bytes: u64 = leased.grants.messages().iter().map(|m| m.payload_bytes).sum();
            outcome.grants.append(leased.grants);
            outcome.next_at = leased.next_at;
            left.max_messages -= got;
            left.max_bytes = left.max_bytes.saturating_sub(bytes);
            outcome.more = leased.more && left.max_messages > 0;
            // A call is bounded, so a want may take several. One that has nothing yet was crowded out by those before it
            // in the same call; one that has something, and got no more, leaves the rest to others.
            let met = left.max_messages == 0 || left.max_bytes == 0;
            let late = (got == 0 || leased.cleared) && Instant::now() >= until;
            if !leased.more || met || (begun && got == 0) || late {
                return Ok(outcome);
            }
        }
    }

    /// Asks for consumers who wait, oldest first: one outcome for each want. Each gets what one call grants.
    ///
    /// Errors: as for [`Store::lease`]; what some were granted is delivered even where others' answers were lost.
    pub async fn lease_waiting(
        &self,
        name: &TopicName,
        wants: &[Want],
    ) -> Result<Vec<Result<LeaseOutcome, Error>>, Error> {
        let mut topic = self.registry.find(&self.lanes, name).await.map_err(failed)?;
        let mut patience = Patience::new(self.lanes.timeout);
        while patience.another().await {
            let Some(known) = &topic else {
                return Ok(wants.iter().map(|_| Ok(LeaseOutcome::nothing(false))).collect());
            };
            let home = self.home();
            let lease =
                |want: &Want| Lease { want: *want, begun: false, waits: true, home: home.clone() };
            // It may have become pushed, or is it no more, while they waited: then there is nothing here for them.
            let fits = |want: &&Want| known.refuses(want).is_none();
            let fitting = wants.iter().filter(fits).map(|want| (known.clone(), lease(want)));
            let answers = self.lanes.submit_many(fitting).await;
            if answers.iter().any(|answer| matches!(answer, Err(CallError::Stale))) {
                self.refresh(known).await?;
                topic = self.registry.find(&self.lanes, name).await.map_err(failed)?;
                continue;
            }
            let outcome = |answer: Result<Leased, CallError>| match answer {
                Ok(Leased { grants, next_at, more, .. }) => {
                    Ok(LeaseOutcome { grants, next_at, more })
                }
                Err(error) => Err(failed(error)),
            };
            let mut answers = answers.into_iter();
            let each = |want: &Want| match known.refuses(want) {
                None => answers.next().map_or_else(|| Ok(LeaseOutcome::nothing(false)), outcome),
                Some(_) => Ok(LeaseOutcome::nothing(false)),
            };
            return Ok(wants.iter().map(each).collect());
        }
        // It changes all the time.
        Err(failed(CallError::Stale))
    }

    /// Did something happen in the topic that consumers who sleep until `next` should have been woken for?
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn has_news(&self, name: &TopicName, next: Option<Millis>) -> Result<bool, Error> {
        let topic = self.registry.find(&self.lanes, name).await.map_err(failed)?;
        let Some(topic) = topic else { return Ok(false) };
        let mut mark = cmd("HGET");
        mark.arg(&topic.keys.meta).arg("sleep");
        let mark = match self.lanes.command(mark).await.map_err(failed)? {
            // The topic came into being after they were asked for.
            Value::Nil => 0,
            mark => int(mark).map_err(failed)?,
        };
        Ok(mark < next.unwrap_or(Millis::MAX).min(FOREVER))
    }
}
