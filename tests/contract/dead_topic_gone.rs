//! `dead_topic` and messages that do not stay until their death is told of: purged, deleted, redriven and acked, or gone
//! with their topic, they are told of all the same.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::facts::{killed, topic_in_balance};
use crate::harness::*;
use crate::topic_facts::topic_has;

/// A new topic whose dead are told of in a topic that does not exist yet.
async fn mortal(client: &Client) -> (String, String) {
    let (here, there) = (topic("mortal"), topic("dead"));
    client.new_topic(&here, json!({"dead_topic": there})).await;
    (here, there)
}

/// Waits until every one of these messages is told of: the letters' payloads.
async fn told(client: &Client, topic: &str, ids: &[String]) -> Vec<Value> {
    eventually("every death told of", || async {
        if client.topic(topic).await.status == 404 {
            return None;
        }
        let letters = client.listed(topic, "state=ready&payload=true&limit=1000").await;
        let known: BTreeSet<&str> =
            letters.iter().map(|letter| text(&letter["payload"]["message"], "id")).collect();
        ids.iter().all(|id| known.contains(id.as_str())).then(|| {
            assert_eq!(letters.len(), ids.len(), "each once");
            letters.into_iter().map(|mut letter| letter["payload"].take()).collect()
        })
    })
    .await
}

/// Waits until nothing is left in Redis of the topic's messages.
async fn forgotten(topic: &str) {
    eventually("everything forgotten", || async {
        let mut left = 0;
        for what in ["messages", "extra", "events"] {
            let key = format!("dueq:{{{topic}:0}}:{what}");
            left += shared().await.redis.command::<i64>(&["HLEN", &key]).await;
        }
        (left == 0).then_some(())
    })
    .await;
}

/// Fills a topic and gives all of it up at once: the ids.
async fn massacre(client: &Client, topic: &str, count: usize) -> Vec<String> {
    let ids = client.fill(topic, &vec![json!({"payload": "x"}); count]).await;
    let mut dead = Vec::new();
    while dead.len() < count {
        for held in client.leased(topic, json!({"max_messages": 100})).await {
            dead.push(json!({"id": held["id"], "lease_token": held["lease_token"], "dead": true}));
        }
    }
    client.held_batch("nack", &dead).await;
    ids
}

#[tokio::test]
async fn what_is_purged_at_once_is_told_of() {
    let client = client().await;
    let (here, there) = mortal(&client).await;
    let ids = massacre(&client, &here, 1_000).await;
    let purged = client.purge(&here, &["dead"]).await.expect(200).json();
    assert_eq!((&purged["purged"], &purged["remaining"]), (&json!(1_000), &json!(0)));
    told(&client, &there, &ids).await;
    forgotten(&here).await;
    topic_in_balance(&client, &here).await;
}

#[tokio::test]
async fn what_is_deleted_at_once_is_told_of_as_it_was() {
    let client = client().await;
    let (here, there) = mortal(&client).await;
    let mut ids = Vec::new();
    for n in 0..50 {
        let id = killed(&client, &here, json!({"payload": n, "key": "k"})).await;
        client.delete(&id).await.expect(204);
        client.get(&id).await.problem(404, "message_not_found");
        ids.push(id);
    }
    for letter in told(&client, &there, &ids).await {
        let at = ids.iter().position(|id| letter["message"]["id"] == id.as_str()).unwrap();
        assert_eq!(letter["message"]["payload"], at, "{letter}");
        assert_eq!(letter["message"]["state"], "dead", "{letter}");
    }
    forgotten(&here).await;
    topic_in_balance(&client, &here).await;
}

#[tokio::test]
async fn what_is_redriven_and_acked_at_once_is_told_of() {
    let client = client().await;
    let (here, there) = mortal(&client).await;
    let mut ids = Vec::new();
    for n in 0..30 {
        let id = killed(&client, &here, json!({"payload": n})).await;
        client.redrive(&id).await.expect(200);
        let held = client.lease_one(&here).await;
        client.ack_leased(&held).await.expect(204);
        ids.push(id);
    }
    told(&client, &there, &ids).await;
    forgotten(&here).await;
    topic_in_balance(&client, &here).await;
}

#[tokio::test]
async fn what_dies_is_told_of_before_its_topic_is_deleted() {
    let client = client().await;
    let (here, there) = mortal(&client).await;
    let ids = massacre(&client, &here, 600).await;
    client.delete_topic(&here, "").await.problem(409, "topic_not_empty");
    client.purge(&here, &["dead"]).await.expect(200);
    client.delete_topic(&here, "").await.expect(204);
    told(&client, &there, &ids).await;
    client.topic(&here).await.problem(404, "topic_not_found");
}

#[tokio::test]
async fn what_retention_does_not_keep_is_told_of_though_nobody_looks() {
    let client = client().await;
    let (here, there) = (topic("mortal"), topic("dead"));
    client.new_topic(&here, json!({"dead_topic": there, "retention": {"dead_max": 0}})).await;
    let ids = massacre(&client, &here, 300).await;
    told(&client, &there, &ids).await;
    forgotten(&here).await;
    topic_has(&client, &here, json!({"counts": {"dead": 0}, "totals": {"expired": 300}})).await;
}
