//! A full disk under the append-only file.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::ground::{Run, redis};
use crate::harness::{Dueq, eventually, lives};
use crate::proof::actor::{Actor, Options};
use crate::proof::disk::Disk;
use crate::proof::history::{FaultKind, Outcome, now};
use crate::proof::load::only;
use crate::proof::stage::{Durability, Report, Setting, Tally};

/// The disk is filled under load, and room is made again. With `always` Redis ends itself over and
/// over, and dueq, whose embedded Redis it is, starts it again; otherwise Redis refuses whatever
/// writes. An empty report where no disk can be mounted, which is said aloud.
pub async fn disk_full(setting: Setting) -> Report {
    let Setting { durability, messages, .. } = setting;
    let Some(disk) = Disk::mount(if messages == 0 { 16 } else { 256 }).await else {
        let (seed, tally) = (setting.seed.unwrap_or(0), Tally::default());
        return Report { scenario: "disk_full", durability, seed, tally, violations: Vec::new() };
    };
    match durability {
        Durability::Always => embedded(setting, disk).await,
        _ => refusing(Setting { durability: Durability::Everysec, ..setting }, disk).await,
    }
}

async fn refusing(setting: Setting, disk: Disk) -> Report {
    // The log of a busy queue is rewritten before it fills the disk by itself.
    let small = ["--auto-aof-rewrite-min-size", "4mb"];
    let redis = disk.redis(redis(&setting)).args(small).start().await;
    let dueq = Dueq::on(&redis).bug(setting.bug).start().await;
    let client = dueq.client();
    let mut run = Run::begin("disk_full", &setting, &only(client.clone()));
    run.load.inspect(&redis.url());
    for round in 0..setting.rounds {
        run.pace(round, 800).await;
        let from = now();
        disk.fill();
        refused(&mut run.load.actor(20_000 + round as u64)).await;
        sleep(Duration::from_millis(1_500)).await;
        let state: String = redis.command(&["INFO", "persistence"]).await;
        let failed = state.contains("aof_last_write_status:err");
        run.bit(failed, || format!("the disk was not full: {state}"));
        client.get_path("/healthz").await.expect(200);
        run.demand(lives(redis.pid()), "the contract", || format!("Redis ended: {}", redis.log()));
        disk.make_room();
        run.fault(FaultKind::DiskFull, from);
        run.recovers(30_000 + round as u64, Duration::from_secs(3)).await;
    }
    run.report(&redis.url()).await
}

async fn embedded(setting: Setting, disk: Disk) -> Report {
    let data = disk.dir().join("data");
    let launch = disk.dueq(Dueq::embedded(&data)).args(["--fsync", "always"]);
    let mut dueq = launch.bug(setting.bug).start().await;
    let socket = disk.seen().join("data/redis.sock");
    let url = format!("redis+unix://{}", socket.display());
    let client = dueq.client();
    let mut run = Run::begin("disk_full", &setting, &only(client.clone()));
    run.load.inspect(&url);
    for round in 0..setting.rounds {
        run.pace(round, 800).await;
        let (from, ends) = (now(), pauses(&dueq).len());
        disk.fill();
        refused(&mut run.load.actor(20_000 + round as u64)).await;
        // Started again, Redis ends itself at the first write.
        eventually("Redis ends itself twice", || async {
            (pauses(&dueq).len() >= ends + 2).then_some(())
        })
        .await;
        client.get_path("/healthz").await.expect(200);
        disk.make_room();
        run.fault(FaultKind::DiskFull, from);
        let next = Duration::from_millis(2 * pauses(&dueq).last().copied().unwrap_or(0));
        run.recovers(30_000 + round as u64, next + Duration::from_secs(3)).await;
    }
    let pauses = pauses(&dueq);
    eprintln!("pauses before Redis was started again: {pauses:?} ms");
    let grow = pauses.windows(2).all(|pair| pair[1] == (2 * pair[0]).min(10_000));
    run.demand(grow, "the contract", || format!("pauses do not grow: {pauses:?}"));
    let report = run.report(&url).await;
    assert_eq!(dueq.term().await, 0, "{}", dueq.log());
    report
}

/// The pauses before each new start of the embedded Redis so far, in ms.
fn pauses(dueq: &Dueq) -> Vec<u64> {
    let log = dueq.log();
    let number =
        |text: &str| text.split(|c: char| !c.is_ascii_digit()).find_map(|n| n.parse().ok());
    let lines = log.lines().filter(|line| line.contains("ended by itself"));
    lines.filter_map(|line| number(line.split("pause_ms").nth(1)?)).collect()
}

/// Waits until a publish is refused.
async fn refused(actor: &mut Actor) {
    let end = Instant::now() + Duration::from_secs(10);
    while actor.publish(Options::default()).await != Outcome::Never {
        assert!(Instant::now() < end, "publishes work on a full disk");
    }
}
