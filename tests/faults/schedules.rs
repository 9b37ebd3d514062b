//! Schedules after a time in which nobody was there: what `catch_up` says.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::harness::{Client, Dueq, Redis, eventually, instant_ms, number, temp_dir, text};
use crate::proof::proxy::{Mode, Proxy};

async fn put(client: &Client, name: &str, mut schedule: Value) -> Value {
    schedule["topic"] = json!(name);
    schedule["message"] = json!({"payload": 1});
    client.send_json("PUT", &format!("/schedules/{name}"), &schedule).await.expect(201).json()
}

async fn get(client: &Client, name: &str) -> Value {
    client.get_path(&format!("/schedules/{name}")).await.expect(200).json()
}

async fn published(client: &Client, topic: &str) -> i64 {
    let answer = client.get_path(&format!("/topics/{topic}")).await;
    if answer.status == 404 { 0 } else { number(&answer.json()["totals"], "published") }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_time_without_anybody_catch_up_says_what_is_made_up_for() {
    // Long enough that the next tick is far away even if a busy machine is slow to start.
    const PERIOD: i64 = 6_000;
    let redis = Redis::options().appendonly().start().await;
    let mut dueq = Dueq::on(&redis).start().await;
    let client = dueq.client();
    for catch_up in ["one", "none", "all"] {
        put(&client, catch_up, json!({"every_ms": PERIOD, "catch_up": catch_up})).await;
    }
    eventually("the first ticks", || async {
        for name in ["one", "none", "all"] {
            get(&client, name).await.get("last_at")?;
        }
        Some(())
    })
    .await;
    let before = get(&client, "one").await;
    let first = instant_ms(text(&before, "last_at"));
    dueq.kill9();
    // Three ticks go by, and the last of them is more than two seconds ago.
    sleep(Duration::from_millis(3 * PERIOD as u64 + 2_300)).await;
    let dueq = Dueq::on(&redis).start().await;
    let client = dueq.client();
    for (name, made_up) in [("one", 1), ("none", 0), ("all", 3)] {
        let after = eventually("it ticks on", || async {
            let seen = get(&client, name).await;
            let next = instant_ms(text(&seen, "next_at"));
            (next >= first + 4 * PERIOD).then_some(seen)
        })
        .await;
        assert_eq!(published(&client, name).await, 1 + made_up, "{name}");
        let last = instant_ms(text(&after, "last_at"));
        let expected = if made_up == 0 { 0 } else { 3 };
        assert!((last - first - expected * PERIOD).abs() < 1_500, "{name}: {after}");
        let missed = after["missed_ticks"].as_array().map_or(0, Vec::len);
        assert_eq!(missed as i64, 3 - made_up, "{name}: {after}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedules_survive_a_restart_of_the_embedded_redis() {
    let data = temp_dir("data");
    let mut dueq = Dueq::embedded(&data).args(["--fsync", "always"]).start().await;
    let made = put(&dueq.client(), "kept", json!({"cron": "* * * * * *"})).await;
    eventually("a tick", || async { get(&dueq.client(), "kept").await.get("last_at").cloned() })
        .await;
    assert_eq!(dueq.term().await, 0);
    let dueq = Dueq::embedded(&data).start().await;
    let client = dueq.client();
    let kept = get(&client, "kept").await;
    for field in ["cron", "timezone", "topic", "message", "catch_up", "created_at"] {
        assert_eq!(kept[field], made[field], "{field}");
    }
    let before = published(&client, "kept").await;
    eventually("it ticks on", || async {
        (published(&client, "kept").await > before + 1).then_some(())
    })
    .await;
}

const STATES: &str = "dueq:{schedules}:states";

/// A schedule's state: `revision paused next claimed_at …` (`migrations-lua/README.md`).
pub async fn state(redis: &Redis, name: &str) -> Vec<String> {
    let state: String = redis.command(&["HGET", STATES, name]).await;
    state.splitn(7, ' ').map(str::to_owned).collect()
}

/// Keeps this state, and when an instance looks at it next.
pub async fn keep(redis: &Redis, name: &str, state: &[String], due: i64) {
    redis.command::<i64>(&["HSET", STATES, name, &state.join(" ")]).await;
    redis.command::<i64>(&["ZADD", "dueq:{schedules}:due", &due.to_string(), name]).await;
}

/// As if nobody had been there since that tick.
async fn ticks_from(redis: &Redis, name: &str, tick: i64) {
    let mut words = state(redis, name).await;
    words[2] = tick.to_string();
    keep(redis, name, &words, tick).await;
}

/// How many ticks are still found by their repetition in a month.
async fn found_for_long(redis: &Redis, topic: &str) -> i64 {
    let month = (redis.time_ms().await + 30 * 86_400_000).to_string();
    redis.command(&["ZCOUNT", &format!("dueq:{{{topic}:0}}:idem_due"), &month, "+inf"]).await
}

/// As if so much time had passed for what a topic knows of idempotency keys.
async fn age(redis: &Redis, topic: &str, ms: i64) {
    const AGE: &str = "
        local all = redis.call('HGETALL', KEYS[1])
        for i = 1, #all, 2 do
            local over, rest = string.match(all[i + 1], '^(%d+)(,.*)$')
            over = string.format('%d', over - ARGV[1])
            redis.call('HSET', KEYS[1], all[i], over .. rest)
            redis.call('ZADD', KEYS[2], over, all[i])
        end
        return #all / 2";
    let (idem, due) = (format!("dueq:{{{topic}:0}}:idem"), format!("dueq:{{{topic}:0}}:idem_due"));
    let aged: i64 = redis.command(&["EVAL", AGE, "2", &idem, &due, &ms.to_string()]).await;
    assert!(aged > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ticks_of_a_claimer_that_died_are_made_once_however_long_nobody_was_there() {
    const TICKS: i64 = 1_000;
    let redis = Redis::start().await;
    let mut dueq = Dueq::on(&redis).start().await;
    let schedule = json!({"cron": "* * * * * *", "topic": "ticks", "catch_up": "all",
        "message": {"payload": "x".repeat(30_000)}});
    dueq.client().send_json("PUT", "/schedules/ticks", &schedule).await.expect(201);
    // Its last ticks are to be made, by one claim, which takes a while.
    let now = redis.time_ms().await / 1_000 * 1_000;
    ticks_from(&redis, "ticks", now - 2 * TICKS * 1_000).await;
    let client = dueq.client();
    eventually("some ticks", || async { (published(&client, "ticks").await >= 64).then_some(()) })
        .await;
    dueq.kill9();
    // Longer than ticks are found by their repetition once they are noted.
    age(&redis, "ticks", 3_600_000).await;
    let dueq = Dueq::on(&redis).start().await;
    let client = dueq.client();
    // Not the instant of the last tick: on a slow machine there was one before those that are to be made.
    eventually("it ticks on", || async {
        (state(&redis, "ticks").await[2].parse::<i64>().unwrap() > now).then_some(())
    })
    .await;
    client.post("/schedules/ticks/pause", &json!({})).await.expect(200);
    let last = instant_ms(text(&get(&client, "ticks").await, "last_at"));
    let made = published(&client, "ticks").await;
    // Ticks up to the claim, and those after it.
    let after = (last - now) / 1_000;
    assert!((made - TICKS).abs() <= after + 2, "{made} messages of {TICKS} ticks and {after} more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ticks_of_a_claimer_that_died_after_noting_them_are_released_by_the_next() {
    const TICKS: i64 = 1_000;
    let redis = Redis::start().await;
    let mut dueq = Dueq::on(&redis).start().await;
    put(&dueq.client(), "noted", json!({"cron": "* * * * *", "catch_up": "all"})).await;
    let now = redis.time_ms().await / 60_000 * 60_000;
    ticks_from(&redis, "noted", now - 2 * TICKS * 60_000).await;
    let mut connection = redis.connection().await;
    let mut look = deadpool_redis::redis::cmd("HGET");
    look.arg(STATES).arg("noted");
    // No pause between two looks: the next calls to Redis release the ticks.
    let noted = async {
        loop {
            let state: String = look.query_async(&mut connection).await.unwrap();
            if state.split(' ').nth(2).unwrap().parse::<i64>().unwrap() > now {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), noted).await.expect("ticks that are noted");
    dueq.kill9();
    let left = found_for_long(&redis, "noted").await;
    let made = state(&redis, "noted").await;
    let dueq = Dueq::on(&redis).start().await;
    let client = dueq.client();
    eventually(&format!("{left} ticks released"), || async {
        (found_for_long(&redis, "noted").await == 0).then_some(())
    })
    .await;
    eventually("the end of the claim", || async {
        (state(&redis, "noted").await[3] == "0").then_some(())
    })
    .await;
    let after = state(&redis, "noted").await;
    let next_at = |words: &[String]| words[2].parse::<i64>().unwrap();
    let passed = (next_at(&after) - next_at(&made)) / 60_000;
    assert_eq!(published(&client, "noted").await, TICKS + passed, "{made:?} {after:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tick_that_was_never_noted_and_comes_too_late_by_now_is_not_kept_for_years() {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    let client = dueq.client();
    put(&client, "late", json!({"every_ms": 3_600_000, "catch_up": "none"})).await;
    // What notes a tick removes first, and a publish does not.
    let _: () = redis.command(&["ACL", "SETUSER", "default", "-zrem"]).await;
    let tick = redis.time_ms().await + 200;
    ticks_from(&redis, "late", tick).await;
    eventually("the tick", || async {
        let made: Option<i64> = redis.command(&["HGET", "dueq:{late:0}:meta", "published"]).await;
        (made == Some(1)).then_some(())
    })
    .await;
    eventually("it is too late for the tick", || async {
        (redis.time_ms().await > tick + 2_100).then_some(())
    })
    .await;
    let _: () = redis.command(&["ACL", "SETUSER", "default", "+zrem"]).await;
    eventually("the end of the claim", || async {
        (state(&redis, "late").await[3] == "0").then_some(())
    })
    .await;
    assert_eq!(published(&client, "late").await, 1);
    assert_eq!(found_for_long(&redis, "late").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_takes_no_claim_back_that_was_made_while_it_was_under_way() {
    const HOUR: i64 = 3_600_000;
    let redis = Redis::start().await;
    let proxy = Proxy::of(&redis).await;
    let dueq = Dueq::at(&proxy.url()).start().await;
    let client = dueq.client();
    let schedule = json!({"every_ms": HOUR});
    put(&client, "claimed", schedule.clone()).await;
    // When it ticks next, and when a client claimed it, who holds that for long.
    let becomes = async |next: i64, claimed_at: i64| {
        let mut words = state(&redis, "claimed").await;
        (words[2], words[3]) = (next.to_string(), claimed_at.to_string());
        keep(&redis, "claimed", &words, next.max(claimed_at) + 60_000).await;
    };
    let again = async || {
        let mut schedule = schedule.clone();
        (schedule["topic"], schedule["message"]) = (json!("claimed"), json!({"payload": 1}));
        client.send_json("PUT", "/schedules/claimed", &schedule).await.expect(200);
    };
    let now = redis.time_ms().await;
    // It is not where the clock would put it, so a put moves it.
    eventually("a put that moves it", || async {
        becomes(now + 3 * HOUR / 2, 0).await;
        again().await;
        (state(&redis, "claimed").await[2] != (now + 3 * HOUR / 2).to_string()).then_some(())
    })
    .await;
    becomes(now + 3 * HOUR / 2, 0).await;
    proxy.set(Mode::Delay(Duration::from_millis(300)));
    let claim = async {
        sleep(Duration::from_millis(400)).await;
        becomes(now - 100, now - 90).await;
        proxy.set(Mode::Pass);
    };
    tokio::join!(again(), claim);
    let words = state(&redis, "claimed").await;
    assert_eq!((&words[2], &words[3]), (&(now - 100).to_string(), &(now - 90).to_string()));
}
