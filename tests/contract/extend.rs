//! extendLease: more time for its holder, within limits.

use serde_json::json;

use crate::facts::granted_ms;
use crate::harness::*;

#[tokio::test]
async fn a_lease_is_extended_from_now() {
    let (client, topic) = (client().await, topic("extend"));
    let id = client.published(&topic, json!({"payload": 1})).await;
    let held = client.lease_one(&topic).await;
    let before = shared().await.redis.time_ms().await;
    let answer = client.extend_leased(&held, 90_000).await.expect(200);
    let after = shared().await.redis.time_up_ms().await;
    assert_eq!(answer.text("id"), id);
    let end = answer.instant("lease_expires_at");
    assert!((before + 90_000..=after + 90_000).contains(&end), "{before} {after} {answer}");
    assert!((89_000..=90_000).contains(&answer.number("lease_ms")), "{answer}");
    let seen = client.get(&id).await.expect(200).json();
    assert_eq!(seen["lease_expires_at"], answer.json()["lease_expires_at"]);
}

#[tokio::test]
async fn a_lease_never_becomes_shorter() {
    let (client, topic) = (client().await, topic("extend"));
    client.published(&topic, json!({"payload": 1})).await;
    let held = client.lease_one(&topic).await;
    let answer = client.extend_leased(&held, 1000).await.expect(200);
    assert_eq!(answer.json()["lease_expires_at"], held["lease_expires_at"]);
    assert!(answer.number("lease_ms") > 20_000, "the time left: {answer}");
}

#[tokio::test]
async fn a_lease_never_passes_twelve_hours_from_its_grant() {
    let (client, topic) = (client().await, topic("extend"));
    for first in [1000, 43_200_000] {
        client.published(&topic, json!({"payload": 1})).await;
        let held = client.lease_one_with(&topic, json!({"lease_ms": first})).await;
        for _ in 0..2 {
            let answer = client.extend_leased(&held, 43_200_000).await.expect(200);
            let cap = granted_ms(&held, first) + 43_200_000;
            assert_eq!(answer.instant("lease_expires_at"), cap, "{held} {answer}");
        }
    }
}

#[tokio::test]
async fn an_extended_message_stays_with_its_holder_past_the_first_deadline() {
    let (client, topic) = (client().await, topic("extend"));
    client.published(&topic, json!({"payload": 1})).await;
    let held = client.lease_one_with(&topic, json!({"lease_ms": 1000})).await;
    client.extend_leased(&held, 20_000).await.expect(200);
    assert!(client.leased(&topic, json!({"wait_ms": 1500})).await.is_empty());
    client.ack_leased(&held).await.expect(204);
}

#[tokio::test]
async fn only_the_holder_extends() {
    let (client, topic) = (client().await, topic("extend"));
    let id = client.published(&topic, json!({"payload": 1})).await;
    let held = client.lease_one(&topic).await;
    client.extend(&id, "forged", 60_000).await.problem(409, "lease_lost");
    let seen = client.get(&id).await.expect(200).json();
    assert_eq!(seen["lease_expires_at"], held["lease_expires_at"]);
    client.extend(&unknown_id(), "x", 60_000).await.problem(404, "message_not_found");
}

#[tokio::test]
async fn a_last_attempt_is_extended_like_any_other() {
    let (client, topic) = (client().await, topic("extend"));
    client.published(&topic, json!({"payload": 1, "max_attempts": 1})).await;
    let held = client.lease_one_with(&topic, json!({"lease_ms": 1000})).await;
    client.extend_leased(&held, 60_000).await.expect(200);
    assert!(client.leased(&topic, json!({"wait_ms": 1300})).await.is_empty());
    assert_eq!(client.state(text(&held, "id")).await, "leased");
    client.ack_leased(&held).await.expect(204);
}
