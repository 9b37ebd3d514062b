//! What the holder of leases does: lease, ack, nack and extend, one by one and many at once.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::drafts::control;
use super::wire::{ExtendedWire, HoldResult, Leases, NackedWire, Results, Status, outcome_of};
use crate::proof::actor::{Actor, read};
use crate::proof::history::{Back, Grant, Ms, Nacked, Outcome, What, now};

/// A lease to give back, and how.
#[derive(Clone, Debug)]
pub struct Give {
    pub grant: Grant,
    pub back: Back,
    /// Absent: the backoff policy's, or at once for a release. A dead one has none.
    pub delay: Option<Ms>,
}

/// An item of a batch, or of a lease's acks.
#[derive(Serialize)]
struct Token<'a> {
    id: &'a str,
    lease_token: &'a str,
}

#[derive(Serialize)]
struct Want<'a> {
    max_messages: usize,
    lease_ms: Ms,
    wait_ms: Ms,
    acks: Vec<Token<'a>>,
}

fn token(grant: &Grant) -> Token<'_> {
    Token { id: &grant.id, lease_token: &grant.token }
}

impl Actor {
    /// leaseMessages; `acks` go along and are recorded as acks of their own.
    pub async fn lease(
        &mut self,
        max_messages: usize,
        lease_ms: Ms,
        wait: Ms,
        acks: &[Grant],
    ) -> Outcome<Vec<Grant>> {
        self.lease_until(max_messages, lease_ms, wait, acks, None).await
    }

    /// leaseMessages by a client that is gone after this long, and its connection with it: its
    /// outcome, and that of its acks, is then unknown.
    pub async fn lease_and_leave(
        &mut self,
        max_messages: usize,
        lease_ms: Ms,
        wait: Ms,
        acks: &[Grant],
        after: Duration,
    ) -> Outcome<Vec<Grant>> {
        self.lease_until(max_messages, lease_ms, wait, acks, Some(after)).await
    }

    async fn lease_until(
        &mut self,
        max_messages: usize,
        lease_ms: Ms,
        wait: Ms,
        acks: &[Grant],
        leave: Option<Duration>,
    ) -> Outcome<Vec<Grant>> {
        let tokens = acks.iter().map(token).collect();
        let body = Want { max_messages, lease_ms, wait_ms: wait, acks: tokens };
        let body = serde_json::to_vec(&body).expect("JSON");
        let sent = now();
        let path = format!("/topics/{}/lease", self.topic);
        let answer = self.ask("POST", &path, Some(body), leave).await;
        let (answer, statuses) = match answer.map(read::<Leases>) {
            Outcome::Ok(Leases { messages, acks }) => (Outcome::Ok(messages), Outcome::Ok(acks)),
            other => {
                let other = other.bare();
                (other.clone().map(|()| Vec::new()), other.map(|()| Vec::new()))
            }
        };
        let statuses = each(acks.iter().map(|ack| &ack.id), statuses, |status: &mut Status| {
            (&status.id, outcome_of(&status.status, || ()))
        });
        for (ack, outcome) in acks.iter().zip(statuses) {
            let (id, token) = (ack.id.clone(), ack.token.clone());
            self.note(sent, What::Ack { id, token, outcome }).await;
        }
        let grants = |messages: Vec<super::wire::Leased>| {
            messages.into_iter().map(|leased| leased.grant(lease_ms)).collect::<Vec<Grant>>()
        };
        let outcome = answer.map(grants);
        self.note(sent, What::Lease { max_messages, wait, outcome: outcome.clone() }).await;
        outcome
    }

    /// ackMessage.
    pub async fn ack(&mut self, grant: &Grant) -> Outcome<()> {
        let sent = now();
        let outcome = self.hold("ack", grant, json!({})).await.bare();
        let (id, token) = (grant.id.clone(), grant.token.clone());
        self.note(sent, What::Ack { id, token, outcome: outcome.clone() }).await;
        outcome
    }

    /// ackBatch.
    pub async fn ack_batch(&mut self, grants: &[Grant]) -> Vec<Outcome<()>> {
        let items = grants.iter().map(|grant| (&grant.id, &grant.token, json!({})));
        let (sent, outcomes) = self.hold_batch::<Value>("ack", items.collect()).await;
        let outcomes: Vec<Outcome<()>> = outcomes.iter().map(Outcome::bare).collect();
        for (grant, outcome) in grants.iter().zip(&outcomes) {
            let (id, token) = (grant.id.clone(), grant.token.clone());
            self.note(sent, What::Ack { id, token, outcome: outcome.clone() }).await;
        }
        outcomes
    }

    /// nackMessage of one that failed, due again after `delay`.
    pub async fn nack(&mut self, grant: &Grant, delay: Ms) -> Outcome<Nacked> {
        let grant = grant.clone();
        self.give(&Give { grant, back: Back::Failed, delay: Some(delay) }).await
    }

    /// nackMessage.
    pub async fn give(&mut self, give: &Give) -> Outcome<Nacked> {
        let sent = now();
        let answer = self.hold("nack", &give.grant, give.fields()).await;
        let outcome = answer.map(|answer| Nacked::from(read::<NackedWire>(answer)));
        self.note(sent, give.what(&outcome)).await;
        outcome
    }

    /// nackBatch.
    pub async fn give_batch(&mut self, gives: &[Give]) -> Vec<Outcome<Nacked>> {
        let item = |give| -> (&String, &String, Value) {
            let Give { grant, .. }: &Give = give;
            (&grant.id, &grant.token, give.fields())
        };
        let items = gives.iter().map(item).collect();
        let (sent, outcomes) = self.hold_batch::<NackedWire>("nack", items).await;
        let outcomes: Vec<_> = outcomes.into_iter().map(|o| o.map(Nacked::from)).collect();
        for (give, outcome) in gives.iter().zip(&outcomes) {
            self.note(sent, give.what(outcome)).await;
        }
        outcomes
    }

    /// extendLease; its new deadline.
    pub async fn extend(&mut self, grant: &Grant, lease_ms: Ms) -> Outcome<Ms> {
        let sent = now();
        let answer = self.hold("extend", grant, json!({"lease_ms": lease_ms})).await;
        let outcome = answer.map(|answer| Ms::from(read::<ExtendedWire>(answer)));
        let (id, token) = (grant.id.clone(), grant.token.clone());
        self.note(sent, What::Extend { id, token, lease_ms, outcome: outcome.clone() }).await;
        outcome
    }

    /// extendBatch, each for its own time; their new deadlines.
    pub async fn extend_batch(&mut self, grants: &[(Grant, Ms)]) -> Vec<Outcome<Ms>> {
        let items =
            grants.iter().map(|(grant, ms)| (&grant.id, &grant.token, json!({"lease_ms": ms})));
        let (sent, outcomes) = self.hold_batch::<ExtendedWire>("extend", items.collect()).await;
        let outcomes: Vec<_> = outcomes.into_iter().map(|o| o.map(Ms::from)).collect();
        for ((grant, lease_ms), outcome) in grants.iter().zip(&outcomes) {
            let (id, token, lease_ms) = (grant.id.clone(), grant.token.clone(), *lease_ms);
            self.note(sent, What::Extend { id, token, lease_ms, outcome: outcome.clone() }).await;
        }
        outcomes
    }

    async fn hold(
        &mut self,
        verb: &str,
        grant: &Grant,
        mut body: Value,
    ) -> Outcome<crate::harness::Answer> {
        body["lease_token"] = json!(grant.token);
        let path = format!("/messages/{}/{verb}", grant.id);
        self.ask("POST", &path, Some(body.to_string().into_bytes()), None).await
    }

    /// ackBatch, nackBatch, extendBatch of ids, tokens and further fields: when it was sent, and
    /// what came of each.
    async fn hold_batch<T: DeserializeOwned>(
        &mut self,
        verb: &str,
        items: Vec<(&String, &String, Value)>,
    ) -> (Ms, Vec<Outcome<T>>) {
        let message = |(id, token, fields): &(&String, &String, Value)| {
            let mut message = fields.clone();
            message["id"] = json!(id);
            message["lease_token"] = json!(token);
            message
        };
        let body = json!({"messages": items.iter().map(message).collect::<Vec<_>>()});
        let sent = now();
        let answer = self.post::<Results<HoldResult<T>>>(&format!("/messages/{verb}"), &body).await;
        let answer = answer.map(|answer| answer.results);
        let outcomes = each(items.iter().map(|(id, ..)| *id), answer, |result| {
            let rest = result.rest.take();
            let fields = || rest.expect("the contract: an ok comes with its fields");
            (&result.id, outcome_of(&result.status, fields))
        });
        (sent, outcomes)
    }
}

/// What came of each item of a request: its own outcome where the request was answered 200, with
/// one for each and in order; otherwise the request's.
fn each<'a, R, T>(
    ids: impl ExactSizeIterator<Item = &'a String>,
    answer: Outcome<Vec<R>>,
    outcome: impl Fn(&mut R) -> (&String, Outcome<T>),
) -> Vec<Outcome<T>> {
    let mut results = match answer {
        Outcome::Ok(results) => results,
        other => {
            let other = other.bare();
            return ids.map(|_| other.clone().map(|()| unreachable!("it was not ok"))).collect();
        }
    };
    assert_eq!(ids.len(), results.len(), "the contract: a result for each item");
    let both = ids.zip(&mut results);
    both.map(|(id, result)| {
        let (of, outcome) = outcome(result);
        assert_eq!(id, of, "the contract: results in order");
        outcome
    })
    .collect()
}

impl Give {
    fn fields(&self) -> Value {
        let mut fields = json!({});
        match self.back {
            Back::Failed => {}
            Back::Released => fields["release"] = json!(true),
            Back::Dead => fields["dead"] = json!(true),
        }
        if let Some(delay) = self.delay {
            fields["delay_ms"] = json!(delay);
        }
        if self.grant.attempt % 2 == 0 {
            let number = self.grant.attempt.unsigned_abs() / 2;
            fields["reason"] = json!(format!("why{}not, {number}", control(number)));
        }
        fields
    }

    fn what(&self, outcome: &Outcome<Nacked>) -> What {
        let Give { grant, back, delay } = self;
        let (id, token) = (grant.id.clone(), grant.token.clone());
        What::Nack { id, token, back: *back, delay: *delay, outcome: outcome.clone() }
    }
}
