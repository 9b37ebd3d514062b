//! Faults on purpose and loads of a certain kind, each as one function that starts what it needs,
//! brings the fault about under load, and says which promises were broken. A fault that did not
//! happen proves nothing: every scenario shows that its own did, or says so as a violation of the
//! harness.

use std::future::Future;
use std::pin::Pin;

use super::stage::{Report, Setting};
use super::watch::watched;

pub mod adversary;
pub mod answers;
pub mod burst;
pub mod callbacks_killed;
pub mod calm;
pub mod client_gone;
pub mod clock;
pub mod cluster;
pub mod cluster_clocks;
pub mod cluster_cut;
pub mod cluster_forgets;
pub mod cluster_node;
pub mod cluster_orders;
pub mod connections;
pub mod crew;
pub mod customers;
pub mod descriptors;
pub mod disk;
pub mod endurance;
pub mod failover;
pub mod findings;
pub mod ground;
pub mod herd;
pub mod instance_killed;
pub mod instance_paused;
pub mod liveness;
pub mod lost_wakes;
pub mod memory;
pub mod memory_stays;
pub mod million_blocked;
pub mod million_delayed;
pub mod order;
pub mod poison;
pub mod power;
pub mod replicas;
pub mod rolling_upgrade;
pub mod sentinel;
pub mod slices;
pub mod snapshot;
pub mod stale_tokens;
pub mod stall;
pub mod storm;
pub mod ticks_killed;
pub mod unread;

/// A scenario, started.
pub type Running = Pin<Box<dyn Future<Output = Report>>>;
/// One that is to be started.
pub type Scenario = fn(Setting) -> Running;

macro_rules! scenarios {
    ($($module:ident::$name:ident)*) => {
        /// The scenario of this name.
        pub fn find(name: &str) -> Option<Scenario> {
            match name {
                $(stringify!($name) => Some(|setting| Box::pin(watched($module::$name(setting)))),)*
                _ => None,
            }
        }
    };
}

scenarios! {
    adversary::adversary answers::answers_cut answers::answers_delayed answers::answers_lost burst::burst
    callbacks_killed::callbacks_killed calm::calm client_gone::client_gone clock::clock_back
    clock::clock_forward clock::clock_of_an_instance clock::clock_of_schedules cluster::cluster_frozen
    cluster::cluster_killed cluster::cluster_moved cluster_clocks::cluster_clocks cluster_cut::cluster_cut
    cluster_forgets::cluster_forgets cluster_node::cluster_node_troubled cluster_node::cluster_target_killed
    cluster_orders::cluster_orders connections::connections_cut
    connections::scripts_flushed customers::customers descriptors::descriptors_used_up disk::disk_full endurance::endurance
    failover::failover failover::failover_idle herd::herd instance_killed::instance_killed
    instance_paused::instance_paused liveness::liveness lost_wakes::lost_wakes memory::memory_full
    memory_stays::memory_stays million_blocked::million_blocked million_delayed::million_delayed order::order poison::poison power::power_lost
    power::redis_killed replicas::replica_deaf replicas::replica_lost rolling_upgrade::rolling_upgrade sentinel::replica_away sentinel::sentinel_frozen sentinel::sentinel_killed sentinel::sentinel_stale
    snapshot::snapshot_restored stale_tokens::stale_tokens stall::redis_busy stall::redis_paused
    storm::storm ticks_killed::ticks_killed unread::unread
}

/// Runs the scenario of this name under watch.
///
/// # Panics
/// When there is none.
pub async fn run(name: &str, setting: Setting) -> Report {
    let scenario = find(name).unwrap_or_else(|| panic!("there is no scenario {name}"));
    scenario(setting).await
}

/// The faults of the table, with what the table calls them.
pub const FAULTS: [(&str, &str); 43] = [
    ("instance_killed", "an instance killed (−9) mid-request"),
    ("lost_wakes", "an instance killed (−9) between a script and its wake-up; wake-ups cut off"),
    ("instance_paused", "an instance stopped for twice a lease"),
    ("client_gone", "clients gone in long polls"),
    ("callbacks_killed", "an instance killed in the middle of a callback"),
    ("ticks_killed", "an instance killed in the middle of a schedule's tick"),
    ("redis_killed", "Redis killed (−9) and restarted"),
    (
        "customers",
        "an instance and Redis killed (−9), events of 1,000 customers in order, 16 partitions",
    ),
    ("power_lost", "power loss: the log cut back to its last fsync"),
    ("connections_cut", "connections to Redis cut in bursts"),
    ("scripts_flushed", "`SCRIPT FLUSH` under load"),
    ("redis_paused", "Redis stopped for 5 s"),
    ("redis_busy", "a script that runs away"),
    ("memory_full", "Redis at maxmemory"),
    ("memory_stays", "memory that stays at the bound"),
    ("failover", "a replica promoted, and the old primary again"),
    ("sentinel_killed", "a primary killed (−9), Sentinel"),
    ("sentinel_frozen", "a primary stopped for 4 s, Sentinel, `min-replicas-to-write 1`"),
    ("sentinel_stale", "a primary killed (−9) a second after its replica was stopped, Sentinel"),
    ("replica_away", "a replica stopped for 3 s, Sentinel"),
    ("replica_deaf", "a replica that is connected and gets nothing for 3 s"),
    ("replica_lost", "one of two replicas lost for good, then the primary killed (−9), Sentinel"),
    ("cluster_killed", "a primary killed (−9), Cluster"),
    ("cluster_frozen", "a primary stopped for 4 s, Cluster, `min-replicas-to-write 1`"),
    ("cluster_orders", "a primary killed (−9) every 10 s, Cluster, a topic of 16 partitions"),
    ("cluster_cut", "a primary and an instance cut off for 30 s, Cluster"),
    ("cluster_moved", "slots moved round a Cluster"),
    ("cluster_target_killed", "a primary killed (−9) while a slot moves to it, Cluster"),
    ("cluster_forgets", "the list of topics and dueq's own data set back by a moment, Cluster"),
    ("cluster_node_troubled", "one node without scripts, without connections and loading, Cluster"),
    ("cluster_clocks", "clocks of nodes 5 s apart, Cluster"),
    ("snapshot_restored", "Redis restarted from an older snapshot"),
    ("descriptors_used_up", "file descriptors used up"),
    ("disk_full", "the disk full under the log"),
    ("answers_lost", "answers of Redis lost"),
    ("answers_delayed", "answers of Redis late"),
    ("answers_cut", "answers of Redis cut off in the middle"),
    ("unread", "clients that never read, receivers that never end"),
    ("adversary", "a client's settings as the adversary"),
    ("clock_forward", "Redis's clock an hour forward"),
    ("clock_back", "Redis's clock an hour back"),
    ("clock_of_an_instance", "an instance's clock an hour off"),
    ("clock_of_schedules", "Redis's clock an hour ahead for seconds, schedules"),
];

/// Those of them in which primaries or replicas are away, or slots are on their way.
pub const REPLICATED: [&str; 12] = [
    "failover",
    "sentinel_killed",
    "sentinel_frozen",
    "sentinel_stale",
    "replica_away",
    "replica_deaf",
    "replica_lost",
    "cluster_killed",
    "cluster_frozen",
    "cluster_orders",
    "cluster_cut",
    "cluster_moved",
];
