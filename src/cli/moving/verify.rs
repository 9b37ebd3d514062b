//! Compares what is there with a dump: for each topic the number of messages, and a hash of what they are.

use super::{
    message::Message,
    place::{Plan, partitions},
    source::{self, Failure},
};
use dueq_store::Store;
use std::collections::HashMap;

/// How many messages there are, and the sum of their digests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    messages: u64,
    sum: u128,
}

impl Tally {
    fn count(&mut self, message: &Message) {
        self.messages += 1;
        self.sum = self.sum.wrapping_add(message.digest());
    }
}

/// The messages of a dump, by topic.
#[derive(Default)]
pub struct Tallies(HashMap<String, Tally>);

impl Tallies {
    /// Counts a message of the dump.
    pub fn count(&mut self, message: &Message) {
        match self.0.get_mut(&message.topic) {
            Some(tally) => tally.count(message),
            None => self.0.entry(message.topic.clone()).or_default().count(message),
        }
    }

    /// What is not as in the dump, a line for each topic.
    pub async fn compare(&self, store: &Store, plan: &Plan) -> Result<Vec<String>, Failure> {
        let mut differ = Vec::new();
        for (name, target) in plan.targets.iter().filter(|(_, target)| !target.is_released) {
            let wanted = self.0.get(name).copied().unwrap_or_default();
            let (mut found, mut damaged) = (Tally::default(), 0);
            for partition in partitions(store, &target.name).await? {
                let count = |message: Option<Message>| {
                    match message {
                        Some(message) => found.count(&message),
                        None => damaged += 1,
                    }
                    Ok(())
                };
                source::messages(store, &partition, count).await?;
            }
            let Tally { messages, .. } = found;
            if damaged > 0 {
                differ.push(format!("{}: {damaged} messages are damaged", target.name));
            } else if messages != wanted.messages {
                let wanted = wanted.messages;
                differ.push(format!("{}: {messages} messages, not {wanted}", target.name));
            } else if found != wanted {
                differ.push(format!("{}: {messages} messages, not the same", target.name));
            }
        }
        differ.sort();
        Ok(differ)
    }
}
