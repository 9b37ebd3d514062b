//! What scenarios on Redis's side stand on: a Redis that keeps what the setting says, instances with
//! the setting's seeded bug, and a load whose report takes up what the scenario itself found.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::sleep;

use crate::harness::{Client, Launch, Redis, RedisOptions, topic};
use crate::proof::actor::{Fleet, Options};
use crate::proof::audit::Place;
use crate::proof::checker::Violation;
use crate::proof::clients::Mix;
use crate::proof::history::{FaultKind, Ms, Outcome, Partitions, What, now};
use crate::proof::load::Load;
use crate::proof::stage::{Durability, Report, Setting};

/// `--redis-timeout-ms` where Redis stalls: shorter than the stalls.
pub const DEADLINE: Ms = 1_500;
/// What two busy cores and a debug build may add to it.
pub const SLACK: Ms = 700;

/// A Redis as the setting wants it.
pub fn redis(setting: &Setting) -> RedisOptions {
    match setting.durability {
        Durability::Memory => Redis::options(),
        Durability::Everysec | Durability::Replicated => {
            Redis::options().appendonly().args(["--appendfsync", "everysec"])
        }
        Durability::Always => Redis::options().appendonly().args(["--appendfsync", "always"]),
    }
}

/// A short deadline for requests to Redis.
pub fn hasty(launch: Launch) -> Launch {
    launch.args(["--redis-timeout-ms", &DEADLINE.to_string()])
}

/// A load, and what its scenario found alongside it.
pub struct Run {
    pub load: Load,
    pub setting: Setting,
    pub begun: Ms,
    /// Some publish without an answer is to be found to have run.
    pub doubtful: bool,
    found: Vec<Violation>,
}

impl Run {
    /// Starts the load of a scenario.
    pub fn begin(name: &'static str, setting: &Setting, fleet: &Fleet) -> Run {
        let mix = if setting.messages > 0 { Mix::bulk() } else { Mix::varied() };
        Run::with(name, setting, fleet, mix)
    }

    /// The same with publishers and consumers only, none of which leaves in the middle of a request:
    /// an outcome is unknown only where Redis's answer is.
    pub fn plain(name: &'static str, setting: &Setting, fleet: &Fleet) -> Run {
        Run::with(name, setting, fleet, Mix::plain(5, 6))
    }

    /// Only the record: no client but those that the scenario makes.
    pub fn quiet(name: &'static str, setting: &Setting, fleet: &Fleet) -> Run {
        Run::with(name, setting, fleet, Mix::plain(0, 0))
    }

    /// The same on this topic, by publishers and consumers only.
    pub fn on(name: &'static str, topic: String, setting: &Setting, fleet: &Fleet) -> Run {
        Run::on_with(name, topic, setting, fleet, Mix::plain(3, 4))
    }

    /// The same by these clients.
    pub fn on_with(
        name: &'static str,
        topic: String,
        setting: &Setting,
        fleet: &Fleet,
        mix: Mix,
    ) -> Run {
        Run::of(Load::on(fleet, name, topic, mix, setting), setting)
    }

    /// A load by these clients on a topic as the setting wants it.
    pub async fn configured(
        name: &'static str,
        setting: &Setting,
        clients: &[Client],
        mix: Mix,
    ) -> Run {
        let topic = topic(name);
        for topic in [&topic, &Load::quiet_topic_of(&topic)] {
            clients[0].new_topic(topic, setting.topic(json!({}))).await;
        }
        let mix = if setting.messages > 0 { Mix::bulk() } else { mix };
        Run::on_with(name, topic, setting, &Fleet::new(clients.to_vec()), mix)
    }

    fn with(name: &'static str, setting: &Setting, fleet: &Fleet, mix: Mix) -> Run {
        Run::of(Load::begin(fleet, name, mix, setting), setting)
    }

    fn of(load: Load, setting: &Setting) -> Run {
        Run { load, setting: setting.clone(), begun: now(), doubtful: false, found: Vec::new() }
    }

    /// Notes a fault that began at `from` and is over now.
    pub fn fault(&self, kind: FaultKind, from: Ms) {
        self.load.recorder.fault(kind, from);
    }

    /// The same of one that concerned these partitions.
    pub fn fault_at(&self, kind: FaultKind, from: Ms, at: Partitions) {
        self.load.recorder.fault_at(kind, from, at);
    }

    /// Demands what the checker cannot see.
    pub fn demand(&mut self, holds: bool, invariant: &str, what: impl FnOnce() -> String) {
        if !holds {
            self.found.push(Violation::of(invariant, what()));
        }
    }

    /// Demands that the fault did happen.
    pub fn bit(&mut self, happened: bool, what: impl FnOnce() -> String) {
        self.demand(happened, "the harness", what);
    }

    /// Demands that no request took longer than this, beyond the wait that it asked for.
    pub fn in_time(&mut self, most: Ms) {
        let (slowest, op) = self.load.recorder.slowest();
        self.demand(slowest < most, "I12 liveness", || format!("{slowest} ms passed: {op:?}"));
    }

    /// Waits until a publish gets through, and demands that it is soon. `client` is a number that
    /// no other client of the run has.
    pub async fn recovers(&mut self, client: u64, most: Duration) {
        let (begin, mut actor) = (Instant::now(), self.load.actor(client));
        while !actor.publish(Options::default()).await.is_ok() {
            assert!(begin.elapsed() < 3 * most + Duration::from_secs(20), "dueq does not recover");
            sleep(Duration::from_millis(20)).await;
        }
        let took = begin.elapsed();
        self.demand(took < most, "I12 liveness", || format!("publishes work only after {took:?}"));
    }

    /// How many publishes have no outcome, and how many of those are known to have run.
    pub fn doubts(&self) -> (usize, usize) {
        let granted = self.load.recorder.granted_payloads(&self.load.topic);
        let (mut all, mut ran) = (0, 0);
        for op in self.load.recorder.of(&self.load.topic) {
            if let What::Publish(publish) = &op.what
                && publish.outcome == Outcome::Unknown
            {
                all += 1;
                ran += usize::from(granted.contains(&publish.payload));
            }
        }
        (all, ran)
    }

    /// How many requests have ended so: ok, refused, never or unknown.
    pub fn ended(&self, outcome: &str) -> usize {
        self.load.recorder.outcomes().get(outcome).copied().unwrap_or(0)
    }

    /// Lets so much time pass before fault number `round`; in a long run also until the load has
    /// published its share.
    pub async fn pace(&mut self, round: usize, ms: u64) {
        sleep(Duration::from_millis(ms)).await;
        let share = self.setting.messages * (round + 1) / (self.setting.rounds + 1);
        self.load.published(share).await;
    }

    /// Ends the load once it has published what it should, drains, checks; adds what the scenario
    /// found.
    pub async fn report(self, redis_url: &str) -> Report {
        let place = Place::only(&self.load.topic, redis_url);
        self.report_at(&[place]).await
    }

    /// The same of a topic whose partitions lie in these places.
    pub async fn report_at(mut self, places: &[Place]) -> Report {
        self.load.published(self.setting.messages).await;
        let mut report = self.load.finish_at(places).await;
        let (all, ran) = self.doubts();
        self.bit(ran > 0 || !self.doubtful, || {
            format!("of {all} publishes without an answer none had run")
        });
        report.violations.extend(self.found);
        report
    }
}

/// The reports of two loads of one scenario as one.
pub fn both(mut one: Report, other: Report) -> Report {
    one.tally.add(&other.tally);
    one.violations.extend(other.violations);
    one
}
