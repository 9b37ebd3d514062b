//! A Redis Cluster: the server under test in cluster mode, each node on free ports and in a directory of its own, as a
//! process that ends on drop. [`slots`] has where keys lie and how slots move, [`walls`] what cuts nodes off from each other.

mod slots;
mod walls;

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::time::Duration;

use deadpool_redis::redis::{self, FromRedisValue, RedisResult};
use futures_util::future::join_all;

pub use self::slots::{Move, crc16, moves_atomically, slot, slot_of};
use self::walls::{Walls, address_of};
use super::redis::{Redis, RedisOptions};
use super::{Dueq, Launch, eventually, topic};

/// How a [`Cluster`] is to be started.
#[derive(Clone)]
pub struct ClusterOptions {
    primaries: usize,
    replicas: usize,
    node_timeout: u64,
    full_coverage: bool,
    holes: bool,
    walled: bool,
    redis: Vec<RedisOptions>,
}

impl ClusterOptions {
    /// How long a node may be silent, ms (1,000 unless told).
    pub fn node_timeout(mut self, ms: u64) -> Self {
        self.node_timeout = ms;
        self
    }

    /// The others answer while a slot has no node: `cluster-require-full-coverage no`.
    pub fn partial(mut self) -> Self {
        self.full_coverage = false;
        self
    }

    /// Slot 0 has no node from the beginning.
    pub fn with_a_hole(mut self) -> Self {
        self.holes = true;
        self
    }

    /// Nodes can be cut off from each other: [`Cluster::wall_off`]. From Redis 7.0 on.
    pub fn walled(mut self) -> Self {
        self.walled = true;
        self
    }

    /// What each node is told besides, such as `min-replicas-to-write` or an append-only file.
    pub fn redis(self, options: RedisOptions) -> Self {
        self.redis_each(vec![options])
    }

    /// The same, one after the other, and again from the first.
    pub fn redis_each(mut self, options: Vec<RedisOptions>) -> Self {
        self.redis = options;
        self
    }

    /// Starts all nodes, and waits until each knows that all is well.
    pub async fn start(self) -> Cluster {
        let number = self.primaries * (1 + self.replicas);
        let nodes = join_all((0..number).map(|index| self.node(index))).await;
        let walls = if self.walled { Some(Walls::around(&nodes).await) } else { None };
        let cluster = Cluster { nodes, walls, away: BTreeSet::new(), options: self };
        cluster.join().await;
        cluster
    }

    async fn node(&self, index: usize) -> Redis {
        let yes_no = |yes: bool| if yes { "yes" } else { "no" };
        self.redis[index % self.redis.len()]
            .clone()
            .cluster()
            .args(["--repl-diskless-sync-delay", "0"])
            .args(["--cluster-node-timeout", &self.node_timeout.to_string()])
            .args(["--cluster-require-full-coverage", yes_no(self.full_coverage)])
            .start()
            .await
    }
}

/// Some primaries, then the replicas of each in the same order, as they were at the beginning.
pub struct Cluster {
    nodes: Vec<Redis>,
    walls: Option<Walls>,
    /// Those that are killed, frozen or walled off.
    away: BTreeSet<usize>,
    options: ClusterOptions,
}

/// What a node says of itself in CLUSTER NODES.
struct Oneself {
    id: String,
    primary: bool,
    epoch: u64,
    slots: Vec<RangeInclusive<u16>>,
}

impl Cluster {
    /// So many primaries with so many replicas each, to be told more before they start.
    pub fn options(primaries: usize, replicas: usize) -> ClusterOptions {
        let (node_timeout, full_coverage, redis) = (1_000, true, vec![Redis::options()]);
        let (holes, walled) = (false, false);
        ClusterOptions { primaries, replicas, node_timeout, full_coverage, holes, walled, redis }
    }

    /// The same with nothing more to be told.
    pub async fn start(primaries: usize, replicas: usize) -> Cluster {
        Cluster::options(primaries, replicas).start().await
    }

    async fn join(&self) {
        let ClusterOptions { primaries, holes, .. } = self.options;
        for (index, node) in self.nodes.iter().enumerate() {
            let epoch = (index + 1).to_string();
            let _: () = node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]).await;
            if index < primaries {
                let first = 16_384 * index / primaries + usize::from(holes && index == 0);
                let slots = first..16_384 * (index + 1) / primaries;
                let slots: Vec<String> = slots.map(|slot| slot.to_string()).collect();
                let words = ["CLUSTER", "ADDSLOTS"].into_iter();
                let words: Vec<&str> = words.chain(slots.iter().map(String::as_str)).collect();
                let _: () = node.command(&words).await;
            }
        }
        for (index, node) in self.nodes.iter().enumerate() {
            for (other, at) in self.nodes[..index].iter().enumerate() {
                let (port, bus) = match &self.walls {
                    Some(walls) => walls.ports(other),
                    None => (at.port(), bus_port(at).await),
                };
                let (port, bus) = (port.to_string(), bus.to_string());
                let meet = ["CLUSTER", "MEET", "127.0.0.1", &port, &bus];
                let _: () = node.command(&meet).await;
            }
        }
        for (index, replica) in self.nodes.iter().enumerate().skip(primaries) {
            let id = self.id(index % primaries).await;
            eventually("a replica knows its primary", || async {
                ask::<()>(replica, &["CLUSTER", "REPLICATE", &id]).await.ok()
            })
            .await;
        }
        self.is_whole().await;
    }

    /// Waits until every node that is not away says that all is well: every slot has a primary, and every replica that is
    /// not away is connected to its own. Others may be away.
    pub async fn is_whole(&self) {
        eventually("the cluster is whole", || async {
            let all = join_all(self.present().map(|index| self.is_well(index))).await;
            all.into_iter().all(|well| well).then_some(())
        })
        .await;
    }

    async fn is_well(&self, index: usize) -> bool {
        let node = &self.nodes[index];
        let Ok(info) = ask::<String>(node, &["CLUSTER", "INFO"]).await else { return false };
        let Ok(nodes) = ask::<String>(node, &["CLUSTER", "NODES"]).await else { return false };
        let Ok(link) = ask::<String>(node, &["INFO", "replication"]).await else { return false };
        let ClusterOptions { primaries, holes, full_coverage, .. } = self.options;
        let state = if holes && full_coverage { "fail" } else { "ok" };
        let well = |line: &&str| {
            let flags = line.split(' ').nth(2).unwrap_or_default();
            !flags.contains("fail") && !flags.contains("handshake")
        };
        let well: Vec<&str> = nodes.lines().filter(well).collect();
        let present = well.len() == self.nodes.len() - self.away.len();
        let with_slots = well.iter().filter(|line| line.split(' ').nth(8).is_some()).count();
        let replicas = self.nodes.len() - primaries - self.away.len();
        let followers = well.iter().filter(|line| line.contains("slave")).count();
        let linked = link.contains("role:master") || link.contains("master_link_status:up");
        info.contains(&format!("cluster_state:{state}"))
            && present
            && with_slots == primaries
            && followers == replicas
            && linked
    }

    /// The URLs of all nodes, as `--redis-url` takes them.
    pub fn urls(&self) -> String {
        let url = |(index, node): (usize, &Redis)| match &self.walls {
            Some(walls) => format!("redis://127.0.0.1:{}/", walls.ports(index).0),
            None => node.url(),
        };
        self.nodes.iter().enumerate().map(url).collect::<Vec<_>>().join(",")
    }

    /// A dueq on it, with all nodes as seeds.
    pub fn launch(&self) -> Launch {
        Dueq::at(&self.urls())
    }

    /// A node, whatever it is by now.
    pub fn node(&self, index: usize) -> &Redis {
        &self.nodes[index]
    }

    /// A wall around this node and whoever calls from these addresses.
    pub fn wall_off(&mut self, index: usize, callers: &[Ipv4Addr]) {
        self.away.insert(index);
        let callers = callers.iter().map(|caller| (*caller).into());
        self.walls().raise(callers.chain([address_of(index)]));
    }

    /// No wall any more around this node.
    pub fn let_in(&mut self, index: usize) {
        self.walls().raise([]);
        self.away.remove(&index);
    }

    fn walls(&self) -> &Walls {
        self.walls.as_ref().expect("a cluster with walls")
    }

    /// Those that are neither killed nor frozen nor walled off.
    pub fn present(&self) -> impl Iterator<Item = usize> {
        (0..self.nodes.len()).filter(|index| !self.away.contains(index))
    }

    /// SIGKILL.
    pub fn kill9(&mut self, index: usize) {
        self.away.insert(index);
        self.nodes[index].kill9();
    }

    /// SIGSTOP.
    pub fn freeze(&mut self, index: usize) {
        self.away.insert(index);
        self.nodes[index].pause();
    }

    /// SIGCONT.
    pub fn thaw(&mut self, index: usize) {
        self.nodes[index].resume();
        self.away.remove(&index);
    }

    /// Starts it again on the same ports and data.
    pub async fn restart(&mut self, index: usize) {
        self.nodes[index].restart().await;
        self.away.remove(&index);
    }

    /// What a node says of itself, if it answers.
    async fn oneself(&self, index: usize) -> Option<Oneself> {
        let nodes: String = ask(&self.nodes[index], &["CLUSTER", "NODES"]).await.ok()?;
        let own = nodes.lines().find(|line| line.contains("myself"))?;
        let words: Vec<&str> = own.split(' ').collect();
        let range = |word: &&str| {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            Some(first.parse().ok()?..=last.parse().ok()?)
        };
        Some(Oneself {
            id: words[0].to_owned(),
            primary: words[2].contains("master"),
            epoch: words[6].parse().ok()?,
            slots: words[8..].iter().filter_map(range).collect(),
        })
    }

    /// The name by which the nodes know this one.
    pub async fn id(&self, index: usize) -> String {
        self.oneself(index).await.expect("a node that answers").id
    }

    /// The slots that a node has, by what it says itself.
    pub async fn slots_of(&self, index: usize) -> Vec<RangeInclusive<u16>> {
        self.oneself(index).await.expect("a node that answers").slots
    }

    /// The primary that has this slot, of those that are not away.
    pub async fn find_primary_of(&self, slot: u16) -> Option<usize> {
        let mut found = None;
        for index in self.present() {
            if let Some(own) = self.oneself(index).await
                && own.primary
                && own.slots.iter().any(|range| range.contains(&slot))
            {
                found = found.max(Some((own.epoch, index)));
            }
        }
        found.map(|(_, index)| index)
    }

    /// The same, waiting until there is one.
    pub async fn primary_of(&self, slot: u16) -> usize {
        eventually("a primary of the slot", || self.find_primary_of(slot)).await
    }

    /// The primary that has this topic.
    pub async fn primary_of_topic(&self, topic: &str) -> usize {
        self.primary_of(slot_of(topic)).await
    }

    /// Waits until another than this one has the slot, and takes writes: that one.
    pub async fn taken_over(&self, slot: u16, from: usize) -> usize {
        eventually("a replica takes over", || async {
            let now = self.find_primary_of(slot).await.filter(|now| *now != from)?;
            let info: String = ask(&self.nodes[now], &["CLUSTER", "INFO"]).await.ok()?;
            info.contains("cluster_state:ok").then_some(now)
        })
        .await
    }

    /// A new name of a topic that this node has, and that nobody else uses.
    pub async fn topic_on(&self, index: usize, name: &str) -> String {
        let slots = self.slots_of(index).await;
        let names = std::iter::repeat_with(|| topic(name));
        let here = |name: &String| slots.iter().any(|range| range.contains(&slot_of(name)));
        names.into_iter().find(here).expect("a name")
    }
}

/// The port of a node's bus.
async fn bus_port(node: &Redis) -> u16 {
    let set: Vec<String> = node.command(&["CONFIG", "GET", "cluster-port"]).await;
    let set = set.get(1).and_then(|port| port.parse().ok()).filter(|port| *port > 0);
    set.unwrap_or_else(|| node.port() + 10_000)
}

/// One command on a new connection; what is frozen answers an error in time.
pub async fn ask<T: FromRedisValue>(node: &Redis, words: &[&str]) -> RedisResult<T> {
    let hasty = redis::AsyncConnectionConfig::new()
        .set_response_timeout(Some(Duration::from_secs(2)))
        .set_connection_timeout(Some(Duration::from_secs(2)));
    let client = redis::Client::open(node.url())?;
    let mut connection = client.get_multiplexed_async_connection_with_config(&hasty).await?;
    redis::cmd(words[0]).arg(&words[1..]).query_async(&mut connection).await
}
