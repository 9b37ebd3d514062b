//! A Redis Cluster under load on a topic of each primary, and on one whose partitions lie on all of them. A primary is killed,
//! or frozen for longer than the others wait: of its topic and its partitions, what was not yet at the replica is lost. Or
//! slots move: nothing is. The other topics notice nothing. [`super::cluster_node`] and [`super::cluster_cut`] stand on it too.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use serde_json::json;

use super::ground::{Run, both, redis};
use crate::harness::{
    Client, Cluster, ClusterOptions, Dueq, Launch, moves_atomically, slot_of, slot_of_partition,
    tag_of_partition, topic, turns, works_again,
};
use crate::proof::actor::Fleet;
use crate::proof::audit::Place;
use crate::proof::clients::Mix;
use crate::proof::history::{FaultKind, Ms, Partitions, now};
use crate::proof::load::Load;
use crate::proof::stage::{Report, Setting};

pub(super) const PRIMARIES: usize = 3;
/// Partitions of the topic that lies on all primaries.
const PARTITIONS: u16 = 16;
/// Of these partitions some move in each round.
const MOVED: u16 = 3;
/// What a replica may be behind, ms, on a busy machine.
pub(super) const LAG: Ms = 1_000;
/// How long a frozen primary stays away.
const FROZEN: Duration = Duration::from_secs(4);

/// A cluster, two instances, and a load on a topic of each primary and on one of several partitions.
pub(super) struct Ground {
    pub cluster: Cluster,
    clients: Vec<Client>,
    pub runs: Vec<Run>,
    /// The load on the one of several partitions.
    pub split: Run,
    _dueq: [Dueq; 2],
}

impl Ground {
    pub async fn start(name: &'static str, setting: &Setting, options: ClusterOptions) -> Ground {
        Ground::start_with(name, setting, options, |second| second).await
    }

    /// The same with something more told to the second instance.
    pub async fn start_with(
        name: &'static str,
        setting: &Setting,
        options: ClusterOptions,
        second: impl FnOnce(Launch) -> Launch,
    ) -> Ground {
        // It keeps eight servers and four loads busy: with four such tests at once, a wake-up waits too long for a processor.
        turns(2).await;
        let cluster = options.start().await;
        let launch = || cluster.launch().bug(setting.bug);
        let dueq = [launch().start().await, second(launch()).start().await];
        let clients: Vec<Client> = dueq.iter().map(Dueq::client).collect();
        let mut runs = Vec::new();
        for index in 0..PRIMARIES {
            let topic = loop {
                let topic = cluster.topic_on(index, name).await;
                let quiet = Load::quiet_topic_of(&topic);
                if cluster.primary_of_topic(&quiet).await == index {
                    break topic;
                }
            };
            for topic in [&topic, &Load::quiet_topic_of(&topic)] {
                clients[0].new_topic(topic, setting.topic(json!({}))).await;
            }
            runs.push(Run::on(name, topic, setting, &Fleet::new(clients.clone())));
        }
        let whole = topic(name);
        clients[0].new_topic(&whole, setting.topic(json!({"partitions": PARTITIONS}))).await;
        // Few, so that a busy machine looks at all of them in less time than a client may be deaf for.
        let quiet = Load::quiet_topic_of(&whole);
        clients[0].new_topic(&quiet, setting.topic(json!({"partitions": 4}))).await;
        let split = Run::on_with(name, whole, setting, &Fleet::new(clients.clone()), mix());
        Ground { cluster, clients, runs, split, _dueq: dueq }
    }

    pub async fn pace(&mut self, round: usize) {
        for run in self.runs.iter_mut().chain([&mut self.split]) {
            run.pace(round, 200).await;
        }
    }

    /// The partitions of the one topic that this primary has.
    pub async fn partitions_on(&self, primary: usize) -> Partitions {
        let topic = &self.split.load.topic;
        self.cluster.partitions_on(primary, topic, PARTITIONS).await.into_iter().collect()
    }

    /// The primary of a run's topic.
    pub async fn primary(&self, run: usize) -> usize {
        self.cluster.primary_of_topic(&self.runs[run].load.topic).await
    }

    /// Every instance works, at this topic and at these partitions too, after what began at `from`.
    async fn over(&mut self, run: usize, partitions: Partitions, round: usize, from: Ms) {
        let lost = self.runs[run].setting.lost(LAG);
        self.over_of(FaultKind::PowerLost(lost), run, partitions, round, from).await;
    }

    /// The same after a fault of this kind.
    pub async fn over_of(
        &mut self,
        kind: FaultKind,
        run: usize,
        partitions: Partitions,
        round: usize,
        from: Ms,
    ) {
        for client in &self.clients {
            works_again(client).await;
        }
        let run = &mut self.runs[run];
        run.fault(kind, from);
        self.split.fault_at(kind, from, partitions);
        for run in [run, &mut self.split] {
            run.recovers(20_000 + round as u64, Duration::from_secs(5)).await;
        }
    }

    /// How many requests of each run were answered 503 so far.
    pub fn refused(&self) -> [usize; PRIMARIES] {
        std::array::from_fn(|index| self.runs[index].ended("never"))
    }

    /// No run but this one was refused anything since.
    pub fn demand_others_undisturbed(&mut self, hit: Option<usize>, before: [usize; PRIMARIES]) {
        let since = self.refused();
        for index in (0..PRIMARIES).filter(|index| Some(*index) != hit) {
            let refused = since[index] - before[index];
            self.runs[index].demand(refused == 0, "I12 liveness", || {
                format!("{refused} requests to a primary that was well were answered 503")
            });
        }
    }

    /// Demands that a client noticed the faults.
    pub fn demand_met(&mut self) {
        let refused: usize = self.refused().iter().sum();
        self.runs[0].bit(refused > 0, || "no request met the failovers".into());
    }

    /// What came of all loads.
    pub async fn report(mut self) -> Report {
        for run in self.runs.iter_mut().chain([&mut self.split]) {
            run.load.stop().await;
        }
        let mut places = Vec::new();
        for partition in (0..PARTITIONS).map(|p| p as u8) {
            let topic = &self.split.load.topic;
            let primary = self.cluster.primary_of(slot_of_partition(topic, partition)).await;
            let url = self.cluster.node(primary).url();
            places.push(Place { tag: tag_of_partition(topic, partition), url });
        }
        let mut all = self.split.report_at(&places).await;
        for run in self.runs {
            let primary = self.cluster.primary_of_topic(&run.load.topic).await;
            all = both(all, run.report(&self.cluster.node(primary).url()).await);
        }
        eprintln!("{}: {} of {} lost", all.scenario, all.tally.lost, all.tally.published);
        all
    }
}

/// What clients can do, at a pace that leaves room for the other topics. Nobody pauses: a failover may forget a resume of the
/// partitions of one primary, and then the topic does not drain.
fn mix() -> Mix {
    Mix { publishers: 2, consumers: 4, pausers: 0, ..Mix::varied() }
}

/// With so many replicas, and so that a primary that is away stops no other.
pub(super) fn options(setting: &Setting, replicas: usize) -> ClusterOptions {
    Cluster::options(PRIMARIES, replicas).partial().redis(redis(setting))
}

/// One primary after the other is killed, and comes back as a replica.
pub async fn cluster_killed(setting: Setting) -> Report {
    let mut ground = Ground::start("cluster_killed", &setting, options(&setting, 1)).await;
    for round in 0..setting.rounds {
        ground.pace(round).await;
        let hit = round % PRIMARIES;
        let old = ground.primary(hit).await;
        let (partitions, before) = (ground.partitions_on(old).await, ground.refused());
        let (begin, from) = (Instant::now(), now());
        ground.cluster.kill9(old);
        ground.cluster.taken_over(slot_of(&ground.runs[hit].load.topic), old).await;
        let elected = begin.elapsed();
        // Where answers wait for the other one, none comes before it is back.
        if setting.replicated() {
            ground.cluster.restart(old).await;
            ground.cluster.is_whole().await;
        }
        ground.over(hit, partitions, round, from).await;
        eprintln!("a replica took over within {elected:?}, all works within {:?}", begin.elapsed());
        ground.demand_others_undisturbed(Some(hit), before);
        if !setting.replicated() {
            ground.cluster.restart(old).await;
            ground.cluster.is_whole().await;
        }
    }
    ground.demand_met();
    ground.report().await
}

/// A primary is frozen for longer than the others wait. When it is back it may take itself for the primary for a moment,
/// and takes nothing for want of a replica.
pub async fn cluster_frozen(setting: Setting) -> Report {
    let guard = ["--min-replicas-to-write", "1", "--min-replicas-max-lag", "1"];
    let options = options(&setting, 1).redis(redis(&setting).args(guard));
    let mut ground = Ground::start("cluster_frozen", &setting, options).await;
    for round in 0..setting.rounds {
        ground.pace(round).await;
        let hit = round % PRIMARIES;
        let old = ground.primary(hit).await;
        let (partitions, from) = (ground.partitions_on(old).await, now());
        ground.cluster.freeze(old);
        sleep(FROZEN).await;
        let slot = slot_of(&ground.runs[hit].load.topic);
        ground.cluster.taken_over(slot, old).await;
        ground.cluster.thaw(old);
        ground.cluster.is_whole().await;
        ground.over(hit, partitions, round, from).await;
    }
    ground.demand_met();
    ground.report().await
}

/// The slot of each topic goes round, and those of some partitions: key by key, and all at once where the server can.
pub async fn cluster_moved(setting: Setting) -> Report {
    let replicas = usize::from(setting.replicated());
    let mut ground = Ground::start("cluster_moved", &setting, options(&setting, replicas)).await;
    for round in 0..setting.rounds {
        ground.pace(round).await;
        let mut slots: Vec<u16> = ground.runs.iter().map(|run| slot_of(&run.load.topic)).collect();
        let first = round as u16 * MOVED;
        let partitions = (first..first + MOVED).map(|p| (p % PARTITIONS) as u8);
        let whole = &ground.split.load.topic;
        slots.extend(partitions.map(|partition| slot_of_partition(whole, partition)));
        for slot in slots {
            let to = (ground.cluster.primary_of(slot).await + 1) % PRIMARIES;
            if round % 2 == 1 && moves_atomically() {
                ground.cluster.move_slot_atomically(slot, to).await;
            } else {
                ground.cluster.move_slot(slot, to).await;
            }
        }
    }
    ground.demand_others_undisturbed(None, [0; PRIMARIES]);
    let refused = ground.split.ended("never");
    ground.split.demand(refused == 0, "I12 liveness", || {
        format!("{refused} requests to partitions that moved were answered 503")
    });
    ground.report().await
}
