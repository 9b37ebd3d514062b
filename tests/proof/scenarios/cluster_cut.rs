//! A primary of a Cluster and an instance of dueq are cut off from everybody else. The primary goes on until it notices that it
//! is alone: of its topic and its partitions, what it took until then is lost. The other instance serves all topics meanwhile,
//! and once the cut is over both do.

use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::cluster::{Ground, LAG, PRIMARIES, options};
use crate::harness::{ask, eventually, is_redis_6, slot_of};
use crate::proof::history::{FaultKind, Ms, Partitions, now};
use crate::proof::shim::Shim;
use crate::proof::stage::{Report, Setting};

/// How long a cut lasts, in a run of several and of one.
const CUTS: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(5));
/// Where the instance calls from that is cut off.
const OUTPOST: Ipv4Addr = Ipv4Addr::new(127, 0, 2, 1);

/// Each primary in turn.
pub async fn cluster_cut(setting: Setting) -> Report {
    assert!(!is_redis_6(), "Redis 6.2 calls from no address of its own");
    let second = |launch| Shim::calling_from(OUTPOST, launch);
    let walled = options(&setting, 1).walled();
    let mut ground = Ground::start_with("cluster_cut", &setting, walled, second).await;
    let cut = if setting.rounds > 1 { CUTS.0 } else { CUTS.1 };
    for round in 0..setting.rounds {
        ground.pace(round).await;
        let hit = round % PRIMARIES;
        let old = ground.primary(hit).await;
        let (partitions, slot) =
            (ground.partitions_on(old).await, slot_of(&ground.runs[hit].load.topic));
        let (begin, from) = (Instant::now(), now());
        ground.cluster.wall_off(old, &[OUTPOST]);
        let (alone, taken) = tokio::join!(notices(&ground, old), async {
            ground.cluster.taken_over(slot, old).await;
            now()
        });
        eprintln!(
            "the old primary took nothing from {} ms on, the new one all from {} ms on",
            alone - from,
            taken - from
        );
        sleep_until(begin + cut).await;
        ground.cluster.let_in(old);
        let whole = Instant::now();
        ground.cluster.is_whole().await;
        eprintln!("the cluster was whole again within {:?}", whole.elapsed());
        // Answers of the other primaries were lost to the one instance.
        for run in ground.runs.iter().chain([&ground.split]) {
            run.fault_at(FaultKind::AnswersLost, from, Partitions::ALL);
        }
        // What either took before is forgotten or not in order, and what they took side by side is anybody's guess.
        let last = alone.min(taken) - POLL;
        let lost = FaultKind::PowerLost(setting.lost(last - from + LAG));
        ground.over_of(lost, hit, partitions, round, last).await;
        // Its client, and nobody who waits for it.
        sleep(Duration::from_millis(200)).await;
    }
    ground.demand_met();
    ground.report().await
}

/// How much later than it happens we may see something, ms.
const POLL: Ms = 100;

/// Waits until this primary takes nothing more: when that was.
async fn notices(ground: &Ground, primary: usize) -> Ms {
    eventually("a primary notices that it is alone", || async {
        let node = ground.cluster.node(primary);
        let info: String = ask(node, &["CLUSTER", "INFO"]).await.ok()?;
        info.contains("cluster_state:fail").then(now)
    })
    .await
}
