//! How requests get into the lanes.

use super::{
    call::{Single, Ticket, Verb},
    job::Job,
    lanes::{Lanes, Wake},
    registry::Topic,
    reply::CallError,
};
use crate::{model::TopicName, seeded};
use deadpool_redis::redis::{Cmd, Value};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Instant,
};
use tokio::sync::oneshot;

/// Verbs whose requests go in groups.
pub(crate) trait Grouped: Verb {
    /// The job that carries such a request.
    fn job(ticket: Ticket<Self>) -> Job;
}

impl Lanes {
    /// Sends a request with others of its kind and waits for its answer.
    pub async fn submit<V: Grouped>(
        &self,
        topic: &Arc<Topic>,
        verb: V,
    ) -> Result<V::Answer, CallError> {
        let (answer, answered) = oneshot::channel();
        let (topic, since, answer) = (topic.clone(), Instant::now(), Some(answer));
        let ticket = Ticket { verb, topic, since, answer };
        self.inbox.put(V::job(ticket));
        // A lane that ended without an answer had sent the request, or may have.
        answered.await.unwrap_or(Err(CallError::Unknown))
    }

    /// Sends requests that go to Redis in this order, and waits for all answers.
    pub async fn submit_many<V: Grouped>(
        &self,
        requests: impl Iterator<Item = (Arc<Topic>, V)>,
    ) -> Vec<Result<V::Answer, CallError>> {
        let mut outcomes = Vec::new();
        for answered in self.send_many(requests) {
            outcomes.push(answered.await.unwrap_or(Err(CallError::Unknown)));
        }
        outcomes
    }

    /// Sends requests that go to Redis in this order; where their answers arrive.
    pub fn send_many<V: Grouped>(
        &self,
        requests: impl Iterator<Item = (Arc<Topic>, V)>,
    ) -> Vec<oneshot::Receiver<Result<V::Answer, CallError>>> {
        let since = Instant::now();
        let (tickets, answers): (Vec<_>, Vec<_>) = requests
            .map(|(topic, verb)| {
                let (answer, answered) = oneshot::channel();
                (V::job(Ticket { verb, topic, since, answer: Some(answer) }), answered)
            })
            .unzip();
        if !tickets.is_empty() {
            self.inbox.put_all(tickets);
        }
        answers
    }

    /// Sends one command of no script. Errors: as for every call.
    pub async fn command(&self, command: Cmd) -> Result<Value, CallError> {
        let (answer, answered) = oneshot::channel();
        self.inbox.put(Single { command, answer }.job());
        answered.await.unwrap_or(Err(CallError::Unknown))
    }

    /// Wakes this instance's consumers of `topic` while the wake-up that the script sent does not reach them.
    pub fn wake(&self, topic: &TopicName) {
        if !self.listening.load(Ordering::Relaxed) || seeded::bug("wake-up left to the instance") {
            // Nobody waits while the instance stops.
            let _ = self.wakes.send(Wake::Topic(topic.clone()));
        }
    }
}
