//! When a key is free again: as soon as its message is no longer live, or, where the publisher wants
//! that, with the first grant.

use serde_json::{Value, json};

use crate::facts::{counted, reaches, topic_in_balance};
use crate::harness::*;

fn keyed() -> Value {
    json!({"payload": 1, "key": "k"})
}

/// The key is free: nothing is found by it, and a publish makes a new message.
async fn is_free(client: &Client, topic: &str, before: &str, why: &str) {
    let answer = client.get_by_key(topic, "k").await;
    assert_eq!(answer.status, 404, "after {why}: {answer}");
    let answer = client.publish(topic, keyed()).await;
    assert_eq!(answer.status, 201, "after {why}: {answer}");
    assert_ne!(answer.text("id"), before, "{why}");
    assert_eq!(client.get_by_key(topic, "k").await.expect(200).text("id"), answer.text("id"));
    topic_in_balance(client, topic).await;
}

#[tokio::test]
async fn a_key_is_free_after_ack_death_delete_and_purge() {
    for why in [
        "ack",
        "ack in a lease",
        "ack in a batch",
        "nack as dead",
        "last nack",
        "delete",
        "delete by key",
        "delete by force",
        "purge ready",
        "purge delayed",
    ] {
        let (client, topic) = (client().await, topic("freed"));
        let mut message = keyed();
        if why == "last nack" {
            message["max_attempts"] = json!(1);
        }
        if why == "purge delayed" {
            message["delay_ms"] = json!(60_000);
        }
        let id = client.published(&topic, message).await;
        let purge = format!("/topics/{topic}/purge");
        match why {
            "delete" => drop(client.delete(&id).await.expect(204)),
            "delete by key" => drop(client.delete_by_key(&topic, "k", "").await.expect(204)),
            "purge ready" | "purge delayed" => {
                let states = json!({"states": [why.trim_start_matches("purge ")]});
                assert_eq!(client.post(&purge, &states).await.expect(200).number("purged"), 1);
            }
            _ => {
                let held = client.lease_one(&topic).await;
                let item = json!({"id": id, "lease_token": held["lease_token"]});
                match why {
                    "ack" => drop(client.ack_leased(&held).await.expect(204)),
                    "ack in a batch" => drop(client.held_batch("ack", &[item]).await),
                    "ack in a lease" => {
                        drop(client.lease(&topic, json!({"acks": [item]})).await.expect(200));
                    }
                    "delete by force" => drop(client.delete_by_force(&id).await.expect(204)),
                    "nack as dead" => {
                        client.nack_leased(&held, json!({"dead": true})).await.expect(200);
                    }
                    _ => drop(client.nack_leased(&held, json!({})).await.expect(200)),
                }
            }
        }
        is_free(&client, &topic, &id, why).await;
    }
}

/// Publishes the key with `reject` until it is free, which it must be from `end` on and not before,
/// on Redis's clock.
async fn is_free_at(client: &Client, topic: &str, end: i64) {
    let message = json!({"payload": 2, "key": "k", "on_duplicate": "reject"});
    let answer = eventually("the key is free", || async {
        let sent = shared().await.redis.time_ms().await;
        let answer = client.publish(topic, message.clone()).await;
        assert!(answer.status != 409 || sent <= end, "{} ms after {end}: {answer}", sent - end);
        (answer.status != 409).then_some(answer)
    })
    .await;
    let at = answer.expect(201).instant("due_at");
    assert!(at >= end, "free at {at}, {} ms too early", end - at);
}

#[tokio::test]
async fn a_key_is_free_when_its_message_expires() {
    for priority in [0, 5] {
        let (client, topic) = (client().await, topic("freed"));
        let message = json!({"payload": 1, "key": "k", "ttl_ms": 400, "priority": priority});
        let end = client.publish(&topic, message).await.expect(201).instant("due_at") + 400;
        is_free_at(&client, &topic, end).await;
        eventually("it is counted", || async {
            (client.total(&topic, "expired").await == 1).then_some(())
        })
        .await;
        counted(&client, &topic, &[("totals", "published", 2), ("counts", "ready", 1)]).await;
    }
}

#[tokio::test]
async fn a_key_is_free_when_the_last_lease_expires() {
    let (client, topic) = (client().await, topic("freed"));
    let id = client.published(&topic, json!({"payload": 1, "key": "k", "max_attempts": 1})).await;
    let held = client.lease_one_with(&topic, json!({"lease_ms": 1000})).await;
    let end = instant_ms(text(&held, "lease_expires_at"));
    is_free_at(&client, &topic, end).await;
    assert_eq!(client.state(&id).await, "dead");
    counted(&client, &topic, &[("counts", "dead", 1), ("counts", "ready", 1)]).await;
}

#[tokio::test]
async fn a_key_stays_with_a_message_that_failed() {
    let (client, topic) = (client().await, topic("freed"));
    let id = client.published(&topic, keyed()).await;
    for more in [json!({"delay_ms": 0}), json!({"release": true}), json!({"delay_ms": 1})] {
        client.nack_leased(&client.lease_one(&topic).await, more).await.expect(200);
        assert_eq!(client.publish(&topic, keyed()).await.expect(200).text("id"), id);
    }
    client.lease_one_with(&topic, json!({"lease_ms": 1000})).await;
    reaches(&client, &id, "ready").await; // its lease is over, but attempts are left
    assert_eq!(client.publish(&topic, keyed()).await.expect(200).text("id"), id);
    assert_eq!(client.get_by_key(&topic, "k").await.expect(200).text("id"), id);
    counted(&client, &topic, &[("totals", "published", 1)]).await;
}

#[tokio::test]
async fn a_key_until_granted_is_free_with_the_first_grant_and_for_good() {
    for end in ["ack", "nack", "lease expired"] {
        let (client, topic) = (client().await, topic("freed"));
        let message = json!({"payload": 1, "key": "k", "key_until": "granted"});
        let first = client.published(&topic, message.clone()).await;
        assert_eq!(client.publish(&topic, message.clone()).await.expect(200).text("id"), first);
        let held = client.lease_one_with(&topic, json!({"lease_ms": 1000})).await;
        assert_eq!(held["id"], first);
        client.get_by_key(&topic, "k").await.problem(404, "message_not_found");
        let mut later = message.clone();
        later["delay_ms"] = json!(60_000);
        let second = client.published(&topic, later).await;
        assert_ne!(second, first, "the trigger that came while its handler runs is kept");
        match end {
            "ack" => drop(client.ack_leased(&held).await.expect(204)),
            "nack" => drop(client.nack_leased(&held, json!({"delay_ms": 0})).await.expect(200)),
            _ => reaches(&client, &first, "ready").await,
        }
        let seen = client.get_by_key(&topic, "k").await.expect(200).text("id");
        assert_eq!(seen, second, "after {end}");
        client.delete(&second).await.expect(204);
        client.get_by_key(&topic, "k").await.problem(404, "message_not_found");
        assert_eq!(client.publish(&topic, message).await.expect(201).json()["duplicate"], false);
        topic_in_balance(&client, &topic).await;
    }
}

#[tokio::test]
async fn the_end_of_a_message_whose_key_was_given_away_does_not_free_it() {
    let (client, topic) = (client().await, topic("freed"));
    let message = json!({"payload": 1, "key": "k", "key_until": "granted"});
    let ends = ["ack", "dead", "delete", "purge"];
    for end in ends {
        let first = client.published(&topic, message.clone()).await;
        let held = client.lease_one(&topic).await;
        assert_eq!(held["id"], first);
        let second = client.published(&topic, keyed()).await;
        match end {
            "ack" => drop(client.ack_leased(&held).await.expect(204)),
            "dead" => drop(client.nack_leased(&held, json!({"dead": true})).await.expect(200)),
            "delete" => drop(client.delete_by_force(&first).await.expect(204)),
            _ => {
                client.nack_leased(&held, json!({"delay_ms": 60_000})).await.expect(200);
                let states = json!({"states": ["delayed"]});
                client.post(&format!("/topics/{topic}/purge"), &states).await.expect(200);
            }
        }
        assert_eq!(client.publish(&topic, keyed()).await.expect(200).text("id"), second, "{end}");
        client.delete(&second).await.expect(204);
    }
    topic_in_balance(&client, &topic).await;
}

#[tokio::test]
async fn a_redrive_does_not_take_back_a_key_that_the_grant_freed() {
    let (client, topic) = (client().await, topic("freed"));
    let message = json!({"payload": 1, "key": "k", "key_until": "granted"});
    let first = crate::facts::killed(&client, &topic, message).await;
    client.redrive(&first).await.expect(200);
    client.get_by_key(&topic, "k").await.problem(404, "message_not_found");
    let second = client.published(&topic, json!({"payload": 2, "key": "k", "priority": 9})).await;
    let seen = client.get_by_key(&topic, "k").await.expect(200);
    assert_eq!(seen.text("id"), second);
    let held = client.leased(&topic, json!({"max_messages": 2})).await;
    client.nack_leased(&held[1], json!({"dead": true})).await.expect(200);
    assert_eq!(held[1]["id"], first);
    client.redrive(&first).await.expect(200); // though the key is taken: it is not its own any more
    assert_eq!(client.get_by_key(&topic, "k").await.expect(200).text("id"), second);
    counted(&client, &topic, &[("totals", "redriven", 2), ("counts", "ready", 1)]).await;
}

#[tokio::test]
async fn a_redrive_takes_its_key_again_unless_another_has_it() {
    let (client, topic) = (client().await, topic("freed"));
    let first = crate::facts::killed(&client, &topic, keyed()).await;
    let second = client.published(&topic, json!({"payload": 2, "key": "k"})).await;
    client.redrive(&first).await.problem(409, "duplicate_key");
    assert_eq!(client.state(&first).await, "dead");
    let held = client.lease_one(&topic).await;
    client.redrive(&first).await.problem(409, "duplicate_key"); // a leased one has it still
    client.ack_leased(&held).await.expect(204);
    assert_eq!(held["id"], second);
    let answer = client.redrive(&first).await.expect(200);
    assert_eq!((answer.text("key"), answer.text("state")), ("k".into(), "ready".into()));
    assert_eq!(client.publish(&topic, keyed()).await.expect(200).text("id"), first);
    counted(&client, &topic, &[("totals", "redriven", 1), ("counts", "dead", 0)]).await;
}

#[tokio::test]
async fn a_lease_over_many_topics_frees_a_key_like_any_grant() {
    let (client, topic) = (client().await, topic("freed"));
    let message = json!({"payload": 1, "key": "k", "key_until": "granted"});
    client.published(&topic, message).await;
    let want = json!({"topics": [format!("{topic}-none"), topic], "wait_ms": 5000});
    let answer = client.post("/lease", &want).await.expect(200).json();
    assert_eq!(answer["messages"][0]["topic"], topic);
    client.get_by_key(&topic, "k").await.problem(404, "message_not_found");
    client.published(&topic, keyed()).await;
}

#[tokio::test]
async fn a_message_dropped_from_a_full_topic_gives_its_key_back() {
    let (client, topic) = (client().await, topic("freed"));
    client.configure(&topic, json!({"max_messages": 1, "on_full": "drop_oldest"})).await;
    let id = client.published(&topic, keyed()).await;
    client.published(&topic, json!({"payload": 2})).await;
    client.get(&id).await.problem(404, "message_not_found");
    client.get_by_key(&topic, "k").await.problem(404, "message_not_found");
    assert_ne!(client.published(&topic, keyed()).await, id);
    counted(&client, &topic, &[("totals", "expired", 2), ("counts", "ready", 1)]).await;
}

#[tokio::test]
async fn a_topic_made_anew_remembers_no_key_and_no_request() {
    let (client, topic) = (client().await, topic("freed"));
    let message = json!({"payload": 1, "key": "k", "idempotency_key": "r"});
    let first = client.published(&topic, message.clone()).await;
    client.send("DELETE", &format!("/topics/{topic}?force=true"), &[], None).await.expect(204);
    let second = client.published(&topic, message).await;
    assert_ne!(first, second);
    assert_eq!(client.get_by_key(&topic, "k").await.expect(200).text("id"), second);
    client.get(&first).await.problem(404, "message_not_found");
}
