//! What is done to a message or a topic by a client who holds no lease.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::wire::{Purged, Redriven, SeenWire};
use crate::harness::encoded;
use crate::proof::actor::{Actor, read};
use crate::proof::history::{Ms, Outcome, Seen, What, now};

impl Actor {
    /// deleteMessage.
    pub async fn delete(&mut self, id: &str, force: bool) -> Outcome<()> {
        let sent = now();
        let query = if force { "?force=true" } else { "" };
        let path = format!("/messages/{id}{query}");
        let outcome = self.ask("DELETE", &path, None, None).await.bare();
        self.note(sent, What::Delete { id: id.to_owned(), force, outcome: outcome.clone() }).await;
        outcome
    }

    /// updateMessage of what is there.
    pub async fn update(
        &mut self,
        id: &str,
        payload: Option<String>,
        delay: Option<Ms>,
    ) -> Outcome<Seen> {
        let payload_field = payload.iter().map(|payload| format!(r#""payload":{payload}"#));
        let delay_field = delay.iter().map(|delay| format!(r#""delay_ms":{delay}"#));
        let fields = payload_field.chain(delay_field).collect::<Vec<_>>().join(",");
        let sent = now();
        let body = Some(format!("{{{fields}}}").into_bytes());
        let answer = self.ask("PATCH", &format!("/messages/{id}"), body, None).await;
        let outcome = answer.map(|answer| Seen::from(read::<SeenWire>(answer)));
        let (id, outcome_) = (id.to_owned(), outcome.clone());
        self.note(sent, What::Update { id, payload, delay, outcome: outcome_ }).await;
        outcome
    }

    /// redriveMessage.
    pub async fn redrive(&mut self, id: &str) -> Outcome<Seen> {
        let sent = now();
        let answer = self.ask("POST", &format!("/messages/{id}/redrive"), None, None).await;
        let outcome = answer.map(|answer| Seen::from(read::<SeenWire>(answer)));
        self.note(sent, What::Redrive { id: id.to_owned(), outcome: outcome.clone() }).await;
        outcome
    }

    /// redriveTopic of this many at most; how many were redriven.
    pub async fn redrive_topic(&mut self, max_messages: usize) -> Outcome<i64> {
        let sent = now();
        let answer: Outcome<Redriven> =
            self.on_topic("redrive", json!({"max_messages": max_messages})).await;
        let outcome = answer.map(|answer| answer.redriven);
        self.note(sent, What::RedriveTopic { max_messages, outcome: outcome.clone() }).await;
        outcome
    }

    /// purgeTopic; how many were purged.
    pub async fn purge(&mut self, states: &[&'static str]) -> Outcome<i64> {
        let sent = now();
        let answer: Outcome<Purged> = self.on_topic("purge", json!({"states": states})).await;
        let outcome = answer.map(|answer| answer.purged);
        self.note(sent, What::Purge { states: states.to_vec(), outcome: outcome.clone() }).await;
        outcome
    }

    /// pauseTopic, or resumeTopic.
    pub async fn pause(&mut self, paused: bool) -> Outcome<()> {
        let sent = now();
        let verb = if paused { "pause" } else { "resume" };
        let outcome = self.on_topic::<Value>(verb, json!({})).await.bare();
        self.note(sent, What::Pause { group: None, paused, outcome: outcome.clone() }).await;
        outcome
    }

    /// pauseGroup, or resumeGroup.
    pub async fn pause_group(&mut self, group: &str, paused: bool) -> Outcome<()> {
        let sent = now();
        let verb = if paused { "pause" } else { "resume" };
        let verb = format!("groups/{}/{verb}", encoded(group));
        let outcome = self.on_topic::<Value>(&verb, json!({})).await.bare();
        let group = Some(group.to_owned());
        self.note(sent, What::Pause { group, paused, outcome: outcome.clone() }).await;
        outcome
    }

    /// getMessage.
    pub async fn get(&mut self, id: &str) -> Outcome<Seen> {
        let sent = now();
        let answer = self.ask("GET", &format!("/messages/{id}"), None, None).await;
        let outcome = answer.map(|answer| Seen::from(read::<SeenWire>(answer)));
        self.note(sent, What::Get { id: id.to_owned(), outcome: outcome.clone() }).await;
        outcome
    }

    async fn on_topic<T: DeserializeOwned>(&mut self, verb: &str, body: Value) -> Outcome<T> {
        let path = format!("/topics/{}/{verb}", self.topic);
        self.post(&path, &body).await
    }
}
