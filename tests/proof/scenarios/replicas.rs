//! Replicas that are lost for good, and replicas that are connected and confirm nothing, under load.

use std::time::Duration;

use tokio::time::sleep;

use super::ground::{DEADLINE, Run, SLACK, hasty, redis};
use crate::harness::{
    Client, Dueq, Group, Redis, Sentinels, eventually, follow, pair, works_again,
};
use crate::proof::clients::Mix;
use crate::proof::history::{FaultKind, Ms, now};
use crate::proof::proxy::{Mode, Proxy};
use crate::proof::stage::{Report, Setting};

const NAME: &str = "orders";
/// What a replica may be behind, ms, on a busy machine.
const LAG: Ms = 1_000;
/// How long a replica confirms nothing.
const DEAF: Duration = Duration::from_secs(3);

/// Of two replicas one is lost for good, which nobody notices; then the other takes over from a primary that is killed, and
/// is the only one until that is back.
pub async fn replica_lost(setting: Setting) -> Report {
    let [mut primary, other] = pair(redis(&setting)).await;
    let mut lost = redis(&setting).args(["--repl-diskless-sync-delay", "0"]).start().await;
    follow(&lost, &primary).await;
    let replicas = vec![other.port(), lost.port()];
    let group = Group { replicas, down_after: 1_500, ..Group::of(NAME, &primary) };
    let sentinels = Sentinels::start(3, &[group], "").await;
    let launch = || Dueq::at(&sentinels.urls()).bug(setting.bug);
    let dueq = [launch().start().await, launch().start().await];
    let clients: Vec<Client> = dueq.iter().map(Dueq::client).collect();
    let mut run = Run::configured("replica_lost", &setting, &clients, Mix::varied()).await;
    run.pace(0, 500).await;
    lost.kill9();
    run.recovers(20_000, Duration::from_secs(1)).await;
    run.pace(0, 1_000).await;
    let from = now();
    primary.kill9();
    for member in 0..3 {
        sentinels.names(member, NAME, other.port()).await;
    }
    primary.restart().await;
    follow(&primary, &other).await;
    for client in &clients {
        works_again(client).await;
    }
    run.fault(FaultKind::PowerLost(run.setting.lost(LAG)), from);
    run.recovers(20_001, Duration::from_secs(3)).await;
    run.report(&other.url()).await
}

/// Makes a replica follow a primary through a proxy.
pub async fn follow_through_proxy(replica: &Redis, primary: &Redis) -> Proxy {
    let link = Proxy::of(primary).await;
    let port = link.address().rsplit(':').next().unwrap_or_default().to_owned();
    let _: () = replica.command(&["REPLICAOF", "127.0.0.1", &port]).await;
    follows(replica).await;
    link
}

async fn follows(replica: &Redis) {
    eventually("a replica that follows", || async {
        let info: String = replica.command(&["INFO", "replication"]).await;
        info.contains("master_link_status:up").then_some(())
    })
    .await;
}

/// A replica is connected and gets nothing, so it confirms nothing, for longer than a request waits.
pub async fn replica_deaf(setting: Setting) -> Report {
    let [primary, replica] = pair(redis(&setting)).await;
    let link = follow_through_proxy(&replica, &primary).await;
    let launch = || hasty(Dueq::on(&primary)).bug(setting.bug);
    let dueq = [launch().start().await, launch().start().await];
    let clients: Vec<Client> = dueq.iter().map(Dueq::client).collect();
    let mut run = Run::configured("replica_deaf", &setting, &clients, Mix::plain(5, 6)).await;
    for round in 0..setting.rounds {
        run.pace(round, 500).await;
        let (from, before) = (now(), run.ended("unknown"));
        link.set(Mode::Swallow);
        sleep(DEAF).await;
        let unknown = run.ended("unknown") - before;
        run.bit(setting.replicated() == (unknown > 0), || format!("{unknown} are not known"));
        run.bit(link.swallowed() > 0, || "the replica heard everything".into());
        link.set(Mode::Pass);
        follows(&replica).await;
        run.fault(FaultKind::PowerLost(0), from);
        run.recovers(20_000 + round as u64, Duration::from_secs(3)).await;
    }
    run.in_time(DEADLINE + SLACK + 1_000);
    run.report(&primary.url()).await
}
