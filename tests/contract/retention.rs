//! Retention: the dead go by age and by number, the acked are kept for a while and answer for
//! themselves.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::facts::{dead_message, ids};
use crate::harness::*;
use crate::topic_facts::{dead_messages, topic_becomes, topic_has};

/// Housekeeping removes what is over within so long, on a busy machine too.
const SOON: Duration = Duration::from_secs(5);

/// A new topic that keeps its acked messages for ten minutes, with one: as it was leased.
async fn one_acked(client: &Client) -> (String, Value) {
    let topic = topic("retain");
    client.new_topic(&topic, json!({"retention": {"acked_ms": 600_000}})).await;
    let message = json!({"payload": {"a": 1}, "headers": {"h": "v"}, "priority": 3, "key": "k"});
    client.published(&topic, message).await;
    let held = client.lease_one(&topic).await;
    client.ack_leased(&held).await.expect(204);
    (topic, held)
}

#[tokio::test]
async fn the_dead_are_forgotten_when_they_are_old() {
    let (client, topic) = (client().await, topic("retain"));
    client.new_topic(&topic, json!({"retention": {"dead_ms": 1000}})).await;
    let id = dead_message(&client, &topic).await;
    let died = Instant::now();
    topic_has(&client, &topic, json!({"counts": {"dead": 1}})).await;
    let want = json!({"counts": {"dead": 0}, "totals": {"expired": 1, "dead": 1}});
    topic_becomes(&client, &topic, want).await;
    let age = died.elapsed();
    assert!(age >= Duration::from_millis(900), "{age:?}");
    assert!(age < SOON, "{age:?}");
    client.get(&id).await.problem(404, "message_not_found");
    assert!(client.listed(&topic, "state=dead").await.is_empty());
    client.post(&format!("/messages/{id}/redrive"), &json!({})).await.refused(404);
}

#[tokio::test]
async fn of_too_many_dead_the_oldest_are_forgotten() {
    let (client, topic) = (client().await, topic("retain"));
    client.new_topic(&topic, json!({"retention": {"dead_max": 2}})).await;
    let dead = dead_messages(&client, &topic, 5).await;
    let want = json!({"counts": {"dead": 2}, "totals": {"expired": 3, "dead": 5}});
    let start = Instant::now();
    topic_becomes(&client, &topic, want).await;
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    assert_eq!(ids(&client.listed(&topic, "state=dead").await), dead[3..]);
    client.get(&dead[0]).await.problem(404, "message_not_found");
}

#[tokio::test]
async fn a_retention_lowered_reaches_the_dead_that_are_there() {
    let client = client().await;
    for (changes, left) in [(json!({"dead_max": 1}), 1), (json!({"dead_ms": 1000}), 0)] {
        let topic = topic("retain");
        dead_messages(&client, &topic, 3).await;
        client.update_topic(&topic, json!({"retention": changes})).await.expect(200);
        let want = json!({"counts": {"dead": left}, "totals": {"expired": 3 - left}});
        topic_becomes(&client, &topic, want).await;
    }
}

#[tokio::test]
async fn a_redriven_message_is_dead_no_longer() {
    let (client, topic) = (client().await, topic("retain"));
    client.new_topic(&topic, json!({"retention": {"dead_ms": 1000}})).await;
    let id = dead_message(&client, &topic).await;
    client.post(&format!("/messages/{id}/redrive"), &json!({})).await.expect(200);
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(client.state(&id).await, "ready");
    topic_has(&client, &topic, json!({"totals": {"expired": 0, "redriven": 1}})).await;
}

#[tokio::test]
async fn without_retention_an_acked_message_is_gone_at_once() {
    let (client, topic) = (client().await, topic("retain"));
    client.published(&topic, json!({"payload": 1})).await;
    let held = client.lease_one(&topic).await;
    client.ack_leased(&held).await.expect(204);
    client.get(text(&held, "id")).await.problem(404, "message_not_found");
    client.ack_leased(&held).await.problem(404, "message_not_found");
    assert!(client.listed(&topic, "state=acked").await.is_empty());
    topic_has(&client, &topic, json!({"counts": {"acked": 0}, "totals": {"acked": 1}})).await;
}

#[tokio::test]
async fn an_acked_message_that_is_kept_can_be_looked_at() {
    let client = client().await;
    let (topic, held) = one_acked(&client).await;
    let seen = client.get(text(&held, "id")).await.expect(200).json();
    for name in ["id", "topic", "payload", "headers", "priority", "published_at"] {
        assert_eq!(seen[name], held[name], "{name}: {seen}");
    }
    assert_eq!((&seen["state"], &seen["attempts"]), (&json!("acked"), &json!(1)));
    for name in ["due_at", "lease_expires_at"] {
        assert!(seen.get(name).is_none(), "{name}: {seen}");
    }
    let want = json!({"counts": {"acked": 1, "leased": 0}, "totals": {"acked": 1}});
    topic_has(&client, &topic, want).await;
    let items = client.listed(&topic, "state=acked&payload=true").await;
    assert_eq!(ids(&items), [text(&held, "id")]);
    assert_eq!((&items[0]["state"], &items[0]["payload"]), (&json!("acked"), &held["payload"]));
}

#[tokio::test]
async fn an_ack_repeated_with_the_same_token_is_204_again_and_counts_once() {
    let client = client().await;
    let (topic, held) = one_acked(&client).await;
    for _ in 0..3 {
        client.ack_leased(&held).await.expect(204);
    }
    let acks = json!([{"id": held["id"], "lease_token": held["lease_token"]}]);
    let answer = client.lease(&topic, json!({"acks": acks})).await.expect(200).json();
    assert_eq!(answer["acks"][0]["status"], "ok");
    let answer = client.post("/messages/ack", &json!({"messages": acks})).await.expect(200).json();
    assert_eq!(answer["results"][0]["status"], "ok");
    topic_has(&client, &topic, json!({"counts": {"acked": 1}, "totals": {"acked": 1}})).await;
}

#[tokio::test]
async fn an_ack_with_another_token_is_409() {
    let (client, topic) = (client().await, topic("retain"));
    client.new_topic(&topic, json!({"retention": {"acked_ms": 600_000}})).await;
    let id = client.published(&topic, json!({"payload": 1})).await;
    let old = client.lease_one(&topic).await;
    client.nack_leased(&old, json!({"delay_ms": 0})).await.expect(200);
    client.ack_leased(&client.lease_one(&topic).await).await.expect(204);
    for token in [text(&old, "lease_token"), "forged", "x"] {
        client.ack(&id, token).await.problem(409, "lease_lost");
        let acks = json!([{"id": id, "lease_token": token}]);
        let answer = client.lease(&topic, json!({"acks": acks})).await.expect(200).json();
        assert_eq!(answer["acks"][0]["status"], "lease_lost");
    }
    topic_has(&client, &topic, json!({"counts": {"acked": 1}, "totals": {"acked": 1}})).await;
}

#[tokio::test]
async fn an_acked_message_is_done_and_takes_no_change() {
    let client = client().await;
    let (topic, held) = one_acked(&client).await;
    let id = text(&held, "id");
    client.nack_leased(&held, json!({})).await.problem(409, "lease_lost");
    client.extend_leased(&held, 60_000).await.problem(409, "lease_lost");
    let json_type = [("content-type", "application/json")];
    for change in [json!({"priority": 1}), json!({"delay_ms": 0}), json!({"payload": 2})] {
        let body = Some(change.to_string().into_bytes());
        let answer = client.send("PATCH", &format!("/messages/{id}"), &json_type, body).await;
        answer.problem(409, "message_acked");
    }
    let redrive = client.post(&format!("/messages/{id}/redrive"), &json!({})).await;
    redrive.problem(409, "message_not_dead");
    client.purge(&topic, &["ready", "delayed", "dead"]).await.expect(200);
    assert_eq!(client.state(id).await, "acked");
    assert!(client.leased(&topic, json!({})).await.is_empty());
}

#[tokio::test]
async fn an_acked_message_holds_no_key() {
    let client = client().await;
    let (topic, _) = one_acked(&client).await;
    client.get_path(&format!("/topics/{topic}/keys/k")).await.problem(404, "message_not_found");
    client.published(&topic, json!({"payload": 2, "key": "k"})).await;
}

#[tokio::test]
async fn deleting_an_acked_message_forgets_it_and_counts_nothing() {
    let client = client().await;
    let (topic, held) = one_acked(&client).await;
    let id = text(&held, "id");
    client.delete(id).await.expect(204);
    client.get(id).await.problem(404, "message_not_found");
    client.delete(id).await.problem(404, "message_not_found");
    client.ack_leased(&held).await.problem(404, "message_not_found");
    let totals = json!({"acked": 1, "deleted": 0, "expired": 0, "purged": 0, "published": 1});
    topic_has(&client, &topic, json!({"counts": {"acked": 0}, "totals": totals})).await;
}

#[tokio::test]
async fn acked_messages_are_forgotten_when_their_time_is_over() {
    let (client, topic) = (client().await, topic("retain"));
    client.new_topic(&topic, json!({"retention": {"acked_ms": 1000}})).await;
    client.fill(&topic, &vec![json!({"payload": 1}); 20]).await;
    let held = client.leased(&topic, json!({"max_messages": 20})).await;
    for message in &held {
        client.ack_leased(message).await.expect(204);
    }
    let acked = Instant::now();
    assert_eq!(client.state(text(&held[19], "id")).await, "acked");
    let want = json!({"counts": {"acked": 0}, "totals": {"acked": 20, "expired": 0}});
    topic_becomes(&client, &topic, want).await;
    assert!(acked.elapsed() >= Duration::from_millis(900), "{:?}", acked.elapsed());
    assert!(acked.elapsed() < SOON, "{:?}", acked.elapsed());
    client.get(text(&held[0], "id")).await.problem(404, "message_not_found");
    client.ack_leased(&held[0]).await.problem(404, "message_not_found");
}

#[tokio::test]
async fn acked_and_dead_are_listed_oldest_first() {
    let (client, topic) = (client().await, topic("retain"));
    client.new_topic(&topic, json!({"retention": {"acked_ms": 600_000}})).await;
    client.fill(&topic, &vec![json!({"payload": 1, "max_attempts": 1}); 12]).await;
    let held = client.leased(&topic, json!({"max_messages": 12})).await;
    let (mut acked, mut dead) = (Vec::new(), Vec::new());
    for (n, message) in held.iter().rev().enumerate() {
        let id = text(message, "id").to_owned();
        if n % 2 == 0 {
            client.ack_leased(message).await.expect(204);
            acked.push(id);
        } else {
            client.nack_leased(message, json!({})).await.expect(200);
            dead.push(id);
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    for limit in [1, 4, 1000] {
        let items = client.listed(&topic, &format!("state=acked&limit={limit}")).await;
        assert_eq!(ids(&items), acked, "in pages of {limit}");
        let items = client.listed(&topic, &format!("state=dead&limit={limit}")).await;
        assert_eq!(ids(&items), dead, "in pages of {limit}");
    }
}

#[tokio::test]
async fn batches_of_acks_are_kept_as_well() {
    let (client, topic) = (client().await, topic("retain"));
    client.new_topic(&topic, json!({"retention": {"acked_ms": 600_000}})).await;
    client.fill(&topic, &vec![json!({"payload": 1, "priority": 1}); 300]).await;
    let held = client.leased(&topic, json!({"max_messages": 300, "wait_ms": 20_000})).await;
    let acks: Vec<Value> = held
        .iter()
        .map(|message| json!({"id": message["id"], "lease_token": message["lease_token"]}))
        .collect();
    for _ in 0..2 {
        let answer = client.post("/messages/ack", &json!({"messages": acks})).await.expect(200);
        for result in answer.json()["results"].as_array().unwrap() {
            assert_eq!(result["status"], "ok");
        }
    }
    let want = json!({"counts": {"acked": 300}, "totals": {"acked": 300}});
    topic_has(&client, &topic, want).await;
    assert_eq!(client.listed(&topic, "state=acked&limit=77").await.len(), 300);
}

#[tokio::test]
async fn none_dead_are_kept_where_none_may_be() {
    let client = client().await;
    for retention in [json!({"dead_max": 0}), json!({"dead_ms": 0})] {
        let topic = topic("retain");
        client.new_topic(&topic, json!({"retention": retention})).await;
        client.fill(&topic, &vec![json!({"payload": 1, "max_attempts": 1}); 5]).await;
        for message in client.leased(&topic, json!({"max_messages": 5})).await {
            let answer = client.nack_leased(&message, json!({})).await.expect(200);
            assert_eq!(answer.text("state"), "dead", "{retention}");
        }
        topic_becomes(&client, &topic, json!({"counts": {"dead": 0}, "totals": {"expired": 5}}))
            .await;
    }
}

#[tokio::test]
async fn hundreds_too_many_are_forgotten_in_a_few_seconds() {
    let (client, topic) = (client().await, topic("retain"));
    client.new_topic(&topic, json!({"retention": {"dead_max": 10}})).await;
    client.fill(&topic, &vec![json!({"payload": 1}); 1000]).await;
    let held = client.leased(&topic, json!({"max_messages": 1000, "wait_ms": 20_000})).await;
    let nacks: Vec<Value> = held
        .iter()
        .map(|held| json!({"id": held["id"], "lease_token": held["lease_token"], "dead": true}))
        .collect();
    client.post("/messages/nack", &json!({"messages": nacks})).await.expect(200);
    let start = Instant::now();
    let want = json!({"counts": {"dead": 10}, "totals": {"expired": 990, "dead": 1000}});
    topic_becomes(&client, &topic, want).await;
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    assert_eq!(client.listed(&topic, "state=dead").await.len(), 10);
}
