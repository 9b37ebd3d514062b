//! Failovers that Sentinels lead, under load: the primary killed, frozen for longer than they wait, or killed while its replica
//! is behind. What was not yet at the replica is lost, but nothing of a topic whose answers wait for it; everything else is
//! as it was, and the load goes on at the new primary.

use std::time::Duration;

use tokio::time::sleep;

use super::ground::{DEADLINE, Run, SLACK, hasty, redis};
use crate::harness::{
    Client, Dueq, Group, Redis, RedisOptions, Sentinels, follow, pair, works_again,
};
use crate::proof::clients::Mix;
use crate::proof::history::{FaultKind, Ms, now};
use crate::proof::stage::{Report, Setting};

const NAME: &str = "orders";
/// How long a primary may be silent, ms.
const DOWN_AFTER: u64 = 1_500;
/// What a replica may be behind, ms, on a busy machine.
const LAG: Ms = 1_000;
/// How long a replica stays away, ms.
const AWAY: Ms = 3_000;
/// How long a frozen primary stays away.
const FROZEN: Duration = Duration::from_secs(4);

/// How long a primary goes on without its replica.
const STALE: Duration = Duration::from_secs(1);

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
        self.sentinels.know_well(NAME, 1).await;
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

/// How the replica comes to take over.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    Killed,
    Frozen,
    Stale,
}

/// The primary is killed, and comes back as a replica.
pub async fn sentinel_killed(setting: Setting) -> Report {
    failovers("sentinel_killed", setting, Fault::Killed).await
}

/// The primary is frozen for longer than the Sentinels wait. When it is back it takes itself for the primary for another
/// ten seconds, and takes nothing for want of a replica.
pub async fn sentinel_frozen(setting: Setting) -> Report {
    failovers("sentinel_frozen", setting, Fault::Frozen).await
}

/// The replica is frozen and hears no more of its primary, which goes on, dies, and stays away until the replica, back as it
/// was, has taken its place: what was taken meanwhile is lost.
pub async fn sentinel_stale(setting: Setting) -> Report {
    failovers("sentinel_stale", setting, Fault::Stale).await
}

async fn failovers(name: &'static str, setting: Setting, fault: Fault) -> Report {
    let guard: &[&str] = match fault {
        Fault::Frozen => &["--min-replicas-to-write", "1", "--min-replicas-max-lag", "1"],
        _ => &[],
    };
    let mut ground = Ground::start(redis(&setting).args(guard.iter().copied())).await;
    let dueq = ground.instances(&setting).await;
    let clients: Vec<Client> = dueq.iter().map(Dueq::client).collect();
    let mut run = Run::configured(name, &setting, &clients, Mix::varied()).await;
    for round in 0..setting.rounds {
        run.pace(round, 500).await;
        let mut from = now();
        let mut behind = LAG;
        match fault {
            Fault::Killed => ground.primary.kill9(),
            Fault::Frozen => {
                ground.primary.pause();
                sleep(FROZEN).await;
                ground.primary.resume();
            }
            Fault::Stale => {
                ground.replica.pause();
                let _: i64 = ground.primary.command(&["CLIENT", "KILL", "TYPE", "replica"]).await;
                sleep(STALE).await;
                (behind, from) = (now() - from + LAG, now());
                ground.primary.kill9();
                ground.replica.resume();
            }
        }
        ground.switched().await;
        // Where answers wait for the other one, none comes before it is back.
        let waits = setting.replicated() || fault == Fault::Frozen;
        if !waits {
            over(&mut run, round, &clients, (from, behind)).await;
        }
        if fault != Fault::Frozen {
            ground.replica.restart().await;
            follow(&ground.replica, &ground.primary).await;
        }
        ground.is_whole().await;
        if waits {
            over(&mut run, round, &clients, (from, behind)).await;
        }
    }
    let refused = run.ended("never");
    run.bit(refused > 0, || "no request met the failovers".into());
    run.report(&ground.primary.url()).await
}

/// The replica is stopped for longer than a request waits. Whose answers wait for it gets none, and nobody else notices.
pub async fn replica_away(setting: Setting) -> Report {
    let mut ground = Ground::start(redis(&setting)).await;
    let launch = || hasty(Dueq::at(&ground.sentinels.urls())).bug(setting.bug);
    let dueq = [launch().start().await, launch().start().await];
    let clients: Vec<Client> = dueq.iter().map(Dueq::client).collect();
    let mut run = Run::configured("replica_away", &setting, &clients, Mix::plain(5, 6)).await;
    for round in 0..setting.rounds {
        run.pace(round, 500).await;
        let (from, before) = (now(), run.ended("unknown"));
        ground.replica.pause();
        sleep(Duration::from_millis(AWAY as u64)).await;
        let unknown = run.ended("unknown") - before;
        let published = run.load.published_so_far();
        run.bit(setting.replicated() == (unknown > 0), || format!("{unknown} are not known"));
        ground.replica.resume();
        run.fault(FaultKind::PowerLost(0), from);
        run.recovers(20_000 + round as u64, Duration::from_secs(1)).await;
        run.bit(published > 0, || "nothing was published".into());
    }
    run.in_time(DEADLINE + SLACK + 1_000);
    run.report(&ground.primary.url()).await
}

/// Every instance works at the new primary, which may be so much behind.
async fn over(run: &mut Run, round: usize, clients: &[Client], (from, behind): (Ms, Ms)) {
    for client in clients {
        works_again(client).await;
    }
    run.fault(FaultKind::PowerLost(run.setting.lost(behind)), from);
    run.recovers(20_000 + round as u64, Duration::from_secs(3)).await;
}
