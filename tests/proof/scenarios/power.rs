//! A Redis that dies: killed alone, or with the power of its machine.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

use super::ground::{Run, redis};
use crate::harness::{Client, Dueq, Redis, works_again};
use crate::proof::actor::Fleet;
use crate::proof::history::{FaultKind, Ms, now};
use crate::proof::load::only;
use crate::proof::shim::Shim;
use crate::proof::stage::{Durability, Report, Setting};

/// What `everysec` may lose, in ms. Redis asks for an fsync in the first turn of its loop in which
/// its clock, which it looks at every 100 ms, shows another second than at the fsync before: at most
/// 1.1 s later. While an fsync is under way it neither writes (for up to 2 s) nor asks for another.
/// So at any moment the last fsync that ended began no more than 1.1 s + the time of the one under
/// way ago: 2.5 s where an fsync takes up to 1.4 s. A slower disk loses more; then what the shim saw
/// counts.
const EVERYSEC: Ms = 2_500;

/// Redis is killed and restarted under load. dueq answers 503 meanwhile, without a storm of
/// connections or log lines, and has everything back afterwards.
pub async fn redis_killed(setting: Setting) -> Report {
    let shim = Shim::new();
    let mut redis = shim.redis(redis(&setting)).start().await;
    let dueq = Dueq::on(&redis).bug(setting.bug).start().await;
    let mut run = Run::begin("redis_killed", &setting, &only(dueq.client()));
    run.load.inspect(&redis.url());
    for round in 0..setting.rounds {
        run.pace(round, 1_200).await;
        let from = now();
        let held_back = shim.kill(&mut redis);
        no_storm(&mut run, &dueq, &redis).await;
        let client = dueq.client();
        client.get_path("/readyz").await.expect(503);
        client.get_path("/healthz").await.expect(200);
        redis.restart().await;
        run.fault(FaultKind::RedisKilled, from);
        match (setting.durability, held_back) {
            (Durability::Memory, _) => run.fault(FaultKind::PowerLost(from - run.begun + 1), from),
            (Durability::Everysec, Some(window)) => run.fault(FaultKind::PowerLost(window), from),
            _ => {}
        }
        run.recovers(20_000 + round as u64, Duration::from_secs(3)).await;
    }
    met(&mut run);
    sleep(Duration::from_millis(300)).await;
    run.in_time(4_500);
    run.report(&redis.url()).await
}

/// How dueq behaves while nobody listens where Redis was.
async fn no_storm(run: &mut Run, dueq: &Dueq, redis: &Redis) {
    let logged = dueq.log().len();
    let tries = connections_within(Duration::from_millis(500), redis.port()).await;
    run.demand(tries < 100, "no storm", || format!("{tries} connections in 500 ms"));
    let logged = dueq.log().len() - logged;
    run.demand(logged < 100_000, "no storm", || format!("{logged} bytes of log: {}", dueq.log()));
}

/// How many connections a client who is no Redis gets at this port; it closes them at once.
async fn connections_within(limit: Duration, port: u16) -> usize {
    let mut connections = 0;
    let _ = timeout(limit, async {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("the dead Redis's port");
        while listener.accept().await.is_ok() {
            connections += 1;
        }
    })
    .await;
    connections
}

/// The power fails under load: what was not synced is gone, wholly or in part. Some hold leases from
/// before and come with their tokens afterwards.
pub async fn power_lost(setting: Setting) -> Report {
    let shim = Shim::new();
    let mut redis = shim.redis(redis(&setting)).start().await;
    let dueq = [
        Dueq::on(&redis).bug(setting.bug).start().await,
        Dueq::on(&redis).bug(setting.bug).start().await,
    ];
    let clients: Vec<Client> = dueq.iter().map(Dueq::client).collect();
    let mut run = Run::begin("power_lost", &setting, &Fleet::new(clients.clone()));
    run.load.inspect(&redis.url());
    let mut random = StdRng::seed_from_u64(run.load.recorder.seed);
    let (mut unsynced, mut lost) = (0, 0);
    for round in 0..setting.rounds {
        run.pace(round, random.random_range(800..1_800)).await;
        let mut late = run.load.actor(20_000 + round as u64);
        let held = late.lease(8, 4_000, 300, &[]).await;
        let from = now();
        let cut = match setting.durability {
            Durability::Memory => {
                redis.kill9();
                None
            }
            _ => Some(shim.power_loss(&mut redis, &mut random)),
        };
        redis.restart().await;
        let window = match (setting.durability, cut) {
            (Durability::Always, _) => 0,
            (_, Some(cut)) => EVERYSEC.max(cut.window),
            (_, None) => from - run.begun + 1,
        };
        run.fault(FaultKind::PowerLost(window), from);
        if let Some(cut) = cut {
            (unsynced, lost) = (unsynced + cut.unsynced, lost + cut.lost);
            eprintln!("power loss {round}: {cut:?}");
        }
        for client in &clients {
            works_again(client).await;
        }
        for grant in held.ok().into_iter().flatten() {
            late.ack(grant).await;
        }
        run.recovers(40_000 + round as u64, Duration::from_secs(3)).await;
    }
    if setting.durability == Durability::Everysec {
        run.bit(unsynced > 0, || "everything was synced whenever the power failed".into());
        run.bit(lost > 0 || setting.rounds < 3, || "no power loss took anything".into());
    }
    met(&mut run);
    sleep(Duration::from_millis(300)).await;
    run.report(&redis.url()).await
}

/// Over all rounds: one restart may be over before a busy machine's clients ask anything.
fn met(run: &mut Run) {
    let refused = run.ended("never");
    run.bit(refused > 0, || "no request met the dead Redis".into());
}
