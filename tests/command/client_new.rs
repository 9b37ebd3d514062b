//! The client commands on the rest of the contract: keys, dead letters, pauses, purges, several topics, force.

use serde_json::{Value, json};

use crate::client::{answer, done, failed};
use crate::harness::*;

/// Leases the one message of a topic: its id and token.
async fn held(topic: &str) -> (String, String) {
    let leased = answer(&["lease", topic, "--wait", "5s"]).await;
    let message = &leased["messages"][0];
    (text(message, "id").to_owned(), text(message, "lease_token").to_owned())
}

/// How many messages of the topic are in this state.
async fn count(topic: &str, state: &str) -> i64 {
    number(&answer(&["topic", topic]).await["counts"], state)
}

#[tokio::test]
async fn a_key_names_one_message_that_can_be_replaced() {
    let topic = topic("client-key");
    let publish = ["publish", &topic, "1", "--key", "order/42", "--delay", "1h"];
    let first = answer(&publish).await;
    let again = answer(&publish).await;
    assert_eq!((&first["id"], &first["duplicate"]), (&again["id"], &json!(false)));
    assert_eq!(again["duplicate"], true);
    let told =
        failed(1, &["publish", &topic, "2", "--key", "order/42", "--on-duplicate", "reject"]).await;
    assert!(told.contains("(409 duplicate_key)"), "{told}");
    let replaced = answer(&[
        "publish",
        &topic,
        "2",
        "--key",
        "order/42",
        "--on-duplicate",
        "replace",
        "--delay",
        "2h",
    ])
    .await;
    assert_eq!((&replaced["id"], &replaced["duplicate"]), (&first["id"], &json!(true)));
    assert_eq!(answer(&["get", text(&first, "id")]).await["payload"], 2);
}

#[tokio::test]
async fn a_message_is_found_and_deleted_by_its_key() {
    let topic = topic("client-key");
    let published = answer(&["publish", &topic, "1", "--key", "a/b ?ä", "--delay", "1h"]).await;
    let by_key = ["--topic", &topic, "--key", "a/b ?ä"];
    let found = answer(&[&["get"], &by_key[..]].concat()).await;
    assert_eq!(found["id"], published["id"]);
    assert_eq!(done(&[&["delete"], &by_key[..]].concat()).await, "deleted a/b ?ä\n");
    let told = failed(1, &[&["get"], &by_key[..]].concat()).await;
    assert!(told.contains("(404 message_not_found)"), "{told}");
}

#[tokio::test]
async fn an_idempotency_key_makes_a_publish_safe_to_repeat() {
    let topic = topic("client-idempotent");
    let publish = ["publish", &topic, "1", "--idempotency-key", "i", "--ttl", "1h"];
    let (first, again) = (answer(&publish).await, answer(&publish).await);
    assert_eq!((&first["id"], &again["duplicate"]), (&again["id"], &json!(true)));
    assert_eq!(count(&topic, "ready").await, 1);
}

#[tokio::test]
async fn a_message_that_failed_for_good_says_why_and_can_be_redriven() {
    let topic = topic("client-dead");
    done(&["publish", &topic, "1"]).await;
    let (id, token) = held(&topic).await;
    let shown = done(&["nack", &id, &token, "--dead", "--reason", "no such order"]).await;
    assert!(shown.contains("dead"), "{shown}");
    let shown = done(&["get", &id]).await;
    let told = |line: &str| line.contains("reason no such order") && line.contains("attempt 1");
    assert!(shown.lines().any(told), "{shown}");
    assert_eq!(done(&["redrive", &topic]).await, "redriven 1, still dead 0\n");
    let (again, token) = held(&topic).await;
    assert_eq!(again, id);
    done(&["nack", &id, &token, "--dead"]).await;
    let shown = done(&["redrive", "--id", &id]).await;
    assert!(shown.contains("ready"), "{shown}");
    let told = failed(1, &["redrive", "--id", &id]).await;
    assert!(told.contains("(409 message_not_dead)"), "{told}");
}

#[tokio::test]
async fn a_redrive_is_bounded_and_spread() {
    let topic = topic("client-dead");
    for _ in 0..3 {
        done(&["publish", &topic, "1"]).await;
        let (id, token) = held(&topic).await;
        done(&["nack", &id, &token, "--dead"]).await;
    }
    let shown = done(&["redrive", &topic, "--max", "2", "--spread", "10h"]).await;
    assert_eq!(shown, "redriven 2, still dead 1\n");
    assert!(count(&topic, "delayed").await >= 1);
}

#[tokio::test]
async fn a_message_given_back_unworked_keeps_its_attempts() {
    let topic = topic("client-release");
    done(&["publish", &topic, "1"]).await;
    let (id, token) = held(&topic).await;
    done(&["nack", &id, &token, "--release"]).await;
    let message = answer(&["get", &id]).await;
    assert_eq!((&message["state"], &message["attempts_left"]), (&json!("ready"), &json!(10)));
}

#[tokio::test]
async fn a_paused_topic_grants_nothing_until_it_is_resumed() {
    let topic = topic("client-pause");
    done(&["publish", &topic, "1"]).await;
    assert_eq!(done(&["pause", &topic]).await, format!("{topic} is paused\n"));
    assert_eq!(done(&["lease", &topic]).await, "no message is due\n");
    assert!(done(&["topics", "--prefix", &topic]).await.trim_end().ends_with("paused"));
    assert_eq!(done(&["resume", &topic]).await, format!("{topic} is not paused\n"));
    held(&topic).await;
}

#[tokio::test]
async fn a_purge_removes_the_named_states_only() {
    let topic = topic("client-purge");
    for delay in ["0s", "0s", "1h"] {
        done(&["publish", &topic, "1", "--delay", delay]).await;
    }
    let shown = done(&["purge", &topic, "--state", "ready", "dead"]).await;
    assert_eq!(shown, "purged 2, still there 0\n");
    assert_eq!((count(&topic, "ready").await, count(&topic, "delayed").await), (0, 1));
    assert_eq!(done(&["purge", &topic, "--state", "delayed"]).await, "purged 1, still there 0\n");
}

#[tokio::test]
async fn of_several_topics_the_first_with_a_message_wins() {
    let (urgent, bulk) = (topic("client-urgent"), topic("people-bulk"));
    done(&["publish", &bulk, "1"]).await;
    let both = ["lease", &urgent, &bulk, "--wait", "5s", "--max", "1"];
    let topic_of = |leased: Value| text(&leased["messages"][0], "topic").to_owned();
    assert_eq!(topic_of(answer(&both).await), bulk);
    done(&["publish", &bulk, "2"]).await;
    done(&["publish", &urgent, "1"]).await;
    assert_eq!(topic_of(answer(&both).await), urgent);
}

#[tokio::test]
async fn a_leased_message_is_deleted_by_force_only() {
    let topic = topic("client-force");
    done(&["publish", &topic, "1"]).await;
    let (id, token) = held(&topic).await;
    let told = failed(1, &["delete", &id]).await;
    assert!(told.contains("(409 message_leased)"), "{told}");
    done(&["delete", &id, "--force"]).await;
    let told = failed(1, &["ack", &id, &token]).await;
    assert!(told.contains("(404 message_not_found)"), "{told}");
}
