//! Limits that all consumers of a topic keep together: how many messages are leased at once, and how many are granted a
//! second. Topics without such limits pay nothing.
//!
//! What is leased is counted where leases are. In a topic of one partition the script that grants does so. In others the
//! consumer first says in the first partition how many it is about to ask for, and then counts the leases of all partitions:
//! whoever counts later sees that, or what was granted. Nothing else is written, so nothing has to be undone where leases end,
//! and a limit that is new counts the leases that there are. Whoever dies in between, or never hears what was granted, is
//! about to ask for some seconds. What is granted after that reaches nobody.
//!
//! Calls are taken from the rate in the topic's first partition, and unused ones are given back.

use super::LeaseOutcome;
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
        scripts,
    },
};
use std::{sync::Arc, time::Instant};

/// What leases that one consumer or many ask for may be granted.
struct Allowed {
    /// How many messages.
    messages: u64,
    /// What says in the first partition that they are asked for, if anything does.
    entry: Option<String>,
    /// Calls taken from the rate.
    taken: u64,
    /// When there may be more, if that is less than was asked for and can be known.
    next_at: Option<Millis>,
}

type Outcomes = Vec<Result<LeaseOutcome, Error>>;

/// The leases of a partition: when they were counted, how many there are, and when the first ends.
type Counted = (Partition, (Millis, i64, Option<Millis>));

impl Topic {
    /// How many messages consumers may have leased at once.
    pub(in crate::store) fn max_leased(&self) -> Option<i64> {
        self.settings.max_leased.filter(|_| self.settings.push.is_none())
    }

    /// Do all consumers keep a limit together?
    pub(crate) fn is_limited(&self) -> bool {
        self.max_leased().is_some() || self.counts_first()
    }

    /// Has what may be granted to be counted again where the topic is now `other`?
    pub(super) fn counts_again(&self, other: &Topic) -> bool {
        (self.counts_first() || other.counts_first()) && self.word != other.word
    }

    /// Does one that is not counted by the script that grants?
    pub(super) fn counts_first(&self) -> bool {
        let rated = self.settings.push.is_none() && self.settings.rate_per_s.is_some();
        rated || (self.is_split() && self.max_leased().is_some())
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
    /// taken.
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
        self.settle(topic, &allowed, &leased).await;
        let mut outcomes = leased?;
        let granted: usize =
            outcomes.iter().flatten().map(|outcome| outcome.grants.messages().len()).sum();
        outcomes.extend(none(all.len() - outcomes.len()));
        if granted as u64 == allowed.messages {
            // What is left there has to wait for the limit, or for another call where only that was too small.
            let asked: u64 = all.iter().map(|options| options.max_messages).sum();
            for outcome in outcomes.iter_mut().flatten() {
                outcome.next_at = allowed.next_at.or(outcome.next_at);
                outcome.more |= allowed.next_at.is_none() && asked > allowed.messages;
            }
        }
        Ok(outcomes)
    }

    /// Finds out how much of what `all` want the limits allow, and takes that of the rate.
    async fn allow(&self, topic: &Arc<Topic>, all: &[LeaseOptions]) -> Result<Allowed, Error> {
        let asked: u64 = all.iter().map(|options| options.max_messages).sum();
        let asked = asked.min(GROUP_MESSAGES as u64);
        let mut allowed = Allowed { messages: asked, entry: None, taken: 0, next_at: None };
        if topic.is_split() && topic.max_leased().is_some() {
            let name = hex::encode(random_bytes());
            allowed.entry = Some(format!("{asked} {name}"));
            match self.free_places(topic, asked, &name).await {
                Ok((free, next_at)) => (allowed.messages, allowed.next_at) = (free, next_at),
                Err(error) => {
                    self.settle(topic, &allowed, &Ok(Vec::new())).await;
                    return Err(error);
                }
            }
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
                    self.settle(topic, &allowed, &Ok(Vec::new())).await;
                    return Err(error);
                }
            }
        }
        Ok(allowed)
    }

    /// Says that `asked` leases of a topic of several partitions will be asked for, and returns how many of them it may have;
    /// and when to look again, if that is less.
    async fn free_places(
        &self,
        topic: &Arc<Topic>,
        asked: u64,
        name: &str,
    ) -> Result<(u64, Option<Millis>), Error> {
        let lifetime = self.lanes.timeout.as_millis() as Millis * ASKED_TIMEOUTS;
        let reserve = |it: &Partition| {
            let reserve =
                Command::script(&scripts::RESERVE_LEASES, &[&it.keys.meta, &it.keys.held]);
            let reserve = reserve.arg((&it.topic.word, asked, lifetime, name));
            reserve.read(it, |reply| {
                reply.now()?;
                reply.int()
            })
        };
        let (first, others) = self.on(&topic.name, reserve).await?;
        let count = |short: bool| {
            move |it: &Partition| {
                let keys = [it.keys.meta.as_str(), &it.keys.unack, &it.keys.last];
                let count = Command::script(&scripts::COUNT_LEASES, &keys);
                let count = count.arg((&it.topic.word, u8::from(short)));
                count.read(it, |reply| Ok((reply.now()?, reply.int()?, reply.instant()?)))
            }
        };
        let free = |counted: &[Counted]| {
            // By now it may have another limit, or none.
            let Some(most) = counted.first().and_then(|(it, _)| it.topic.max_leased()) else {
                return asked;
            };
            let leases: i64 = counted.iter().map(|(_, (_, leases, _))| leases).sum();
            ((most - others - leases).max(0) as u64).min(asked)
        };
        let counted = self.on_each(&topic.name, count(false)).await?;
        let got = free(&counted);
        if got == asked {
            return Ok((got, None));
        }
        // Whatever ends a lease from now on wakes those who wait. Some may have ended since.
        let counted = self.on_each(&topic.name, count(true)).await?;
        let got = free(&counted);
        let patience = if others > 0 { ASKING_MS } else { REFUSED_MS };
        let ends = counted.iter().filter_map(|(_, (now, _, ends))| Some(ends.as_ref()? - now));
        let patience = ends.fold(patience, Millis::min).max(1);
        Ok((got, (got < asked).then_some(self.now_at(&first) + patience)))
    }

    /// Says that nothing is asked for any more, and gives back what was not used of the rate, where it is known what was
    /// granted.
    async fn settle(
        &self,
        topic: &Arc<Topic>,
        allowed: &Allowed,
        leased: &Result<Outcomes, Error>,
    ) {
        let outcomes = leased.as_deref().unwrap_or_default();
        let is_known = |outcome: &Result<LeaseOutcome, Error>| match outcome {
            Ok(outcome) => outcome.failed != Some(Error::OutcomeUnknown),
            Err(error) => *error != Error::OutcomeUnknown,
        };
        if matches!(leased, Err(Error::OutcomeUnknown)) || !outcomes.iter().all(is_known) {
            return;
        }
        if let Some(entry) = &allowed.entry {
            let held = &Partition::first(topic.clone()).keys.held;
            let remove = Command::new("ZREM").arg((held, entry));
            if let Err(error) = self.lanes.command(remove).await {
                tracing::debug!(topic = %topic.name, ?error, "leases seem to be asked for");
            }
        }
        let granted = outcomes.iter().flatten().map(|outcome| outcome.grants.messages().len());
        let unused = granted.sum::<usize>() as i64 - allowed.taken as i64;
        if unused < 0
            && let Some(rate) = topic.settings.rate_per_s
            && let Err(error) = self.take_calls(&topic.name, rate, unused).await
        {
            tracing::debug!(topic = %topic.name, %error, "calls were not given back");
        }
    }
}

/// How long it is noted that leases are asked for, in times that a request may wait for Redis.
const ASKED_TIMEOUTS: Millis = 4;
/// When to look again (ms) where others are just asking, and where no place is free.
const ASKING_MS: Millis = 25;
const REFUSED_MS: Millis = 1_000;

fn none(many: usize) -> Outcomes {
    (0..many).map(|_| Ok(LeaseOutcome::default())).collect()
}
