//! What answers say, for the record.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::timeout;

use crate::harness::{Answer, instant_ms};
use crate::proof::history::{Grant, Ms, Outcome, Published, Seen};

#[derive(Deserialize)]
struct Leases {
    messages: Vec<Leased>,
}

#[derive(Deserialize)]
struct Leased {
    id: String,
    lease_token: String,
    payload: Box<RawValue>,
    group: Option<String>,
    attempt: i64,
    attempts_left: i64,
    due_at: String,
    lease_expires_at: String,
}

/// What an answer, or its absence, says about whether the request ran.
pub async fn outcome_of(
    answer: impl Future<Output = Result<Answer, reqwest::Error>>,
) -> Outcome<Answer> {
    let answer = match timeout(Duration::from_secs(30), answer).await {
        Ok(Err(error)) if error.is_connect() => return Outcome::Never,
        Err(_) | Ok(Err(_)) => return Outcome::Unknown,
        Ok(Ok(answer)) if answer.status < 300 => return Outcome::Ok(answer),
        Ok(Ok(answer)) => answer,
    };
    match answer.text("code").as_str() {
        "redis_unavailable" => Outcome::Never,
        "outcome_unknown" => Outcome::Unknown,
        code => Outcome::Refused(answer.status, code.to_owned()),
    }
}

/// The messages of a lease's answer.
pub fn grants(answer: &Answer, lease_ms: Ms) -> Vec<Grant> {
    let leases: Leases = serde_json::from_slice(&answer.body).expect("a lease's answer");
    leases.messages.into_iter().map(|leased| leased.grant(lease_ms)).collect()
}

impl Leased {
    fn grant(self, lease_ms: Ms) -> Grant {
        let deadline = instant_ms(&self.lease_expires_at);
        Grant {
            id: self.id,
            token: self.lease_token,
            payload: self.payload.get().to_owned(),
            group: self.group,
            attempt: self.attempt,
            attempts_left: self.attempts_left,
            due_at: instant_ms(&self.due_at),
            granted_at: deadline - lease_ms,
            deadline,
        }
    }
}

/// A published message.
pub fn published(message: &Value) -> Published {
    Published {
        id: message["id"].as_str().expect("an id").to_owned(),
        due_at: message["due_at"].as_str().map_or(0, instant_ms),
        duplicate: message["duplicate"] == true,
    }
}

/// A message as it is shown.
pub fn seen(answer: &Answer) -> Seen {
    let json = answer.json();
    Seen {
        state: answer.text("state"),
        due_at: json["due_at"].as_str().map(instant_ms),
        attempts: answer.number("attempts"),
        attempts_left: answer.number("attempts_left"),
    }
}
