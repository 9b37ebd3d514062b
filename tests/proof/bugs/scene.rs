//! What a probe works on: a Redis and instances of its own, a record, and what comes of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;

use crate::harness::{Dueq, Launch, Redis, encoded, topic};
use crate::proof::actor::{Actor, Fleet};
use crate::proof::audit::{Audit, connect, conserved};
use crate::proof::checker::{self, Violation};
use crate::proof::history::{Ms, now};
use crate::proof::proxy::Proxy;
use crate::proof::record::Recorder;
use crate::proof::scenarios::ground::redis;
use crate::proof::stage::{Report, Setting, Tally};

/// A probe under way.
pub struct Scene {
    pub redis: Redis,
    /// What the instances reach it through.
    pub proxy: Proxy,
    pub dueq: Vec<Dueq>,
    pub recorder: Arc<Recorder>,
    pub topic: String,
    name: &'static str,
    pub setting: Setting,
    hands: AtomicU64,
    /// I12 is looked at too.
    in_time: bool,
    found: Vec<Violation>,
}

impl Scene {
    /// With so many instances.
    pub async fn start(name: &'static str, setting: Setting, instances: usize) -> Scene {
        Scene::with(name, setting, instances, |launch| launch).await
    }

    /// With instances that are told more before they start.
    pub async fn with(
        name: &'static str,
        setting: Setting,
        instances: usize,
        more: impl Fn(Launch) -> Launch,
    ) -> Scene {
        let redis = redis(&setting).start().await;
        let proxy = Proxy::of(&redis).await;
        let mut dueq = Vec::new();
        for _ in 0..instances {
            dueq.push(more(Dueq::at(&proxy.url()).bug(setting.bug)).start().await);
        }
        let recorder = Arc::new(Recorder::new());
        let (topic, hands, found) = (topic("probe"), AtomicU64::new(0), Vec::new());
        Scene { redis, proxy, dueq, recorder, topic, name, setting, hands, in_time: false, found }
    }

    /// A further instance.
    pub fn launch(&self) -> Launch {
        Dueq::at(&self.proxy.url()).bug(self.setting.bug)
    }

    /// A further client, of instance number `instance`.
    pub fn hand(&self, instance: usize) -> Actor {
        let number = self.hands.fetch_add(1, Ordering::Relaxed);
        let fleet = Fleet::new(self.dueq.iter().map(Dueq::client));
        let deaf = self.setting.bug == Some("unavailable after it was sent");
        let hand = Actor::new(&self.recorder, &fleet, &self.topic, number);
        hand.pinned(instance).careful().deaf(deaf)
    }

    /// So many clients of the first instance.
    pub fn hands(&self, number: usize) -> Vec<Actor> {
        (0..number).map(|_| self.hand(0)).collect()
    }

    /// putTopic.
    pub async fn configure(&self, config: Value) {
        let path = format!("/topics/{}", self.topic);
        self.dueq[0].client().send_json("PUT", &path, &config).await;
    }

    /// putGroup.
    pub async fn put_group(&self, group: &str, settings: Value) {
        let path = format!("/topics/{}/groups/{}", self.topic, encoded(group));
        self.dueq[0].client().send_json("PUT", &path, &settings).await.expect(200);
    }

    /// What lies in Redis now.
    pub async fn audit(&self) -> Audit {
        let mut connection = connect(&self.redis.url()).await.expect("a connection");
        Audit::read(&mut connection, &self.topic).await.expect("an audit")
    }

    /// Looks whether I8 and I9 hold at this moment.
    pub async fn look(&mut self) {
        let found = self.audit().await.violations();
        self.found.extend(found.into_iter().map(Violation::from));
    }

    /// What no record of requests shows is said here.
    pub fn demand(&mut self, kept: bool, promise: &str, otherwise: impl FnOnce() -> String) {
        if !kept {
            self.found.push(Violation::of(promise, otherwise()));
        }
    }

    /// Everything must have been in time as well, which only means something where nothing was wrong
    /// with the machine.
    pub fn in_time(&mut self) {
        self.in_time = true;
    }

    /// Checks the record and what lies in Redis at the end.
    pub async fn end(mut self) -> Report {
        let audit = self.audit().await;
        let history = self.recorder.history(&self.topic);
        self.found.extend(checker::violations(&history, &audit));
        if self.in_time {
            self.found.extend(checker::liveness(&history, 1_000, 1_000));
            self.found.extend(checker::overdue(&history, 500));
        }
        let answer = self.dueq[0].client().topic(&self.topic).await;
        if answer.status == 200 {
            self.found.extend(conserved(&answer.json()).into_iter().map(Violation::from));
        }
        Report {
            scenario: self.name,
            durability: self.setting.durability,
            seed: history.seed,
            tally: Tally::default(),
            violations: self.found,
        }
    }
}

/// Waits until this instant of this machine's clock, which Redis shares.
pub async fn until(at: Ms) {
    sleep(Duration::from_millis((at - now()).max(0).unsigned_abs())).await;
}
