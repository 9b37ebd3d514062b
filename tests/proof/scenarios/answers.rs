//! Redis works, but its answers are lost, late or cut on their way.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::time::sleep;

use super::ground::{DEADLINE, Run, SLACK, hasty, redis};
use crate::harness::{Dueq, Redis};
use crate::proof::actor::Fleet;
use crate::proof::history::{FaultKind, Ms, What, now};
use crate::proof::proxy::{Mode, Proxy};
use crate::proof::stage::{Report, Setting};

/// Two instances that see Redis through one proxy.
struct Line {
    redis: Redis,
    proxy: Proxy,
    run: Run,
    random: StdRng,
    /// How often it was asked whether it works again.
    recovered: u64,
    _dueq: [Dueq; 2],
}

impl Line {
    async fn start(
        name: &'static str,
        setting: &Setting,
        load: fn(&'static str, &Setting, &Fleet) -> Run,
    ) -> Line {
        let redis = redis(setting).start().await;
        let proxy = Proxy::of(&redis).await;
        let launch = || hasty(Dueq::at(&proxy.url())).bug(setting.bug);
        let dueq = [launch().start().await, launch().start().await];
        let mut run = load(name, setting, &Fleet::new(dueq.iter().map(Dueq::client)));
        run.load.inspect(&redis.url());
        let random = StdRng::seed_from_u64(run.load.recorder.seed);
        Line { redis, proxy, run, random, recovered: 0, _dueq: dueq }
    }

    /// Disturbs answers for a while.
    async fn disturb(&self, mode: Mode, for_ms: Ms) {
        let from = now();
        self.proxy.set(mode);
        sleep(Duration::from_millis(for_ms as u64)).await;
        self.proxy.set(Mode::Pass);
        self.run.fault(FaultKind::AnswersLost, from);
    }

    /// Disturbs answers for a while, and again until it told, at most ten times: only what is under
    /// way when it begins is met, for dueq asks nothing more of a Redis that does not answer. Whether
    /// it told.
    async fn disturb_until(&mut self, mode: Mode, for_ms: Ms, told: impl Fn(&Run) -> bool) -> bool {
        for _ in 0..10 {
            self.disturb(mode, for_ms).await;
            if told(&self.run) {
                return true;
            }
            self.recovers().await;
        }
        false
    }

    /// What the disturbance before held up is through.
    async fn recovers(&mut self) {
        self.recovered += 1;
        self.run.recovers(80_000 + self.recovered, Duration::from_secs(3)).await;
    }

    /// It works again, nothing hung, and some publish ran whose answer was lost.
    async fn report(mut self) -> Report {
        self.run.recovers(90_000, Duration::from_secs(3)).await;
        sleep(Duration::from_millis(300)).await;
        self.run.in_time(DEADLINE + SLACK);
        self.run.doubtful = true;
        self.run.report(&self.redis.url()).await
    }
}

/// Answers are lost in bursts, shorter and longer than dueq waits for them: no publish is stored
/// twice, no lost ack is reported as done.
pub async fn answers_lost(setting: Setting) -> Report {
    let mut line = Line::start("answers_lost", &setting, Run::begin).await;
    for round in 0..setting.rounds {
        line.run.pace(round, 500).await;
        let most = if round % 3 == 2 { DEADLINE + 500 } else { 300 };
        let burst = line.random.random_range(most / 2..most);
        line.disturb_until(Mode::Swallow, burst, |run| {
            round + 1 < setting.rounds || run.doubts().0 > 0
        })
        .await;
    }
    let swallowed = line.proxy.swallowed();
    line.run.bit(swallowed > 0, || "no answer was lost".into());
    line.report().await
}

/// Answers are late: within the deadline everything works, slowly; beyond it the outcome is unknown,
/// and the answer that comes all the same is nobody else's.
pub async fn answers_delayed(setting: Setting) -> Report {
    let mut line = Line::start("answers_delayed", &setting, Run::plain).await;
    // Over all rounds: on a busy machine a publish may find both lanes waiting, and then its own
    // wait comes on top of theirs and passes the deadline.
    let mut slow = false;
    for round in 0..setting.rounds {
        line.run.pace(round, 300).await;
        line.recovers().await;
        let late = line.random.random_range(300..600);
        let within = now();
        let slow_and_well = |run: &Run| {
            run.load.recorder.of(&run.load.topic).iter().any(|op| {
                op.sent >= within
                    && op.took() >= late
                    && matches!(&op.what, What::Publish(p) if p.outcome.is_ok())
            })
        };
        let delay = Mode::Delay(Duration::from_millis(late as u64));
        slow |= line.disturb_until(delay, 1_500, slow_and_well).await;
        line.recovers().await;
        let before = line.run.doubts().0;
        let later = Mode::Delay(Duration::from_millis((DEADLINE + 700) as u64));
        let unknown = |run: &Run| run.doubts().0 > before;
        let too_late = line.disturb_until(later, DEADLINE + 300, unknown).await;
        line.run.bit(too_late, || "no answer came too late".into());
    }
    line.run.bit(slow, || "no publish was late and well".into());
    let delayed = line.proxy.delayed();
    line.run.bit(delayed > 0, || "no answer was late".into());
    line.report().await
}

/// Connections are closed in the middle of an answer or after some bytes of answers; sometimes nobody
/// listens afterwards.
pub async fn answers_cut(setting: Setting) -> Report {
    let mut line = Line::start("answers_cut", &setting, Run::begin).await;
    for round in 0..setting.rounds {
        line.run.pace(round, 400).await;
        let mode = match round % 2 {
            0 => Mode::CutInTheMiddle,
            _ => Mode::CutAfter(line.random.random_range(1..3_000)),
        };
        line.disturb_until(mode, 200, |run| round + 1 < setting.rounds || run.doubts().0 > 0).await;
        if round % 3 == 2 {
            line.disturb(Mode::CutInTheMiddle, 20).await;
            line.disturb(Mode::Refuse, 300).await;
        }
    }
    let cut = line.proxy.cut();
    line.run.bit(cut > 0, || "no answer was cut".into());
    line.report().await
}
