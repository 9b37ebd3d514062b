//! What a probe's client does besides what the load's clients do: it leaves nothing to chance.

use serde_json::json;

use crate::proof::actor::{Actor, Options};
use crate::proof::clients::holding::Give;
use crate::proof::clients::wire::{Results, Status, outcome_of};
use crate::proof::history::{Back, Grant, Ms, Nacked, Outcome, What, now};

impl Actor {
    /// A publish that must succeed; its id.
    pub async fn publish_ok(&mut self, options: Options) -> String {
        self.publish(options).await.ok().expect("a publish without a fault").id.clone()
    }

    /// So many of these.
    pub async fn publish_each(&mut self, number: usize, options: Options) {
        for _ in 0..number {
            self.publish_ok(options.clone()).await;
        }
    }

    /// A lease that must succeed, whatever it grants.
    pub async fn leased(&mut self, max_messages: usize, lease_ms: Ms, wait: Ms) -> Vec<Grant> {
        let leased = self.lease(max_messages, lease_ms, wait, &[]).await;
        leased.ok().cloned().unwrap_or_default()
    }

    /// The same, and an ack of each.
    pub async fn work(&mut self, max_messages: usize, wait: Ms) {
        for grant in self.leased(max_messages, 30_000, wait).await {
            self.ack(&grant).await;
        }
    }

    /// ackMessage of each.
    pub async fn ack_all(&mut self, grants: &[Grant]) {
        for grant in grants {
            self.ack(grant).await;
        }
    }

    /// nackMessage.
    pub async fn end(&mut self, grant: &Grant, back: Back, delay: Option<Ms>) -> Outcome<Nacked> {
        self.give(&Give { grant: grant.clone(), back, delay }).await
    }

    /// A lease, and a nack of each.
    pub async fn fail(&mut self, max_messages: usize, wait: Ms, back: Back, delay: Option<Ms>) {
        for grant in self.leased(max_messages, 30_000, wait).await {
            self.end(&grant, back, delay).await;
        }
    }

    /// deleteBatch.
    pub async fn delete_batch(&mut self, ids: &[&str]) {
        let sent = now();
        let answer = self.post::<Results<Status>>("/messages/delete", &json!({"ids": ids})).await;
        for (at, id) in ids.iter().enumerate() {
            let outcome = match &answer {
                Outcome::Ok(answer) => outcome_of(&answer.results[at].status, || ()),
                failed => failed.bare(),
            };
            self.note(sent, What::Delete { id: (*id).to_owned(), force: false, outcome }).await;
        }
    }
}
