//! updateMessage where it cannot be done: leased, dead, acked or unknown messages; and the mending of
//! a dead one for its redrive.

use serde_json::{Value, json};

use crate::facts::{counted, killed, reaches, topic_in_balance, unprocessable_within};
use crate::harness::*;

/// Every change that a waiting message would take.
fn changes() -> Vec<Value> {
    vec![
        json!({"delay_ms": 0}),
        json!({"deliver_at": "2100-01-01T00:00:00Z"}),
        json!({"priority": 9}),
        json!({"payload": "new"}),
        json!({"payload_base64": "AA=="}),
        json!({"headers": {"x": "y"}}),
        json!({"ttl_ms": 9000}),
        json!({"ttl_ms": null}),
        json!({"max_attempts": 9}),
        json!({"backoff": {"kind": "fixed", "base_ms": 1}}),
    ]
}

#[tokio::test]
async fn a_leased_message_is_not_changed() {
    let (client, topic) = (client().await, topic("update"));
    for max_attempts in [10, 1] {
        let message = json!({"payload": "old", "max_attempts": max_attempts, "key": "k"});
        let id = client.published(&topic, message).await;
        let held = client.lease_one(&topic).await;
        let before = client.get(&id).await.expect(200).json();
        for change in changes() {
            client.update(&id, change.clone()).await.problem(409, "message_leased");
            client.update_by_key(&topic, "k", change).await.problem(409, "message_leased");
        }
        assert_eq!(client.get(&id).await.expect(200).json(), before);
        client.ack_leased(&held).await.expect(204);
    }
    topic_in_balance(&client, &topic).await;
}

#[tokio::test]
async fn a_message_whose_lease_is_over_is_changed() {
    let (client, topic) = (client().await, topic("update"));
    let id = client.published(&topic, json!({"payload": "old"})).await;
    let held = client.lease_one_with(&topic, json!({"lease_ms": 1000})).await;
    let changed = eventually("the lease's end", || async {
        let change = json!({"payload": "new", "priority": 3});
        let answer = client.update(&id, change).await;
        (answer.status != 409).then_some(answer)
    });
    let changed = changed.await.expect(200);
    assert_eq!((changed.text("state"), changed.text("payload")), ("ready".into(), "new".into()));
    client.ack_leased(&held).await.problem(409, "lease_lost");
    let again = client.lease_one(&topic).await;
    assert_eq!((&again["payload"], &again["attempt"]), (&json!("new"), &json!(2)));
    counted(&client, &topic, &[("totals", "lease_expired", 1)]).await;
}

#[tokio::test]
async fn a_dead_message_takes_all_but_a_due_time() {
    let (client, topic) = (client().await, topic("update"));
    let message = json!({"payload": "old", "headers": {"x": "1"}, "priority": 2});
    let id = killed(&client, &topic, message).await;
    for change in [
        json!({"delay_ms": 0}),
        json!({"delay_ms": 60_000}),
        json!({"deliver_at": "2100-01-01T00:00:00Z"}),
        json!({"payload": "no", "priority": 9, "delay_ms": 0}),
    ] {
        client.update(&id, change).await.problem(409, "message_dead");
    }
    let seen = client.get(&id).await.expect(200).json();
    assert_eq!((&seen["payload"], &seen["priority"]), (&json!("old"), &json!(2)));
    for change in changes().into_iter().skip(2) {
        let answer = client.update(&id, change).await.expect(200);
        assert_eq!(answer.text("state"), "dead");
        assert!(answer.json().get("due_at").is_none(), "{answer}");
    }
    counted(&client, &topic, &[("counts", "dead", 1)]).await;
}

#[tokio::test]
async fn a_dead_message_is_mended_and_then_redriven() {
    let (client, topic) = (client().await, topic("update"));
    let id = killed(&client, &topic, json!({"payload": "broken", "headers": {"x": "1"}})).await;
    let plain = client.published(&topic, json!({"payload": "plain"})).await;
    let change = json!({"payload": "mended", "priority": 7, "max_attempts": 2});
    client.update(&id, change).await.expect(200);
    let answer = client.redrive(&id).await.expect(200);
    assert_eq!((answer.text("state"), answer.text("payload")), ("ready".into(), "mended".into()));
    let held = client.leased(&topic, json!({"max_messages": 2})).await;
    assert_eq!(crate::facts::ids(&held), [id, plain]);
    assert_eq!((&held[0]["payload"], &held[0]["headers"]), (&json!("mended"), &json!({"x": "1"})));
    assert_eq!((number(&held[0], "attempt"), number(&held[0], "attempts_left")), (2, 1));
    topic_in_balance(&client, &topic).await;
}

#[tokio::test]
async fn a_message_that_died_by_its_last_lease_is_dead_to_a_change() {
    let (client, topic) = (client().await, topic("update"));
    let id = client.published(&topic, json!({"payload": 1, "max_attempts": 1})).await;
    client.lease_one_with(&topic, json!({"lease_ms": 1000})).await;
    eventually("the lease's end", || async {
        let answer = client.update(&id, json!({"delay_ms": 0})).await.refused(409);
        (answer.text("code") == "message_dead").then_some(())
    })
    .await;
    client.update(&id, json!({"payload": 2})).await.expect(200);
    assert_eq!(client.redrive(&id).await.expect(200).number("payload"), 2);
    topic_in_balance(&client, &topic).await;
}

#[tokio::test]
async fn a_retained_acked_message_is_not_changed() {
    let (client, topic) = (client().await, topic("update"));
    client.configure(&topic, json!({"retention": {"acked_ms": 60_000}})).await;
    let id = client.published(&topic, json!({"payload": 1})).await;
    client.ack_leased(&client.lease_one(&topic).await).await.expect(204);
    reaches(&client, &id, "acked").await;
    for change in changes() {
        client.update(&id, change).await.problem(409, "message_acked");
    }
    client.redrive(&id).await.problem(409, "message_not_dead");
    assert_eq!(client.state(&id).await, "acked");
}

#[tokio::test]
async fn an_unknown_message_is_not_found_whatever_the_change() {
    let (client, topic) = (client().await, topic("update"));
    let id = client.published(&topic, json!({"payload": 1})).await;
    client.delete(&id).await.expect(204);
    for change in changes() {
        for id in [&id, &unknown_id()] {
            client.update(id, change.clone()).await.problem(404, "message_not_found");
        }
    }
}

#[tokio::test]
async fn a_payload_above_the_topics_limit_is_refused() {
    let (client, topic) = (client().await, topic("update"));
    let id = client.published(&topic, json!({"payload": "old", "delay_ms": 60_000})).await;
    let payload = |bytes: usize| json!({"payload": "x".repeat(bytes - 2), "delay_ms": 0});
    client.update(&id, payload(262_145)).await.refused(413);
    client.configure(&topic, json!({"max_payload_bytes": 100})).await;
    client.update(&id, payload(101)).await.refused(413);
    let seen = client.get(&id).await.expect(200);
    assert_eq!((seen.text("payload"), seen.text("state")), ("old".into(), "delayed".into()));
    client.update(&id, payload(100)).await.expect(200);
    counted(&client, &topic, &[("counts", "ready", 1)]).await;
}

#[tokio::test]
async fn what_has_grown_by_a_change_or_a_replace_counts_for_the_bytes_of_a_lease() {
    let (client, topic) = (client().await, topic("update"));
    for n in 0..4 {
        let key = format!("k{n}");
        client.published(&topic, json!({"payload": 1, "key": key})).await;
        let large = "x".repeat(5000);
        if n % 2 == 0 {
            client.update_by_key(&topic, &key, json!({"payload": large})).await.expect(200);
        } else {
            let replace = json!({"payload": large, "key": key, "on_duplicate": "replace"});
            client.publish(&topic, replace).await.expect(200);
        }
    }
    for _ in 0..4 {
        let want = json!({"max_messages": 10, "max_bytes": 6000});
        assert_eq!(client.leased(&topic, want).await.len(), 1);
    }
    counted(&client, &topic, &[("counts", "leased", 4)]).await;
}

/// Each change that is refused in any state, and the field that the refusal names.
#[tokio::test]
async fn what_no_message_may_become_is_422_and_named() {
    let (client, topic) = (client().await, topic("update"));
    let waiting = client.published(&topic, json!({"payload": "old", "delay_ms": 60_000})).await;
    let dead = killed(&client, &topic, json!({"payload": "old", "priority": 1})).await;
    client.published(&topic, json!({"payload": "old", "priority": 2})).await;
    let leased = text(&client.lease_one(&topic).await, "id").to_owned();
    let before = client.get(&waiting).await.expect(200).json();
    for (change, field) in [
        (json!({"delay_ms": -1}), "delay_ms"),
        (json!({"delay_ms": "5"}), "delay_ms"),
        (json!({"delay_ms": 1.5}), "delay_ms"),
        (json!({"delay_ms": 315_360_000_001_i64}), "delay_ms"),
        (json!({"delay_ms": null}), "delay_ms"),
        (json!({"deliver_at": "tomorrow"}), "deliver_at"),
        (json!({"deliver_at": null}), "deliver_at"),
        (json!({"delay_ms": 1, "deliver_at": "2100-01-01T00:00:00Z"}), "de"),
        (json!({"priority": 256}), "priority"),
        (json!({"priority": -1}), "priority"),
        (json!({"priority": null}), "priority"),
        (json!({"payload": 1, "payload_base64": "AA=="}), "payload"),
        (json!({"payload_base64": "%%"}), "payload_base64"),
        (json!({"payload_base64": null}), "payload_base64"),
        (json!({"content_type": "text/plain"}), "content_type"),
        (json!({"payload": 1, "content_type": "text/plain"}), "content_type"),
        (json!({"payload_base64": "AA==", "content_type": "x"}), "content_type"),
        (json!({"headers": null}), "headers"),
        (json!({"headers": {"a b": "x"}}), "headers"),
        (json!({"headers": {"a": 1}}), "headers"),
        (json!({"headers": {"a": "x\ny"}}), "headers"),
        (json!({"ttl_ms": 0}), "ttl_ms"),
        (json!({"ttl_ms": -1}), "ttl_ms"),
        (json!({"ttl_ms": "1"}), "ttl_ms"),
        (json!({"max_attempts": 0}), "max_attempts"),
        (json!({"max_attempts": 1001}), "max_attempts"),
        (json!({"backoff": {"kind": "none"}}), "backoff"),
        (json!({"backoff": {"kind": "fixed", "base_ms": -1}}), "backoff"),
        (json!({"backoff": {"kind": "schedule", "delays_ms": []}}), "backoff"),
        (json!({"key": "k"}), "key"),
        (json!({"on_duplicate": "return"}), "on_duplicate"),
        (json!({"key_until": "done"}), "key_until"),
        (json!({"idempotency_key": "r"}), "idempotency_key"),
        (json!({"state": "ready"}), "state"),
        (json!({"nope": 1}), "nope"),
    ] {
        for id in [&waiting, &dead, &leased, &unknown_id()] {
            let mut answer = client.update(id, change.clone()).await;
            answer.request.push_str(&format!(" with {change}"));
            unprocessable_within(answer, field);
        }
    }
    assert_eq!(client.get(&waiting).await.expect(200).json(), before);
    assert_eq!(client.get(&dead).await.expect(200).text("payload"), "old");
    topic_in_balance(&client, &topic).await;
}

#[tokio::test]
async fn an_id_that_is_no_uuid_is_400_before_anything_else() {
    let client = client().await;
    for id in ["x", "1", "%00", "%20", "not-a-uuid", &unknown_id()[..35], "%ff"] {
        let plain = [("content-type", "text/plain")];
        let path = format!("/messages/{id}");
        client.send("PATCH", &path, &plain, Some(b"{".to_vec())).await.refused(400);
        let path = format!("/messages/{id}/redrive");
        client.send("POST", &path, &plain, Some(b"{".to_vec())).await.refused(400);
    }
}

#[tokio::test]
async fn errors_come_in_the_order_path_media_type_body_existence() {
    let client = client().await;
    for (method, path, good) in [
        ("PATCH", format!("/messages/{}", unknown_id()), "{\"priority\":1}"),
        ("PATCH", by_key("no-such-topic", "k"), "{\"priority\":1}"),
        ("POST", format!("/messages/{}/redrive", unknown_id()), "{}"),
        ("POST", "/topics/no-such-topic/redrive".to_owned(), "{}"),
    ] {
        for (kind, body, status) in [
            ("text/plain", "{", 415),
            ("application/json", "{", 400),
            ("application/json", "[]", 422),
            ("application/json", "{\"nope\":1}", 422),
            ("application/json", good, 404),
        ] {
            let headers = [("content-type", kind)];
            let answer = client.send(method, &path, &headers, Some(body.as_bytes().to_vec())).await;
            assert_eq!(answer.status, status, "{body} as {kind}: {answer}");
        }
    }
}
