//! Redis at its maxmemory under load.

use std::time::Duration;

use tokio::time::sleep;

use super::ground::{Run, redis};
use crate::harness::Dueq;
use crate::proof::actor::{Actor, Options};
use crate::proof::history::{FaultKind, Outcome, now};
use crate::proof::load::only;
use crate::proof::stage::{Report, Setting};

/// Memory runs out while clients work: publishers are answered 503, consumers go on until nothing
/// is left, and with room again publishes work at once.
pub async fn memory_full(setting: Setting) -> Report {
    let redis = redis(&setting).start().await;
    // No answer is given up: whatever Redis refuses is known not to have run.
    let patient = Dueq::on(&redis).args(["--redis-timeout-ms", "15000"]);
    let dueq = patient.bug(setting.bug).start().await;
    let mut run = Run::plain("memory_full", &setting, &only(dueq.client()));
    run.load.inspect(&redis.url());
    for round in 0..setting.rounds {
        run.pace(round, 600).await;
        let from = now();
        let limit = (redis.info("used_memory").await + 200_000).to_string();
        let _: String = redis.command(&["CONFIG", "SET", "maxmemory", &limit]).await;
        let mut actor = run.load.actor(20_000 + round as u64);
        fill(&mut run, &mut actor).await;
        // Whatever consumers free from here on makes no room.
        let _: String = redis.command(&["CONFIG", "SET", "maxmemory", "1mb"]).await;
        for _ in 0..10 {
            let outcome = actor.publish(Options::default()).await;
            let never = outcome == Outcome::Never;
            run.demand(never, "the contract", || format!("a full Redis: {outcome:?}"));
        }
        let mut looker = run.load.actor(30_000 + round as u64);
        drained(&mut looker).await;
        let _: String = redis.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
        run.fault(FaultKind::MemoryFull, from);
        run.recovers(40_000 + round as u64, Duration::from_secs(2)).await;
    }
    let unknown = run.ended("unknown");
    run.demand(unknown == 0, "I15 groups", || format!("{unknown} requests without an outcome"));
    run.report(&redis.url()).await
}

/// Large publishes until Redis refuses one; nobody can take them meanwhile.
async fn fill(run: &mut Run, actor: &mut Actor) {
    for taken in 0..1_000 {
        let headers = taken % 7 == 0;
        let options = Options { padding: 20_000, delay: 2_000, headers, ..Options::default() };
        if !actor.publish(options).await.is_ok() {
            return;
        }
    }
    run.bit(false, || "maxmemory is never reached".into());
}

/// Waits until consumers have worked off what there was.
async fn drained(actor: &mut Actor) {
    let mut seen = None;
    for _ in 0..1_500 {
        if let Outcome::Ok(topic) = actor.topic().await {
            let counts = ["delayed", "ready", "leased"].map(|name| topic["counts"][name].as_i64());
            if counts == [Some(0); 3] {
                return;
            }
            seen = Some(topic);
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("a full Redis does not drain: {seen:?}");
}
