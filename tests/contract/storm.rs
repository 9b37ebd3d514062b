//! Everything at once on one topic through two instances: whatever the order, every snapshot is in
//! balance, and in the end everything has gone where the totals say.

use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};

use crate::facts::topic_in_balance;
use crate::harness::*;
use crate::topic_facts::topic_becomes;

/// So few keys that messages meet.
const KEYS: u32 = 5;

/// Any message that there can be.
fn message(random: &mut StdRng) -> Value {
    let mut message = json!({"payload": random.random_range(0..1000)});
    let key = format!("k{}", random.random_range(0..KEYS));
    let group = format!("g{}", random.random_range(0..3));
    let mut maybe = |name: &str, odds: u32, value: Value| {
        if random.random_range(0..odds) == 0 {
            message[name] = value;
        }
    };
    maybe("priority", 2, json!(7));
    maybe("delay_ms", 3, json!(300));
    maybe("ttl_ms", 3, json!(200));
    maybe("max_attempts", 3, json!(1));
    maybe("backoff", 4, json!({"kind": "fixed", "base_ms": 50}));
    maybe("key", 2, json!(key));
    maybe("group", 2, json!(group));
    if message.get("key").is_some() {
        // A message keeps its group.
        message.as_object_mut().unwrap().remove("group");
        message["on_duplicate"] = json!(["return", "reject", "replace"].choose(random).unwrap());
        message["key_until"] = json!(["done", "granted"].choose(random).unwrap());
    }
    message
}

/// One step of a user who does anything that is allowed.
async fn step(client: &Client, topic: &str, random: &mut StdRng, held: &mut Vec<Value>) {
    let path = |tail: &str| format!("/topics/{topic}/{tail}");
    let answer = match random.random_range(0..17) {
        0..4 => client.publish(topic, message(random)).await,
        4 => {
            let messages: Vec<Value> = (0..20).map(|_| message(random)).collect();
            client.post(&path("messages/batch"), &json!({"messages": messages})).await
        }
        5..8 => {
            let want = json!({"max_messages": random.random_range(1..6), "lease_ms": 1000});
            held.extend(client.leased(topic, want).await);
            return;
        }
        8..11 => {
            let Some(message) = held.pop() else { return };
            client.ack_leased(&message).await
        }
        11..13 => {
            let Some(message) = held.pop() else { return };
            let more = [
                json!({}),
                json!({"delay_ms": 0}),
                json!({"dead": true}),
                json!({"release": true}),
            ];
            client.nack_leased(&message, more.choose(random).unwrap().clone()).await
        }
        13 => {
            let Some(message) = held.pop() else { return };
            client.delete_by_force(text(&message, "id")).await
        }
        14 => {
            let state = ["ready", "delayed", "dead", "acked"].choose(random).unwrap();
            let page =
                client.list(topic, &format!("state={state}&limit=3")).await.expect(200).json();
            let Some(id) = page["items"][0]["id"].as_str() else { return };
            match random.random_range(0..3) {
                0 => client.delete(id).await,
                1 => client.post(&format!("/messages/{id}/redrive"), &json!({})).await,
                _ => {
                    let change = json!({"priority": random.random_range(0..3), "ttl_ms": 100});
                    let kind = [("content-type", "application/json")];
                    let body = Some(change.to_string().into_bytes());
                    client.send("PATCH", &format!("/messages/{id}"), &kind, body).await
                }
            }
        }
        15 => match random.random_range(0..4) {
            0 => client.purge(topic, &["ready"]).await,
            1 => client.purge(topic, &["delayed", "dead"]).await,
            2 => client.post(&path("redrive"), &json!({"max_messages": 3, "spread_ms": 200})).await,
            _ => {
                client.pause_topic(topic).await.expect(200);
                client.resume_topic(topic).await
            }
        },
        _ => {
            let change = [
                json!({"max_messages": 30, "on_full": "drop_oldest"}),
                json!({"max_messages": 30, "on_full": "reject"}),
                json!({"max_messages": null, "ttl_ms": 400}),
                json!({"ttl_ms": null, "max_attempts": 2}),
                json!({"retention": {"acked_ms": 300, "dead_max": 3}}),
                json!({"retention": {"dead_ms": 300}, "max_attempts": 5}),
                json!({"group_order": "fair", "group_concurrency": null}),
                json!({"group_order": "fair", "group_concurrency": 2, "group_rate_per_s": 50}),
                json!({"group_order": "strict", "group_rate_per_s": null}),
            ];
            client.update_topic(topic, change.choose(random).unwrap().clone()).await
        }
    };
    let known = [200, 201, 204, 404, 409, 429];
    assert!(known.contains(&answer.status), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_done_at_once_every_snapshot_is_in_balance() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let (here, there) = (instance().await, instance().await);
    let topic = topic("storm");
    here.client().new_topic(&topic, json!({"retention": {"acked_ms": 300}})).await;
    let work = |n: u64| {
        let client = if n.is_multiple_of(2) { here.client() } else { there.client() };
        let topic = topic.clone();
        tokio::spawn(async move {
            let (mut random, mut held) = (StdRng::seed_from_u64(seed.wrapping_add(n)), Vec::new());
            for _ in 0..200 {
                step(&client, &topic, &mut random, &mut held).await;
            }
        })
    };
    let workers: Vec<_> = (0..6).map(work).collect();
    let client = there.client();
    while !workers.iter().all(tokio::task::JoinHandle::is_finished) {
        topic_in_balance(&client, &topic).await;
    }
    for worker in workers {
        worker.await.unwrap();
    }
    // What is left ends by itself: leases, times to live, retention; the rest is purged.
    let last =
        json!({"max_messages": null, "ttl_ms": 100, "retention": {"acked_ms": 0, "dead_ms": 1000}});
    client.update_topic(&topic, last).await.expect(200);
    topic_becomes(&client, &topic, json!({"counts": {"leased": 0}})).await;
    while client.purge(&topic, &["ready", "delayed", "dead"]).await.expect(200).number("remaining")
        > 0
    {}
    let none = json!({"delayed": 0, "ready": 0, "blocked": 0, "leased": 0, "dead": 0});
    topic_becomes(&client, &topic, json!({"counts": none})).await;
    for key in 0..KEYS {
        let path = format!("/topics/{topic}/keys/k{key}");
        client.get_path(&path).await.problem(404, "message_not_found");
    }
    for state in ["delayed", "ready", "leased", "dead"] {
        assert!(client.listed(&topic, &format!("state={state}")).await.is_empty(), "{state}");
    }
    client.delete_topic(&topic, "").await.expect(204);
}
