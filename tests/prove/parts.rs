//! The parts of the long form: which scenarios run with what settings, and what each is to reach.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tokio::task::JoinError;
use tokio::time::timeout;

use crate::proof::bugs::hunt::{Hunted, hunt_all};
use crate::proof::checker::Violation;
use crate::proof::fuzz::schema::{SchemaReport, schemathesis};
use crate::proof::fuzz::wire::{WireReport, wire};
use crate::proof::model;
use crate::proof::scenarios::{self, Scenario};
use crate::proof::stage::{Durability, Report, Setting};
use crate::table;

/// Messages of the run without faults.
const CALM: usize = 1_000_000;
/// Messages, and rounds of kills, of the run under kills: the sum over its parts.
const STORM: usize = 1_000_000;
const STORM_PARTS: usize = 10;
const STORM_ROUNDS: usize = 6;
/// How often each fault of the table is caused, for each durability.
const FAULT_ROUNDS: usize = 3;
/// How often two instances are upgraded and set back: five minutes for each durability.
const UPGRADE_ROUNDS: usize = 8;
/// Orders while primaries are killed every 10 s.
const ORDERS: usize = 10_000;
/// Events of customers while instances and Redis are killed.
const EVENTS: usize = 20_000;
/// The model test: sequences, and operations in each.
const SEQUENCES: (usize, usize) = (10_000, 100);
/// Tokens that are over.
const STALE: usize = 10_000;
/// How long schemathesis works.
const HTTP_MINUTES: u64 = 20;
/// And how long bytes that are hardly HTTP are sent.
const WIRE_SECONDS: u64 = 60;

/// Scenarios that count or time, with their messages: a million without faults, stale tokens, punctuality, order, bursts, herds,
/// poison, a million that wait.
pub const NUMBERS: [(&str, usize); 12] = [
    ("liveness", 3_000),
    ("endurance", 1),
    ("unread", 1),
    ("adversary", 51_000),
    ("poison", 100_000),
    ("million_delayed", 1_000_000),
    ("million_blocked", 1_000_000),
    ("herd", 1),
    ("burst", 200_000),
    ("order", 6_000),
    ("stale_tokens", STALE),
    ("calm", CALM),
];

/// What has been found so far.
pub struct Proof {
    started: Instant,
    pub calm: Vec<Report>,
    pub storm: Vec<Report>,
    pub faults: Vec<Report>,
    pub bugs: Vec<Hunted>,
    pub model: Option<String>,
    pub http: Option<Fuzzed>,
    /// What went wrong besides violations in reports.
    pub failures: Vec<String>,
}

impl Proof {
    /// Nothing yet.
    pub fn new(started: Instant) -> Proof {
        Proof {
            started,
            calm: Vec::new(),
            storm: Vec::new(),
            faults: Vec::new(),
            bugs: Vec::new(),
            model: None,
            http: None,
            failures: Vec::new(),
        }
    }

    /// The scenarios that count or time, of those whose names are wanted.
    pub async fn numbers(&mut self, wanted: impl Fn(&str) -> bool) {
        for (name, messages) in NUMBERS.iter().filter(|(name, _)| wanted(name)) {
            let setting = Setting { messages: *messages, ..long(Durability::Memory, 1) };
            let reports = self.run(name, setting).await;
            self.calm.extend(reports);
        }
    }

    /// A million messages at `--fsync always` while instances and Redis are killed and the power is
    /// lost.
    pub async fn storm(&mut self) {
        for _ in 0..STORM_PARTS {
            let messages = STORM / STORM_PARTS;
            let setting = Setting { messages, ..long(Durability::Always, STORM_ROUNDS) };
            let reports = self.run("storm", setting).await;
            self.storm.extend(reports);
        }
    }

    /// Every fault of the table that is asked for, at `everysec` and at `always`, and where there are replicas with topics that wait for them.
    pub async fn faults(&mut self, asked: impl Fn(&str) -> bool) {
        for (name, _) in scenarios::FAULTS.iter().copied().filter(|(name, _)| asked(name)) {
            let with_replicas = scenarios::REPLICATED.contains(&name);
            let replicated = with_replicas.then_some(Durability::Replicated);
            for durability in
                [Durability::Everysec, Durability::Always].into_iter().chain(replicated)
            {
                // Scripts are flushed, and slots moved, in no time; primaries of a Cluster die in turn.
                let rounds = FAULT_ROUNDS
                    * match name {
                        "scripts_flushed" => 30,
                        "customers" | "tenants" => 2,
                        "cluster_killed"
                        | "cluster_moved"
                        | "cluster_orders"
                        | "cluster_target_killed" => 6,
                        _ => 1,
                    };
                let messages = match name {
                    "cluster_orders" => ORDERS,
                    "customers" | "tenants" => EVENTS,
                    _ => 0,
                };
                let setting = Setting { messages, ..long(durability, rounds) };
                let reports = self.run(name, setting).await;
                self.faults.extend(reports);
            }
        }
    }

    /// From the last release to this build and back, one instance after another, under load.
    pub async fn upgrade(&mut self) {
        self.say("the dueq that upgrades begin from");
        let older = match std::env::var_os("DUEQ_OLDER_BINARY") {
            Some(binary) => binary.into(),
            None => match tokio::process::Command::new("tests/older.sh").output().await {
                Ok(built) if built.status.success() => {
                    String::from_utf8_lossy(&built.stdout).trim().into()
                }
                outcome => return self.failures.push(format!("upgrade: {outcome:?}")),
            },
        };
        scenarios::rolling_upgrade::OLDER.get_or_init(|| older);
        for durability in [Durability::Everysec, Durability::Always] {
            let reports = self.run("rolling_upgrade", long(durability, UPGRADE_ROUNDS)).await;
            self.calm.extend(reports);
        }
    }

    /// Random sequences of operations alongside the model of the contract.
    pub async fn model(&mut self) {
        let (sequences, steps) = SEQUENCES;
        self.say(&format!("model: {sequences} sequences of {steps} operations"));
        let run = move || model::run(sequences, steps, None, 4, None);
        match tokio::task::spawn_blocking(run).await {
            Ok(Ok(summary)) => self.model = Some(summary.to_string()),
            Ok(Err(failure)) => self.failures.push(format!("model: {failure}")),
            Err(error) => self.failures.push(format!("model: {error}")),
        }
    }

    /// The seeded bugs that have this in their names, each to be caught within two minutes; two at a time.
    pub async fn bugs(&mut self, named: &str) {
        if std::env::var_os("DUEQ_SEEDED_BINARY").is_none() {
            let problem = "DUEQ_SEEDED_BINARY names no build with the seeded bugs: `make prove`";
            self.failures.push(problem.into());
            return;
        }
        self.say("the seeded bugs");
        let hunted = hunt_all(named, Duration::from_secs(120), 2).await;
        if hunted.is_empty() {
            self.failures.push(format!("no seeded bug has {named:?} in its name"));
        }
        self.bugs.extend(hunted);
    }

    /// The tests themselves, whole, on the servers alongside the one that all else runs on.
    pub async fn versions(&mut self) {
        for engine in ["redis-6.2", "redis-8.2", "valkey-9"] {
            self.say(&format!("the contract, the faults and the embedded Redis on {engine}"));
            let mut tests = tokio::process::Command::new("tests/engines.sh");
            match tests.args(["whole", engine]).status().await {
                Ok(status) if status.success() => {}
                outcome => self.failures.push(format!("versions: {engine}: {outcome:?}")),
            }
        }
    }

    /// Takes what the fuzzing of HTTP found.
    pub fn take_http(&mut self, outcome: Result<Fuzzed, JoinError>) {
        match outcome {
            Ok(fuzzed) => {
                let failures = &fuzzed.schema.failures;
                self.failures.extend(failures.iter().map(|what| format!("http: {what}")));
                self.http = Some(fuzzed);
            }
            Err(error) => self.failures.push(format!("http: {error}")),
        }
    }

    /// Runs the scenario of this name; one that panics is a failure, not the end.
    async fn run(&mut self, name: &str, setting: Setting) -> Option<Report> {
        let Some(scenario) = scenarios::find(name) else {
            self.failures.push(format!("there is no scenario {name}"));
            return None;
        };
        let (durability, begin) = (setting.durability, Instant::now());
        match caught(scenario, setting).await {
            Ok(report) => {
                let (found, tally, seed) = (report.violations.len(), report.tally, report.seed);
                let took = begin.elapsed().as_secs();
                self.say(&format!(
                    "{name} ({durability}): {} published, {} grants, {found} violations, seed {seed}, {took} s",
                    tally.published, tally.grants
                ));
                report.violations.iter().take(5).for_each(|found| eprintln!("- {found}"));
                Some(report)
            }
            Err(panic) => {
                self.say(&format!("{name} ({durability}) fell over: {panic}"));
                self.failures.push(format!("{name} ({durability}) fell over: {panic}"));
                None
            }
        }
    }

    /// Was everything kept, reached and caught?
    pub fn holds(&self) -> bool {
        self.failures.is_empty() && self.broken().is_empty() && table::unreached(self).is_empty()
    }

    /// Everything that is to be printed at the end.
    pub fn shown(&self) -> String {
        table::shown(self, self.started.elapsed())
    }

    /// All reports.
    pub fn reports(&self) -> impl Iterator<Item = &Report> {
        self.calm.iter().chain(&self.storm).chain(&self.faults)
    }

    /// All violations.
    pub fn broken(&self) -> Vec<&Violation> {
        self.reports().flat_map(|report| &report.violations).collect()
    }

    fn say(&self, line: &str) {
        say(self.started, line);
    }
}

/// What came of the fuzzing of HTTP.
pub struct Fuzzed {
    pub schema: SchemaReport,
    pub wire: WireReport,
}

/// Broken HTTP on the wire, then schemathesis, for as long as each is to work.
pub async fn http() -> Fuzzed {
    let wire = wire(WIRE_SECONDS, None).await;
    Fuzzed { schema: schemathesis(HTTP_MINUTES).await, wire }
}

fn long(durability: Durability, rounds: usize) -> Setting {
    Setting { durability, rounds, messages: 0, seed: None, bug: None }
}

fn say(started: Instant, line: &str) {
    let seconds = started.elapsed().as_secs();
    eprintln!("[{:2}:{:02}] {line}", seconds / 60, seconds % 60);
}

async fn caught(scenario: Scenario, setting: Setting) -> Result<Report, String> {
    let limit = Duration::from_secs(1_200);
    match timeout(limit, AssertUnwindSafe(scenario(setting)).catch_unwind()).await {
        Ok(Ok(report)) => Ok(report),
        Ok(Err(panic)) => Err(panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_default()),
        Err(_) => Err(format!("no end in {limit:?}")),
    }
}
