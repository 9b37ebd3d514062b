//! A random walk beside a model: many messages at once, so that requests share script calls, each
//! with its own right or wrong token; after every round the topic must be what the model says.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::facts::topic_in_balance;
use crate::harness::*;

const ROUNDS: usize = 25;

/// What a message should be.
#[derive(Clone, Debug)]
struct Expected {
    attempts: i64,
    max_attempts: i64,
    state: &'static str,
    /// The token of the present lease, and those of earlier ones.
    token: String,
    stale: Vec<String>,
}

/// What is done to a leased message, and what must come of it.
#[derive(Clone, Copy, Debug)]
enum Act {
    Leave,
    Ack,
    NackNow,
    NackLater,
    Extend,
    Stale,
    Forge,
    Delete,
    AckWithLease,
}

const ACTS: [Act; 12] = [
    Act::Ack,
    Act::Ack,
    Act::AckWithLease,
    Act::AckWithLease,
    Act::NackNow,
    Act::NackNow,
    Act::NackLater,
    Act::Extend,
    Act::Stale,
    Act::Forge,
    Act::Delete,
    Act::Leave,
];

async fn act(client: &Client, id: &str, message: &Expected, act: Act) {
    let token = &message.token;
    match act {
        Act::Leave => {}
        Act::Ack => drop(client.ack(id, token).await.expect(204)),
        Act::NackNow | Act::NackLater => {
            let delay = if matches!(act, Act::NackNow) { 0 } else { 600_000 };
            let answer = client.nack(id, token, json!({"delay_ms": delay})).await.expect(200);
            assert_eq!(answer.number("attempt"), message.attempts, "{id} {message:?}");
            assert_eq!(answer.text("state"), after(message, act).unwrap(), "{id} {message:?}");
        }
        Act::Extend => {
            let before = client.get(id).await.expect(200).instant("lease_expires_at");
            let answer = client.extend(id, token, 3_600_000).await.expect(200);
            assert!(answer.instant("lease_expires_at") >= before, "{answer}");
        }
        Act::Stale => {
            for stale in &message.stale {
                client.ack(id, stale).await.problem(409, "lease_lost");
                client.extend(id, stale, 60_000).await.problem(409, "lease_lost");
            }
        }
        Act::Forge => {
            let mut forged = token.clone();
            let last = if forged.pop() == Some('A') { 'B' } else { 'A' };
            forged.push(last);
            client.nack(id, &forged, json!({})).await.problem(409, "lease_lost");
        }
        Act::Delete => drop(client.delete(id).await.problem(409, "message_leased")),
        Act::AckWithLease => {
            let acks = json!({"acks": [{"id": id, "lease_token": token}]});
            let answer = client.lease(&topic("model-empty"), acks).await.expect(200);
            assert_eq!(answer.json()["acks"][0]["status"], "ok", "{answer}");
        }
    }
}

/// The state after an act; nothing when the message is gone.
fn after(message: &Expected, act: Act) -> Option<&'static str> {
    match act {
        Act::Ack | Act::AckWithLease => None,
        Act::NackNow | Act::NackLater if message.attempts == message.max_attempts => Some("dead"),
        Act::NackNow => Some("ready"),
        Act::NackLater => Some("delayed"),
        _ => Some("leased"),
    }
}

/// The topic's counts, and each message by itself, against the model.
async fn compare(client: &Client, topic: &str, model: &BTreeMap<String, Expected>) {
    let seen = topic_in_balance(client, topic).await;
    for state in ["delayed", "ready", "leased", "dead"] {
        let count = model.values().filter(|message| message.state == state).count();
        assert_eq!(seen["counts"][state], count, "{state}: {seen}");
    }
    let looks = model.iter().map(|(id, expected)| async move {
        let seen = client.get(id).await.expect(200);
        assert_eq!(seen.text("state"), expected.state, "{expected:?} {seen}");
        assert_eq!(seen.number("attempts"), expected.attempts, "{expected:?} {seen}");
        let left = expected.max_attempts - expected.attempts;
        assert_eq!(seen.number("attempts_left"), left, "{expected:?} {seen}");
    });
    join_all(looks).await;
}

/// Publishes up to ten messages at once.
async fn publish(client: &Client, topic: &str, random: &mut StdRng) -> Vec<(String, Expected)> {
    let messages: Vec<Value> = (0..random.random_range(0..10))
        .map(|_| {
            let max_attempts = [10, 1, 2, 3][random.random_range(0..4)];
            let mut message = json!({"payload": "x".repeat(random.random_range(0..3000))});
            if max_attempts != 10 {
                message["max_attempts"] = json!(max_attempts);
            }
            match random.random_range(0..3) {
                0 => message["priority"] = json!(random.random_range(0..4)),
                1 if random.random_bool(0.3) => message["delay_ms"] = json!(600_000),
                _ => {}
            }
            message
        })
        .collect();
    let sends = messages.into_iter().map(|message| async move {
        let answer = client.publish(topic, message.clone()).await.expect(201);
        let state = if message.get("delay_ms").is_some() { "delayed" } else { "ready" };
        assert_eq!(answer.text("state"), state);
        let max_attempts = message["max_attempts"].as_i64().unwrap_or(10);
        let (token, stale) = (String::new(), Vec::new());
        (answer.text("id"), Expected { attempts: 0, max_attempts, state, token, stale })
    });
    join_all(sends).await
}

#[tokio::test]
async fn a_random_walk_goes_as_the_model_says() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let (client, topic) = (client().await, topic("model"));
    let mut model: BTreeMap<String, Expected> = BTreeMap::new();
    model.extend([(
        client.published(&topic, json!({"payload": 1, "delay_ms": 600_000})).await,
        Expected {
            attempts: 0,
            max_attempts: 10,
            state: "delayed",
            token: String::new(),
            stale: Vec::new(),
        },
    )]);
    for _ in 0..ROUNDS {
        model.extend(publish(&client, &topic, &mut random).await);
        let wants: Vec<Value> = (0..random.random_range(1..5))
            .map(|_| json!({"max_messages": random.random_range(1..5), "lease_ms": 600_000}))
            .collect();
        let leases = wants.into_iter().map(|want| client.leased(&topic, want));
        for held in join_all(leases).await.concat() {
            let expected = model.get_mut(text(&held, "id")).expect("a message that was published");
            assert_eq!(expected.state, "ready", "{held}");
            expected.attempts += 1;
            assert_eq!(number(&held, "attempt"), expected.attempts, "{held}");
            let left = expected.max_attempts - expected.attempts;
            assert_eq!(number(&held, "attempts_left"), left, "{held}");
            let token =
                std::mem::replace(&mut expected.token, text(&held, "lease_token").to_owned());
            expected.stale.extend(Some(token).filter(|token| !token.is_empty()));
            expected.state = "leased";
        }
        compare(&client, &topic, &model).await;
        let acts: Vec<(String, Expected, Act)> = model
            .iter()
            .filter(|(_, message)| message.state == "leased")
            .map(|(id, message)| (id.clone(), message.clone(), ACTS[random.random_range(0..12)]))
            .collect();
        join_all(acts.iter().map(|(id, message, what)| act(&client, id, message, *what))).await;
        for (id, message, what) in &acts {
            match after(message, *what) {
                Some(state) => model.get_mut(id).unwrap().state = state,
                None => {
                    model.remove(id);
                    client.get(id).await.problem(404, "message_not_found");
                }
            }
        }
        compare(&client, &topic, &model).await;
    }
}
