//! A load of every kind of client, and what is demanded once the faults are over: the queue drains,
//! and the checker finds nothing.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::actor::{Actor, Fleet};
use super::audit::{Audit, Place, connect, conserved};
use super::checker::{self, Violation};
use super::clients::board::Board;
use super::clients::{self, Mix, consumers, extreme, meddlers, publishers, quiet};
use super::history::Outcome;
use super::record::Recorder;
use super::stage::{Durability, Report, Setting};
use crate::harness::{Client, Redis, topic};

/// The drain's clients are numbered from here; the load's from 0.
const DRAIN: u64 = 8_000;
/// And those of the quiet topic from here.
const QUIET: u64 = 7_000;

/// And those of the topic with extreme messages from here.
const EXTREME: u64 = 6_000;

/// A load that publishes nothing for so long is stuck.
const STUCK: Duration = Duration::from_secs(60);

/// Clients at work on one topic.
pub struct Load {
    pub recorder: Arc<Recorder>,
    pub topic: String,
    fleet: Fleet,
    scenario: &'static str,
    durability: Durability,
    board: Arc<Board>,
    tasks: JoinSet<()>,
    /// Clients of the quiet topic.
    quiet: JoinSet<()>,
    /// What was found before the end.
    found: Arc<Mutex<Vec<String>>>,
}

impl Load {
    /// Starts the clients of a mix against any of the fleet; they go on until the load is finished.
    /// The topic's name, and the report's, begin with this one. Clients are numbered from 0.
    pub fn begin(fleet: &Fleet, name: &str, mix: Mix, setting: &Setting) -> Load {
        Load::on(fleet, name, topic(name), mix, setting)
    }

    /// The same on this topic. The quiet topic is [`Load::quiet_topic_of`] it.
    pub fn on(fleet: &Fleet, name: &str, topic: String, mix: Mix, setting: &Setting) -> Load {
        let recorder = setting.seed.map_or_else(Recorder::new, Recorder::of_seed);
        let mut load = Load {
            topic,
            fleet: fleet.clone(),
            scenario: name.to_owned().leak(), // reports say it to the end of the process
            durability: setting.durability,
            board: Arc::new(Board::new(recorder.seed, mix.clone())),
            tasks: JoinSet::new(),
            quiet: JoinSet::new(),
            found: Arc::default(),
            recorder: Arc::new(recorder),
        };
        let mut next = 0;
        macro_rules! spawn {
            ($($role:path: $count:expr;)*) => {$(
                for _ in 0..$count {
                    load.tasks.spawn($role(load.actor(next), load.board.clone()));
                    next += 1;
                }
            )*};
        }
        spawn! {
            publishers::publisher: mix.publishers;
            publishers::bulk_publisher: mix.bulk_publishers;
            publishers::idempotent_publisher: mix.idempotent_publishers;
            publishers::key_publisher: mix.key_publishers;
            consumers::consumer: mix.consumers;
            meddlers::deleter: mix.deleters;
            meddlers::updater: mix.updaters;
            meddlers::redriver: mix.redrivers;
            meddlers::watcher: mix.watchers;
            meddlers::pauser: mix.pausers;
            publishers::group_publisher: mix.group_publishers;
        }
        if mix.publishers > 0 {
            load.whisper();
        }
        for number in 0..mix.extreme {
            let topic = format!("{}-extreme", load.topic);
            let actor = Actor::new(&load.recorder, fleet, &topic, EXTREME + number);
            load.tasks.spawn(extreme::client(actor, load.board.clone()));
        }
        let (gauge, board) = (load.actor(DRAIN - 1), load.board.clone());
        load.tasks.spawn(async move { board.gauge(gauge).await });
        load
    }

    /// Starts the clients of the quiet topic.
    fn whisper(&mut self) {
        let topic = Load::quiet_topic_of(&self.topic);
        let (recorder, fleet, board) = (&self.recorder, &self.fleet, &self.board);
        let actor = |number| Actor::new(recorder, fleet, &topic, number);
        self.quiet.spawn(quiet::publisher(actor(QUIET), board.clone()));
        for number in 1..=2 {
            self.quiet.spawn(quiet::waiter(actor(QUIET + number), board.clone()));
        }
    }

    /// The topic on which now and then a waiter is woken, alongside the load on this one.
    pub fn quiet_topic_of(topic: &str) -> String {
        format!("{topic}-quiet")
    }

    /// Starts this many plain publishers and consumers.
    pub fn start(fleet: &Fleet, name: &str, publishers: u64, consumers: u64) -> Load {
        let setting = Setting::short(Durability::Everysec, 0);
        Load::begin(fleet, name, Mix::plain(publishers, consumers), &setting)
    }

    /// A further client of the same run. Give it a number that no other has: the load's are below
    /// 100, the quiet topic's from 7,000, the drain's from 7,999 to 8,900.
    pub fn actor(&self, number: u64) -> Actor {
        Actor::new(&self.recorder, &self.fleet, &self.topic, number)
    }

    /// How many messages were made so far by publishes answered 2xx.
    pub fn published_so_far(&self) -> u64 {
        *self.board.published().borrow()
    }

    /// Waits until the load has published this many messages, or is stuck.
    pub async fn published(&self, messages: usize) {
        let mut published = self.board.published();
        while *published.borrow_and_update() < messages as u64 {
            if timeout(STUCK, published.changed()).await.is_err() {
                let so_far = self.published_so_far();
                self.find(format!("I12 liveness: {so_far} published, and no more for {STUCK:?}"));
                return;
            }
        }
    }

    /// Reads what lies in Redis again and again until the load ends: I8 and I9 hold at any moment.
    pub fn inspect(&mut self, url: &str) {
        let (board, topic, found) = (self.board.clone(), self.topic.clone(), self.found.clone());
        let url = url.to_owned();
        self.tasks.spawn(async move {
            while !board.over() {
                let Ok(mut connection) = connect(&url).await else {
                    sleep(Duration::from_millis(50)).await;
                    continue;
                };
                let mut begin = Instant::now();
                while let Ok(audit) = Audit::read(&mut connection, &topic).await {
                    let new = audit.violations();
                    if !new.is_empty() {
                        let under_load = new.into_iter().map(|what| what + " (under load)");
                        found.lock().unwrap().extend(under_load);
                        return;
                    }
                    // A large partition is not read all the time.
                    sleep(Duration::from_millis(100).max(begin.elapsed() * 10)).await;
                    if board.over() {
                        return;
                    }
                    begin = Instant::now();
                }
            }
        });
    }

    /// Ends the load without a look at what it left.
    pub async fn stop(&mut self) {
        self.board.end();
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap_or_else(|error| self.find(clients::panic_of(error)));
        }
        self.quiet.abort_all();
        while let Some(ended) = self.quiet.join_next().await {
            let failed = ended.err().filter(|error| !error.is_cancelled());
            failed.into_iter().for_each(|error| self.find(clients::panic_of(error)));
        }
    }

    /// Ends the load, drains the queue, and reports what was counted and what is wrong.
    pub async fn finish(&mut self, redis_url: &str) -> Report {
        let place = Place::only(&self.topic, redis_url);
        self.finish_at(&[place]).await
    }

    /// The same of a topic whose partitions lie in these places.
    pub async fn finish_at(&mut self, places: &[Place]) -> Report {
        self.conclude(places).await.0
    }

    /// The same, but demands that every promise was kept.
    pub async fn verify(&mut self, redis: &Redis) -> Audit {
        let place = Place::only(&self.topic, &redis.url());
        let (report, audit) = self.conclude(&[place]).await;
        report.expect_clean();
        audit
    }

    async fn conclude(&mut self, places: &[Place]) -> (Report, Audit) {
        self.stop().await;
        let mix = &self.board.mix;
        let drainers = 1 + mix.bulk_publishers;
        let clients = (0..=drainers).map(|number| self.actor(DRAIN + number)).collect();
        let found = clients::drain::drain(clients, mix).await;
        found.into_iter().for_each(|what| self.find(what));
        let mut watcher = self.actor(DRAIN + 900);
        if let Outcome::Ok(answer) = watcher.topic().await {
            conserved(&answer).into_iter().for_each(|what| self.find(what));
            eprintln!("{answer}");
        }
        let audit = self.audit(places).await;
        let history = self.recorder.history(&self.topic);
        let mut violations: Vec<Violation> = {
            let found = self.found.lock().unwrap();
            found.iter().cloned().map(Violation::from).collect()
        };
        violations.extend(checker::violations(&history, &audit));
        let quiet = self.recorder.history(&Load::quiet_topic_of(&self.topic));
        violations.extend(checker::deaf(&quiet));
        let (outcomes, slowest) = (self.recorder.outcomes(), self.recorder.slowest().0);
        eprintln!("{}: {outcomes:?}, slowest {slowest} ms", self.topic);
        let report = Report {
            scenario: self.scenario,
            durability: self.durability,
            seed: self.recorder.seed,
            tally: checker::tally(&history, &audit),
            violations,
        };
        (report, audit)
    }

    /// What lies in Redis at the end. Each partition is in order for itself.
    async fn audit(&self, places: &[Place]) -> Audit {
        let mut all: Option<Audit> = None;
        for place in places {
            let part = audit(place).await;
            let wrong = part.violations().into_iter().filter(|_| places.len() > 1);
            wrong.for_each(|what| self.find(format!("{what} ({})", place.tag)));
            all = Some(match all {
                Some(all) => all.plus(part),
                None => part,
            });
        }
        all.expect("a partition")
    }

    fn find(&self, what: String) {
        self.found.lock().unwrap().push(what);
    }
}

/// What lies in a partition at the end.
///
/// # Panics
/// When it cannot be read for 20 s: the scenario ended its faults too late.
async fn audit(place: &Place) -> Audit {
    let read = async {
        loop {
            if let Ok(mut connection) = connect(&place.url).await
                && let Ok(audit) = Audit::read_at(&mut connection, &place.tag).await
            {
                return audit;
            }
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(Duration::from_secs(20), read).await.expect("Redis answers at the end")
}

/// A client's fleet of one.
pub fn only(client: Client) -> Fleet {
    Fleet::new([client])
}
