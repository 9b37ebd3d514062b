//! Where requests wait while the calls before them are under way. Whichever lane is free takes all that waits, and so
//! a group is as large as the load asks for: alone when the service is idle, hundreds when it is busy.
//!
//! One more lane, the express lane, is for what must not wait behind a busy partition. While all others are at work, it takes
//! requests of partitions that none of them is busy with. Scans wait in a queue of their own: half of the lanes take some of
//! them when there is nothing else to do, or once they have waited for a while.

use super::{
    Phase,
    request::{ByAddress, Job, PartitionId},
};
use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};
use tokio::sync::Notify;

/// Messages of one partition that a lane takes at once, at most: one with much to do lets others in between. As many again
/// may be granted.
const MAX_OF_PARTITION: usize = 128;
/// Messages that a lane takes at once, about.
const MAX_MESSAGES: usize = 1024;
/// Bytes of bodies that a lane takes at once, about.
const MAX_BYTES: usize = 1024 * 1024;
/// Scans that a lane takes at once, at most: each may cost Redis milliseconds.
const MAX_SCANS: usize = 32;
/// How often a lane lets others run before it takes what waits, at most.
const MAX_TURNS: usize = 8;
/// After this time a scan no longer waits for a moment in which there is nothing else to do.
const SCAN_PATIENCE: Duration = Duration::from_millis(50);

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    scans: VecDeque<Job>,
    /// How many lanes are at work on scans.
    scanning: usize,
    closed: bool,
    /// How many lanes, the express lane apart, wait for something to do.
    idle: usize,
    /// How many requests, scans apart, lanes are busy with.
    under_way: usize,
    /// Partitions that lanes are busy with, and how many lanes.
    busy: ByAddress<PartitionId, usize>,
}

/// The inbox that all lanes share.
pub(super) struct Inbox {
    queue: Mutex<Queue>,
    /// How many lanes may be at work on scans at once.
    max_scanning: usize,
    filled: Notify,
    express: Notify,
}

/// What a lane took. Its partitions count as busy until this is dropped.
pub(super) struct Taken<'a> {
    pub jobs: Vec<Job>,
    inbox: &'a Inbox,
    /// How many of the jobs are no scans.
    count: usize,
    partitions: Vec<PartitionId>,
    scans: bool,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut queue = self.inbox.queue.lock();
        queue.under_way -= self.count;
        for partition in &self.partitions {
            if let Some(lanes) = queue.busy.get_mut(partition) {
                *lanes -= 1;
                if *lanes == 0 {
                    queue.busy.remove(partition);
                }
            }
        }
        if self.scans {
            queue.scanning -= 1;
            if !queue.scans.is_empty() {
                self.inbox.filled.notify_one();
            }
        }
    }
}

/// A lane that waits, however its waiting ends.
struct Idle<'a>(&'a Inbox);

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        self.0.queue.lock().idle -= 1;
    }
}

impl Queue {
    /// May this request pass those of busy partitions?
    fn is_express(&self, job: &Job) -> bool {
        job.partition.is_none_or(|partition| !self.busy.contains_key(&partition))
    }
}

/// Messages that a lane takes of one partition.
#[derive(Clone, Copy, Default)]
struct Share {
    granted: usize,
    other: usize,
}

impl Share {
    /// Is there room? Nothing is granted while anything else of the partition is left: an ack or a publish never waits behind
    /// leases, and a request that acks and leases acks first.
    fn has_room(self, phase: Phase) -> bool {
        self.other < MAX_OF_PARTITION && (phase != Phase::Grant || self.granted < MAX_OF_PARTITION)
    }
}

impl Inbox {
    /// One for so many lanes, the express lane apart.
    pub fn new(lanes: usize) -> Self {
        Self {
            queue: Mutex::default(),
            max_scanning: (lanes / 2).max(1),
            filled: Notify::new(),
            express: Notify::new(),
        }
    }

    /// Puts requests in that a lane takes together, in this order. Returns them when the lanes are gone.
    pub fn put(&self, jobs: impl IntoIterator<Item = Job>) -> Vec<Job> {
        let mut queue = self.queue.lock();
        if queue.closed {
            return jobs.into_iter().collect();
        }
        let before = queue.jobs.len();
        for job in jobs {
            match job.phase {
                Phase::Scan => queue.scans.push_back(job),
                _ => queue.jobs.push_back(job),
            }
        }
        // What came together is mostly of one partition.
        let pressing =
            queue.idle == 0 && queue.jobs.get(before).is_some_and(|job| queue.is_express(job));
        drop(queue);
        self.filled.notify_one();
        if pressing {
            self.express.notify_one();
        }
        Vec::new()
    }

    /// Puts requests back that a call had no room for: they are next, in this order.
    pub fn put_back(&self, jobs: Vec<Job>) {
        if jobs.is_empty() {
            return;
        }
        let mut queue = self.queue.lock();
        for job in jobs.into_iter().rev() {
            match job.phase {
                Phase::Scan => queue.scans.push_front(job),
                _ => queue.jobs.push_front(job),
            }
        }
        drop(queue);
        self.filled.notify_one();
    }

    /// Puts requests in that have been on their way before: they are next. Returns them when the lanes are gone.
    pub fn put_first(&self, jobs: Vec<Job>) -> Vec<Job> {
        if self.queue.lock().closed {
            return jobs;
        }
        self.put_back(jobs);
        Vec::new()
    }

    /// Waits until there is something to take; false when the inbox is closed and empty.
    pub async fn wait(&self, express: bool) -> bool {
        loop {
            let _idle = {
                let mut queue = self.queue.lock();
                let found = match express {
                    false => {
                        let may_scan = queue.scanning < self.max_scanning;
                        !queue.jobs.is_empty() || (may_scan && !queue.scans.is_empty())
                    }
                    true => queue.idle == 0 && queue.jobs.iter().any(|job| queue.is_express(job)),
                };
                if found {
                    return true;
                }
                if queue.closed && queue.jobs.is_empty() && queue.scans.is_empty() {
                    // The other lanes wait for the same notification.
                    self.filled.notify_one();
                    self.express.notify_one();
                    return false;
                }
                queue.idle += usize::from(!express);
                (!express).then(|| Idle(self))
            };
            let notify = if express { &self.express } else { &self.filled };
            notify.notified().await;
        }
    }

    /// Lets the tasks run that are ready to: they may have requests for the group that is to be taken. It goes on for a few
    /// turns while the group is small beside what is under way. Otherwise the lanes would fall into step, one with nearly all
    /// requests and the next with the two or three that came since, and small groups cost Redis most.
    pub async fn gather(&self) {
        for _ in 0..MAX_TURNS {
            tokio::task::yield_now().await;
            let queue = self.queue.lock();
            if queue.jobs.len() * 2 >= queue.under_way {
                break;
            }
        }
    }

    /// Takes what waits, oldest first, within the bounds: of each partition and of all. What was put in together is taken
    /// together, and what is left of a partition stays in its order. The express lane takes nothing of a busy partition. What
    /// nobody waits for any more is dropped.
    pub fn take(&self, express: bool) -> Taken<'_> {
        let mut queue = self.queue.lock();
        let mut jobs = Vec::with_capacity(queue.jobs.len().min(MAX_MESSAGES));
        let mut left = VecDeque::new();
        let mut shares: ByAddress<PartitionId, Share> = ByAddress::default();
        let (mut messages, mut bytes) = (0, 0);
        // When the job before came, and whether it was taken.
        let mut before: Option<(Instant, bool)> = None;
        while let Some(job) = queue.jobs.pop_front() {
            if job.is_abandoned() {
                continue;
            }
            let together = before.filter(|(since, _)| *since == job.came.since);
            if together.is_none() && (messages >= MAX_MESSAGES || bytes >= MAX_BYTES) {
                left.push_back(job);
                break;
            }
            let share = job.partition.and_then(|partition| shares.get(&partition).copied());
            let mut share = share.unwrap_or_default();
            let fits = share.has_room(job.phase) && (!express || queue.is_express(&job));
            let take = together.map_or(fits, |(_, taken)| taken);
            before = Some((job.came.since, take));
            if !take {
                left.push_back(job);
                continue;
            }
            let (size, number) = job.load();
            match job.phase {
                Phase::Grant => share.granted += number,
                _ => share.other += number,
            }
            if let Some(partition) = job.partition {
                shares.insert(partition, share);
            }
            messages += number;
            bytes += size;
            jobs.push(job);
        }
        left.append(&mut queue.jobs);
        queue.jobs = left;
        let count = jobs.len();
        queue.under_way += count;
        let scans = !express && self.take_scans(&mut queue, &mut jobs);
        let partitions: Vec<_> = shares.into_keys().collect();
        for partition in &partitions {
            *queue.busy.entry(*partition).or_default() += 1;
        }
        if !queue.jobs.is_empty() || !queue.scans.is_empty() {
            self.filled.notify_one();
        }
        Taken { jobs, inbox: self, count, partitions, scans }
    }

    /// Takes some scans, where it is their turn.
    fn take_scans(&self, queue: &mut Queue, jobs: &mut Vec<Job>) -> bool {
        let waited =
            queue.scans.front().is_some_and(|job| job.came.since.elapsed() >= SCAN_PATIENCE);
        if queue.scanning >= self.max_scanning || !(jobs.is_empty() || waited) {
            return false;
        }
        let taken = jobs.len();
        while jobs.len() < taken + MAX_SCANS {
            match queue.scans.pop_front() {
                Some(job) if job.is_abandoned() => {}
                Some(job) => jobs.push(job),
                None => break,
            }
        }
        let scans = jobs.len() > taken;
        queue.scanning += usize::from(scans);
        scans
    }

    /// Refuses what has waited longer than `limit`: it was not sent and will not be.
    pub fn refuse_older(&self, limit: Duration) {
        let late: Vec<_> = {
            let mut queue = self.queue.lock();
            let late = |jobs: &VecDeque<Job>| {
                jobs.iter().take_while(|job| job.came.since.elapsed() >= limit).count()
            };
            let (jobs, scans) = (late(&queue.jobs), late(&queue.scans));
            let mut refused: Vec<_> = queue.jobs.drain(..jobs).collect();
            refused.extend(queue.scans.drain(..scans));
            refused
        };
        late.into_iter().for_each(Job::refuse);
    }

    /// Takes nothing from now on, and returns what waits.
    pub fn close_and_drain(&self) -> Vec<Job> {
        self.close();
        let mut queue = self.queue.lock();
        let mut left: Vec<_> = queue.jobs.drain(..).collect();
        left.extend(queue.scans.drain(..));
        left
    }

    /// Takes nothing from now on; what waits is still served.
    pub fn close(&self) {
        self.queue.lock().closed = true;
        self.filled.notify_one();
        self.express.notify_one();
    }
}

#[cfg(test)]
mod tests;
