//! Limits that all consumers of a topic keep together: how many messages are leased at once, and how many are granted a
//! second. Topics without such limits pay nothing.
//!
//! What is leased is counted where leases are. In a topic of one partition the script that grants does so. In others the
//! consumer counts the leases of all partitions, and says in each how many it is about to ask for: of two consumers, the one
//! that counts a partition later sees that, or what was granted. Nothing else is written, so nothing has to be undone where
//! leases end, and a limit that is new counts the leases that there are. A consumer that dies in between, or never hears what
//! was granted, is about to ask for some seconds. What is granted after that reaches nobody.
//!
//! Calls are taken from the rate in the topic's first partition, and unused ones are given back.

use super::{LeaseMode, LeaseOutcome, Outcomes, none};
use crate::{
    Store,
    batch::{Command, GROUP_MESSAGES},
    grants::LeaseOptions,
    partition::Partition,
    random_bytes,
    registry::Topic,
    scripts,
    stale::Target,
};
use dueq_model::{Millis, TopicName, error::Error};
use futures_util::future::join_all;
use std::sync::{Arc, atomic::Ordering::Relaxed};

/// What leases that one consumer or many ask for may be granted.
struct Allowed {
    /// How many messages.
    messages: u64,
    /// What says in all partitions that they are asked for, if anything does.
    entry: Option<String>,
    /// Calls taken from the rate.
    taken: u64,
    /// When there may be more, if that is less than was asked for and can be known.
    next_at: Option<Millis>,
}

impl Topic {
    /// How many messages consumers may have leased at once.
    pub(crate) fn max_leased(&self) -> Option<i64> {
        self.settings.max_leased.filter(|_| self.settings.push.is_none())
    }

    /// Do all consumers keep a limit together?
    pub fn is_limited(&self) -> bool {
        self.max_leased().is_some() || self.counts_first()
    }

    /// Has what may be granted to be counted again where the topic is now `other`?
    pub(super) fn counts_again(&self, other: &Topic) -> bool {
        (self.counts_first() || other.counts_first()) && self.version_tag != other.version_tag
    }

    /// Does one that is not counted by the script that grants?
    pub(super) fn counts_first(&self) -> bool {
        let rated = self.settings.push.is_none() && self.settings.rate_per_s.is_some();
        rated || (self.is_split() && self.max_leased().is_some())
    }
}

impl Store {
    /// Do acks have to be answered before a lease of these topics is asked for, as far as is known? They make room for it
    /// where consumers keep a limit together, or a group may have only so many messages leased.
    pub async fn acks_come_first(&self, names: &[TopicName]) -> bool {
        for name in names {
            if let Ok(Some(topic)) = self.registry.find(name).await
                && (topic.is_limited() || topic.settings.limits_groups())
            {
                return true;
            }
        }
        false
    }

    /// As [`Store::lease`], as much of what they want, first want first, as the topic's limits allow. It is carried out to its end
    /// even if nobody waits for the answer any more, so that nothing stays taken.
    pub(super) async fn lease_limited(
        &self,
        topic: Arc<Topic>,
        wants: &[LeaseOptions],
        mode: LeaseMode,
    ) -> Result<Outcomes, Error> {
        let (store, wants) = (self.clone(), wants.to_vec());
        let leased = tokio::spawn(async move {
            let allowed = match store.allow(&topic, &wants).await {
                Err(Error::TopicNotFound) => return Ok(none(wants.len())),
                allowed => allowed?,
            };
            let mut left = allowed.messages;
            let some = wants.iter().map_while(|options| {
                let max_messages = options.max_messages.min(left);
                left -= max_messages;
                (max_messages > 0).then_some(LeaseOptions { max_messages, ..*options })
            });
            let some: Vec<_> = some.collect();
            let leased = match some.is_empty() {
                true => Ok(Vec::new()),
                false => store.lease_from_all(topic.clone(), &some, mode).await,
            };
            store.give_back(&topic, &allowed, &leased).await;
            let mut outcomes = leased?;
            let granted: usize =
                outcomes.iter().flatten().map(|outcome| outcome.grants.messages().len()).sum();
            outcomes.extend(none(wants.len() - outcomes.len()));
            if granted as u64 == allowed.messages {
                // What is left there has to wait for the limit, or for another call where only that was too small.
                let asked: u64 = wants.iter().map(|options| options.max_messages).sum();
                for outcome in outcomes.iter_mut().flatten() {
                    outcome.next_at = allowed.next_at.or(outcome.next_at);
                    outcome.more |= allowed.next_at.is_none() && asked > allowed.messages;
                }
            }
            Ok(outcomes)
        });
        leased.await.map_err(|_| Error::Internal)?
    }

    /// Finds out how much of what `all` want the limits allow, and takes that of the rate.
    async fn allow(&self, topic: &Arc<Topic>, all: &[LeaseOptions]) -> Result<Allowed, Error> {
        let asked: u64 = all.iter().map(|options| options.max_messages).sum();
        let asked = asked.min(GROUP_MESSAGES as u64);
        let mut allowed = Allowed { messages: asked, entry: None, taken: 0, next_at: None };
        let found = async {
            if topic.is_split() && topic.max_leased().is_some() {
                let name = hex::encode(random_bytes());
                allowed.entry = Some(format!("{asked} {name}"));
                (allowed.messages, allowed.next_at) = self.free_places(topic, asked, &name).await?;
            }
            if let Some(rate) = topic.settings.rate_per_s
                && allowed.messages > 0
            {
                let taken = self.take_calls(&topic.name, rate, allowed.messages as i64).await?;
                if taken.calls < allowed.messages {
                    let now = self.now_at(&Partition::first(topic.clone()));
                    allowed.next_at = Some(now.saturating_add(taken.next_ms));
                }
                (allowed.messages, allowed.taken) = (taken.calls, taken.calls);
            }
            Ok(())
        };
        match found.await {
            Ok(()) => Ok(allowed),
            Err(error) => {
                self.give_back(topic, &allowed, &Ok(Vec::new())).await;
                Err(error)
            }
        }
    }

    /// Says that `asked` leases of a topic of several partitions will be asked for, and returns how many of them it may have;
    /// and when to look again, if that is less. A partition that cannot be counted counts as when that was last possible, but
    /// with its share of the limit at least.
    async fn free_places(
        &self,
        topic: &Arc<Topic>,
        asked: u64,
        name: &str,
    ) -> Result<(u64, Option<Millis>), Error> {
        let lifetime = self.lanes.timeout.as_millis() as Millis * ASKED_TIMEOUTS;
        let known: i64 = topic.all().map(|it| it.leased.load(Relaxed)).sum();
        // Whatever ends a lease from then on wakes those who wait.
        let mut short = topic.max_leased().is_some_and(|most| known + asked as i64 > most);
        loop {
            let count = |it: &Partition| {
                let keys = [it.keys.meta.as_str(), &it.keys.unack, &it.keys.last, &it.keys.held];
                let count = Command::script(&scripts::COUNT_LEASES, &keys);
                let count =
                    count.arg((&it.topic.version_tag, u8::from(short), asked, lifetime, name));
                count.read(it, |reply| {
                    Ok((reply.now()?, reply.int()?, reply.instant()?, reply.int()?))
                })
            };
            let counted = join_all(topic.all().map(async |it| {
                let counted = self.on(Target::Partition(&topic.name, it.route.partition), count);
                self.answer_within(&it, self.patience(&it), counted).await
            }));
            let (mut leases, mut others, mut patience) = (0, 0, REFUSED_MS);
            let (mut found, mut failed) = (None, Error::Internal);
            for (it, counted) in topic.all().zip(counted.await) {
                match counted.unwrap_or(Err(Error::RedisUnavailable)) {
                    Ok((now_is, (now, leased, ends, asking))) => {
                        it.leased.store(leased, Relaxed);
                        leases += leased;
                        others = asking.max(others);
                        patience = ends.map_or(patience, |ends| patience.min((ends - now).max(1)));
                        found = Some(now_is.topic);
                    }
                    Err(error @ (Error::RedisUnavailable | Error::OutcomeUnknown)) => {
                        let share = topic.max_leased().map_or(0, |most| it.large_share(most));
                        leases += it.leased.load(Relaxed).max(share);
                        failed = error;
                    }
                    Err(error) => return Err(error),
                }
            }
            // By now it may have another limit, or none.
            let Some(most) = found.ok_or(failed)?.max_leased() else { return Ok((asked, None)) };
            let got = ((most - others - leases).max(0) as u64).min(asked);
            if got == asked {
                return Ok((got, None));
            }
            if short {
                let patience = if others > 0 { patience.min(ASKING_MS) } else { patience };
                let now = self.now_at(&Partition::first(topic.clone()));
                return Ok((got, Some(now + patience)));
            }
            short = true;
        }
    }

    /// Says that nothing is asked for any more, and gives back what was not used of the rate, where it is known what was
    /// granted.
    async fn give_back(
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
        for message in outcomes.iter().flatten().flat_map(|outcome| outcome.grants.messages()) {
            Partition::holding(topic, message.id).leased.fetch_add(1, Relaxed);
        }
        if let Some(entry) = &allowed.entry {
            join_all(topic.all().filter(|it| !self.lanes.is_away(topic, it.slot)).map(
                async |it| {
                    let remove = Command::new("ZREM").arg((&it.keys.held, entry));
                    if let Err(error) = self.lanes.command(remove).await {
                        tracing::debug!(topic = %topic.name, ?error, "leases seem to be asked for");
                    }
                },
            ))
            .await;
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
