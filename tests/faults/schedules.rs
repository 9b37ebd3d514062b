//! Schedules after a time in which nobody was there: what `catch_up` says.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::harness::{Client, Dueq, Redis, eventually, instant_ms, number, temp_dir, text};

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
    let states = "dueq:{schedules}:states";
    let state: String = redis.command(&["HGET", states, "ticks"]).await;
    let mut words: Vec<String> = state.splitn(7, ' ').map(str::to_owned).collect();
    let now = redis.time_ms().await / 1_000 * 1_000;
    words[2] = (now - 2 * TICKS * 1_000).to_string();
    redis.command::<i64>(&["HSET", states, "ticks", &words.join(" ")]).await;
    redis.command::<i64>(&["ZADD", "dueq:{schedules}:due", "1", "ticks"]).await;
    let client = dueq.client();
    eventually("some ticks", || async { (published(&client, "ticks").await >= 64).then_some(()) })
        .await;
    dueq.kill9();
    // Longer than ticks are found by their repetition once they are noted.
    age(&redis, "ticks", 3_600_000).await;
    let dueq = Dueq::on(&redis).start().await;
    let client = dueq.client();
    eventually("it ticks on", || async { get(&client, "ticks").await.get("last_at").map(|_| ()) })
        .await;
    client.post("/schedules/ticks/pause", &json!({})).await.expect(200);
    let last = instant_ms(text(&get(&client, "ticks").await, "last_at"));
    let made = published(&client, "ticks").await;
    // Ticks up to the claim, and those after it.
    let after = (last - now) / 1_000;
    assert!((made - TICKS).abs() <= after + 2, "{made} messages of {TICKS} ticks and {after} more");
}
