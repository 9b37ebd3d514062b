//! What the audit log is to know of a request beside the request: its handler finds it out.

use dueq_model::TopicName;
use std::sync::{
    OnceLock,
    atomic::{AtomicBool, AtomicI64, Ordering},
};

/// What is known of a request's effect by whoever handles it.
#[derive(Debug)]
pub struct Facts {
    pub(super) topic: OnceLock<TopicName>,
    /// Where a schedule published before.
    pub(super) from_topic: OnceLock<TopicName>,
    /// -1: not counted.
    pub(super) count: AtomicI64,
    /// Others than this are kept only if they are refused.
    pub(super) is_change: AtomicBool,
}

impl Facts {
    /// Nothing yet, of an operation that is a change or not.
    pub fn new(is_change: bool) -> Self {
        let (topic, from_topic) = (OnceLock::new(), OnceLock::new());
        Self { topic, from_topic, count: AtomicI64::new(-1), is_change: is_change.into() }
    }

    /// The topic is this one. If another was named before, it is the one that a schedule leaves.
    pub fn is_about(&self, topic: &TopicName) {
        if self.topic.get_or_init(|| topic.clone()) != topic {
            let _ = self.from_topic.set(topic.clone());
        }
    }

    /// It changes messages, though its operation need not.
    pub fn is_change(&self) {
        self.is_change.store(true, Ordering::Relaxed);
    }

    /// So many messages were changed.
    pub fn count(&self, messages: i64) {
        self.count.store(messages, Ordering::Relaxed);
    }
}
