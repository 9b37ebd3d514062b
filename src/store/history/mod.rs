//! History: what happened in a topic, in points of 10 s and of a minute.
//!
//! The totals of a partition are exact, so a point is their difference to what was noted before, taken by one script: the
//! points always add up to the totals, whichever instance dies. No script that publishes or consumes does more for it.
//!
//! Each instance reports every 10 s in which partitions something happened, and how late it granted messages there
//! ([`Store::report_activity`]). The reports of all instances meet in one sorted set, from which one of them claims the
//! partitions whose step is over ([`Store::claim_history`]) and notes them ([`Store::note_history`]). So idle topics cost
//! nothing, and a topic is noted once a step however many instances use it. Where many are active, that is once a minute.
//! What nobody has noted yet belongs to the newest point of the reader ([`Store::history`]).

mod lateness;
mod points;

pub use lateness::Lateness;
pub use points::HistoryPoint;

use super::{
    Store,
    batch::{Command, Request},
    partition::{Partition, PartitionName},
    reply::{CallError, Fields, word},
    scripts,
};
use dueq_model::{Millis, TopicName, error::Error};
use parking_lot::Mutex;
use std::{
    sync::atomic::{AtomicBool, AtomicI64, Ordering},
    time::Duration,
};

/// The finest step, ms.
const STEP_MS: Millis = 10_000;
/// What happened is reported this long (ms) after the step is over…
const REPORT_DELAY_MS: Millis = 500;
/// …and counts as having happened this long (ms) before it was reported, or read.
const SLACK_MS: Millis = 2_000;
/// For how long (ms) a claimed partition is its claimer's.
const CLAIM_MS: Millis = 30_000;
/// Partitions that are claimed at once.
const MAX_CLAIMS: usize = 64;
/// Up to so many active partitions are noted every 10 s; of more, each is noted every minute.
const FEW: usize = 25;
/// Partitions of one report.
const REPORT_PARTITIONS: usize = 128;

/// What is to be reported of a partition.
#[derive(Debug, Default)]
pub(super) struct Activity {
    /// It waits to be reported.
    reported: AtomicBool,
    lateness: Mutex<Lateness>,
    /// When a reader last had it noted, ms.
    noted_at: AtomicI64,
    /// The sum of the totals that were last seen, and 1; 0: none yet.
    seen: AtomicI64,
}

impl Activity {
    fn take_lateness(&self) -> Lateness {
        std::mem::take(&mut *self.lateness.lock())
    }

    fn add_lateness(&self, add: impl FnOnce(&mut Lateness)) {
        add(&mut self.lateness.lock());
    }
}

impl Partition {
    /// One of the totals has changed that history shows, if so.
    pub(super) fn happened(&self, so: bool) {
        let reported = &self.activity.reported;
        // Most find it reported already, and a load is cheaper than a swap.
        if so && !reported.load(Ordering::Relaxed) && !reported.swap(true, Ordering::Relaxed) {
            // Nobody listens while the instance stops.
            let _ = self.topic.active.send(self.clone());
        }
    }

    /// Somebody has looked at the totals. If they are others than at the last look, whoever changed them may have died before
    /// it could report that.
    pub(super) fn saw_totals(&self, totals: &[i64]) {
        let sum = totals.iter().fold(1, |sum: i64, total| sum.saturating_add(*total));
        let before = self.activity.seen.swap(sum, Ordering::Relaxed);
        self.happened(before != 0 && before != sum);
    }

    /// Messages were granted for the first time, this late (ms).
    pub(super) fn were_late(&self, late: &[Millis]) {
        if !late.is_empty() {
            self.activity.add_lateness(|all| late.iter().for_each(|late| all.observe(*late)));
        }
    }
}

/// A partition in which something happened, and whose step is over.
#[derive(Clone, Debug)]
pub struct Active {
    /// Its name.
    pub name: PartitionName,
    /// In the step, ms.
    at: Millis,
    lateness: Lateness,
}

/// Partitions to be noted.
#[derive(Debug, Default)]
pub struct ClaimedHistory {
    /// Each of them.
    pub partitions: Vec<Active>,
    /// There may be more.
    pub more: bool,
    held: Millis,
    /// Names that are none.
    bad: Vec<String>,
}

impl Store {
    /// How long until what happened in this step is to be reported.
    pub fn until_history(&self) -> Duration {
        let clock = &self.lanes.node_of(&self.lanes.shared.keys.active).backend.clock;
        let now = clock.now() - REPORT_DELAY_MS;
        clock.until((now.div_euclid(STEP_MS) + 1) * STEP_MS + REPORT_DELAY_MS)
    }

    /// Reports in which partitions this instance has done something since it last did so.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`; what could not be reported is reported the next time.
    pub async fn report_activity(&self) -> Result<(), Error> {
        loop {
            let all: Vec<Partition> = {
                let mut active = self.active.lock();
                std::iter::from_fn(|| active.try_recv().ok()).take(REPORT_PARTITIONS).collect()
            };
            if all.is_empty() {
                return Ok(());
            }
            let gone = self.registry.gone(all.iter().map(|it| &it.topic.name)).await;
            let mut some = all;
            some.retain(|it| !gone.contains(&it.topic.name));
            if some.is_empty() {
                continue;
            }
            let keys = &self.lanes.shared.keys;
            let report = Command::eval(&scripts::NOTE_ACTIVE, &[&keys.active, &keys.lateness]);
            let (mut report, mut taken) = (report.arg(SLACK_MS), Vec::with_capacity(some.len()));
            for partition in &some {
                // Before what is reported is taken: what happens from now on is reported again.
                partition.activity.reported.store(false, Ordering::Relaxed);
                let lateness = partition.activity.take_lateness();
                report = report.arg((partition.name().to_string(), lateness.to_string()));
                taken.push(lateness);
            }
            if let Err(error) = self.lanes.command(report).await {
                for (partition, lateness) in some.iter().zip(&taken) {
                    partition.happened(true);
                    // Otherwise it may have been counted.
                    if error == CallError::Unavailable {
                        partition.activity.add_lateness(|all| all.merge(lateness));
                    }
                }
                return Err(error.into());
            }
        }
    }

    /// Claims partitions in which something happened, and whose step is over.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn claim_history(&self) -> Result<ClaimedHistory, Error> {
        let keys = &self.lanes.shared.keys;
        let claim = Command::eval(&scripts::CLAIM_HISTORY, &[&keys.active, &keys.lateness]);
        let claim = claim.arg((MAX_CLAIMS, CLAIM_MS, FEW));
        let mut fields = Fields::of(self.lanes.command(claim).await?)?;
        let (ended, held) = (fields.int()?, fields.int()?);
        let more = fields.len() / 2 >= MAX_CLAIMS;
        let mut claimed = ClaimedHistory { held, more, ..ClaimedHistory::default() };
        while !fields.is_empty() {
            let (name, lateness) = (fields.text()?, fields.text()?);
            match PartitionName::parse(&name) {
                Some(name) => claimed.partitions.push(Active {
                    name,
                    at: ended - 1,
                    lateness: Lateness::parse(&lateness).unwrap_or_default(),
                }),
                None => claimed.bad.push(name),
            }
        }
        Ok(claimed)
    }

    /// Has no message of this topic died in the hour before? Asked when one has, by whoever tells people.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn is_first_death(&self, topic: &TopicName) -> Result<bool, Error> {
        let key = format!("{}:{topic}", self.lanes.shared.keys.died);
        let set = Command::new("SET").arg((key, 1, "PX", 3_600_000, "GET"));
        Ok(word(&self.lanes.command(set).await?).is_none())
    }

    /// Is this the first instance to send a notice that Redis is back?
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn is_first_back(&self) -> Result<bool, Error> {
        let set =
            Command::new("SET").arg((&self.lanes.shared.keys.back_notice, 1, "PX", 60_000, "NX"));
        Ok(word(&self.lanes.command(set).await?) == Some("OK"))
    }

    /// Why Redis cannot be used, or one of its nodes, as far as this instance knows.
    pub fn outage(&self) -> Option<String> {
        self.lanes.nodes().iter().find_map(|node| node.backend.outage.cause())
    }

    /// Where the servers are that this instance works on.
    pub fn addresses(&self) -> String {
        let nodes = self.lanes.nodes();
        nodes.iter().map(|node| node.backend.address()).collect::<Vec<_>>().join(", ")
    }

    /// The servers that cannot be used, and for how long: `127.0.0.1:6379 for 12 s`. Empty if there are none.
    pub fn away(&self) -> String {
        let backends = self.lanes.nodes();
        let away = backends.iter().filter_map(|node| {
            let since = node.backend.outage.since()?;
            Some(format!("{} for {} s", node.backend.address(), since.elapsed().as_secs()))
        });
        away.collect::<Vec<_>>().join(", ")
    }

    /// Notes what happened in a partition. One that is gone has nothing to be noted. Returns how many messages died.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn note_history(&self, active: &Active) -> Result<i64, Error> {
        let noted = self.on(&active.name, |it| note(it, Some(active.at), &active.lateness)).await;
        match noted {
            Ok((_, died)) => Ok(died),
            Err(Error::TopicNotFound) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Ends a claim for the partitions that were noted. Others are claimed again after a while, with the lateness of those that
    /// `failed` before anything was noted.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn finish_history(
        &self,
        claimed: &ClaimedHistory,
        noted: &[&Active],
        failed: &[&Active],
    ) -> Result<(), Error> {
        let keys = &self.lanes.shared.keys;
        let names = noted.iter().map(|active| active.name.to_string());
        let names: Vec<_> = names.chain(claimed.bad.iter().cloned()).collect();
        if !names.is_empty() {
            let finish = Command::eval(&scripts::FINISH_CLAIM, &[&keys.active]).arg(claimed.held);
            let finish = names.iter().fold(finish, |finish, name| finish.arg((name, "")));
            self.lanes.command(finish).await?;
        }
        if failed.is_empty() {
            return Ok(());
        }
        let back = Command::eval(&scripts::NOTE_ACTIVE, &[&keys.active, &keys.lateness]);
        let back = failed.iter().fold(back.arg(SLACK_MS), |back, active| {
            back.arg((active.name.to_string(), active.lateness.to_string()))
        });
        Ok(self.lanes.command(back).await.map(|_| ())?)
    }
}

/// `at`: an instant in the step (ms); none is now.
fn note(partition: &Partition, at: Option<Millis>, lateness: &Lateness) -> Request<i64> {
    let at = at.map(|at| at.to_string()).unwrap_or_default();
    let note = Command::on_all_with_rare(&scripts::NOTE_HISTORY, partition);
    note.arg((at, lateness.to_string())).read(partition, |reply| reply.int())
}
