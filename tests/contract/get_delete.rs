//! getMessage and deleteMessage, in every state.

use serde_json::json;

use crate::facts::{dead_message, topic_in_balance};
use crate::harness::*;

#[tokio::test]
async fn a_waiting_message_shows_all_of_it() {
    let (client, topic) = (client().await, topic("get"));
    for (delay, state) in [(0, "ready"), (60_000, "delayed")] {
        let message = json!({
            "payload": {"a": [1, null]}, "headers": {"x": "y"}, "priority": 3, "delay_ms": delay,
        });
        let sent = client.publish(&topic, message).await.expect(201).json();
        let seen = client.get(text(&sent, "id")).await.expect(200).json();
        for name in ["id", "topic", "published_at", "due_at"] {
            assert_eq!(seen[name], sent[name], "{name}");
        }
        assert_eq!(seen["state"], state);
        assert_eq!(seen["payload"], json!({"a": [1, null]}));
        assert_eq!(seen["headers"], json!({"x": "y"}));
        assert_eq!(seen["priority"], 3);
        assert_eq!((&seen["attempts"], &seen["attempts_left"]), (&json!(0), &json!(10)));
        assert!(seen.get("lease_expires_at").is_none(), "{seen}");
        assert!(seen.get("lease_token").is_none(), "{seen}");
    }
}

#[tokio::test]
async fn a_leased_message_shows_its_lease_but_not_its_token() {
    let (client, topic) = (client().await, topic("get"));
    let id = client.published(&topic, json!({"payload": 1})).await;
    let held = client.lease_one(&topic).await;
    let seen = client.get(&id).await.expect(200).json();
    assert_eq!(seen["state"], "leased");
    assert_eq!(seen["lease_expires_at"], held["lease_expires_at"]);
    assert!(seen.get("due_at").is_none(), "{seen}");
    assert!(!seen.to_string().contains(text(&held, "lease_token")), "{seen}");
    assert_eq!((&seen["attempts"], &seen["attempts_left"]), (&json!(1), &json!(9)));
}

#[tokio::test]
async fn a_dead_message_stays_and_can_be_read() {
    let (client, topic) = (client().await, topic("get"));
    let id = dead_message(&client, &topic).await;
    let seen = client.get(&id).await.expect(200).json();
    assert_eq!((&seen["state"], &seen["payload"]), (&json!("dead"), &json!("doomed")));
    assert_eq!((&seen["attempts"], &seen["attempts_left"]), (&json!(1), &json!(0)));
    assert!(seen.get("due_at").is_none() && seen.get("lease_expires_at").is_none(), "{seen}");
}

#[tokio::test]
async fn a_message_whose_lease_is_over_reads_as_ready_since_the_deadline() {
    let (client, topic) = (client().await, topic("get"));
    let id = client.published(&topic, json!({"payload": 1})).await;
    let held = client.lease_one_with(&topic, json!({"lease_ms": 1000})).await;
    let seen = eventually("the lease's end", || async {
        let seen = client.get(&id).await.expect(200).json();
        (seen["state"] != "leased").then_some(seen)
    })
    .await;
    assert_eq!((&seen["state"], &seen["due_at"]), (&json!("ready"), &held["lease_expires_at"]));
    assert_eq!((&seen["attempts"], &seen["attempts_left"]), (&json!(1), &json!(9)));
}

#[tokio::test]
async fn an_id_in_capitals_is_the_same_id() {
    let (client, topic) = (client().await, topic("get"));
    let id = client.published(&topic, json!({"payload": 1})).await;
    let seen = client.get(&id.to_uppercase()).await.expect(200);
    assert_eq!(seen.text("id"), id);
}

#[tokio::test]
async fn reading_changes_nothing() {
    let (client, topic) = (client().await, topic("get"));
    let id = client.published(&topic, json!({"payload": 1})).await;
    let first = client.get(&id).await.expect(200).json();
    assert_eq!(client.get(&id).await.expect(200).json(), first);
    assert_eq!(client.lease_one(&topic).await["attempt"], 1);
}

#[tokio::test]
async fn a_message_whose_lease_is_over_is_deleted() {
    let (client, topic) = (client().await, topic("delete"));
    for max_attempts in [10, 1] {
        let message = json!({"payload": 1, "max_attempts": max_attempts});
        let id = client.published(&topic, message).await;
        let held = client.lease_one_with(&topic, json!({"lease_ms": 1000})).await;
        let deleted = eventually("the lease's end", || async {
            let answer = client.delete(&id).await;
            (answer.status != 409).then_some(answer)
        });
        deleted.await.expect(204);
        client.ack_leased(&held).await.problem(404, "message_not_found");
    }
    let seen = topic_in_balance(&client, &topic).await;
    assert_eq!(
        (&seen["totals"]["deleted"], &seen["totals"]["lease_expired"]),
        (&json!(2), &json!(2))
    );
}

#[tokio::test]
async fn an_unknown_message_is_not_found() {
    let (client, topic) = (client().await, topic("get"));
    let id = client.published(&topic, json!({"payload": 1})).await;
    // Of this topic, but never published; and of a topic that never was.
    let beside = format!("{}{:010x}", &id[..26], 0xff_ffff_ffff_u64);
    let nowhere = format!("{}8fff-bfff{}", &id[..14], &id[23..]);
    for id in [beside, nowhere, unknown_id(), "00000000-0000-0000-0000-000000000000".into()] {
        client.get(&id).await.problem(404, "message_not_found");
        client.delete(&id).await.problem(404, "message_not_found");
        client.ack(&id, "x").await.problem(404, "message_not_found");
        client.nack(&id, "x", json!({})).await.problem(404, "message_not_found");
        client.extend(&id, "x", 1000).await.problem(404, "message_not_found");
    }
}
