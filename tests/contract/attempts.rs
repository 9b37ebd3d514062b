//! Attempts: counted by every grant, and what happens when they are used up.

use serde_json::{Value, json};

use crate::facts::{fail_attempts, topic_in_balance};
use crate::harness::*;

#[tokio::test]
async fn after_ten_failed_attempts_a_message_is_dead() {
    let (client, topic) = (client().await, topic("attempts"));
    let id = client.published(&topic, json!({"payload": 1})).await;
    for attempt in 1..=10 {
        let held = client.lease_one(&topic).await;
        assert_eq!(
            (number(&held, "attempt"), number(&held, "attempts_left")),
            (attempt, 10 - attempt)
        );
        let answer = client.nack_leased(&held, json!({"delay_ms": 0})).await.expect(200);
        assert_eq!(answer.number("attempt"), attempt);
        assert_eq!(answer.text("state"), if attempt < 10 { "ready" } else { "dead" });
        let seen = client.get(&id).await.expect(200).json();
        assert_eq!(
            (number(&seen, "attempts"), number(&seen, "attempts_left")),
            (attempt, 10 - attempt)
        );
    }
    assert!(client.leased(&topic, json!({})).await.is_empty());
    let seen = topic_in_balance(&client, &topic).await;
    assert_eq!((&seen["counts"]["dead"], &seen["totals"]["dead"]), (&json!(1), &json!(1)));
    assert_eq!((&seen["totals"]["granted"], &seen["totals"]["nacked"]), (&json!(10), &json!(10)));
}

#[tokio::test]
async fn failures_by_nack_and_by_expiry_count_alike() {
    let (client, topic) = (client().await, topic("attempts"));
    let id = client.published(&topic, json!({"payload": 1, "max_attempts": 3})).await;
    client.lease_one_with(&topic, json!({"lease_ms": 1000})).await;
    fail_attempts(&client, &topic, 1).await; // waits for the first lease's end
    let last = client.lease_one_with(&topic, json!({"lease_ms": 1000})).await;
    assert_eq!((&last["attempt"], &last["attempts_left"]), (&json!(3), &json!(0)));
    eventually("its death", || async { (client.state(&id).await == "dead").then_some(()) }).await;
    let seen = topic_in_balance(&client, &topic).await;
    assert_eq!(seen["counts"]["dead"], 1);
    assert!(client.leased(&topic, json!({})).await.is_empty(), "no fourth attempt");
    let seen = topic_in_balance(&client, &topic).await;
    let totals = &seen["totals"];
    assert_eq!((&totals["nacked"], &totals["lease_expired"]), (&json!(1), &json!(2)));
    assert_eq!((&totals["granted"], &totals["dead"]), (&json!(3), &json!(1)));
}

#[tokio::test]
async fn an_ack_of_the_last_attempt_saves_the_message() {
    let (client, topic) = (client().await, topic("attempts"));
    client.published(&topic, json!({"payload": 1, "max_attempts": 3})).await;
    fail_attempts(&client, &topic, 2).await;
    let last = client.lease_one(&topic).await;
    assert_eq!(last["attempts_left"], 0);
    client.ack_leased(&last).await.expect(204);
    let seen = topic_in_balance(&client, &topic).await;
    assert_eq!((&seen["counts"]["dead"], &seen["totals"]["dead"]), (&json!(0), &json!(0)));
}

#[tokio::test]
async fn attempts_are_each_messages_own() {
    let (client, topic) = (client().await, topic("attempts"));
    for max_attempts in [1, 2, 1000] {
        client.published(&topic, json!({"payload": 1, "max_attempts": max_attempts})).await;
    }
    let plain = client.published(&topic, json!({"payload": 1})).await;
    let held = client.leased(&topic, json!({"max_messages": 10})).await;
    let left: Vec<i64> = held.iter().map(|m| number(m, "attempts_left")).collect();
    assert_eq!(left, [0, 1, 999, 9]);
    for message in &held {
        client.nack_leased(message, json!({"delay_ms": 0})).await.expect(200);
    }
    let again = client.leased(&topic, json!({"max_messages": 10})).await;
    let mut seen: Vec<(i64, i64)> =
        again.iter().map(|m| (number(m, "attempt"), number(m, "attempts_left"))).collect();
    seen.sort_unstable();
    assert_eq!(seen, [(2, 0), (2, 8), (2, 998)]);
    assert!(again.iter().any(|m| m["id"] == plain.as_str()));
}

/// Fails the one message of the topic so often, at once.
async fn fail(client: &Client, topic: &str, times: usize) {
    for _ in 0..times {
        let held = client.lease_one(topic).await;
        client.nack_leased(&held, json!({"delay_ms": 0})).await.expect(200);
    }
}

#[tokio::test]
async fn a_message_whose_attempts_are_lowered_below_its_failures_dies_of_it() {
    for priority in [0, 7] {
        let (client, topic) = (client().await, topic("attempts"));
        let id = client.published(&topic, json!({"payload": 1, "priority": priority})).await;
        fail(&client, &topic, 3).await;
        let more = client.update(&id, json!({"max_attempts": 4})).await.expect(200).json();
        assert_eq!((&more["state"], &more["attempts_left"]), (&json!("ready"), &json!(1)));
        let dead = client.update(&id, json!({"max_attempts": 3})).await.expect(200).json();
        assert_eq!((&dead["state"], &dead["attempts_left"]), (&json!("dead"), &json!(0)));
        assert_eq!(client.leased(&topic, json!({})).await, Vec::<Value>::new());
        assert_eq!(client.total(&topic, "dead").await, 1);
        let events = client.get(&id).await.expect(200).json()["events"].clone();
        assert_eq!(events.as_array().unwrap().last().unwrap()["kind"], json!("dead"));
        client.redrive(&id).await.expect(200);
        assert_eq!(number(&client.lease_one(&topic).await, "attempts_left"), 2);
        topic_in_balance(&client, &topic).await;
    }
}

#[tokio::test]
async fn a_topic_whose_attempts_are_lowered_grants_none_that_failed_as_often() {
    for priority in [0, 7] {
        let (client, topic) = (client().await, topic("attempts"));
        let failed = json!({"payload": 1, "priority": priority});
        let (spent, own) = (failed.clone(), json!({"payload": 2, "max_attempts": 9}));
        let spent = client.published(&topic, spent).await;
        fail(&client, &topic, 2).await;
        client.update_topic(&topic, json!({"max_attempts": 2})).await.expect(200);
        let own = client.published(&topic, own).await;
        let held = client.leased(&topic, json!({"max_messages": 10, "wait_ms": 2000})).await;
        assert_eq!(held.len(), 1, "{held:?}");
        assert_eq!(held[0]["id"], json!(own));
        assert_eq!(client.state(&spent).await, "dead");
        topic_in_balance(&client, &topic).await;
    }
}
