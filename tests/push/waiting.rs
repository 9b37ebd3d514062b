//! `waiting_for` of messages that dueq calls: their host is paused, or their call has no place.

use std::time::Duration;

use serde_json::{Value, json};

use crate::facts::{a_while, alone, fixed, pushed, pushed_with, ready, schedule, with};
use crate::harness::*;

async fn waits_for(client: &Client, id: &str, reason: &str) -> Value {
    let what = format!("{id} waits for {reason}");
    eventually(&what, || async {
        let seen = client.get(id).await.expect(200).json();
        (seen["waiting_for"]["reason"] == reason).then_some(seen)
    })
    .await
}

async fn change(client: &Client, verb: &str, receiver: &Receiver) {
    let path = format!("/callbacks/hosts/{}/{verb}", encoded(&receiver.addr().to_string()));
    client.post(&path, &json!({})).await.expect(200);
}

#[tokio::test]
async fn a_message_for_a_paused_host_names_it_and_keeps_its_due_time() {
    let (redis, dueq) = alone(&[]).await;
    let idle = Dueq::calling(&redis).args(["--no-dispatch"]).start().await;
    let (client, receiver) = (dueq.client(), Receiver::start().await);
    let own = pushed_with(&client, "own", json!({}), json!({"partitions": 4})).await;
    let whole = pushed(&client, "whole", json!({"url": receiver.url("/")})).await;
    client.get_path("/callbacks/hosts").await.expect(200);
    change(&client, "pause", &receiver).await;
    let host = receiver.addr().to_string();
    let target = json!({"callback": {"url": receiver.url("/")}});
    let mut published = vec![
        client.publish(&own, with(json!({"payload": 1}), target.clone())).await,
        client.publish(&own, with(json!({"payload": 1, "priority": 7}), target)).await,
        client.publish(&whole, json!({"payload": 2})).await,
    ];
    published.push(schedule(&client, &receiver.url("/"), json!({"payload": 3})).await);
    let expected = json!({"reason": "host_paused", "host": host});
    for sent in published {
        let sent = sent.expect(201).json();
        let (id, topic) = (text(&sent, "id"), text(&sent, "topic"));
        eventually("it is put off", || async {
            (client.state(id).await == "delayed").then_some(())
        })
        .await;
        for client in [&client, &idle.client()] {
            let seen = client.get(id).await.expect(200).json();
            assert_eq!((&seen["waiting_for"], &seen["due_at"]), (&expected, &sent["due_at"]));
            assert_eq!(seen["events"].as_array().unwrap().len(), 1, "{seen}");
            for query in ["state=delayed", "state=delayed&payload=true"] {
                let listed = client.listed(topic, query).await;
                let seen = listed.iter().find(|it| it["id"] == id).unwrap();
                assert_eq!((&seen["waiting_for"], &seen["due_at"]), (&expected, &sent["due_at"]));
                assert_eq!(seen.get("payload").is_some(), query.ends_with("true"), "{seen}");
                assert_eq!(seen["url"], receiver.url("/"), "{seen}");
            }
        }
        // Changes that do not concern its due time leave it where it is, however many there are.
        for n in 0..22 {
            let change = json!({"headers": {"x": n.to_string()}});
            let updated = client.update(id, change).await.expect(200).json();
            assert_eq!((&updated["waiting_for"], &updated["due_at"]), (&expected, &sent["due_at"]));
            assert_eq!(updated["events"].as_array().unwrap().len(), 20.min(n + 2), "{updated}");
        }
    }
    let later = json!({"payload": 4, "delay_ms": 60_000});
    let later = schedule(&client, &receiver.url("/"), later).await.expect(201).text("id");
    assert_eq!(client.get(&later).await.json()["waiting_for"]["reason"], "due");
    change(&client, "resume", &receiver).await;
    receiver.wait_for(4).await;
    assert!(receiver.calls().iter().all(|call| call.attempt() == 1));
}

#[tokio::test]
async fn a_message_that_waits_for_its_groups_turn_too_says_that_its_host_is_paused() {
    let (client, receiver) = ready().await;
    let push = json!({"url": receiver.url("/")});
    let topic = pushed_with(&client, "turns", push, json!({"group_rate_per_s": 0.01})).await;
    let message = |n: u32| json!({"payload": n, "group": "a"});
    client.published(&topic, message(0)).await;
    receiver.wait_for(1).await;
    change(&client, "pause", &receiver).await;
    let id = client.published(&topic, message(1)).await;
    let seen = client.get(&id).await.expect(200).json();
    assert_eq!(seen["waiting_for"]["reason"], "host_paused", "{seen}");
    change(&client, "resume", &receiver).await;
    waits_for(&client, &id, "rate").await;
}

#[tokio::test]
async fn a_message_put_off_by_an_instance_that_is_gone_says_when_it_comes() {
    let (redis, mut dueq) = alone(&[]).await;
    let idle = Dueq::calling(&redis).args(["--no-dispatch"]).start().await;
    let (client, receiver) = (idle.client(), Receiver::start().await);
    let topic = pushed(&client, "gone", json!({"url": receiver.url("/")})).await;
    client.published(&topic, json!({"payload": 1})).await;
    receiver.wait_for(1).await;
    change(&dueq.client(), "pause", &receiver).await;
    let sent = client.publish(&topic, json!({"payload": 2})).await.expect(201).json();
    let id = text(&sent, "id");
    eventually("it is put off", || async { (client.state(id).await == "delayed").then_some(()) })
        .await;
    dueq.kill9();
    change(&client, "resume", &receiver).await;
    let seen = client.get(id).await.expect(200).json();
    assert_eq!((&seen["due_at"], &seen["waiting_for"]["reason"]), (&sent["due_at"], &json!("due")));
    let until = instant_ms(text(&seen["waiting_for"], "until"));
    assert!(until > redis.time_ms().await, "{seen}");
}

#[tokio::test]
async fn a_message_without_a_place_says_of_what_and_keeps_its_due_time() {
    // Places are an instance's: with another one on the same Redis, as tests of traces have, the second call would begin at once.
    let (_redis, dueq) = alone(&[]).await;
    let (client, receiver) = (dueq.client(), Receiver::start().await);
    // A message waits a second with its sender before it waits for a place in Redis, and longer on a busy machine.
    receiver.answer(Reply::status(200).after(Duration::from_secs(25)));
    for (place, push) in [
        ("host", json!({"max_in_flight_per_host": 1})),
        ("total", json!({"max_in_flight": 1, "max_in_flight_per_host": 8})),
    ] {
        let push = with(push, json!({"url": receiver.url("/"), "timeout_ms": 60_000}));
        let topic = pushed(&client, "places", push).await;
        let first = client.published(&topic, json!({"payload": 0})).await;
        waits_for(&client, &first, "lease").await;
        a_while(300).await;
        let sent = client.publish(&topic, json!({"payload": 1})).await.expect(201).json();
        let seen = waits_for(&client, text(&sent, "id"), "no_place").await;
        assert_eq!(seen["waiting_for"], json!({"reason": "no_place", "place": place}), "{seen}");
        let due = (&seen["due_at"], &seen["state"]);
        assert_eq!(due, (&sent["due_at"], &json!("delayed")), "{seen}");
        let listed = client.listed(&topic, "state=delayed").await;
        let listed = listed.iter().find(|it| it["id"] == sent["id"]);
        // It may be with its sender for a moment.
        listed.inspect(|it| assert_eq!(it["due_at"], sent["due_at"]));
    }
}

#[tokio::test]
async fn a_call_that_failed_waits_for_its_backoff() {
    let (client, receiver) = ready().await;
    receiver.answer(Reply::status(500));
    let topic = pushed_with(
        &client,
        "backoff",
        json!({"url": receiver.url("/")}),
        json!({"backoff": fixed(60_000)}),
    )
    .await;
    let id = client.published(&topic, json!({"payload": 1})).await;
    let seen = waits_for(&client, &id, "backoff").await;
    assert_eq!(seen["waiting_for"]["error"], "answered 500", "{seen}");
    assert_eq!(seen["waiting_for"]["until"], seen["due_at"], "{seen}");
}
