//! The hosts of callbacks: which of them are paused, and how the calls to each go.
//!
//! Redis has the hosts that are paused, for all instances. Each instance that sends callbacks knows them by heart, so that a
//! call costs no look-up, and reads them again as soon as they change: the script that changes them announces it.
//!
//! Each instance counts its own calls (`seen`). It writes the counts down every few seconds, and the instance that is asked adds
//! up what all instances wrote. What an instance wrote counts for a while only, so one that was killed is soon left out.

mod entry;
mod failing;
mod report;
mod seen;

pub use entry::Failing;
pub use failing::{FailingHosts, HostTurn};
pub use report::{CallCounts, CallEnd, HostReport, Places};

use crate::{Store, batch::Command, reply::Fields, scripts, scripts::Script};
use dueq_model::{CallHost, Millis, TopicName, error::Error};
use parking_lot::Mutex;
use seen::Seen;
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};
use tokio::sync::watch;

/// Hosts that are listed, those with the most calls; paused ones are listed besides.
const MAX_LISTED: usize = 1_000;
/// Hosts that may be paused.
const MAX_PAUSED: usize = 1_000;
/// How long a report counts, ms. An instance writes several in this time.
const REPORT_LIFE_MS: Millis = 15_000;
/// Size of a report, bytes.
const MAX_REPORT_BYTES: usize = 256 * 1024;
/// Instances whose reports are kept.
const MAX_REPORTS: usize = 100;
/// Reports that one command reads.
const REPORTS_READ: usize = 4;

/// The paused hosts, and since when each is, ms.
pub type PausedHosts = Arc<HashMap<String, Millis>>;

/// What an instance knows of hosts.
#[derive(Default)]
pub(crate) struct Hosts {
    seen: Mutex<Seen>,
    /// `None` until they are first read.
    paused: watch::Sender<Option<PausedHosts>>,
    failing: watch::Sender<FailingHosts>,
    /// Calls that have failed since the last answer.
    rows: Mutex<entry::Rows>,
    /// Entries that are gone: messages may still be put off until their time.
    owed: Mutex<Vec<Failing>>,
    /// Hosts that this instance has had called again, of which nobody has heard.
    opened: Mutex<BTreeSet<String>>,
    /// Held while they are read, so that what was read later stays.
    reading: tokio::sync::Mutex<()>,
    /// Redis has a report of this instance.
    reported: Mutex<bool>,
}

impl Store {
    /// Counts a call of a topic to a host that has ended.
    pub fn note_call(&self, topic: &TopicName, host: &str, end: CallEnd<'_>) {
        self.hosts.seen.lock().note_call(topic, host, end, self.now());
    }

    /// Notes which calls to hosts are under way in a topic, and which messages wait: instead of what was noted before.
    pub fn note_places(&self, topic: &TopicName, places: HashMap<String, Places>) {
        self.hosts.seen.lock().note_places(topic, places);
    }

    /// The paused hosts as this instance knows them; `None` until they are first read.
    pub fn paused_hosts(&self) -> watch::Receiver<Option<PausedHosts>> {
        self.hosts.paused.subscribe()
    }

    /// Is this host paused, as far as this instance knows?
    pub fn is_host_paused(&self, host: &str) -> bool {
        self.hosts.paused.borrow().as_ref().is_some_and(|paused| paused.contains_key(host))
    }

    /// Reads which hosts are paused.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn read_paused_hosts(&self) -> Result<PausedHosts, Error> {
        let _reading = self.hosts.reading.lock().await;
        let all = Command::new("HGETALL").arg(&self.lanes.shared.keys.paused_hosts);
        let mut fields = Fields::of(self.lanes.command(all).await?)?;
        let mut paused = HashMap::with_capacity(fields.len() / 2);
        while !fields.is_empty() {
            paused.insert(fields.text()?, fields.int()?);
        }
        let paused = Arc::new(paused);
        self.hosts.paused.send_if_modified(|known| {
            let changed = known.as_ref() != Some(&paused);
            *known = Some(paused.clone());
            changed
        });
        Ok(paused)
    }

    /// How many hosts are paused.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub(crate) async fn count_paused_hosts(&self) -> Result<i64, Error> {
        let count = Command::new("HLEN").arg(&self.lanes.shared.keys.paused_hosts);
        Ok(crate::reply::int(self.lanes.command(count).await?)?)
    }

    /// Lets no further call to this host begin, on any instance, or lets them begin again, also where it
    /// fails; this one knows when the future ends.
    ///
    /// Errors: `TooManyPausedHosts`; `CallbackHostNotFound` where no instance knows it and it was not paused;
    /// `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn set_host_paused(
        &self,
        host: &CallHost,
        paused: bool,
    ) -> Result<HostReport, Error> {
        let set = Command::eval(&scripts::PAUSE_HOST, &[&self.lanes.shared.keys.paused_hosts]);
        let set = set.arg((host.as_str(), i32::from(paused), MAX_PAUSED)).confirmed();
        let answer = self.lanes.command(set).await?;
        let answer = crate::reply::word(&answer);
        if answer == Some("FULL") {
            return Err(Error::TooManyPausedHosts(MAX_PAUSED));
        }
        let reopened = !paused && {
            self.read_failing_hosts().await.map_err(Error::after_change)?;
            self.open_host(host.as_str()).await.map_err(Error::after_change)?
        };
        let hosts = self.call_hosts(|_| true).await.map_err(Error::after_change)?;
        let found = hosts.into_iter().find(|found| found.host == host.as_str());
        let unseen = (answer == Some("OK") || reopened).then(|| HostReport::of(host.as_str()));
        found.or(unseen).ok_or(Error::CallbackHostNotFound)
    }

    /// The hosts that were called in the last hour, that messages wait for, that are paused or that fail, by name: these and
    /// the thousand with the most calls. Only what topics have to do with them that are `shown` by name; older versions say none.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn call_hosts(&self, shown: impl Fn(&str) -> bool) -> Result<Vec<HostReport>, Error> {
        let (failing, paused) = (self.read_failing_hosts().await?, self.read_paused_hosts().await?);
        let mut hosts = self.seen_hosts(&shown).await?;
        for (host, at) in paused.iter() {
            if shown("") {
                hosts.entry(host.clone()).or_insert_with(|| HostReport::of(host));
            }
            hosts.entry(host.clone()).and_modify(|known| known.paused_at = Some(*at));
        }
        for (host, failing) in failing.iter().filter(|(_, it)| it.is_closed() && it.has_any(&shown))
        {
            let known = hosts.entry(host.clone()).or_insert_with(|| HostReport::of(host));
            known.waiting += self.count_put_off(failing, &shown).await?;
            known.failures = known.failures.max(failing.failures);
            known.last_error.get_or_insert_with(|| failing.error.clone());
            known.failing = Some((failing.since, failing.probe_at));
        }
        let mut hosts: Vec<_> = hosts.into_values().collect();
        if hosts.len() > MAX_LISTED {
            let held = |host: &HostReport| host.paused_at.is_some() || host.failing.is_some();
            hosts.sort_by_key(|host| std::cmp::Reverse((held(host), host.calls())));
            let held = hosts.iter().filter(|host| held(host)).count();
            hosts.truncate(MAX_LISTED.max(held));
        }
        hosts.sort_by(|a, b| a.host.cmp(&b.host));
        Ok(hosts)
    }

    /// How the calls to each host go, by what this instance counted and the others wrote.
    async fn seen_hosts(
        &self,
        shown: &impl Fn(&str) -> bool,
    ) -> Result<HashMap<String, HostReport>, Error> {
        let mut hosts: HashMap<String, HostReport> = HashMap::new();
        let mut add = |report: HostReport| {
            if !shown(&report.topic) {
                return;
            }
            let known = hosts.entry(report.host.clone());
            known.or_insert_with(|| HostReport::of(&report.host)).add(report);
        };
        // What this instance counted is newer here than what it wrote.
        self.hosts.seen.lock().report(self.now(), MAX_LISTED).into_iter().for_each(&mut add);
        for report in self.host_reports().await? {
            match serde_json::from_str::<Vec<HostReport>>(&report) {
                Ok(report) => report.into_iter().for_each(&mut add),
                Err(error) => tracing::debug!(%error, "a report of hosts cannot be read"),
            }
        }
        Ok(hosts)
    }

    /// What other instances wrote of late.
    async fn host_reports(&self) -> Result<Vec<String>, Error> {
        let keys = &self.lanes.shared.keys;
        let now = self.lanes.node_of(&keys.hosts_reported).backend.clock.now();
        let range = Command::new("ZRANGEBYSCORE");
        let range = range.arg((&keys.hosts_reported, now - REPORT_LIFE_MS, "+inf"));
        let names = Fields::of(self.lanes.command(range.arg(("LIMIT", 0, MAX_REPORTS))).await?)?;
        let names = names.words().into_iter().filter_map(|name| name.ok().flatten());
        let names: Vec<_> = names.filter(|name| *name != self.lanes.shared.instance).collect();
        let mut reports = Vec::with_capacity(names.len());
        for some in names.chunks(REPORTS_READ) {
            let get = Command::new("HMGET").arg(&keys.host_reports).arg(some);
            let found = Fields::of(self.lanes.command(get).await?)?.words();
            reports.extend(found.into_iter().filter_map(|report| report.ok().flatten()));
        }
        Ok(reports)
    }

    /// Writes down how this instance's calls go, for all others. Without anything to tell, that costs Redis nothing.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn report_hosts(&self) -> Result<(), Error> {
        let report = self.hosts.seen.lock().report(self.now(), MAX_LISTED);
        self.write_report(report::as_json(&report, MAX_REPORT_BYTES)).await
    }

    /// Takes back what this instance wrote.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn forget_hosts(&self) -> Result<(), Error> {
        self.write_report(String::new()).await
    }

    async fn write_report(&self, report: String) -> Result<(), Error> {
        let is_there = !report.is_empty();
        let reported = || self.hosts.reported.lock();
        if !is_there && !*reported() {
            return Ok(());
        }
        *reported() = true;
        let keys = &self.lanes.shared.keys;
        let script: &'static Script = &scripts::REPORT_HOSTS;
        let write = Command::eval(script, &[&keys.hosts_reported, &keys.host_reports]);
        let instance = &self.lanes.shared.instance;
        let write = write.arg((instance, report, REPORT_LIFE_MS, MAX_REPORTS));
        self.lanes.command(write).await?;
        *reported() = is_there;
        Ok(())
    }
}
