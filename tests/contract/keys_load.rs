//! Keys under load: whatever is done at once, through two instances, at most one live message holds a
//! key, and that is the one found by it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::json;

use crate::facts::topic_in_balance;
use crate::harness::*;

const KEYS: [&str; 3] = ["a", "b", "c"];

/// One random request; the id of a message that it made.
async fn act(client: &Client, topic: &str, random: &mut StdRng) -> Option<String> {
    let key = *KEYS.choose(random).unwrap();
    match random.random_range(0..10) {
        0..5 => {
            let on_duplicate = ["return", "reject", "replace"].choose(random).unwrap();
            let message = json!({
                "payload": 1, "key": key, "max_attempts": random.random_range(1..3),
                "on_duplicate": on_duplicate,
                "priority": random.random_range(0..2),
                "delay_ms": if random.random_bool(0.2) { 600_000 } else { 0 },
            });
            let answer = client.publish(topic, message).await;
            assert!(matches!(answer.status, 200 | 201 | 409), "{answer}");
            return (answer.status == 201).then(|| answer.text("id"));
        }
        5..8 => {
            for held in client.leased(topic, json!({"max_messages": 2})).await {
                match random.random_range(0..5) {
                    0 | 1 => drop(client.ack_leased(&held).await),
                    2 => drop(client.nack_leased(&held, json!({"delay_ms": 0})).await),
                    3 => drop(client.nack_leased(&held, json!({"dead": true})).await),
                    _ => {}
                }
            }
        }
        8 => drop(client.delete_by_key(topic, key, "?force=true").await),
        _ => drop(client.redrive_topic(topic, json!({"max_messages": 3})).await.expect(200)),
    }
    None
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_most_one_live_message_holds_a_key() {
    let other = instance().await;
    let (client, topic) = (client().await, topic("keys"));
    client.configure(&topic, json!({})).await;
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let workers: Vec<_> = (0..8)
        .map(|n| {
            let client = if n % 2 == 0 { client.clone() } else { other.client() };
            let (topic, mut random) = (topic.clone(), StdRng::seed_from_u64(seed ^ n));
            tokio::spawn(async move {
                let mut made = Vec::new();
                for _ in 0..60 {
                    made.extend(act(&client, &topic, &mut random).await);
                }
                made
            })
        })
        .collect();
    let mut made = Vec::new();
    for worker in workers {
        made.extend(worker.await.unwrap());
    }
    let seen = topic_in_balance(&client, &topic).await;
    assert_eq!(seen["totals"]["published"], made.len());
    let mut holders: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for id in made {
        let answer = client.get(&id).await;
        if answer.status == 404 || answer.text("state") == "dead" {
            continue;
        }
        if let Some(key) = answer.json()["key"].as_str() {
            holders.entry(key.to_owned()).or_default().push(id);
        }
    }
    for key in KEYS {
        let live = holders.remove(key).unwrap_or_default();
        assert!(live.len() <= 1, "{key} is held by {live:?}");
        let answer = client.get_by_key(&topic, key).await;
        match live.first() {
            Some(id) => assert_eq!(answer.expect(200).text("id"), *id, "{key}"),
            None => drop(answer.problem(404, "message_not_found")),
        }
    }
}

#[tokio::test]
async fn what_a_change_by_key_read_never_shows_on_the_next_message_of_the_key() {
    let other = instance().await;
    let (client, topic) = (client().await, topic("keys"));
    let done = AtomicBool::new(false);
    let changes = async |client: Client, name: &str| {
        while !done.load(Relaxed) {
            let headers = json!({"headers": {(name): "x"}});
            let some = (0..8).map(|_| client.update_by_key(&topic, "k", headers.clone()));
            for answer in join_all(some).await {
                assert!(matches!(answer.status, 200 | 404 | 503), "{answer}");
            }
        }
    };
    let publishes = async {
        let mut made = 0;
        for n in 0..600 {
            let message = json!({"payload": n, "key": "k"});
            let (_, new) = tokio::join!(
                client.delete_by_key(&topic, "k", ""),
                client.publish(&topic, message)
            );
            if new.status != 201 {
                continue;
            }
            // The changes are on their way.
            tokio::time::sleep(Duration::from_micros(n % 4 * 500)).await;
            let seen = client.get(&new.text("id")).await;
            if seen.status == 200 {
                assert_eq!(seen.json()["payload"], n, "{seen}");
                made += 1;
            }
        }
        done.store(true, Relaxed);
        assert!(made > 100, "only {made} messages");
    };
    client.new_topic(&topic, json!({})).await;
    tokio::join!(changes(client.clone(), "a"), changes(other.client(), "b"), publishes);
}

#[tokio::test]
async fn of_many_changes_at_once_none_undoes_another() {
    let other = instance().await;
    let (client, topic) = (client().await, topic("keys"));
    let clients = [client.clone(), other.client()];
    let id = client.published(&topic, json!({"payload": 0, "key": "k", "priority": 1})).await;
    for round in 0..20 {
        // Each of two fields is changed by many at once: in the end both are what was written last.
        let change = |n: usize| match n % 2 {
            0 => json!({"payload": format!("{round}")}),
            _ => json!({"headers": {"x-round": format!("{round}")}}),
        };
        let by_key = (0..24).map(|n| clients[n / 2 % 2].update_by_key(&topic, "k", change(n)));
        for answer in join_all(by_key).await {
            // Where others are always faster, nothing happens.
            assert!(matches!(answer.status, 200 | 503), "{answer}");
        }
        let seen = client.get(&id).await.expect(200).json();
        assert_eq!(seen["payload"], format!("{round}"), "{seen}");
        assert_eq!(seen["headers"]["x-round"], format!("{round}"), "{seen}");
        // By its events a change knows what it read: no two are of one instant.
        let events = &seen["events"].as_array().unwrap()[1..];
        let mut instants: Vec<&str> = events.iter().map(|event| text(event, "at")).collect();
        instants.dedup();
        assert_eq!(instants.len(), events.len(), "{seen}");
    }
}
