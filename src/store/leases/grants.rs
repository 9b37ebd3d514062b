//! What a lease grants, on its way to a consumer; and how it goes back where the consumer is gone.

use crate::{
    Store,
    batch::Answered,
    nack::Nack,
    partition::Partition,
    registry::{Registry, Topic},
    reply::CallError,
    settle::Held,
    stale::StaleRetry,
    types::{NackKind, NackRequest, Nacked},
};
use dueq_model::{Body, LeaseClaims, MessageId, Millis, TopicName, error::Error};
use std::sync::{Arc, Weak};

/// What a consumer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseOptions {
    /// Messages, at most.
    pub max_messages: u64,
    /// Payload bytes, at most, but never less than one message.
    pub max_bytes: u64,
    /// How long the holder has, ms; `None`: as long as the topic says.
    pub lease_ms: Option<u64>,
    /// dueq itself asks, to send the messages of a pushed topic.
    pub push: bool,
    /// Messages of a group that keeps their order are granted together, as many as are due. A later one is not granted while one
    /// before it is leased.
    pub several: bool,
}

/// A leased message.
#[derive(Clone, Debug)]
pub struct Granted {
    /// Its id.
    pub id: MessageId,
    /// The due time that was in force.
    pub due_at: Millis,
    /// What its token says.
    pub claims: LeaseClaims,
    /// Counted grants that are left after this one.
    pub attempts_left: i64,
    /// Content and headers.
    pub body: Body,
    /// 0…255.
    pub priority: u8,
    /// The key that it was published with.
    pub key: Option<String>,
    /// The start of its call frees the key.
    pub frees_key: bool,
    /// Its group.
    pub group: Option<String>,
    /// When the lease ends.
    pub lease_expires_at: Millis,
    /// Bytes of payload.
    pub payload_bytes: u64,
}

/// The lease of a message whose body is damaged.
pub(crate) type Damaged = (MessageId, LeaseClaims);

/// Messages on their way to a consumer. If they are dropped on the way, they are given back at once.
#[derive(Default)]
pub struct Grants {
    pub(crate) messages: Vec<Granted>,
    /// The topic that they go back to.
    pub(crate) origin: Option<(Weak<Registry>, Arc<Topic>)>,
}

impl Grants {
    /// The messages.
    pub fn messages(&self) -> &[Granted] {
        &self.messages
    }

    /// Adds those of a later call for the same want.
    pub fn append(&mut self, mut more: Self) {
        self.messages.append(&mut more.messages);
        self.origin = self.origin.take().or(more.origin.take());
    }

    /// The messages, which are the caller's to give back from now on.
    pub fn take(mut self) -> Vec<Granted> {
        self.origin = None;
        std::mem::take(&mut self.messages)
    }

    /// The consumer has them: from here on only its lease ends.
    pub fn deliver(&mut self) {
        self.origin = None;
    }

    /// The topic's name.
    pub fn topic(&self) -> Option<&TopicName> {
        self.origin.as_ref().map(|(_, topic)| &topic.name)
    }
}

impl Store {
    /// Takes those messages out whose payloads are stored as JSON and are none. They are dead then: nobody could read the
    /// others of an answer with them.
    pub async fn bury_damaged(&self, grants: &mut Grants) {
        let is_sound = |message: &Granted| message.body.content.is_sound();
        if !grants.messages.iter().all(is_sound) {
            let all = std::mem::take(&mut grants.messages);
            let (sound, damaged): (_, Vec<_>) = all.into_iter().partition(is_sound);
            grants.messages = sound;
            self.bury(damaged.iter().map(|it| (it.id, it.claims)).collect()).await;
        }
    }

    /// Messages are dead whose bodies are damaged. Where that fails, they come back after their lease.
    pub(crate) async fn bury(&self, damaged: Vec<Damaged>) {
        for (id, claims) in damaged {
            let reason = Some("the stored body is damaged".to_owned());
            let dead = NackRequest { reason, kind: NackKind::Dead, ..NackRequest::default() };
            match self.settle_claimed(id, claims, Nack::Asked(dead)).await {
                Ok(_) => tracing::error!(%id, "a message is dead: its stored body is damaged"),
                Err(error) => tracing::warn!(%id, %error, "a stored body is damaged"),
            }
        }
    }
}

impl Drop for Grants {
    fn drop(&mut self) {
        let Some((registry, topic)) = self.origin.take() else { return };
        let Some(registry) = registry.upgrade() else { return };
        let messages = std::mem::take(&mut self.messages);
        // Before the lanes stop, should they be about to.
        let sent = send_back(&registry, &topic, &messages);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(see_to(registry, sent, topic, messages));
        }
    }
}

type Sent = Vec<Answered<Result<Nacked, Error>>>;

fn send_back(registry: &Registry, topic: &Arc<Topic>, messages: &[Granted]) -> Sent {
    let nack = |granted: &Granted| {
        let Granted { id, claims, due_at, lease_expires_at, .. } = *granted;
        // Nobody has the token of a message that dueq was to send itself.
        let what = match topic.settings.push {
            Some(_) => Nack::Park { due_at, lease_expires_at, put_off: None },
            None => Nack::Return(due_at),
        };
        (Partition::holding(topic, id), Held { id, claims, what })
    };
    registry.lanes.send_many(messages.iter().map(nack))
}

/// Sees to it that `messages` go back whose topic has changed: they are its messages all the same.
async fn see_to(
    registry: Arc<Registry>,
    mut sent: Sent,
    mut topic: Arc<Topic>,
    mut messages: Vec<Granted>,
) {
    let mut retry = StaleRetry::new(registry.lanes.timeout);
    while retry.next().await {
        let mut stale = Vec::new();
        for (message, answered) in messages.into_iter().zip(sent) {
            if let Ok(Err(CallError::Stale)) = answered.await {
                stale.push(message);
            }
        }
        let home = |message: &Granted| Partition::holding(&topic, message.id);
        let partitions = stale.iter().map(home).collect();
        if stale.is_empty() || registry.refresh_all(partitions).await.is_err() {
            return;
        }
        match registry.find(&topic.name).await {
            Ok(Some(same)) if same.number == topic.number => topic = same,
            _ => return,
        }
        messages = stale;
        sent = send_back(&registry, &topic, &messages);
    }
}
