//! Hosts that fail: after enough failures in a row, their messages wait without an attempt until a probe is answered.
//!
//! Each instance counts failures in memory, so a call costs no look-up. What it finds failing is written to Redis, where all
//! instances read it. A change replaces the entry as it was read, so only one instance makes it: one of them begins a probe.
//!
//! The messages wait in Redis with a due time that all messages of the host share. That needs no memory of any instance:
//! whoever finds the host answering makes all messages due that have this time, and a probe makes one of them due.

use super::entry::{Failing, Row};
use crate::{
    Store,
    batch::Command,
    partition::Partition,
    reply::{Fields, int, word},
    scripts,
    stale::Target,
};
use dueq_model::{Millis, Push, TopicName, error::Error};
use futures_util::future::try_join_all;
use std::{
    collections::{BTreeSet, HashMap},
    hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher},
    sync::{Arc, Once},
};

/// Hosts that may be failing at once.
const MAX_FAILING: usize = 1_000;
/// The longest time from a failing host's first probe to its second, half of it; and between two later ones, ms.
const FIRST_PROBE_MS: Millis = 5_000;
const MAX_PROBE_MS: Millis = 300_000;
/// How long messages are put off, ms. They come back before if the host answers, or to probe it. Those that were missed then come
/// back by themselves.
const PUT_OFF_MS: Millis = 1_800_000;
/// How long the entry of a host stays once it is called again, ms: longer than an instance that hears of no change takes to see it.
const OPENED_MS: Millis = 60_000;
/// Hosts share no due time: each adds less than this by its name, ms.
const SPREAD_MS: u64 = 60_000;
/// If nothing was called for so long after a probe was due, the host is called again, ms.
const STALE_MS: Millis = 600_000;
/// Messages that one call makes due, and calls for a topic before others have a turn.
const RELEASED: usize = 128;
const RELEASES: usize = 64;
/// Pause before a message is made due for a probe once more, ms: if the last one has come, and if there was none.
const AGAIN_MS: Millis = 1_000;
const NONE_MS: Millis = 5_000;
const MAX_ERROR_CHARS: usize = 200;

/// The hosts that fail, or whose messages are being made due.
pub type FailingHosts = Arc<HashMap<String, Failing>>;

/// What a call has shown of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostTurn {
    /// It fails.
    Fails {
        /// When the first call failed, ms.
        since: Millis,
        /// How many failed since, of this topic or publisher.
        failures: i64,
        /// When to probe it, ms from now.
        probe_ms: Millis,
    },
    /// It answers again.
    Answers,
}

impl Store {
    /// The hosts that fail as this instance knows them.
    pub fn failing_hosts(&self) -> tokio::sync::watch::Receiver<FailingHosts> {
        self.hosts.failing.subscribe()
    }

    /// What is known of a host if it fails, as far as this instance knows.
    pub fn failing(&self, host: &str) -> Option<Failing> {
        self.hosts.failing.borrow().get(host).filter(|it| it.is_closed()).cloned()
    }

    /// Counts how a call to a host ended, by the settings of its topic. Returns what all must know.
    pub fn judge(
        &self,
        (topic, push): (&TopicName, &Push),
        publisher: &str,
        host: &str,
        answered: bool,
    ) -> Option<HostTurn> {
        let failing = self.failing(host);
        let mut rows = self.hosts.rows.lock();
        if answered {
            rows.forget(host);
            return failing.is_some().then_some(HostTurn::Answers);
        }
        let most = i64::from(push.failing_after());
        if most == 0 {
            return None;
        }
        let now = self.now();
        // No name of a topic has a slash.
        let whose = if topic.is_callbacks() { format!("/{publisher}") } else { topic.to_string() };
        let Row { since, failures, .. } = rows.fail(host, whose, now);
        let over_ms = push.failing_over_ms();
        let is_held = failing.is_some_and(|it| it.holds(topic, push));
        let fails = !is_held && failures >= most && now - since >= over_ms;
        let probe_ms = over_ms.clamp(100, FIRST_PROBE_MS);
        fails.then_some(HostTurn::Fails { since, failures, probe_ms })
    }

    /// Writes down what a call of this topic has shown of its host, and how it failed. Returns whether this instance was the
    /// first to do so. A host that another instance could call meanwhile does not fail.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn turn_host(
        &self,
        host: &str,
        topic: &TopicName,
        turn: HostTurn,
        error: &str,
    ) -> Result<bool, Error> {
        let HostTurn::Fails { since, failures, probe_ms } = turn else {
            return self.open_host(host).await;
        };
        if self
            .seen_hosts(&|_| true)
            .await?
            .get(host)
            .is_some_and(|it| it.last_success_at > Some(since))
        {
            self.hosts.rows.lock().forget(host);
            return Ok(false);
        }
        let now = self.now();
        let known = self.hosts.failing.borrow().get(host).cloned();
        if let Some(failing) = known.as_ref().filter(|it| it.is_closed()) {
            // It fails for other topics so far.
            if !failing.has_topic(topic)
                && let Some(joined) = failing.joined_by(topic)
            {
                self.swap_host(host, Some(failing), Some(&joined), true).await?;
            }
            return Ok(false);
        }
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(host);
        let failing = Failing {
            since,
            until: now + PUT_OFF_MS + (hash % SPREAD_MS) as Millis,
            interval: probe_ms,
            probe_at: now + probe_ms,
            opened_at: 0,
            failures,
            topics: vec![topic.clone()],
            error: error.chars().take(MAX_ERROR_CHARS).collect(),
        };
        self.swap_host(host, known.as_ref(), Some(&failing), true).await
    }

    /// Lets one call of a failing host begin, on one instance, once its time has come. Returns true where the host does not
    /// fail for this topic.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn begin_probe(
        &self,
        host: &str,
        topic: &TopicName,
        push: &Push,
    ) -> Result<bool, Error> {
        let probe = |failing: &Failing| {
            let now = self.now();
            let interval = (2 * failing.interval).min(MAX_PROBE_MS);
            let is_old = failing.until < now + MAX_PROBE_MS;
            let may = failing.holds(topic, push) && failing.probe_at <= now;
            may.then(|| Failing {
                interval,
                probe_at: now + interval,
                failures: failing.failures + 1,
                until: if is_old { failing.until + PUT_OFF_MS } else { failing.until },
                ..failing.clone()
            })
        };
        let began = self.change_host(host, false, probe).await?;
        Ok(began || !self.failing(host).is_some_and(|it| it.holds(topic, push)))
    }

    /// Until when to put off a message of this topic for a host, if that fails and remembers the topic, ms.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn put_off_for(
        &self,
        host: &str,
        topic: &TopicName,
        push: &Push,
    ) -> Result<Option<Millis>, Error> {
        let waits = |it: &Failing| it.holds(topic, push) && it.until > self.now();
        let join = |it: &Failing| {
            let lacks = waits(it) && !it.has_topic(topic);
            lacks.then(|| it.joined_by(topic)).flatten()
        };
        self.change_host(host, false, join).await?;
        let failing = self.failing(host).filter(|it| waits(it) && it.has_topic(topic));
        Ok(failing.map(|it| it.until))
    }

    /// Calls a failing host again. Returns whether this instance did it.
    pub(super) async fn open_host(&self, host: &str) -> Result<bool, Error> {
        let open = |it: &Failing| Some(Failing { opened_at: self.now(), ..it.clone() });
        let opened = self.change_host(host, true, open).await?;
        if opened {
            self.hosts.opened.lock().insert(host.to_owned());
        }
        Ok(opened)
    }

    /// Changes what is written of a failing host, as often as others do meanwhile. Returns whether there was anything to change.
    async fn change_host(
        &self,
        host: &str,
        announce: bool,
        change: impl Fn(&Failing) -> Option<Failing>,
    ) -> Result<bool, Error> {
        while let Some(failing) = self.failing(host)
            && let Some(changed) = change(&failing)
        {
            if self.swap_host(host, Some(&failing), Some(&changed), announce).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Replaces what is written of a host, and reads all. Returns false where it was not as expected.
    async fn swap_host(
        &self,
        host: &str,
        from: Option<&Failing>,
        to: Option<&Failing>,
        announce: bool,
    ) -> Result<bool, Error> {
        let text = |it: Option<&Failing>| it.map(Failing::to_string).unwrap_or_default();
        let swap = Command::eval(&scripts::SWAP_HOST, &[&self.lanes.shared.keys.failing_hosts]);
        let swap = swap.arg((host, text(from), text(to), MAX_FAILING, i32::from(announce)));
        let answer = self.lanes.command(swap).await?;
        if word(&answer) == Some("FULL") {
            static FULL: Once = Once::new();
            FULL.call_once(|| {
                tracing::warn!(
                    host,
                    "{MAX_FAILING} hosts fail: others that do are called as usual"
                );
            });
            self.hosts.rows.lock().forget(host);
        }
        self.read_failing_hosts().await?;
        Ok(word(&answer) == Some("OK"))
    }

    /// Reads which hosts fail.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn read_failing_hosts(&self) -> Result<FailingHosts, Error> {
        let _reading = self.hosts.reading.lock().await;
        let all = Command::new("HGETALL").arg(&self.lanes.shared.keys.failing_hosts);
        let mut fields = Fields::of(self.lanes.command(all).await?)?;
        let mut failing = HashMap::with_capacity(fields.len() / 2);
        while !fields.is_empty() {
            let (host, text) = (fields.text()?, fields.text()?);
            match Failing::parse(&text) {
                Some(known) => drop(failing.insert(host, known)),
                None => tracing::debug!(host, "what is written of a failing host cannot be read"),
            }
        }
        let failing = Arc::new(failing);
        // Failures before a host answered, or was resumed, do not count.
        let known = self.hosts.failing.borrow().clone();
        for (host, known) in known.iter() {
            let now = failing.get(host);
            if known.is_closed() && !now.is_some_and(Failing::is_closed) {
                self.hosts.rows.lock().forget(host);
            }
            if now.is_none_or(|now| now.until != known.until) {
                let mut owed = self.hosts.owed.lock();
                // An instance that calls nobody releases nothing.
                if owed.len() < MAX_FAILING {
                    owed.push(known.clone());
                }
            }
        }
        self.hosts.failing.send_if_modified(|known| {
            let changed = *known != failing;
            *known = failing.clone();
            changed
        });
        Ok(failing)
    }

    /// What is written of those of these hosts that fail.
    pub(crate) async fn failing_of(
        &self,
        hosts: &BTreeSet<&str>,
    ) -> Result<Vec<(String, Failing)>, Error> {
        let of = Command::new("HMGET").arg(&self.lanes.shared.keys.failing_hosts);
        let of = hosts.iter().fold(of, |of, host| of.arg(*host));
        let found = Fields::of(self.lanes.command(of).await?)?.words();
        let failing = hosts.iter().zip(found).filter_map(|(host, text)| {
            let failing = Failing::parse(&text.ok()??)?;
            failing.is_closed().then(|| ((*host).to_owned(), failing))
        });
        Ok(failing.collect())
    }

    /// The hosts that this instance has had called again, since it was last asked.
    pub fn take_opened_hosts(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.hosts.opened.lock())
    }

    /// Makes messages due: all of a host that answers again, or whose entry is gone or has another time, and one of each whose
    /// probe is due. `tried` says for each host when to try again, and how often that was. Returns when there is something to do, ms
    /// from now.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn tend_failing_hosts(
        &self,
        tried: &mut HashMap<String, (Millis, usize)>,
    ) -> Result<Option<Millis>, Error> {
        let all = self.read_failing_hosts().await?;
        tried.retain(|host, _| all.contains_key(host));
        // Instances do not all look at once: mostly one of them begins the probe before the others look.
        let hash =
            BuildHasherDefault::<DefaultHasher>::default().hash_one(&self.lanes.shared.instance);
        let jitter = (hash % 200) as Millis;
        let mut next: Option<Millis> = None;
        let owed = self.hosts.owed.lock().clone();
        for failing in owed {
            if self.release_all(&failing).await? {
                self.hosts.owed.lock().retain(|it| *it != failing);
            } else {
                next = Some(self.now());
            }
        }
        for (host, failing) in all.iter() {
            let now = self.now();
            let mut again = |at: Millis| next = Some(next.map_or(at, |next| next.min(at)));
            if !failing.is_closed() {
                // An instance that does not know yet puts messages off meanwhile.
                let over_at = failing.opened_at + OPENED_MS;
                if !self.release_all(failing).await? {
                    again(now);
                } else if over_at <= now {
                    self.swap_host(host, Some(failing), None, false).await?;
                } else {
                    again(over_at);
                }
                continue;
            }
            let (again_at, tries) = tried.get(host).copied().unwrap_or_default();
            let at = (failing.probe_at + jitter).max(again_at);
            if at > now {
                again(at);
            } else if failing.probe_at + STALE_MS < now {
                self.open_host(host).await?;
                again(now);
            } else if !self.is_host_paused(host) {
                let released = self.release_one(failing, tries).await?;
                let at = now + if released { AGAIN_MS } else { NONE_MS };
                tried.insert(host.clone(), (at, tries + 1));
                again(at);
            }
        }
        Ok(next.map(|at| (at - self.now()).max(0)))
    }

    /// Makes the messages of a topic due that wait for failing hosts: its settings have changed.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn release_topic(&self, topic: &TopicName) -> Result<(), Error> {
        let all = self.failing_hosts().borrow().clone();
        for failing in all.values().filter(|it| it.has_topic(topic)) {
            while self.make_due(topic, failing.until, RELEASED).await? {}
        }
        Ok(())
    }

    async fn release_all(&self, failing: &Failing) -> Result<bool, Error> {
        let mut done = true;
        for topic in &failing.topics {
            let mut calls = 0;
            while self.make_due(topic, failing.until, RELEASED).await? {
                calls += 1;
                if calls == RELEASES {
                    done = false;
                    break;
                }
            }
        }
        Ok(done)
    }

    /// Makes one message due, of any topic that is not paused, to probe the host: of another with each try. Returns false if there is
    /// none.
    async fn release_one(&self, failing: &Failing, tries: usize) -> Result<bool, Error> {
        let (before, from) = failing.topics.split_at(tries % failing.topics.len().max(1));
        for topic in from.iter().chain(before) {
            let may = match self.topic_in_force(topic).await {
                Ok(found) => !found.paused,
                Err(Error::TopicNotFound) => false,
                Err(error) => return Err(error),
            };
            if may && self.make_due(topic, failing.until, 1).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes messages of a topic due that are put off until then: up to `most` of each partition, of the first that has any
    /// where it is one. Returns whether there may be more.
    async fn make_due(&self, topic: &TopicName, until: Millis, most: usize) -> Result<bool, Error> {
        let make_due = |partition: &Partition| {
            let fetch = Command::on(&scripts::FETCH_PARKED, partition).arg(("", until, most));
            fetch.read(partition, |reply| {
                reply.now_and_wake()?;
                reply.int()
            })
        };
        let Some(known) = self.registry.find(topic).await? else { return Ok(false) };
        let mut more = false;
        for partition in known.all() {
            let target = Target::Partition(topic, partition.route.partition);
            match self.on(target, make_due).await {
                Ok((_, released)) => more |= released as usize == most,
                // It was deleted meanwhile.
                Err(Error::TopicNotFound) => return Ok(false),
                Err(error) => return Err(error),
            }
            if most == 1 && more {
                return Ok(true);
            }
        }
        Ok(more)
    }

    /// How many messages of these topics are put off for a failing host.
    pub(super) async fn count_put_off(
        &self,
        failing: &Failing,
        shown: impl Fn(&str) -> bool,
    ) -> Result<i64, Error> {
        let mut counts = Vec::new();
        for topic in failing.topics.iter().filter(|topic| shown(topic.as_str())) {
            let Some(topic) = self.registry.find(topic).await? else { continue };
            for partition in &topic.partitions {
                let keys = &partition.keys;
                for set in [&keys.delayed, &keys.delayed_prio, &keys.blocked] {
                    let count = Command::new("ZCOUNT").arg((set, failing.until, failing.until));
                    counts.push(
                        async move { Ok::<_, Error>(int(self.lanes.command(count).await?)?) },
                    );
                }
            }
        }
        Ok(try_join_all(counts).await?.into_iter().sum())
    }

    /// How many hosts fail.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub(crate) async fn count_failing_hosts(&self) -> Result<i64, Error> {
        let failing = self.read_failing_hosts().await?;
        Ok(failing.values().filter(|it| it.is_closed()).count() as i64)
    }
}
