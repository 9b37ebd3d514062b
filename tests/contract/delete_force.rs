//! deleteMessage with `force`: a leased message goes too, and its holder finds it gone.

use serde_json::json;

use crate::facts::{counted, dead_message, gone, topic_in_balance};
use crate::harness::*;

#[tokio::test]
async fn a_leased_message_is_deleted_by_force_and_its_holder_finds_it_gone() {
    let (client, topic) = (client().await, topic("force"));
    for message in [
        json!({"payload": 1}),
        json!({"payload": 1, "priority": 5}),
        json!({"payload": 1, "max_attempts": 1}),
        json!({"payload": 1, "key": "k", "ttl_ms": 60_000, "idempotency_key": "r"}),
    ] {
        let id = client.published(&topic, message).await;
        let held = client.lease_one(&topic).await;
        client.delete(&id).await.problem(409, "message_leased");
        client.delete_by_force(&id).await.expect(204);
        gone(&client, &id).await;
        client.ack_leased(&held).await.problem(404, "message_not_found");
        client.nack_leased(&held, json!({})).await.problem(404, "message_not_found");
        client.extend_leased(&held, 60_000).await.problem(404, "message_not_found");
        client.delete_by_force(&id).await.problem(404, "message_not_found");
        let acks = json!({"acks": [{"id": id, "lease_token": held["lease_token"]}]});
        let answer = client.lease(&topic, acks).await.expect(200).json();
        assert_eq!(answer["acks"][0]["status"], "message_not_found");
        assert_eq!(answer["messages"], json!([]), "and nobody gets it");
    }
    let wanted = [
        ("totals", "deleted", 4),
        ("totals", "deleted_leased", 4),
        ("counts", "leased", 0),
        ("totals", "acked", 0),
    ];
    counted(&client, &topic, &wanted).await;
}

#[tokio::test]
async fn force_on_a_message_that_nobody_holds_is_a_plain_delete() {
    let (client, topic) = (client().await, topic("force"));
    let dead = dead_message(&client, &topic).await;
    let ready = client.published(&topic, json!({"payload": 1})).await;
    let delayed = client.published(&topic, json!({"payload": 1, "delay_ms": 60_000})).await;
    for id in [&dead, &ready, &delayed] {
        client.delete_by_force(id).await.expect(204);
        gone(&client, id).await;
    }
    counted(&client, &topic, &[("totals", "deleted", 3), ("totals", "deleted_leased", 0)]).await;
}

#[tokio::test]
async fn force_on_an_unknown_message_is_not_found() {
    client().await.delete_by_force(&unknown_id()).await.problem(404, "message_not_found");
}

#[tokio::test]
async fn the_lease_of_another_message_goes_on() {
    let (client, topic) = (client().await, topic("force"));
    for n in 0..3 {
        client.published(&topic, json!({"payload": n})).await;
    }
    let held = client.leased(&topic, json!({"max_messages": 3})).await;
    client.delete_by_force(text(&held[1], "id")).await.expect(204);
    for n in [0, 2] {
        client.extend_leased(&held[n], 60_000).await.expect(200);
        client.ack_leased(&held[n]).await.expect(204);
    }
    counted(&client, &topic, &[("totals", "acked", 2), ("totals", "deleted_leased", 1)]).await;
}

#[tokio::test]
async fn after_the_lease_force_deletes_what_nobody_holds() {
    let (client, topic) = (client().await, topic("force"));
    for max_attempts in [10, 1] {
        let message = json!({"payload": 1, "max_attempts": max_attempts});
        let id = client.published(&topic, message).await;
        client.lease_one_with(&topic, json!({"lease_ms": 1000})).await;
        let state = if max_attempts == 1 { "dead" } else { "ready" };
        crate::facts::reaches(&client, &id, state).await;
        client.delete_by_force(&id).await.expect(204);
    }
    let wanted =
        [("totals", "deleted", 2), ("totals", "deleted_leased", 0), ("totals", "lease_expired", 2)];
    counted(&client, &topic, &wanted).await;
}

#[tokio::test]
async fn of_an_ack_and_a_forced_delete_at_once_one_is_done() {
    let (client, topic) = (client().await, topic("force"));
    let (mut acked, mut deleted) = (0, 0);
    for _ in 0..20 {
        let id = client.published(&topic, json!({"payload": 1})).await;
        let held = client.lease_one(&topic).await;
        let (ack, delete) = tokio::join!(client.ack_leased(&held), client.delete_by_force(&id));
        match (ack.status, delete.status) {
            (204, 404) => acked += 1,
            (404, 204) => deleted += 1,
            other => panic!("{other:?}: {ack} {delete}"),
        }
    }
    let seen = topic_in_balance(&client, &topic).await;
    assert_eq!(
        (&seen["totals"]["acked"], &seen["totals"]["deleted_leased"]),
        (&json!(acked), &json!(deleted))
    );
}
