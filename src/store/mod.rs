//! The only place that knows Redis. [`Store`] offers one typed method for each operation of the queue; behind it every
//! change of a message is one Lua script that runs whole or not at all.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod args;
pub mod audit;
mod batch;
mod callbacks;
mod durability;
pub mod export;
mod extra;
#[cfg(test)]
#[path = "../../tests/fuzz/store/mod.rs"]
mod fuzz;
mod history;
mod ids;
mod instances;
mod keys;
mod layout;
mod leases;
mod look;
mod message;
mod messages;
mod names;
mod partition;
mod redis;
mod registry;
mod reply;
mod schedules;
pub mod scripts;
mod stale;
mod stored;
mod sweeps;
mod topics;
mod turns;
mod types;
mod upgrade;
mod versions;
mod waiting;

use callbacks::{callback_names, hosts, push};
use leases::{ack, extend, grants, groups, lease, nack, settle};
use messages::{change, dead_letters, moves, publish, publish_special};
use redis::{
    backend, clock, cluster, connect_error, connection, connection_source, outage, probe,
    redis_args, sentinel, server_info,
};

pub use ack::Ack;
pub use args::StoreArgs;
pub use backend::{KNOWN_VERSION, SCHEMA_VERSION};
pub use batch::Wake;
pub use callback_names::callback_group;
pub use change::Change;
pub use connect_error::ConnectError;
pub use dead_letters::{DeadLetter, Death, DeathEnd, Report};
pub use durability::Replicas;
pub use extend::Extend;
pub use grants::{Granted, Grants, LeaseOptions};
pub use groups::Group;
pub use history::{Active, ClaimedHistory, HistoryPoint};
pub use hosts::{
    CallCounts, CallEnd, Failing, FailingHosts, HostReport, HostTurn, PausedHosts, Places,
};
pub use instances::{Instance, Load, Registration};
pub use lease::{LeaseMode, LeaseOutcome};
pub use look::ServerLook;
pub use moves::{MoveState, MoveTask};
pub use nack::Nack;
pub use partition::{Partition, PartitionName};
pub use probe::RedisProbe;
pub use push::{Allowance, InForce};
pub use redis_args::RedisArgs;
pub use registry::Topic;
pub use schedules::*;
pub use settle::Settle;
pub use stored::Stored;
pub use sweeps::{Claim, Swept};
pub use topics::{Listing, MovesBack, Reason, Selected, Selection, TOTALS, TopicSnapshot, Worked};
pub use turns::Round;
pub use types::*;

use backend::Shared;
use batch::Lanes;
use dueq_base::metrics::Metrics;
use dueq_model::{Millis, TopicName};
use parking_lot::Mutex;
use registry::Registry;
use std::{sync::Arc, time::Duration};
use sweeps::Hint;
use tokio::sync::{Notify, mpsc, watch};
use turns::Turns;

/// How to reach Redis and use it.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Which one, and how to get in.
    pub redis: RedisArgs,
    /// What every key begins with.
    pub key_prefix: String,
    /// Connections that share the work.
    pub lanes: usize,
    /// How long a request waits for Redis.
    pub timeout: Duration,
    /// How many replicas have to confirm what is answered about replicated topics.
    pub replicas: Replicas,
    /// Bring older data to the present schema; otherwise they are refused.
    pub upgrade: bool,
}

impl StoreOptions {
    /// Those of a command that works on the data by itself.
    pub fn of_tool(redis: RedisArgs, key_prefix: String) -> Self {
        let (timeout, replicas) = (Duration::from_secs(3), Default::default());
        Self { redis, key_prefix, lanes: 1, timeout, replicas, upgrade: false }
    }
}

/// The queue in Redis. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    /// Its connections.
    pub(crate) lanes: Arc<Lanes>,
    /// The topics.
    pub(crate) registry: Arc<Registry>,
    /// Topics that this instance wants to be swept; for whoever passes that on.
    hints: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<Hint>>>,
    /// Partitions in which this instance has done something; for whoever reports that.
    active: Arc<Mutex<mpsc::UnboundedReceiver<Partition>>>,
    /// Rings when this instance has changed when a schedule ticks.
    schedules_changed: Arc<Notify>,
    /// The time zones by which schedules tick.
    zones: Arc<ZonesInUse>,
    /// What this instance knows of the hosts of callbacks.
    hosts: Arc<hosts::Hosts>,
    /// Whose long work is next.
    turns: Turns,
}

impl Store {
    /// Connects, checks that this Redis will do, and starts the lanes. Also returns where wake-ups arrive.
    ///
    /// Errors: [`ConnectError`] where Redis cannot be reached or used.
    pub async fn connect(
        options: &StoreOptions,
        metrics: Arc<Metrics>,
    ) -> Result<(Self, mpsc::UnboundedReceiver<Wake>), ConnectError> {
        let (wakes, woken) = mpsc::unbounded_channel();
        let lanes = Lanes::start(Shared::new(options, metrics, wakes)).await?;
        let (hints, hinted) = mpsc::unbounded_channel();
        let (active, activity) = mpsc::unbounded_channel();
        let registry = Registry::new(lanes.clone(), &options.key_prefix, hints, active);
        let (registry, hints) = (Arc::new(registry), Arc::new(tokio::sync::Mutex::new(hinted)));
        let active = Arc::new(Mutex::new(activity));
        let (schedules_changed, hosts, zones) = (Arc::default(), Arc::default(), Arc::default());
        let turns = Turns::default();
        let this = Self { lanes, registry, hints, active, schedules_changed, zones, hosts, turns };
        if options.upgrade {
            this.upgrade().await.map_err(|error| ConnectError::Upgrade(error.kind()))?;
        }
        Ok((this, woken))
    }

    /// A request of the API key of this name begins that makes many calls.
    pub fn round(&self, key: &str) -> Round {
        self.turns.begin(key)
    }

    /// A secret for this purpose that all instances share; `None` before Redis was met.
    pub fn secret(&self, purpose: &str) -> Option<[u8; 32]> {
        Some(self.lanes.shared.service()?.token_key.derive(purpose))
    }

    /// Redis's time as this instance knows it; some ms behind at most.
    pub fn now(&self) -> Millis {
        self.lanes.home().backend.clock.now()
    }

    /// How long until a message of this topic is due, on the clock of its server; the estimate of it is some ms behind at
    /// most.
    pub fn until(&self, topic: &TopicName, at: Millis) -> Duration {
        self.lanes.node_of_topic(topic).backend.clock.until(at)
    }

    /// The time at the server that has the schedules.
    pub fn tick_now(&self) -> Millis {
        self.lanes.node_of(&self.lanes.shared.keys.schedules).backend.clock.now()
    }

    /// How long until then on the clock of the server that has the schedules.
    pub fn until_tick(&self, at: Millis) -> Duration {
        self.lanes.node_of(&self.lanes.shared.keys.schedules).backend.clock.until(at)
    }

    /// How long until then on the clock of the server that knows what to sweep.
    pub fn until_sweep(&self, at: Millis) -> Duration {
        self.lanes.node_of(&self.lanes.shared.keys.sweeps).backend.clock.until(at)
    }

    /// Changes whenever the clock of a server was set.
    pub fn clock_steps(&self) -> watch::Receiver<()> {
        self.lanes.shared.steps.subscribe()
    }

    /// Changes whenever Redis may have forgotten what it said before: after its restarts and failovers.
    pub fn new_epochs(&self) -> watch::Receiver<u64> {
        self.lanes.shared.new_epochs()
    }

    /// Reads the files with the URL, the password and the certificates again. Connections that are open stay so; further
    /// ones are made with what was read.
    ///
    /// Errors: [`ConnectError`] if a file cannot be used, or names another Redis. What was read before stays in force.
    pub async fn reload_redis(&self) -> Result<(), ConnectError> {
        match self.lanes.cluster() {
            Some(cluster) => cluster.reload().await,
            None => self.lanes.home().backend.reload().await,
        }
    }

    /// Follows the primaries wherever the Sentinels or the nodes of the Cluster say that they are. Ends at once where there are
    /// none.
    pub async fn follow_primaries(&self) {
        match self.lanes.cluster() {
            Some(cluster) => cluster.keep().await,
            None => self.follow_primary().await,
        }
    }

    /// Serves what waits and ends the connections; requests are refused from now on.
    pub async fn stop(&self) {
        self.lanes.stop().await;
    }
}

/// Tells apart what is made under the same name.
fn random_bytes() -> [u8; 16] {
    let mut bytes = [0; 16];
    if getrandom::fill(&mut bytes).is_err() {
        bytes[..4].copy_from_slice(&std::process::id().to_be_bytes());
    }
    bytes
}
