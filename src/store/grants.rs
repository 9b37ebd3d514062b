//! What a lease grants, on its way to a consumer; and how it goes back where that is gone.

use super::{
    call::Verb,
    lanes::Lanes,
    nack::{How::Return, Nack},
    patience::Patience,
    registry::{Registry, Topic},
    reply::CallError,
};
use crate::model::{Body, MessageId, Millis, Seal, TopicName};
use std::sync::{Arc, Weak};
use tokio::sync::oneshot;

/// A leased message.
#[derive(Clone, Debug)]
pub struct Granted {
    /// Its id.
    pub id: MessageId,
    /// The due time that was in force.
    pub due_at: Millis,
    /// What the token says.
    pub seal: Seal,
    /// Counted grants that are left after this one.
    pub attempts_left: i64,
    /// Content and headers.
    pub body: Body,
    /// 0…255.
    pub priority: u8,
    /// The key that it was published with.
    pub key: Option<String>,
    /// When the lease ends.
    pub lease_expires_at: Millis,
    /// Bytes of payload.
    pub payload_bytes: u64,
}

/// Messages on their way to a consumer. Dropped before somebody took them over, they go back at once.
#[derive(Default)]
pub struct Grants {
    pub(super) messages: Vec<Granted>,
    pub(super) home: Option<(Home, Arc<Topic>)>,
}

impl Grants {
    /// The messages.
    pub fn messages(&self) -> &[Granted] {
        &self.messages
    }

    /// Adds those of a later call for the same want.
    pub fn append(&mut self, mut more: Self) {
        self.messages.append(&mut more.messages);
        self.home = self.home.take().or(more.home.take());
    }

    /// The messages, which are the caller's to give back from now on.
    pub fn take(mut self) -> Vec<Granted> {
        self.home = None;
        std::mem::take(&mut self.messages)
    }

    /// The consumer has them: from here on only its lease ends.
    pub fn deliver(&mut self) {
        self.home = None;
    }

    /// The topic's name.
    pub fn topic(&self) -> Option<&TopicName> {
        self.home.as_ref().map(|(_, topic)| &topic.name)
    }
}

impl Drop for Grants {
    fn drop(&mut self) {
        let Some((home, topic)) = self.home.take() else { return };
        let Some(lanes) = home.lanes.upgrade() else { return };
        let messages = std::mem::take(&mut self.messages);
        // Before the lanes stop, should they be about to.
        let sent = lanes.send_many(messages.iter().map(|message| message.give_back(&topic)));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(home.see_to(sent, topic, messages));
        }
    }
}

impl Granted {
    fn give_back(&self, topic: &Arc<Topic>) -> (Arc<Topic>, Nack) {
        (topic.clone(), Nack { id: self.id, seal: self.seal, how: Return(self.due_at) })
    }
}

/// Where grants go back to whose consumer is gone.
#[derive(Clone, Default)]
pub(crate) struct Home {
    pub lanes: Weak<Lanes>,
    pub registry: Weak<Registry>,
}

impl Home {
    /// Sees to it that `messages` go back whose topic has changed: they are its messages all the same.
    async fn see_to(
        self,
        mut sent: Vec<oneshot::Receiver<Result<<Nack as Verb>::Answer, CallError>>>,
        mut topic: Arc<Topic>,
        mut messages: Vec<Granted>,
    ) {
        let (Some(lanes), Some(registry)) = (self.lanes.upgrade(), self.registry.upgrade()) else {
            return;
        };
        let mut patience = Patience::new(lanes.timeout);
        while patience.another().await {
            let mut stale = Vec::new();
            for (message, answered) in messages.into_iter().zip(sent) {
                if let Ok(Err(CallError::Stale)) = answered.await {
                    stale.push(message);
                }
            }
            if stale.is_empty() || registry.refresh(&lanes, &topic).await.is_err() {
                return;
            }
            match registry.find(&lanes, &topic.name).await {
                Ok(Some(same)) if same.route == topic.route => topic = same,
                _ => return,
            }
            messages = stale;
            sent = lanes.send_many(messages.iter().map(|message| message.give_back(&topic)));
        }
    }
}
