//! Instances that are killed in the middle of their requests.

use std::time::Duration;

use tokio::time::sleep;

use super::crew::Crew;
use super::findings::{BITE, Findings};
use crate::proof::stage::{Report, Setting};

/// Of two instances (three in the long form) one is killed with SIGKILL about every second, under the usual load: I1–I11,
/// and what the dead held comes back when its leases end (the load drains).
pub async fn instance_killed(setting: Setting) -> Report {
    let mut findings = Findings::new("instance_killed", &setting);
    let instances = if setting.messages > 0 { 3 } else { 2 };
    let mut crew = Crew::start(&setting, instances).await;
    let mut load = crew.load("instance-killed");
    if setting.messages == 0 {
        load.inspect(&crew.redis.url());
    }
    for round in 0..setting.rounds {
        sleep(Duration::from_millis(700)).await;
        crew.kill(round % instances, &load.recorder).await;
    }
    sleep(Duration::from_millis(300)).await;
    let outcomes = load.recorder.outcomes();
    let count = |word| outcomes.get(word).copied().unwrap_or(0);
    let (ok, unknown) = (count("ok"), count("unknown"));
    findings.add(crew.finish(load).await);
    findings.demand(ok > 50 * setting.rounds, BITE, || format!("only {ok} requests were ok"));
    findings.demand(unknown > 0, BITE, || "no request was under way at a kill".into());
    findings.report()
}
