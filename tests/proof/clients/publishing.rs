//! Publishing: one message or many, and once more what may have been published already.

use super::drafts::{Draft, Options, payload};
use super::wire::{PublishResult, PublishedWire, Results, outcome_of};
use crate::proof::actor::{Actor, read};
use crate::proof::history::{Ms, Outcome, Publish, Published, What, now};

impl Actor {
    /// A payload that no other publish or update has.
    pub fn payload(&mut self, padding: usize) -> String {
        self.payloads += 1;
        payload(self.number, self.payloads, padding)
    }

    /// A publish with a payload of its own, not sent yet.
    pub fn draft(&mut self, options: Options) -> Draft {
        let payload = self.payload(options.padding);
        Draft::new(payload, options)
    }

    /// publishMessage, with a payload that no other publish has.
    pub async fn publish(&mut self, options: Options) -> Outcome<Published> {
        let draft = self.draft(options);
        self.send(&draft).await
    }

    /// publishMessage of a draft. To send one again is for those with an idempotency key: without
    /// one it is a second message of the same payload.
    pub async fn send(&mut self, draft: &Draft) -> Outcome<Published> {
        let sent = now();
        let path = format!("/topics/{}/messages", self.topic);
        let answer = self.ask("POST", &path, Some(draft.body.clone().into_bytes()), None).await;
        let outcome = answer.map(|answer| Published::from(read::<PublishedWire>(answer)));
        self.note_publish(sent, draft, &outcome).await;
        outcome
    }

    /// publishBatch, each item recorded as a publish of its own. What came of each: an item's own
    /// status, or what came of the request where that is not 200.
    pub async fn send_batch(&mut self, drafts: &[Draft]) -> Vec<Outcome<Published>> {
        let mut body = String::from(r#"{"messages":["#);
        for (index, draft) in drafts.iter().enumerate() {
            body += if index == 0 { "" } else { "," };
            body += &draft.body;
        }
        body += "]}";
        let sent = now();
        let path = format!("/topics/{}/messages/batch", self.topic);
        let answer = self.ask("POST", &path, Some(body.into_bytes()), None).await;
        let outcomes = match answer.map(read::<Results<PublishResult>>) {
            Outcome::Ok(Results { results }) => {
                assert_eq!(results.len(), drafts.len(), "the contract: a result for each message");
                results.into_iter().map(outcome).collect()
            }
            other => vec![other.map(|_| unreachable!("it was not ok")); drafts.len()],
        };
        for (draft, outcome) in drafts.iter().zip(&outcomes) {
            self.note_publish(sent, draft, outcome).await;
        }
        outcomes
    }

    /// publishBatch of new messages.
    pub async fn publish_batch(&mut self, options: Vec<Options>) -> Vec<Outcome<Published>> {
        let drafts: Vec<Draft> = options.into_iter().map(|options| self.draft(options)).collect();
        self.send_batch(&drafts).await
    }

    async fn note_publish(&self, sent: Ms, draft: &Draft, outcome: &Outcome<Published>) {
        let delay = draft.at.map_or(draft.publish.delay, |at| (at - sent).max(0));
        let publish = Publish { outcome: outcome.clone(), delay, ..draft.publish.clone() };
        self.note(sent, What::Publish(publish)).await;
    }
}

fn outcome(result: PublishResult) -> Outcome<Published> {
    let PublishResult { status, message } = result;
    outcome_of(&status, || message.expect("the contract: an ok comes with its message").into())
}
