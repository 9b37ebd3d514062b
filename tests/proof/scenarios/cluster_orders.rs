//! Orders through a topic of 16 partitions on a Cluster with replicas, while one primary after the other is killed: each that
//! was taken is worked on, but for what the last moments of a primary take with them, and the audit finds nothing. Some are
//! events of customers, each of whom is a group: where nothing is lost, each customer's log is in order.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::customers::logs;
use super::ground::{Run, redis};
use crate::harness::{
    Cluster, Dueq, binary, slot_of_partition, tag_of_partition, topic, works_again,
};
use crate::proof::actor::Fleet;
use crate::proof::audit::Place;
use crate::proof::clients::Mix;
use crate::proof::history::{FaultKind, Ms, now};
use crate::proof::stage::{Report, Setting};

const PARTITIONS: u16 = 16;
const PRIMARIES: usize = 3;
/// What a replica may be behind, ms, on a busy machine.
const LAG: Ms = 1_000;

/// Named and nameless orders and events of customers, alone and in batches; each is worked on and acked, some at the second
/// try.
fn mix() -> Mix {
    Mix {
        bulk_publishers: 1,
        idempotent_publishers: 1,
        key_publishers: 1,
        group_publishers: 1,
        customers: 40,
        ..Mix::plain(2, 5)
    }
}

/// A short run publishes what it can; a long one as many as it is told, with 10 s between two kills.
pub async fn cluster_orders(setting: Setting) -> Report {
    let long = setting.messages > 0;
    let mut cluster = Cluster::options(PRIMARIES, 1).partial().redis(redis(&setting)).start().await;
    let launch = || cluster.launch().bug(setting.bug);
    let dueq = [launch().start().await, launch().start().await];
    let clients = dueq.each_ref().map(Dueq::client);
    let name = topic("cluster_orders");
    // One after the other where logs must be in order, otherwise two of a customer at once.
    let at_once = if setting.replicated() { 1 } else { 2 };
    let config = json!({"partitions": PARTITIONS, "group_concurrency": at_once});
    clients[0].new_topic(&name, setting.topic(config)).await;
    let fleet = Fleet::new(clients.clone());
    let mut run = Run::on_with("cluster_orders", name.clone(), &setting, &fleet, mix());
    for round in 0..setting.rounds {
        run.pace(round, if long { 10_000 } else { 500 }).await;
        let slot = slot_of_partition(&name, (round % usize::from(PARTITIONS)) as u8);
        let old = cluster.primary_of(slot).await;
        let partitions = cluster.partitions_on(old, &name, PARTITIONS).await.into_iter().collect();
        let from = now();
        cluster.kill9(old);
        cluster.taken_over(slot, old).await;
        // Where answers wait for the other one, none comes before it is back.
        if setting.replicated() {
            cluster.restart(old).await;
            cluster.is_whole().await;
        }
        for client in &clients {
            works_again(client).await;
        }
        run.fault_at(FaultKind::PowerLost(setting.lost(LAG)), from, partitions);
        run.recovers(20_000 + round as u64, Duration::from_secs(5)).await;
        if !setting.replicated() {
            cluster.restart(old).await;
            cluster.is_whole().await;
        }
    }
    sleep(Duration::from_millis(500)).await;
    let mut places = Vec::new();
    for partition in (0..PARTITIONS).map(|p| p as u8) {
        let primary = cluster.primary_of(slot_of_partition(&name, partition)).await;
        let url = cluster.node(primary).url();
        places.push(Place { tag: tag_of_partition(&name, partition), url });
    }
    run.load.stop().await;
    // Not by the harness, which watches over instances: this one ends.
    let mut audit = tokio::process::Command::new(binary());
    let audit = audit.args(["audit", "--redis-url", &cluster.urls()]).output().await;
    let audit = audit.expect("dueq audit");
    let said = || format!("the audit: {}", String::from_utf8_lossy(&audit.stdout));
    run.demand(audit.status.success(), "I8 one place", said);
    let logs = logs(&run.load.recorder.of(&name));
    let longest = logs.values().map(Vec::len).max().unwrap_or(0);
    run.bit(longest > 2, || format!("{} customers, the longest log is of {longest}", logs.len()));
    for (customer, log) in logs.iter().filter(|_| setting.replicated()) {
        let wrong = log.windows(2).find(|two| two[1].1 < two[0].1);
        run.demand(wrong.is_none(), "I17 groups", || format!("the log of {customer:?}: {wrong:?}"));
    }
    run.report_at(&places).await
}
