//! The scenarios on dueq's own side in their short form: instances and clients that die, pause or fail, crowds and bursts.
//! `tests/proof/scenarios` says what each of them demands.
//!
//! Of the table in `guarantees.md` the eviction policy is looked at elsewhere: `readyz_is_503_while_redis_may_evict`
//! (`tests/contract`) and `a_redis_that_may_evict_is_told_loudly_at_the_start` (`tests/command`).

use crate::proof::scenarios;
use crate::proof::stage::{Durability, Setting};

/// Tests of the scenarios' names, each with so many rounds.
macro_rules! short {
    ($($(#[$more:meta])? $scenario:ident: $rounds:literal,)*) => {$(
        $(#[$more])?
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $scenario() {
            let setting = Setting::short(Durability::Memory, $rounds);
            scenarios::run(stringify!($scenario), setting).await.expect_clean();
        }
    )*};
}

short! {
    adversary: 1,
    burst: 1,
    callbacks_killed: 3,
    calm: 1,
    client_gone: 3,
    endurance: 1,
    herd: 1,
    instance_killed: 3,
    instance_paused: 1,
    liveness: 1,
    lost_wakes: 3,
    million_blocked: 1,
    million_delayed: 1,
    order: 1,
    poison: 1,
    stale_tokens: 1,
    ticks_killed: 2,
    unread: 1,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn descriptors_used_up() {
    let setting = Setting::short(Durability::Memory, 1);
    scenarios::run("descriptors_used_up", setting).await.expect_clean();
}
