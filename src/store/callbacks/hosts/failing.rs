//! Hosts that fail: after enough failures in a row, their messages wait without an attempt until a probe is answered.
//!
//! Each instance counts failures in memory, so a call costs no look-up. What it finds failing is written to Redis, where all
//! instances read it. A change replaces the entry as it was read, so only one instance makes it: one of them begins a probe.
//!
//! The messages wait in Redis with a due time that all messages of the host share. That needs no memory of any instance:
//! whoever finds the host answering makes all messages due that have this time, and a probe makes one of them due.

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
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher},
    sync::{Arc, Once},
};

/// Hosts that may be failing at once.
const MAX_FAILING: usize = 1_000;
/// Rows of failures, and how long one counts after its last failure, ms.
const MAX_ROWS: usize = 10_000;
const ROW_LIFE_MS: Millis = 3_600_000;
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
/// Topics that are remembered for a host. The messages of others come back again and again.
const MAX_TOPICS: usize = 64;
/// Messages that one call makes due, and calls for a topic before others have a turn.
const RELEASED: usize = 128;
const RELEASES: usize = 64;
/// Pause before a message is made due for a probe once more, ms: if the last one has come, and if there was none.
const AGAIN_MS: Millis = 1_000;
const NONE_MS: Millis = 5_000;
const MAX_ERROR_CHARS: usize = 200;

/// What is known of a host that fails. Times in ms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    /// When the first of its calls failed.
    pub since: Millis,
    /// Until when its messages are put off.
    pub until: Millis,
    interval: Millis,
    /// When the next probe may begin.
    pub probe_at: Millis,
    /// When it answered again; 0: not yet.
    opened_at: Millis,
    /// Calls that failed, probes included.
    pub failures: i64,
    topics: Vec<TopicName>,
    /// How a call failed.
    pub error: String,
}

/// The hosts that fail, or whose messages are being made due.
pub type FailingHosts = Arc<HashMap<String, Failing>>;

impl Failing {
    /// Does it still fail?
    pub fn is_closed(&self) -> bool {
        self.opened_at == 0
    }

    /// May messages of this topic be put off for it?
    pub fn has_topic(&self, topic: &TopicName) -> bool {
        self.topics.contains(topic)
    }

    /// Do messages of this topic wait for it? They do if calls of the topic made it fail, or if enough calls failed for its own
    /// settings. That changes with the entry only, so all who read it agree.
    pub fn holds(&self, topic: &TopicName, push: &Push) -> bool {
        let most = i64::from(push.failing_after());
        let over_ms = self.probe_at - self.interval - self.since;
        let enough = self.failures >= most && over_ms >= push.failing_over_ms();
        self.is_closed() && most > 0 && (enough || self.has_topic(topic))
    }

    /// The same with this topic, if it can remember one more.
    fn joined_by(&self, topic: &TopicName) -> Option<Self> {
        let topics = self.topics.iter().chain([topic]).cloned().collect();
        (self.topics.len() < MAX_TOPICS).then(|| Self { topics, ..self.clone() })
    }

    /// Has one of these topics messages for it?
    pub fn has_any(&self, shown: impl Fn(&str) -> bool) -> bool {
        self.topics.iter().any(|topic| shown(topic.as_str()))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(8, ' ');
        let mut number = || words.next()?.parse::<Millis>().ok();
        let failing = Self {
            since: number()?,
            until: number()?,
            interval: number()?,
            probe_at: number()?,
            opened_at: number()?,
            failures: number()?,
            topics: words
                .next()?
                .split(',')
                .map(|it| TopicName::parse(it).ok())
                .collect::<Option<_>>()?,
            error: words.next()?.to_owned(),
        };
        // It is replaced as it was written.
        (failing.to_string() == text).then_some(failing)
    }
}

impl fmt::Display for Failing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { since, until, interval, probe_at, opened_at, failures, topics, error } = self;
        let topics: Vec<_> = topics.iter().map(TopicName::as_str).collect();
        let topics = topics.join(",");
        write!(f, "{since} {until} {interval} {probe_at} {opened_at} {failures} {topics} {error}")
    }
}

/// Failures in a row, as this instance has seen them. Times in ms.
#[derive(Clone, Copy)]
pub(super) struct Row {
    since: Millis,
    last: Millis,
    failures: i64,
}

/// Failures by host, and by the topic whose calls failed, or in `_callbacks` the publisher: the calls of one make no host fail for
/// others.
#[derive(Default)]
pub(super) struct Rows(BTreeMap<(String, String), Row>);

impl Rows {
    fn fail(&mut self, host: &str, whose: String, now: Millis) -> Row {
        let key = (host.to_owned(), whose);
        if self.0.len() >= MAX_ROWS && !self.0.contains_key(&key) {
            self.0.retain(|_, row| now - row.last < ROW_LIFE_MS);
            let oldest = self.0.iter().min_by_key(|(_, row)| row.last).map(|(key, _)| key.clone());
            if let Some(oldest) = oldest.filter(|_| self.0.len() >= MAX_ROWS) {
                self.0.remove(&oldest);
            }
        }
        let new = Row { since: now, last: now, failures: 0 };
        let row = self.0.entry(key).or_insert(new);
        if now - row.last >= ROW_LIFE_MS {
            *row = new;
        }
        *row = Row { since: row.since, last: now, failures: row.failures + 1 };
        *row
    }

    /// The row of a host ends.
    pub fn forget(&mut self, host: &str) {
        if self.0.is_empty() {
            return;
        }
        let of = self.0.range((host.to_owned(), String::new())..).map(|(key, _)| key);
        let of: Vec<_> = of.take_while(|(of, _)| of == host).cloned().collect();
        for key in of {
            self.0.remove(&key);
        }
    }
}

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
        loop {
            let failing = self.failing(host).filter(|it| it.holds(topic, push));
            let Some(failing) = failing else { return Ok(true) };
            let now = self.now();
            if failing.probe_at > now {
                return Ok(false);
            }
            let interval = (2 * failing.interval).min(MAX_PROBE_MS);
            let is_old = failing.until < now + MAX_PROBE_MS;
            let probed = Failing {
                interval,
                probe_at: now + interval,
                failures: failing.failures + 1,
                until: if is_old { failing.until + PUT_OFF_MS } else { failing.until },
                ..failing.clone()
            };
            if self.swap_host(host, Some(&failing), Some(&probed), false).await? {
                return Ok(true);
            }
        }
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
        loop {
            let failing = self.failing(host).filter(|it| it.holds(topic, push));
            let Some(failing) = failing else { return Ok(None) };
            if failing.until <= self.now() {
                return Ok(None);
            }
            if failing.has_topic(topic) {
                return Ok(Some(failing.until));
            }
            let Some(joined) = failing.joined_by(topic) else { return Ok(None) };
            self.swap_host(host, Some(&failing), Some(&joined), false).await?;
        }
    }

    /// Calls a failing host again. Returns whether this instance did it.
    pub(super) async fn open_host(&self, host: &str) -> Result<bool, Error> {
        loop {
            let Some(failing) = self.failing(host) else { return Ok(false) };
            let opened = Failing { opened_at: self.now(), ..failing.clone() };
            if self.swap_host(host, Some(&failing), Some(&opened), true).await? {
                self.hosts.opened.lock().insert(host.to_owned());
                return Ok(true);
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_holds_topics_whose_calls_or_settings_made_it() {
        let [mine, other] = ["mine", "other"].map(|it| TopicName::parse(it).unwrap());
        let mut failing = Failing::parse("1000 2 100 1200 0 1 mine timed out").unwrap();
        let set = |failing_after, failing_over_ms| Push {
            failing_after: Some(failing_after),
            failing_over_ms: Some(failing_over_ms),
            ..Push::default()
        };
        assert!(failing.holds(&mine, &Push::default()) && !failing.holds(&mine, &set(0, 100)));
        assert!(failing.holds(&other, &set(1, 100)) && !failing.holds(&other, &set(2, 100)));
        assert!(!failing.holds(&other, &set(1, 101)) && !failing.holds(&other, &set(0, 100)));
        failing.opened_at = 1_300;
        assert!(!failing.holds(&mine, &Push::default()));
    }

    #[test]
    fn rows_are_bounded_and_end_with_an_answer_or_after_an_hour() {
        let mut rows = Rows::default();
        for n in 0..MAX_ROWS as Millis + 5 {
            rows.fail(&n.to_string(), "a".to_owned(), n);
        }
        assert!(rows.0.len() == MAX_ROWS && rows.0.keys().all(|(host, _)| host != "4"));
        let count =
            |rows: &mut Rows, whose: &str, now| rows.fail("7", whose.to_owned(), now).failures;
        let later = 8 + ROW_LIFE_MS;
        assert_eq!([count(&mut rows, "a", 8), count(&mut rows, "b", 8)], [2, 1]);
        assert_eq!([count(&mut rows, "a", later), count(&mut rows, "a", later)], [1, 2]);
        rows.forget("7");
        assert!(rows.0.keys().all(|(host, _)| host != "7") && rows.0.len() > 1_000);
    }

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let failing = Failing {
            since: 1,
            until: 2,
            interval: 3,
            probe_at: 4,
            opened_at: 0,
            failures: 12,
            topics: vec![TopicName::callbacks(), TopicName::parse("a.b-c").unwrap()],
            error: "answered 503  of all".to_owned(),
        };
        let text = failing.to_string();
        assert_eq!(Failing::parse(&text), Some(failing));
        assert_eq!((Failing::parse("1 2 3"), Failing::parse("")), (None, None));
    }
}
