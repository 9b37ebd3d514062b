//! A Redis that goes on, but not with those who talk to it: it cuts their connections, or forgets
//! their scripts.

use std::time::Duration;

use deadpool_redis::redis as client;
use tokio::time::sleep;

use super::ground::{Run, redis};
use crate::harness::{Dueq, Redis};
use crate::proof::actor::Fleet;
use crate::proof::audit::connect;
use crate::proof::history::{FaultKind, Op, What, now};
use crate::proof::load::only;
use crate::proof::stage::{Report, Setting};

/// All connections are cut in bursts, between a script and its answer: what ran is not repeated.
pub async fn connections_cut(setting: Setting) -> Report {
    let redis = redis(&setting).start().await;
    let dueq = [
        Dueq::on(&redis).bug(setting.bug).start().await,
        Dueq::on(&redis).bug(setting.bug).start().await,
    ];
    let fleet = Fleet::new(dueq.iter().map(Dueq::client));
    let mut run = Run::begin("connections_cut", &setting, &fleet);
    run.load.inspect(&redis.url());
    let mut round = 0;
    // Few publishes lose their answer by it, and by chance none of them may have run: then it goes on a little.
    while round < setting.rounds || (run.doubts().1 == 0 && round < setting.rounds + 10) {
        run.pace(round.min(setting.rounds - 1), 400).await;
        let from = now();
        for _ in 0..4 {
            cut(&redis).await;
            sleep(Duration::from_millis(15)).await;
        }
        run.fault(FaultKind::ConnectionsCut, from);
        round += 1;
    }
    sleep(Duration::from_millis(500)).await;
    run.doubtful = true;
    run.report(&redis.url()).await
}

/// Cuts all connections between a script and its answer: what arrives while Redis is busy runs in
/// one turn of its loop with the cut that arrives after it, and answers are written at its end.
pub async fn cut(redis: &Redis) {
    let (mut busy, mut cutter) =
        (connect(&redis.url()).await.unwrap(), connect(&redis.url()).await.unwrap());
    let work = tokio::spawn(async move {
        let mut eval = client::cmd("EVAL");
        eval.arg("for i = 1, 4000000 do end").arg(0);
        let _ = eval.query_async::<()>(&mut busy).await; // cut off too
    });
    sleep(Duration::from_millis(10)).await;
    for kind in ["pubsub", "normal"] {
        let mut kill = client::cmd("CLIENT");
        kill.arg("KILL").arg("TYPE").arg(kind);
        kill.query_async::<i64>(&mut cutter).await.unwrap();
    }
    work.await.unwrap();
}

/// `SCRIPT FLUSH` every 50 ms: nobody notices.
pub async fn scripts_flushed(setting: Setting) -> Report {
    let redis = redis(&setting).start().await;
    let dueq = Dueq::on(&redis).bug(setting.bug).start().await;
    let mut run = Run::plain("scripts_flushed", &setting, &only(dueq.client()));
    run.load.inspect(&redis.url());
    let loads = script_loads(&redis).await;
    for round in 0..setting.rounds {
        run.pace(round, 50).await;
        let from = now();
        let _: String = redis.command(&["SCRIPT", "FLUSH"]).await;
        run.fault(FaultKind::ScriptsFlushed, from);
    }
    run.load.stop().await;
    let again = script_loads(&redis).await - loads;
    run.bit(again > 0, || "no script was missed".into());
    // A poll whose first look outlasts its wait by 400 ms is given up, which a busy machine may do to it.
    let given_up = |op: &Op| matches!(op.what, What::Lease { wait: 1.., .. }) && op.took() >= 400;
    let is_lost = |op: &Op| matches!(op.outcome(), "never" | "unknown") && !given_up(op);
    let lost = run.load.recorder.count(is_lost);
    run.demand(lost == 0, "I15 groups", || format!("{lost} requests noticed the flush"));
    let ok = run.ended("ok");
    run.bit(ok > 2 * setting.rounds, || format!("only {ok} requests"));
    run.report(&redis.url()).await
}

/// How often a script was called that Redis did not know.
async fn script_loads(redis: &Redis) -> i64 {
    let stats: String = redis.command(&["INFO", "errorstats"]).await;
    let line = stats.lines().find_map(|line| line.strip_prefix("errorstat_NOSCRIPT:count="));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}
