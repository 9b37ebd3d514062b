//! Redis goes away and comes back: the calls go on by themselves.

use std::time::Duration;

use serde_json::json;

use crate::facts::{a_while, fixed, gone, pushed_with, scheduled};
use crate::harness::*;

#[tokio::test]
async fn after_its_connections_were_cut_calls_go_on() {
    let redis = Redis::start().await;
    let dueq = Dueq::calling(&redis).start().await;
    let (client, receiver) = (dueq.client(), Receiver::start().await);
    let first = scheduled(&client, &receiver.url("/0"), json!({})).await;
    gone(&client, &first).await;
    scheduled(&client, &receiver.url("/later"), json!({"delay_ms": 1500})).await;
    for kind in ["normal", "pubsub"] {
        let _: i64 = redis.command(&["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"]).await;
    }
    receiver.wait_at("/later").await;
    let next = eventually("a publish", || async {
        let url = receiver.url("/next");
        let answer = crate::facts::schedule(&client, &url, json!({})).await;
        (answer.status == 201).then(|| answer.text("id"))
    })
    .await;
    receiver.wait_at("/next").await;
    gone(&client, &next).await;
}

#[tokio::test]
async fn after_a_restart_of_redis_calls_go_on() {
    let mut redis = Redis::options().appendonly().args(["--appendfsync", "always"]).start().await;
    let dueq = Dueq::calling(&redis).start().await;
    let (client, receiver) = (dueq.client(), Receiver::start().await);
    let push = json!({"url": receiver.url("/topic")});
    let topic = pushed_with(&client, "restart", push, json!({"backoff": fixed(200)})).await;
    let id = client.published(&topic, json!({"payload": 1, "delay_ms": 1000})).await;
    let other = scheduled(&client, &receiver.url("/callback"), json!({"delay_ms": 1000})).await;
    redis.kill9();
    a_while(1500).await;
    assert_eq!(receiver.count(), 0);
    redis.restart().await;
    for path in ["/topic", "/callback"] {
        receiver.wait_at(path).await;
    }
    for id in [id, other] {
        gone(&client, &id).await;
    }
    assert_eq!(receiver.count(), 2, "each once");
}

#[tokio::test]
async fn an_ack_that_redis_does_not_take_at_once_is_taken_later() {
    let mut redis = Redis::start().await;
    let dueq = Dueq::calling(&redis).start().await;
    let (client, receiver) = (dueq.client(), Receiver::start().await);
    receiver.answer(Reply::status(200).after(Duration::from_millis(700)));
    let id = scheduled(&client, &receiver.url("/"), json!({})).await;
    receiver.wait_for(1).await;
    redis.pause();
    a_while(3000).await; // the call ends meanwhile
    redis.resume();
    gone(&client, &id).await;
    assert_eq!(receiver.count(), 1);
}

#[tokio::test]
async fn a_flush_of_the_scripts_is_not_noticed() {
    let redis = Redis::start().await;
    let dueq = Dueq::calling(&redis).start().await;
    let (client, receiver) = (dueq.client(), Receiver::start().await);
    for n in 0..5 {
        let more = json!({"payload": n, "backoff": fixed(50)});
        receiver.answer_next("/", [Reply::status(500)]);
        let id = scheduled(&client, &receiver.url("/"), more).await;
        let _: String = redis.command(&["SCRIPT", "FLUSH"]).await;
        gone(&client, &id).await;
    }
    assert_eq!(receiver.count(), 10);
}
