//! `events`: what happened to a message when, the last twenty, and nothing written for one that
//! succeeds at once.

use serde_json::{Value, json};

use crate::facts::{column, events, killed, reaches, topic_in_balance};
use crate::harness::*;

/// The kinds of a message's events, without the grants.
async fn kinds(client: &Client, id: &str) -> Vec<String> {
    let mut kinds = column(&events(client, id).await, "kind");
    kinds.retain(|kind| kind != "granted");
    kinds
}

/// Each event has its instant within these, and none is older than the one before it.
fn in_order(events: &[Value], from: i64, to: i64) {
    let at: Vec<i64> = events.iter().map(|event| instant_ms(text(event, "at"))).collect();
    assert!(at.is_sorted(), "{events:?}");
    assert!(at.iter().all(|at| (from..=to).contains(at)), "{from}..{to}: {events:?}");
}

#[tokio::test]
async fn a_new_message_was_published() {
    let (client, topic) = (client().await, topic("events"));
    for delay in [0, 60_000] {
        let sent = client.publish(&topic, json!({"payload": 1, "delay_ms": delay})).await;
        let events = events(&client, &sent.text("id")).await;
        assert_eq!(column(&events, "kind"), ["published"], "{events:?}");
        assert_eq!(events[0]["at"], sent.json()["published_at"]);
    }
}

#[tokio::test]
async fn a_whole_life_is_told_in_order() {
    let (client, topic) = (client().await, topic("events"));
    let redis = &shared().await.redis;
    let message = json!({"payload": 1, "max_attempts": 3});
    let sent = client.publish(&topic, message).await.expect(201);
    let (id, from) = (sent.text("id"), sent.instant("published_at"));
    let nack = async |more: Value| {
        let held = client.lease_one(&topic).await;
        client.nack_leased(&held, more).await.expect(200);
    };
    nack(json!({"delay_ms": 60_000, "reason": "first"})).await;
    client.update(&id, json!({"delay_ms": 0})).await.expect(200);
    nack(json!({"release": true, "reason": "second"})).await;
    client.lease_one_with(&topic, json!({"lease_ms": 1000})).await;
    reaches(&client, &id, "ready").await;
    nack(json!({"reason": "fourth"})).await; // the third counted grant: its last
    client.redrive(&id).await.expect(200);
    let seen = events(&client, &id).await;
    in_order(&seen, from, redis.time_up_ms().await);
    let told: Vec<&Value> = seen.iter().filter(|event| event["kind"] != "granted").collect();
    let wanted = [
        ("published", None, None),
        ("nacked", Some(1), Some("first")),
        ("updated", None, None),
        ("released", Some(2), Some("second")),
        ("lease_expired", Some(3), None),
        ("nacked", Some(4), Some("fourth")),
        ("dead", None, None),
        ("redriven", None, None),
    ];
    let told_kinds: Vec<&str> = told.iter().map(|event| text(event, "kind")).collect();
    assert_eq!(told_kinds, wanted.map(|(kind, _, _)| kind), "{seen:?}");
    for (event, (kind, attempt, reason)) in told.iter().zip(wanted) {
        if let Some(attempt) = attempt {
            assert_eq!(event["attempt"], attempt, "{kind}: {seen:?}");
        }
        if matches!(kind, "nacked" | "released") {
            assert_eq!(event["reason"].as_str(), reason, "{seen:?}");
        }
    }
    assert_eq!(client.get(&id).await.expect(200).text("last_error"), "fourth");
    topic_in_balance(&client, &topic).await;
}

#[tokio::test]
async fn a_failed_attempt_shows_when_it_was_granted() {
    let (client, topic) = (client().await, topic("events"));
    let id = client.published(&topic, json!({"payload": 1})).await;
    for attempt in 1..=3 {
        let held = client.lease_one_with(&topic, json!({"lease_ms": 40_000})).await;
        client.extend_leased(&held, 90_000).await.expect(200);
        client.nack_leased(&held, json!({"delay_ms": 0})).await.expect(200);
        let seen = events(&client, &id).await;
        let last: Vec<&Value> = seen.iter().rev().take(2).collect();
        assert_eq!((&last[0]["kind"], &last[0]["attempt"]), (&json!("nacked"), &json!(attempt)));
        assert_eq!((&last[1]["kind"], &last[1]["attempt"]), (&json!("granted"), &json!(attempt)));
        let granted = instant_ms(text(last[1], "at"));
        assert_eq!(granted, crate::facts::granted_ms(&held, 40_000), "{seen:?}");
    }
}

#[tokio::test]
async fn an_expired_lease_is_told_without_anybody_leasing() {
    let (client, topic) = (client().await, topic("events"));
    for (max_attempts, state, kinds_wanted) in [
        (10, "ready", &["published", "lease_expired"][..]),
        (1, "dead", &["published", "lease_expired", "dead"]),
    ] {
        let message = json!({"payload": 1, "max_attempts": max_attempts});
        let id = client.published(&topic, message).await;
        let held = client.lease_one_with(&topic, json!({"lease_ms": 1000})).await;
        reaches(&client, &id, state).await;
        assert_eq!(kinds(&client, &id).await, kinds_wanted);
        let seen = events(&client, &id).await;
        let over = seen.iter().find(|event| event["kind"] == "lease_expired").unwrap();
        assert_eq!((&over["attempt"], &over["at"]), (&json!(1), &held["lease_expires_at"]));
        let published = instant_ms(text(&held, "published_at"));
        in_order(&seen, published, shared().await.redis.time_up_ms().await);
        client.delete(&id).await.expect(204);
    }
}

#[tokio::test]
async fn a_death_by_nack_is_told_with_its_reason() {
    let (client, topic) = (client().await, topic("events"));
    for (message, more) in [
        (json!({"payload": 1}), json!({"dead": true, "reason": "why"})),
        (json!({"payload": 1, "max_attempts": 1}), json!({"reason": "why"})),
    ] {
        let id = client.published(&topic, message).await;
        client.nack_leased(&client.lease_one(&topic).await, more).await.expect(200);
        assert_eq!(kinds(&client, &id).await, ["published", "nacked", "dead"]);
        let seen = events(&client, &id).await;
        let nacked = seen.iter().find(|event| event["kind"] == "nacked").unwrap();
        assert_eq!((&nacked["reason"], &nacked["attempt"]), (&json!("why"), &json!(1)));
    }
}

#[tokio::test]
async fn the_last_twenty_are_kept() {
    let (client, topic) = (client().await, topic("events"));
    let from = shared().await.redis.time_ms().await;
    let message = json!({"payload": 1, "max_attempts": 1000, "key": "k"});
    let id = client.published(&topic, message).await;
    for attempt in 1..=30 {
        let held = client.lease_one(&topic).await;
        let more = json!({"delay_ms": 0, "reason": format!("failure {attempt}")});
        client.nack_leased(&held, more).await.expect(200);
        assert!(events(&client, &id).await.len() <= 20);
    }
    let seen = events(&client, &id).await;
    assert_eq!(seen.len(), 20, "{seen:?}");
    in_order(&seen, from - 100, shared().await.redis.time_up_ms().await);
    let last = seen.last().unwrap();
    assert_eq!((&last["kind"], &last["attempt"]), (&json!("nacked"), &json!(30)));
    let nacked: Vec<i64> = seen
        .iter()
        .filter(|event| event["kind"] == "nacked")
        .map(|event| number(event, "attempt"))
        .collect();
    let first = 31 - i64::try_from(nacked.len()).unwrap();
    assert_eq!(nacked, (first..=30).collect::<Vec<_>>(), "the last ones, none left out");
}

#[tokio::test]
async fn changes_and_redrives_are_told() {
    let (client, topic) = (client().await, topic("events"));
    let id = client.published(&topic, json!({"payload": 1, "delay_ms": 60_000})).await;
    for change in [json!({"priority": 4}), json!({"payload": 2}), json!({"delay_ms": 90_000})] {
        client.update(&id, change).await.expect(200);
    }
    assert_eq!(kinds(&client, &id).await, ["published", "updated", "updated", "updated"]);
    client.update(&id, json!({"priority": 256})).await.refused(422);
    assert_eq!(kinds(&client, &id).await.len(), 4, "a refusal changes nothing");
    let id = killed(&client, &topic, json!({"payload": 1})).await;
    client.update(&id, json!({"payload": "mended"})).await.expect(200);
    client.redrive(&id).await.expect(200);
    let wanted = ["published", "nacked", "dead", "updated", "redriven"];
    assert_eq!(kinds(&client, &id).await, wanted);
    client.redrive(&id).await.problem(409, "message_not_dead");
    assert_eq!(kinds(&client, &id).await, wanted);
}

/// How many keys of Redis hold events of this topic.
async fn kept(topic: &str) -> usize {
    let pattern = format!("*{{{topic}:0}}*event*");
    let found: Vec<String> = shared().await.redis.command(&["KEYS", &pattern]).await;
    found.len()
}

#[tokio::test]
async fn a_message_acked_at_its_first_attempt_writes_none() {
    let (client, topic) = (client().await, topic("events"));
    for message in [
        json!({"payload": 1}),
        json!({"payload": 1, "priority": 3, "key": "k", "ttl_ms": 60_000, "headers": {"x": "y"}}),
        json!({"payload": 1, "delay_ms": 5, "idempotency_key": "r", "max_attempts": 2}),
    ] {
        client.published(&topic, message).await;
        let held = client.lease_one(&topic).await;
        client.extend_leased(&held, 60_000).await.expect(200);
        assert_eq!(kept(&topic).await, 0);
        client.ack_leased(&held).await.expect(204);
        assert_eq!(kept(&topic).await, 0);
    }
    client.published(&topic, json!({"payload": 1})).await;
    let held = client.lease_one(&topic).await;
    client.nack_leased(&held, json!({"delay_ms": 0})).await.expect(200);
    assert!(kept(&topic).await > 0, "else this test looks in the wrong place");
    client.ack_leased(&client.lease_one(&topic).await).await.expect(204);
    assert_eq!(kept(&topic).await, 0, "no side entry without its message");
}

#[tokio::test]
async fn events_go_with_their_message() {
    let (client, topic) = (client().await, topic("events"));
    for end in ["ack", "delete", "force", "purge"] {
        let id = client.published(&topic, json!({"payload": 1})).await;
        let held = client.lease_one(&topic).await;
        client.nack_leased(&held, json!({"delay_ms": 0, "reason": "x"})).await.expect(200);
        match end {
            "ack" => {
                client.ack_leased(&client.lease_one(&topic).await).await.expect(204);
            }
            "delete" => drop(client.delete(&id).await.expect(204)),
            "force" => {
                client.lease_one(&topic).await;
                client.delete_by_force(&id).await.expect(204);
            }
            _ => {
                let states = json!({"states": ["ready"]});
                client.post(&format!("/topics/{topic}/purge"), &states).await.expect(200);
            }
        }
        assert_eq!(kept(&topic).await, 0, "after {end}");
    }
    topic_in_balance(&client, &topic).await;
}
