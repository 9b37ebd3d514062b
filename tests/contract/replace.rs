//! `on_duplicate: "replace"`: the waiting message of a key gets new content, options and due time in
//! place.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::facts::{counted, topic_in_balance};
use crate::harness::*;

fn replacing(mut message: Value) -> Value {
    message["key"] = json!("k");
    message["on_duplicate"] = json!("replace");
    message
}

#[tokio::test]
async fn a_waiting_message_is_replaced_in_place() {
    for (delay, priority) in [(0, 0), (60_000, 0), (0, 7), (60_000, 7)] {
        let (client, topic) = (client().await, topic("replace"));
        let message = json!({
            "payload": "old", "key": "k", "delay_ms": delay, "priority": priority,
            "headers": {"x-old": "1"}, "max_attempts": 2, "ttl_ms": 50_000,
        });
        let sent = client.publish(&topic, message).await.expect(201).json();
        let before = shared().await.redis.time_ms().await;
        let new = json!({"payload": "new", "delay_ms": 90_000, "headers": {"x-new": "2"}});
        let answer = client.publish(&topic, replacing(new)).await.expect(200);
        let after = shared().await.redis.time_up_ms().await;
        let replaced = answer.json();
        assert_eq!(replaced["duplicate"], true);
        for name in ["id", "topic", "published_at"] {
            assert_eq!(replaced[name], sent[name], "{name}");
        }
        assert_eq!(replaced["state"], "delayed");
        let due = answer.instant("due_at");
        assert!((before + 90_000..=after + 90_000).contains(&due), "{before} {after} {answer}");
        let seen = client.get(text(&sent, "id")).await.expect(200).json();
        for name in ["id", "published_at", "due_at", "state"] {
            assert_eq!(seen[name], replaced[name], "{name}");
        }
        assert_eq!((&seen["payload"], &seen["headers"]), (&json!("new"), &json!({"x-new": "2"})));
        assert_eq!((&seen["priority"], &seen["attempts_left"]), (&json!(0), &json!(10)), "{seen}");
        assert_eq!(seen["key"], "k");
        counted(
            &client,
            &topic,
            &[
                ("totals", "replaced", 1),
                ("totals", "published", 1),
                ("counts", "delayed", 1),
                ("counts", "ready", 0),
            ],
        )
        .await;
    }
}

#[tokio::test]
async fn what_was_replaced_is_granted_as_it_is_now() {
    let (client, topic) = (client().await, topic("replace"));
    client.published(&topic, replacing(json!({"payload": "old", "delay_ms": 60_000}))).await;
    let plain = client.published(&topic, json!({"payload": "plain"})).await;
    let new = json!({"payload_base64": "AP8=", "content_type": "image/png", "priority": 9});
    let answer = client.publish(&topic, replacing(new)).await.expect(200);
    assert_eq!(answer.text("state"), "ready");
    let held = client.leased(&topic, json!({"max_messages": 10})).await;
    assert_eq!(crate::facts::ids(&held), [answer.text("id"), plain]);
    assert_eq!((&held[0]["payload_base64"], &held[0]["priority"]), (&json!("AP8="), &json!(9)));
    assert_eq!((&held[0]["content_type"], &held[0]["attempt"]), (&json!("image/png"), &json!(1)));
    assert!(held[0].get("payload").is_none(), "{held:?}");
    assert_eq!(held[0]["due_at"], answer.json()["due_at"]);
    topic_in_balance(&client, &topic).await;
}

#[tokio::test]
async fn a_replace_wakes_who_waits() {
    let dueq = instance().await;
    let (client, topic) = (dueq.client(), topic("replace"));
    let old = json!({"payload": "old", "delay_ms": 60_000});
    let id = client.published(&topic, replacing(old)).await;
    let poll = client.lease_one(&topic);
    let replace = async {
        waiters(&client, 1).await;
        client.publish(&topic, replacing(json!({"payload": "new"}))).await.expect(200);
    };
    let (held, ()) = tokio::join!(poll, replace);
    assert_eq!((&held["id"], &held["payload"]), (&json!(id), &json!("new")));
}

#[tokio::test]
async fn a_replace_that_finds_no_key_publishes() {
    let (client, topic) = (client().await, topic("replace"));
    let answer = client.publish(&topic, replacing(json!({"payload": 1}))).await.expect(201);
    assert_eq!(answer.json()["duplicate"], false);
    client.ack_leased(&client.lease_one(&topic).await).await.expect(204);
    client.publish(&topic, replacing(json!({"payload": 1}))).await.expect(201);
    counted(&client, &topic, &[("totals", "published", 2), ("totals", "replaced", 0)]).await;
}

#[tokio::test]
async fn a_leased_message_is_not_replaced_until_its_lease_is_over() {
    let (client, topic) = (client().await, topic("replace"));
    let id = client.published(&topic, replacing(json!({"payload": "old"}))).await;
    let held = client.lease_one_with(&topic, json!({"lease_ms": 1000})).await;
    let new = replacing(json!({"payload": "new"}));
    client.publish(&topic, new.clone()).await.problem(409, "message_leased");
    let seen = client.get(&id).await.expect(200).json();
    assert_eq!((&seen["payload"], &seen["state"]), (&json!("old"), &json!("leased")));
    crate::facts::reaches(&client, &id, "ready").await;
    let answer = client.publish(&topic, new).await.expect(200);
    assert_eq!((answer.text("id"), answer.text("state")), (id.clone(), "ready".to_owned()));
    client.ack_leased(&held).await.problem(409, "lease_lost");
    let again = client.lease_one(&topic).await;
    assert_eq!((&again["payload"], &again["attempt"]), (&json!("new"), &json!(2)));
    counted(&client, &topic, &[("totals", "replaced", 1), ("totals", "lease_expired", 1)]).await;
}

#[tokio::test]
async fn attempt_numbers_go_on_after_a_replace() {
    let (client, topic) = (client().await, topic("replace"));
    client.published(&topic, replacing(json!({"payload": "old", "priority": 3}))).await;
    crate::facts::fail_attempts(&client, &topic, 2).await;
    client.publish(&topic, replacing(json!({"payload": "new"}))).await.expect(200);
    assert_eq!(client.lease_one(&topic).await["attempt"], 3);
}

#[tokio::test]
async fn a_replace_decides_anew_how_long_the_key_is_held() {
    let (client, topic) = (client().await, topic("replace"));
    for (old, new, free) in [("done", "granted", true), ("granted", "done", false)] {
        let first = replacing(json!({"payload": 1, "key_until": old}));
        let id = client.published(&topic, first).await;
        let second = replacing(json!({"payload": 2, "key_until": new}));
        assert_eq!(client.publish(&topic, second).await.expect(200).text("id"), id);
        let held = client.lease_one(&topic).await;
        let status = if free { 404 } else { 200 };
        client.get_by_key(&topic, "k").await.expect(status);
        client.ack_leased(&held).await.expect(204);
        client.get_by_key(&topic, "k").await.expect(404);
    }
}

#[tokio::test]
async fn a_refused_replace_changes_nothing() {
    let (client, topic) = (client().await, topic("replace"));
    let id = client.published(&topic, replacing(json!({"payload": "old", "ttl_ms": 9000}))).await;
    let before = client.get(&id).await.expect(200).json();
    for (new, status) in [
        (json!({"payload": "new", "priority": 256}), 422),
        (json!({"payload": "new", "ttl_ms": 0}), 422),
        (json!({"delay_ms": 0}), 422),
        (json!({"payload": "x".repeat(300_000)}), 413),
    ] {
        client.publish(&topic, replacing(new)).await.refused(status);
    }
    assert_eq!(client.get(&id).await.expect(200).json(), before);
    counted(&client, &topic, &[("totals", "replaced", 0)]).await;
}

#[tokio::test]
async fn of_many_replaces_at_once_one_publishes_and_the_last_content_stays() {
    let other = instance().await;
    let (client, topic) = (client().await, topic("replace"));
    let clients = [client.clone(), other.client()];
    let sends = (0..60).map(|n| {
        let message = replacing(json!({"payload": n, "priority": n % 3, "delay_ms": 60_000}));
        clients[n % 2].publish(&topic, message)
    });
    let answers = join_all(sends).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 1);
    assert!(answers.iter().all(|answer| answer.text("id") == answers[0].text("id")));
    let wanted = [("totals", "published", 1), ("totals", "replaced", 59), ("counts", "delayed", 1)];
    counted(&client, &topic, &wanted).await;
    let seen = client.get_by_key(&topic, "k").await.expect(200);
    let (payload, priority) = (seen.number("payload"), seen.number("priority"));
    assert_eq!(priority, payload % 3, "all of one of them, not parts of two: {seen}");
    let due = seen.json()["due_at"].clone();
    let mine = &answers[usize::try_from(payload).unwrap()];
    assert_eq!(mine.json()["due_at"], due, "{mine}");
}

#[tokio::test]
async fn a_replace_and_a_lease_at_once_leave_one_content() {
    let (client, topic) = (client().await, topic("replace"));
    for n in 0..20 {
        client.published(&topic, replacing(json!({"payload": "old", "priority": n % 2}))).await;
        let new = replacing(json!({"payload": "new"}));
        let (answer, held) = tokio::join!(client.publish(&topic, new), client.lease_one(&topic));
        let wanted = if answer.status == 200 { "new" } else { "old" };
        assert!(matches!(answer.status, 200 | 409), "{answer}");
        assert_eq!(held["payload"], wanted, "{answer}");
        client.ack_leased(&held).await.expect(204);
    }
    topic_in_balance(&client, &topic).await;
}
