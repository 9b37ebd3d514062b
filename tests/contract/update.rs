//! updateMessage on a waiting message: every field, in place and at once.

use serde_json::{Value, json};

use crate::facts::{counted, ids, topic_in_balance};
use crate::harness::*;

/// A message in each place where it can wait.
const PLACES: [(i64, i64); 4] = [(0, 0), (60_000, 0), (0, 5), (60_000, 5)];

fn waiting(delay: i64, priority: i64) -> Value {
    json!({
        "payload": {"a": 1}, "headers": {"x": "1"}, "delay_ms": delay, "priority": priority,
        "key": "k", "max_attempts": 4,
    })
}

#[tokio::test]
async fn one_field_is_changed_and_all_others_stay() {
    for (delay, priority) in PLACES {
        for (change, name, value) in [
            (json!({"payload": "new"}), "payload", Some(json!("new"))),
            (json!({"payload": null}), "payload", Some(Value::Null)),
            (json!({"priority": 200}), "priority", Some(json!(200))),
            (json!({"priority": 0}), "priority", Some(json!(0))),
            (json!({"headers": {"y": "2"}}), "headers", Some(json!({"y": "2"}))),
            (json!({"headers": {}}), "headers", None),
            (json!({"max_attempts": 7}), "attempts_left", Some(json!(7))),
            (json!({"max_attempts": null}), "attempts_left", Some(json!(10))),
            (
                json!({"deliver_at": "2100-01-01T00:00:00Z"}),
                "due_at",
                Some(json!("2100-01-01T00:00:00.000Z")),
            ),
        ] {
            let (client, topic) = (client().await, topic("update"));
            let id = client.published(&topic, waiting(delay, priority)).await;
            let before = client.get(&id).await.expect(200).json();
            let after = client.update(&id, change.clone()).await.expect(200).json();
            assert_eq!(after, client.get(&id).await.expect(200).json(), "the message: {change}");
            match value {
                Some(value) => assert_eq!(after.get(name), Some(&value), "{change}: {after}"),
                None => assert!(after.get(name).is_none_or(|map| *map == json!({})), "{after}"),
            }
            let known = ["max_attempts", "attempts_left", "events", "ttl_ms", "backoff"];
            for (other, value) in before.as_object().unwrap() {
                let moved = name == "due_at" && (other == "state" || other == "waiting_for");
                if other != name && !known.contains(&&**other) && !moved {
                    assert_eq!(&after[other], value, "{other} after {change}");
                }
            }
            counted(&client, &topic, &[("totals", "published", 1), ("totals", "replaced", 0)])
                .await;
        }
    }
}

#[tokio::test]
async fn a_delayed_message_is_run_now() {
    for priority in [0, 5] {
        for change in [json!({"delay_ms": 0}), json!({"deliver_at": "2001-01-01T00:00:00Z"})] {
            let (client, topic) = (client().await, topic("update"));
            let id = client.published(&topic, waiting(60_000, priority)).await;
            let before = shared().await.redis.time_ms().await;
            let answer = client.update(&id, change).await.expect(200);
            let after = shared().await.redis.time_up_ms().await;
            assert_eq!(answer.text("state"), "ready");
            let due = answer.instant("due_at");
            assert!((before..=after).contains(&due), "{before} {after} {answer}");
            let held = client.leased(&topic, json!({})).await;
            assert_eq!(
                (&held[0]["id"], &held[0]["due_at"]),
                (&json!(id), &answer.json()["due_at"])
            );
            client.ack_leased(&held[0]).await.expect(204);
            topic_in_balance(&client, &topic).await;
        }
    }
}

#[tokio::test]
async fn a_message_run_now_goes_to_who_waits() {
    let (here, there) = (instance().await, instance().await);
    let (here, there, topic) = (here.client(), there.client(), topic("update"));
    let id = here.published(&topic, waiting(600_000, 0)).await;
    for delay in [0, 300] {
        let update = async {
            waiters(&there, 1).await;
            here.update(&id, json!({"delay_ms": delay})).await.expect(200)
        };
        let (held, answer) = tokio::join!(there.lease_one(&topic), update);
        assert_eq!(held["id"], id);
        let granted = crate::facts::granted_ms(&held, 30_000);
        let due = answer.instant("due_at");
        assert!((due..due + 1000).contains(&granted), "granted {} ms after", granted - due);
        there.nack_leased(&held, json!({"delay_ms": 600_000})).await.expect(200);
    }
}

#[tokio::test]
async fn a_waiting_message_is_put_off_and_never_granted_early() {
    for (delay, priority) in [(0, 0), (100, 0), (0, 5), (100, 5)] {
        let (client, topic) = (client().await, topic("update"));
        let id = client.published(&topic, waiting(delay, priority)).await;
        let answer = client.update(&id, json!({"delay_ms": 700})).await.expect(200);
        assert_eq!(answer.text("state"), "delayed");
        assert!(client.leased(&topic, json!({})).await.is_empty());
        let held = client.lease_one(&topic).await;
        let granted = crate::facts::granted_ms(&held, 30_000);
        assert!(granted >= answer.instant("due_at"), "{answer} {held}");
        assert_eq!(held["due_at"], answer.json()["due_at"]);
        assert_eq!(held["attempt"], 1);
        topic_in_balance(&client, &topic).await;
    }
}

#[tokio::test]
async fn a_changed_priority_changes_the_order() {
    let (client, topic) = (client().await, topic("update"));
    let mut sent = Vec::new();
    for priority in [0, 5, 5, 0, 9] {
        let message = json!({"payload": 1, "priority": priority});
        sent.push(client.published(&topic, message).await);
    }
    for (n, priority) in [(3, 7), (1, 0), (4, 200), (2, 5)] {
        client.update(&sent[n], json!({"priority": priority})).await.expect(200);
    }
    let held = client.leased(&topic, json!({"max_messages": 10})).await;
    assert_eq!(ids(&held), [4, 3, 2, 0, 1].map(|n| sent[n].clone()));
    let priorities: Vec<i64> = held.iter().map(|message| number(message, "priority")).collect();
    assert_eq!(priorities, [200, 7, 5, 0, 0]);
    topic_in_balance(&client, &topic).await;
}

#[tokio::test]
async fn a_new_payload_is_granted_byte_for_byte_and_keeps_the_headers() {
    let (client, topic) = (client().await, topic("update"));
    for (change, name, kind) in [
        ("{\"payload\":{\"b\" :1E400, \"b\":-0}}", "\"payload\":{\"b\" :1E400, \"b\":-0}", None),
        ("{\"payload\":null}", "\"payload\":null", None),
        (
            "{\"payload_base64\":\"AP8=\",\"content_type\":\"image/png\"}",
            "\"payload_base64\":\"AP8=\"",
            Some("image/png"),
        ),
        (
            "{\"payload_base64\":\"AP8=\"}",
            "\"payload_base64\":\"AP8=\"",
            Some("application/octet-stream"),
        ),
    ] {
        for (first, delay) in [
            (json!({"payload": 1}), 60_000),
            (json!({"payload_base64": "AAAA", "content_type": "text/plain"}), 0),
        ] {
            let mut message = first;
            message["headers"] = json!({"X-Kept": "é"});
            message["delay_ms"] = json!(delay);
            let id = client.published(&topic, message).await;
            let path = format!("/messages/{id}");
            let headers = [("content-type", "application/json")];
            client
                .send("PATCH", &path, &headers, Some(change.as_bytes().to_vec()))
                .await
                .expect(200);
            client.update(&id, json!({"delay_ms": 0})).await.expect(200);
            let answer = client.lease(&topic, json!({"wait_ms": 5000})).await.expect(200);
            let body = String::from_utf8_lossy(&answer.body).into_owned();
            assert!(body.contains(name), "{name}: {body}");
            let held = &answer.json()["messages"][0];
            assert_eq!((&held["id"], &held["headers"]), (&json!(id), &json!({"X-Kept": "é"})));
            assert_eq!(held["content_type"].as_str(), kind, "{held}");
            let both = held.get("payload").is_some() && held.get("payload_base64").is_some();
            assert!(!both, "one payload: {held}");
            client.ack_leased(held).await.expect(204);
        }
    }
    topic_in_balance(&client, &topic).await;
}

#[tokio::test]
async fn many_fields_are_changed_together() {
    for (delay, priority) in PLACES {
        let (client, topic) = (client().await, topic("update"));
        let id = client.published(&topic, waiting(delay, priority)).await;
        let change = json!({
            "payload_base64": "AAEC", "content_type": "text/plain", "headers": {"y": "2"},
            "priority": 9, "delay_ms": 0, "max_attempts": 1, "ttl_ms": 600_000,
            "backoff": {"kind": "fixed", "base_ms": 5},
        });
        let seen = client.update_by_key(&topic, "k", change).await.expect(200).json();
        assert_eq!((&seen["id"], &seen["state"]), (&json!(id), &json!("ready")));
        let held = client.lease_one(&topic).await;
        assert_eq!((&held["id"], &held["payload_base64"]), (&json!(id), &json!("AAEC")));
        assert_eq!((&held["priority"], &held["attempts_left"]), (&json!(9), &json!(0)));
        assert_eq!((&held["headers"], &held["key"]), (&json!({"y": "2"}), &json!("k")));
        let answer = client.nack_leased(&held, json!({})).await.expect(200);
        assert_eq!(answer.text("state"), "dead");
        topic_in_balance(&client, &topic).await;
    }
}

#[tokio::test]
async fn a_changed_backoff_is_waited_and_null_gives_back_the_topics() {
    let (client, topic) = (client().await, topic("update"));
    client.configure(&topic, json!({"backoff": {"kind": "fixed", "base_ms": 100_000}})).await;
    for (first, change, wait) in [
        (json!(null), json!({"kind": "fixed", "base_ms": 200_000}), 200_000),
        (json!({"kind": "fixed", "base_ms": 5}), json!(null), 100_000),
        (
            json!({"kind": "fixed", "base_ms": 5}),
            json!({"kind": "schedule", "delays_ms": [300_000]}),
            300_000,
        ),
    ] {
        let message = json!({"payload": 1, "backoff": first, "max_attempts": 3});
        let id = client.published(&topic, message).await;
        client.update(&id, json!({"backoff": change})).await.expect(200);
        let held = client.lease_one(&topic).await;
        assert_eq!(held["attempts_left"], 2, "the other policy stays");
        let before = shared().await.redis.time_ms().await;
        let due = client.nack_leased(&held, json!({})).await.expect(200).instant("due_at");
        let after = shared().await.redis.time_up_ms().await;
        assert!((before + wait..=after + wait).contains(&due), "{} ms", due - before);
    }
}

#[tokio::test]
async fn attempt_numbers_go_on_after_a_change() {
    let (client, topic) = (client().await, topic("update"));
    let id = client.published(&topic, json!({"payload": 1})).await;
    crate::facts::fail_attempts(&client, &topic, 2).await;
    let change = json!({"payload": 2, "priority": 3, "delay_ms": 0, "max_attempts": 5});
    let seen = client.update(&id, change).await.expect(200);
    assert_eq!((seen.number("attempts"), seen.number("attempts_left")), (2, 3));
    let held = client.lease_one(&topic).await;
    assert_eq!((number(&held, "attempt"), number(&held, "attempts_left")), (3, 2));
}

#[tokio::test]
async fn a_change_and_a_lease_at_once_leave_one_content() {
    let (client, topic) = (client().await, topic("update"));
    for n in 0..30 {
        let message = json!({"payload": "old", "priority": n % 2});
        let id = client.published(&topic, message).await;
        let change = json!({"payload": "new", "priority": n % 3});
        let (answer, held) = tokio::join!(client.update(&id, change), client.lease_one(&topic));
        match answer.status {
            200 => {
                assert_eq!((&held["payload"], number(&held, "priority")), (&json!("new"), n % 3))
            }
            _ => {
                answer.problem(409, "message_leased");
                assert_eq!((&held["payload"], number(&held, "priority")), (&json!("old"), n % 2));
            }
        }
        client.ack_leased(&held).await.expect(204);
    }
    topic_in_balance(&client, &topic).await;
}
