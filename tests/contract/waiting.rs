//! `waiting_for`: each reason why a message is not being worked on, caused for real, alone and in lists.

use serde_json::{Value, json};

use crate::facts::killed;
use crate::harness::*;
use crate::lease_limits::spread;
use crate::partitions::{lease_all, split};

/// What a message waits for, as it says alone, and as a list of its state says.
async fn waits(client: &Client, id: &str) -> Value {
    let alone = client.get(id).await.expect(200).json();
    let list = format!("state={}&limit=1000", text(&alone, "state"));
    let listed = client.listed(text(&alone, "topic"), &list).await;
    let listed = listed.iter().find(|it| it["id"] == alone["id"]);
    if let Some(listed) = listed {
        let (mut alone, mut listed) = (alone.clone(), listed.clone());
        if alone["waiting_for"]["reason"] == "rate" {
            // It moves on with each turn.
            for it in [&mut alone, &mut listed] {
                it["waiting_for"]["until"].take();
            }
        }
        assert_eq!(alone["waiting_for"], listed["waiting_for"], "{alone}");
        assert_eq!(alone["due_at"], listed["due_at"], "{alone}");
    }
    alone["waiting_for"].clone()
}

fn reason(waits: &Value) -> &str {
    waits["reason"].as_str().unwrap_or_else(|| panic!("{waits}"))
}

fn only(reason: &str) -> Value {
    json!({"reason": reason})
}

#[tokio::test]
async fn a_message_waits_for_its_due_time_a_consumer_its_lease_and_its_backoff() {
    let client = client().await;
    for config in [json!({}), json!({"partitions": 4}), json!({"group_order": "fair"})] {
        let topic = topic("waits");
        client.configure(&topic, config).await;
        let id =
            client.published(&topic, json!({"payload": 1, "delay_ms": 60_000, "key": "k"})).await;
        let due = client.get(&id).await.json()["due_at"].clone();
        assert_eq!(waits(&client, &id).await, json!({"reason": "due", "until": due}));
        let by_key = client.get_by_key(&topic, "k").await.expect(200).json();
        assert_eq!(by_key["waiting_for"]["reason"], "due");
        let updated = client.update(&id, json!({"delay_ms": 0})).await.expect(200).json();
        assert_eq!(updated["waiting_for"], only("consumer"));
        assert_eq!(waits(&client, &id).await, only("consumer"));

        let held = client.lease_one(&topic).await;
        let until = &held["lease_expires_at"];
        assert_eq!(waits(&client, &id).await, json!({"reason": "lease", "until": until}));
        client
            .nack_leased(&held, json!({"delay_ms": 60_000, "reason": "no stock"}))
            .await
            .expect(200);
        let seen = waits(&client, &id).await;
        let due = client.get(&id).await.json()["due_at"].clone();
        assert_eq!(seen, json!({"reason": "backoff", "until": due, "error": "no stock"}));
        // Another priority leaves it to its backoff, another due time does not.
        let updated = client.update(&id, json!({"priority": 3})).await.expect(200).json();
        assert_eq!(updated["waiting_for"], seen);
        let updated = client.update(&id, json!({"delay_ms": 50_000})).await.expect(200).json();
        assert_eq!(reason(&updated["waiting_for"]), "due");
        client.update(&id, json!({"delay_ms": 0})).await.expect(200);
        let held = client.lease_one(&topic).await;
        client.nack_leased(&held, json!({"delay_ms": 60_000})).await.expect(200);
        assert!(waits(&client, &id).await.get("error").is_none(), "this failure had none");
        client.update(&id, json!({"delay_ms": 0})).await.expect(200);
        let held = client.lease_one(&topic).await;
        client.nack_leased(&held, json!({"release": true, "delay_ms": 60_000})).await.expect(200);
        assert_eq!(reason(&waits(&client, &id).await), "due", "it did not fail");
    }
}

#[tokio::test]
async fn what_has_ended_waits_for_nothing_until_it_is_redriven() {
    let (client, topic) = (client().await, topic("waits"));
    client.configure(&topic, json!({"retention": {"acked_ms": 60_000}})).await;
    let id = client.published(&topic, json!({"payload": 1})).await;
    let held = client.lease_one(&topic).await;
    client.ack_leased(&held).await.expect(204);
    let dead = killed(&client, &topic, json!({"payload": 2})).await;
    for id in [&id, &dead] {
        let seen = client.get(id).await.expect(200).json();
        assert!(seen.get("waiting_for").is_none(), "{seen}");
    }
    for state in ["dead", "acked"] {
        let listed = client.listed(&topic, &format!("state={state}")).await;
        assert!(listed[0].get("waiting_for").is_none(), "{listed:?}");
    }
    let redriven = client.redrive(&dead).await.expect(200).json();
    assert_eq!(redriven["waiting_for"], only("consumer"));
}

#[tokio::test]
async fn a_paused_topic_holds_up_all_of_its_messages() {
    let client = client().await;
    for partitions in [1, 4] {
        let topic = split(&client, partitions, json!({})).await;
        let ids = [json!({"payload": 1}), json!({"payload": 1, "delay_ms": 60_000, "priority": 2})];
        let mut published = Vec::new();
        for message in ids {
            published.push(client.published(&topic, message).await);
        }
        client.pause_topic(&topic).await.expect(200);
        for id in &published {
            assert_eq!(waits(&client, id).await, only("topic_paused"));
        }
        client.resume_topic(&topic).await.expect(200);
        assert_eq!(waits(&client, &published[0]).await, only("consumer"));
        assert_eq!(reason(&waits(&client, &published[1]).await), "due");
    }
}

#[tokio::test]
async fn a_message_of_a_group_names_the_first_one_ahead_and_how_many_are() {
    let client = client().await;
    for order in ["strict", "fair"] {
        for concurrency in [1, 2] {
            let topic = topic("waits");
            let config = json!({"group_order": order, "group_concurrency": concurrency});
            client.configure(&topic, config).await;
            let mut ids = Vec::new();
            for n in 0..5 {
                ids.push(client.published(&topic, json!({"payload": n, "group": "g"})).await);
            }
            client.published(&topic, json!({"payload": 9, "group": "other"})).await;
            assert_eq!(waits(&client, &ids[0]).await, only("consumer"));
            let held = client.leased(&topic, json!({"max_messages": 10})).await;
            let first = held.iter().find(|it| it["group"] == "g").unwrap();
            assert_eq!(first["id"], ids[0].as_str());
            for (ahead, id) in ids.iter().enumerate().skip(concurrency) {
                let expected = json!({"reason": "group", "message_id": ids[0], "ahead": ahead});
                assert_eq!(waits(&client, id).await, expected, "{order} {concurrency}");
            }
            // Before what is ahead, its own due time and the pause of its group.
            let late = json!({"payload": 5, "group": "g", "delay_ms": 60_000});
            let late = client.published(&topic, late).await;
            assert_eq!(reason(&waits(&client, &late).await), "due", "{order}");
            client.pause_group(&topic, "g", true).await.expect(200);
            assert_eq!(waits(&client, &ids[4]).await, only("group_paused"), "{order}");
            client.pause_group(&topic, "g", false).await.expect(200);
            client.ack_leased(first).await.expect(204);
            let seen = waits(&client, &ids[concurrency]).await;
            assert_eq!(seen, only("consumer"), "{order} {concurrency}: it may go now");
        }
    }
}

#[tokio::test]
async fn a_message_whose_priority_puts_it_behind_others_of_a_fair_group_counts_these() {
    let (client, topic) = (client().await, topic("waits"));
    client.configure(&topic, json!({"group_order": "fair", "group_concurrency": 1})).await;
    let held = client.published(&topic, json!({"payload": 0, "group": "g"})).await;
    client.lease_one(&topic).await;
    let low = client.published(&topic, json!({"payload": 1, "group": "g"})).await;
    let high = client.published(&topic, json!({"payload": 2, "group": "g", "priority": 9})).await;
    for (id, ahead) in [(high, 1), (low, 2)] {
        let expected = json!({"reason": "group", "message_id": held, "ahead": ahead});
        assert_eq!(waits(&client, &id).await, expected);
    }
}

#[tokio::test]
async fn a_topic_at_its_limit_of_leases_says_so() {
    let client = client().await;
    for partitions in [1, 4] {
        let topic = split(&client, partitions, json!({"max_leased": 2})).await;
        spread(&client, &topic, 8).await;
        let ready = client.listed(&topic, "state=ready").await;
        assert!(ready.iter().all(|it| it["waiting_for"] == only("consumer")), "{ready:?}");
        let held = lease_all(&client, &topic).await;
        assert_eq!(held.len(), 2);
        let ready = client.listed(&topic, "state=ready").await;
        let limit = json!({"reason": "limit", "max_leased": 2});
        assert!(ready.len() == 6 && ready.iter().all(|it| it["waiting_for"] == limit), "{ready:?}");
        for item in &ready {
            assert_eq!(waits(&client, text(item, "id")).await, limit, "{partitions}");
        }
        client.ack_leased(&held[0]).await.expect(204);
        assert_eq!(waits(&client, text(&ready[0], "id")).await, only("consumer"));
    }
}

#[tokio::test]
async fn a_rate_that_is_used_up_says_when_its_next_turn_comes() {
    let client = client().await;
    let grouped =
        |order| json!({"group_order": order, "group_rate_per_s": 0.01, "group_concurrency": 9});
    let rated = json!({"rate_per_s": 0.01});
    for (config, partitions, group) in [
        (rated.clone(), 1, Value::Null),
        (rated, 4, Value::Null),
        (grouped("strict"), 1, json!("g")),
        (grouped("fair"), 1, json!("g")),
    ] {
        let topic = split(&client, partitions, config.clone()).await;
        let mut ids = Vec::new();
        for n in 0..3 {
            ids.push(client.published(&topic, json!({"payload": n, "group": group})).await);
        }
        let held = client.leased(&topic, json!({"max_messages": 10, "wait_ms": 1_000})).await;
        assert_eq!(held.len(), 1, "{config}");
        ids.retain(|id| held[0]["id"] != id.as_str());
        let until = |seen: &Value| {
            assert_eq!(reason(seen), "rate", "{config}: {seen}");
            instant_ms(text(seen, "until"))
        };
        let next = until(&waits(&client, &ids[0]).await);
        let granted = instant_ms(text(&held[0], "lease_expires_at"))
            - number(&client.topic(&topic).await.json()["config"], "lease_ms");
        assert!((next - granted - 100_000).abs() < 2_000, "{config}: {}", next - granted);
        let after = until(&waits(&client, &ids[1]).await);
        let apart = if group.is_null() { 0 } else { 100_000 };
        assert!((after - next - apart).abs() < 100, "{config}: {}", after - next);
    }
}

#[tokio::test]
async fn a_page_of_many_messages_in_groups_counts_for_each() {
    let (client, topic) = (client().await, topic("waits"));
    let messages: Vec<Value> =
        (0..1_000).map(|n| json!({"payload": n, "group": format!("g{}", n % 7)})).collect();
    client.published_batch(&topic, &messages).await;
    let blocked = client.listed(&topic, "state=blocked&limit=1000").await;
    assert_eq!(blocked.len(), 993);
    assert!(blocked.iter().all(|it| it["waiting_for"]["reason"] == "group"), "{:?}", blocked[0]);
    let ahead: i64 = blocked.iter().map(|it| number(&it["waiting_for"], "ahead")).sum();
    let of = |n: i64| n * (n - 1) / 2;
    assert_eq!(ahead, 6 * of(143) + of(142));
}
