//! Which partitions must be swept, and when: leases, TTLs and retention end by themselves, also where nobody looks.
//!
//! One sorted set holds partition → moment. An instance writes a hint there when what it did makes a partition's moment earlier
//! than the one that it remembers; whichever instance comes first claims the partitions whose moment has come, sweeps them,
//! and writes when to come again. So ten thousand idle topics cost nothing, and a busy one costs a hint a lease. Hints
//! may get lost: a slow walk over all topics finds what was missed.

use super::{
    Store,
    backend::ENDS_VERSION,
    batch::{Command, Request},
    partition::{Partition, PartitionName},
    registry::Registry,
    reply::{CallError, Fields, Reply},
    scripts::{self, Script},
};
use deadpool_redis::redis::Value;
use dueq_model::{Millis, TopicName, error::Error};
use futures_util::future::join_all;
use std::{
    collections::BTreeSet,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

/// Sweeps come this much (ms) after their moment, so that what ends in one second takes one sweep.
const SWEEP_DELAY_MS: Millis = 500;
/// For how long (ms) a claimed topic is its claimer's.
const CLAIM_MS: Millis = 30_000;
/// Sweeps come this soon (ms) at the latest, so that nothing is remembered for long that is not there any more.
const MAX_AHEAD_MS: Millis = 86_400_000;
/// Messages of one kind that a call sweeps.
const CALL_MESSAGES: u32 = 128;
/// Hints that are written at once.
const MAX_HINTS: usize = 256;
/// Topics that are claimed at once. They are swept one after the other, and an instance that dies keeps them for as long as a claim
/// lasts.
const MAX_CLAIMS: usize = 8;
/// How long a change of what holds for groups waits until more messages of all groups go.
const RAISE_TIME: Duration = Duration::from_secs(2);
/// The walk takes this many topics…
const WALK_TOPICS: usize = 16;
/// …every so many ms, by one instance of all.
const WALK_INTERVAL_MS: Millis = 10_000;

/// A partition wants to be swept at this moment, ms.
#[derive(Debug)]
pub struct Hint {
    pub name: PartitionName,
    pub at: Millis,
    /// Ends of messages there are to be published elsewhere, without waiting for that moment.
    pub ends: Publishing,
}

/// Are ends of messages to be published?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publishing {
    Nothing,
    /// If messages there say so, which nobody has before version 7.
    Completions,
    Some,
}

/// A partition that this instance is to sweep.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Its name.
    pub name: PartitionName,
    /// What the claim wrote; if it is gone, an earlier moment was asked for.
    held: Millis,
}

impl Partition {
    /// Something ends at `at`: sees to it that the partition is swept then. `now`: Redis's time.
    pub fn sweep_by(&self, now: Millis, at: Option<Millis>) {
        let Some(at) = at else { return };
        let at = at.min(now.saturating_add(MAX_AHEAD_MS)).saturating_add(SWEEP_DELAY_MS);
        let known = self.sweep_at.load(Ordering::Relaxed);
        // A moment that has passed may have been swept, by any instance, before this was there to be seen.
        if known == 0 || at < known || known <= now {
            self.sweep_at.store(at, Ordering::Relaxed);
            // Nobody listens while the instance stops.
            let _ =
                self.topic.hints.send(Hint { name: self.name(), at, ends: Publishing::Nothing });
        }
    }

    /// So many messages died here by `now`: counts them, and has their deaths published without delay
    /// where that is wished.
    pub fn saw_deaths(&self, died: i64, now: Millis) {
        self.topic.counters.dead.inc_by(died as u64);
        self.happened(died > 0);
        if died > 0 {
            // Each time: the instance that publishes deaths now may have looked already.
            let has_dead_topic = self.topic.settings.dead_topic.is_some();
            let ends = if has_dead_topic { Publishing::Some } else { Publishing::Completions };
            self.hint_ends(now, ends);
        }
    }

    /// Has ends of messages here published elsewhere without delay.
    pub fn publish_ends(&self, now: Millis) {
        self.hint_ends(now, Publishing::Some);
    }

    fn hint_ends(&self, now: Millis, ends: Publishing) {
        let at = now.saturating_add(SWEEP_DELAY_MS);
        let _ = self.topic.hints.send(Hint { name: self.name(), at, ends });
    }
}

impl Store {
    /// Waits for the next hint of this instance and writes it, and others that came with it, where all instances look.
    /// Returns the partitions among them with ends that are not yet published.
    pub async fn pass_on_hints(&self) -> BTreeSet<PartitionName> {
        let mut hints = self.hints.lock().await;
        let (mut with_ends, mut noted) = (BTreeSet::new(), Vec::new());
        let Some(first) = hints.recv().await else { return with_ends };
        let has_completions = *self.lanes.shared.min_reader.borrow() >= ENDS_VERSION;
        let mut note = self.sweeps(&scripts::NOTE_SWEEPS);
        let more = std::iter::from_fn(|| hints.try_recv().ok());
        for Hint { name, at, ends } in std::iter::once(first).chain(more).take(MAX_HINTS) {
            if ends == Publishing::Completions && !has_completions {
                continue;
            }
            note = note.arg((at, name.to_string()));
            noted.push(name.clone());
            if ends != Publishing::Nothing {
                with_ends.insert(name);
            }
        }
        if noted.is_empty() {
            return with_ends;
        }
        if let Err(error) = self.lanes.command(note).await {
            tracing::debug!(?error, "a hint was lost; the walk will find what it was about");
        }
        // Some topics may have been deleted before this was noted, maybe by another instance.
        let gone = self.registry.gone(noted.iter().map(|it| &it.topic)).await;
        noted.retain(|it| gone.contains(&it.topic));
        if !noted.is_empty() {
            self.registry.forget_names(&noted).await;
        }
        with_ends
    }

    /// Claims partitions whose moment has come. Also says when to ask again, at the latest.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn claim_sweeps(&self) -> Result<(Vec<Claim>, Option<Millis>), Error> {
        self.claim_partitions(&self.lanes.shared.keys.sweeps, MAX_CLAIMS, CLAIM_MS).await
    }

    /// The same of this set, in the same slot: so many at most, for so many ms.
    pub(super) async fn claim_partitions(
        &self,
        set: &str,
        most: usize,
        claim_ms: Millis,
    ) -> Result<(Vec<Claim>, Option<Millis>), Error> {
        let claim = Command::eval(&scripts::CLAIM_SWEEPS, &[set]).arg((most, claim_ms));
        let asked = Instant::now();
        let mut fields = Fields::of(self.lanes.command(claim).await?)?;
        let now = fields.int()?;
        self.lanes.node_of(&self.lanes.shared.keys.sweeps).backend.clock.observe(now, asked);
        let next = fields.instant()?;
        let mut claims = Vec::new();
        while !fields.is_empty() {
            let (name, held) = (fields.text()?, fields.int()?);
            match PartitionName::parse(&name) {
                Some(name) => claims.push(Claim { name, held }),
                // `dueq audit` removes it; here it must not hold up the others.
                None => tracing::warn!(name, "a sweep of no topic"),
            }
        }
        Ok((claims, next))
    }

    /// Writes when a claimed partition is to be swept again, by what its sweep came to.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn finish_sweep(&self, claim: &Claim, swept: Option<Swept>) -> Result<(), Error> {
        let next = match swept {
            Some(Swept { more: true, .. }) => Some(self.now()),
            Some(Swept { next_at, .. }) => {
                let latest = self.now().saturating_add(MAX_AHEAD_MS);
                next_at.map(|at| at.min(latest).saturating_add(SWEEP_DELAY_MS))
            }
            None => None,
        };
        self.finish_partition(&self.lanes.shared.keys.sweeps, claim, next).await
    }

    /// Writes in the set where it was claimed when a partition is to be claimed again.
    pub(super) async fn finish_partition(
        &self,
        set: &str,
        claim: &Claim,
        next: Option<Millis>,
    ) -> Result<(), Error> {
        let next = next.map(|at| at.to_string()).unwrap_or_default();
        let finish = Command::eval(&scripts::FINISH_CLAIM, &[set]);
        self.lanes.command(finish.arg((claim.held, claim.name.to_string(), next))).await?;
        Ok(())
    }

    /// Takes a step of the slow walk over all topics, if it is this instance's: looks when each must be swept.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn walk(&self) -> Result<(), Error> {
        let keys = &self.lanes.shared.keys;
        let claim = Command::eval(&scripts::CLAIM_WALK, &[&keys.index, &keys.names]);
        let claim = claim.arg((WALK_INTERVAL_MS, WALK_TOPICS));
        let mut names = Fields::of(self.lanes.command(claim).await?)?;
        while !names.is_empty() {
            let name = names.text()?;
            let Ok(name) = TopicName::parse(&name) else { continue };
            for (partition, swept) in self.sweep_all(&name).await? {
                partition.sweep_by(self.now(), swept.next_at);
            }
        }
        Ok(())
    }

    /// Forgets what is known here of topics that nobody has used of late.
    pub fn forget_unused_topics(&self) {
        self.registry.forget_unused();
    }

    /// Carries out what time has brought to a partition, as far as one call goes; `None` where there is no such topic.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn sweep(&self, name: &PartitionName) -> Result<Option<Swept>, Error> {
        match self.on(name, sweep).await {
            Ok((partition, swept)) => {
                // Another request may have ended what it came for when it looked at the message: that is history, too.
                partition.happened(true);
                Ok(Some(swept))
            }
            Err(Error::TopicNotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The same for all partitions of a topic; none where there is no such topic.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub(super) async fn sweep_all(
        &self,
        name: &TopicName,
    ) -> Result<Vec<(Partition, Swept)>, Error> {
        match self.on_each(name, sweep).await {
            Err(Error::TopicNotFound) => Ok(Vec::new()),
            swept => swept,
        }
    }

    /// Lets messages of each group go that may go now, since the settings of groups have changed. What takes too long, or fails, is left to
    /// housekeeping.
    pub(super) async fn raise_groups(&self, name: &TopicName) {
        let until = Instant::now() + RAISE_TIME;
        let mut left = self.sweep_all(name).await.unwrap_or_default();
        left.retain(|(_, swept)| swept.more);
        while let Some((partition, _)) = left.last() {
            if Instant::now() >= until {
                left.iter().for_each(|(it, _)| it.sweep_by(self.now(), Some(self.now())));
                return;
            }
            if !matches!(self.sweep(&partition.name()).await, Ok(Some(swept)) if swept.more) {
                left.pop();
            }
        }
    }

    fn sweeps(&self, script: &'static Script) -> Command {
        Command::eval(script, &[&self.lanes.shared.keys.sweeps])
    }
}

impl Registry {
    /// Those of these topics that are deleted, as Redis has it; none where it does not answer.
    pub async fn gone(&self, names: impl Iterator<Item = &TopicName>) -> BTreeSet<TopicName> {
        let mut names: BTreeSet<_> = names.cloned().collect();
        let look = Command::new("HMGET").arg(&self.lanes.shared.keys.registry);
        let look = names.iter().fold(look, |look, name| look.arg(name.as_str()));
        let found = match self.lanes.command(look).await {
            Ok(Value::Array(found)) if found.len() == names.len() => found,
            _ => return BTreeSet::new(),
        };
        let mut found = found.into_iter();
        names.retain(|_| found.next() == Some(Value::Nil));
        names
    }

    /// Takes partitions of deleted topics out of what is to be swept and noted. Where that fails, they leave when their
    /// time comes.
    pub async fn forget_names(&self, partitions: &[PartitionName]) {
        let keys = &self.lanes.shared.keys;
        let names: Vec<_> = partitions.iter().map(PartitionName::to_string).collect();
        let indexes = [("ZREM", &keys.sweeps), ("ZREM", &keys.active), ("HDEL", &keys.lateness)];
        let forget = indexes.map(|(verb, key)| Command::new(verb).arg(key).arg(&names));
        let forgotten = join_all(forget.map(|it| self.lanes.command(it))).await;
        if forgotten.iter().any(Result::is_err) {
            tracing::debug!(?names, "a deleted topic is still to be swept or noted");
        }
    }
}

fn sweep(partition: &Partition) -> Request<Swept> {
    // What was hinted at is seen now; of what ends later the next hint must tell.
    partition.sweep_at.store(0, Ordering::Relaxed);
    let sweep = Command::on(&scripts::SWEEP, partition).arg(CALL_MESSAGES);
    sweep.read(partition, read_swept)
}

/// What a sweep came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// More may be left.
    pub more: bool,
    /// When time brings something again.
    pub next_at: Option<Millis>,
    /// Ends of messages are to be published elsewhere.
    pub ends: bool,
}

impl Swept {
    /// What is claimed was not swept.
    pub const NOTHING_YET: Self = Self { more: true, next_at: None, ends: false };
}

pub(super) fn read_swept(reply: &mut Reply<'_>) -> Result<Swept, CallError> {
    reply.now()?;
    let (more, next_at) = (reply.int()? == 1, reply.instant()?);
    let ended = [reply.int()?, reply.int()?, reply.int()?].map(|ended| ended.max(0) as u64);
    // What is only looked at takes no label.
    if ended != [0; 3] {
        let counters = &reply.topic().counters;
        let of = [&counters.expired, &counters.dead, &counters.lease_expired];
        for (counter, ended) in of.into_iter().zip(ended) {
            counter.inc_by(ended);
        }
        reply.partition.happened(true);
    }
    Ok(Swept { more, next_at, ends: reply.int()? == 1 })
}
