//! Wake-ups that nobody sends: anyone who would have to is killed, or never learns that what it sent has run.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::ground::{Run, hasty, redis};
use crate::harness::{Dueq, Redis, eventually, waiters};
use crate::proof::actor::{Fleet, Options};
use crate::proof::history::{FaultKind, Ms, Outcome, now};
use crate::proof::proxy::{Mode, Proxy};
use crate::proof::stage::{Report, Setting};

/// How many wait, and for how long: longer than any excuse lasts.
const WAITERS: u64 = 3;
const WAIT: Ms = 8_000;
/// The promise is 1 s; two busy cores and a debug build may add to it.
const SOON: Duration = Duration::from_millis(1_700);

/// The instance that publishes, and the one where everybody waits.
const PUBLISHES: usize = 0;
const WAITS: usize = 1;

struct Ground {
    redis: Redis,
    proxy: Proxy,
    dueq: [Dueq; 2],
    fleet: Fleet,
}

/// Consumers wait in long polls at one instance. Another's script runs and its answer never comes, and it is killed; or Redis
/// stands still in the middle of a publish; or the connection over which wake-ups come is cut. From then on every publish
/// that is answered 2xx is granted to a client who waits within a second.
pub async fn lost_wakes(setting: Setting) -> Report {
    let redis = redis(&setting).start().await;
    let proxy = Proxy::of(&redis).await;
    let dueq = [
        hasty(Dueq::at(&proxy.url())).bug(setting.bug).start().await,
        hasty(Dueq::on(&redis)).bug(setting.bug).start().await,
    ];
    let fleet = Fleet::new(dueq.iter().map(Dueq::client));
    let mut ground = Ground { redis, proxy, dueq, fleet };
    let mut run = Run::quiet("lost_wakes", &setting, &ground.fleet);
    for round in 0..setting.rounds {
        let first = 100 * (round as u64 + 1);
        let waiting = sit_down(&run, &ground, first).await;
        match round % 3 {
            0 => killed_before_its_wake(&mut run, &mut ground, &setting, first + 10).await,
            1 => stopped_in_a_publish(&run, &mut ground, first + 10).await,
            _ => unsubscribed(&run, &ground).await,
        }
        serve(&mut run, waiting, first + 20).await;
    }
    run.report(&ground.redis.url()).await
}

/// Consumers that wait for a message each.
async fn sit_down(run: &Run, ground: &Ground, first: u64) -> JoinSet<Option<Instant>> {
    let mut waiting = JoinSet::new();
    for number in first..first + WAITERS {
        let mut actor = run.load.actor(number).pinned(WAITS);
        waiting.spawn(async move {
            let granted = actor.lease(1, 20_000, WAIT, &[]).await;
            let at = Instant::now();
            let grant = granted.ok().and_then(|grants| grants.first()).cloned()?;
            actor.ack(&grant).await;
            Some(at)
        });
    }
    waiters(&ground.dueq[WAITS].client(), WAITERS as u32).await;
    waiting
}

/// A publish runs, its answer never reaches the instance, and that is killed: it woke nobody.
async fn killed_before_its_wake(
    run: &mut Run,
    ground: &mut Ground,
    setting: &Setting,
    client: u64,
) {
    let from = now();
    let swallowed = ground.proxy.swallowed();
    ground.proxy.set(Mode::Swallow);
    let mut publisher = run.load.actor(client).pinned(PUBLISHES);
    let published = tokio::spawn(async move { publisher.publish(Options::default()).await });
    eventually("an answer is lost", || async {
        (ground.proxy.swallowed() > swallowed).then_some(())
    })
    .await;
    // What else it has sent may have been answered first.
    sleep(Duration::from_millis(100)).await;
    ground.dueq[PUBLISHES].kill9();
    let outcome = published.await.expect("a publisher");
    run.bit(outcome == Outcome::Unknown, || format!("its publish was answered: {outcome:?}"));
    ground.proxy.set(Mode::Pass);
    ground.dueq[PUBLISHES] = hasty(Dueq::at(&ground.proxy.url())).bug(setting.bug).start().await;
    ground.fleet.replace(PUBLISHES, ground.dueq[PUBLISHES].client());
    run.fault(FaultKind::InstanceKilled(PUBLISHES), from);
}

/// Redis stands still while a publish is under way, until that was given up.
async fn stopped_in_a_publish(run: &Run, ground: &mut Ground, client: u64) {
    let from = now();
    ground.redis.pause();
    run.load.actor(client).pinned(WAITS).publish(Options::default()).await;
    sleep(Duration::from_millis(500)).await;
    ground.redis.resume();
    run.fault(FaultKind::RedisPaused, from);
}

/// The connection over which the instance hears of others' publishes is cut.
async fn unsubscribed(run: &Run, ground: &Ground) {
    let from = now();
    let cut: i64 = ground.redis.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    assert!(cut > 0, "nobody has subscribed");
    run.fault(FaultKind::ConnectionsCut, from);
}

/// Publishes for anyone who still waits: the first of them has something soon, and in the end all have.
async fn serve(run: &mut Run, mut waiting: JoinSet<Option<Instant>>, client: u64) {
    let mut publisher = run.load.actor(client);
    let mut last = Instant::now();
    for _ in 0..WAITERS {
        let end = Instant::now() + Duration::from_secs(5);
        while !publisher.publish(Options::default()).await.is_ok() {
            assert!(Instant::now() < end, "no publish is answered");
            sleep(Duration::from_millis(20)).await;
        }
        last = Instant::now();
    }
    let mut told = 0;
    while let Some(waited) = waiting.join_next().await {
        let Some(at) = waited.expect("a consumer") else { continue };
        let took = at.saturating_duration_since(last);
        told += 1;
        run.demand(took < SOON, "I12 liveness", || {
            format!("granted {took:?} after the last publish was answered")
        });
    }
    run.demand(told == WAITERS, "I12 liveness", || {
        format!("{} of {WAITERS} who waited for {WAIT} ms were not told", WAITERS - told)
    });
    // What was published in vain would be granted to the next who wait.
    let left = publisher.lease(100, 20_000, 0, &[]).await;
    for grant in left.ok().into_iter().flatten() {
        publisher.ack(grant).await;
    }
}
