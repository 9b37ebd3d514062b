//! Hosts that fail: no attempt is made at their messages until a probe is answered, and all come then.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::facts::{a_while, acked, alone, fixed, pushed_with};
use crate::harness::*;

/// What makes a host fail within half a second.
fn soon() -> Value {
    json!({"failing_after": 3, "failing_over_ms": 400, "max_in_flight_per_host": 4})
}

fn host(receiver: &Receiver) -> String {
    receiver.addr().to_string()
}

/// The host once it is listed like this.
async fn becomes(
    client: &Client,
    receiver: &Receiver,
    what: &str,
    so: impl Fn(&Value) -> bool,
) -> Value {
    eventually(what, || async {
        let list = client.get_path("/callbacks/hosts?limit=1000").await.expect(200).json();
        let items = list["items"].as_array().unwrap().clone();
        items.into_iter().find(|item| item["host"] == host(receiver)).filter(|host| so(host))
    })
    .await
}

async fn fill(client: &Client, topic: &str, receiver: &Receiver, all: usize) -> Vec<String> {
    let message = |n| {
        let group = (n % 5 == 0).then(|| format!("{all}-{n}"));
        json!({"payload": n, "priority": n % 3, "group": group, "callback": {"url": receiver.url("/")}})
    };
    let messages: Vec<Value> = (0..all).map(message).collect();
    client.fill(topic, &messages).await
}

/// Commands that a Redis has carried out, in scripts too, without the one that asks.
async fn commands(redis: &Redis) -> i64 {
    let stats: String = redis.command(&["INFO", "commandstats"]).await;
    let calls = stats.lines().filter_map(|line| line.split_once(":calls=")?.1.split(',').next());
    calls.map(|calls| calls.parse::<i64>().unwrap()).sum()
}

#[tokio::test]
async fn messages_for_a_failing_host_wait_without_an_attempt_and_all_come_once_it_answers() {
    let (redis, dueq) = alone(&[]).await;
    let other = Dueq::calling(&redis).start().await;
    let (client, ill, well) = (dueq.client(), Receiver::start().await, Receiver::start().await);
    ill.answer(Reply::status(503));
    let topic = pushed_with(
        &client,
        "failing",
        soon(),
        json!({"partitions": 2, "backoff": fixed(100), "max_attempts": 1000}),
    )
    .await;
    // Its failures do not count, and its messages do not wait.
    let heedless = pushed_with(
        &client,
        "heedless",
        json!({"failing_after": 0}),
        json!({"backoff": fixed(60_000)}),
    )
    .await;
    // Too few of its calls fail for its settings, and too few of others' calls.
    let calm = json!({"backoff": fixed(60_000)});
    let calm = pushed_with(&client, "calm", json!({}), calm).await;
    let first = fill(&client, &topic, &ill, 4).await;
    let fails = becomes(&client, &ill, "it fails", |it| it["failing"] == true).await;
    assert!(number(&fails, "consecutive_failures") >= 3, "{fails}");
    assert_eq!(text(&fails, "last_error"), "answered 503");
    assert!(
        instant_ms(text(&fails, "next_probe_at")) > instant_ms(text(&fails, "failing_since")),
        "{fails}"
    );

    let called = ill.count();
    let start = Instant::now();
    let ids = fill(&client, &topic, &ill, 300).await;
    fill(&client, &topic, &well, 20).await;
    well.wait_for(20).await;
    let all = |it: &Value| number(it, "waiting") >= 300 && it["failing"] == true;
    becomes(&other.client(), &ill, "all wait", all).await;
    for id in ids.iter().step_by(37) {
        let seen = client.get(id).await.expect(200).json();
        if seen["attempts"] == 0 {
            assert_eq!(text(&seen["waiting_for"], "reason"), "host_failing", "{seen}");
            assert_eq!(text(&seen["waiting_for"], "host"), host(&ill), "{seen}");
            assert!(instant_ms(text(&seen["waiting_for"], "until")) > 0, "{seen}");
            assert!(instant_ms(text(&seen, "due_at")) < redis.time_ms().await, "{seen}");
        }
    }
    let listed = client.listed(&topic, "state=delayed").await;
    let reasons = listed.iter().filter(|it| it["waiting_for"]["reason"] == "host_failing");
    assert!(reasons.count() > 20, "{listed:?}");
    for (topic, path) in [(&heedless, "/heedless"), (&calm, "/calm"), (&calm, "/calm-too")] {
        let message = json!({"payload": 1, "callback": {"url": ill.url(path)}});
        client.published(topic, message).await;
        ill.wait_until(path, |calls| calls.iter().any(|it| it.path == path).then_some(())).await;
    }
    eventually("the metric", || async {
        let metrics = client.get_path("/metrics").await.expect(200);
        let text = String::from_utf8_lossy(&metrics.body).into_owned();
        text.contains("\ndueq_callback_hosts_failing 1\n").then_some(())
    })
    .await;
    // One probe after 400 ms, then after 800, 1600, …
    let probes = ill.count() - called - 3;
    let most = 2 + (start.elapsed().as_secs_f64() / 0.4).log2().max(0.0) as usize;
    assert!(probes <= most, "{probes} probes in {:?}", start.elapsed());

    let mut left = 0;
    while left < 300 {
        a_while(20).await;
        let waits = becomes(&client, &ill, "it fails on", |it| it["failing"] == true).await;
        left = instant_ms(text(&waits, "next_probe_at")) - redis.time_ms().await;
    }
    let (answered, before) = (Instant::now(), ill.count());
    ill.answer(Reply::status(204));
    ill.wait_for(before + 1).await;
    assert!(answered.elapsed() < Duration::from_millis(left as u64 + 2_000));
    acked(&client, &topic, 324).await;
    let seen =
        becomes(&client, &ill, "it is well", |it| it["failing"] == false && it["waiting"] == 0)
            .await;
    assert!(seen.get("failing_since").is_none() && seen.get("next_probe_at").is_none(), "{seen}");
    let taken = ill.calls().split_off(before);
    for id in first.iter().chain(&ids) {
        assert_eq!(taken.iter().filter(|it| it.id() == *id).count(), 1, "{id}");
    }
}

#[tokio::test]
async fn messages_whose_host_is_forgotten_come_back_within_seconds() {
    let (redis, dueq) = alone(&[]).await;
    let (client, ill) = (dueq.client(), Receiver::start().await);
    ill.answer(Reply::status(503));
    let patient = json!({"backoff": fixed(100), "max_attempts": 1000});
    let topic = pushed_with(&client, "forgotten", soon(), patient).await;
    // Too short a time of its own shows nothing of its host.
    let slow = Receiver::start().await;
    slow.answer(Reply::status(204).after(Duration::from_secs(2)));
    let hasty = json!({"payload": 1, "callback": {"url": slow.url("/"), "timeout_ms": 100}});
    client.fill(&topic, &vec![hasty; 4]).await;
    fill(&client, &topic, &ill, 100).await;
    becomes(&client, &ill, "all wait", |it| number(it, "waiting") >= 96).await;
    slow.wait_for(12).await;
    let seen = becomes(&client, &slow, "it is called", |_| true).await;
    assert_eq!(seen["failing"], false, "{seen}");
    slow.answer(Reply::status(204));
    let gone: i64 = redis.command(&["DEL", "dueq:{callbacks}:failing"]).await;
    assert_eq!(gone, 1);
    ill.answer(Reply::status(204));
    acked(&client, &topic, 104).await;
}

#[tokio::test]
async fn a_failing_host_survives_every_instance_costs_little_and_is_resumed_by_hand() {
    let (redis, mut dueq) = alone(&[]).await;
    let ill = Receiver::start().await;
    ill.answer(Reply::status(500));
    let client = dueq.client();
    let settings =
        json!({"failing_after": 3, "failing_over_ms": 2_000, "max_in_flight_per_host": 4});
    let topic = pushed_with(
        &client,
        "down",
        settings,
        json!({"backoff": fixed(200), "max_attempts": 1000}),
    )
    .await;
    fill(&client, &topic, &ill, 8).await;
    becomes(&client, &ill, "it fails", |it| it["failing"] == true).await;
    fill(&client, &topic, &ill, 1_000).await;
    becomes(&client, &ill, "all wait", |it| number(it, "waiting") >= 1_000).await;
    dueq.kill9();
    let next = Dueq::calling(&redis).start().await;
    let client = next.client();
    let waits = becomes(&client, &ill, "all wait on", |it| number(it, "waiting") >= 1_000).await;
    assert_eq!(waits["failing"], true);
    a_while(500).await;
    let (called, before, start) = (ill.count(), commands(&redis).await, Instant::now());
    a_while(4_000).await;
    let rate = (commands(&redis).await - before) as f64 / start.elapsed().as_secs_f64();
    println!("{rate:.1} commands per second with 1000 messages waiting");
    assert!(rate < 150.0 && ill.count() <= called + 2, "{rate} {called} {}", ill.count());

    ill.answer(Reply::status(200));
    let path = format!("/callbacks/hosts/{}/resume", encoded(&host(&ill)));
    let resumed = client.post(&path, &json!({})).await.expect(200).json();
    assert_eq!(resumed["failing"], false);
    acked(&client, &topic, 1_008).await;
}

#[tokio::test]
async fn another_url_or_no_push_frees_what_waits_for_a_failing_host() {
    let (_redis, dueq) = alone(&[]).await;
    let (client, ill, well) = (dueq.client(), Receiver::start().await, Receiver::start().await);
    let mut push = soon();
    push["url"] = json!(format!("http://127.0.0.1:{}/", free_port()));
    let topic = pushed_with(
        &client,
        "moved",
        push.clone(),
        json!({"backoff": fixed(100), "max_attempts": 1000}),
    )
    .await;
    client.fill(&topic, &vec![json!({"payload": 1}); 50]).await;
    eventually("it fails", || async {
        let list = client.get_path("/callbacks/hosts").await.expect(200).json();
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .any(|it| it["failing"] == true && number(it, "waiting") > 30)
            .then_some(())
    })
    .await;
    push["url"] = json!(well.url("/"));
    client.update_topic(&topic, json!({"push": push})).await.expect(200);
    acked(&client, &topic, 50).await;
    assert_eq!((well.count(), ill.count()), (50, 0));
}

#[tokio::test]
async fn each_message_is_called_once_while_its_host_is_paused_and_resumed_all_the_time() {
    let (_redis, dueq) = alone(&[]).await;
    let (client, receiver) = (dueq.client(), Receiver::start().await);
    let topic = pushed_with(&client, "flapping", json!({}), json!({"partitions": 2})).await;
    let path = |verb: &str| format!("/callbacks/hosts/{}/{verb}", encoded(&host(&receiver)));
    client.post(&path("pause"), &json!({})).await.expect(200);
    fill(&client, &topic, &receiver, 1_000).await;
    becomes(&client, &receiver, "all wait", |it| it["waiting"] == 1_000).await;
    let mut tick = tokio::time::interval(Duration::from_millis(5));
    for turn in 0..400 {
        tick.tick().await;
        let verb = if turn % 2 == 0 { "resume" } else { "pause" };
        client.post(&path(verb), &json!({})).await.expect(200);
    }
    client.post(&path("resume"), &json!({})).await.expect(200);
    acked(&client, &topic, 1_000).await;
    assert_eq!(receiver.count(), 1_000, "each once");
    assert!(receiver.calls().iter().all(|call| call.attempt() == 1));
}
