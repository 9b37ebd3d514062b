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
