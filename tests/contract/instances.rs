//! listInstances: every instance is on the list as long as it runs, and nothing else for long.

use serde_json::{Value, json};

use crate::harness::*;

const ALIVE: &str = "dueq:{service}:alive";

async fn instances(client: &Client) -> Vec<Value> {
    let answer = client.get_path("/instances").await.expect(200).json();
    answer["items"].as_array().cloned().unwrap()
}

/// The list once it has so many items.
async fn becomes(client: &Client, many: usize) -> Vec<Value> {
    eventually(&format!("{many} instances"), || async {
        let listed = instances(client).await;
        (listed.len() == many).then_some(listed)
    })
    .await
}

#[tokio::test]
async fn an_instance_is_listed_by_all_from_its_start_until_it_stops() {
    let redis = Redis::start().await;
    let first = Dueq::on(&redis).start().await;
    let alone = becomes(&first.client(), 1).await;
    let mut second = Dueq::on(&redis).start().await;
    let both = becomes(&first.client(), 2).await;
    assert_eq!(text(&both[0], "id"), text(&alone[0], "id"), "the older one comes first");
    assert_eq!(both, instances(&second.client()).await);
    let now = redis.time_up_ms().await;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let pids = both.iter().map(|it| number(it, "pid")).collect::<Vec<_>>();
    assert_eq!(pids, [i64::from(first.pid()), i64::from(second.pid())]);
    for instance in &both {
        assert_eq!(text(instance, "host"), host.trim());
        assert_eq!(text(instance, "version"), env!("CARGO_PKG_VERSION"));
        let (started, seen) = ("started_at", "seen_at");
        let [started, seen] = [started, seen].map(|name| instance_ms(instance, name));
        assert!((now - 30_000..=seen).contains(&started) && seen <= now, "{instance}");
        let [lanes, waiters, memory, ahead] =
            ["lanes", "waiters", "memory_bytes", "clock_offset_ms"].map(|it| number(instance, it));
        assert!(lanes == 2 && waiters == 0 && memory > 1_000_000, "{instance}");
        assert!(ahead.abs() < 1_000, "of one machine: {instance}");
    }
    assert_eq!(second.term().await, 0);
    assert_eq!(instances(&first.client()).await.len(), 1, "it has taken itself off");
}

#[tokio::test]
async fn an_instance_says_how_many_wait_and_stays_one_on_the_list() {
    let (_redis, _dueq, client) = alone().await;
    becomes(&client, 1).await;
    let waits = client.clone();
    let wait = tokio::spawn(async move {
        waits.post("/topics/waited/lease", &json!({"wait_ms": 20_000})).await
    });
    eventually("the one that waits is told", || async {
        let listed = instances(&client).await;
        assert_eq!(listed.len(), 1, "{listed:?}");
        (number(&listed[0], "waiters") == 1).then_some(())
    })
    .await;
    wait.abort();
}

fn instance_ms(instance: &Value, name: &str) -> i64 {
    instant_ms(text(instance, name))
}

#[tokio::test]
async fn an_instance_that_was_killed_is_forgotten_after_a_minute() {
    mostly_waits();
    let redis = Redis::start().await;
    let (first, mut second) = (Dueq::on(&redis).start().await, Dueq::on(&redis).start().await);
    let client = first.client();
    becomes(&client, 2).await;
    second.kill9();
    assert_eq!(instances(&client).await.len(), 2);
    let members: Vec<String> = redis.command(&["ZRANGE", ALIVE, "0", "-1"]).await;
    let killed = &text(&instances(&client).await[1], "id").to_owned();
    let killed = members.iter().find(|member| member.starts_with(killed)).unwrap();
    // As if 58 s had passed.
    let seen = (redis.time_ms().await - 58_000).to_string();
    let _: i64 = redis.command(&["ZADD", ALIVE, &seen, killed]).await;
    assert_eq!(instances(&client).await.len(), 2);
    becomes(&client, 1).await;
    eventually("it is gone from Redis too", || async {
        let left: i64 = redis.command(&["ZCARD", ALIVE]).await;
        (left == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_list_is_bounded_and_bears_what_a_hand_in_redis_wrote() {
    let (redis, _dueq, client) = alone().await;
    let own = becomes(&client, 1).await;
    let now = redis.time_ms().await;
    let mut add = vec!["ZADD".to_owned(), ALIVE.to_owned()];
    for n in 0..1500 {
        add.extend([(now - 50_000).to_string(), format!("{n:016x} {now} 0.0.1")]);
    }
    // What cannot be read, and what was written by another clock.
    add.extend([now.to_string(), "nonsense".to_owned()]);
    add.extend([(now + 86_400_000).to_string(), format!("f {now} 0.0.1")]);
    let words: Vec<&str> = add.iter().map(String::as_str).collect();
    let _: i64 = redis.command(&words).await;
    assert!(instances(&client).await.len() <= 1000);
    let left = eventually("the set is bounded", || async {
        let left: i64 = redis.command(&["ZCARD", ALIVE]).await;
        (left <= 1000).then_some(left)
    })
    .await;
    assert!(left > 1, "the newest stay");
    let listed = instances(&client).await;
    assert!(listed.iter().any(|one| one["id"] == own[0]["id"]));
    assert!(listed.iter().all(|one| one["id"] != "f"), "it is of no clock");
    let says = |one: &&Value| one.get("lanes").is_some() || one.get("clock_offset_ms").is_some();
    assert_eq!(listed.iter().filter(says).count(), 1, "older ones do not say what they are at");
    assert!(instances(&client).await.len() <= 1000);
}

#[tokio::test]
async fn without_redis_the_list_is_503_and_an_instance_comes_back_with_it() {
    let (mut redis, _dueq, client) = alone().await;
    becomes(&client, 1).await;
    redis.kill9();
    eventually("redis_unavailable", || async {
        let answer = client.get_path("/instances").await.refused(503);
        (answer.text("code") == "redis_unavailable").then_some(())
    })
    .await;
    // It keeps nothing.
    redis.restart().await;
    works_again(&client).await;
    becomes(&client, 1).await;
}
