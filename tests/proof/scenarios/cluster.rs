//! A Redis Cluster under load on a topic of each primary. One of them is killed, or frozen for longer than the others wait:
//! of its topic, what was not yet at the replica is lost. Or slots move: nothing is. The other topics notice nothing.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::ground::{Run, both, redis};
use crate::harness::{
    Client, Cluster, ClusterOptions, Dueq, moves_atomically, slot_of, works_again,
};
use crate::proof::actor::Fleet;
use crate::proof::history::{FaultKind, Ms, now};
use crate::proof::load::Load;
use crate::proof::stage::{Report, Setting};

const PRIMARIES: usize = 3;
/// What a replica may be behind, ms, on a busy machine.
const LAG: Ms = 1_000;
/// How long a frozen primary stays away.
const FROZEN: Duration = Duration::from_secs(4);

/// A cluster, two instances, and a load on a topic of each primary.
struct Ground {
    cluster: Cluster,
    clients: Vec<Client>,
    runs: Vec<Run>,
    _dueq: [Dueq; 2],
}

impl Ground {
    async fn start(name: &'static str, setting: &Setting, options: ClusterOptions) -> Ground {
        let cluster = options.start().await;
        let launch = || cluster.launch().bug(setting.bug);
        let dueq = [launch().start().await, launch().start().await];
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
            runs.push(Run::on(name, topic, setting, &Fleet::new(clients.clone())));
        }
        Ground { cluster, clients, runs, _dueq: dueq }
    }

    async fn pace(&mut self, round: usize) {
        for run in &mut self.runs {
            run.pace(round, 200).await;
        }
    }

    /// The primary of a run's topic.
    async fn primary(&self, run: usize) -> usize {
        self.cluster.primary_of_topic(&self.runs[run].load.topic).await
    }

    /// Every instance works, at this topic too, after what began at `from`.
    async fn over(&mut self, run: usize, round: usize, from: Ms) {
        for client in &self.clients {
            works_again(client).await;
        }
        let run = &mut self.runs[run];
        run.fault(FaultKind::PowerLost(LAG), from);
        run.recovers(20_000 + round as u64, Duration::from_secs(5)).await;
    }

    /// How many requests of each run were answered 503 so far.
    fn refused(&self) -> [usize; PRIMARIES] {
        std::array::from_fn(|index| self.runs[index].ended("never"))
    }

    /// No run but this one was refused anything since.
    fn demand_others_undisturbed(&mut self, hit: Option<usize>, before: [usize; PRIMARIES]) {
        let since = self.refused();
        for index in (0..PRIMARIES).filter(|index| Some(*index) != hit) {
            let refused = since[index] - before[index];
            self.runs[index].demand(refused == 0, "I12 liveness", || {
                format!("{refused} requests to a primary that was well were answered 503")
            });
        }
    }

    /// Demands that somebody noticed the faults.
    fn demand_met(&mut self) {
        let refused: usize = self.refused().iter().sum();
        self.runs[0].bit(refused > 0, || "no request met the failovers".into());
    }

    /// What came of all loads.
    async fn report(mut self) -> Report {
        for run in &mut self.runs {
            run.load.stop().await;
        }
        let mut all: Option<Report> = None;
        for run in std::mem::take(&mut self.runs) {
            let primary = self.cluster.primary_of_topic(&run.load.topic).await;
            let report = run.report(&self.cluster.node(primary).url()).await;
            all = Some(match all {
                Some(all) => both(all, report),
                None => report,
            });
        }
        let all = all.expect("a run");
        eprintln!("{}: {} of {} lost", all.scenario, all.tally.lost, all.tally.published);
        all
    }
}

/// With so many replicas, and so that a primary that is away stops no other.
fn options(setting: &Setting, replicas: usize) -> ClusterOptions {
    Cluster::options(PRIMARIES, replicas).partial().redis(redis(setting))
}

/// One primary after the other is killed, and comes back as a replica.
pub async fn cluster_killed(setting: Setting) -> Report {
    let mut ground = Ground::start("cluster_killed", &setting, options(&setting, 1)).await;
    for round in 0..setting.rounds {
        ground.pace(round).await;
        let hit = round % PRIMARIES;
        let (old, begin, from) = (ground.primary(hit).await, Instant::now(), now());
        let before = ground.refused();
        ground.cluster.kill9(old);
        ground.cluster.taken_over(slot_of(&ground.runs[hit].load.topic), old).await;
        let elected = begin.elapsed();
        ground.over(hit, round, from).await;
        eprintln!("a replica took over within {elected:?}, all works within {:?}", begin.elapsed());
        ground.demand_others_undisturbed(Some(hit), before);
        ground.cluster.restart(old).await;
        ground.cluster.is_whole().await;
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
        let (old, from) = (ground.primary(hit).await, now());
        ground.cluster.freeze(old);
        sleep(FROZEN).await;
        let slot = slot_of(&ground.runs[hit].load.topic);
        ground.cluster.taken_over(slot, old).await;
        ground.cluster.thaw(old);
        ground.cluster.is_whole().await;
        ground.over(hit, round, from).await;
    }
    ground.demand_met();
    ground.report().await
}

/// The slot of each topic goes round: key by key, and all at once where the server can.
pub async fn cluster_moved(setting: Setting) -> Report {
    let mut ground = Ground::start("cluster_moved", &setting, options(&setting, 0)).await;
    for round in 0..setting.rounds {
        ground.pace(round).await;
        for run in 0..PRIMARIES {
            let from = ground.primary(run).await;
            let (slot, to) = (slot_of(&ground.runs[run].load.topic), (from + 1) % PRIMARIES);
            if round % 2 == 1 && moves_atomically() {
                ground.cluster.move_slot_atomically(slot, to).await;
            } else {
                ground.cluster.move_slot(slot, to).await;
            }
        }
    }
    ground.demand_others_undisturbed(None, [0; PRIMARIES]);
    ground.report().await
}
