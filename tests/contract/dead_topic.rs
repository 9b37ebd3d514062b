//! `dead_topic`: what dies in a topic is published in another too, once in calm weather, as getMessage
//! shows it; and what is told of a death is told no further.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::facts::{dead_message, fail_attempts, killed, topic_in_balance};
use crate::harness::*;
use crate::partitions::lease_all;
use crate::topic_facts::{topic_becomes, topic_has};

/// A death is told of within about a second, on a machine that runs other tests as well.
const SOON: Duration = Duration::from_secs(4);

/// A new topic with this configuration whose dead are told of in a topic that does not exist yet.
async fn mortal(client: &Client, mut config: Value) -> (String, String) {
    let (here, there) = (topic("mortal"), topic("dead"));
    config["dead_topic"] = json!(there);
    client.new_topic(&here, config).await;
    (here, there)
}

/// Waits for exactly so many letters in a topic, in the order in which they came: their payloads.
async fn letters(client: &Client, topic: &str, count: usize) -> Vec<Value> {
    let told = eventually(&format!("{count} letters in {topic}"), || async {
        if client.topic(topic).await.status == 404 {
            return None;
        }
        let told = client.listed(topic, "state=ready&payload=true").await;
        (told.len() >= count).then_some(told)
    })
    .await;
    assert_eq!(told.len(), count, "{told:?}");
    told.into_iter().map(|mut message| message["payload"].take()).collect()
}

/// Demands that a topic's letters stay so many, over several rounds of housekeeping.
async fn stays(client: &Client, topic: &str, count: i64) {
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    topic_has(client, topic, json!({"counts": {"ready": count}, "totals": {"published": count}}))
        .await;
}

#[tokio::test]
async fn a_message_given_up_is_told_of_as_it_is_shown_once() {
    let client = client().await;
    let (here, there) = mortal(&client, json!({})).await;
    let message = json!({"payload": {"b": 1, "a": [1.50]}, "headers": {"X-a": "b"}, "key": "k", "priority": 9,
        "ttl_ms": 60_000, "backoff": {"kind": "fixed", "base_ms": 5}, "max_attempts": 7});
    let id = client.published(&here, message).await;
    fail_attempts(&client, &here, 2).await;
    let held = client.lease_one(&here).await;
    let died = Instant::now();
    client.nack_leased(&held, json!({"dead": true, "reason": "no use"})).await.expect(200);
    let told = letters(&client, &there, 1).await.remove(0);
    assert!(died.elapsed() < SOON, "{:?}", died.elapsed());
    let shown = client.get(&id).await.expect(200).json();
    assert_eq!((&shown["state"], &shown["last_error"]), (&json!("dead"), &json!("no use")));
    assert_eq!(told["message"], shown);
    let last = shown["events"].as_array().and_then(|events| events.last()).unwrap();
    assert_eq!((&last["kind"], &last["at"]), (&json!("dead"), &told["died_at"]));
    instant_ms(text(&told, "died_at"));
    let names: Vec<&String> = told.as_object().unwrap().keys().collect();
    assert_eq!(names, ["died_at", "message"]);
    stays(&client, &there, 1).await;
}

#[tokio::test]
async fn the_payload_is_told_byte_for_byte_and_bytes_in_base64() {
    let client = client().await;
    let (here, there) = mortal(&client, json!({"max_attempts": 1})).await;
    let text = r#"{"payload": { "z":1E400,  "a":-0 }}"#;
    client.post_text(&format!("/topics/{here}/messages"), text).await.expect(201);
    client.publish_raw(&here, "", Some("image/png"), &[0, 255]).await.expect(201);
    for held in client.leased(&here, json!({"max_messages": 2})).await {
        client.nack_leased(&held, json!({})).await.expect(200);
    }
    let told = letters(&client, &there, 2).await;
    let bytes = told.iter().find(|letter| letter["message"]["content_type"] == "image/png");
    assert_eq!(bytes.unwrap()["message"]["payload_base64"], "AP8=");
    let raw = client.lease(&there, json!({"max_messages": 2})).await.expect(200);
    let raw = String::from_utf8_lossy(&raw.body).into_owned();
    assert!(raw.contains(r#""payload":{ "z":1E400,  "a":-0 }"#), "{raw}");
}

#[tokio::test]
async fn attempts_used_up_and_leases_that_end_are_deaths_as_well() {
    // Housekeeping alone sees the end of a lease, and has more to do where others are.
    let (_redis, _dueq, client) = alone().await;
    let (here, there) = mortal(&client, json!({"max_attempts": 2})).await;
    let failed = client.published(&here, json!({"payload": 1})).await;
    fail_attempts(&client, &here, 2).await;
    assert_eq!(letters(&client, &there, 1).await[0]["message"]["id"], failed);
    let left = client.published(&here, json!({"payload": 1, "max_attempts": 1})).await;
    client.lease_one_with(&here, json!({"lease_ms": 1_000})).await;
    let ends = Instant::now() + Duration::from_secs(1);
    let told = letters(&client, &there, 2).await;
    assert!(ends.elapsed() < SOON, "{:?}", ends.elapsed());
    assert_eq!(
        (&told[1]["message"]["id"], &told[1]["message"]["state"]),
        (&json!(left), &json!("dead"))
    );
    stays(&client, &there, 2).await;
}

#[tokio::test]
async fn hundreds_are_told_of_once_each_through_two_instances() {
    // An instance of another test that is killed would keep its part of the sweeps for half a minute.
    let (redis, _one, client) = alone().await;
    let other = Dueq::on(&redis).start().await;
    let other = other.client();
    let (here, there) = mortal(&client, json!({})).await;
    let ids = client.fill(&here, &vec![json!({"payload": "x".repeat(3_000)}); 600]).await;
    let mut batches = Vec::new();
    for _ in 0..6 {
        let held = client.leased(&here, json!({"max_messages": 100})).await;
        let dead = |held: &Value| json!({"id": held["id"], "lease_token": held["lease_token"], "dead": true});
        batches.push(held.iter().map(dead).collect::<Vec<_>>());
    }
    let nacks = batches.iter().enumerate().map(|(n, batch)| {
        let client = if n % 2 == 0 { &client } else { &other };
        client.held_batch("nack", batch)
    });
    let nacked = futures_util::future::join_all(nacks).await.concat();
    assert!(nacked.len() == 600 && nacked.iter().all(|it| it["status"] == "ok"), "{nacked:?}");
    let want = json!({"totals": {"published": 600}});
    eventually("the dead topic", || async {
        (client.topic(&there).await.status == 200).then_some(())
    })
    .await;
    topic_becomes(&client, &there, want).await;
    stays(&client, &there, 600).await;
    let told = client.listed(&there, "state=ready&payload=true").await;
    let mut told: Vec<String> =
        told.iter().map(|letter| text(&letter["payload"]["message"], "id").to_owned()).collect();
    told.sort();
    let mut ids = ids;
    ids.sort();
    assert_eq!(told, ids);
}

#[tokio::test]
async fn those_that_may_not_be_kept_are_told_of_too() {
    let client = client().await;
    let retentions = [json!({"dead_max": 0}), json!({"dead_ms": 0})];
    for (retention, form) in retentions.iter().flat_map(|it| [(it, "letter"), (it, "raw")]) {
        let config = json!({"retention": retention, "max_attempts": 1, "dead_form": form});
        let (here, there) = mortal(&client, config).await;
        client.fill(&here, &vec![json!({"payload": 1}); 300]).await;
        let held = lease_all(&client, &here).await;
        assert_eq!(held.len(), 300);
        let nack = |held: &Value| json!({"id": held["id"], "lease_token": held["lease_token"]});
        let nacked = client.held_batch("nack", &held.iter().map(nack).collect::<Vec<_>>()).await;
        assert!(nacked.iter().all(|it| it["state"] == "dead"), "{nacked:?}");
        // Looking sweeps, too; and must not lose any.
        let seen = topic_becomes(&client, &here, json!({"counts": {"dead": 0}})).await;
        let gone = number(&seen["totals"], "expired") + number(&seen["totals"], "deleted");
        assert!(gone == 300 && (form == "raw" || seen["totals"]["deleted"] == 0), "{seen}");
        letters(&client, &there, 300).await;
    }
}

#[tokio::test]
async fn a_letter_minds_neither_the_size_nor_the_bound_of_its_topic() {
    let client = client().await;
    let (here, there) = mortal(&client, json!({"max_payload_bytes": 1_048_576})).await;
    let bounds = json!({"max_payload_bytes": 10, "max_messages": 1});
    client.new_topic(&there, bounds).await;
    client.published(&there, json!({"payload": 1})).await;
    client.publish(&there, json!({"payload": 1})).await.problem(429, "topic_full");
    let large = "x".repeat(1_048_574);
    for _ in 0..3 {
        killed(&client, &here, json!({"payload": large})).await;
    }
    topic_becomes(&client, &there, json!({"counts": {"ready": 4}})).await;
    let told = client.leased(&there, json!({"max_messages": 4})).await;
    let told: Vec<&Value> = told.iter().filter(|told| told["payload"] != 1).collect();
    assert!(told.iter().all(|told| told["payload"]["message"]["payload"] == json!(large)));
    client.publish(&there, json!({"payload": 1})).await.problem(429, "topic_full");
}

#[tokio::test]
async fn a_full_dead_topic_drops_nothing_for_a_letter() {
    let client = client().await;
    let (here, there) = mortal(&client, json!({})).await;
    client.new_topic(&there, json!({"max_messages": 1, "on_full": "drop_oldest"})).await;
    client.published(&there, json!({"payload": 1})).await;
    killed(&client, &here, json!({"payload": 1})).await;
    topic_becomes(&client, &there, json!({"counts": {"ready": 2}, "totals": {"expired": 0}})).await;
}

#[tokio::test]
async fn what_dies_in_a_dead_topic_goes_nowhere_further() {
    let client = client().await;
    let (here, there) = mortal(&client, json!({"max_attempts": 1})).await;
    // A circle: each is the other's dead topic.
    client.new_topic(&there, json!({"dead_topic": here, "max_attempts": 1})).await;
    dead_message(&client, &here).await;
    letters(&client, &there, 1).await;
    let held = client.lease_one(&there).await;
    client.nack_leased(&held, json!({})).await.expect(200);
    // But what somebody published there himself does.
    let own = dead_message(&client, &there).await;
    let told = letters(&client, &here, 1).await;
    assert_eq!(told[0]["message"]["id"], own);
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    topic_has(&client, &here, json!({"totals": {"published": 2}})).await;
    topic_has(&client, &there, json!({"totals": {"published": 2}, "counts": {"dead": 2}})).await;
}

#[tokio::test]
async fn a_letter_given_a_new_payload_is_still_one() {
    let client = client().await;
    let (here, there) = mortal(&client, json!({})).await;
    let further = topic("dead");
    client.new_topic(&there, json!({"dead_topic": further})).await;
    killed(&client, &here, json!({"payload": 1})).await;
    letters(&client, &there, 1).await;
    let letter = client.listed(&there, "state=ready").await.remove(0);
    client.update(text(&letter, "id"), json!({"payload": 2, "priority": 1})).await.expect(200);
    let held = client.lease_one(&there).await;
    client.nack_leased(&held, json!({"dead": true})).await.expect(200);
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    client.topic(&further).await.problem(404, "topic_not_found");
}

#[tokio::test]
async fn without_the_setting_and_after_it_is_gone_nothing_is_told() {
    let client = client().await;
    let (here, there) = mortal(&client, json!({"retention": {"dead_max": 5}})).await;
    killed(&client, &here, json!({"payload": 1})).await;
    letters(&client, &there, 1).await;
    client.update_topic(&here, json!({"dead_topic": null})).await.expect(200);
    killed(&client, &here, json!({"payload": 2})).await;
    stays(&client, &there, 1).await;
    client.update_topic(&here, json!({"dead_topic": there})).await.expect(200);
    stays(&client, &there, 1).await;
    killed(&client, &here, json!({"payload": 3})).await;
    letters(&client, &there, 2).await;
}

#[tokio::test]
async fn a_redriven_message_is_told_of_at_each_death() {
    let client = client().await;
    let (here, there) = mortal(&client, json!({"max_attempts": 1})).await;
    let id = dead_message(&client, &here).await;
    client.redrive(&id).await.expect(200);
    letters(&client, &there, 1).await;
    let held = client.lease_one(&here).await;
    client.nack_leased(&held, json!({})).await.expect(200);
    let told = letters(&client, &there, 2).await;
    assert!(told.iter().all(|letter| letter["message"]["id"] == id));
    assert!(told[0]["died_at"].as_str() < told[1]["died_at"].as_str(), "{told:?}");
}

#[tokio::test]
async fn a_letter_is_a_message_like_any_other() {
    let client = client().await;
    let (here, there) = mortal(&client, json!({})).await;
    let id = killed(&client, &here, json!({"payload": 1})).await;
    // A waiter that was there before the topic is woken for it.
    let letter = client.lease_one(&there).await;
    assert_eq!((&letter["payload"]["message"]["id"], &letter["attempt"]), (&json!(id), &json!(1)));
    assert_eq!(letter["headers"], json!({}));
    assert!(letter.get("key").is_none());
    client.ack_leased(&letter).await.expect(204);
    topic_in_balance(&client, &there).await;
    client.delete_topic(&here, "?force=true").await.expect(204);
}
