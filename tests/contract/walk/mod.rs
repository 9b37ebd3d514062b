//! A random walk through what a message can go through, one step after another, beside a model: keys
//! in all their ways, batches, releases, changes, deletes, purges and redrives, through two instances.
//! After every step each message, each key and every total must be what the model says.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::harness::*;

mod model;

use model::Model;

const STEPS: usize = 120;
const FAR: i64 = 600_000;

/// The fields of a publish as the walk makes them up.
fn message(random: &mut StdRng, n: usize) -> Value {
    let mut message = json!({
        "payload": n,
        "priority": random.random_range(0..3),
        "delay_ms": if random.random_bool(0.3) { FAR } else { 0 },
        "max_attempts": random.random_range(1..4),
        "backoff": {"kind": "fixed", "base_ms": FAR},
    });
    if random.random_bool(0.7) {
        message["key"] = json!(["a", "b", "c/d", "é 1"].choose(random).unwrap());
        message["on_duplicate"] = json!(["return", "reject", "replace"].choose(random).unwrap());
        message["key_until"] = json!(["done", "done", "granted"].choose(random).unwrap());
    }
    if message["on_duplicate"] == "replace" {
        message["max_attempts"] = json!(900); // so that no replace leaves a message without attempts
    }
    message
}

struct Walk {
    client: Client,
    /// One of another instance; they change places at random.
    other: Client,
    topic: String,
    model: Model,
    random: StdRng,
    published: usize,
}

impl Walk {
    async fn publish(&mut self) {
        self.published += 1;
        let message = message(&mut self.random, self.published);
        let answer = self.client.publish(&self.topic, message.clone()).await;
        let told = if answer.status < 300 { "ok".to_owned() } else { answer.text("code") };
        let wanted = self.model.publish(&message, answer.json()["id"].as_str());
        assert_eq!(told, wanted.0, "{message}: {answer}");
        if told == "ok" {
            assert_eq!(answer.status, if wanted.1 { 200 } else { 201 }, "{message}: {answer}");
            assert_eq!(answer.json()["duplicate"], wanted.1, "{message}: {answer}");
        }
    }

    async fn publish_batch(&mut self) {
        let mut batch = Vec::new();
        for _ in 0..self.random.random_range(1..12) {
            self.published += 1;
            batch.push(message(&mut self.random, self.published));
        }
        let results = self.client.published_batch(&self.topic, &batch).await;
        for (message, result) in batch.iter().zip(&results) {
            let wanted = self.model.publish(message, result["message"]["id"].as_str());
            assert_eq!(result["status"], wanted.0, "{message}: {result}");
            if wanted.0 == "ok" {
                assert_eq!(result["message"]["duplicate"], wanted.1, "{message}: {result}");
            }
        }
    }

    async fn lease(&mut self) {
        let most = self.random.random_range(1..8);
        let ready = self.model.count("ready");
        let want = json!({"max_messages": most, "lease_ms": FAR});
        let held = self.client.leased(&self.topic, want).await;
        assert_eq!(held.len(), most.min(ready), "of {ready} ready");
        for message in &held {
            self.model.grant(message);
        }
        let least = held.iter().map(|message| number(message, "priority")).min();
        let left = self.model.messages.values().filter(|message| message.state == "ready");
        let left = left.map(|message| message.priority).max();
        assert!(left <= least || held.is_empty(), "priority {left:?} was passed over: {held:?}");
    }

    /// Ends some of the leases by one batch each for acks and nacks, or by hand.
    async fn hold(&mut self) {
        let (mut acks, mut nacks) = (Vec::new(), Vec::new());
        for id in self.model.of("leased") {
            let mut item = json!({"id": id, "lease_token": self.model.messages[&id].token});
            let more = match self.random.random_range(0..8) {
                0 => {
                    acks.push(item);
                    continue;
                }
                1 => json!({"delay_ms": 0, "reason": "now"}),
                2 => json!({"delay_ms": FAR}),
                3 => json!({}),
                4 => json!({"release": true, "reason": "back"}),
                5 => json!({"release": true, "delay_ms": FAR}),
                6 => json!({"dead": true}),
                _ => continue,
            };
            item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            nacks.push(item);
        }
        if !acks.is_empty() {
            let results = self.client.held_batch("ack", &acks).await;
            for (item, result) in acks.iter().zip(&results) {
                assert_eq!(result["status"], "ok", "{item}");
                self.model.ack(text(item, "id"));
            }
        }
        let results = if nacks.is_empty() {
            Vec::new()
        } else if self.random.random_bool(0.5) {
            self.client.held_batch("nack", &nacks).await
        } else {
            let mut results = Vec::new();
            for item in &nacks {
                let mut more = item.clone();
                more.as_object_mut().unwrap().remove("id");
                let path = format!("/messages/{}/nack", text(item, "id"));
                results.push(self.client.post(&path, &more).await.expect(200).json());
            }
            results
        };
        for (item, result) in nacks.iter().zip(&results) {
            let state = self.model.nack(item);
            assert_eq!(result["state"], state, "{item}: {result}");
            self.client.ack(text(item, "id"), text(item, "lease_token")).await.refused(409);
        }
    }

    async fn update(&mut self, id: &str) {
        self.published += 1;
        let change = match self.random.random_range(0..4) {
            0 => json!({"delay_ms": 0}),
            1 => json!({"delay_ms": FAR, "payload": self.published}),
            2 => json!({"priority": self.random.random_range(0..4)}),
            _ => json!({"payload": self.published, "max_attempts": 900}),
        };
        let answer = self.client.update(id, change.clone()).await;
        let wanted = self.model.update(id, &change);
        let told = if answer.status == 200 { "ok".to_owned() } else { answer.text("code") };
        assert_eq!(told, wanted, "{change}: {answer}");
    }

    async fn delete(&mut self, id: &str) {
        let force = self.random.random_bool(0.5);
        let answer = match force {
            true => self.client.delete_by_force(id).await,
            false => self.client.delete(id).await,
        };
        if self.model.messages[id].state == "leased" && !force {
            answer.problem(409, "message_leased");
        } else {
            answer.expect(204);
            self.model.delete(id);
        }
    }

    async fn redrive(&mut self, id: &str) {
        let answer = self.client.redrive(id).await;
        let wanted = self.model.redrive(id);
        let told = if answer.status == 200 { "ok".to_owned() } else { answer.text("code") };
        assert_eq!(told, wanted, "{answer}");
    }

    async fn redrive_topic(&mut self) {
        let dead = self.model.of("dead");
        let can = self.model.redrivable();
        let answer = self.client.redrive_topic(&self.topic, json!({})).await.expect(200);
        let told = (answer.number("redriven"), answer.number("remaining"));
        let count = |n: usize| i64::try_from(n).unwrap();
        assert_eq!(told, (count(can), count(dead.len() - can)), "{dead:?}");
        for id in dead {
            if self.client.state(&id).await == "ready" {
                assert_eq!(self.model.redrive(&id), "ok", "{id}");
            }
        }
    }

    async fn purge(&mut self) {
        let state = *["ready", "delayed", "dead"].choose(&mut self.random).unwrap();
        let path = format!("/topics/{}/purge", self.topic);
        let answer = self.client.post(&path, &json!({"states": [state]})).await.expect(200);
        let purged = self.model.of(state);
        assert_eq!(answer.number("purged"), i64::try_from(purged.len()).unwrap());
        assert_eq!(answer.number("remaining"), 0);
        purged.iter().for_each(|id| self.model.purge(id));
    }

    async fn step(&mut self) -> &'static str {
        if self.random.random_bool(0.3) {
            std::mem::swap(&mut self.client, &mut self.other);
        }
        let ids: Vec<String> = self.model.messages.keys().cloned().collect();
        let any = ids.choose(&mut self.random).cloned();
        match (self.random.random_range(0..20), any) {
            (0..5, _) => self.publish().await,
            (5..7, _) => self.publish_batch().await,
            (7..11, _) => self.lease().await,
            (11..15, _) => self.hold().await,
            (15 | 16, Some(id)) => self.update(&id).await,
            (17, Some(id)) => self.redrive(&id).await,
            (18, Some(id)) => self.delete(&id).await,
            (19, _) if self.random.random_bool(0.3) => self.purge().await,
            (19, _) => self.redrive_topic().await,
            _ => return "nothing",
        }
        "a step"
    }
}

#[tokio::test]
async fn a_walk_through_every_option_goes_as_the_model_says() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let (client, topic) = (client().await, topic("walk"));
    client.configure(&topic, json!({})).await;
    let (model, random) = (Model::default(), StdRng::seed_from_u64(seed));
    let dueq = instance().await;
    let other = dueq.client();
    let mut walk = Walk { client, other, topic, model, random, published: 0 };
    for _ in 0..STEPS {
        if walk.step().await == "a step" {
            walk.model.compare(&walk.client, &walk.topic).await;
        }
    }
}
