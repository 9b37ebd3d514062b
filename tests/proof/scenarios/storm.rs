//! Everything at once, in bulk: what the promise "nothing is lost" is counted with.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::time::sleep;

use super::ground::redis;
use crate::harness::{Dueq, Launch, Redis, works_again};
use crate::proof::actor::Fleet;
use crate::proof::clients::Mix;
use crate::proof::history::{FaultKind, now};
use crate::proof::load::Load;
use crate::proof::shim::Shim;
use crate::proof::stage::{Durability, Report, Setting};

/// Two instances under a bulk load. Each round kills one of them in the middle of its work, and a
/// moment later Redis, every other time with the power of its machine. The load goes on until all of
/// `setting.messages` are published.
pub async fn storm(setting: Setting) -> Report {
    assert_eq!(setting.durability, Durability::Always, "what may be lost needs its window noted");
    let shim = Shim::new();
    let mut redis = shim.redis(redis(&setting)).start().await;
    let launch = |redis: &Redis| -> Launch { Dueq::on(redis).bug(setting.bug) };
    let mut instances = [launch(&redis).start().await, launch(&redis).start().await];
    let fleet = Fleet::new(instances.iter().map(Dueq::client));
    let mut load = Load::begin(&fleet, "storm", Mix::bulk(), &setting);
    let mut random = StdRng::seed_from_u64(load.recorder.seed);
    let part = setting.messages / (setting.rounds + 1);
    for round in 0..setting.rounds {
        load.published(part * (round + 1)).await;
        let from = now();
        let index = round % instances.len();
        instances[index].kill9();
        instances[index] = launch(&redis).start().await;
        fleet.replace(index, instances[index].client());
        load.recorder.fault(FaultKind::InstanceKilled(index), from);
        sleep(Duration::from_millis(random.random_range(100..600))).await;
        let from = now();
        let kind = if round % 2 == 0 {
            redis.kill9();
            FaultKind::RedisKilled
        } else {
            shim.power_loss(&mut redis, &mut random);
            FaultKind::PowerLost(0)
        };
        redis.restart().await;
        load.recorder.fault(kind, from);
        for instance in &instances {
            works_again(&instance.client()).await;
        }
    }
    load.published(setting.messages).await;
    load.finish(&redis.url()).await
}
