//! updateMessage where it cannot be done: leased, dead, acked or unknown messages; and the mending of
//! a dead one for its redrive.

use serde_json::{Value, json};

use crate::facts::{counted, killed, reaches, topic_in_balance};
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
