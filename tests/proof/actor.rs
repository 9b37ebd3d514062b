//! A client that writes down every request it makes and what came of it.

use std::sync::{Arc, RwLock};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::harness::{Answer, Client, instant_ms};
use crate::history::{Grant, Ms, Nacked, Outcome, Published, Recorder, What, now};

/// The instances that clients talk to; a scenario replaces them as it kills them.
#[derive(Clone)]
pub struct Fleet(Arc<RwLock<Vec<Client>>>);

impl Fleet {
    /// These instances.
    pub fn new(clients: impl IntoIterator<Item = Client>) -> Fleet {
        Fleet(Arc::new(RwLock::new(clients.into_iter().collect())))
    }

    /// Another instance in the place of number `index`.
    pub fn replace(&self, index: usize, client: Client) {
        self.0.write().unwrap()[index] = client;
    }

    pub fn any(&self, random: &mut StdRng) -> Client {
        let clients = self.0.read().unwrap();
        clients[random.random_range(0..clients.len())].clone()
    }
}

/// One recorded client of one topic.
pub struct Actor {
    pub recorder: Arc<Recorder>,
    pub topic: String,
    pub random: StdRng,
    fleet: Fleet,
    number: u64,
    published: u64,
}

/// What a publish says beside its payload.
#[derive(Default)]
pub struct Options {
    pub delay: Ms,
    pub priority: u8,
    pub max_attempts: Option<u32>,
    pub headers: bool,
    /// Bytes of padding in the payload.
    pub padding: usize,
}

#[derive(Deserialize)]
struct Leases {
    messages: Vec<Leased>,
    acks: Option<Vec<AckStatus>>,
}

#[derive(Deserialize)]
struct Leased {
    id: String,
    lease_token: String,
    payload: Box<RawValue>,
    attempt: i64,
    attempts_left: i64,
    due_at: String,
    lease_expires_at: String,
}

#[derive(Deserialize)]
struct AckStatus {
    id: String,
    status: String,
}

impl Actor {
    /// Client `number` of a run; its choices follow from the run's seed and that number.
    pub fn new(recorder: &Arc<Recorder>, fleet: &Fleet, topic: &str, number: u64) -> Actor {
        Actor {
            recorder: recorder.clone(),
            topic: topic.to_owned(),
            random: StdRng::seed_from_u64(recorder.seed.wrapping_add(number)),
            fleet: fleet.clone(),
            number,
            published: 0,
        }
    }

    /// publishMessage, with a payload that no other publish has.
    pub async fn publish(&mut self, options: Options) -> Outcome<Published> {
        let Options { delay, priority, max_attempts, headers, padding } = options;
        self.published += 1;
        // Spelled as no serializer would, so that byte for byte means something.
        let payload = format!(
            r#"{{"u" :"{}-{}", "x":1.50, "pad":"{}"}}"#,
            self.number,
            self.published,
            "p".repeat(padding)
        );
        let mut body = format!(r#"{{"payload":{payload},"delay_ms":{delay},"priority":{priority}"#);
        if let Some(max_attempts) = max_attempts {
            body += &format!(r#","max_attempts":{max_attempts}"#);
        }
        if headers {
            body += r#","headers":{"X-Trace":"a"}"#;
        }
        let sent = now();
        let path = format!("/topics/{}/messages", self.topic);
        let outcome = self
            .post(&path, body + "}")
            .await
            .map(|answer| Published { id: answer.text("id"), due_at: answer.instant("due_at") });
        self.recorder.add(
            &self.topic,
            sent,
            What::Publish { payload, delay, outcome: outcome.clone() },
        );
        outcome
    }

    /// leaseMessages; `acks` go along and are recorded as acks of their own.
    pub async fn lease(
        &mut self,
        max_messages: usize,
        lease_ms: Ms,
        wait: Ms,
        acks: &[Grant],
    ) -> Outcome<Vec<Grant>> {
        let tokens = acks.iter().map(|ack| json!({"id": ack.id, "lease_token": ack.token}));
        let body = json!({
            "max_messages": max_messages, "lease_ms": lease_ms, "wait_ms": wait,
            "acks": tokens.collect::<Vec<_>>(),
        });
        let sent = now();
        let path = format!("/topics/{}/lease", self.topic);
        let answer = self.post(&path, body.to_string()).await.map(|answer| {
            serde_json::from_slice::<Leases>(&answer.body)
                .unwrap_or_else(|error| panic!("{error} in {answer}"))
        });
        if let Outcome::Ok(leases) = &answer {
            let answered: Vec<_> = leases.acks.iter().flatten().map(|ack| &ack.id).collect();
            assert!(answered.iter().eq(&acks.iter().map(|ack| &ack.id).collect::<Vec<_>>()));
        }
        for (index, ack) in acks.iter().enumerate() {
            let outcome = match &answer {
                Outcome::Ok(leases) => {
                    status(&leases.acks.iter().flatten().nth(index).unwrap().status)
                }
                Outcome::Refused(status, code) => Outcome::Refused(*status, code.clone()),
                Outcome::Never => Outcome::Never,
                Outcome::Unknown => Outcome::Unknown,
            };
            let (id, token) = (ack.id.clone(), ack.token.clone());
            self.recorder.add(&self.topic, sent, What::Ack { id, token, outcome });
        }
        let outcome = answer.map(|leases| {
            leases.messages.into_iter().map(|l| l.grant(lease_ms)).collect::<Vec<_>>()
        });
        let what = What::Lease { max_messages, wait, outcome: outcome.clone() };
        self.recorder.add(&self.topic, sent, what);
        outcome
    }

    /// ackMessage.
    pub async fn ack(&mut self, grant: &Grant) -> Outcome<()> {
        let sent = now();
        let outcome = self.hold("ack", grant, json!({})).await.map(|_| ());
        let (id, token) = (grant.id.clone(), grant.token.clone());
        self.recorder.add(&self.topic, sent, What::Ack { id, token, outcome: outcome.clone() });
        outcome
    }

    /// nackMessage.
    pub async fn nack(&mut self, grant: &Grant, delay: Ms) -> Outcome<Nacked> {
        let sent = now();
        let answer = self.hold("nack", grant, json!({"delay_ms": delay})).await;
        let outcome = answer.map(|answer| Nacked {
            state: answer.text("state"),
            due_at: answer.json()["due_at"].as_str().map(instant_ms),
            attempt: answer.number("attempt"),
        });
        let (id, token) = (grant.id.clone(), grant.token.clone());
        self.recorder.add(&self.topic, sent, What::Nack { id, token, outcome: outcome.clone() });
        outcome
    }

    /// extendLease.
    pub async fn extend(&mut self, grant: &Grant, lease_ms: Ms) -> Outcome<Ms> {
        let sent = now();
        let answer = self.hold("extend", grant, json!({"lease_ms": lease_ms})).await;
        let outcome = answer.map(|answer| answer.instant("lease_expires_at"));
        let (id, token) = (grant.id.clone(), grant.token.clone());
        self.recorder.add(&self.topic, sent, What::Extend { id, token, outcome: outcome.clone() });
        outcome
    }

    /// getTopic, which is not recorded.
    pub async fn topic(&mut self) -> Outcome<Value> {
        let client = self.fleet.any(&mut self.random);
        let path = format!("/topics/{}", self.topic);
        classify(client.try_send("GET", &path, &[], None), &path).await.map(|answer| answer.json())
    }

    async fn hold(&mut self, verb: &str, grant: &Grant, mut body: Value) -> Outcome<Answer> {
        body["lease_token"] = json!(grant.token);
        self.post(&format!("/messages/{}/{verb}", grant.id), body.to_string()).await
    }

    async fn post(&mut self, path: &str, body: String) -> Outcome<Answer> {
        let client = self.fleet.any(&mut self.random);
        let headers = [("content-type", "application/json")];
        classify(client.try_send("POST", path, &headers, Some(body.into_bytes())), path).await
    }
}

impl Leased {
    fn grant(self, lease_ms: Ms) -> Grant {
        let deadline = instant_ms(&self.lease_expires_at);
        Grant {
            id: self.id,
            token: self.lease_token,
            payload: self.payload.get().to_owned(),
            attempt: self.attempt,
            attempts_left: self.attempts_left,
            due_at: instant_ms(&self.due_at),
            granted_at: deadline - lease_ms,
            deadline,
        }
    }
}

/// The outcome of an ack that went along with a lease.
fn status(word: &str) -> Outcome<()> {
    match word {
        "ok" => Outcome::Ok(()),
        "redis_unavailable" => Outcome::Never,
        "outcome_unknown" => Outcome::Unknown,
        "lease_lost" => Outcome::Refused(409, word.into()),
        "message_not_found" => Outcome::Refused(404, word.into()),
        other => panic!("an ack's status {other:?}"),
    }
}

/// What an answer, or its absence, says about whether the request ran.
async fn classify(
    answer: impl Future<Output = Result<Answer, reqwest::Error>>,
    path: &str,
) -> Outcome<Answer> {
    let answer = match tokio::time::timeout(Duration::from_secs(20), answer).await {
        Err(_) => panic!("{path} hangs: no answer in 20 s"),
        Ok(Err(error)) if error.is_connect() => return Outcome::Never,
        Ok(Err(_)) => return Outcome::Unknown,
        Ok(Ok(answer)) => answer,
    };
    if answer.status < 300 {
        return Outcome::Ok(answer);
    }
    let code = answer.text("code");
    match code.as_str() {
        "redis_unavailable" => {
            assert!(!answer.header("retry-after").is_empty(), "no Retry-After: {answer}");
            Outcome::Never
        }
        "outcome_unknown" => Outcome::Unknown,
        _ => Outcome::Refused(answer.status, code),
    }
}
