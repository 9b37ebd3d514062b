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
pub mod pulse;
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

/// Defines `find`, `FAULTS` and the short runs as tests. A line names a scenario; the short runs that `make test` makes of it,
/// each with its durability, its rounds and maybe its messages; and what the table of faults calls it.
macro_rules! scenarios {
    ($($module:ident::$name:ident $([$($test:ident: $durability:ident $rounds:literal $(, $messages:literal)?),*])?
        $(= $described:literal)?;)*) => {
        /// The scenario of this name.
        pub fn find(name: &str) -> Option<Scenario> {
            match name {
                $(stringify!($name) => Some(|setting| Box::pin(watched($module::$name(setting)))),)*
                _ => None,
            }
        }

        /// The faults of the table, with what the table calls them.
        pub const FAULTS: &[(&str, &str)] = &[$($((stringify!($name), $described),)?)*];

        #[cfg(test)]
        mod short {
            use super::*;
            use crate::proof::stage::Durability;

            $($($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    let setting = Setting::short(Durability::$durability, $rounds);
                    $(let setting = Setting { messages: $messages, ..setting };)?
                    run(stringify!($name), setting).await.expect_clean();
                }
            )*)?)*
        }
    };
}

// With `always` every answer is on disk before it is sent: I1 holds strictly. The eviction policy, which the guide's table has
// too, is tested by `readyz_is_503_while_redis_may_evict` (`tests/contract`) and
// `a_redis_that_may_evict_is_told_loudly_at_the_start` (`tests/command`).
scenarios! {
    instance_killed::instance_killed [instance_killed: Memory 3] = "an instance killed (−9) mid-request";
    lost_wakes::lost_wakes [lost_wakes: Memory 3] = "an instance killed (−9) between a script and its wake-up; wake-ups cut off";
    instance_paused::instance_paused [instance_paused: Memory 1] = "an instance stopped for twice a lease";
    client_gone::client_gone [client_gone: Memory 3] = "clients gone in long polls";
    callbacks_killed::callbacks_killed [callbacks_killed: Memory 3] = "an instance killed in the middle of a callback";
    ticks_killed::ticks_killed [ticks_killed: Memory 2] = "an instance killed in the middle of a schedule's tick";
    power::redis_killed [redis_killed: Always 2, redis_killed_everysec: Everysec 2] = "Redis killed (−9) and restarted";
    customers::customers [customers: Always 2] = "an instance and Redis killed (−9), events of 1,000 customers in order, 16 partitions";
    customers::tenants [tenants: Always 2] = "an instance and Redis killed (−9), customers in turn, four of them with most of the events";
    power::power_lost [power_lost: Always 3, power_lost_everysec: Everysec 3] = "power loss: the log cut back to its last fsync";
    connections::connections_cut [connections_cut: Memory 6] = "connections to Redis cut in bursts";
    connections::scripts_flushed [scripts_flushed: Memory 50] = "`SCRIPT FLUSH` under load";
    stall::redis_paused [redis_paused: Memory 1] = "Redis stopped for 5 s";
    stall::redis_busy [redis_busy: Memory 1] = "a script that runs away";
    memory::memory_full [memory_full: Memory 1] = "Redis at maxmemory";
    memory_stays::memory_stays [memory_stays: Memory 1] = "memory that stays at the bound";
    failover::failover [failover: Memory 1] = "a replica promoted, and the old primary again";
    sentinel::sentinel_killed [sentinel_killed: Memory 1] = "a primary killed (−9), Sentinel";
    sentinel::sentinel_frozen [sentinel_frozen: Memory 1] = "a primary stopped for 4 s, Sentinel, `min-replicas-to-write 1`";
    sentinel::sentinel_stale [sentinel_stale: Memory 1] = "a primary killed (−9) a second after its replica was stopped, Sentinel";
    sentinel::replica_away [replica_away: Replicated 1] = "a replica stopped for 3 s, Sentinel";
    replicas::replica_deaf [replica_deaf: Replicated 1] = "a replica that is connected and gets nothing for 3 s";
    replicas::replica_lost [replica_lost: Replicated 1] = "one of two replicas lost for good, then the primary killed (−9), Sentinel";
    cluster::cluster_killed [cluster_killed: Everysec 2] = "a primary killed (−9), Cluster";
    cluster::cluster_frozen [cluster_frozen: Everysec 1] = "a primary stopped for 4 s, Cluster, `min-replicas-to-write 1`";
    cluster_orders::cluster_orders [cluster_orders: Everysec 2] = "a primary killed (−9) every 10 s, Cluster, a topic of 16 partitions";
    cluster_cut::cluster_cut = "a primary and an instance cut off for 30 s, Cluster";
    cluster::cluster_moved [cluster_moved: Everysec 6] = "slots moved round a Cluster";
    cluster_node::cluster_target_killed = "a primary killed (−9) while a slot moves to it, Cluster";
    cluster_forgets::cluster_forgets [cluster_forgets: Everysec 1] = "the list of topics and dueq's own data set back by a moment, Cluster";
    cluster_node::cluster_node_troubled = "one node without scripts, without connections and loading, Cluster";
    cluster_clocks::cluster_clocks [cluster_clocks: Everysec 1] = "clocks of nodes 5 s apart, Cluster";
    snapshot::snapshot_restored [snapshot_restored: Memory 1] = "Redis restarted from an older snapshot";
    descriptors::descriptors_used_up [descriptors_used_up: Memory 1] = "file descriptors used up";
    disk::disk_full [disk_full: Everysec 1, disk_full_always: Always 1] = "the disk full under the log";
    answers::answers_lost [answers_lost: Memory 3] = "answers of Redis lost";
    answers::answers_delayed [answers_delayed: Memory 1] = "answers of Redis late";
    answers::answers_cut [answers_cut: Memory 6] = "answers of Redis cut off in the middle";
    unread::unread [unread: Memory 1] = "clients that never read, receivers that never end";
    adversary::adversary [adversary: Memory 1] = "a client's settings as the adversary";
    clock::clock_forward [clock_forward: Memory 1] = "Redis's clock an hour forward";
    clock::clock_back [clock_back: Memory 1] = "Redis's clock an hour back";
    clock::clock_of_an_instance [clock_of_an_instance: Memory 3] = "an instance's clock an hour off";
    clock::clock_of_schedules [clock_of_schedules: Memory 1] = "Redis's clock an hour ahead for seconds, schedules";
    // Without a fault of the table.
    burst::burst [burst: Memory 1];
    calm::calm [calm: Memory 1];
    endurance::endurance [endurance: Memory 1];
    failover::failover_idle [failover_idle: Memory 1];
    herd::herd [herd: Memory 1];
    liveness::liveness [liveness: Memory 1];
    million_blocked::million_blocked [million_blocked: Memory 1];
    million_delayed::million_delayed [million_delayed: Memory 1];
    order::order [order: Memory 1];
    poison::poison [poison: Memory 1];
    rolling_upgrade::rolling_upgrade;
    stale_tokens::stale_tokens [stale_tokens: Memory 1];
    storm::storm [storm: Always 2, 2_000];
}

/// Runs the scenario of this name under watch.
///
/// # Panics
/// When there is none.
pub async fn run(name: &str, setting: Setting) -> Report {
    let scenario = find(name).unwrap_or_else(|| panic!("there is no scenario {name}"));
    scenario(setting).await
}

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
