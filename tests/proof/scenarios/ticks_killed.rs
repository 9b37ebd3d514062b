//! Instances that are killed in the middle of the ticks of schedules.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::crew::Crew;
use super::findings::{BITE, Findings};
use crate::harness::{Client, Redis, eventually, instant_ms, number, text};
use crate::proof::stage::{Report, Setting};

const SCHEDULES: usize = 30;
/// From one tick to the next, ms; all schedules tick in the same instant.
const EVERY: i64 = 1_000;

/// Both instances are killed the moment schedules are seen claimed whose ticks are not finished; others come in their place.
/// Every tick is one message: none is lost, none is doubled (I14).
pub async fn ticks_killed(setting: Setting) -> Report {
    let mut findings = Findings::new("ticks_killed", &setting);
    let mut crew = Crew::start(&setting, 2).await;
    let names: Vec<String> = (0..SCHEDULES).map(|n| format!("ticks-{n}")).collect();
    let mut firsts = Vec::new();
    for name in &names {
        let schedule = json!({"cron": "* * * * * *", "catch_up": "all", "topic": name, "message": {"payload": 1}});
        let path = format!("/schedules/{name}");
        let made = crew.client(0).send_json("PUT", &path, &schedule).await.expect(201).json();
        firsts.push(instant_ms(text(&made, "next_at")));
    }
    let (mut broken_off, mut round) = (0, 0);
    // On a busy machine a kill may come when all ticks are finished: some rounds more, then.
    while round < setting.rounds || (broken_off == 0 && round < setting.rounds + 8) {
        let from = crew.redis.time_ms().await;
        // At the claim in every other round; between the publish and the note of it in the others.
        await_claims(&crew.redis, &names, round % 2 == 1).await;
        crew.instances[0].kill9();
        crew.instances[1].kill9();
        broken_off += claimed(&crew.redis).await.len();
        crew.replace(0).await;
        crew.replace(1).await;
        findings.tally().instance_kills += 2;
        round += 1;
        // All tick again, those of the dead too, whose claims end after a second.
        let client = crew.client(0);
        eventually("every schedule ticks on", || async {
            for name in &names {
                (last_at(&client, name).await? > from + EVERY).then_some(())?;
            }
            Some(())
        })
        .await;
    }
    findings.tell(format!("{broken_off} ticks were broken off by a kill"));
    findings.demand(broken_off > 0, BITE, || "no tick was under way at a kill".into());
    let client = crew.client(0);
    for name in &names {
        client.post(&format!("/schedules/{name}/pause"), &json!({})).await.expect(200);
    }
    for (name, first) in names.iter().zip(firsts) {
        // What was under way when it was paused is still noted.
        let end = Instant::now() + Duration::from_secs(5);
        let (mut ticks, mut made) = counted(&client, name, first).await;
        while made != ticks && Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(50)).await;
            (ticks, made) = counted(&client, name, first).await;
        }
        findings.tally().published += made as u64;
        findings.tally().lost += (ticks - made).max(0) as u64;
        findings.tally().duplicated += (made - ticks).max(0) as u64;
        findings
            .demand(made == ticks, "I14", || format!("{name}: {made} messages of {ticks} ticks"));
        findings.demand(ticks > setting.rounds as i64, BITE, || format!("{name}: {ticks} ticks"));
        findings.audit(&crew.redis, &client, name).await;
    }
    findings.report()
}

/// The ticks from the first to the last that was made, and the messages that are there.
async fn counted(client: &Client, name: &str, first: i64) -> (i64, i64) {
    let last = last_at(client, name).await.expect("a last tick");
    let topic = client.topic(name).await.expect(200).json();
    ((last - first) / EVERY + 1, number(&topic["totals"], "published"))
}

/// Waits until schedules are claimed whose ticks are not finished; `published`: and messages of such ticks are there.
async fn await_claims(redis: &Redis, names: &[String], published: bool) {
    let mut connection = redis.connection().await;
    let mut look = deadpool_redis::redis::cmd("EVAL");
    look.arg(LOOK).arg(1 + names.len()).arg("dueq:{schedules}:states");
    look.arg(names.iter().map(|name| format!("dueq:{{{name}:0}}:meta")).collect::<Vec<_>>());
    let (end, mut before) = (Instant::now() + Duration::from_secs(8), i64::MAX);
    loop {
        let (states, made): (Vec<String>, i64) =
            look.query_async(&mut connection).await.expect("the states and totals");
        let under_way = states.iter().any(|state| is_claimed(state));
        if under_way && (!published || made > before || Instant::now() > end) {
            return;
        }
        if !under_way {
            before = made;
        }
        tokio::task::yield_now().await;
    }
}

/// The states of all schedules, and how many messages they have made.
const LOOK: &str = "
    local made = 0
    for i = 2, #KEYS do made = made + (redis.call('HGET', KEYS[i], 'published') or 0) end
    return { redis.call('HVALS', KEYS[1]), made }";

/// The schedules with ticks that are not finished.
async fn claimed(redis: &Redis) -> Vec<String> {
    let states: Vec<(String, String)> =
        redis.command(&["HGETALL", "dueq:{schedules}:states"]).await;
    let claimed = states.into_iter().filter(|(_, state)| is_claimed(state));
    claimed.map(|(name, _)| name).collect()
}

/// A state is `revision paused next claimed_at …` (`migrations-lua/README.md`).
fn is_claimed(state: &str) -> bool {
    state.split(' ').nth(3).is_some_and(|claimed_at| claimed_at != "0")
}

async fn last_at(client: &Client, name: &str) -> Option<i64> {
    let seen: Value = client.get_path(&format!("/schedules/{name}")).await.expect(200).json();
    seen["last_at"].as_str().map(instant_ms)
}
