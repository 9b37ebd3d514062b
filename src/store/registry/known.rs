//! The topics of the registry that this instance has read of, for as long as somebody uses them.

use super::Topic;
use crate::model::{TopicName, TopicNumber};
use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
};

/// They, by both of their names.
#[derive(Default)]
pub(super) struct Known {
    /// In which of the epochs that were met it was learnt: a Redis that restarts or is replaced may have gone back.
    pub epochs: u64,
    pub by_name: HashMap<TopicName, Arc<Topic>>,
    pub by_number: HashMap<TopicNumber, Arc<Topic>>,
}

impl Known {
    /// Forgets those that nobody has looked for since this was last called: they may be gone, or another instance's.
    pub fn forget_unused(&mut self) {
        self.by_name.retain(|_, topic| topic.used.swap(false, Ordering::Relaxed));
        let known = &self.by_name;
        self.by_number.retain(|_, topic| {
            known.get(&topic.name).is_some_and(|other| Arc::ptr_eq(topic, other))
        });
    }
}

impl Topic {
    /// The same, which is kept a while longer for it.
    pub(super) fn used(self: &Arc<Self>) -> Arc<Self> {
        // Hardly ever written, so that many may read it at once.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::TopicSettings, store::fuzz::topic};

    #[test]
    fn a_topic_is_forgotten_once_nobody_has_looked_for_it_for_a_round() {
        let (mut known, topic) = (Known::default(), topic(TopicSettings::default()));
        known.by_name.insert(topic.name.clone(), topic.clone());
        known.by_number.insert(topic.route.topic, topic.clone());
        known.forget_unused();
        topic.used();
        known.forget_unused();
        assert_eq!((known.by_name.len(), known.by_number.len()), (1, 1));
        known.forget_unused();
        assert_eq!((known.by_name.len(), known.by_number.len()), (0, 0));
    }
}
