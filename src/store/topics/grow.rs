//! Growth: a topic gets more partitions while it is in use. Nothing moves: ids name their partition, and a message without a
//! name may lie in any. A name has a home among so many partitions, though, where its repetition is looked for, so a topic
//! in which names stand does not grow.
//!
//! So that no name comes in between the look and the change, nothing is published meanwhile (`TopicSettings::closing`). The
//! registry decides: once it says how many partitions there are, whoever meets a partition that does not know opens it. A
//! growth that is cut off before that has not happened, and whoever waits for it takes `closing` back.

use super::super::{Store, batch::Command, partition::Partition, registry::Topic, reply::int};
use crate::{
    error::Error,
    model::{Millis, TopicSettings},
};
use futures_util::future::try_join_all;
use std::sync::Arc;

impl Store {
    /// Prepares the change of `topic` to `settings`, which have more partitions; false where the topic has to be read again
    /// first.
    ///
    /// Errors: `NamesInUse`, `RedisUnavailable`, `OutcomeUnknown`.
    pub(super) async fn prepare_growth(
        &self,
        topic: &Arc<Topic>,
        settings: &mut TopicSettings,
    ) -> Result<bool, Error> {
        let names = self.names_in(topic).await;
        if !topic.settings.closing {
            // Mostly there are names where there ever are, and nobody need be held up.
            return match names? {
                0 => self.set_closing(topic, true).await.map(|()| false).map_err(Error::from),
                names => Err(Error::NamesInUse(names)),
            };
        }
        let refused = match names {
            Ok(0) => None,
            Ok(names) => Some(Error::NamesInUse(names)),
            Err(error) => Some(error),
        };
        if let Some(error) = refused {
            // Where this fails, whoever publishes next does it.
            let _ = self.set_closing(topic, false).await;
            return Err(error);
        }
        if !topic.is_split() {
            // Only its partition knows.
            let there = self.topic_in_force(&topic.name).await?;
            settings.paused = there.paused;
            return Ok(there.topic.word == topic.word);
        }
        Ok(true)
    }

    /// How many names are in use in a topic: keys that messages hold, idempotency keys that still answer, heads of groups.
    async fn names_in(&self, topic: &Arc<Topic>) -> Result<i64, Error> {
        let count = async |partition: Partition| {
            let keys = Command::new("HLEN").arg(&partition.keys.keys);
            let answering = self.now_at(&partition).to_string();
            let idem = Command::new("ZCOUNT").arg((&partition.keys.idem_due, answering, "+inf"));
            // Each group with messages has at least one head.
            let heads = Command::new("ZCARD").arg(&partition.keys.heads);
            let counts = [keys, idem, heads].map(|count| self.lanes.command(count));
            let counts = try_join_all(counts).await?;
            counts.into_iter().map(int).sum::<Result<Millis, _>>().map_err(Error::from)
        };
        Ok(try_join_all(topic.all().map(count)).await?.into_iter().sum())
    }
}
