//! The state machine of the contract, walked edge by edge: where a message is after each step, by
//! getMessage and by the topic's counts alike.

use serde_json::{Value, json};

use crate::facts::topic_in_balance;
use crate::harness::*;

/// A topic with one message, and the client that moves it.
struct Walk {
    client: Client,
    topic: String,
    id: String,
}

impl Walk {
    async fn publish(message: Value) -> Walk {
        let (client, topic) = (client().await, topic("states"));
        let id = client.published(&topic, message).await;
        Walk { client, topic, id }
    }

    /// Leases for the shortest time that there is.
    async fn lease(&self) -> Value {
        self.client.lease_one_with(&self.topic, json!({"lease_ms": 1000})).await
    }

    /// The message is in this state, now or soon, and nowhere else.
    async fn reaches(&self, state: &str) {
        eventually(state, || async { (self.client.state(&self.id).await == state).then_some(()) })
            .await;
        self.only(state).await;
    }

    async fn is(&self, state: &str) {
        assert_eq!(self.client.state(&self.id).await, state);
        self.only(state).await;
    }

    async fn only(&self, state: &str) {
        let seen = topic_in_balance(&self.client, &self.topic).await;
        for name in ["delayed", "ready", "leased", "dead"] {
            assert_eq!(seen["counts"][name], i64::from(name == state), "{name}: {seen}");
        }
    }

    async fn is_gone(&self) {
        self.client.get(&self.id).await.problem(404, "message_not_found");
        self.only("gone").await;
        let want = json!({"max_messages": 10});
        assert!(self.client.leased(&self.topic, want).await.is_empty());
    }
}

/// Plain messages and those with a priority live in different places; each edge is walked by both.
fn both(mut message: Value) -> [Value; 2] {
    let plain = message.clone();
    message["priority"] = json!(7);
    [plain, message]
}

#[tokio::test]
async fn publish_to_ready() {
    for message in both(json!({"payload": 1})) {
        Walk::publish(message).await.is("ready").await;
    }
}

#[tokio::test]
async fn publish_to_delayed_to_ready() {
    for message in both(json!({"payload": 1, "delay_ms": 400})) {
        let walk = Walk::publish(message).await;
        walk.is("delayed").await;
        walk.reaches("ready").await;
    }
}

#[tokio::test]
async fn ready_to_leased_to_gone_by_ack() {
    for message in both(json!({"payload": 1})) {
        let walk = Walk::publish(message).await;
        let held = walk.lease().await;
        walk.is("leased").await;
        walk.client.ack_leased(&held).await.expect(204);
        walk.is_gone().await;
    }
}

#[tokio::test]
async fn delayed_to_leased_once_due() {
    for message in both(json!({"payload": 1, "delay_ms": 200})) {
        let walk = Walk::publish(message).await;
        walk.lease().await;
        walk.is("leased").await;
    }
}

#[tokio::test]
async fn leased_to_delayed_by_nack_to_ready_to_leased() {
    for message in both(json!({"payload": 1})) {
        let walk = Walk::publish(message).await;
        let held = walk.lease().await;
        walk.client.nack_leased(&held, json!({"delay_ms": 300})).await.expect(200);
        walk.is("delayed").await;
        walk.reaches("ready").await;
        assert_eq!(walk.lease().await["attempt"], 2);
        walk.is("leased").await;
    }
}

#[tokio::test]
async fn leased_to_ready_by_nack_without_delay() {
    for message in both(json!({"payload": 1})) {
        let walk = Walk::publish(message).await;
        let held = walk.lease().await;
        walk.client.nack_leased(&held, json!({"delay_ms": 0})).await.expect(200);
        walk.is("ready").await;
    }
}

#[tokio::test]
async fn leased_to_ready_by_expiry_to_leased() {
    for message in both(json!({"payload": 1})) {
        let walk = Walk::publish(message).await;
        walk.lease().await;
        walk.reaches("ready").await;
        assert_eq!(walk.lease().await["attempt"], 2);
        walk.is("leased").await;
        assert_eq!(walk.client.total(&walk.topic, "lease_expired").await, 1);
    }
}

#[tokio::test]
async fn leased_to_dead_by_the_last_nack() {
    for message in both(json!({"payload": 1, "max_attempts": 1})) {
        let walk = Walk::publish(message).await;
        let held = walk.lease().await;
        walk.client.nack_leased(&held, json!({})).await.expect(200);
        walk.is("dead").await;
        assert!(walk.client.leased(&walk.topic, json!({})).await.is_empty(), "dead stays dead");
        walk.is("dead").await;
    }
}

#[tokio::test]
async fn leased_to_dead_by_expiry_of_the_last_lease() {
    for message in both(json!({"payload": 1, "max_attempts": 1})) {
        let walk = Walk::publish(message).await;
        walk.lease().await;
        walk.reaches("dead").await;
        assert!(walk.client.leased(&walk.topic, json!({})).await.is_empty(), "dead stays dead");
        walk.is("dead").await;
        assert_eq!(walk.client.total(&walk.topic, "dead").await, 1);
    }
}

#[tokio::test]
async fn delayed_ready_and_dead_to_gone_by_delete() {
    for message in both(json!({"payload": 1, "delay_ms": 60_000})) {
        let walk = Walk::publish(message).await;
        walk.client.delete(&walk.id).await.expect(204);
        walk.is_gone().await;
    }
    for message in both(json!({"payload": 1})) {
        let walk = Walk::publish(message).await;
        walk.client.delete(&walk.id).await.expect(204);
        walk.is_gone().await;
    }
    for message in both(json!({"payload": 1, "max_attempts": 1})) {
        let walk = Walk::publish(message).await;
        let held = walk.lease().await;
        walk.client.nack_leased(&held, json!({})).await.expect(200);
        walk.client.delete(&walk.id).await.expect(204);
        walk.is_gone().await;
    }
}

#[tokio::test]
async fn leased_stays_leased_on_delete() {
    for message in both(json!({"payload": 1})) {
        let walk = Walk::publish(message).await;
        walk.client.lease_one(&walk.topic).await;
        walk.client.delete(&walk.id).await.problem(409, "message_leased");
        walk.is("leased").await;
    }
}
