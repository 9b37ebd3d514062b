//! Clocks that are set: Redis's an hour forward and an hour back, and an instance's, which must not
//! matter to anything.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::ground::{Run, redis};
use crate::harness::{Client, Dueq, Redis, instant_ms, text, topic};
use crate::proof::actor::Fleet;
use crate::proof::history::{FaultKind, Ms, now};
use crate::proof::load::only;
use crate::proof::shim::Shim;
use crate::proof::stage::{Report, Setting};

const HOUR: Ms = 3_600_000;
/// Waiters look again within 1 s; what a busy machine adds.
const SOON: Duration = Duration::from_millis(2_000);

/// What a scenario stands on whose Redis has a clock of its own.
struct Clocked {
    redis: Redis,
    shim: Shim,
    client: Client,
    run: Run,
    _dueq: Dueq,
}

impl Clocked {
    async fn start(name: &'static str, setting: &Setting) -> Clocked {
        let shim = Shim::new();
        let redis = shim.redis(redis(setting)).start().await;
        let dueq = Dueq::on(&redis).bug(setting.bug).start().await;
        let client = dueq.client();
        let mut run = Run::begin(name, setting, &only(client.clone()));
        run.load.inspect(&redis.url());
        Clocked { redis, shim, client, run, _dueq: dueq }
    }

    /// Sets the clock of Redis by so much.
    async fn step(&mut self, by: Ms) {
        let from = now();
        let before = self.redis.time_ms().await;
        self.shim.set_clock(self.shim.clock() + by);
        let stepped = self.redis.time_ms().await - before;
        self.run.fault(FaultKind::ClockStepped(by), from);
        let off = (stepped - by).abs();
        self.run.bit(off < 5_000, || format!("Redis's clock went by {stepped} ms, not {by}"));
    }

    /// A long poll of one message, and when it was answered.
    fn poll(&self, topic: &str) -> JoinHandle<(Vec<Value>, Instant)> {
        let (client, topic) = (self.client.clone(), topic.to_owned());
        tokio::spawn(async move {
            let held = client.leased(&topic, json!({"wait_ms": 10_000})).await;
            (held, Instant::now())
        })
    }

    /// Demands that a long poll gets this message soon after `since`.
    async fn soon(&mut self, poll: JoinHandle<(Vec<Value>, Instant)>, id: &str, since: Instant) {
        let (held, at) = poll.await.unwrap();
        let took = at.saturating_duration_since(since);
        let got: Vec<&str> = held.iter().map(|message| text(message, "id")).collect();
        self.run.demand(got == [id] && took < SOON, "I12 liveness", || {
            format!("a waiter got {got:?} {took:?} after Redis's clock was set, not {id}")
        });
        for message in &held {
            self.client.ack_leased(message).await.expect(204);
        }
    }
}

/// Redis's clock is set an hour forward: what was due within it is due, leases that end within it
/// have ended with their tokens, what lives no longer is gone.
pub async fn clock_forward(setting: Setting) -> Report {
    let mut here = Clocked::start("clock_forward", &setting).await;
    let client = here.client.clone();
    for round in 0..setting.rounds {
        here.run.pace(round, 700).await;
        let [delayed, leased, brief] = ["delayed", "leased", "brief"].map(topic);
        let id = client.published(&delayed, json!({"payload": 1, "delay_ms": HOUR / 2})).await;
        client.published(&leased, json!({"payload": 1})).await;
        let held = client.lease_one_with(&leased, json!({"lease_ms": HOUR / 2})).await;
        let short = json!({"payload": 1, "ttl_ms": HOUR / 2});
        let short = client.published(&brief, short).await;
        let waits = here.poll(&delayed);
        sleep(Duration::from_millis(200)).await;
        let (early, since) = (waits.is_finished(), Instant::now());
        here.run.demand(!early, "I3 never early", || format!("{id} was granted before the step"));
        here.step(HOUR).await;
        here.soon(waits, &id, since).await;
        client.ack_leased(&held).await.problem(409, "lease_lost");
        let again = client.lease_one(&leased).await;
        here.run.demand(again["attempt"] == 2, "I5 fencing", || format!("after {held}: {again}"));
        client.ack_leased(&held).await.problem(409, "lease_lost");
        client.ack_leased(&again).await.expect(204);
        let none = client.leased(&brief, json!({})).await;
        here.run.demand(none.is_empty(), "the contract", || format!("{short} outlived its ttl"));
        sleep(Duration::from_millis(700)).await;
    }
    here.run.report(&here.redis.url()).await
}

/// Redis's clock is an hour ahead for some seconds, and then right again: schedules tick before, meanwhile and after, with one
/// message a tick (I14).
pub async fn clock_of_schedules(setting: Setting) -> Report {
    let mut here = Clocked::start("clock_of_schedules", &setting).await;
    let client = here.client.clone();
    let kinds = [json!({"every_ms": 1_000}), json!({"cron": "* * * * * *"})];
    let names = ["even", "cron"].map(topic);
    for (name, kind) in names.iter().zip(kinds) {
        let mut schedule = kind;
        schedule["topic"] = json!(name);
        schedule["message"] = json!({"payload": 1});
        let path = format!("/schedules/{name}");
        client.send_json("PUT", &path, &schedule).await.expect(201);
    }
    for round in 0..setting.rounds {
        here.run.pace(round, 1_500).await;
        for by in [HOUR, -HOUR] {
            here.step(by).await;
            sleep(Duration::from_secs(4)).await;
            let mut before = Vec::new();
            for name in &names {
                let next = client.get_path(&format!("/schedules/{name}")).await.expect(200);
                let wait = next.instant("next_at") - here.redis.time_ms().await;
                here.run.demand(wait < 2_000, "I14", || {
                    format!("{name} ticks every second, and next in {wait} ms")
                });
                before.push((Instant::now(), client.total(name, "published").await));
            }
            sleep(Duration::from_millis(2_500)).await;
            for (name, (since, before)) in names.iter().zip(before) {
                let made = client.total(name, "published").await - before;
                let most = since.elapsed().as_secs() as i64 + 2;
                here.run.demand((1..=most).contains(&made), "I14", || {
                    format!("{name} made {made} messages in {:?}", since.elapsed())
                });
            }
        }
    }
    for name in &names {
        client.post(&format!("/schedules/{name}/pause"), &json!({})).await.expect(200);
    }
    // What was stamped while the clock was ahead comes due.
    here.step(HOUR).await;
    here.run.report(&here.redis.url()).await
}

/// Redis's clock is set an hour back, and some time later forward again: what was stamped before the
/// step waits for its time, what comes after the step is as ever. Of what was due only messages with
/// a priority that stand in order already stay grantable: the others are due by their time alone, and
/// none is granted before it.
pub async fn clock_back(setting: Setting) -> Report {
    let mut here = Clocked::start("clock_back", &setting).await;
    let client = here.client.clone();
    for round in 0..setting.rounds {
        here.run.pace(round, 700).await;
        let [delayed, ready, leased, new] = ["delayed", "ready", "leased", "new"].map(topic);
        let (plain, urgent) = (json!({"payload": 1}), json!({"payload": 1, "priority": 1}));
        let waiting = client.published(&ready, plain).await;
        let [_, second] = [
            client.published(&ready, urgent.clone()).await,
            client.published(&ready, urgent).await,
        ];
        let first = client.lease_one(&ready).await;
        client.ack_leased(&first).await.expect(204);
        client.published(&leased, json!({"payload": 1})).await;
        let held = client.lease_one_with(&leased, json!({"lease_ms": 1_000})).await;
        let later = client.published(&delayed, json!({"payload": 1, "delay_ms": 1_000})).await;
        here.step(-HOUR).await;
        let granted = client.leased(&ready, json!({"max_messages": 9})).await;
        let ids: Vec<&str> = granted.iter().map(|message| text(message, "id")).collect();
        here.run.demand(ids == [&*second], "the contract", || {
            format!("{second} was ready: {granted:?}")
        });
        let waits = here.poll(&delayed);
        let since = Instant::now();
        let fresh = json!({"payload": 1, "delay_ms": 200});
        let fresh = client.published(&new, fresh).await;
        let soon = here.poll(&new);
        here.soon(soon, &fresh, since).await;
        sleep(Duration::from_millis(1_500).saturating_sub(since.elapsed())).await;
        let early = waits.is_finished();
        here.run.demand(!early, "the contract", || format!("{later} did not wait for its time"));
        // Its lease lasts for an hour more.
        client.ack_leased(&held).await.expect(204);
        let since = Instant::now();
        here.step(HOUR).await;
        here.soon(waits, &later, since).await;
        // Leased an hour ago.
        client.ack_leased(&granted[0]).await.problem(409, "lease_lost");
        let caught_up = client.leased(&ready, json!({"max_messages": 9})).await;
        let ids: Vec<&str> = caught_up.iter().map(|message| text(message, "id")).collect();
        here.run.demand(ids == [&*second, &*waiting], "I1 no loss", || format!("{caught_up:?}"));
        for message in &caught_up {
            client.ack_leased(message).await.expect(204);
        }
    }
    sleep(Duration::from_millis(300)).await;
    here.run.report(&here.redis.url()).await
}

/// One instance's clock is an hour ahead and another's an hour behind: nothing tells them apart, for
/// only Redis's clock counts.
pub async fn clock_of_an_instance(setting: Setting) -> Report {
    let redis = redis(&setting).start().await;
    let (mut instances, mut shims) = (Vec::new(), Vec::new());
    for ahead in [HOUR, -HOUR] {
        let shim = Shim::new();
        shim.set_clock(ahead);
        let dueq = shim.dueq(Dueq::on(&redis).bug(setting.bug)).start().await;
        instances.push(dueq);
        shims.push(shim);
    }
    let clients: Vec<Client> = instances.iter().map(Dueq::client).collect();
    let mut run = Run::begin("clock_of_an_instance", &setting, &Fleet::new(clients.clone()));
    run.load.inspect(&redis.url());
    for round in 0..setting.rounds {
        run.pace(round, 0).await;
        for (client, shim) in clients.iter().zip(&shims) {
            let off = date(client).await - now() - shim.clock();
            run.bit(off.abs() < 10_000, || format!("its clock is {off} ms beside what was set"));
            sleep(Duration::from_millis(300)).await;
            instants(&mut run, client, &redis).await;
        }
    }
    run.report(&redis.url()).await
}

/// The clock of an instance, which HTTP's own header shows, in ms.
async fn date(client: &Client) -> Ms {
    let answer = client.get_path("/healthz").await.expect(200);
    let date = chrono::DateTime::parse_from_rfc2822(answer.header("date"));
    date.unwrap_or_else(|error| panic!("{error}: {answer}")).timestamp_millis()
}

/// Demands that what an instance answers is Redis's time.
async fn instants(run: &mut Run, client: &Client, redis: &Redis) {
    let topic = topic("instants");
    let begin = redis.time_ms().await;
    let body = json!({"payload": 1, "delay_ms": 100});
    let due = client.publish(&topic, body).await.expect(201).instant("due_at");
    let mid = redis.time_ms().await;
    let held = client.lease_one_with(&topic, json!({"lease_ms": 5_000, "wait_ms": 5_000})).await;
    let granted = instant_ms(text(&held, "lease_expires_at")) - 5_000;
    let end = redis.time_ms().await;
    // `mid` is rounded down, and what is due is rounded up.
    run.demand((begin..=mid + 1).contains(&(due - 100)), "the contract", || {
        format!("published between {begin} and {mid}, due 100 ms later at {due}")
    });
    run.demand((due..=end + 1).contains(&granted), "I3 never early", || {
        format!("due at {due}, granted at {granted}, answered by {end}")
    });
    client.ack_leased(&held).await.expect(204);
}
