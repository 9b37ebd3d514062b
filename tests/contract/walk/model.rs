//! What the contract says that each step of the walk does.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::facts::topic_in_balance;
use crate::harness::*;

/// What a message should be.
#[derive(Clone, Debug)]
pub struct Message {
    pub state: &'static str,
    pub priority: i64,
    pub token: String,
    payload: i64,
    /// Its key, unless a grant has freed that for good.
    key: Option<String>,
    until_granted: bool,
    attempts: i64,
    /// Grants of this budget that count.
    counted: i64,
    max_attempts: i64,
}

/// All messages of the topic that are there, and what was counted.
#[derive(Default)]
pub struct Model {
    pub messages: BTreeMap<String, Message>,
    totals: BTreeMap<&'static str, i64>,
}

impl Model {
    /// The messages in this state.
    pub fn of(&self, state: &str) -> Vec<String> {
        let of = self.messages.iter().filter(|(_, message)| message.state == state);
        of.map(|(id, _)| id.clone()).collect()
    }

    pub fn count(&self, state: &str) -> usize {
        self.of(state).len()
    }

    fn add(&mut self, total: &'static str) {
        *self.totals.entry(total).or_default() += 1;
    }

    /// The live message that holds this key.
    fn holder(&self, key: &str) -> Option<String> {
        let mut found = self
            .messages
            .iter()
            .filter(|(_, message)| message.state != "dead" && message.key.as_deref() == Some(key));
        found.next().map(|(id, _)| id.clone())
    }

    /// What a publish answers, and whether as a duplicate; `id` is the one that the server gave.
    pub fn publish(&mut self, sent: &Value, id: Option<&str>) -> (&'static str, bool) {
        let new = Message {
            state: if sent["delay_ms"] == 0 { "ready" } else { "delayed" },
            priority: number(sent, "priority"),
            token: String::new(),
            payload: number(sent, "payload"),
            key: sent["key"].as_str().map(str::to_owned),
            until_granted: sent["key_until"] == "granted",
            attempts: 0,
            counted: 0,
            max_attempts: number(sent, "max_attempts"),
        };
        let Some(holder) = new.key.as_ref().and_then(|key| self.holder(key)) else {
            if let Some(id) = id {
                let before = self.messages.insert(id.to_owned(), new);
                assert!(before.is_none(), "{id} is no new id");
            }
            self.add("published");
            return ("ok", false);
        };
        let leased = self.messages[&holder].state == "leased";
        match text(sent, "on_duplicate") {
            "reject" => return ("duplicate_key", false),
            "replace" if leased => return ("message_leased", false),
            "replace" => {
                let old = &self.messages[&holder];
                let (attempts, counted) = (old.attempts, old.counted);
                self.messages.insert(holder.clone(), Message { attempts, counted, ..new });
                self.add("replaced");
            }
            _ => {}
        }
        assert_eq!(id, Some(&*holder), "the message that has the key: {sent}");
        ("ok", true)
    }

    pub fn grant(&mut self, granted: &Value) {
        self.add("granted");
        let message = self.messages.get_mut(text(granted, "id")).expect("a message that is there");
        assert_eq!(message.state, "ready", "{granted}");
        message.state = "leased";
        message.token = text(granted, "lease_token").to_owned();
        message.attempts += 1;
        message.counted += 1;
        assert_eq!(granted["payload"], message.payload, "{granted}");
        assert_eq!(granted["priority"], message.priority, "{granted}");
        assert_eq!(granted["attempt"], message.attempts, "{granted}");
        let left = message.max_attempts - message.counted;
        assert_eq!(granted["attempts_left"], left, "{granted}");
        if message.until_granted {
            message.key = None;
        }
    }

    pub fn ack(&mut self, id: &str) {
        self.messages.remove(id);
        self.add("acked");
    }

    /// The state after this nack.
    pub fn nack(&mut self, item: &Value) -> &'static str {
        let message = self.messages.get_mut(text(item, "id")).unwrap();
        let release = item["release"] == true;
        if release {
            message.counted -= 1;
        }
        let delay = item["delay_ms"].as_i64();
        message.state = if item["dead"] == true || message.counted == message.max_attempts {
            "dead"
        } else if delay == Some(0) || (release && delay.is_none()) {
            "ready"
        } else {
            "delayed"
        };
        let state = message.state;
        self.add(if release { "released" } else { "nacked" });
        if state == "dead" {
            self.add("dead");
        }
        state
    }

    pub fn update(&mut self, id: &str, change: &Value) -> &'static str {
        let message = self.messages.get_mut(id).unwrap();
        match (message.state, change.get("delay_ms")) {
            ("leased", _) => return "message_leased",
            ("dead", Some(_)) => return "message_dead",
            (_, Some(delay)) => message.state = if *delay == 0 { "ready" } else { "delayed" },
            _ => {}
        }
        for (name, field) in [
            ("priority", &mut message.priority),
            ("payload", &mut message.payload),
            ("max_attempts", &mut message.max_attempts),
        ] {
            *field = change[name].as_i64().unwrap_or(*field);
        }
        "ok"
    }

    pub fn delete(&mut self, id: &str) {
        let message = self.messages.remove(id).unwrap();
        self.add("deleted");
        if message.state == "leased" {
            self.add("deleted_leased");
        }
    }

    pub fn purge(&mut self, id: &str) {
        self.messages.remove(id);
        self.add("purged");
    }

    pub fn redrive(&mut self, id: &str) -> &'static str {
        let message = &self.messages[id];
        if message.state != "dead" {
            return "message_not_dead";
        }
        if message.key.as_ref().is_some_and(|key| self.holder(key).is_some()) {
            return "duplicate_key";
        }
        let message = self.messages.get_mut(id).unwrap();
        (message.state, message.counted) = ("ready", 0);
        self.add("redriven");
        "ok"
    }

    /// How many of the dead a redrive of the topic brings back: one of each key that is free.
    pub fn redrivable(&self) -> usize {
        let mut keys = BTreeSet::new();
        let dead = self.messages.values().filter(|message| message.state == "dead");
        dead.filter(|message| match &message.key {
            None => true,
            Some(key) => self.holder(key).is_none() && keys.insert(key.clone()),
        })
        .count()
    }

    /// The topic, each message and each key must be what this says.
    pub async fn compare(&self, client: &Client, topic: &str) {
        let seen = topic_in_balance(client, topic).await;
        for state in ["delayed", "ready", "leased", "dead"] {
            assert_eq!(seen["counts"][state], self.count(state), "{state}: {seen}");
        }
        for name in [
            "published",
            "granted",
            "acked",
            "nacked",
            "released",
            "dead",
            "deleted",
            "deleted_leased",
            "purged",
            "redriven",
            "replaced",
        ] {
            let total = self.totals.get(name).copied().unwrap_or_default();
            assert_eq!(seen["totals"][name], total, "{name}: {seen}");
        }
        join_all(self.messages.iter().map(|(id, message)| async move {
            let seen = client.get(id).await.expect(200).json();
            assert_eq!(seen["state"], message.state, "{message:?} {seen}");
            assert_eq!(seen["payload"], message.payload, "{message:?} {seen}");
            assert_eq!(seen["priority"], message.priority, "{message:?} {seen}");
            let left = message.max_attempts - message.counted;
            if message.state != "dead" {
                assert_eq!(seen["attempts_left"], left, "{message:?} {seen}");
            }
        }))
        .await;
        join_all(["a", "b", "c/d", "é 1"].map(|key| async move {
            let answer = client.get_by_key(topic, key).await;
            match self.holder(key) {
                Some(id) => assert_eq!(answer.expect(200).json()["id"], json!(id), "{key}"),
                None => drop(answer.problem(404, "message_not_found")),
            }
        }))
        .await;
    }
}
