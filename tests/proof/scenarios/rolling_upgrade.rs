//! An upgrade and the way back, instance by instance, under load.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::findings::{BITE, CONTRACT, Findings};
use super::ground;
use crate::harness::{Dueq, Launch, binary};
use crate::proof::actor::Fleet;
use crate::proof::clients::Mix;
use crate::proof::history::{FaultKind, now};
use crate::proof::load::Load;
use crate::proof::stage::{Report, Setting};

/// The dueq that the upgrade begins from; set by anyone who runs this.
pub static OLDER: OnceLock<PathBuf> = OnceLock::new();

/// How long instances of both versions work side by side after each step.
const STEP: Duration = Duration::from_secs(10);
/// How long an instance counts after its death, and a little more.
const REMEMBERED: Duration = Duration::from_secs(70);

/// Two instances of the older version are replaced one by one by the newer one and then back, `setting.rounds` times, under
/// the usual load: every other time they are killed. Then the upgrade is finished, and the older version finds no way in.
pub async fn rolling_upgrade(setting: Setting) -> Report {
    let older = OLDER.get().expect("a binary of the older version");
    let mut findings = Findings::new("rolling_upgrade", &setting);
    let redis = ground::redis(&setting).start().await;
    let launch = |version: &Path| -> Launch { Dueq::calling(&redis).of(version) };
    let mut instances = [launch(older).start().await, launch(older).start().await];
    let fleet = Fleet::new(instances.iter().map(Dueq::client));
    // The older version is not held to the time that extreme messages may take.
    let mix = Mix { extreme: 0, ..Mix::varied() };
    let mut load = Load::begin(&fleet, "rolling-upgrade", mix, &setting);
    load.inspect(&redis.url());
    for round in 0..setting.rounds {
        for version in [binary(), older] {
            for (index, instance) in instances.iter_mut().enumerate() {
                sleep(STEP).await;
                let from = now();
                if round % 2 == 0 {
                    let code = instance.term().await;
                    findings.demand(code == 0, CONTRACT, || format!("exit code {code} at SIGTERM"));
                } else {
                    instance.kill9();
                }
                *instance = launch(version).start().await;
                fleet.replace(index, instance.client());
                load.recorder.fault(FaultKind::InstanceKilled(index), from);
            }
        }
    }
    let ok = load.recorder.outcomes().get("ok").copied().unwrap_or(0);
    findings.demand(ok > 100 * setting.rounds, BITE, || format!("only {ok} requests were ok"));
    let finish = || async {
        Launch::command(["migrate", "--finish", "--redis-url", &redis.url()]).finish().await
    };
    let early = finish().await;
    findings.demand(early.code == 1, CONTRACT, || format!("older ones still run: {early:?}"));
    for (index, instance) in instances.iter_mut().enumerate() {
        let from = now();
        instance.term().await;
        *instance = launch(binary()).start().await;
        fleet.replace(index, instance.client());
        load.recorder.fault(FaultKind::InstanceKilled(index), from);
    }
    // Those that were killed are remembered for a while.
    let (begin, mut finished) = (Instant::now(), finish().await);
    while finished.code != 0 && begin.elapsed() < REMEMBERED {
        sleep(Duration::from_secs(1)).await;
        finished = finish().await;
    }
    findings.demand(finished.code == 0, CONTRACT, || format!("{finished:?}"));
    let refused = Launch::command(["serve", "--redis-url", &redis.url()]).of(older).finish().await;
    let in_a_line = refused.code == 2 && refused.stderr.contains("use a newer dueq");
    findings.demand(in_a_line, CONTRACT, || format!("the older version starts: {refused:?}"));
    findings.add(load.finish(&redis.url()).await);
    findings.report()
}
