//! ackMessage: the end of a message.

use serde_json::json;

use crate::facts::topic_in_balance;
use crate::harness::*;

#[tokio::test]
async fn repeating_an_ack_says_that_the_first_was_done() {
    let (client, topic) = (client().await, topic("ack"));
    client.published(&topic, json!({"payload": 1})).await;
    let held = client.lease_one(&topic).await;
    client.ack_leased(&held).await.expect(204);
    client.ack_leased(&held).await.problem(404, "message_not_found");
    assert_eq!(topic_in_balance(&client, &topic).await["totals"]["acked"], 1);
}

#[tokio::test]
async fn of_two_acks_at_once_one_is_done() {
    let (client, topic) = (client().await, topic("ack"));
    for _ in 0..20 {
        client.published(&topic, json!({"payload": 1})).await;
        let held = client.lease_one(&topic).await;
        let (a, b) = tokio::join!(client.ack_leased(&held), client.ack_leased(&held));
        let mut statuses = [a.status, b.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [204, 404]);
    }
    assert_eq!(topic_in_balance(&client, &topic).await["totals"]["acked"], 20);
}

#[tokio::test]
async fn a_message_that_nobody_holds_cannot_be_acked() {
    let (client, topic) = (client().await, topic("ack"));
    client.published(&topic, json!({"payload": 1})).await;
    let held = client.lease_one(&topic).await;
    let token = text(&held, "lease_token");
    let ready = client.published(&topic, json!({"payload": 2})).await;
    let delayed = client.published(&topic, json!({"payload": 3, "delay_ms": 60_000})).await;
    for id in [ready, delayed] {
        client.ack(&id, token).await.problem(409, "lease_lost");
        client.ack(&id, "x").await.problem(409, "lease_lost");
    }
    assert_eq!(topic_in_balance(&client, &topic).await["totals"]["acked"], 0);
}

#[tokio::test]
async fn an_unknown_message_is_not_found_whatever_the_token() {
    let (client, topic) = (client().await, topic("ack"));
    client.published(&topic, json!({"payload": 1})).await;
    let held = client.lease_one(&topic).await;
    for token in [text(&held, "lease_token"), "x", &"A".repeat(64)] {
        client.ack(&unknown_id(), token).await.problem(404, "message_not_found");
    }
}
