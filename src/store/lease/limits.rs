//! Limits that all consumers of a topic keep together: how many messages are leased at once, and how many are granted a
//! second. Both are counted in the topic's first partition, whichever partition a message lies in, so that they hold exactly
//! over all partitions and instances. Topics without such limits pay nothing.
//!
//! A lease reserves what it may be granted, and notes afterwards what it was: each grant has an entry in `held` until it is
//! acknowledged or given back, or its lease ends. An entry names the attempt too: whoever ends a lease late does not end the
//! next one.
//!
//! Whoever dies between the two, or never hears what was granted, leaves reservations that end after some seconds. What was
//! granted under them reached nobody, so that consumers never have more than the limit; it is leased until its lease ends.
//! An entry whose lease is about to be ended gets as short a life first, in case that nobody lives to remove it.

use super::{
    LeaseOutcome,
    held::{entry, held_keys},
};
use crate::{
    error::Error,
    model::{Millis, TopicName},
    store::{
        Store,
        batch::{Command, GROUP_MESSAGES},
        grants::LeaseOptions,
        partition::Partition,
        random_bytes,
        registry::Topic,
        reply::{CallError, Reply},
        scripts,
    },
};
use std::{sync::Arc, time::Instant};

/// What leases that one consumer or many ask for may be granted.
struct Allowed {
    /// How many messages.
    messages: u64,
    /// How many leases are reserved.
    reserved: u64,
    /// What the reservations are called, before their number.
    name: String,
    /// Calls taken from the rate.
    taken: u64,
    /// When there may be more, if that is less than was asked for and can be known.
    next_at: Option<Millis>,
}

type Outcomes = Vec<Result<LeaseOutcome, Error>>;

impl Topic {
    /// Do all consumers keep a limit together?
    pub(crate) fn is_limited(&self) -> bool {
        let settings = &self.settings;
        settings.push.is_none() && (settings.max_leased.is_some() || settings.rate_per_s.is_some())
    }
}

impl Store {
    /// Do acks have to be answered before a lease of these topics is asked for, as far as is known? They make room for it
    /// where consumers keep a limit together, and let the next messages of groups go.
    pub async fn acks_come_first(&self, names: &[TopicName]) -> bool {
        for name in names {
            if let Ok(Some(topic)) = self.registry.find(name).await
                && (topic.is_limited() || topic.settings.grouped)
            {
                return true;
            }
        }
        false
    }

    /// As [`Store::lease`]. It is carried out to its end even if nobody waits for the answer any more, so that nothing stays
    /// reserved.
    pub(super) async fn lease_limited(
        &self,
        topic: Arc<Topic>,
        options: LeaseOptions,
        waits: bool,
        until: Instant,
    ) -> Result<LeaseOutcome, Error> {
        let store = self.clone();
        let leased = tokio::spawn(async move {
            let lease = async |some: Vec<LeaseOptions>| {
                let topic = topic.clone();
                Ok(vec![match topic.is_split() {
                    true => store.lease_split(topic, some[0], until).await,
                    false => {
                        let first = Partition::first(topic);
                        store.lease_from(first, some[0], false, waits, until).await
                    }
                }])
            };
            store.limited(&topic, &[options], lease).await
        });
        let outcomes = leased.await.map_err(|_| Error::Internal)??;
        outcomes.into_iter().next().unwrap_or(Err(Error::Internal))
    }

    /// As [`Store::lease_waiting`].
    pub(super) async fn lease_waiting_limited(
        &self,
        topic: Arc<Topic>,
        all: &[LeaseOptions],
    ) -> Result<Outcomes, Error> {
        let lease = async |some: Vec<LeaseOptions>| match topic.is_split() {
            true => self.lease_waiting_split(&topic, &some).await,
            false => self.lease_waiting_from(Partition::first(topic.clone()), &some).await,
        };
        self.limited(&topic, all, lease).await
    }

    /// Lets `lease` ask for as much of what `all` want, oldest first, as the topic's limits allow.
    async fn limited(
        &self,
        topic: &Arc<Topic>,
        all: &[LeaseOptions],
        lease: impl AsyncFnOnce(Vec<LeaseOptions>) -> Result<Outcomes, Error>,
    ) -> Result<Outcomes, Error> {
        let allowed = match self.allow(topic, all).await {
            Err(Error::TopicNotFound) => return Ok(none(all.len())),
            allowed => allowed?,
        };
        let mut left = allowed.messages;
        let some = all.iter().map_while(|options| {
            let max_messages = options.max_messages.min(left);
            left -= max_messages;
            (max_messages > 0).then_some(LeaseOptions { max_messages, ..*options })
        });
        let some: Vec<_> = some.collect();
        let leased = if some.is_empty() { Ok(Vec::new()) } else { lease(some).await };
        let asked: u64 = all.iter().map(|options| options.max_messages).sum();
        let noted = self.settle(topic, &allowed, asked, &leased).await;
        let mut outcomes = leased?;
        let granted: usize =
            outcomes.iter().flatten().map(|outcome| outcome.grants.messages().len()).sum();
        if granted > 0 && !noted {
            // It goes back, since it would not be counted.
            return Err(Error::OutcomeUnknown);
        }
        outcomes.extend(none(all.len() - outcomes.len()));
        if granted as u64 == allowed.messages {
            // What is left there has to wait for the limit, or for another call where only that was too small.
            for outcome in outcomes.iter_mut().flatten() {
                outcome.next_at = allowed.next_at;
                outcome.more |= allowed.next_at.is_none() && asked > allowed.messages;
            }
        }
        Ok(outcomes)
    }

    /// Reserves what the limits allow of what `all` want.
    async fn allow(&self, topic: &Arc<Topic>, all: &[LeaseOptions]) -> Result<Allowed, Error> {
        let asked: u64 = all.iter().map(|options| options.max_messages).sum();
        let asked = asked.min(GROUP_MESSAGES as u64);
        let name = hex::encode(random_bytes());
        let mut allowed = Allowed { messages: asked, reserved: 0, name, taken: 0, next_at: None };
        if topic.settings.max_leased.is_some() {
            let lifetime = self.lanes.timeout.as_millis() as Millis * RESERVED_TIMEOUTS;
            let reserve = |partition: &Partition| {
                let most = partition.topic.settings.max_leased.unwrap_or(i64::MAX);
                let reserve = Command::script(&scripts::RESERVE_LEASES, &held_keys(partition));
                let reserve = reserve.arg(&partition.topic.word).arg((asked, most, lifetime));
                reserve.arg(&allowed.name).read(partition, read_reserved)
            };
            let (_, (reserved, next_at)) = self.on(&topic.name, reserve).await?;
            (allowed.messages, allowed.reserved, allowed.next_at) = (reserved, reserved, next_at);
        }
        if let Some(rate) = topic.settings.rate_per_s
            && allowed.messages > 0
        {
            match self.take_calls(&topic.name, rate, allowed.messages as i64).await {
                Ok(taken) => {
                    if taken.calls < allowed.messages {
                        let now = self.now_at(&Partition::first(topic.clone()));
                        allowed.next_at = Some(now.saturating_add(taken.next_ms));
                    }
                    (allowed.messages, allowed.taken) = (taken.calls, taken.calls);
                }
                Err(error) => {
                    self.settle(topic, &allowed, 0, &Ok(Vec::new())).await;
                    return Err(error);
                }
            }
        }
        Ok(allowed)
    }

    /// Notes what was granted, and gives back what was not. What may have been granted stays reserved; so does all where this
    /// fails: then false.
    async fn settle(
        &self,
        topic: &Arc<Topic>,
        allowed: &Allowed,
        asked: u64,
        leased: &Result<Outcomes, Error>,
    ) -> bool {
        let mut noted = true;
        let outcomes = leased.as_deref().unwrap_or_default();
        let is_known = |outcome: &Result<LeaseOutcome, Error>| match outcome {
            Ok(outcome) => outcome.failed.is_none(),
            Err(error) => *error != Error::OutcomeUnknown,
        };
        let known = !matches!(leased, Err(Error::OutcomeUnknown)) && outcomes.iter().all(is_known);
        let granted = || outcomes.iter().flatten().flat_map(|outcome| outcome.grants.messages());
        let count = granted().count() as u64;
        if allowed.reserved > 0 {
            let over = if known { allowed.reserved } else { count };
            let wants_more = count > 0 && count == allowed.reserved && count < asked;
            let hold = |partition: &Partition| {
                if partition.topic.number != topic.number {
                    // Made anew: nothing of this counts there.
                    let nothing = Command::script(&scripts::HOLD_LEASES, &held_keys(partition));
                    return nothing.arg(("", "", 0)).read(partition, |reply| reply.expect("OK"));
                }
                let most = partition.topic.settings.max_leased.filter(|_| wants_more);
                let most = most.map(|most| most.to_string()).unwrap_or_default();
                let hold = Command::script(&scripts::HOLD_LEASES, &held_keys(partition));
                let mut hold = hold.arg((&partition.topic.word, most, over));
                for n in 1..=over {
                    hold = hold.arg(format!("{}{n}", allowed.name));
                }
                let here = self.now_at(partition);
                for message in granted() {
                    let there = Partition::holding(&partition.topic, message.id);
                    let ahead = here - self.now_at(&there);
                    hold = hold.arg(message.lease_expires_at + ahead);
                    hold = hold.arg(entry(message.id, message.claims.attempt));
                }
                hold.read(partition, |reply| reply.expect("OK"))
            };
            if let Err(error) = self.on(&topic.name, hold).await {
                tracing::debug!(topic = %topic.name, %error, "leases stay reserved");
                noted = false;
            }
        }
        if known
            && allowed.taken > count
            && let Some(rate) = topic.settings.rate_per_s
        {
            let unused = count as i64 - allowed.taken as i64;
            if let Err(error) = self.take_calls(&topic.name, rate, unused).await {
                tracing::debug!(topic = %topic.name, %error, "calls were not given back");
            }
        }
        noted
    }
}

/// How long leases are reserved, in times that a request may wait for Redis.
pub(super) const RESERVED_TIMEOUTS: Millis = 4;

fn none(many: usize) -> Outcomes {
    (0..many).map(|_| Ok(LeaseOutcome::default())).collect()
}

/// How many are reserved, and when to look again.
fn read_reserved(reply: &mut Reply<'_>) -> Result<(u64, Option<Millis>), CallError> {
    let (_, reserved, next_at) = (reply.now()?, reply.int()?, reply.instant()?);
    Ok((reserved.unsigned_abs(), next_at))
}
