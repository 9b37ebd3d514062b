//! The state machine of the contract, walked edge by edge: where a message is after each step, by getMessage and by the
//! topic's counts alike. Plain messages and those with a priority live in different places; each walk is gone by both.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::facts::topic_in_balance;
use crate::harness::*;

/// What is published, and the steps from there. A state is where the message must be now, and with a `~` where it comes by
/// itself; `gone` is nowhere; `nobody` demands that nobody is granted it. What is done must succeed, or get the status behind
/// its colon. Every lease lasts a second.
const WALKS: &[(&str, &str)] = &[
    ("{}", "ready"),
    (r#"{"delay_ms": 1500}"#, "delayed ~ready lease leased"),
    (r#"{"delay_ms": 60000}"#, "nobody delayed delete gone delete:404"),
    ("{}", "lease leased nobody ack gone ack:404 nack:404 extend:404"),
    ("{}", "delete gone delete:404"),
    ("{}", "lease nack delayed ~ready lease leased"),
    ("{}", "lease nack-now ready nack:409 ack:409 extend:409 ready lease leased ack gone"),
    ("{}", "lease ~ready ack:409 nack:409 extend:409 ready lease leased ack gone"),
    ("{}", "lease ~ready delete gone ack:404"),
    ("{}", "lease delete:409 leased ack gone"),
    (r#"{"max_attempts": 1}"#, "lease nack dead nobody dead ack:409 delete gone delete:404"),
    (r#"{"max_attempts": 1}"#, "lease nack-now dead"),
    (r#"{"max_attempts": 1}"#, "lease ~dead nobody dead ack:409 nack:409 extend:409 dead"),
    (r#"{"max_attempts": 1}"#, "lease delete:409 leased ack gone"),
    (r#"{"max_attempts": 2}"#, "lease ~ready lease nack-now dead"),
];

/// A message on its way.
struct Walker {
    client: Client,
    topic: String,
    id: String,
    held: Value,
    leases: i64,
}

impl Walker {
    async fn step(&mut self, step: &str) {
        let (client, topic, id) = (&self.client, &self.topic, &self.id);
        let (what, status) = step.split_once(':').unwrap_or((step, ""));
        let (done, answer) = match what {
            "lease" => {
                self.held = client.lease_one_with(topic, json!({"lease_ms": 1000})).await;
                self.leases += 1;
                assert_eq!(
                    (&self.held["id"], number(&self.held, "attempt")),
                    (&json!(id), self.leases)
                );
                return;
            }
            "nobody" => {
                return assert_eq!(client.leased(topic, json!({})).await, Vec::<Value>::new());
            }
            "gone" => {
                client.get(id).await.problem(404, "message_not_found");
                return self.only("gone").await;
            }
            "ack" => (204, client.ack_leased(&self.held).await),
            "nack" => (200, client.nack_leased(&self.held, json!({"delay_ms": 1500})).await),
            "nack-now" => (200, client.nack_leased(&self.held, json!({"delay_ms": 0})).await),
            "extend" => (200, client.extend_leased(&self.held, 1000).await),
            "delete" => (204, client.delete(id).await),
            _ => {
                let state = what.trim_start_matches('~');
                let reached = || async { (client.state(id).await == state).then_some(()) };
                match state == what {
                    true => assert_eq!(client.state(id).await, state),
                    false => eventually(state, reached).await,
                }
                return self.only(state).await;
            }
        };
        match status {
            "" => drop(answer.expect(done)),
            "404" => drop(answer.problem(404, "message_not_found")),
            _ if what == "delete" => drop(answer.problem(409, "message_leased")),
            _ => drop(answer.problem(409, "lease_lost")),
        }
    }

    /// The topic counts it there and nowhere else.
    async fn only(&self, state: &str) {
        let seen = topic_in_balance(&self.client, &self.topic).await;
        for name in ["delayed", "ready", "leased", "dead"] {
            assert_eq!(seen["counts"][name], i64::from(name == state), "{name}: {seen}");
        }
    }
}

#[tokio::test]
async fn every_edge_of_the_state_machine_leads_where_the_contract_says() {
    let walk = async |message: &str, steps: &str, priority: i64| {
        let (client, topic) = (client().await, topic("states"));
        let mut message: Value = serde_json::from_str(message).unwrap();
        (message["payload"], message["priority"]) = (json!(1), json!(priority));
        let id = client.published(&topic, message.clone()).await;
        let mut walker = Walker { client, topic, id, held: Value::Null, leases: 0 };
        for step in steps.split(' ') {
            println!("{message} {steps}: {step}");
            walker.step(step).await;
        }
    };
    let walks = WALKS.iter().flat_map(|(message, steps)| [0, 7].map(|it| walk(message, steps, it)));
    join_all(walks).await;
}
