//! Failovers that Sentinels lead, under load: the primary killed, or frozen for longer than they wait. What was not yet at
//! the replica is lost; everything else is as it was, and the load goes on at the new primary.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::sleep;

use super::ground::{Run, redis};
use crate::harness::{
    Client, Dueq, Group, Redis, RedisOptions, Sentinels, eventually, follow, pair, works_again,
};
use crate::proof::actor::Fleet;
use crate::proof::history::{FaultKind, Ms, now};
use crate::proof::stage::{Report, Setting};

const NAME: &str = "orders";
/// How long a primary may be silent, ms.
const DOWN_AFTER: u64 = 1_500;
/// What a replica may be behind, ms, on a busy machine.
const LAG: Ms = 1_000;
/// How long a frozen primary stays away.
const FROZEN: Duration = Duration::from_secs(4);

/// A primary and its replica, and the Sentinels that watch over them.
struct Ground {
    primary: Redis,
    replica: Redis,
    sentinels: Sentinels,
}

impl Ground {
    async fn start(options: RedisOptions) -> Ground {
        let [primary, replica] = pair(options).await;
        let (replicas, down_after) = (vec![replica.port()], DOWN_AFTER);
        let group = Group { replicas, down_after, ..Group::of(NAME, &primary) };
        let sentinels = Sentinels::start(3, &[group], "").await;
        let ground = Ground { primary, replica, sentinels };
        ground.is_whole().await;
        ground
    }

    /// Waits until the Sentinels would have the replica take over.
    async fn is_whole(&self) {
        for member in 0..3 {
            eventually("the replica is known to be well", || async {
                let known: Vec<BTreeMap<String, String>> =
                    self.sentinels.ask(member, &["REPLICAS", NAME]).await.ok()?;
                let well = |one: &BTreeMap<String, String>| {
                    one["flags"] == "slave" && one["master-link-status"] == "ok"
                };
                known.iter().any(well).then_some(())
            })
            .await;
        }
    }

    /// Waits until the replica has taken over.
    async fn switched(&mut self) {
        for member in 0..3 {
            self.sentinels.names(member, NAME, self.replica.port()).await;
        }
        std::mem::swap(&mut self.primary, &mut self.replica);
    }

    async fn instances(&self, setting: &Setting) -> [Dueq; 2] {
        let launch = || Dueq::at(&self.sentinels.urls()).bug(setting.bug);
        [launch().start().await, launch().start().await]
    }
}

/// The primary is killed, and comes back as a replica.
pub async fn sentinel_killed(setting: Setting) -> Report {
    let mut ground = Ground::start(redis(&setting)).await;
    let dueq = ground.instances(&setting).await;
    let clients: Vec<Client> = dueq.iter().map(Dueq::client).collect();
    let mut run = Run::begin("sentinel_killed", &setting, &Fleet::new(clients.clone()));
    for round in 0..setting.rounds {
        run.pace(round, 500).await;
        let from = now();
        ground.primary.kill9();
        ground.switched().await;
        over(&mut run, round, &clients, from).await;
        ground.replica.restart().await;
        follow(&ground.replica, &ground.primary).await;
        ground.is_whole().await;
    }
    let refused = run.ended("never");
    run.bit(refused > 0, || "no request met the failovers".into());
    run.report(&ground.primary.url()).await
}

/// The primary is frozen for longer than the Sentinels wait. When it is back it takes itself for the primary for another
/// ten seconds, and takes nothing for want of a replica.
pub async fn sentinel_frozen(setting: Setting) -> Report {
    let guard = ["--min-replicas-to-write", "1", "--min-replicas-max-lag", "1"];
    let mut ground = Ground::start(redis(&setting).args(guard)).await;
    let dueq = ground.instances(&setting).await;
    let clients: Vec<Client> = dueq.iter().map(Dueq::client).collect();
    let mut run = Run::begin("sentinel_frozen", &setting, &Fleet::new(clients.clone()));
    for round in 0..setting.rounds {
        run.pace(round, 500).await;
        let from = now();
        ground.primary.pause();
        sleep(FROZEN).await;
        ground.primary.resume();
        ground.switched().await;
        ground.is_whole().await;
        over(&mut run, round, &clients, from).await;
    }
    let refused = run.ended("never");
    run.bit(refused > 0, || "no request met the failovers".into());
    run.report(&ground.primary.url()).await
}

/// Every instance works at the new primary.
async fn over(run: &mut Run, round: usize, clients: &[Client], from: Ms) {
    for client in clients {
        works_again(client).await;
    }
    run.fault(FaultKind::PowerLost(LAG), from);
    run.recovers(20_000 + round as u64, Duration::from_secs(3)).await;
}
