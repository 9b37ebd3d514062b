//! A recorded client that does exactly what it is told, one request after another, through one
//! instance: what a probe needs, which leaves nothing to chance.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::wire::{grants, outcome_of, published, seen};
use crate::harness::{Answer, Client, instant, instant_ms};
use crate::proof::history::{
    Back, Grant, Ms, Nacked, OnDuplicate, Outcome, Publish, Published, What, now,
};
use crate::proof::record::Recorder;

/// One client of one topic.
pub struct Hand {
    pub client: Client,
    recorder: Arc<Recorder>,
    topic: String,
    number: u64,
    instance: usize,
    published: AtomicU64,
    /// A bug: what may have run is heard as what never did.
    deaf: bool,
}

/// What a publish says beside its payload, which no other has unless it is given.
#[derive(Clone, Default)]
pub struct Ask {
    pub payload: Option<String>,
    pub delay: Ms,
    /// Due at this instant, in place of a delay.
    pub at: Option<Ms>,
    pub priority: u8,
    pub max_attempts: Option<u32>,
    pub ttl: Option<Ms>,
    pub key: Option<String>,
    pub on_duplicate: OnDuplicate,
    pub idempotency_key: Option<String>,
    pub group: Option<String>,
}

impl Ask {
    /// Due after this many ms.
    pub fn after(delay: Ms) -> Ask {
        Ask { delay, ..Ask::default() }
    }

    /// With this key.
    pub fn key(key: impl Into<String>) -> Ask {
        Ask { key: Some(key.into()), ..Ask::default() }
    }

    /// Of this group.
    pub fn group(group: impl Into<String>) -> Ask {
        Ask { group: Some(group.into()), ..Ask::default() }
    }

    /// With this many attempts.
    pub fn attempts(max_attempts: u32) -> Ask {
        Ask { max_attempts: Some(max_attempts), ..Ask::default() }
    }
}

impl Hand {
    pub fn new(
        recorder: &Arc<Recorder>,
        client: Client,
        topic: &str,
        (instance, number): (usize, u64),
    ) -> Hand {
        let (recorder, topic) = (recorder.clone(), topic.to_owned());
        let published = AtomicU64::new(0);
        Hand { client, recorder, topic, number, instance, published, deaf: false }
    }

    /// Hears `redis_unavailable` for `outcome_unknown`.
    pub fn deaf(self, deaf: bool) -> Hand {
        Hand { deaf, ..self }
    }

    /// publishMessage.
    pub async fn publish(&self, ask: Ask) -> Outcome<Published> {
        let sent = now();
        let (mut publish, body) = self.publish_of(ask, sent);
        let path = format!("/topics/{}/messages", self.topic);
        let outcome = self.post(&path, body).await.map(|answer| published(&answer.json()));
        publish.outcome = outcome.clone();
        self.note(sent, What::Publish(publish));
        moment().await;
        outcome
    }

    /// A publish that must succeed; its id.
    pub async fn publish_ok(&self, ask: Ask) -> String {
        self.publish(ask).await.ok().expect("a publish without a fault").id.clone()
    }

    /// publishBatch, which must succeed; each message is recorded as a publish of its own.
    pub async fn publish_batch(&self, asks: Vec<Ask>) {
        let sent = now();
        let asks: Vec<_> = asks.into_iter().map(|ask| self.publish_of(ask, sent)).collect();
        let bodies: Vec<&str> = asks.iter().map(|(_, body)| body.as_str()).collect();
        let path = format!("/topics/{}/messages/batch", self.topic);
        let answer = self.post(&path, format!(r#"{{"messages":[{}]}}"#, bodies.join(","))).await;
        let results = answer.ok().expect("a batch without a fault").json();
        for ((mut publish, _), result) in
            asks.into_iter().zip(results["results"].as_array().unwrap())
        {
            publish.outcome = Outcome::Ok(published(&result["message"]));
            self.note(sent, What::Publish(publish));
        }
    }

    /// What goes into the record, and the request's body.
    fn publish_of(&self, ask: Ask, sent: Ms) -> (Publish, String) {
        let n = self.published.fetch_add(1, Ordering::Relaxed);
        let payload = ask.payload.unwrap_or_else(|| format!(r#"{{"u" :"{}-{n}"}}"#, self.number));
        let mut more = json!({"priority": ask.priority});
        match ask.at {
            Some(at) => more["deliver_at"] = json!(instant(at)),
            None => more["delay_ms"] = json!(ask.delay),
        }
        let optional = [
            ("max_attempts", ask.max_attempts.map(Value::from)),
            ("ttl_ms", ask.ttl.map(Value::from)),
            ("key", ask.key.clone().map(Value::from)),
            ("on_duplicate", ask.key.as_ref().map(|_| ask.on_duplicate.word().into())),
            ("idempotency_key", ask.idempotency_key.clone().map(Value::from)),
            ("group", ask.group.clone().map(Value::from)),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                more[name] = value;
            }
        }
        let body = format!(r#"{{"payload":{payload},{}"#, &more.to_string()[1..]);
        let publish = Publish {
            payload,
            delay: ask.at.map_or(ask.delay, |at| (at - sent).max(0)),
            priority: ask.priority,
            max_attempts: ask.max_attempts,
            ttl: ask.ttl,
            key: ask.key,
            on_duplicate: ask.on_duplicate,
            key_until_granted: false,
            idempotency_key: ask.idempotency_key,
            group: ask.group,
            outcome: Outcome::Unknown,
        };
        (publish, body)
    }

    /// leaseMessages.
    pub async fn lease(&self, max_messages: usize, lease_ms: Ms, wait: Ms) -> Outcome<Vec<Grant>> {
        let body = json!({"max_messages": max_messages, "lease_ms": lease_ms, "wait_ms": wait});
        let sent = now();
        let path = format!("/topics/{}/lease", self.topic);
        let outcome =
            self.post(&path, body.to_string()).await.map(|answer| grants(&answer, lease_ms));
        self.note(sent, What::Lease { max_messages, wait, outcome: outcome.clone() });
        outcome
    }

    /// A lease that must succeed, whatever it grants.
    pub async fn leased(&self, max_messages: usize, lease_ms: Ms, wait: Ms) -> Vec<Grant> {
        self.lease(max_messages, lease_ms, wait).await.ok().cloned().unwrap_or_default()
    }

    /// ackMessage.
    pub async fn ack(&self, grant: &Grant) -> Outcome<()> {
        let sent = now();
        let outcome = self.hold("ack", grant, json!({})).await.map(|_| ());
        let (id, token) = (grant.id.clone(), grant.token.clone());
        self.note(sent, What::Ack { id, token, outcome: outcome.clone() });
        outcome
    }

    /// nackMessage.
    pub async fn nack(&self, grant: &Grant, back: Back, delay: Option<Ms>) -> Outcome<Nacked> {
        let sent = now();
        let mut body = json!({});
        match back {
            Back::Failed => {}
            Back::Released => body["release"] = json!(true),
            Back::Dead => body["dead"] = json!(true),
        }
        if let Some(delay) = delay {
            body["delay_ms"] = json!(delay);
        }
        let outcome = self.hold("nack", grant, body).await.map(|answer| Nacked {
            state: answer.text("state"),
            due_at: answer.json()["due_at"].as_str().map(instant_ms),
            attempt: answer.number("attempt"),
        });
        let (id, token) = (grant.id.clone(), grant.token.clone());
        self.note(sent, What::Nack { id, token, back, delay, outcome: outcome.clone() });
        outcome
    }

    /// extendLease.
    pub async fn extend(&self, grant: &Grant, lease_ms: Ms) -> Outcome<Ms> {
        let sent = now();
        let answer = self.hold("extend", grant, json!({"lease_ms": lease_ms})).await;
        let outcome = answer.map(|answer| answer.instant("lease_expires_at"));
        let (id, token) = (grant.id.clone(), grant.token.clone());
        self.note(sent, What::Extend { id, token, lease_ms, outcome: outcome.clone() });
        outcome
    }

    /// deleteMessage.
    pub async fn delete(&self, id: &str, force: bool) -> Outcome<()> {
        let sent = now();
        let path = format!("/messages/{id}{}", if force { "?force=true" } else { "" });
        let outcome = self.send("DELETE", &path, None).await.map(|_| ());
        let what = What::Delete { id: id.to_owned(), force, outcome: outcome.clone() };
        self.note(sent, what);
        moment().await;
        outcome
    }

    /// deleteBatch.
    pub async fn delete_batch(&self, ids: &[&str]) {
        let sent = now();
        let answer = self.post("/messages/delete", json!({"ids": ids}).to_string()).await;
        for (at, id) in ids.iter().enumerate() {
            let status = |answer: Answer| answer.json()["results"][at]["status"].take();
            let outcome = match answer.clone().map(status) {
                Outcome::Ok(status) if status == "ok" => Outcome::Ok(()),
                Outcome::Ok(status) => {
                    Outcome::Refused(200, status.as_str().unwrap_or_default().to_owned())
                }
                failed => failed.map(|_| ()),
            };
            self.note(sent, What::Delete { id: (*id).to_owned(), force: false, outcome });
        }
        moment().await;
    }

    /// updateMessage.
    pub async fn update(&self, id: &str, payload: Option<String>, delay: Option<Ms>) {
        let sent = now();
        let given = payload.as_ref().map(|payload| format!(r#""payload":{payload}"#));
        let given = given.into_iter().chain(delay.map(|delay| format!(r#""delay_ms":{delay}"#)));
        let body = format!("{{{}}}", given.collect::<Vec<_>>().join(","));
        let answer = self.send("PATCH", &format!("/messages/{id}"), Some(body)).await;
        let outcome = answer.map(|answer| seen(&answer));
        self.note(sent, What::Update { id: id.to_owned(), payload, delay, outcome });
        moment().await;
    }

    /// redriveMessage.
    pub async fn redrive(&self, id: &str) {
        let sent = now();
        let answer = self.post(&format!("/messages/{id}/redrive"), "{}".to_owned()).await;
        let outcome = answer.map(|answer| seen(&answer));
        self.note(sent, What::Redrive { id: id.to_owned(), outcome });
        moment().await;
    }

    /// purgeTopic.
    pub async fn purge(&self, states: Vec<&'static str>) {
        let sent = now();
        let body = json!({"states": states}).to_string();
        let answer = self.post(&format!("/topics/{}/purge", self.topic), body).await;
        let outcome = answer.map(|answer| answer.number("purged"));
        self.note(sent, What::Purge { states, outcome });
        moment().await;
    }

    /// pauseTopic, or resumeTopic.
    pub async fn pause(&self, paused: bool) {
        let sent = now();
        let verb = if paused { "pause" } else { "resume" };
        let answer = self.post(&format!("/topics/{}/{verb}", self.topic), "{}".to_owned()).await;
        self.note(sent, What::Pause { paused, outcome: answer.map(|_| ()) });
        moment().await;
    }

    /// putTopic, which is not recorded.
    pub async fn configure(&self, config: Value) {
        self.client.send_json("PUT", &format!("/topics/{}", self.topic), &config).await;
    }

    fn note(&self, sent: Ms, what: What) {
        self.recorder.add(&self.topic, self.number, self.instance, sent, what);
    }

    async fn hold(&self, verb: &str, grant: &Grant, mut body: Value) -> Outcome<Answer> {
        body["lease_token"] = json!(grant.token);
        self.post(&format!("/messages/{}/{verb}", grant.id), body.to_string()).await
    }

    async fn post(&self, path: &str, body: String) -> Outcome<Answer> {
        self.send("POST", path, Some(body)).await
    }

    async fn send(&self, method: &str, path: &str, body: Option<String>) -> Outcome<Answer> {
        let headers = [("content-type", "application/json")];
        let headers = if body.is_some() { &headers[..] } else { &[] };
        let answer = self.client.try_send(method, path, headers, body.map(String::into_bytes));
        match outcome_of(answer).await {
            Outcome::Unknown if self.deaf => Outcome::Never,
            outcome => outcome,
        }
    }
}

/// What comes next is certain to come later: the record knows milliseconds.
pub async fn moment() {
    sleep(Duration::from_millis(3)).await;
}
