//! The hosts of callbacks: how calls to each go, over all instances, and the brake for one of them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::facts::{a_while, acked, alone, fixed, gone, pushed_with, schedule, scheduled};
use crate::harness::*;

const REPORTED: &str = "dueq:{callbacks}:reported";

/// A receiver as hosts are named.
fn host(receiver: &Receiver) -> String {
    receiver.addr().to_string()
}

async fn change(client: &Client, verb: &str, receiver: &Receiver) -> Value {
    let path = format!("/callbacks/hosts/{}/{verb}", encoded(&host(receiver)));
    client.post(&path, &json!({})).await.expect(200).json()
}

/// The host as an instance lists it.
async fn listed(client: &Client, receiver: &Receiver) -> Option<Value> {
    let list = client.get_path("/callbacks/hosts?limit=1000").await.expect(200).json();
    let items = list["items"].as_array().unwrap().clone();
    items.into_iter().find(|item| item["host"] == host(receiver))
}

/// The host once an instance lists it like this.
async fn becomes(
    client: &Client,
    receiver: &Receiver,
    what: &str,
    so: impl Fn(&Value) -> bool,
) -> Value {
    eventually(what, || async { listed(client, receiver).await.filter(|host| so(host)) }).await
}

/// Messages for these receivers in a topic, by turns.
async fn fill(client: &Client, topic: &str, n: usize, receivers: &[&Receiver]) -> Vec<String> {
    let messages: Vec<Value> = (0..n)
        .flat_map(|n| receivers.iter().map(move |to| (n, to)))
        .map(|(n, to)| json!({"payload": n, "max_attempts": 1, "callback": {"url": to.url("/")}}))
        .collect();
    client.fill(topic, &messages).await
}

#[tokio::test]
async fn messages_for_a_paused_host_wait_without_an_attempt_and_others_pass() {
    let (_redis, dueq) = alone(&[]).await;
    let (client, ill, well) = (dueq.client(), Receiver::start().await, Receiver::start().await);
    let topic = pushed_with(&client, "brake", json!({}), json!({"partitions": 4})).await;
    let paused = change(&client, "pause", &ill).await;
    assert!(paused["paused"] == true && paused["paused_at"].is_string(), "{paused}");
    let ids = fill(&client, &topic, 60, &[&ill, &well]).await;
    well.wait_for(60).await;
    let waiting = becomes(&client, &ill, "60 wait", |it| it["waiting"] == 60).await;
    assert_eq!((&waiting["paused"], &waiting["in_flight"]), (&json!(true), &json!(0)));
    assert_eq!(client.count(&topic, "delayed").await, 60);
    for id in ids.iter().step_by(2).take(10) {
        let message = client.get(id).await.expect(200).json();
        let seen = ["state", "attempts", "attempts_left", "last_error"].map(|name| &message[name]);
        assert_eq!(seen, [&json!("delayed"), &json!(0), &json!(1), &Value::Null], "{message}");
        let kinds: Vec<_> =
            message["events"].as_array().unwrap().iter().map(|it| &it["kind"]).collect();
        assert_eq!(kinds, ["published"], "{message}");
    }
    let listed = client.listed(&topic, "state=delayed").await;
    assert!(listed.iter().all(|item| item["attempts"] == 0), "{listed:?}");
    assert_eq!(ill.count(), 0);

    let resumed = change(&client, "resume", &ill).await;
    assert!(resumed["paused"] == false && resumed.get("paused_at").is_none(), "{resumed}");
    let start = Instant::now();
    ill.wait_for(60).await;
    // Messages are parked for 15 s and more.
    assert!(start.elapsed() < Duration::from_secs(6), "{:?}", start.elapsed());
    acked(&client, &topic, 120).await;
    assert_eq!((ill.count(), well.count()), (60, 60), "each once");
    assert!(ill.calls().iter().chain(&well.calls()).all(|call| call.attempt() == 1));
    assert_eq!(client.total(&topic, "dead").await, 0);
    becomes(&client, &ill, "none wait", |it| it["waiting"] == 0 && it["in_flight"] == 0).await;
}

#[tokio::test]
async fn a_pause_holds_on_all_instances_and_a_call_under_way_ends() {
    let (redis, one) = alone(&[]).await;
    let other = Dueq::calling(&redis).start().await;
    let third = Dueq::calling(&redis).args(["--no-dispatch"]).start().await;
    let (client, ill) = (third.client(), Receiver::start().await);
    ill.answer(Reply::status(200).after(Duration::from_millis(300)));
    let topic = pushed_with(&client, "shared", json!({}), json!({})).await;
    fill(&client, &topic, 100, &[&ill]).await;
    // Both instances have eight places for it.
    eventually("both call", || async { (ill.under_way() > 8).then_some(()) }).await;
    change(&client, "pause", &ill).await;
    a_while(1_000).await;
    let called = ill.count();
    a_while(1_500).await;
    assert_eq!((ill.count(), ill.under_way()), (called, 0), "calls that began after the pause");
    let before = client.total(&topic, "acked").await;
    assert_eq!(before, called as i64, "those under way ended well");
    for dueq in [&one, &other, &third] {
        let left = 100 - before;
        let all = |it: &Value| it["waiting"] == left && it["paused"] == true;
        becomes(&dueq.client(), &ill, "the rest waits", all).await;
    }

    change(&one.client(), "resume", &ill).await;
    let start = Instant::now();
    ill.wait_for(100).await;
    assert!(start.elapsed() < Duration::from_secs(12), "{:?}", start.elapsed());
    acked(&client, &topic, 100).await;
    assert_eq!((ill.count(), client.total(&topic, "dead").await), (100, 0));
}

#[tokio::test]
async fn a_pause_survives_every_instance_and_is_known_before_the_first_call() {
    let (redis, mut dueq) = alone(&[]).await;
    let ill = Receiver::start().await;
    change(&dueq.client(), "pause", &ill).await;
    let id = scheduled(&dueq.client(), &ill.url("/"), json!({"payload": 1})).await;
    assert_eq!(dueq.term().await, 0, "{}", dueq.log());
    for _ in 0..2 {
        let mut next = Dueq::calling(&redis).start().await;
        becomes(&next.client(), &ill, "it waits", |it| it["waiting"] == 1).await;
        next.kill9();
    }
    let last = Dueq::calling(&redis).start().await;
    let client = last.client();
    assert_eq!(listed(&client, &ill).await.unwrap()["paused"], true);
    assert_eq!(ill.count(), 0);
    change(&client, "resume", &ill).await;
    // Nobody alive may know that it waits; then it comes back by itself.
    ill.wait_for(1).await;
    gone(&client, &id).await;
    assert_eq!(ill.count(), 1);
}

#[tokio::test]
async fn figures_are_those_of_all_instances_until_one_dies() {
    let (redis, one) = alone(&[]).await;
    let mut other = Dueq::calling(&redis).start().await;
    let (receiver, client) = (Receiver::start().await, one.client());
    receiver.answer_at("/slow", Reply::status(200).after(Duration::from_millis(400)));
    receiver.answer_at("/bad", Reply::status(503));
    receiver.answer_at("/gone", Reply::status(410));
    for (path, n) in [("/slow", 12), ("/gone", 3), ("/bad", 4)] {
        for _ in 0..n {
            let more = json!({"backoff": fixed(600_000)});
            schedule(&client, &receiver.url(path), more).await.expect(201);
        }
        receiver
            .wait_until(path, |calls| {
                (calls.iter().filter(|call| call.path == path).count() == n).then_some(())
            })
            .await;
        a_while(500).await;
    }
    let outcomes = json!({"delivered": 12, "failed": 4, "dead": 3});
    let all = |it: &Value| {
        let counted = it["outcomes"] == outcomes && it["outcomes_hour"] == outcomes;
        counted && it["in_flight"] == 0
    };
    let seen = becomes(&client, &receiver, "all calls", all).await;
    assert_eq!(becomes(&other.client(), &receiver, "all calls", all).await, seen);
    assert_eq!(
        (text(&seen, "last_error"), number(&seen, "consecutive_failures")),
        ("answered 503", 7)
    );
    let slowest = number(&seen, "p99_ms");
    assert!((400..=1_000).contains(&slowest) && number(&seen, "p50_ms") <= slowest, "{seen}");
    let (failed, delivered) = (text(&seen, "last_error_at"), text(&seen, "last_success_at"));
    assert!(instant_ms(failed) > instant_ms(delivered), "{seen}");

    // A success through any instance ends the row of failures.
    let id = scheduled(&client, &receiver.url("/"), json!({})).await;
    gone(&client, &id).await;
    becomes(&client, &receiver, "no failures", |it| it["consecutive_failures"] == 0).await;

    other.kill9();
    // As if 13 s had passed.
    let names: Vec<String> = redis.command(&["ZRANGE", REPORTED, "0", "-1"]).await;
    assert_eq!(names.len(), 2);
    let at = (redis.time_ms().await - 13_000).to_string();
    for name in &names {
        let _: i64 = redis.command(&["ZADD", REPORTED, "XX", &at, name]).await;
    }
    eventually("only one reports", || async {
        let left: i64 = redis.command(&["ZCARD", REPORTED]).await;
        (left == 1).then_some(())
    })
    .await;
    let own = listed(&client, &receiver).await.unwrap();
    let of = |it: &Value| number(&it["outcomes_hour"], "delivered");
    assert!(of(&own) < 13 && of(&own) > 0, "{own}");
}

#[tokio::test]
async fn an_instance_that_stops_leaves_no_report_and_a_paused_host_is_no_failure() {
    let (redis, mut dueq) = alone(&[]).await;
    let (client, receiver) = (dueq.client(), Receiver::start().await);
    let id = scheduled(&client, &receiver.url("/"), json!({})).await;
    gone(&client, &id).await;
    eventually("a report", || async {
        let there: i64 = redis.command(&["ZCARD", REPORTED]).await;
        (there == 1).then_some(())
    })
    .await;
    change(&client, "pause", &receiver).await;
    scheduled(&client, &receiver.url("/"), json!({})).await;
    becomes(&client, &receiver, "it waits", |it| it["waiting"] == 1).await;
    eventually("the metric", || async {
        let metrics = client.get_path("/metrics").await.expect(200);
        let text = String::from_utf8_lossy(&metrics.body).into_owned();
        let failed = format!(
            "dueq_callback_host_calls_total{{host=\"{}\",outcome=\"failed\"}} 0",
            host(&receiver)
        );
        (text.contains("\ndueq_callback_hosts_paused 1\n") && text.contains(&failed)).then_some(())
    })
    .await;
    assert_eq!(dueq.term().await, 0);
    let left: i64 = redis.command(&["EXISTS", REPORTED, "dueq:{callbacks}:reports"]).await;
    assert_eq!(left, 0);
}

#[tokio::test]
async fn a_host_is_paused_and_resumed_at_maxmemory() {
    let (redis, dueq) = alone(&[]).await;
    let (client, receiver) = (dueq.client(), Receiver::start().await);
    change(&client, "pause", &receiver).await;
    let id = scheduled(&client, &receiver.url("/"), json!({})).await;
    becomes(&client, &receiver, "it waits", |it| it["waiting"] == 1).await;
    let _: String = redis.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let elsewhere = Receiver::start().await;
    change(&client, "pause", &elsewhere).await;
    change(&client, "resume", &receiver).await;
    gone(&client, &id).await;
    assert_eq!(receiver.count(), 1);
}
