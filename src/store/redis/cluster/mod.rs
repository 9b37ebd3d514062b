//! A Redis or Valkey Cluster: every primary is a node with lanes of its own, and a map says which of them serves a slot. What
//! a server sends away since another serves the slot, or since it cannot serve for now, goes on its way again by itself:
//! such a call did not run. Calls that may have run are never sent again, nor are their neighbours in a pipeline.

mod ask;
mod follow;
mod map;
mod slots;
mod view;

pub(crate) use ask::primaries;
pub(crate) use slots::{SLOTS, Slot, crc16, key_in, slot_of};
pub use view::Address;

use crate::{
    StoreOptions,
    backend::Shared,
    batch::{Call, Command, Job, Node},
    connect_error::ConnectError,
    connection_source::Endpoint,
    outage::SILENT,
    redis_args::{ClusterTarget, RedisMode, Target},
    reply::{self, CallError},
    server_info::{Mode, Unhealthy, node_health},
};
use ask::mode_of;
use deadpool_redis::redis::{Client, ConnectionAddr, Value};
use dueq_model::Epoch;
use futures_util::future::join_all;
use map::Map;
use parking_lot::{Mutex, RwLock};
use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{sync::Notify, time::timeout};
use tokio_util::sync::CancellationToken;
use view::target;

/// How long a node may take to say what it is.
const ASK_TIMEOUT: Duration = Duration::from_secs(1);
/// The pause before a call that cannot be served for now is sent again; twice as long each time.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(64);
/// An instance is ready for so long without the registry: it knows the topics that it works on.
const REGISTRY_PATIENCE: Duration = Duration::from_secs(60);
/// How long a node may take to say how it is.
const HEALTH_TIMEOUT: Duration = Duration::from_millis(500);
/// From so many nodes on, each has one lane besides the express lane.
const MANY_NODES: usize = 9;

/// What an operator may want to change.
const FULL_COVERAGE: &str = "the Cluster has cluster-require-full-coverage yes: while one primary is away, all topics are unavailable for a moment, not only those that it has";

/// The nodes, and what they said last.
pub struct Cluster {
    shared: Arc<Shared>,
    /// As the files were last read.
    target: RwLock<Arc<ClusterTarget>>,
    map: RwLock<Arc<Map>>,
    /// Servers that were named by others, and that serve no slot as far as the map knows.
    named: Mutex<HashSet<Address>>,
    /// Rings when the map may be wrong.
    doubt: Notify,
    /// Slots have moved: their waiters sleep by the clock of another server.
    moved: AtomicBool,
    /// All keys become unavailable with any of them.
    full_coverage: bool,
    /// When the registry was last there.
    registry_seen: Mutex<Instant>,
    /// The epoch of the server of numbers in which this instance's were drawn.
    numbered: Mutex<Epoch>,
    stopping: CancellationToken,
}

/// What a reply says of a call that did not run.
pub enum Redirect {
    /// That server serves the slot.
    Moved(Slot, Address),
    /// That server may have the keys already.
    Ask(Address),
    /// Nobody can serve it for now.
    Later,
}

impl Redirect {
    /// What a reply of `node` says; nothing where it is an answer. Only codes of calls that surely did not run.
    pub fn of(reply: &Value, node: &Node) -> Option<Self> {
        let Value::ServerError(error) = reply else { return None };
        let there = || target(error.details()?, &node.backend.host());
        match reply::code(error) {
            "MOVED" => Some(there().map_or(Self::Later, |(slot, to)| Self::Moved(slot, to))),
            "ASK" => Some(there().map_or(Self::Later, |(_, to)| Self::Ask(to))),
            "TRYAGAIN" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "READONLY" | "BUSY" => {
                Some(Self::Later)
            }
            _ => None,
        }
    }
}

impl Cluster {
    /// Whether the options name nodes of a Cluster; where they leave that open, the first that answers is asked.
    pub async fn is_named(options: &StoreOptions) -> bool {
        if options.redis.redis_mode == Some(RedisMode::Cluster) {
            return true;
        }
        if !options.redis.are_open() {
            return false;
        }
        let Ok((Target::Cluster(target), _)) = options.redis.target(Some(RedisMode::Cluster))
        else {
            return false;
        };
        for seed in &target.seeds {
            if let Some(mode) = mode_of(seed, options.timeout).await {
                return mode == Mode::Cluster;
            }
        }
        false
    }

    /// All nodes; that of the data that belong to no topic comes first.
    pub fn nodes(&self) -> Vec<Arc<Node>> {
        self.map().nodes(&self.shared.keys.secret)
    }

    /// The node of the data that belong to no topic.
    pub fn home(&self) -> Arc<Node> {
        self.node_of(slot_of(self.shared.keys.secret.as_bytes()))
    }

    /// The node of a slot.
    pub fn node_of(&self, slot: Slot) -> Arc<Node> {
        self.map().of(slot).clone()
    }

    /// Can it serve? What to warn of where it can, the reason where it cannot: one primary must take writes, and the registry
    /// have been there within the last minute.
    pub async fn health(&self) -> Result<Vec<String>, String> {
        let map = self.map();
        let prefix = &self.shared.options.key_prefix;
        let looked = map.all().iter().filter_map(|(address, node)| {
            let key = key_in(map.first_slot(node)?, prefix);
            Some(async move {
                let health = timeout(HEALTH_TIMEOUT, node_health(node, &key)).await;
                (shown(address), health.unwrap_or_else(|_| Err(Unhealthy::Away(SILENT.to_owned()))))
            })
        });
        let (mut warnings, mut serving, mut cause) = (Vec::new(), false, String::new());
        for (address, health) in join_all(looked).await {
            match health {
                Ok(of_node) => {
                    serving = true;
                    warnings.extend(of_node.into_iter().map(str::to_owned));
                }
                Err(sick @ Unhealthy::Evicts(_)) => return Err(format!("{address}: {sick}")),
                Err(sick) => {
                    warnings.push(format!("{address}, a primary of the Cluster: {sick}"));
                    cause = sick.to_string();
                }
            }
        }
        if !serving {
            return Err(format!("no primary of the Cluster can be used: {cause}"));
        }
        self.look_at_registry().await;
        if self.registry_seen.lock().elapsed() > REGISTRY_PATIENCE {
            return Err("the registry of topics cannot be read".to_owned());
        }
        warnings.extend(self.full_coverage.then(|| FULL_COVERAGE.to_owned()));
        warnings.sort_unstable();
        warnings.dedup();
        Ok(warnings)
    }

    /// Notes whether the registry is there. A server that is away is not waited for.
    async fn look_at_registry(&self) {
        let key = &self.shared.keys.registry;
        let node = self.node_of(slot_of(key.as_bytes()));
        if node.is_down() {
            return;
        }
        let look = timeout(HEALTH_TIMEOUT, node.command(Command::new("EXISTS").arg(key)));
        if matches!(look.await, Ok(Ok(_))) {
            *self.registry_seen.lock() = Instant::now();
        }
    }

    /// A key that this node has; another one with each try, since its slot may be on the move. Nothing if it has none.
    pub fn key_on(&self, node: &Arc<Node>, tries: usize) -> Option<String> {
        let slot = self.map().some_slot(node, tries)?;
        Some(key_in(slot, &self.shared.options.key_prefix))
    }

    /// Sends requests to the nodes of their slots, in this order.
    pub fn send(&self, mut jobs: Vec<Job>) {
        // A node may retire between the look at the map and the sending.
        for _ in 0..3 {
            let map = self.map();
            let mut left = Vec::new();
            for (node, jobs) in map.divide(jobs, &self.shared.keys.secret) {
                left.extend(node.put(jobs));
            }
            if left.is_empty() {
                return;
            }
            jobs = left;
        }
        jobs.into_iter().for_each(Job::refuse);
    }

    /// Sends calls on their way again that a server did not run.
    pub fn redirect(self: &Arc<Self>, calls: Vec<(Redirect, Box<dyn Call>)>) {
        let (mut now, mut later) = (Vec::new(), Vec::new());
        for (redirect, call) in calls {
            let in_time = |job: &Job| job.came.since.elapsed() < self.shared.options.timeout;
            let (mut jobs, late): (Vec<_>, Vec<_>) =
                call.into_jobs().into_iter().partition(in_time);
            late.into_iter().for_each(Job::refuse);
            let tries = jobs.iter_mut().map(Job::sent_away).max().unwrap_or(1);
            jobs.iter_mut().for_each(|job| job.asking = false);
            let node = match &redirect {
                Redirect::Moved(slot, to) => self.moved(*slot, to),
                Redirect::Ask(to) => self.map().at(to).cloned(),
                Redirect::Later => None,
            };
            match (node, redirect) {
                (Some(node), Redirect::Ask(_)) if tries < 3 => {
                    jobs.iter_mut().for_each(|job| job.asking = true);
                    node.put(jobs).into_iter().for_each(Job::refuse);
                }
                (Some(_), Redirect::Moved(..)) if tries < 3 => now.extend(jobs),
                (_, Redirect::Moved(_, to) | Redirect::Ask(to)) => {
                    if self.map().at(&to).is_none() {
                        self.named.lock().insert(to);
                    }
                    self.look();
                    later.push((tries, jobs));
                }
                (_, Redirect::Later) => {
                    self.look();
                    later.push((tries, jobs));
                }
            }
        }
        if !now.is_empty() {
            self.send(now);
        }
        for (tries, jobs) in later {
            let pause = LONGEST_PAUSE.min(FIRST_PAUSE * (1 << u32::from(tries.min(6) - 1)));
            let this = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep(pause).await;
                this.send(jobs);
            });
        }
    }

    /// Asks soon which server serves which slot.
    pub fn look(&self) {
        self.doubt.notify_one();
    }

    /// Notes that a server serves a slot, if it is known.
    fn moved(&self, slot: Slot, to: &Address) -> Option<Arc<Node>> {
        let mut map = self.map.write();
        let node = map.at(to)?.clone();
        if !Arc::ptr_eq(map.of(slot), &node) {
            *map = Arc::new(map.with(slot, to));
            self.moved.store(true, Ordering::Relaxed);
            self.look();
        }
        Some(node)
    }

    /// The nodes as they are known now.
    fn map(&self) -> Arc<Map> {
        self.map.read().clone()
    }
}

/// The host of a node that is named.
pub(crate) fn host_of(client: &Client) -> String {
    match client.get_connection_info().addr() {
        ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host.clone(),
        _ => "127.0.0.1".to_owned(),
    }
}

/// An address as it is written.
pub(crate) fn shown((host, port): &Address) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}
