//! Keys, idempotency keys and reasons take any character, a NUL among them, and keep it whatever happens to the message.

use serde_json::{Value, json};

use crate::facts::topic_in_balance;
use crate::harness::*;

/// All control characters, a NUL first, in the middle of a text.
fn controls() -> String {
    let controls = (0..0x20_u8).chain([0x7f]).map(char::from);
    ["a"].into_iter().map(String::from).chain(controls.map(String::from)).collect::<String>() + "b"
}

#[tokio::test]
async fn a_key_with_a_nul_is_kept_through_nack_death_and_redrive() {
    for (key, cut) in [("a\0b".to_owned(), "a"), ("\0".to_owned(), "x"), (controls(), "a")] {
        let (client, topic) = (client().await, topic("nul"));
        let id = client.published(&topic, json!({"payload": 1, "key": key})).await;
        for more in [json!({"delay_ms": 0}), json!({"dead": true})] {
            let held = client.lease_one(&topic).await;
            assert_eq!(held["key"], json!(key));
            client.nack_leased(&held, more).await.expect(200);
        }
        let redriven = client.redrive(&id).await.expect(200).json();
        assert_eq!(redriven["key"], json!(key), "{redriven}");
        let other = client.publish(&topic, json!({"payload": 2, "key": cut})).await.expect(201);
        assert_ne!(other.text("id"), id);
        let again = client.publish(&topic, json!({"payload": 3, "key": key})).await.expect(200);
        assert_eq!(again.text("id"), id);
        let listed = client.listed(&topic, "state=ready").await;
        assert!(listed.iter().any(|message| message["key"] == json!(key)), "{listed:?}");
        topic_in_balance(&client, &topic).await;
    }
}

#[tokio::test]
async fn a_key_with_a_nul_is_kept_when_a_lease_ends_and_when_the_message_is_replaced_and_updated() {
    let (client, topic, key) = (client().await, topic("nul"), controls());
    client.new_topic(&topic, json!({"ttl_ms": 600_000})).await;
    let message = json!({"payload": 1, "key": key, "on_duplicate": "replace", "ttl_ms": 300_000});
    let id = client.published(&topic, message.clone()).await;
    assert_eq!(client.publish(&topic, message).await.expect(200).text("id"), id);
    let updated = client.update(&id, json!({"priority": 3})).await.expect(200).json();
    assert_eq!(updated["key"], json!(key));
    let held = client.lease_one_with(&topic, json!({"lease_ms": 1000})).await;
    assert_eq!(held["key"], json!(key));
    let again = client.lease_one_with(&topic, json!({"wait_ms": 10_000})).await;
    assert_eq!((&again["key"], &again["attempt"]), (&json!(key), &json!(2)));
    client.ack_leased(&again).await.expect(204);
    client.publish(&topic, json!({"payload": 1, "key": key})).await.expect(201);
}

#[tokio::test]
async fn an_idempotency_key_with_a_nul_is_told_from_what_stands_before_it() {
    let (client, topic) = (client().await, topic("nul"));
    let publish = |key: &str| client.publish(&topic, json!({"payload": 1, "idempotency_key": key}));
    let first = publish("a\0b").await.expect(201).text("id");
    assert_ne!(publish("a").await.expect(201).text("id"), first);
    assert_ne!(publish("a\0").await.expect(201).text("id"), first);
    assert_eq!(publish("a\0b").await.expect(200).text("id"), first);
}

#[tokio::test]
async fn a_reason_keeps_every_character() {
    let (client, topic) = (client().await, topic("nul"));
    let long = "\0".repeat(1024);
    let id = client.published(&topic, json!({"payload": 1})).await;
    for reason in [controls(), long, "\u{2028}\u{ffff}\u{1f980}\"\\".to_owned()] {
        let held = client.lease_one(&topic).await;
        client.nack_leased(&held, json!({"delay_ms": 0, "reason": reason})).await.expect(200);
        let message: Value = client.get(&id).await.expect(200).json();
        assert_eq!(message["last_error"], json!(reason));
        let events = message["events"].as_array().unwrap();
        assert_eq!(events.last().unwrap()["reason"], json!(reason));
    }
}
