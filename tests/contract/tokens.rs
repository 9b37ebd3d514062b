//! Lease tokens: only the one of the present lease is good, and only until its end. Whatever is
//! refused changes nothing.

use serde_json::{Value, json};

use crate::harness::*;

/// Acks, nacks and extends with this token; all must answer `lease_lost`, in the body of a lease
/// request too, and the message must stay as it is.
async fn refused(client: &Client, id: &str, token: &str) {
    let before = client.get(id).await.expect(200).json();
    client.ack(id, token).await.problem(409, "lease_lost");
    client.nack(id, token, json!({"delay_ms": 0})).await.problem(409, "lease_lost");
    client.extend(id, token, 600_000).await.problem(409, "lease_lost");
    let acks = json!({"acks": [{"id": id, "lease_token": token}]});
    let answer = client.lease(&topic("tokens-nothing"), acks).await.expect(200).json();
    assert_eq!(answer["acks"], json!([{"id": id, "status": "lease_lost"}]));
    assert_eq!(client.get(id).await.expect(200).json(), before, "nothing has changed");
}

/// Publishes and leases: the leased message.
async fn held(client: &Client, topic: &str, lease_ms: i64) -> Value {
    client.published(topic, json!({"payload": 1})).await;
    client.lease_one_with(topic, json!({"lease_ms": lease_ms})).await
}

#[tokio::test]
async fn a_token_of_an_earlier_attempt_is_stale() {
    let (client, topic) = (client().await, topic("tokens"));
    let first = held(&client, &topic, 30_000).await;
    client.nack_leased(&first, json!({"delay_ms": 0})).await.expect(200);
    refused(&client, text(&first, "id"), text(&first, "lease_token")).await;
    let second = client.lease_one(&topic).await;
    assert_ne!(first["lease_token"], second["lease_token"]);
    refused(&client, text(&first, "id"), text(&first, "lease_token")).await;
    client.ack_leased(&second).await.expect(204);
}

#[tokio::test]
async fn a_token_ends_with_its_lease() {
    let (client, topic) = (client().await, topic("tokens"));
    let first = held(&client, &topic, 1000).await;
    let (id, token) = (text(&first, "id"), text(&first, "lease_token"));
    eventually("the lease's end", || async { (client.state(id).await == "ready").then_some(()) })
        .await;
    refused(&client, id, token).await;
    let second = client.lease_one(&topic).await;
    refused(&client, id, token).await;
    client.ack_leased(&second).await.expect(204);
}

#[tokio::test]
async fn a_token_of_another_message_is_worth_nothing() {
    let (client, topic, other) = (client().await, topic("tokens"), topic("tokens-other"));
    let mine = held(&client, &topic, 30_000).await;
    let beside = held(&client, &topic, 30_000).await;
    let elsewhere = held(&client, &other, 30_000).await;
    for foreign in [&beside, &elsewhere] {
        refused(&client, text(&mine, "id"), text(foreign, "lease_token")).await;
    }
    for message in [&mine, &beside, &elsewhere] {
        client.ack_leased(message).await.expect(204);
    }
}

#[tokio::test]
async fn a_token_cannot_be_made_up() {
    let (client, topic) = (client().await, topic("tokens"));
    let message = held(&client, &topic, 30_000).await;
    for forged in ["0", " ", "x", "\u{0}", "é", "null", "../..", &"A".repeat(64), &unknown_id()] {
        refused(&client, text(&message, "id"), forged).await;
    }
    client.ack_leased(&message).await.expect(204);
}

#[tokio::test]
async fn a_token_with_any_character_changed_is_refused() {
    let (client, topic) = (client().await, topic("tokens"));
    let message = held(&client, &topic, 30_000).await;
    let (id, token) = (text(&message, "id"), text(&message, "lease_token"));
    let other = |c: char| if c == 'A' { 'B' } else { 'A' };
    for at in 0..token.len() {
        let changed: String =
            token.chars().enumerate().map(|(i, c)| if i == at { other(c) } else { c }).collect();
        client.ack(id, &changed).await.problem(409, "lease_lost");
    }
    for changed in
        [&token[1..], &token[..token.len() - 1], &format!("{token}="), &format!(" {token}")]
    {
        client.ack(id, changed).await.problem(409, "lease_lost");
    }
    client.ack(id, token).await.expect(204);
}

#[tokio::test]
async fn tokens_do_not_repeat() {
    let (client, topic) = (client().await, topic("tokens"));
    let mut seen = Vec::new();
    client.published(&topic, json!({"payload": 1, "max_attempts": 1000})).await;
    for _ in 0..20 {
        let message = client.lease_one(&topic).await;
        seen.push(text(&message, "lease_token").to_owned());
        client.nack_leased(&message, json!({"delay_ms": 0})).await.expect(200);
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 20);
}

#[tokio::test]
async fn the_token_of_a_last_attempt_is_as_good_and_as_bad_as_any() {
    let (client, topic) = (client().await, topic("tokens"));
    for end in ["ack", "expiry"] {
        let id = client.published(&topic, json!({"payload": 1, "max_attempts": 2})).await;
        let first = client.lease_one(&topic).await;
        client.nack_leased(&first, json!({"delay_ms": 0})).await.expect(200);
        let last = client.lease_one_with(&topic, json!({"lease_ms": 1000})).await;
        assert_eq!(last["attempts_left"], 0);
        refused(&client, &id, text(&first, "lease_token")).await;
        if end == "ack" {
            client.ack_leased(&last).await.expect(204);
        } else {
            eventually("its death", || async { (client.state(&id).await == "dead").then_some(()) })
                .await;
            refused(&client, &id, text(&last, "lease_token")).await;
        }
    }
}

#[tokio::test]
async fn a_token_survives_extending() {
    let (client, topic) = (client().await, topic("tokens"));
    let message = held(&client, &topic, 30_000).await;
    for _ in 0..3 {
        client.extend_leased(&message, 60_000).await.expect(200);
    }
    client.ack_leased(&message).await.expect(204);
}

#[tokio::test]
async fn a_dead_message_takes_no_token() {
    let (client, topic) = (client().await, topic("tokens"));
    let id = client.published(&topic, json!({"payload": 1, "max_attempts": 1})).await;
    let message = client.lease_one(&topic).await;
    client.nack_leased(&message, json!({})).await.expect(200);
    refused(&client, &id, text(&message, "lease_token")).await;
}
