//! A scheduled callback is a message like any other: until it is due it can be looked at, changed,
//! replaced and cancelled, by its id and by its key.

use serde_json::json;

use crate::facts::{a_while, caller, gone, ready, schedule, scheduled};
use crate::harness::*;

const LATER: i64 = 600_000;

#[tokio::test]
async fn it_can_be_looked_at() {
    let (client, receiver) = ready().await;
    let url = receiver.url("/hook?a=b");
    let more = json!({"payload": {"n": 1}, "delay_ms": LATER, "method": "PUT", "timeout_ms": 2500,
        "headers": {"x-a": "b"}, "priority": 3});
    let id = scheduled(&client, &url, more).await;
    let seen = client.get(&id).await.expect(200).json();
    assert_eq!(seen["callback"], json!({"url": url, "method": "PUT", "timeout_ms": 2500}));
    assert_eq!((&seen["topic"], &seen["state"]), (&json!("_callbacks"), &json!("delayed")));
    assert_eq!((&seen["payload"], &seen["headers"]), (&json!({"n": 1}), &json!({"x-a": "b"})));
    assert_eq!((&seen["attempts"], &seen["priority"]), (&json!(0), &json!(3)));
    let listed = client.listed("_callbacks", "state=delayed").await;
    assert!(listed.iter().any(|item| item["id"] == id), "{listed:?}");
}

#[tokio::test]
async fn it_can_be_made_due_sooner() {
    let (client, receiver) = ready().await;
    let id = scheduled(&client, &receiver.url("/"), json!({"delay_ms": LATER})).await;
    let changed = client.update(&id, json!({"delay_ms": 300})).await.expect(200);
    let call = receiver.wait_for(1).await.remove(0);
    let late = call.at_ms - changed.instant("due_at");
    assert!((0..1000).contains(&late), "{late} ms late");
    gone(&client, &id).await;
}

#[tokio::test]
async fn it_can_be_put_off() {
    let (client, receiver) = ready().await;
    let id = scheduled(&client, &receiver.url("/"), json!({"delay_ms": 700})).await;
    client.update(&id, json!({"delay_ms": LATER})).await.expect(200);
    a_while(1500).await;
    assert_eq!((receiver.count(), client.state(&id).await.as_str()), (0, "delayed"));
}

#[tokio::test]
async fn its_content_can_be_changed() {
    let (client, receiver) = ready().await;
    let more = json!({"payload": "old", "delay_ms": LATER, "headers": {"x-old": "1"}});
    let id = scheduled(&client, &receiver.url("/"), more).await;
    let changes = json!({"payload": "new", "headers": {"x-new": "2"}, "delay_ms": 0});
    client.update(&id, changes).await.expect(200);
    let call = receiver.wait_for(1).await.remove(0);
    assert_eq!((call.body.as_slice(), call.header("x-new")), (&b"\"new\""[..], "2"));
    assert!(!call.has("x-old"), "{call:?}");
}

#[tokio::test]
async fn its_url_can_be_changed() {
    let (client, receiver) = ready().await;
    let more = json!({"payload": 1, "delay_ms": LATER});
    let id = scheduled(&client, &receiver.url("/old"), more).await;
    let callback = json!({"url": receiver.url("/new"), "method": "PATCH"});
    let seen = client.update(&id, json!({"callback": callback})).await.expect(200).json();
    assert_eq!(seen["callback"], callback);
    client.update(&id, json!({"delay_ms": 0})).await.expect(200);
    let call = receiver.wait_for(1).await.remove(0);
    assert_eq!((call.path.as_str(), call.method.as_str()), ("/new", "PATCH"));
    assert_eq!(call.id(), id);
}

#[tokio::test]
async fn without_a_url_there_is_nothing_to_call() {
    let (client, receiver) = ready().await;
    let more = json!({"delay_ms": LATER});
    let id = scheduled(&client, &receiver.url("/"), more).await;
    let answer = client.update(&id, json!({"callback": null})).await;
    assert_eq!(answer.status, 422, "{answer}");
    client.post("/callbacks", &json!({"payload": 1})).await.refused(422).field("url");
}

#[tokio::test]
async fn it_can_be_deleted() {
    let (client, receiver) = ready().await;
    let id = scheduled(&client, &receiver.url("/"), json!({"delay_ms": 700})).await;
    client.delete(&id).await.expect(204);
    client.get(&id).await.problem(404, "message_not_found");
    a_while(1500).await;
    assert_eq!(receiver.count(), 0);
}

#[tokio::test]
async fn it_is_not_dead_so_it_cannot_be_redriven() {
    let (client, receiver) = ready().await;
    let id = scheduled(&client, &receiver.url("/"), json!({"delay_ms": LATER})).await;
    client.redrive(&id).await.problem(409, "message_not_dead");
}

#[tokio::test]
async fn it_is_found_changed_and_cancelled_by_its_key() {
    let (client, receiver) = ready().await;
    let key = topic("order 42/é");
    let more = json!({"payload": 1, "delay_ms": LATER, "key": key});
    let id = scheduled(&client, &receiver.url("/"), more.clone()).await;
    assert_eq!(client.get_by_key("_callbacks", &key).await.expect(200).text("id"), id);
    let again = schedule(&client, &receiver.url("/"), more.clone()).await.expect(200);
    assert_eq!((again.text("id"), &again.json()["duplicate"]), (id.clone(), &json!(true)));
    let changes = json!({"delay_ms": LATER / 2});
    let changed = client.update_by_key("_callbacks", &key, changes).await.expect(200);
    let now = caller().await.redis.time_ms().await;
    assert!(changed.instant("due_at") <= now + LATER / 2, "{changed}");
    client.delete_by_key("_callbacks", &key, "").await.expect(204);
    client.get(&id).await.problem(404, "message_not_found");
    assert_eq!(receiver.count(), 0);
}

#[tokio::test]
async fn a_replacement_is_called_in_its_place() {
    let (client, receiver) = ready().await;
    let key = topic("replaced");
    let more = json!({"payload": "old", "delay_ms": LATER, "key": key});
    let id = scheduled(&client, &receiver.url("/old"), more).await;
    let new = json!({"payload": "new", "key": key, "on_duplicate": "replace"});
    let answer = schedule(&client, &receiver.url("/new"), new).await.expect(200);
    assert_eq!(answer.text("id"), id);
    let call = receiver.wait_for(1).await.remove(0);
    assert_eq!((call.path.as_str(), call.body.as_slice()), ("/new", &b"\"new\""[..]));
    gone(&client, &id).await;
    assert_eq!(receiver.count(), 1);
}

#[tokio::test]
async fn while_it_is_called_it_is_leased() {
    let (client, receiver) = ready().await;
    receiver.answer(Reply::never());
    let more = json!({"payload": 1, "timeout_ms": 20_000});
    let id = scheduled(&client, &receiver.url("/"), more).await;
    receiver.wait_for(1).await;
    let seen = client.get(&id).await.expect(200).json();
    assert_eq!((&seen["state"], &seen["attempts"]), (&json!("leased"), &json!(1)));
    client.update(&id, json!({"payload": 2})).await.problem(409, "message_leased");
    client.delete(&id).await.problem(409, "message_leased");
    client.delete_by_force(&id).await.expect(204);
    client.get(&id).await.problem(404, "message_not_found");
}

#[tokio::test]
async fn what_was_deleted_by_force_during_its_call_is_not_called_again() {
    let (client, receiver) = ready().await;
    receiver.answer(Reply::status(500).after(std::time::Duration::from_millis(500)));
    let more = json!({"payload": 1, "backoff": crate::facts::fixed(50)});
    let id = scheduled(&client, &receiver.url("/"), more).await;
    receiver.wait_for(1).await;
    client.delete_by_force(&id).await.expect(204);
    a_while(1500).await;
    assert_eq!(receiver.count(), 1);
}

#[tokio::test]
async fn one_whose_time_to_live_is_over_is_not_called() {
    let (client, receiver) = ready().await;
    receiver.answer(Reply::status(500));
    let more = json!({"payload": 1, "ttl_ms": 400, "backoff": crate::facts::fixed(1000)});
    let id = scheduled(&client, &receiver.url("/"), more).await;
    receiver.wait_for(1).await;
    gone(&client, &id).await;
    a_while(1500).await;
    assert_eq!(receiver.count(), 1, "the second attempt was due after the end");
}

#[tokio::test]
async fn the_topic_of_callbacks_is_dueqs_own() {
    let (client, receiver) = ready().await;
    scheduled(&client, &receiver.url("/"), json!({"delay_ms": LATER})).await;
    client.publish("_callbacks", json!({"payload": 1})).await.problem(403, "topic_reserved");
    let push = json!({"push": {"url": receiver.url("/")}});
    client.put_topic("_callbacks", push.clone()).await.problem(403, "topic_reserved");
    client.update_topic("_callbacks", push).await.problem(403, "topic_reserved");
    client.lease("_callbacks", json!({})).await.problem(409, "topic_is_pushed");
    client.topic("_callbacks").await.expect(200);
}
